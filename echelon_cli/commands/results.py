"""``echelon results``: reference results as data (docs/results), and their repetition."""

import json
import math
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

import echelon
from echelon.jobs.config_layers import ConfigError, did_you_mean
from echelon_cli import options, output
from echelon_cli.options import argument, option

app = typer.Typer(help="Reference results, and their repetition.", no_args_is_help=True, rich_markup_mode=None)
FIELDS = {"mean": "win_rate", "sampled": "sampled_win_rate"}
"""Key of an evaluation's result by column of a result file."""
Z_99 = 2.576
"""Of the interval in which a repetition must be: one of a hundred is outside by chance."""


@app.callback()
def _group() -> None:
    pass


def folder() -> Path:
    """Return the folder of the result files: in the package, or in a clone beside it."""
    package = Path(echelon.__file__).parent
    inside = package / "results"
    return inside if inside.is_dir() else package.parent / "docs/results"


def read_checks() -> dict[str, dict[str, Any]]:
    """Return the result files that have repeatable rows, by name."""
    found = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder().glob("*.json"))}
    return {name: content for name, content in found.items() if "checks" in content}


@app.command("check")
def check(
    name: Annotated[str | None, argument("[NAME]", "Result file; default: list all with their commands.")] = None,
    row: Annotated[str | None, option("--row", "Only this row; default: all that have a command.", "ROW")] = None,
    as_json: options.Json = False,
) -> int:
    """Repeat reference results by their commands, and compare.

    A win rate must be within the 99 % interval of the difference of two samples. The exit code is 1 if one is not.
    """
    known = read_checks()
    if name is None:
        rows = [(name, row, _words(how)) for name, content in known.items() for row, how in content["checks"].items()]
        found = [dict(zip(("name", "row", "commands"), each, strict=True)) for each in rows]
        output.show_json(found) if as_json else output.show_table(("name", "row", "commands"), rows)
        return output.DONE
    if name not in known:
        raise ConfigError(f"result {name!r} has no commands{did_you_mean(name, known)} (have: {', '.join(known)})")
    checks = known[name]["checks"]
    if row is not None and row not in checks:
        raise ConfigError(f"row {row!r} has no command{did_you_mean(row, checks)} (have: {', '.join(checks)})")
    found = []
    with output.waiting("repeating", quiet=as_json) as show:
        for each, how in checks.items():
            if row in (None, each):
                show(f"{each}: {_words(how)}")
                found += _compared(known[name]["results"], each, how, _repeat(how))
    if as_json:
        output.show_json(found)
    else:
        heads = ("row", "column", "stated", "again", "tolerance", "result")
        cells = [
            (r["row"], r["column"], f"{r['stated']:g}", f"{r['again']:g}", f"±{r['tolerance']:.1f}") for r in found
        ]
        output.show_table(
            heads,
            [(*cell, "ok" if r["ok"] else "differs") for cell, r in zip(cells, found, strict=True)],
            right=heads[2:5],
        )
    return not all(r["ok"] for r in found)


def check_of(result: dict[str, Any]) -> tuple[str, str]:
    """Return the key of a result in ``checks`` and the kind of its figure: for column ``easy, mean`` "ROW: easy"."""
    part, _, kind = result["column"].rpartition(", ")
    return f"{result['row']}: {part}" if part else result["row"], kind


def _words(how: dict[str, Any]) -> str:
    return "; ".join(f"echelon {how[kind]}" for kind in ("train", "eval") if kind in how)


def _repeat(how: dict[str, Any]) -> dict[str, Any]:
    """Run the commands of a row; return the result of its evaluation."""
    run = json.loads(_run(how["train"]).splitlines()[-1])["id"] if "train" in how else ""
    return json.loads(_run(how["eval"].replace("RUN", run)))


def _run(words: str) -> str:
    command = [sys.executable, "-m", "echelon_cli.main", *shlex.split(words), "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise ValueError(f"'echelon {words}' failed: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def _compared(
    results: list[dict[str, Any]], row: str, how: dict[str, Any], again: dict[str, Any]
) -> list[dict[str, Any]]:
    """Return the comparison of each column of a row [%].

    ``spread`` of its check is the standard deviation of training seeds, for another machine trains another policy.
    """
    found = []
    for stated in results:
        check, kind = check_of(stated)
        if check == row and kind in FIELDS:
            value = 100.0 * again[FIELDS[kind]]
            share = min(max((stated["value"] + value) / 200.0, 0.5 / how["matches"]), 1.0 - 0.5 / how["matches"])
            variance = 2.0 * (1e4 * share * (1.0 - share) / how["matches"] + how.get("spread", 0.0) ** 2)
            tolerance = Z_99 * math.sqrt(variance)
            ok = abs(value - stated["value"]) <= tolerance
            numbers = {"stated": stated["value"], "again": value, "tolerance": tolerance}
            found.append({"row": row, "column": stated["column"], **numbers, "ok": ok})
    return found
