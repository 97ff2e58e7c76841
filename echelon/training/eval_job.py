"""The matches of an evaluation job: a plan, the batches it consists of, and the result computed from recorded matches.

A batch is a part of the seeds, each from both sides. It is played against one opponent with mean or with sampled
actions at a time, and a job records such an ``EvalPart``. Parts do not depend on each other, so a resumed job plays
the remaining ones and ends with the result that it would have had.
"""

import time
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from echelon import champion
from echelon.arena.commander import Calls, Commander, command
from echelon.arena.ratings import policy_rating
from echelon.config import EnvConfig
from echelon.config.seeds import eval_seeds
from echelon.env.layout import obs_dim
from echelon.replay.header import TeamInfo
from echelon.rl.fitting import fitted
from echelon.rl.outside import ProcessPolicy
from echelon.rl.weights import LoadedPolicy, load_policy
from echelon.telemetry.events import EvalStats, EventEval
from echelon.training.batched_env import BatchedEnv
from echelon.training.episode_results import EpisodeResult, episode_result, mean_and_sampled, statistics_of
from echelon.training.eval_plan import Condition, EvalPart, EvalPlan, GameSize, environment_of, scripted_meta
from echelon.training.evaluation import MakeEnv, ScriptedPolicy, eval_event, make_eval_env, play_episodes
from echelon.training.opponents.fixed import play_against
from echelon.training.opponents.pool import SCRIPTED, level_of
from echelon.training.opponents.runner import OpponentRunner
from echelon.training.recording import Recording, RecordingPlan
from echelon.training.records import ActionCounter, EpisodeObserver, RowLayout
from echelon.training.teamwork import TeamPolicy, TeamworkObserver, summary


@dataclass(frozen=True, kw_only=True)
class PlayedPart:
    """A part with its results, in the order in which its matches ended."""

    part: EvalPart
    results: tuple[EpisodeResult, ...]
    duration_s: float
    commanders: Mapping[str, Calls] = field(default_factory=dict)
    """Calls of commanders and agents, by name of the player."""


