"""No text of unknown origin moves the cursor, hides, restyles or writes the clipboard of whoever lists runs."""

import ast
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import echelon
import echelon_cli
from echelon.jobs.status import job_status
from echelon.runs import command as command_line
from echelon.runs import runs_home
from echelon.server.security import Access
from echelon.telemetry.events import EVENTS
from echelon_cli import output
from echelon_cli.commands.sweep import complete_sweeps
from echelon_cli.follow import Follower, show_summary
from echelon_cli.foreign_text import visible
from echelon_cli.main import root
from echelon_cli.options import complete_filter, complete_labels, complete_runs
from echelon_cli.reference import leaves
from tests.cli.hostile_home import HOSTILE, NAME, SHOWN, control_characters, event_of, files_of, make_home, make_run

ARGUMENTS = {
    "MATCH": "{replay}", "RUN": "{run}", "SWEEP": "{run}", "SEED": "1", "DIR": "{demos}",
    "FILE": f"{{home}}/{NAME}.out", "DEVICE=NUMBER": f"{HOSTILE}=1",
}  # fmt: skip
"""Value of an argument by the first of these names in its metavar; other arguments are hostile text."""

OPTIONS: dict[str, tuple[str, ...]] = {
    "train": ("--resume", "{run}"),
    "policy export": ("--weights", "{home}/out.safetensors"),
    "policy push": ("--dry-run", f"{{home}}/{NAME}.card"),
    "policy pull": ("--out", f"{{home}}/{NAME}.pulled"),
    "dash": ("--once",),
    "runs rm": ("--yes",),
    "runs tidy": ("--keep", "best", "--yes"),
    "runs export": ("--csv", "{home}/out.csv"),
    "runs label": ("--tag", HOSTILE),
    "sim": ("--blue", HOSTILE),
    "sweep start": ("--vary", f"{HOSTILE}=1", "--ablate", HOSTILE),
    "runs queue": ("--rm", "--yes"),
    "replay branch": ("--at", "0:01", "--set", f"B1={HOSTILE}", "--runs", "1"),
    "replay export": ("--out", f"{{home}}/{NAME}.html"),
    "replay video": ("--out", f"{{home}}/{NAME}.mp4", "--from", "900"),
    "config show": ("--run", "{run}"),
    "config observation": ("--config", "{config}"),
    "demos record": ("--policy", HOSTILE),
    "arena edit": ("--remove", HOSTILE),
    "arena run": ("--resume", "{run}"),
    "web build": ("--game", HOSTILE),
}
"""Options with which a command meets foreign text, or does little."""


def words_of(command: Any, name: str) -> tuple[str, ...]:
    """Return arguments and options with which a command meets foreign text."""
    given = []
    for parameter in command.params:
        if parameter.param_type_name == "argument":
            metavar = parameter.display_name_raw
            given.append(next((value for word, value in ARGUMENTS.items() if word in metavar), HOSTILE))
    return (*given, *OPTIONS.get(name, ()))


COMMANDS = {name.removeprefix("echelon "): command for name, command in leaves(root().load_all())}
WORDS = {name: words_of(command, name) for name, command in COMMANDS.items()}

MORE: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("dash", ("{run}", "--once")),
    ("runs compare", ("{run}", "{run}", "--chart", "wins")),
    ("runs show", (HOSTILE,)),
    ("runs list", ("--filter", HOSTILE)),
    ("runs logs", ("{run}", "--follow")),
    ("arena standings", ("bomb",)),
    ("arena standings", ("--behaviour",)),
    ("arena add", ("{league}",)),
    ("arena edit", ("--recompute",)),
    ("world", ("{run}",)),
    ("sweep start", ("{config}", "--vary", f"{HOSTILE}=1")),
    ("demos record", ("{demos}", "--verify")),
    ("config show", ("--set", f"{HOSTILE}=1")),
    ("train", ("--config", "{config}")),
    ("serve", ("--league", "{config}")),
    ("runs wait", (HOSTILE, "--debug")),
    ("dash", ("--once", "--width", "60")),
)
"""Further uses that print other text."""

SHOWING = {
    "runs logs", "runs rm", "runs stop", "runs wait", "runs list", "runs show", "runs compare", "dash",
    "replay list", "replay info", "config show", "arena standings",
    "arena matches", "arena head-to-head",
}  # fmt: skip
"""Commands whose text contains foreign text whenever they succeed."""


@pytest.fixture(scope="module")
def template(tmp_path_factory) -> Path:
    return make_home(tmp_path_factory.mktemp("hostile"))


@pytest.fixture
def hostile(monkeypatch, template) -> dict[str, str]:
    """The files of this test's hostile runs folder; no server is started."""

    def announce(*_: object, ready: Callable[[Access], object], host: str = "", **options: object) -> None:
        ready(Access(host=host or "127.0.0.1", port=8400))

    monkeypatch.setenv("COLUMNS", "160")  # wide enough for full run ids
    monkeypatch.setattr("echelon.server.app.serve", announce)
    monkeypatch.setattr("echelon.server.app.running_server", lambda home: None)
    return files_of(Path(shutil.copytree(template, runs_home())))


CASES = [*WORDS.items(), *MORE]


