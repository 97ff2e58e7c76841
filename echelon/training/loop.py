"""The training loop, top to bottom: collect, bootstrap, update, report, evaluate, save.

``run`` can be called by a test as well as by a job: it takes a configuration, a function that receives events
and one that says whether to stop, and it touches no file but checkpoints. What the parts are is
``echelon.training.session``.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from echelon.config import RunConfig
from echelon.telemetry.events import (
    Event,
    EventAlert,
    EventCheckpoint,
    EventCurriculum,
    EventEnd,
    EventRating,
    EventResume,
    EventUpdate,
)
from echelon.training import checkpoint as checkpoints
from echelon.training import records
from echelon.training.curriculum import moved
from echelon.training.evaluation import EvalStats, MakeEnv, eval_seeds
from echelon.training.normalization import update_obs_normalizer
from echelon.training.opponents.pool import scripted_name
from echelon.training.ppo.collect import CollectionAborted, CollectTimes
from echelon.training.ppo.trainer import ReloadCheckpoint
from echelon.training.recording import match_event
from echelon.training.runtime.devices import release_cache
from echelon.training.runtime.fault_points import fault_point
from echelon.training.runtime.system_info import device_memory_mb, peak_memory_mb, start_event
from echelon.training.session import MakePolicy, Session

STOP_AFTER_UPDATE, STOP_NOW = 1, 2
"""Levels of ``should_stop``."""
SECONDS_PER_MINUTE = 60.0
LEVER_STEP = 0.05
"""Least move of a curriculum lever that is worth a record of its own."""
MOST_RELOADS = 3
"""How often one checkpoint is gone back to before a run that cannot get beyond it ends."""

Emit = Callable[[Event], None]
ShouldStop = Callable[[], int]


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """How a run ended."""

    reason: str
    """completed, stopped or abandoned."""
    update: int
    global_step: int
    episodes: int
    checkpoint: Path | None = None
    evaluation: EvalStats | None = None


def run(
    config: RunConfig,
    emit: Emit,
    should_stop: ShouldStop,
    *,
    run_dir: Path | None = None,
    resume: Path | str | None = None,
    want_checkpoint: Callable[[], bool] | None = None,
    make_env: MakeEnv | None = None,
    progress: Callable[[str, int, int], None] | None = None,
    make_policy: MakePolicy | None = None,
) -> RunResult:
    """Train as ``config`` says until its end or a stop, and say so in events.

    ``should_stop`` is asked at every decision: 0 goes on, 1 (or True) saves after this update, 2 gives up the
    rollout and keeps the last checkpoint. ``resume`` is a checkpoint folder or ``latest``. Without ``run_dir``
    nothing is saved. ``make_env`` replaces ``VectorEnv`` and ``make_policy`` the network of ``config.model``.
    ``progress(what, done, total)`` hears of maps and kernels being prepared. Of several processes that train together
    (see ``echelon.training.runtime.process_group``) each calls this; the main one speaks and saves, and any may ask to stop.
    """
    with Session(config, run_dir, make_env, progress, make_policy) as session:
        speak = emit if session.world.is_main else lambda event: None
        trip = _Trip(session, speak, should_stop, want_checkpoint or (lambda: False))
        trip.start(resume)
        if session.counters.update == 0:
            trip.enter_league(begins=True)
            if config.eval.at_start:
                trip.evaluate()
        try:
            while not (reason := trip.reason_to_end()):
                trip.iterate()
        except CollectionAborted:
            return trip.end("stopped", "the rollout was given up; the last checkpoint stands")
        if reason == "completed":
            trip.enter_league()
            if session.counters.evaluated_update != session.counters.update:
                trip.evaluate()
        if session.folder is not None and session.counters.saved_update != session.counters.update:
            trip.save("end" if reason == "completed" else "stop")
        return trip.end(reason)


class _Trip:
    """A session under way, and those who listen to it."""

    def __init__(
        self, session: Session, emit: Emit, should_stop: ShouldStop, want_checkpoint: Callable[[], bool]
    ) -> None:
        self.session, self.emit = session, emit
        self.should_stop, self.want_checkpoint = should_stop, want_checkpoint
        self.opponent = scripted_name(session.config.eval.skill)
        self.last_checkpoint: checkpoints.Checkpoint | None = None
        self.last_evaluation: EvalStats | None = None
        self._said: dict[str, Any] = {}
        self._reloads: Counter[str] = Counter()
        """How often each checkpoint was gone back to."""

    def start(self, resume: Path | str | None) -> None:
        """Restore or reset, and say what is about to be trained."""
        s = self.session
        found = self._find(resume)
        if found is not None and found.checkpoint is not None:
            notice = s.restore(found.checkpoint)
            self.last_checkpoint = found.checkpoint
            words = "; ".join([*found.notices, *([notice] if notice else [])])
            self.emit(EventResume(**self._now, checkpoint=found.checkpoint.path.name, message=words))
        else:
            s.move_levers()
            s.begin()
        self.emit(start_event(s, "" if self.last_checkpoint is None else self.last_checkpoint.path.name))

    def iterate(self) -> None:
        """Collect one rollout, learn from it, report, and evaluate and save where due."""
        try:
            self._learn()
        except ReloadCheckpoint as fault:
            return self.reload(fault)
        s, c, cfg = self.session, self.session.counters, self.session.config
        if cfg.opponents.past_every_updates and c.update % cfg.opponents.past_every_updates == 0:
            self.snapshot()
        if s.league is not None:
            self._say(s.league.turn(lambda: self.should_stop() > 0))
        if cfg.eval.every_updates and c.update % cfg.eval.every_updates == 0:
            self.evaluate()  # last, for it may save, and a resumed run goes on with the next update
        requested = s.world.broadcast(self.want_checkpoint())
        if s.folder is not None and (requested or c.update % cfg.save_every == 0) and c.saved_update != c.update:
            self._save_or_warn("requested" if requested else "scheduled")

    def _learn(self) -> None:
        s, began = self.session, time.perf_counter()
        s.trainer.set_progress(s.progress)
        self._move_levers()
        s.refresh_maps()
        prepared = time.perf_counter()
        fault_point("train.rollout")
        with s.profile.part("collect"):
            times = s.collector.collect(self._give_up)
        collected = time.perf_counter()
        fault_point("train.update")
        with s.profile.part("bootstrap"):
            s.collector.bootstrap(s.config.ppo.gae_lambda)
        with s.profile.part("update"):
            metrics = s.trainer.update(s.buffer, s.collector.start_state, s.collector.chunk_states)
        update_obs_normalizer(s.policy.obs_normalizer, s.buffer.obs, s.buffer.alive, s.world)
        release_cache(s.device, s.counters.update + 1, s.config.ppo.empty_cache_every)
        updated = time.perf_counter()
        self._report(metrics, times, began, collected, updated, prepared - began)
        traced = s.profile.step()
        if traced is not None:
            self._alert(f"trace in {traced}", level="info")

    def evaluate(self) -> None:
        """Evaluate on the held-out seeds, say so, and keep the weights if they are the best so far."""
        s = self.session
        stats = s.evaluate(self.should_stop)
        best = s.is_best(stats)
        self.last_evaluation = stats
        self.emit(
            records.eval_event(
                stats,
                eval_seeds(s.config.eval.seeds),
                **self._now,
                opponent=self.opponent,
                weapon_prob=s.config.eval.weapon_prob,
                deterministic=s.config.eval.deterministic,
                is_best=best,
            )
        )
        for match in s.examiner.matches:
            self.emit(match_event(match, **self._now))
        if s.examiner.fault:
            self._alert(s.examiner.fault)
        if s.counters.update > 0 and (why := s.judge_level(self.should_stop)):
            self._move_levers(why)
        if best and s.folder is not None and s.counters.update > 0:
            saved = self._save_or_warn("best")
            if saved is not None and s.world.is_main:
                checkpoints.mark_best(s.folder, saved, s.counters.best)

    def enter_league(self, *, begins: bool = False) -> None:
        """Submit the policy as it is now, if this run is in a league."""
        if self.session.league is not None:
            self._say(self.session.league.enter(lambda: self.should_stop() >= STOP_NOW, begins=begins))

    def _say(self, events: Iterable[Event]) -> None:
        for event in events:
            self.emit(event)

    def snapshot(self) -> None:
        """Keep the policy as an opponent, if this run meets such, and say how strong it has become."""
        rated = self.session.snapshot(self.should_stop)
        if rated is not None:
            self.emit(
                EventRating(
                    **self._now,
                    name=rated.name,
                    elo=rated.elo,
                    elo_error=rated.error,
                    rivals=rated.rivals,
                    duration_s=rated.duration_s,
                )
            )

    def save(self, reason: str) -> checkpoints.Checkpoint:
        """Save and say so."""
        began = time.perf_counter()
        saved = self.session.save()
        self.last_checkpoint = saved
        self.emit(
            EventCheckpoint(
                update=self.session.counters.update,
                global_step=saved.step,
                path=f"checkpoints/{saved.path.name}",
                id=saved.id,
                reason=reason,
                duration_s=time.perf_counter() - began,
                size_mb=saved.size_mb(),
            )
        )
        return saved

    def reload(self, fault: ReloadCheckpoint) -> None:
        """Go back to the last checkpoint after an update that was not finite; the clock goes on.

        ``ValueError`` where there is none, or where it has not helped often enough.
        """
        s = self.session
        found = (
            checkpoints.latest_valid(s.folder)
            if s.folder is not None
            else checkpoints.CheckpointSearch(checkpoint=None)
        )
        if found.checkpoint is None:
            raise ValueError(f"{fault}; nonfinite_policy is 'reload', but there is no checkpoint yet") from fault
        name, nonfinite, elapsed_s = found.checkpoint.path.name, s.trainer.nonfinite, s.elapsed_s
        if self._reloads[name] == MOST_RELOADS:
            raise ValueError(f"{fault}; went back to {name} {MOST_RELOADS} times, wanted an update that is") from fault
        self._reloads[name] += 1
        s.restore(found.checkpoint, fresh_random=True)
        s.trainer.nonfinite, s.counters.elapsed_s = nonfinite, elapsed_s
        self._alert(f"{fault}; going back to {name}")
        self.emit(EventResume(**self._now, checkpoint=name))

    def reason_to_end(self) -> str:
        """Return why training is over, the same in every process, or an empty string."""
        s = self.session
        late = s.config.max_minutes and s.elapsed_s >= s.config.max_minutes * SECONDS_PER_MINUTE
        if s.progress >= 1.0 or s.world.broadcast(bool(late)):
            return "completed"
        level = s.world.most(int(self.should_stop()))
        if level >= STOP_NOW and not s.world.is_alone:
            raise CollectionAborted("asked to leave at once")
        return "stopped" if level >= STOP_AFTER_UPDATE else ""

    def _give_up(self) -> bool:
        """Whether to leave the rollout half way; a process of several waits for the end of the update."""
        return int(self.should_stop()) >= STOP_NOW and self.session.world.is_alone

    def end(self, reason: str, message: str = "") -> RunResult:
        """Say that it is over."""
        s, c, path = self.session, self.session.counters, None
        if self.last_checkpoint is not None:
            path = self.last_checkpoint.path
        self.emit(
            EventEnd(
                reason=reason,
                update=c.update,
                global_step=c.global_step,
                episodes=c.episodes,
                elapsed_s=s.elapsed_s,
                checkpoint="" if path is None else f"checkpoints/{path.name}",
                message=message,
            )
        )
        return RunResult(
            reason=reason,
            update=c.update,
            global_step=c.global_step,
            episodes=c.episodes,
            checkpoint=path,
            evaluation=self.last_evaluation,
        )

    def _find(self, resume: Path | str | None) -> checkpoints.CheckpointSearch | None:
        if resume is None:
            return None
        if str(resume) != "latest":
            return checkpoints.CheckpointSearch(checkpoint=checkpoints.open_checkpoint(Path(resume)))
        folder = self.session.folder
        found = checkpoints.CheckpointSearch(checkpoint=None) if folder is None else checkpoints.latest_valid(folder)
        for notice in found.notices:
            self.emit(EventAlert(message=notice))
        if found.checkpoint is None and found.notices:
            raise ValueError(f"no checkpoint of this run is whole: {found.notices[0]}")
        return found

    def _move_levers(self, reason: str = "schedule") -> None:
        s = self.session
        levers = s.move_levers()
        news = moved(self._said, levers, LEVER_STEP)
        if news:
            self._said |= news
            self.emit(EventCurriculum(**self._now, levers=dict(self._said), reason=reason))

    def _report(
        self, metrics: dict[str, Any], times: CollectTimes, began: float, collected: float, updated: float, maps: float
    ) -> None:
        s, c = self.session, self.session.counters
        steps = s.world.total(int(s.buffer.alive.sum()))
        parts = s.world.all_gather(s.collector.take_episodes())
        episodes, met = [e for part, _ in parts for e in part], [name for _, part in parts for name in part]
        c.update += 1
        c.global_step += steps
        c.episodes += len(episodes)
        s.window.add(episodes, s.layout)
        if s.league is not None:
            s.league.note(episodes, met)
        rates = records.activation_rates(s.buffer)
        now = time.perf_counter()
        self.emit(
            EventUpdate(
                update=c.update,
                global_step=c.global_step,
                episodes=c.episodes,
                elapsed_s=s.elapsed_s,
                steps_per_s=steps / (now - began),
                **s.window.averages(),
                **{name: metrics[name] for name in records.TRAINER_METRICS},
                clip_frac=metrics["clipfrac"],
                max_grad_norm=s.config.ppo.max_grad_norm,
                peak_memory_mb=peak_memory_mb(),
                device_memory_mb=device_memory_mb(s.device),
                phases_s={
                    "env": times.env_s,
                    "forward": times.forward_s,
                    "update": updated - collected,
                    **({"maps": maps} if s.config.bank_refresh_every else {}),
                    "other": (now - began) - times.env_s - times.forward_s - (updated - collected) - maps,
                },
                **s.env.map_statistics(),
                reward_terms=s.window.reward_terms(),
                actions=rates,
                curriculum=dict(s.env.get_curriculum()),
                opponents=s.opposition.histogram(),
                elo=c.elo,
            )
        )
        if episodes:
            self.emit(
                records.episodes_event(
                    episodes,
                    s.layout,
                    **self._now,
                    met=met,
                    full_hp=s.full_hp,
                )
            )

    def _save_or_warn(self, reason: str) -> checkpoints.Checkpoint | None:
        """Save; a disk that refuses costs this checkpoint, not the run."""
        try:
            return self.save(reason)
        except OSError as error:
            self._alert(f"checkpoint could not be written: {error.strerror or error}", level="error")
            return None

    def _alert(self, message: str, **more: Any) -> None:
        self.emit(EventAlert(message=message, **self._now, **more))

    @property
    def _now(self) -> dict[str, Any]:
        """How far training is, as records say it."""
        return {"update": self.session.counters.update, "global_step": self.session.counters.global_step}
