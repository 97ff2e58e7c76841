"""Every code block of the documents: Python runs, shell commands exist with their options, TOML files are read.

A block below ``<!-- not run: REASON -->`` is left out.
"""

import importlib.util
import re
import runpy
import tomllib
from collections.abc import Iterable
from pathlib import Path

import pytest
import typer

from echelon.config import EvalConfig
from echelon.runs import runs_home
from tests.docs.pages import INLINE, NOT_RUN, ROOT, Block, blocks, command_lines, leaves_by_name, pages

BLOCKS = [block for page in pages() for block in blocks(page)]
RUN_BY = {"docs/api.md": "training/test_api.py", "docs/tasks.md": "training/test_task_env.py"}
"""Pages whose programs another test runs, as they check what is printed."""
PROGRAMS = sorted({b.page for b in BLOCKS if b.language == "python" and not b.not_run} - RUN_BY.keys())
SHELL = sorted({b.page for b in BLOCKS if b.language == "sh" and not b.not_run})
SHORTER = {
    "max_minutes=8.0": "max_minutes=0.02, num_envs=4, bank_maps=4, eval=SHORT_EVALUATION",
    '"runs/mine", "medium"': '"runs/mine", "medium", seeds=1',
}
"""Parts of the program in the README that take minutes -> what a test runs."""
PLACEHOLDER = re.compile(r"[A-Z]")
"""A number that the reader chooses."""
CHEAP = ("config ", "runs list", "runs tidy", "runs queue", "replay info")
"""Commands that are run where they name no run of the reader."""
RECIPES = set(re.findall(r"^([a-z][\w-]*)[^\n:]*:", (ROOT / "justfile").read_text(encoding="utf-8"), re.MULTILINE))
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
OTHER_PROGRAMS = {"source", "pipx", "mutmut"}
"""Programs that are not the project's, whose arguments are not checked."""


def described(block: Iterable[Block]) -> list[str]:
    return [str(b) for b in block]


def test_every_block_has_a_known_language():
    assert (
        described(b for b in BLOCKS if b.language not in {"python", "sh", "toml", "nginx", "caddy", "text", ""}) == []
    )
    lines = [line for page in pages() for line in page.read_text(encoding="utf-8").splitlines()]
    assert sum(bool(NOT_RUN.fullmatch(line)) for line in lines) == sum(bool(b.not_run) for b in BLOCKS), (
        "a marker stands directly above its block"
    )


def test_programs_that_other_tests_run_are_theirs():
    for page, test in RUN_BY.items():
        source = (ROOT / "tests" / test).read_text(encoding="utf-8")
        assert f'"{Path(page).name}"' in source and "```python" in source


@pytest.fixture
def only_parsed(echelon, monkeypatch):
    """Run a command line up to its command, which does nothing."""
    monkeypatch.setattr(typer.core.TyperCommand, "invoke", lambda self, ctx: 0)
    return echelon


def check(words: list[str], parse) -> str:
    """Return what is wrong with a command, empty if nothing is."""
    program, *rest = words
    program = program.removeprefix(".venv/bin/")
    if program == "echelon":
        _, _, err = parse(*("1" if PLACEHOLDER.fullmatch(word) else word for word in rest))
        return err  # also a notice about an older spelling
    if program == "just":
        return "" if rest[0] in RECIPES else f"no recipe {rest[0]!r}"
    if program in {"python", "python3"}:
        return check_python(rest)
    if program == "uvx":
        return check(rest[rest.index("--from") + 2 :], parse)
    if program == "pip":
        extras = {name for word in rest for found in re.findall(r"\[([\w,]+)\]", word) for name in found.split(",")}
        return f"no extras {sorted(extras - EXTRAS.keys())}" if extras - EXTRAS.keys() else ""
    return "" if program in OTHER_PROGRAMS else f"unknown program {program!r}"


