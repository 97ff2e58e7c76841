"""Wording of command lines that cannot be read: ``option is 'value', expected ...``, without words of the parser."""

from __future__ import annotations

import re
from collections.abc import Sequence

from echelon.validation import expectation

INVALID = re.compile(r"Invalid value(?: for (?P<names>.+?))?: (?P<text>.+)", re.DOTALL)
NOT_ONE_OF = re.compile(r"'(?P<value>.*)' is not one of (?P<names>.+?)\.?", re.DOTALL)


def usage_text(message: str, words: Sequence[str]) -> str:
    """Return the message of the parser about a command line in the words of other messages."""
    found = INVALID.fullmatch(message)
    if found is None:
        return message
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


def value_of(names: Sequence[str], words: Sequence[str]) -> str | None:
    """Return the last value that a command line gives to an option; None for arguments."""
    value = None
    for index, word in enumerate(words):
        if word in names and index + 1 < len(words):
            value = words[index + 1]
        elif "=" in word and word.partition("=")[0] in names:
            value = word.partition("=")[2]
    return value
