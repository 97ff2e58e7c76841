"""The board of a competition as static files: a page of ratings and scores, and the viewer with every match."""

import json
import math
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import quote

from echelon.arena.competition import BOARD, ENTRIES, MATCHES, RULES, Competition, ListedMatch
from echelon.files import write_output
from echelon.replay.reader import Replay
from echelon.server.catalogue import summarize
from echelon.server.routes import STATIC
from echelon.version import SIM_VERSION, __version__
from echelon.web.folder import INDEX, MANIFEST, PageFolder

ATTACKERS = """<h2>Red team</h2>
<p>Attackers play their target only, and are not rated. The red-team score of an entry is the highest win rate of its
attackers with its 95 % interval: lower is better.</p>
<div class="wide"><table><tr><th>Attacker<th class="left">Target<th>Won</tr>
{rows}
</table></div>
"""
WATCH = "watch"
"""Folder of the viewer."""
PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><link rel="icon" href="data:,">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{name}</title>
<style>
:root {{ color-scheme: dark; --line: #1d2733; --soft: #8b99a8; --blue: #69b1ff; }}
body {{ font: 15px/1.5 Inter, system-ui, sans-serif; color: #e6edf3; background: #0a0e14; max-width: 76rem;
  margin: 0 auto; padding: 2rem 1.25rem; }}
h1 {{ margin: 0; font-size: 2.25rem; }}
h2 {{ margin: 2.5rem 0 .5rem; font-size: 1.125rem; }}
a {{ color: var(--blue); }}
.wide {{ overflow-x: auto; }}
table {{ border-collapse: collapse; white-space: nowrap; font-variant-numeric: tabular-nums; }}
th, td {{ padding: .3rem .75rem; border-bottom: 1px solid var(--line); text-align: right; }}
th {{ color: var(--soft); font-weight: 500; }}
th:first-child, td:first-child, .left {{ text-align: left; }}
tr:target th {{ color: var(--blue); }}
th.pair {{ padding-top: 1.5rem; color: #e6edf3; }}
td.score a {{ color: inherit; text-decoration: none; }}
td.score a:hover {{ text-decoration: underline; }}
td.score {{ background: color-mix(in srgb, var(--blue) calc(var(--share) * .5%), transparent); }}
.bar {{ position: relative; width: 16rem; }}
@media (max-width: 40rem) {{ .bar, th.bars, .more {{ display: none; }} th, td {{ padding: .3rem .4rem; }} }}
.bar i {{ position: absolute; inset: 45% auto 45% var(--low); width: var(--width); background: var(--soft); }}
.bar b {{ position: absolute; top: calc(50% - 4px); left: calc(var(--at) - 4px); width: 8px; height: 8px;
  border-radius: 4px; background: var(--blue); }}
small, p {{ color: var(--soft); }}
code {{ color: #e6edf3; overflow-wrap: anywhere; }}
</style>
<h1>{name}</h1>
<p>{played} of {planned} matches{state}. Ratings are Bradley-Terry's on the Elo scale, with 95 % intervals; {anchor} is
fixed at 1500. A rank is one more than the number of entries that are better with 95 % certainty. Every pair plays
{maps} from both sides.</p>
<h2>Ratings</h2>
<div class="wide"><table><tr><th>Rank<th class="left">Entry<th>Rating<th>±
<th class="left bars">95 % interval, {low:.0f} to {high:.0f}{red_team}<th>Matches<th>Points<th class="more">Nash
<th class="more">alpha-rank</tr>
{ratings}
</table></div>
<p>Points are wins and half the draws. Each pair has one additional draw, so that an entry that wins all has a rating.
Nash is the weight of an entry in the mixture that no entry beats, alpha-rank the share of its time that a
population spends with it.</p>
<h2>Scores</h2>
<p>A score leads to its matches.</p>
<div class="wide"><table><tr><th>Share of the points [%]{columns}</tr>
{scores}
</table></div>
{attackers}<h2>Matches</h2>
<p><a href="{watch}/index.html">All in the viewer</a>. From a disk it needs a server: <code>python -m http.server</code>
in the folder of this page, then http://localhost:8000.</p>
<div class="wide"><table><tr><th>Match<th class="left">Blue<th class="left">Red<th class="left">Winner
<th>Zone points<th>Time</tr>
{matches}
</table></div>
<h2>Check it</h2>
<p>In a copy of this folder <code>echelon compete verify FOLDER --published HASH</code> checks rules, entries, plan,
ratings and this page, and plays matches again. The host published the commitment <code>{commitment}</code> before the
entries and the seal <code>{seal}</code> before the first match; compare them with what you were told. Files:
<a href="competition.json">rules</a>, <a href="entries.json">entries</a>, <a href="matches.jsonl">matches</a>,
<a href="board.json">ratings</a>.</p>
</html>
"""


def write_board(competition: Competition) -> dict[str, Any]:
    """Write ``board.json``, the page and the viewer into the folder of a competition; return the board."""
    folder, board = competition.folder, competition.board()
    _write_viewer(competition, folder / WATCH)
    write_output(folder / BOARD, json.dumps(board, indent=1) + "\n")
    write_output(folder / INDEX, _page(competition, board))
    return board


def _write_viewer(competition: Competition, folder: Path) -> None:
    listed = {"sim_version": SIM_VERSION, "policy": {}, "games": {}, "matches": _summaries(competition)}
    PageFolder(folder, STATIC).finish(listed)


def files_check(competition: Competition) -> tuple[str, str]:
    """Return what was found of the folder's other files, the viewer and strange ones, and what is wrong with them."""
    c, folder = competition, competition.folder
    with TemporaryDirectory(prefix="echelon-viewer-") as made:
        _write_viewer(c, Path(made))
        fresh = {f"{WATCH}/{name}": (Path(made) / name).read_bytes() for name in _names(Path(made))}
    known = {RULES, ENTRIES, MATCHES, BOARD, INDEX, *(row.replay for row in c.rows)}
    files, entries = _names(folder) - known, tuple(entry.file for entry in c.entries if entry.file)
    files = {name for name in files if name not in entries and not name.startswith(tuple(f"{e}/" for e in entries))}
    if strange := sorted(name for name in files if not name.startswith(f"{WATCH}/")):
        return f"{len(files)} files", f"{strange[0]} belongs to no entry, match or page"
    if {name: (folder / name).read_bytes() for name in files} == fresh:
        return f"viewer of Echelon {__version__}", ""
    return f"not checked: viewer is not that of Echelon {__version__}; watch the recordings in your own", ""


def _names(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir()}


def page_fault(competition: Competition) -> str:
    """Return what people would see that the matches do not give, "" nothing."""
    folder = competition.folder
    try:
        if (folder / INDEX).read_text(encoding="utf-8") != _page(competition, competition.board()):
            return f"{INDEX} is not what the matches give"
        listed = json.loads((folder / WATCH / MANIFEST).read_text(encoding="utf-8"))["matches"]
        same = listed == json.loads(json.dumps(_summaries(competition)))
        return "" if same else f"the viewer's list of matches, {WATCH}/{MANIFEST}, is not what the matches give"
    except (OSError, ValueError, LookupError) as error:
        return f"the page is damaged: {error}"


def _summaries(competition: Competition) -> list[dict[str, Any]]:
    summaries = []
    for row in competition.rows:
        path = competition.inside(row.replay)
        with Replay(path) as replay:
            about = summarize(f"match-{row.number}", competition.rules.name, path, replay, fresh=False)
        summaries.append({**about, "path": f"../{row.replay}"})
    return summaries


def _page(competition: Competition, board: dict[str, Any]) -> str:
    rules = competition.rules
    entries = sorted(enumerate(board["entries"]), key=lambda ranked: -ranked[1]["rating"])
    low = min(row["rating"] - row["interval"] for _, row in entries)
    high = max(row["rating"] + row["interval"] for _, row in entries)
    pairs: dict[str, list[ListedMatch]] = {}
    for match in competition.rows:
        pairs.setdefault(_pair(match.blue, match.red), []).append(match)
    return PAGE.format(
        name=escape(rules.name),
        played=board["played"],
        planned=board["planned"],
        state="" if rules.secret else ", not finished",
        anchor=escape(board["anchor"]),
        maps="one hidden map" if rules.maps == 1 else f"{rules.maps} hidden maps",
        commitment=escape(rules.commitment),
        seal=escape(rules.closed),
        watch=WATCH,
        low=low,
        high=high,
        red_team="<th>Red team [%]" if board["attackers"] else "",
        attackers=_attackers(board["attackers"]),
        ratings="\n".join(_rating(row, low, high, bool(board["attackers"])) for _, row in entries),
        columns="".join(f"<th>{escape(row['name'])}" for _, row in entries),
        scores="\n".join(
            f"<tr><td>{escape(row['name'])}"
            + "".join("<td>" if i == j else _score(100.0 * row["scores"][j], row, other) for j, other in entries)
            for i, row in entries
        ),
        matches="\n".join(_matches(pair, matches) for pair, matches in pairs.items()),
    )


def _pair(one: str, other: str) -> str:
    """Return the id of the matches of a pair in the page."""
    return quote("-".join(sorted((one, other))))


def _score(share: float, row: dict[str, Any], other: dict[str, Any]) -> str:
    link = _pair(row["name"], other["name"])
    return f'<td class="score" style="--share:{share:.0f}"><a href="#{quote(link)}">{share:.1f}</a>'


def _rating(row: dict[str, Any], low: float, high: float, attacked: bool) -> str:
    """Return a row of the table of ratings, with a bar of the interval between the lowest and the highest end."""
    kind = "level" if row["level"] else "program" if row["program"] else "policy"
    percent = 100.0 / max(1.0, high - low)
    bar = f"--low:{(row['rating'] - row['interval'] - low) * percent:.1f}%;--width:{2 * row['interval'] * percent:.1f}%"
    cells = [f"<td>{red_team_text(row['red_team'])}"] if attacked else []
    cells += [f"<td>{row['matches']}<td>{row['points']:g}"]
    cells += [f'<td class="more">{row[name]:.3f}' for name in ("nash", "alpha_rank")]
    return (
        f'<tr><td>{row["rank"]}<td class="left">{escape(row["name"])} <small>{kind}</small>'
        f"<td>{row['rating']:.0f}<td>{interval_text(row)}"
        f'<td class="bar" style="{bar};--at:{(row["rating"] - low) * percent:.1f}%"><i></i><b></b>' + "".join(cells)
    )


def interval_text(row: dict[str, Any]) -> str:
    """Return half the interval of a rating, "fixed" for that of the anchor."""
    return f"{row['interval']:.0f}" if row["interval"] else "fixed"


def red_team_text(red_team: dict[str, Any] | None) -> str:
    """Return the red-team score of an entry with its interval [%], "" without attackers."""
    return "{win_rate:g} ({0:g} to {1:g})".format(*red_team["interval"], **red_team) if red_team else ""


def _points(score: float) -> str:
    """Return zone points as the viewer shows them, so that none are shown as reached before they are."""
    return f"{math.floor(score * 10.0 + 1e-3) / 10.0:.1f}"


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def _attackers(rows: list[dict[str, Any]]) -> str:
    cells = [
        f'<tr><td><a href="#{quote(_pair(r["name"], r["attacks"]))}">{escape(r["name"])}</a>'
        f'<td class="left">{escape(r["attacks"])}<td>{r["wins"]} of {r["matches"]}'
        for r in rows
    ]
    return ATTACKERS.format(rows="\n".join(cells)) if rows else ""


def _matches(pair: str, rows: list[ListedMatch]) -> str:
    """Return the rows of a pair's matches, below a row with its score."""
    one, other = rows[0].blue, rows[0].red
    winners = [{"blue": row.blue, "red": row.red}.get(row.winner, "draw") for row in rows]
    points = [winners.count(name) + winners.count("draw") / 2 for name in (one, other)]
    score = f"{escape(one)} {points[0]:g} : {points[1]:g} {escape(other)}"
    return f'<tr id="{pair}"><th class="pair" colspan="6">{score}\n' + "\n".join(
        f'<tr><td><a href="{WATCH}/index.html#match=match-{row.number}">{row.number}</a>'
        f'<td class="left">{escape(row.blue)}<td class="left">{escape(row.red)}<td class="left">'
        f"{escape(winner)} by {escape(row.reason.replace('_', ' '))}"
        f"<td>{_points(row.score[0])} : {_points(row.score[1])}<td>{_clock(row.seconds)}"
        for row, winner in zip(rows, winners, strict=True)
    )
