"""A match with human pilots or a commander: played tick by tick, recorded, and perceived by each seat.

It is new, or continues a recorded match from a moment. Seats are fixed for its length; a seat whose input is 0 holds
still. Scripted pilots and policies act once per environment step, inputs are read before every tick.
"""

import contextlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from echelon.actions import ORDER_NAMES, Order
from echelon.agents import heuristic
from echelon.arena.branch_pilots import BranchPilots
from echelon.arena.commander import Commander, command
from echelon.arena.contest import BLUE, RED, Pilot
from echelon.arena.named_pilots import Cast, pilots_of_mechs, teams_of
from echelon.arena.reconstruct import ReplayedMatch, open_match, parent_of, recorded_pilots
from echelon.config import EnvConfig
from echelon.env.engine import Engine
from echelon.env.match_state import load_match_state, save_match_state
from echelon.env.observe.orders import check_order
from echelon.env.referee import REASONS
from echelon.env.seats import Inputs, Seats
from echelon.files import reason_of
from echelon.gen.bank import build_bank
from echelon.play.perception import Perception
from echelon.play_protocol import Frame
from echelon.replay.match_text import HUMAN, clock, mechs_by_name
from echelon.replay.reader import Replay
from echelon.replay.record import MatchInfo, Recorder
from echelon.replay.schema import WINNERS
from echelon.rl.weights import LoadedPolicy
from echelon.sim.arsenal import CHASSIS

LOG = logging.getLogger(__name__)
SEEN_S = 5.0
"""Time before the moment that policies see, so that their recurrent state fits the match [s]."""
STEP_PROGRAMS = ("pilots", "begin_step", "tick", "end_step")
"""Programs of the engine that a match runs."""
CLASSES = tuple(spec.chassis.name.lower() for spec in CHASSIS)


@dataclass(frozen=True, kw_only=True)
class PlayOutcome:
    """How a match ended; of one that was left, winner and reason are empty."""

    winner: str = ""
    reason: str = ""


