"""Values of options: converted as Typer does, without pydantic where there is nothing to convert."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Literal

import pytest
import typer
from typer import _coercion, core
from typer.main import get_command

from echelon_cli.coercion import LazyCoercion

SHORT = ("runs list --sort eval", "runs show fox", "runs logs fox", "dash --once", "queue list")


@pytest.mark.parametrize("words", SHORT)
def test_short_command_does_not_import_pydantic(ended_run, words, repository):
    ended_run("20260101-000000-quickstart-calm-fox")
    code = (
        "import sys; from echelon_cli.main import run; code = run(sys.argv[1:]); "
        "assert code == 0 and not {'pydantic', 'pydantic_core'} & set(sys.modules), code"
    )
    subprocess.run([sys.executable, "-c", code, *words.split()], check=True, cwd=repository, stdout=subprocess.DEVNULL)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("runs logs fox -n many", "many"),
        ("runs wait fox --timeout x", "x"),
        ("sim --maps al", "al"),
        ("ablate --seeds 0", "0"),
        ("sweep show --limit 0", "0"),
    ],
)
def test_values_that_need_conversion_are_checked(echelon, ended_run, words, message):
    ended_run("20260101-000000-quickstart-calm-fox")
    code, _, err = echelon(*words.split())
    assert code == 2 and message in err and "expected" in err


@pytest.mark.parametrize(
    "line",
    ["a b", "a --count 4 --share 1 --path p --kind y --no-switch --words u --words v --numbers 2 --numbers 3 --none n"],
)
def test_converted_values_are_those_of_typer(monkeypatch, line):
    app, found = typer.Typer(), []

    def show(
        names: list[str],
        count: int = typer.Option(3, min=1),  # noqa: B008
        share: float = 0.5,
        path: Path = Path("a"),  # noqa: B008
        kind: Literal["x", "y"] = "x",
        switch: bool = True,
        words: list[str] = typer.Option(None),  # noqa: B008
        numbers: list[int] = typer.Option([1]),  # noqa: B008
        none: str | None = None,
    ) -> None:
        found.append([(type(v), v) for v in (names, count, share, path, kind, switch, words, numbers, none)])

    app.command()(show)
    for build in (_coercion.build_runtime_param, LazyCoercion):
        monkeypatch.setattr(core, "build_runtime_param", build)
        get_command(app).main(line.split(), standalone_mode=False)
    assert found[0] == found[1]