class EvalMatches:
    """Plays the parts of a plan."""

    def __init__(self, plan: EvalPlan, folder: Path, make_env: MakeEnv | None = None) -> None:
        """Load the policies from the job's ``folder``."""
        self.plan, self._folder, self._make_env = plan, folder, make_env
        self.policy = load_policy(folder / plan.policy, plan.device) if plan.policy else None
        """The evaluated policy; None for a scripted level."""
        other = load_policy(folder / plan.opponent_policy, plan.device) if plan.opponent_policy else None
        self.meta, player = self.policy.meta if self.policy else {}, self.policy or other
        self._game = player.meta if player else scripted_meta()
        if any(level_of(player) is None for player in plan.commanders):
            self._game = {**self._game, "env_cfg": {**self._game["env_cfg"], "observe_orders": True}}
        self.env = environment_of(self._game, plan.size, plan.maps)
        self.policy, self.other = (each and self._fitted(each) for each in (self.policy, other))
        mates = {name: load_policy(folder / file, plan.device) for name, file in plan.mate_files.items()}
        self.mates = {name: self._fitted(mate).policy for name, mate in mates.items()}
        self.seeds = eval_seeds(plan.seeds)

    def _fitted(self, loaded: LoadedPolicy) -> LoadedPolicy:
        """Return a policy fitted to the rows of the game."""
        return fitted(loaded, obs_dim(self.env))

    def env_of(self, game: GameSize | None) -> EnvConfig:
        return self.env if game is None else environment_of(self._game, game.edge, self.plan.maps, game.packs)

    @property
    def update(self) -> int:
        return int(self.meta.get("update", 0))

    @property
    def global_step(self) -> int:
        return int(self.meta.get("global_step", 0))

    @cached_property
    def ratings(self) -> tuple[float | None, float | None]:
        """Return the ratings that the policy had before with sampled and with mean actions; None for an unknown one."""
        run, checkpoint = Path(self.plan.run), str(self.meta.get("id", ""))
        sampled, mean = (policy_rating(run, checkpoint, self.update, sampled=way) for way in (True, False))
        return sampled, mean

    def play(
        self,
        done: Collection[EvalPart],
        on_step: Callable[[int], object],
        progress: Callable[[str, int, int], None] | None = None,
    ) -> Generator[PlayedPart]:
        """Play every part that is not in ``done`` and yield it with its results.

        ``on_step`` is called before every step with the number of finished matches of the part, ``progress`` while maps
        are made and kernels are compiled.
        """
        for game, positions, every in self.plan.rounds():
            parts = [part for part in every if part not in done]
            if not parts:
                continue
            env = self.env_of(game)
            batch = make_eval_env(
                env,
                [self.seeds[i] for i in positions],
                weapon_prob=self.plan.weapon_prob,
                skill=level_of(parts[0].opponent) or "medium",
                device=self.plan.device,
                threads=self.plan.threads,
                make_env=self._make_env,
                policy_opponents=self.other is not None,
                progress=progress,
            )
            try:
                for part in parts:
                    began = time.perf_counter()
                    results, calls = self._play(part, batch, env, positions, on_step)
                    duration_s = time.perf_counter() - began
                    yield PlayedPart(part=part, results=results, duration_s=duration_s, commanders=calls)
            finally:
                batch.close()

    def _play(
        self, part: EvalPart, batch: BatchedEnv, env: EnvConfig, positions: range, on_step: Callable[[int], object]
    ) -> tuple[tuple[EpisodeResult, ...], dict[str, Calls]]:
        """Return the results of a part in the order in which its matches ended, and the calls of commanders."""
        if level := level_of(part.opponent):
            batch.set_curriculum(skill=level)
        is_recorded = bool(self.plan.replays) and part.deterministic == self.plan.modes[-self.plan.record_sampled]
        is_recorded &= positions[0] < self.plan.recorded
        recording = self._recording(part, batch, positions) if is_recorded else None
        counter, finished = ActionCounter(batch), _FinishedMatches(batch)
        watcher = TeamworkObserver(batch, env.dt_act) if self.plan.mates else None
        pilot = self._pilot(self.plan.conditions[part.condition], batch, positions)
        staff = _Staff(batch, self._commanders(part, batch, pilot))
        records = play_episodes(
            pilot,
            batch,
            env.max_steps,
            deterministic=part.deterministic,
            # an episode has the same noise in whichever batch it is
            noise_seed=[side * self.plan.seeds + i for side in (0, 1) for i in positions],
            on_step=lambda: on_step(finished.count),
            observers=[staff, recording, counter, finished, watcher],
            opponents=None if level else self._opponent_runner(batch, positions[0]),
        )
        replays = {} if recording is None else _replays(recording)
        layout, counts = RowLayout(batch), counter.counts()
        teamwork = watcher.results() if watcher else [None] * len(counts)
        results = [episode_result(r, layout, counts[r.env], replays.get(r.env, "")) for r in records]
        results = [replace(each, teamwork=teamwork[r.env]) for each, r in zip(results, records, strict=True)]
        calls = staff.calls()
        for name, loaded in ((self.plan.target, self.policy), (part.opponent, self.other)):
            if loaded and isinstance(loaded.policy, ProcessPolicy):
                calls[name] = loaded.policy.packs.take_calls()
        return tuple(results), calls

    def _commanders(self, part: EvalPart, batch: BatchedEnv, pilot: Any) -> list[tuple[str, Commander]]:
        """Return the commanders of a part with the players that they lead: each commands what its player controls."""
        plan, learns = self.plan, (batch.rows.row_of >= 0).cpu().numpy()
        others = pilot.others if isinstance(pilot, TeamPolicy) else np.zeros_like(learns)
        players = (plan.target, learns & ~others), (plan.conditions[part.condition].mate, others)
        copies, folder = plan.commanders, self._folder
        return [
            (player, replace(Commander.from_file(str(folder / copies[player].commander)), crew=crew))
            for player, crew in (*players, (part.opponent, ~learns))
            if player in copies and crew.any()
        ]

    def _pilot(self, condition: Condition, batch: BatchedEnv, positions: range) -> Any:
        """Return what controls the evaluated team."""
        if self.policy is None:
            return ScriptedPolicy(batch, level_of(self.plan.target))
        if not self.plan.mates:
            return self.policy.policy
        mate = self.mates.get(condition.mate) or level_of(condition.mate)
        return TeamPolicy(batch, self.policy.policy, condition, mate, positions)

    def _opponent_runner(self, batch: BatchedEnv, seed: int) -> OpponentRunner:
        assert self.other is not None, "a plan has the file of an opponent that is not scripted"
        return play_against(batch, self.other.policy, seed=seed, deterministic=self.plan.opponent_mean)

    def _recording(self, part: EvalPart, batch: BatchedEnv, positions: range) -> Recording:
        level, seeds = level_of(part.opponent), [self.seeds[i] for i in positions]
        name, opponent = self.names(part.opponent)
        plan = RecordingPlan(
            folder=Path(self.plan.replays),
            seeds=seeds,
            count=min(len(seeds), self.plan.recorded - positions[0]),
            prefix=self.plan.replay_prefix,
            policy=TeamInfo(
                name=name,
                level="" if self.policy else f"{SCRIPTED}:{level_of(self.plan.target)}",
                checkpoint=str(self.meta.get("id", "")),
                rating=self.ratings[part.deterministic],
                mean=(part.deterministic and self.policy is not None) or None,
            ),
            opponent=TeamInfo(
                name=opponent,
                level="" if level is None else f"{SCRIPTED}:{level}",
                checkpoint="" if level or self.other is None else str(self.other.meta.get("id", "")),
            ),
            run=Path(self.plan.run).name,
            update=self.update,
            global_step=self.global_step,
            policy_columns=self.policy is not None,
        )
        return Recording(batch, plan)

    def names(self, opponent: str) -> tuple[str, str]:
        target, led = self.plan.target, self.plan.commanders
        own, other = (name if name in led else level_of(name) or name for name in (target, opponent))
        if self.policy and target not in led:
            own = "champion" if Path(target) == champion.FOLDER else f"update {self.update}"
        return own, other

    def stats(
        self, opponent: str, played: Mapping[EvalPart, PlayedPart], condition: str = EvalPart.condition
    ) -> EvalStats:
        """Return the statistics against an opponent, from all its parts in a condition."""
        by_mode = []
        for mode in self.plan.modes:
            same = EvalPart(0, opponent, mode, condition)
            parts = [played[p] for p in self.plan.parts() if replace(p, batch=0) == same]
            results = [result for part in parts for result in part.results]
            by_mode.append(statistics_of(results, sum(part.duration_s for part in parts)))
        return mean_and_sampled(*by_mode) if len(by_mode) > 1 else by_mode[0]

    def event(self, opponent: str, stats: EvalStats, job: str) -> EventEval:
        """Return the record of the results against an opponent."""
        world, plan = self.env.world, self.plan
        return eval_event(
            stats,
            self.seeds,
            update=self.update,
            global_step=self.global_step,
            opponent=opponent,
            weapon_prob=plan.weapon_prob,
            deterministic=plan.deterministic,
            purpose="report",
            checkpoint=str(self.meta.get("id", "")),
            job=job,
            maps=world.fairness,
            map_size=[world.size_x, world.size_y, world.size_z],
        )

    def teamwork(self, played: Mapping[EvalPart, PlayedPart]) -> dict[str, Any]:
        """Return what the parts of a plan that measures teamwork show, as plain values; empty for another plan."""
        results: dict[str, list[EpisodeResult]] = {}
        for part in self.plan.parts():
            results.setdefault(part.condition, []).extend(played[part].results)
        return {"teamwork": summary(self.plan.conditions, results)} if self.plan.mates else {}

    def commanders(self, played: Mapping[EvalPart, PlayedPart]) -> dict[str, Any]:
        """Return the calls of each commander and agent as plain values; empty for a plan without them."""
        found: dict[str, Calls] = {}
        for part in played.values():
            for player, calls in part.commanders.items():
                found[player] = found.get(player, Calls()) + calls
        return {"commanders": {player: asdict(calls) for player, calls in found.items()}} if found else {}

    def matrix(self, played: Mapping[EvalPart, PlayedPart]) -> dict[str, Any]:
        """Return the statistics of every size as plain values; empty for a plan without sizes."""
        (opponent, *_), games = self.plan.opponents, self.plan.games
        cells = [{**asdict(game), **asdict(self.stats(opponent, played, game.title))} for game in games]
        return {"opponent": opponent, "cells": cells} if games else {}

    def result(self, stats: dict[str, EvalStats], replays: Sequence[str]) -> dict[str, Any]:
        """Return the task and the statistics by opponent as plain values."""
        env, plan = self.env, self.plan
        task = {
            "checkpoint": plan.target,
            "id": str(self.meta.get("id", "")),
            "weapon_prob": plan.weapon_prob,
            "deterministic": plan.deterministic,
            "map": [env.world.size_x, env.world.size_y, env.world.size_z],
            "maps": env.world.fairness,
            "packs": env.num_packs,
            "seconds": env.max_episode_seconds,
            "observation": env.observation_mode,
            "first_seed": self.seeds[0],
            "seeds": len(self.seeds),
        }
        if plan.ladder:
            names = {name: name.removeprefix(f"{SCRIPTED}:") for name in stats}
            return {**task, "levels": [{"level": names[name], **asdict(found)} for name, found in stats.items()]}
        if plan.games:
            return task
        ((opponent, found),) = stats.items()
        return {**task, "opponent": opponent, "replays": list(replays), **asdict(found)}


