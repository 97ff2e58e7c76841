"""Pilots of a match that is played on, by name: scripted levels, policies, and those that flew a recorded match."""

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from echelon import champion
from echelon.agents import heuristic
from echelon.agents.heuristic import SKILLS
from echelon.arena.contest import BLUE, RED, Pilot
from echelon.arena.ratings import policy_rating
from echelon.arena.reconstruct import recorded_inputs, recorded_pilots, require_playable
from echelon.replay.header import TeamInfo
from echelon.replay.match_text import HUMAN, JOINT, LEVEL_PREFIX, SIDES, STILL, mechs_by_name, names_by_mech, team_pilot
from echelon.replay.reader import Replay
from echelon.replay.winprob import known_rating
from echelon.rl.weights import LoadedPolicy, load_policy


class RecordedPilot(NamedTuple):
    """Pilot of a mech of a recording."""

    name: str
    """A level with its prefix, ``still``, or the name of a policy."""
    checkpoint: str = ""
    """Id of the policy, "" unknown or none."""

    @property
    def label(self) -> str:
        return self.name.removeprefix(LEVEL_PREFIX)

    @property
    def team(self) -> TeamInfo:
        if self.name == STILL or self.name.startswith(LEVEL_PREFIX):
            return TeamInfo(name=self.label, level="" if self.name == STILL else self.name)
        return TeamInfo(name=self.name, policy=self.name, checkpoint=self.checkpoint)


def level_pilot(name: str) -> Pilot | None:
    level = name.removeprefix(LEVEL_PREFIX)
    if level not in SKILLS:
        return None
    return Pilot(id=name, label=level, level=level)


def still_pilot() -> Pilot:
    return Pilot(id=STILL, label=STILL)


def policy_pilot(label: str, path: Path, device: torch.device | str = "cpu") -> tuple[Pilot, LoadedPolicy]:
    loaded = load_policy(path, device)
    return loaded_pilot(label, path, loaded), loaded


def loaded_pilot(label: str, path: Path, loaded: LoadedPolicy) -> Pilot:
    """Return the pilot of a policy from a file, with the rating that its league or its last evaluation gives."""
    checkpoint = str(loaded.meta.get("id", ""))
    rating = policy_rating(path, checkpoint, int(loaded.meta.get("update", 0)))
    return Pilot(id=label, label=label, path=str(path), checkpoint=checkpoint, rating=rating)


def recorded_pilot(header: Mapping[str, Any], mech: int) -> RecordedPilot:
    """Return the pilot that flew a mech in a recording; that of its team without the humans where it has no own."""
    pilots, mechs = header.get("pilots") or {}, header["mechs"]
    script = pilots.get("script", ())
    if mech < len(script) and 0 < script[mech] <= len(SKILLS):
        return RecordedPilot(f"{LEVEL_PREFIX}{SKILLS[script[mech] - 1]}")
    names, checkpoints = pilots.get("names", ()), pilots.get("checkpoints", ())
    if len(names) == len(checkpoints) == mechs and names[mech]:
        return RecordedPilot(names[mech], checkpoints[mech])
    team = header["teams"][header["roster"][mech]["team"]]
    return RecordedPilot(team_pilot(team), str(team.get("checkpoint", "")))


def _rating(mech: int, pilots: Mapping[int, Pilot], recorded: Mapping[str, Any] | None) -> float | None:
    """Return the known rating of a mech's pilot; that of its recorded team where it has no own."""
    if mech in pilots:
        pilot = pilots[mech]
        return known_rating(pilot.level, pilot.checkpoint) if pilot.rating is None else pilot.rating
    if recorded is None:
        return None
    known = known_rating(*recorded_pilot(recorded, mech))
    return recorded["teams"][recorded["roster"][mech]["team"]].get("rating") if known is None else known


def pilots_of_mechs(
    mechs: int, pilots: Mapping[int, Pilot], recorded: Mapping[str, Any] | None = None
) -> tuple[tuple[str, str], ...]:
    """Return name and checkpoint of each mech's pilot for a header; those without one are as in the header given."""
    found = []
    for mech in range(mechs):
        pilot = pilots.get(mech)
        known = _as_recorded(pilot) if pilot else recorded_pilot(recorded, mech) if recorded else RecordedPilot("")
        found.append((known.name, known.checkpoint))
    return tuple(found)


def _as_recorded(pilot: Pilot) -> RecordedPilot:
    return RecordedPilot(f"{LEVEL_PREFIX}{pilot.level}" if pilot.level else pilot.label, pilot.checkpoint)


def teams_of(
    roster: Sequence[Mapping[str, Any]],
    pilots: Mapping[int, Pilot],
    seats: Sequence[int] = (),
    recorded: Mapping[str, Any] | None = None,
) -> tuple[TeamInfo, TeamInfo]:
    """Return both teams, named after their pilots; mechs without one are flown as in the ``recorded`` header, if any.

    A team has policy, checkpoint and level where one pilot flies all its mechs but the seats. Its rating is the mean of
    those of these mechs' pilots, if all are known.
    """
    found = []
    for side in (BLUE, RED):
        own = [mech for mech, row in enumerate(roster) if row["team"] == side and row["present"]]
        others = [mech for mech in own if mech not in seats]
        teams = {_as_recorded(pilots[mech]).team for mech in others if mech in pilots}
        if recorded:
            teams |= {recorded_pilot(recorded, mech).team for mech in others if mech not in pilots}
        names = {team.name for team in teams} | {HUMAN for mech in own if mech in seats}
        only = next(iter(teams)) if len(teams) == 1 else TeamInfo(name="")
        known = [rating for mech in others if (rating := _rating(mech, pilots, recorded)) is not None]
        rating = fmean(known) if known and len(known) == len(others) else None
        name = JOINT.join(sorted(names)) or STILL
        found.append(_recorded_team(recorded, own, pilots, seats) or replace(only, name=name, rating=rating))
    return found[BLUE], found[RED]


