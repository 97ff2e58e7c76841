"""Continues a recorded match from any of its moments, many times in one batch.

The moment is reconstructed once, by ``echelon.arena.reconstruct``. Every continuation starts from that state with
another combat seed and, where policies fly, other noise of their actions; a continuation depends on its number and the
seed of the plan alone, not on the batch. For a window after the moment, all mechs may repeat what they did in the
recording except some that stand still: the difference to continuations in which these act too is the effect of their
actions. With a stand-in, the pilots of all others fly in the window, and a mech repeats its recorded actions or those
of a level from another continuation: neither knows what will happen, so that the difference is that of the actions.
"""

import contextlib
import gc
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from echelon.agents import heuristic
from echelon.arena import reconstruct
from echelon.arena.branch_pilots import BranchPilots
from echelon.arena.contest import BLUE, DRAW, RED, Pilot
from echelon.arena.named_pilots import choose_pilots, pilots_of_mechs, teams_of
from echelon.env.engine import Engine
from echelon.env.match_state import State, load_match_state, save_match_state
from echelon.env.referee import REASONS, WINNERS
from echelon.replay.header import TeamInfo
from echelon.replay.match_text import mechs_by_name
from echelon.replay.reader import Replay
from echelon.replay.record import MatchInfo, Recorder
from echelon.replay.schema import SUFFIX
from echelon.rl.lstm_state import LSTMState
from echelon.rl.weights import LoadedPolicy
from echelon.sim.random import StreamId, draw_u32
from echelon.sim.state import array_bytes
from echelon.statistics import paired_difference, wilson_interval

Load = Callable[[Pilot], LoadedPolicy]
WAVE_BYTES = 256 << 20
"""Simulator arrays of the continuations that are played at the same time, one at least [bytes]."""
OTHER = 2**20
"""Added to the number of a continuation for that in which its stand-in chooses its actions."""
SEED_MASK = 2**31 - 1
"""Seeds of continuations are 31-bit integers, as those of episodes."""


@dataclass(frozen=True, kw_only=True)
class BranchPlan:
    """What to continue, and how."""

    tick: int
    """Moment; the state after the last environment step that ends at or before it."""
    runs: int = 64
    seed: int = 0
    pilots: Mapping[int, Pilot] = field(default_factory=dict)
    """Pilots by mech; a mech without one keeps its recorded scripted pilot."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Pilots that were chosen, by mech or team, for the recording's parent."""
    changes: Mapping[str, float] = field(default_factory=dict)
    still: frozenset[int] = frozenset()
    stand_in: str = ""
    """Level whose actions replace those of the mechs ``still``, while the others are flown; "" leaves them out."""
    window: int = 0
    """Environment steps after the moment in which mechs repeat their recorded actions."""
    mean_actions: bool = False
    """Policies play mean actions, as they also do where one did so in the recording; otherwise they sample."""


@dataclass(frozen=True, kw_only=True)
class Continuation:
    """How one continuation ended."""

    number: int
    seed: int
    winner: int
    """0 blue, 1 red, 2 draw."""
    reason: str
    tick: int
    score: tuple[float, float]
    """Zone scores of blue and red [s]."""
    hp: tuple[float, float]
    alive: tuple[int, int]

    def points(self, side: int) -> float:
        return 0.5 if self.winner == DRAW else float(self.winner == side)

    @property
    def margin(self) -> tuple[float, float, float]:
        """Return by how much blue won: points, difference of zone scores, of hit points."""
        return self.points(BLUE), self.score[BLUE] - self.score[RED], self.hp[BLUE] - self.hp[RED]


class BranchStart(NamedTuple):
    """The moment that continuations start from."""

    moment: reconstruct.RebuiltMoment
    state: State
    memories: dict[int, LSTMState]
    """Recurrent state by mech."""