class PlayedMatch:
    """A match in progress; ``tick`` plays on, ``finish`` closes the recording."""

    def __init__(
        self, engine: Engine, pilots: BranchPilots, seats: Sequence[int], path: Path, match: MatchInfo,
        commanders: Mapping[tuple[int, int], Commander] = MappingProxyType({}), team: Sequence[int] = (),
    ) -> None:  # fmt: skip
        """A human commands the mechs of a ``team``, if any; its seat is that of the first."""
        self.engine, self.seats, self.path = engine, tuple(seats), path
        self._pilots, self._controls = pilots, Seats(engine, self.seats)
        self._commanders = commanders
        self._given: dict[tuple[int, int], tuple[Order, int]] = {}
        """Orders from the next environment step on."""
        self._inputs: list[Inputs] = []
        """Inputs of the ticks of this environment step so far."""
        self._recorder = Recorder(engine, [0], path.parent, [match], embed_world=True, policy="actions", lossy=True)
        self._recorder.begin()
        self._observations = pilots.observations.numpy()
        self.team, watched = tuple(team), team[:1] if team else self.seats
        self.perceptions = {mech: Perception(engine, mech, self._observations, team=team) for mech in watched}
        """What each seat's pilot gets: of its mech, after its end of a team mate; a commander of all its mechs."""
        self.header = self._recorder.headers[0]
        for name in STEP_PROGRAMS:
            engine.prepare(name)
        self.over = self._is_reported = False
        self.outcome = PlayOutcome()

    @property
    def now(self) -> int:
        return int(self.engine.batch.numpy("tick")[0])

    def new_problem(self) -> str:
        """Return why the recording ends before the match, such as a full disk, in one line and once; "" otherwise."""
        if self._is_reported or not (problem := self._recorder.problem):
            return ""
        self._is_reported = True
        seconds = self.now * self.engine.cfg.dt_sim
        return f"The recording ends at {clock(seconds)}: {problem}. The match goes on."

    def tick(self, inputs: Inputs) -> None:
        """Play one tick with the inputs ``[S, A]`` of the seats."""
        if not self._inputs:
            if self._commanders:
                command(self.engine, self._commanders)
            if self._given:
                self.engine.give_orders(self._given)
                self._given = {}
            self._pilots.act()
            self.engine.run("pilots")
            self._controls.begin_step(inputs)
            self._controls.tick()
        else:
            self._controls.tick(inputs)
        self._inputs.append(inputs.copy())
        if len(self._inputs) == self.engine.cfg.decision_repeat:
            self._end_step()
        else:
            for perception in self.perceptions.values():
                perception.collect_events()

    def watch(self, seat: int, step: int) -> None:
        """Let the pilot of a destroyed mech perceive what the next living team mate does, ``step`` -1 the previous.

        ``ValueError`` while the mech lives or where no team mate does.
        """
        alive, team = (self.engine.batch.row(name, 0) for name in ("alive", "team"))
        mates = [m for m in np.flatnonzero((alive == 1) & (team == team[seat])).tolist() if m != seat]
        if alive[seat] or not mates or self.team:
            raise ValueError(f"mech {seat} cannot watch a team mate, expected it destroyed and one alive")
        before = self.perceptions[seat]
        later = [m for m in mates if (m - before.mech) * step > 0]
        mate = (later or mates)[0 if step > 0 else -1]
        self.perceptions[seat] = Perception(self.engine, mate, self._observations, before)

    def order(self, seat: int, name: str, chosen: Sequence[str] = (), target: str = "") -> None:
        """Order the mates of a seat's pack, or a commander's team, from the next environment step on.

        FOCUS and SCREEN name the mech ``target``, "" the seat's target and its mech; ``chosen`` are names of mechs,
        none for all. ``ValueError`` for what is no order, and for a target that the seat does not know of.
        """
        if name not in ORDER_NAMES:
            raise ValueError(f"order {name!r} does not exist, expected one of: {', '.join(ORDER_NAMES)}")
        order = Order(ORDER_NAMES.index(name))
        mechs, perception = mechs_by_name(self.header), self.perceptions[seat]
        own = {Order.FOCUS: int(self.engine.batch.row("focus", 0)[seat]), Order.SCREEN: seat}
        named = -1 if order not in own else mechs.get(target, -1) if target or self.team else own[order]
        wanted = {mechs.get(mate) for mate in chosen}
        mates = [m for m in perception.ordered if m not in (*self.seats, named) and (not chosen or m in wanted)]
        if not mates or (order in own and not perception.knows(named)):
            raise ValueError(f"order {name!r} has no {'target' if mates else 'team mate'}, expected one")
        for m in mates:
            check_order(self.engine.batch, 0, m, order, named)
        self._given |= {(0, m): (order, named) for m in mates}

    def frame(self, seat: int, seq: int) -> Frame:
        """Return a seat's frame; it has the orders that were given since the last environment step too."""
        perception = self.perceptions[seat]
        frame = perception.frame(seq)
        for (_, m), (order, named) in self._given.items():
            if m in perception.ordered:
                at = perception.ordered.index(m)
                frame.orders[at], frame.named[at] = int(order), named
        return frame

    def _end_step(self) -> None:
        self._controls.end_step()
        for perception in self.perceptions.values():
            perception.collect_events()
        if self.seats:
            self._recorder.add_inputs(self.seats, np.stack(self._inputs))
        self._recorder.after_step()
        self._inputs = []
        batch = self.engine.batch
        self.over = bool(batch.numpy("over")[0])
        if self.over:
            self.outcome = PlayOutcome(
                winner=WINNERS[int(batch.row("done_winner", 0))], reason=REASONS[int(batch.row("done_reason", 0))]
            )
        for perception in self.perceptions.values():
            perception.forget_journal()
            perception.sense()

    def finish(self, folder: Path | None = None) -> str:
        """Close the recording and the engine, and move the recording to ``folder``; return its name there.

        Ticks after the last whole environment step are not recorded. The name is "" where a full disk has left nothing
        of it.
        """
        try:
            self._recorder.finish()
        finally:
            self._pilots.close()
            self.engine.close()
        for commander in self._commanders.values():
            if report := commander.report():
                LOG.warning("%s", report)
        try:
            if self._recorder.problem and not _is_readable(self.path):
                self.path.unlink(missing_ok=True)
                return ""
            if folder is not None:
                self.path.rename(folder / self.path.name)
        except OSError as error:
            LOG.warning("recording %s is not listed: %s", self.path.name, reason_of(error))
            return ""
        return self.path.name


