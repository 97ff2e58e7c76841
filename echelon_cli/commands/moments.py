"""``echelon replay moments`` and ``fit-winprob``: turning points of a match, and the model of who wins behind them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from echelon.runs import command
from echelon_cli import output
from echelon_cli.matches import MatchArgument, find_replay
from echelon_cli.options import JsonFlag


def moments(
    match: MatchArgument,
    confirm: Annotated[
        int | None,
        typer.Option(
            "--confirm", min=1, metavar="RANK", help="Measure what the actions behind this turning point achieved."
        ),
    ] = None,
    as_json: JsonFlag = False,
) -> int:
    """Show a match's turning points and win probability. Rank 1 is the most important."""
    from echelon.replay.reader import Replay
    from echelon_cli.commands.branch import branch

    path = find_replay(match)
    with Replay(path) as replay:
        line = replay.timeline()
        found = {name: line[name] for name in ("moments", "win")}
    if confirm is not None:
        without, window = _actions_behind(found["moments"], confirm)
        if not as_json:
            shown = command("replay", "branch", path, "--without", without, "--for", f"{window:g}")
            output.print_line(f"as: {shown}", style="dim")
        return branch(str(path), without=without, window=window, as_json=as_json)
    if as_json:
        output.show_json({"file": str(path), **found})
        return output.DONE
    if not found["moments"]:
        output.print_line(f"no turning points in {path}")
        return output.DONE
    rows = [(row["rank"], row["kind"].replace("_", " "), row["caption"]) for row in found["moments"]]
    output.show_table(("rank", "kind", "moment"), rows, right=("rank",))
    return output.DONE


def _actions_behind(found: list[dict[str, Any]], rank: int) -> tuple[str, float]:
    """Return mech and time of the actions that led to a turning point, as ``--without`` has them, and their length [s].

    ``ValueError`` for a rank that does not exist and a turning point without a mech that acts.
    """
    row = next((row for row in found if row["rank"] == rank and row["mechs"]), None)
    if row is None:
        ranks = ", ".join(str(row["rank"]) for row in sorted(found, key=lambda row: row["rank"]) if row["mechs"])
        raise ValueError(f"confirm is {rank}, expected the rank of a turning point with a mech: {ranks or 'none'}")
    return f"{row['mechs'][0]}@{row['from']:g}", max(MIN_WINDOW_S, row["second"] - row["from"])


def fit_winprob(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR...", help="Folders with recorded matches, or files.")],
    hold_out: Annotated[
        list[str] | None,
        typer.Option(
            "--hold-out", metavar="NAME", help="Pilots kept for the test: part of a name; default: a quarter of them."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="Write the model to a JSON file.")
    ] = None,
    as_json: JsonFlag = False,
) -> int:
    """Fit the win probability to recorded matches. Prints its errors on matches and pilots it was not fitted to."""
    from echelon.files import atomic_write
    from echelon.replay.winprob_fit import fit_matches, model_text, replay_files, sample_all

    for folder in folders:
        if not folder.exists():
            raise ValueError(f"folder {str(folder)!r} does not exist, expected one with recorded matches")
    paths = replay_files(folders)
    sampled = []
    with output.waiting("reading", quiet=as_json) as show:
        for number, match in enumerate(sample_all(paths)):
            sampled.append(match)
            if number % PROGRESS == 0:
                show(f"reading match {number + 1} of {len(paths)}")
        show("fitting")
        model, report = fit_matches([match for match in sampled if match is not None], hold_out or [])
    report = {"files": len(paths), "unused": sum(match is None for match in sampled), **report}
    if out is not None:
        atomic_write(out, model_text(model, report), durable=False)
    if as_json:
        output.show_json(report)
        return output.DONE
    output.print_line(
        f"{report['fitted']} matches fitted, {report['calibrated']} for calibration, {report['unused']} of "
        f"{report['files']} files undecided, too short or damaged"
    )
    output.print_line(f"held-out pilots: {', '.join(report['held_out_pilots']) or 'none'}")
    output.show_table(
        ("test", "part", "matches", "Brier", "baseline", "calibration error", "95 %"),
        [row for name, test in report["tests"].items() for row in _rows(LABELS[name], test)],
        right=("matches", "Brier", "baseline", "calibration error", "95 %"),
    )
    if out is not None:
        output.print_line(f"wrote {out}")
    return output.DONE


MIN_WINDOW_S = 0.25
"""Shortest actions that are measured: an environment step [s]."""
PROGRESS = 50
"""Matches between two reports of progress."""
LABELS = {"matches": "new maps", "pilots": "new pilots", "both": "both"}


def _rows(label: str, test: dict[str, Any]) -> list[tuple[object, ...]]:
    low, high = test["interval"]
    parts = [("whole", test, f"{low:.1%} to {high:.1%}"), *((name, part, "") for name, part in test["thirds"].items())]
    return [
        (
            label,
            name,
            test["matches"],
            f"{part['brier']:.4f}",
            f"{part['baseline_brier']:.4f}",
            f"{part['calibration_error']:.1%}",
            interval,
        )
        for name, part, interval in parts
    ]
