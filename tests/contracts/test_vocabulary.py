"""The glossary of CONTRIBUTING.md holds: words it replaces occur in no identifier, help text, label or docstring."""

from __future__ import annotations

import ast
import io
import keyword
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from tests.contracts.test_sources import ROOT, name_of, tracked

PRODUCT = ("echelon/", "echelon_cli/", "viewer/src/", "examples/")
CODE = PRODUCT + ("tests/", "viewer/tests/")
DOCUMENTS = ("README.md", "ARCHITECTURE.md", "docs/")
SKIPPED = {"viewer/src/protocol.gen.ts", "tests/contracts/test_vocabulary.py"}
ROW = re.compile(
    r"^\| (?P<word>[^|]+) \| (?P<but>(?:[^|]|\\\|)+) \| (?P<pattern>(?:[^|]|\\\|)*)\| (?P<exceptions>(?:[^|]|\\\|)*)\|$"
)
RULE = re.compile(r"(?P<scope>name|text|any) `(?P<pattern>[^`]+)`")
CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
MIN_RULES = 30


@dataclass(frozen=True)
class Rule:
    """One checked row: the words to avoid, where, and the lines that may contain them."""

    word: str
    scope: str
    pattern: re.Pattern[str]
    exceptions: re.Pattern[str] | None


@dataclass(frozen=True)
class Occurrence:
    """A name or a piece of text of the project, with its place."""

    scope: str
    text: str
    place: str
    line: str


def rules() -> list[Rule]:
    """Return the rows of the glossary that have a pattern."""
    found = []
    for line in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("## Glossary")[2].splitlines():
        row = ROW.match(line)
        rule = RULE.match(row["pattern"].replace("\\|", "|").strip()) if row else None
        if row and rule:
            allowed = row["exceptions"].replace("\\|", "|").strip().strip("`")
            found.append(
                Rule(
                    row["word"].strip(),
                    rule["scope"],
                    re.compile(rule["pattern"], re.IGNORECASE),
                    re.compile(allowed) if allowed else None,
                )
            )
    return found


def words(identifier: str) -> str:
    """Return an identifier as separate words: ``_saidLevels`` becomes ``said Levels``."""
    return CAMEL.sub(" ", identifier.replace("_", " ")).strip()


def python_occurrences(path: Path) -> Iterator[Occurrence]:
    """Yield names, comments and strings of a Python file; attribute names of other libraries count too."""
    source = path.read_text(encoding="utf-8")
    lines = source.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        number = token.start[0]
        if token.type == tokenize.NAME and not keyword.iskeyword(token.string):
            yield Occurrence("name", words(token.string), f"{name_of(path)}:{number}", lines[number - 1])
        elif token.type in (tokenize.STRING, tokenize.COMMENT):
            for offset, text in enumerate(token.string.splitlines()):
                yield Occurrence("text", text, f"{name_of(path)}:{number + offset}", lines[number - 1 + offset])


def other_occurrences(path: Path) -> Iterator[Occurrence]:
    """Yield the lines of TypeScript, CSS, HTML and Markdown files, as text and, in TypeScript, as names."""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        place = f"{name_of(path)}:{number}"
        yield Occurrence("text", line, place, line)
        if path.suffix == ".ts":
            code = re.sub(r"//.*|/?\*.*|\"[^\"]*\"|'[^']*'|`[^`]*`", "", line)
            for name in re.findall(r"[A-Za-z_$][\w$]*", code):
                yield Occurrence("name", words(name), place, line)


@cache
def occurrences() -> tuple[Occurrence, ...]:
    """Return everything that the rules are checked on."""
    found: list[Occurrence] = []
    for path in tracked():
        name = name_of(path)
        if name in SKIPPED or not name.startswith(CODE + DOCUMENTS):
            continue
        found.append(Occurrence("name", words(path.stem.replace(".", " ")), name, name))
        if path.suffix == ".py":
            read = python_occurrences(path)
        elif path.suffix in {".ts", ".css", ".html", ".md"}:
            read = other_occurrences(path)
        else:
            continue
        # tests may quote old names and words; what they are called themselves counts
        found += [one for one in read if one.scope == "name" or name.startswith(PRODUCT + DOCUMENTS)]
    return tuple(found)


def faults(rule: Rule, among: tuple[Occurrence, ...]) -> list[str]:
    """Return the places where a rule is broken."""
    return [
        f"{one.place}: {one.line.strip()[:100]}"
        for one in among
        if rule.scope in ("any", one.scope)
        and rule.pattern.search(one.text)
        and not (rule.exceptions and rule.exceptions.search(f"{one.place}: {one.line}"))
    ]


def test_glossary_patterns_are_read():
    assert len(rules()) >= MIN_RULES


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule.word)
def test_words_that_the_glossary_replaces_do_not_occur(rule):
    found = faults(rule, occurrences())
    assert found == [], f"{rule.word!r}: CONTRIBUTING.md says what to write instead\n" + "\n".join(found[:40])


def test_glossary_rules_find_their_words():
    for rule in rules():
        sample = rule.word.split(",")[0].split(" (")[0]
        if rule.pattern.search(sample):
            one = Occurrence("name" if rule.scope == "name" else "text", sample, "x.py:1", sample)
            assert faults(rule, (one,)), rule.word


def test_unreadable_python_is_not_skipped(tmp_path):
    file = ROOT / "tests" / "contracts" / "test_vocabulary.py"
    assert ast.parse(file.read_text(encoding="utf-8"))
    assert any(one.text == "python occurrences" for one in python_occurrences(file))