class Brancher:
    """Continuations of a recorded match from one moment.

    ``load`` returns the policy of a pilot. Raises ``ValueError`` for a match or moment that cannot be played.
    """

    def __init__(
        self, recorded: Replay, plan: BranchPlan, load: Load | None = None, *, device: str = "cpu", threads: int = 1
    ) -> None:
        self.recorded, self.plan, self._device, self._threads = recorded, plan, device, threads
        chosen = {mech: pilot for mech, pilot in plan.pilots.items() if pilot.path}
        loaded = {} if load is None else {path: load(p) for path, p in {p.path: p for p in chosen.values()}.items()}
        self._policies = {mech: loaded[pilot.path] for mech, pilot in chosen.items()}
        self._script = reconstruct.recorded_pilots(recorded)[0]
        for mech, pilot in plan.pilots.items():
            self._script[mech] = heuristic.script_of(pilot.level) if pilot.level else 0
        self.start = self._reconstruct()

    def _reconstruct(self) -> BranchStart:
        """Return the moment; where policies fly, the match is played from its start, so that they remember it."""
        with (
            BranchPilots(self._policies) as pilots,
            reconstruct.ReplayedMatch(self.recorded, device=self._device, prepare=pilots.attach) as match,
        ):
            moment = match.go_to(
                self.plan.tick, from_start=bool(self._policies), before_step=lambda engine: pilots.act()
            )
            return BranchStart(moment, save_match_state(match.engine, 0), pilots.states())

    def seeds(self, numbers: Sequence[int]) -> list[int]:
        tick = self.start.moment.tick
        return [draw_u32(self.plan.seed, StreamId.RUN, tick, 0, number) & SEED_MASK for number in numbers]

    def play(
        self,
        numbers: Sequence[int] | None = None,
        *,
        folder: Path | None = None,
        still: bool = True,
        on_step: Callable[[int], object] = lambda running: None,
    ) -> list[Continuation]:
        """Play continuations by number, all by default, and return how they ended, in order.

        They are played in batches of at most ``WAVE_BYTES``, which does not change them.

        With ``folder`` they are recorded there. ``still`` False lets all mechs act in the window. ``on_step`` is called
        after every environment step with the number of continuations that go on.
        """
        numbers = list(range(self.plan.runs) if numbers is None else numbers)
        found = list[Continuation]()
        wave = max(1, WAVE_BYTES // sum(array_bytes(reconstruct.require_playable(self.recorded), 1, 0)))
        for first in range(0, len(numbers), wave):
            later = max(0, len(numbers) - first - wave)
            found += self._play_wave(
                numbers[first : first + wave], folder, still, lambda running, later=later: on_step(running + later)
            )
            gc.collect()  # engines are in cycles of references: their arrays would stay until a later collection
        return found

    def _play_wave(
        self, numbers: Sequence[int], folder: Path | None, still: bool, on_step: Callable[[int], object]
    ) -> list[Continuation]:
        acts = self._stand_in(numbers) if still and self.plan.stand_in else None
        with self._opened(numbers) as (engine, pilots):
            recorder = self._recorder(engine, numbers, folder, still)
            found = play_on(engine, pilots, self._steps(still, acts), recorder, on_step)
        rows = zip(found, numbers, self.seeds(numbers), strict=True)
        return [replace(row, number=number, seed=seed) for row, number, seed in rows]

    @property
    def mean_actions(self) -> bool:
        return self.plan.mean_actions or any(team.get("mean") for team in self.recorded.header["teams"])

    @contextlib.contextmanager
    def _opened(self, numbers: Sequence[int]) -> Iterator[tuple[Engine, BranchPilots]]:
        """Open continuations at the moment, an environment each."""
        plan, seeds = self.plan, self.seeds(numbers)
        with BranchPilots(self._policies, self._threads) as pilots:
            engine = reconstruct.open_match(
                self.recorded, envs=len(numbers), device=self._device, threads=self._threads, changes=plan.changes,
                prepare=pilots.attach,
            )  # fmt: skip
            try:
                load_match_state(engine, self.start.state)
                engine.batch.set("seed", np.array(seeds, np.uint32))
                engine.batch.set("script", np.repeat(self._script[None], len(numbers), axis=0))
                engine.run("observe")
                pilots.start(self.start.memories, None if self.mean_actions else seeds)
                yield engine, pilots
            finally:
                engine.close()

    def _stand_in(self, numbers: Sequence[int]) -> list[NDArray[np.float32]]:
        """Return the actions ``[E, M, A]`` of each step of the window in other continuations that the stand-in flies.

        They are chosen without knowledge of what happens where they are played, as the recorded ones.
        """
        plan = self.plan
        with self._opened([number + OTHER for number in numbers]) as (engine, pilots):
            script = engine.batch.numpy("script").copy()
            script[:, sorted(plan.still)] = heuristic.script_of(plan.stand_in)
            engine.batch.set("script", script)
            steps = []
            for _ in range(plan.window):
                pilots.act()
                engine.step()
                steps.append(engine.batch.numpy("actions").copy())
            return steps

    def _steps(self, still: bool, acts: Sequence[NDArray[np.float32]] | None) -> Iterator[reconstruct.Step]:
        """Yield what is repeated in each step of the window; 0 for mechs that stand still."""
        plan, first, ticks = self.plan, self.start.moment.tick, self.recorded.header["frame_ticks"]
        mechs = tuple(sorted(plan.still))
        if acts is not None:
            yield from (reconstruct.Step(actions, mechs=mechs) for actions in acts)
            return
        for step in reconstruct.recorded_steps(self.recorded, first, first + plan.window * ticks):
            if plan.stand_in:
                yield step.of(mechs)
                continue
            moves = np.array([not still or mech not in plan.still for mech in range(len(step.actions))], np.int8)
            inputs = None if step.inputs is None else step.inputs * moves[list(step.seats)][None, :, None]
            yield step._replace(actions=step.actions * moves[:, None], inputs=inputs)

    def _recorder(self, engine: Engine, numbers: Sequence[int], folder: Path | None, still: bool) -> Recorder | None:
        """Return a recorder of all environments; None without a folder."""
        if folder is None:
            return None
        about = {"parent": self.parent(still), "created": self.recorded.header["created"]}
        matches = [
            MatchInfo(
                name=self.name_of(number, still),
                teams=self.teams(),
                map_seed=int(self.recorded.header["map_seed"]),
                about=about,
                flown=pilots_of_mechs(self.recorded.header["mechs"], self.plan.pilots, self.recorded.header),
            )
            for number in numbers
        ]
        recorder = Recorder(engine, range(len(numbers)), folder, matches, policy="actions")
        recorder.begin()
        return recorder

    def name_of(self, number: int, still: bool = True) -> str:
        suffix = "" if still or not self.plan.still else "-with"
        line = "".join(f"-{name}" for name in self._names(self.plan.still)) if self.plan.stand_in else ""
        return f"{self.recorded.path.stem}-t{self.start.moment.tick}{line}-b{number:03d}{suffix}"

    def _names(self, mechs: Iterable[int]) -> list[str]:
        return sorted(self.recorded.header["roster"][mech]["name"] for mech in mechs)

    def parent(self, still: bool = True) -> dict[str, Any]:
        plan, names = self.plan, self._names(self.plan.still) if still else []
        seconds = plan.window * self.recorded.header["frame_ticks"] / float(self.recorded.header["tick_hz"])
        lines = dict.fromkeys(names, f"{plan.stand_in} for {seconds:g} s") if plan.stand_in else {}
        return reconstruct.parent_of(
            self.recorded,
            self.start.moment.tick,
            set={**plan.labels, **lines},
            changes=dict(plan.changes),
            still=[] if plan.stand_in else names,
            window=plan.window,
            seed=plan.seed,
        )

    def teams(self) -> tuple[TeamInfo, TeamInfo]:
        return teams_of(self.recorded.header["roster"], self.plan.pilots, recorded=self.recorded.header)


def play_on(
    engine: Engine,
    pilots: BranchPilots,
    repeated: Iterator[reconstruct.Step],
    recorder: Recorder | None,
    on_step: Callable[[int], object],
) -> list[Continuation]:
    """Play every environment to the end of its match and return how it ended; numbers and seeds are not set."""
    batch, found = engine.batch, dict[int, Continuation]()
    if batch.numpy("ended").any():
        raise ValueError("the match has ended at this moment, expected an earlier one")
    while len(found) < engine.num_envs:
        pilots.act()
        step = next(repeated, None)
        if step is None:
            engine.step()
        else:
            reconstruct.play_step(engine, step)
        if recorder is not None:
            if step is not None and step.inputs is not None:
                recorder.add_inputs(step.seats, step.inputs)
            recorder.after_step()
        over = [env for env in np.flatnonzero(batch.numpy("over")).tolist() if env not in found]
        if over:
            found |= {env: _outcome(batch, env) for env in over}
            pilots.stop(over)
            alive = batch.numpy("alive").copy()
            alive[over] = 0  # mechs of a match that is over would cost time
            batch.set("alive", alive)
        on_step(engine.num_envs - len(found))
    if recorder is not None:
        recorder.finish()
    return [found[env] for env in range(engine.num_envs)]


def _outcome(batch: Any, env: int) -> Continuation:
    team, alive = batch.row("team", env), batch.row("done_alive", env) * batch.row("done_present", env)
    hp, score = batch.row("done_hp", env), batch.row("done_score", env)
    return Continuation(
        number=env,
        seed=0,
        winner=int(batch.row("done_winner", env)),
        reason=REASONS[int(batch.row("done_reason", env))],
        tick=int(batch.row("tick", env)),
        score=(float(score[BLUE]), float(score[RED])),
        hp=(float(hp[BLUE]), float(hp[RED])),
        alive=(int(alive[team == BLUE].sum()), int(alive[team == RED].sum())),
    )


def summarise(found: Sequence[Continuation]) -> dict[str, Any]:
    """Return win probability of each side with its 95 % interval, endings, and the numbers of typical continuations."""
    ordered = sorted(found, key=lambda row: (row.margin, row.number))
    sides = {}
    for side in (BLUE, RED):
        points = sum(row.points(side) for row in found)
        low, high = wilson_interval(points, len(found))
        wins = sum(row.winner == side for row in found)
        sides[WINNERS[side]] = {"score": points / len(found), "low": low, "high": high, "wins": wins}
    return {
        "runs": len(found),
        **sides,
        "draws": sum(row.winner == DRAW for row in found),
        "endings": dict(Counter(f"{WINNERS[row.winner]} {row.reason}" for row in ordered)),
        "typical": {
            "best_for_red": ordered[0].number,
            "median": ordered[len(ordered) // 2].number,
            "best_for_blue": ordered[-1].number,
        },
    }


def effect(with_actions: Sequence[Continuation], without: Sequence[Continuation], side: int) -> dict[str, float]:
    """Return how much more a side scores with the actions than without, and its 95 % interval, by pairs of seeds."""
    pairs = zip(with_actions, without, strict=True)
    value, low, high = paired_difference([one.points(side) - two.points(side) for one, two in pairs])
    return {"value": value, "low": low, "high": high}


def make_brancher(
    recorded: Replay,
    finder: Any,
    *,
    tick: int,
    runs: int,
    seed: int,
    pilots: Mapping[str, str],
    changes: Mapping[str, float],
    without: str,
    window_s: float,
    mean_actions: bool = False,
    device: str = "cpu",
    threads: int,
) -> Brancher:
    """Return the continuations of a match with pilots by mech or team, which a catalogue ``finder`` finds by name.

    In those of a mech ``without`` actions it stands still for ``window_s`` [s]. Raises ``ValueError`` for what cannot
    be played.
    """
    reconstruct.require_playable(recorded)
    mechs, step_s = mechs_by_name(recorded.header), recorded.header["frame_ticks"] / float(recorded.header["tick_hz"])
    if without and without not in mechs:
        raise ValueError(f"without has mech {without!r}, expected one of: {', '.join(mechs)}")
    cast = choose_pilots(recorded, pilots, finder)
    plan = BranchPlan(
        tick=tick,
        runs=runs,
        seed=seed,
        pilots=cast.pilots,
        labels=cast.labels,
        changes=changes,
        still=frozenset((mechs[without],) if without else ()),
        window=max(1, round(window_s / step_s)) if without else 0,
        mean_actions=mean_actions,
    )
    return Brancher(recorded, plan, lambda pilot: cast.policies[pilot.path], device=device, threads=threads)


def continue_match(
    brancher: Brancher, folder: Path | None, on_progress: Callable[[int, int, str], object]
) -> dict[str, Any]:
    """Play all continuations and return their summary, with the effect of actions where a mech stands still.

    Typical ones are recorded in ``folder``. ``on_progress`` gets done, total and a text.
    """
    plan, still = brancher.plan, sorted(brancher.plan.still)
    total = plan.runs * (2 if still else 1)
    rows = brancher.play(on_step=lambda left: on_progress(plan.runs - left, total, "continuations"))
    notes = ["policies play mean actions"] if brancher.mean_actions else []
    found = {"notes": [*brancher.start.moment.notes, *notes], **summarise(rows)}
    if still:
        text = "continuations with the actions"
        again = brancher.play(still=False, on_step=lambda left: on_progress(total - left, total, text))
        side = int(brancher.recorded.header["roster"][still[0]]["team"])
        found["effect"] = {"side": WINNERS[side], **effect(again, rows, side)}
        found["with"] = summarise(again)
    if folder is not None:
        numbers = sorted(set(found["typical"].values()))
        on_progress(total, total, f"recording {len(numbers)} continuations")
        played = brancher.play(numbers, folder=folder)
        assert played == [rows[number] for number in numbers], "other continuations"
    files = {name: f"{brancher.name_of(number)}{SUFFIX}" for name, number in found["typical"].items()}
    return {**found, "continuations": rows, "replays": {} if folder is None else files}