def _is_readable(path: Path) -> bool:
    """Whether a recording of which the disk took only a part has a moment to show."""
    with contextlib.suppress(OSError, ValueError), Replay(path) as part:
        return len(part.chunks) > 0
    return False


@dataclass(frozen=True, kw_only=True)
class NewMatch:
    """A match to begin."""

    env: EnvConfig
    seed: int
    team: int = BLUE
    """Side of the first seat."""
    chassis: str = ""
    """Class of the first seat's mech, "" any."""
    seats: int = 1
    command: bool = False
    """Whether a human commands ``team`` in place of the seats."""
    mates: Pilot | None = None
    hostiles: Pilot | None = None
    """Pilots of the first seat's side and of the other; None holds still."""
    policies: Mapping[str, LoadedPolicy] = field(default_factory=dict)
    changes: Mapping[str, float] = field(default_factory=dict)
    commander: Commander | None = None
    """Commander of the hostiles."""


def begin_match(plan: NewMatch, path: Path, about: Mapping[str, Any]) -> PlayedMatch:
    """Return a new match at its start; ``ValueError`` for a class that the side does not have."""
    cfg = plan.env
    bank = build_bank(cfg.world, [plan.seed], num_packs=cfg.num_packs, zone_radius_vox=cfg.zone_radius_vox)
    engine = Engine(cfg, 1, bank, threads=1, autoreset=False, changes=[dict(plan.changes)], pilots=heuristic.install)
    pilots: BranchPilots | None = None
    try:
        batch = engine.batch
        batch.set("forced_seed", np.full(1, plan.seed, np.int32))
        batch.set("forced_slot", np.zeros(1, np.int32))
        batch.set("packs", np.full(1, cfg.num_packs, np.int32))
        engine.reset()
        roster = _roster(batch)
        cast = _cast(plan, roster)
        team = _side_of(roster, plan.team) if plan.command else []
        pilots = BranchPilots(cast.policy_by_mech(), observed=team or _sides_of(roster, cast.seats))
        pilots.attach(engine)
        batch.set("script", cast.script(np.zeros(engine.num_mechs, np.int32))[None])
        engine.clear()
        engine.reset()
        pilots.warm_up()
        pilots.start({}, [plan.seed])
        match = MatchInfo(
            name=path.stem,
            teams=teams_of(roster, cast.pilots, cast.seats),
            map_seed=plan.seed,
            about=about,
            flown=pilots_of_mechs(engine.num_mechs, cast.pilots),
        )
        commanders = {(0, 1 - plan.team): plan.commander} if plan.commander else {}
        return PlayedMatch(engine, pilots, cast.seats, path, match, commanders, team)
    except BaseException:
        if pilots is not None:
            pilots.close()
        engine.close()
        raise


def _roster(batch: Any) -> list[dict[str, Any]]:
    columns = [batch.row(name, 0).tolist() for name in ("team", "chassis", "present")]
    return [{"team": t, "chassis": c, "present": p == 1} for t, c, p in zip(*columns, strict=True)]


def _sides_of(roster: Sequence[Mapping[str, Any]], seats: Sequence[int]) -> list[int]:
    """Return the mechs of the seats' sides, which their pilots may watch."""
    sides = {roster[seat]["team"] for seat in seats}
    return [m for m, row in enumerate(roster) if row["team"] in sides and row["present"]]


def _side_of(roster: Sequence[Mapping[str, Any]], team: int) -> list[int]:
    return [m for m, row in enumerate(roster) if row["team"] == team and row["present"]]