def _recorded_team(
    recorded: Mapping[str, Any] | None, own: Sequence[int], pilots: Mapping[int, Pilot], seats: Sequence[int]
) -> TeamInfo | None:
    """Return the recorded team of these mechs where the same pilots fly it, without humans; else None."""
    if not recorded or not own:
        return None
    team = recorded["teams"][recorded["roster"][own[0]]["team"]]
    if HUMAN in str(team["name"]).split(JOINT):
        return None
    for mech in own:
        before = recorded_pilot(recorded, mech)
        now = _as_recorded(pilots[mech]) if mech in pilots else before
        if mech in seats or now.name != before.name or before.checkpoint not in ("", now.checkpoint):
            return None
    texts = {key: str(team.get(key, "")) for key in ("name", "policy", "checkpoint", "level")}
    return TeamInfo(**texts, rating=team.get("rating"), mean=team.get("mean"))


class Finder(Protocol):
    """Where the policies of a match that is played on are looked up."""

    option: str
    """Name of the option that chooses pilots, for errors."""
    remedy: str
    """What to do about a team, ``{}``, whose policy is not found."""

    def named(self, name: str) -> tuple[Pilot, LoadedPolicy | None]:
        """Return the pilot of a chosen name, and its policy; ``ValueError`` for a name that is none."""
        ...

    def paths(self, header: Mapping[str, Any], flown: RecordedPilot) -> Iterable[Path]:
        """Return where the policy that flew a mech of a recording may be."""
        ...

    def load(self, label: str, path: Path) -> tuple[Pilot, LoadedPolicy]:
        """Return the pilot and the policy of a file; ``ValueError`` or ``OSError`` for one that is none."""
        ...


@dataclass(frozen=True, kw_only=True)
class Cast:
    """The seats of a match and the pilots of its other mechs."""

    seats: tuple[int, ...] = ()
    pilots: Mapping[int, Pilot]
    """By mech; a mech without one keeps its recorded scripted pilot, or holds still."""
    policies: Mapping[str, LoadedPolicy] = field(default_factory=dict)
    """By path of the pilot."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Pilots that were chosen, by mech or team."""

    def policy_by_mech(self) -> dict[int, LoadedPolicy]:
        return {mech: self.policies[p.path] for mech, p in self.pilots.items() if p.path and mech not in self.seats}

    def script(self, recorded: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the number of each mech's scripted pilot ``[M]``, from those of the recording."""
        script = recorded.copy()
        for mech, pilot in self.pilots.items():
            script[mech] = heuristic.script_of(pilot.level) if pilot.level else 0
        script[list(self.seats)] = 0
        return script


def choose_pilots(recorded: Replay, chosen: Mapping[str, str], finder: Finder, seats: Sequence[int] = ()) -> Cast:
    """Return who plays a recorded match on: ``chosen`` names pilots by mech or team, others are as recorded.

    Mechs that humans flew have the pilot of their team, and hold still where it has none. ``ValueError`` for a match
    that cannot be played, a name that is no pilot, and a policy that is not found.
    """
    require_playable(recorded)
    header = recorded.header
    named = names_by_mech(header, chosen, finder.option)
    script = recorded_pilots(recorded)[0]
    humans = {mech for flown, _ in recorded_inputs(recorded).values() for mech in flown}
    pilots: dict[int, Pilot] = {}
    policies: dict[str, LoadedPolicy] = {}
    known: dict[Any, tuple[Pilot, LoadedPolicy | None]] = {}
    for mech in mechs_by_name(header).values():
        if mech in seats or (mech not in named and script[mech]):
            continue
        key = named.get(mech) or (recorded_pilot(header, mech), header["roster"][mech]["team"], mech in humans)
        if key not in known:
            is_human = mech in humans
            known[key] = finder.named(named[mech]) if mech in named else _recorded(header, mech, is_human, finder)
        pilots[mech], policy = known[key]
        if policy is not None:
            policies[pilots[mech].path] = policy
    labels = {target: name.removeprefix(LEVEL_PREFIX) for target, name in chosen.items()}
    return Cast(seats=tuple(seats), pilots=pilots, policies=policies, labels=labels)


def _recorded(
    header: Mapping[str, Any], mech: int, is_human: bool, finder: Finder
) -> tuple[Pilot, LoadedPolicy | None]:
    flown = recorded_pilot(header, mech)
    if flown.name == STILL and not flown.checkpoint:
        return still_pilot(), None
    # a seat may have had no input yet
    team = header["teams"][header["roster"][mech]["team"]]
    may_be_seat = is_human or header.get("pilots", {}).get("names") or HUMAN in str(team["name"]).split(JOINT)
    if may_be_seat and flown.name.startswith(LEVEL_PREFIX) and (level := level_pilot(flown.name)) is not None:
        return level, None
    paths = [*finder.paths(header, flown), champion.FOLDER] if flown.checkpoint else finder.paths(header, flown)
    for path in paths:
        with contextlib.suppress(ValueError, OSError):
            pilot, loaded = finder.load(flown.label, path)
            if not flown.checkpoint or pilot.checkpoint == flown.checkpoint:
                return pilot, loaded
    if is_human:
        return still_pilot(), None
    side = tuple(SIDES)[header["roster"][mech]["team"]]
    raise ValueError(f"{side} was flown by {flown.label!r}, whose policy is not found; {finder.remedy.format(side)}")
