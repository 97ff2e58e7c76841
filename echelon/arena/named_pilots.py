"""Pilots of a match that is played on, by name: scripted levels, policies, and the policy that flew a recorded team."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import torch

from echelon import champion
from echelon.arena.contest import PILOT_ALIASES, pilot_names
from echelon.arena.policy_runner import Pilot
from echelon.rl.weights import LoadedPolicy, load_policy

LEVEL_PREFIX = "heuristic:"
SIDES = {"blue": 0, "red": 1}


def mechs_by_name(header: Mapping[str, Any]) -> dict[str, int]:
    """Return the mechs of a replay header by name."""
    return {str(row["name"]): mech for mech, row in enumerate(header["roster"]) if row["present"]}


def names_by_mech(header: Mapping[str, Any], chosen: Mapping[str, str], option: str) -> dict[int, str]:
    """Return the names of pilots by mech; ``chosen`` has them by mech or team, and a mech goes before its team.

    ``ValueError`` names an ``option`` with a mech that does not exist.
    """
    mechs, named = mechs_by_name(header), {}
    for target in sorted(chosen, key=lambda target: target not in SIDES):
        if target in SIDES:
            named |= {m: chosen[target] for m in mechs.values() if header["roster"][m]["team"] == SIDES[target]}
        elif target in mechs:
            named[mechs[target]] = chosen[target]
        else:
            raise ValueError(f"{option} has mech {target!r:.80}, expected blue, red or one of: {', '.join(mechs)}")
    return named


def level_pilot(name: str) -> Pilot | None:
    """Return the scripted pilot of a name, None for a name that is no level."""
    level = name.removeprefix(LEVEL_PREFIX)
    if level not in pilot_names():
        return None
    return Pilot(id=name, label=level, level=PILOT_ALIASES.get(level, level))


def policy_pilot(label: str, path: Path, device: torch.device | str = "cpu") -> tuple[Pilot, LoadedPolicy]:
    """Return the pilot and the policy of a checkpoint, run or exported policy."""
    loaded = load_policy(path, device)
    return Pilot(id=label, label=label, path=str(path), checkpoint=str(loaded.meta.get("id", ""))), loaded


def policy_that_flew(
    team: Mapping[str, Any], paths: Iterable[Path], load: Callable[[Path], tuple[Pilot, LoadedPolicy]]
) -> tuple[Pilot, LoadedPolicy] | None:
    """Return the first policy of ``paths``, else the champion, that is the one which flew a recorded team; or None."""
    checkpoint = team.get("checkpoint")
    for path in [*paths, champion.FOLDER] if checkpoint else paths:
        with contextlib.suppress(ValueError, OSError):
            pilot, loaded = load(path)
            if not checkpoint or pilot.checkpoint == checkpoint:
                return pilot, loaded
    return None
