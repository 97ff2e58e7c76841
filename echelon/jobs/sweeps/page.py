"""The report of a red team as one HTML page without scripts that loads nothing, for commands and the server."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Any

from echelon.files import atomic_write
from echelon.jobs.sweeps.redteam import RedTeamReport
from echelon.jobs.sweeps.results import read_report
from echelon.runs import RunPaths, command
from echelon.statistics import Estimate

PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>Red team of {title}</title><style>
:root{{color-scheme:light dark;--a:light-dark(#c2410c,#ff9d5c);--t:light-dark(#1d63c4,#6bb2ff);--line:#8886}}
body{{background:light-dark(#fbfcfe,#0b1017);color:light-dark(#17202c,#dfe7f1);font:1rem/1.5 system-ui;
max-width:60rem;margin:2rem auto;padding:0 1rem}}h1,h2,h3{{line-height:1.2;margin-top:2rem}}
p,li{{overflow-wrap:anywhere}}div{{overflow-x:auto}}
table{{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}}
th,td{{text-align:right;padding:.3rem .5rem;border-bottom:1px solid var(--line);vertical-align:top}}
small,caption{{opacity:.75}}td small{{display:block}}th:first-child,td:first-child{{text-align:left;padding-left:0}}
caption{{text-align:left;caption-side:bottom;padding:.4rem 0;font-size:.9rem}}svg{{width:100%;fill:currentColor}}
.a{{color:var(--a)}}.t,.u,a{{color:var(--t)}}
.maps{{display:grid;gap:1rem;grid-template-columns:repeat(auto-fit,minmax(15rem,1fr))}}
.maps svg{{border:1px solid var(--line);box-sizing:border-box}}</style></head><body>{body}</body></html>"""
WIDTH, HEIGHT, LEFT, RIGHT, MARGIN = 640, 280, 44, 96, 24
"""Size of the curve, and its margins at the left, at the right for names, and above and below [px]."""
WORDS = (
    "Fallen: knocked over. Shutdown: by heat. Legged: legs destroyed. Painted: marked for missiles. Ecm: jams radar."
    " Eccm: counters it. Suppressed: under fire, regains stability slowly. Vent: releases heat. Seen: by a hostile."
)
"""Measures of time, the bits of ``MechFlag``."""
TITLES = {"attacker": "attacker", "target": "target", "usual": "target usually"}


def publish(paths: RunPaths) -> None:
    """Write the page of a red team into its folder, once the target has played itself with what explains the exploit.

    ``ValueError`` where that cannot be measured; the page is written without it.
    """
    report = read_report(paths)
    try:
        if report.strongest and report.usual and not report.exploit:
            from echelon.jobs.sweeps.exploit import explain

            found = explain(*(RunPaths(paths.root.parent / job) for job in (report.strongest.job, report.usual)))
            atomic_write(paths.exploit, json.dumps(found))
            report = replace(report, exploit=found)
    finally:
        atomic_write(paths.page, page_of(report, served=True))


def page_of(report: RedTeamReport, *, served: bool = False) -> str:
    """Return the page; links to the viewer are relative where it is ``served``."""
    attack, best, target = report.attack, report.strongest, escape(Path(report.attack.target).name)
    which = f"from {escape(best.name)} at {best.share:.0%} of its training" if best else ""
    told = "".join(f"<b>{escape(text[0].upper() + text[1:])}.</b> " for text in report.findings)
    told = told or "<b>No attacker has been evaluated yet.</b>"
    curve = [
        (f"{p.share:.0%}", f"{p.steps:,}", f"{p.all_steps:,}", _rate(p.mean), _rate(p.sampled), escape(p.name) or "-")
        for p in report.curve
    ]
    attackers = [(str(a.number), escape(a.name), str(a.seed), *(str(r or "-") for r in (a.before, *a.rates)),
                  *["failed"] * bool(a.message)) for a in report.attackers]  # fmt: skip
    body = [
        f"<h1>How exploitable is it?</h1><p>{told} 50 % means: as strong as the target.</p>"
        f"<p>Target: {target}, checkpoint {escape(attack.checkpoint[:8])}, "
        f"{f'trained for {attack.steps:,} steps, ' if attack.steps else ''}plays "
        f"{'mean' if report.target_mean else 'sampled'} actions. Red team: {escape(report.id)}.</p>",
        _curve(report),
        _table(("share", "steps of one", "of all", "mean", "sampled", "attacker from"), curve, "Win rate of the best "
               f"attacker on {attack.seeds} fresh seeds, with 95 % intervals; mean and sampled are its actions."),
        "<h2>Attackers</h2>",
        _table(("number", "from", "seed", "untrained", *(f"{p.share:.0%}" for p in report.curve)), attackers,
               f"Win rates on the {report.seeds} seeds that choose, with 95 % intervals; the better actions first."),
        *(_exploit(report.exploit, which, served) if report.exploit else ()),
    ]  # fmt: skip
    return PAGE.format(title=target, body="".join(body))


def _rate(rate: Estimate | None) -> str:
    return f"{rate.value:.0%} <small>{100 * rate.low:.0f} to {100 * rate.high:.0f} %</small>" if rate else "-"


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]], caption: str) -> str:
    head = "".join(f"<th scope=col>{name}</th>" for name in columns)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f"<div><table><caption>{caption}</caption><tr>{head}</tr>{body}</table></div>"


