"""Older spellings of commands and options: they keep working, ``--help`` omits them, and a notice names the new one.

``current`` spells a command line as it is spelled today, before it is parsed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

MOVED: dict[str, tuple[str, str]] = {
    **{name: ("runs", name) for name in ("jobs", "stop", "wait", "logs", "rm", "heat", "export")},
    **{name: ("policy", name) for name in ("push", "pull")},
}
"""Commands that belong to a group now."""

RENAMED: dict[tuple[str, ...], dict[str, str]] = {
    ("train",): {
        "--num-envs": "--envs",
        "--packs-per-team": "--packs",
        "--init-from": "--start-from",
        "--total-steps": "--steps",
    },
    ("ablate",): {"--runs": "--seeds"},
    ("arena", "run"): {"--opponents": "--opponents-per-entry", "--record": "--record-share"},
    ("replay", "branch"): {"--record": "--out"},
    ("sim",): {"--fair": "--max-distance-ratio"},
}
"""Options of a command that have another name now."""

SWITCHES = ("--deterministic", "--amp", "--compile", "--recompute-advantages")
"""Options of ``train`` that are on or off; once their value was a word after them."""

ON_OFF = {"true": True, "false": False}

ALONE: dict[tuple[str, ...], dict[str, str]] = {("sim",): {"--record": "all"}}
"""Options whose value may be left out, and what it is then."""

POLICY_OPTIONS = ("--torchscript", "--onnx", "--weights", "--policy")
"""Options of ``runs export`` that ``policy export`` has now."""


class CommandLine(NamedTuple):
    """A command line as it is spelled today."""

    words: list[str]
    notices: list[str]
    """What to type instead of each older spelling in it."""


def current(words: Sequence[str]) -> CommandLine:
    """Return a command line with the spellings of today."""
    at = next((index for index, word in enumerate(words) if not word.startswith("-")), len(words))
    before, path, rest = list(words[:at]), tuple(words[at : at + 1]), list(words[at + 1 :])
    notices = []
    if path and path[0] in MOVED:
        notices.append(f"'echelon {path[0]}' is 'echelon {' '.join(MOVED[path[0]])}' now")
        path = MOVED[path[0]]
    elif rest and (path[0], rest[0]) in (*RENAMED, ("runs", "export")):
        path, rest = (path[0], rest[0]), rest[1:]
    rest, renamed = _renamed(rest, RENAMED.get(path, {}))
    notices += renamed
    if path == ("train",):
        spelled = _with_switches(rest)
        notices += ["--amp and other switches take no value now: --amp, --no-amp"] if spelled != rest else []
        rest = spelled
    rest = _completed(rest, ALONE.get(path, {}))
    if path == ("runs", "export") and (moved := [name for word in rest if (name := _name(word)) in POLICY_OPTIONS]):
        # curves and policies in one line keep working: only the notice names the other command
        notices = [f"'echelon runs export' with {moved[0]} is 'echelon policy export' now"]
    return CommandLine([*before, *path, *rest], notices)


def _name(word: str) -> str:
    """Return the name of an option that may have its value behind ``=``."""
    return word.partition("=")[0]


def _renamed(words: Sequence[str], names: dict[str, str]) -> tuple[list[str], list[str]]:
    """Return words with options named as they are now, and a notice for each that was not."""
    found, notices = list(words), []
    for index, word in enumerate(words):
        if word == "--":
            break
        if (name := _name(word)) in names:
            found[index] = names[name] + word.removeprefix(name)
            notices.append(f"{name} is {names[name]} now")
    return found, notices


def _with_switches(words: Sequence[str]) -> list[str]:
    """Return words in which ``--amp true`` is spelled ``--amp``, and ``--amp false`` ``--no-amp``."""
    spelled: list[str] = []
    for word in words:
        if spelled and spelled[-1] in SWITCHES and word in ON_OFF:
            spelled[-1] = spelled[-1] if ON_OFF[word] else f"--no-{spelled[-1].removeprefix('--')}"
        else:
            spelled.append(word)
    return spelled


def _completed(words: Sequence[str], alone: dict[str, str]) -> list[str]:
    """Return words with the value of each option that has none."""
    found: list[str] = []
    for index, word in enumerate(words):
        found.append(word)
        if word in alone and (index + 1 == len(words) or words[index + 1].startswith("-")):
            found.append(alone[word])
    return found


def older(path: tuple[str, ...]) -> list[str]:
    """Return the older spellings of the options of a command, each with the one of today."""
    return [f"{name} is {now}" for name, now in RENAMED.get(path, {}).items()]