def check_python(words: list[str]) -> str:
    if words[0] == "-m":
        module, *rest = words[1:]
        if module == "pytest":
            paths = [word.partition("::")[0] for word in rest if word.startswith("tests/")]
            return "".join(f"{path!r} does not exist" for path in paths if not (ROOT / path).exists())
        return "" if importlib.util.find_spec(module) else f"no module {module!r}"
    program = ROOT / words[0]
    if not program.is_file():
        return f"no program {words[0]!r}"
    source = program.read_text(encoding="utf-8")
    return "".join(f"no option {word!r}" for word in words[1:] if word.startswith("--") and f'"{word}"' not in source)


@pytest.mark.parametrize("page", SHELL)
def test_shell_commands_exist_with_their_options(page, only_parsed):
    wrong = [
        f"{block}: {' '.join(words)}: {fault}"
        for block in BLOCKS
        if (block.page, block.language, block.not_run) == (page, "sh", "")
        for words in command_lines(block.text)
        if (fault := check(words, only_parsed).strip())
    ]
    assert not wrong, "\n".join(wrong)


def test_commands_within_sentences_exist_with_their_options():
    known = leaves_by_name()
    wrong = []
    for page in pages():
        for text in INLINE.findall(page.read_text(encoding="utf-8")):
            words = re.split(r"[\s/]+", text.partition(" #")[0])[1:]
            path = [name for n in (3, 2, 1) if (name := " ".join(words[:n])) in known]
            flags = set(re.findall(r"--[a-z][\w-]*", text)) - {"--version"}
            if path and (unknown := flags - known[path[0]]):
                wrong.append(f"{page.name}: {text}: {sorted(unknown)}")
            elif not path and words[0][:1].isalpha() and words[0] not in {name.split()[0] for name in known}:
                wrong.append(f"{page.name}: {text}: no such command")
    assert not wrong, "\n".join(wrong)


@pytest.mark.long
@pytest.mark.parametrize("page", PROGRAMS)
def test_programs_run(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    short = EvalConfig(seeds=1, every_updates=0, at_start=False)
    for number, block in enumerate(b for b in BLOCKS if (b.page, b.language, b.not_run) == (page, "python", "")):
        program = block.text
        for part, shorter in SHORTER.items() if page == "README.md" else ():
            assert part in program
            program = program.replace(part, shorter)
        file = tmp_path / f"program_{number}.py"
        file.write_text(program, encoding="utf-8")
        runpy.run_path(str(file), init_globals={"SHORT_EVALUATION": short})
        assert capsys.readouterr().out.strip(), f"{block} prints nothing"


@pytest.mark.parametrize("block", [b for b in BLOCKS if b.language == "toml" and not b.not_run], ids=str)
def test_files_are_read(block, echelon, tmp_path):
    file = tmp_path / "file.toml"
    file.write_text(block.text, encoding="utf-8")
    plan = ("sweep", "start", str(file), "--plan")
    code, _, err = echelon(*(plan if "[sweep]" in block.text else ("config", "show", "--config", str(file))))
    assert code == 0, err


@pytest.mark.long
def test_cheap_commands_run(echelon, monkeypatch):
    monkeypatch.chdir(ROOT)
    runs_home().mkdir(parents=True)
    ran = 0
    for block in BLOCKS:
        for words in command_lines(block.text) if block.language == "sh" and not block.not_run else ():
            line = " ".join(words[1:])
            placeholders = [word for word in words if word.isupper()] + [w for w in words if w.endswith(".toml")]
            if words[0] == "echelon" and line.startswith(CHEAP) and not placeholders:
                code, out, err = echelon(*words[1:])
                assert code == 0 and out.strip(), f"{block}: {line}: {err}"
                ran += 1
    assert ran >= 5


@pytest.mark.long
def test_replay_commands_of_the_tour_run(echelon, monkeypatch):
    monkeypatch.chdir(ROOT)
    lines = [words for block in BLOCKS if block.page == "docs/tour.md" for words in command_lines(block.text)]
    commands = [words[1:] for words in lines if words[:2] == ["echelon", "replay"]]
    assert [words[1] for words in commands] == ["info", "branch"]
    for words in commands:
        code, out, err = echelon(*words)
        assert code == 0 and out.strip(), f"{' '.join(words)}: {err}"