class _Staff(EpisodeObserver):
    """Lets commanders give orders in the matches of a batch that are not over."""

    def __init__(self, env: Any, commanders: Sequence[tuple[str, Commander]]) -> None:
        self._env, self._commanders = env, commanders

    def begin(self) -> None:
        self._running = np.ones(self._env.sizes.num_envs, bool)

    def before_step(self, estimate: Callable[[], object]) -> None:
        for _, commander in self._commanders:
            leads = np.asarray(commander.crew).reshape(len(self._running), 2, -1).any(2) & self._running[:, None]
            command(self._env.engine, {(env, side): commander for env, side in np.argwhere(leads).tolist()})

    def after_step(self) -> None:
        if self._commanders:
            self._running &= ~self._env.results.over.cpu().numpy()

    def calls(self) -> dict[str, Calls]:
        found: dict[str, Calls] = {}
        for player, commander in self._commanders:
            found[player] = found.get(player, Calls()) + commander.counts()
        return found


class _FinishedMatches(EpisodeObserver):
    """Counts the matches of a batch that are over."""

    def __init__(self, env: BatchedEnv) -> None:
        self._env = env
        self.begin()

    def begin(self) -> None:
        self._over = torch.zeros(self._env.sizes.num_envs, dtype=torch.bool, device=self._env.rows.obs.device)
        self.count = 0

    def after_step(self) -> None:
        self._over |= self._env.results.over
        self.count = int(self._over.sum())


def _replays(recording: Recording) -> dict[int, str]:
    """Close a recording and return its files by environment; ``ValueError`` with its fault."""
    recording.finish()
    if recording.fault:
        raise ValueError(recording.fault)
    return dict(zip(recording.plan.matches(), map(str, recording.paths), strict=True))
