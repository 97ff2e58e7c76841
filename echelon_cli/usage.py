"""Wording of command lines that cannot be read: ``option is 'value', expected ...``, without words of the parser."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import typer

from echelon.validation import expectation

INVALID = re.compile(r"Invalid value(?: for (?P<names>.+?))?: (?P<text>.+)", re.DOTALL)
NOT_ONE_OF = re.compile(r"'(?P<value>.*)' is not one of (?P<names>.+?)\.?", re.DOTALL)

NEAREST = re.compile(r" \(Possible options: (?P<names>.+)\)|\. Did you mean (?P<quoted>.+)\?")
"""Names that the parser suggests."""
SENTENCES = (
    (re.compile(r"No such option: (\S+)"), r"option '\1' does not exist"),
    (re.compile(r"No such command '(.*?)'\.?", re.DOTALL), r"command '\1' does not exist"),
    (re.compile(r"Missing argument '\[?(.+?)\]?(?:\.\.\.)?'\."), r"argument \1 is missing"),
    (re.compile(r"Missing option (.+)\."), r"option \1 is missing"),
    (re.compile(r"Missing command\."), "command is missing"),
    (re.compile(r"Got unexpected extra argument\(s\) \((.*)\)", re.DOTALL), r"argument '\1' is not expected"),
    (re.compile(r"Option (.+) requires an argument\."), r"option \1 has no value, expected one"),
    (re.compile(r"Option (.+) does not take a value\."), r"option \1 has a value, expected none"),
)
"""Sentences of the parser -> ours."""


@contextmanager
def usage_errors() -> Iterator[None]:
    """Turn a ``ValueError`` about what the command line gives into a usage error."""
    try:
        yield
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def usage_text(message: str, words: Sequence[str], command: str = "") -> str:
    """Return the message of the parser about a command line in the words of other messages.

    ``command`` is what the line calls, such as ``echelon runs list``. Its help is named where the parser suggests
    nothing.
    """
    found = INVALID.fullmatch(message)
    if found is None:
        return sentence(message, command)
    text = found["text"].removeprefix("Value error, ")
    if found["names"] is None:
        return text
    names = [name.strip("'[].") for name in found["names"].split(" / ")]
    if choice := NOT_ONE_OF.fullmatch(text):
        return f"{names[0]} is {choice['value']!r}, expected one of {choice['names'].replace(chr(39), '')}"
    if not text.startswith("Input should be "):
        return f"{names[0]}: {text}"
    expected, value = expectation(text), value_of(names, words)
    return f"{names[0]} is {value!r}, expected {expected}" if value is not None else f"{names[0]} expects {expected}"


def sentence(message: str, command: str) -> str:
    """Return a sentence of the parser about ``command`` in our words."""
    near = NEAREST.search(message)
    text = message[: near.start()] if near else message
    ours = next((found.expand(words) for theirs, words in SENTENCES if (found := theirs.fullmatch(text))), None)
    if ours is None:
        return message
    if near is None:
        return f"{ours}; see: {command} --help" if command else ours
    names = near["quoted"] or ", ".join(map(repr, near["names"].split(", ")))
    return f"{ours}, did you mean {names.replace(', ', ' or ')}?"


def value_of(names: Sequence[str], words: Sequence[str]) -> str | None:
    """Return the last value that a command line gives to an option; None for arguments."""
    value = None
    for index, word in enumerate(words):
        if word in names and index + 1 < len(words):
            value = words[index + 1]
        elif "=" in word and word.partition("=")[0] in names:
            value = word.partition("=")[2]
    return value