def _cast(plan: NewMatch, roster: Sequence[Mapping[str, Any]]) -> Cast:
    sides = [_side_of(roster, side) for side in (BLUE, RED)]
    own = sides[plan.team]
    first = [m for m in own if not plan.chassis or CLASSES[roster[m]["chassis"]] == plan.chassis]
    if not first:
        have = ", ".join(sorted({CLASSES[roster[m]["chassis"]] for m in own}))
        raise ValueError(f"class {plan.chassis!r} has no mech in team {WINNERS[plan.team]}, expected one of: {have}")
    mates = [m for m in own if m != first[0]]
    others = [m for pair in zip(sides[1 - plan.team], [*mates, None], strict=False) for m in pair if m is not None]
    seats = () if plan.command else (first[0], *others)[: plan.seats]
    pilots = {m: p for m in own if (p := plan.mates) is not None}
    pilots |= {m: p for m in sides[1 - plan.team] if (p := plan.hostiles) is not None}
    return Cast(seats=seats, pilots=pilots, policies=plan.policies)


@dataclass(frozen=True, kw_only=True)
class TakeOver:
    """A moment of a recorded match to play on from."""

    tick: int
    cast: Cast
    changes: Mapping[str, float] = field(default_factory=dict)
    seed: int | None = None
    team: int | None = None
    """Side that a human commands, None for none."""


def take_over(recorded: Replay, plan: TakeOver, path: Path, about: Mapping[str, Any]) -> PlayedMatch:
    """Return a recorded match at a moment, with other pilots; ``ValueError`` where it cannot be played on."""
    roster = recorded.header["roster"]
    team = [] if plan.team is None else _side_of(roster, plan.team)
    observed = team or _sides_of(roster, plan.cast.seats)
    pilots = BranchPilots(plan.cast.policy_by_mech(), observed=observed)
    match: ReplayedMatch | None = None
    engine: Engine | None = None
    try:
        match = ReplayedMatch(recorded, prepare=pilots.attach)
        pilots.warm_up()
        pilots.start({}, [0])
        seen = round(SEEN_S * float(recorded.header["tick_hz"])) if plan.cast.policy_by_mech() else 0

        def watch(engine: Engine) -> None:
            if int(engine.batch.numpy("tick")[0]) >= plan.tick - seen:
                pilots.act()

        moment = match.go_to(plan.tick, seen_ticks=seen, before_step=watch)
        engine = match.engine
        if engine.batch.numpy("ended").any():
            raise ValueError("the match has ended at this moment, expected an earlier one")
        memories = pilots.states()
        if plan.changes:
            state = save_match_state(engine, 0)
            pilots.close()
            match.close()
            pilots = BranchPilots(plan.cast.policy_by_mech(), observed=observed)
            engine = open_match(recorded, changes=plan.changes, prepare=pilots.attach)
            load_match_state(engine, state)
            pilots.warm_up()
        batch = engine.batch
        if plan.seed is not None:
            batch.set("seed", np.full(1, plan.seed, np.uint32))
        batch.set("script", plan.cast.script(recorded_pilots(recorded)[0])[None])
        engine.run("observe")
        pilots.start(memories, [int(batch.numpy("seed")[0])])
        humans = {recorded.header["roster"][mech]["name"]: HUMAN for mech in plan.cast.seats}
        seed = {} if plan.seed is None else {"seed": plan.seed}
        parent = parent_of(
            recorded, moment.tick, set={**plan.cast.labels, **humans}, changes=dict(plan.changes), **seed
        )
        info = MatchInfo(
            name=path.stem,
            teams=teams_of(recorded.header["roster"], plan.cast.pilots, plan.cast.seats, recorded.header),
            map_seed=int(recorded.header["map_seed"]),
            about={**about, "parent": parent},
            flown=pilots_of_mechs(recorded.header["mechs"], plan.cast.pilots, recorded.header),
        )
        return PlayedMatch(engine, pilots, plan.cast.seats, path, info, team=team)
    except BaseException:
        pilots.close()
        if engine is not None:
            engine.close()
        elif match is not None:
            match.close()
        raise


def seat_header(header: Mapping[str, Any], mech: int) -> dict[str, Any]:
    """Return a replay's header as the pilot of a mech may read it: without seeds, scripts and classes of hostiles."""
    roster = header["roster"]
    shown = [row if row["team"] == roster[mech]["team"] else {**row, "chassis": 0} for row in roster]
    known = {key: value for key, value in header.items() if key not in ("pilots", "insight", "actions")}
    return {**known, "seed": 0, "map_seed": 0, "roster": shown}