def _curve(report: RedTeamReport) -> str:
    """Return win rates over the steps of an attacker, of each and of the best ones on fresh seeds, as SVG."""
    rungs, most = (0, *report.attack.rungs), report.attack.rungs[-1]

    def x(steps: float) -> float:
        return round(LEFT + steps / most * (WIDTH - LEFT - RIGHT), 1)

    def y(rate: float) -> float:
        return round(MARGIN + (1 - rate) * (HEIGHT - 2 * MARGIN), 1)

    parts = [f'<path d="M{LEFT} {y(rate)}H{WIDTH}" stroke="currentColor" opacity="{0.6 if rate == 0.5 else 0.2}"/>'
             f'<text x="0" y="{y(rate) + 4}">{rate:.0%}</text>' for rate in (0.0, 0.25, 0.5, 0.75, 1.0)]  # fmt: skip
    parts += [f'<text x="{x(steps) - 12}" y="{HEIGHT - 4}">{steps / most:.0%}</text>' for steps in rungs]
    below = 0.0
    ordered = sorted((a for a in report.attackers if a.rates), key=lambda a: -a.rates[-1].best.value)
    for number, each in enumerate(ordered):
        line = [(x(s), y(r.best.value)) for s, r in zip(rungs, (each.before, *each.rates), strict=False) if r]
        # names of the lines below leave room above the axis
        below = min(max(below + 13, line[-1][1] + 4), y(0.0) - 13 * (len(ordered) - 1 - number))
        path = "L".join(f"{at} {height}" for at, height in line)
        dashes = f"{6 * number} {2 * number}"
        parts.append(f'<path d="M{path}" stroke-dasharray="{dashes}" stroke="currentColor" fill="none" opacity="0.6"/>'
                     f'<text x="{line[-1][0] + 8}" y="{below}">{escape(each.name[:10])}</text>')  # fmt: skip
    for name, colour, shift in (("mean", "a", -4), ("sampled", "t", 4)):
        known = [(x(p.steps) + shift, getattr(p, name)) for p in report.curve if p.mean and p.sampled]
        bars = "".join(f"M{at} {y(r.low)}V{y(r.high)}M{at - 4} {y(r.value)}h8" for at, r in known)
        parts.append(f'<path class="{colour}" stroke="currentColor" fill="none" stroke-width="3" d="{bars}"/>')
    key = ("Over the steps of one attacker. Lines: each by its start, the better actions, on the seeds that choose. "
           "Bars: the best one on fresh seeds, <b class=a>mean</b> and <b class=t>sampled</b> actions.")  # fmt: skip
    box = f'viewBox="0 0 {WIDTH} {HEIGHT}" font-size="11"'
    return f'<svg {box} role="img" aria-label="win rates">{"".join(parts)}</svg><p>{key}</p>'


def _exploit(found: dict[str, Any], which: str, served: bool) -> list[str]:
    """Return how the strongest attacker wins."""
    rows = [(escape(row["name"]), *(_mean(row[side], row["distance"] > 1) for side in TITLES))
            for row in found["measures"] if any(row[side]["value"] for side in TITLES)]  # fmt: skip
    maps = [f"<p>{_heat(found['heat'][side], side)}{title}</p>" for side, title in TITLES.items()]
    moments = []
    for each in found["moments"]:
        match, side = escape(each["match"]), ("blue", "red")[each["attacker"]]
        at = f"{'../' if served else 'http://127.0.0.1:8400/'}#match={match}&amp;t={each['from']:.1f}"
        clip = command("replay", "video", match, "--from", f"{each['from']:.1f}", "--to", f"{each['to']:.1f}")
        link = f'<a href="{at}">watch</a>, as a clip <code>{clip}</code>'
        moments.append(f"<li>{escape(each['caption'])}. The attacker is {side}: {link}</li>")
    return [
        f"<h2>How the strongest attacker wins</h2><p>The one {which}, in {found['matches']['attacker']} "
        f"recorded matches, with the actions that had won more; beside it {found['matches']['usual']} of the target "
        "against itself, its usual way.</p>"
        f"<h3>Turning points</h3>{'' if served else 'The links need <code>echelon serve</code>.'}<ul>",
        *moments, "</ul><h3>Where both sides stand</h3>",
        f"<div class=maps>{''.join(maps)}</div><p>Time by place: the zone is in the middle, and each side starts at "
        "the left.</p><h3>Behaviour</h3>",
        _table(("measure", *TITLES.values()), rows, "Means over matches with 95 % intervals by Student's t; n: matches "
               "with something to measure, of the target usually both sides of each. By difference from the usual; "
               f"bold where an interval is apart from it. {WORDS}"),
    ]  # fmt: skip


def _mean(each: dict[str, Any], is_apart: bool) -> str:
    value, low, high = ("-" if each[key] is None else f"{each[key]:.3g}" for key in ("value", "low", "high"))
    value = f"<b>{value}</b>" if is_apart else value
    return f"{value} <small>{'' if low == '-' else f'{low} to {high}, '}n {each.get('n', '-')}</small>"


def _heat(grid: Sequence[Sequence[int]], side: str) -> str:
    cells = [f'<path d="M{x} {len(grid) - 1 - y}h1v1h-1z" opacity="{(int(value) / 255) ** 0.5:.2f}"/>'
             for y, row in enumerate(grid) for x, value in enumerate(row) if value]  # fmt: skip
    return f'<svg class="{side[0]}" viewBox="0 0 {len(grid[0])} {len(grid)}">{"".join(cells)}</svg>'