@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
@pytest.mark.parametrize(("command", "words"), CASES, ids=[f"{n}-{c[0]}" for n, c in enumerate(CASES)])
def test_command_prints_no_control_character(echelon, hostile, command, words, as_json):
    filled = list(words)
    for name, value in hostile.items():
        filled = [word.replace(f"{{{name}}}", str(value)) for word in filled]
    json_flag = ["--json"] if as_json and "--once" not in words else []
    _, out, err = echelon(*command.split(), *filled, *json_flag)
    assert (out + err).strip(), "the command printed nothing"
    assert control_characters(out + err) == set()
    assert "Traceback" not in err or "--debug" in words
    assert "internal error" not in err
    if command in SHOWING and not as_json and "--width" not in words:
        assert "\\x1b" in out + err, "the foreign text is missing"


@pytest.fixture
def terminal(monkeypatch):
    """A colour terminal on standard output."""
    from rich.console import Console

    def make(columns: int) -> None:
        shown = Console(highlight=False, width=columns, force_terminal=True, color_system="truecolor")
        monkeypatch.setattr(output, "console", lambda: shown)

    return make


@pytest.mark.parametrize("columns", [60, 400])
def test_tables_and_lines_on_a_terminal_are_not_markup(terminal, capsys, columns):
    terminal(columns)
    output.show_table((HOSTILE, "state"), [(HOSTILE, output.state_text("running"))], unwrapped=("state",))
    output.print_line(HOSTILE, style="bold")
    shown = capsys.readouterr().out
    assert control_characters(shown) == set() and "[bold]m[x] :bomb:" in "".join(shown.split("\n"))


def test_every_record_is_printed_without_control_characters(terminal, capsys):
    terminal(120)
    paths = make_run(runs_home(), "20260103-000000-quickstart-calm-fox")
    follower = Follower(paths)
    for as_json in (False, True):
        follower.as_json = as_json
        for cls in EVENTS.values():
            follower.show(event_of(cls))
    show_summary(job_status(paths), follower.snapshot, paths)
    shown = capsys.readouterr().out
    assert SHOWN in shown and control_characters(shown) == set()


def test_spinner_shows_text_as_it_is(terminal, capsys):
    terminal(200)
    with output.waiting(HOSTILE) as show:
        show(HOSTILE)
    spinner = output.spinner()
    assert spinner is not None
    assert control_characters(output.plain(HOSTILE).plain) == set()
    assert SHOWN in capsys.readouterr().out


def test_completion_offers_no_unprintable_name():
    make_run(runs_home())
    make_run(runs_home(), "20260104-000000-quickstart-calm-elk")
    assert complete_runs("2026") == ["20260104-000000-quickstart-calm-elk"]


ACTIVE = ("2026\x1b]0;x\x07", "2026\nx", "2026\u202e", "2026$(x)", "2026`x`", "2026;x", "2026\\x", "2026'x", "2026|x")
"""Names that a terminal or a shell would obey."""


def test_completion_offers_only_names_that_a_shell_takes_as_they_are():
    home = runs_home()
    for name in (*ACTIVE, "2026-sweep-calm-elk", *(f"2026-sweep-{name}" for name in ACTIVE)):
        paths = make_run(home, name)
        paths.labels.write_text(json.dumps({"group": name, "tags": [name]}))
        paths.spec.write_text(json.dumps({**json.loads(paths.spec.read_text()), "kind": "sweep"}))
    plain = ["2026-sweep-calm-elk"]
    assert complete_runs("2026") == complete_sweeps("2026") == plain
    assert complete_labels("group")("2026") == complete_labels("tag")("2026") == plain
    assert complete_filter("tag:2026") == ["tag:2026-sweep-calm-elk"]


@pytest.mark.parametrize("char", "\x00\n\x1b\x7f\x9b\u034f\u200d\u202e\u2066\u3164\ufe0f\ufeff\udcff")
def test_visible_escapes_every_unprintable_character(char):
    shown = visible(f"ü{char}")
    assert shown.isprintable() and shown == "ü" + char.encode("unicode_escape").decode()


def test_visible_keeps_printable_text():
    assert visible("größe 机甲 🤖 [x] \\x1b") == "größe 机甲 🤖 [x] \\x1b"


def test_proposed_commands_quote_names():
    """A name with blanks or shell syntax was another command when it was typed again."""
    assert command_line("runs", "stop", "a b; $(c)") == "echelon runs stop 'a b; $(c)'"
    unquoted = re.compile(r"echelon [a-z][a-z -]*\{[^0]")
    for package in (Path(echelon.__file__).parent, Path(echelon_cli.__file__).parent):
        for path in package.rglob("*.py"):
            assert not unquoted.search(path.read_text()), path.name


ALLOWED_TO_PRINT = {"output.py", "tui/plain_text.py"}
"""``plain_text`` prints grids, whose cells hold no control character."""


def test_only_output_prints():
    root = Path(echelon_cli.__file__).parent
    printing = set()
    for path in root.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in PRINTING:
                printing.add(str(path.relative_to(root)))
    assert printing == ALLOWED_TO_PRINT


PRINTING = {
    "print", "sys.stdout.write", "sys.stderr.write", "console.print", "console().print", "output.console().print",
    "console().status", "output.console().status", "typer.echo", "typer.secho", "typer.confirm", "typer.prompt",
}  # fmt: skip
