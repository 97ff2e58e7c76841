"""The training loop, top to bottom: collect, bootstrap, update, report, evaluate, save.

``run`` is called by tests, programs and jobs alike: it takes a configuration, a function that receives events and one
that says whether to stop, and writes no file but checkpoints, replays and heat maps of the run folder.
``echelon.training.session`` has the parts that are trained; ``TrainingRun`` adds control and events.
"""

import contextlib
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from echelon.config import RunConfig
from echelon.config.seeds import SeedRange, eval_seeds
from echelon.files import write_fault
from echelon.rl.checkpoint import BEST, Checkpoint, CheckpointSearch, latest_valid, open_checkpoint, step_name
from echelon.telemetry.events import (
    Event,
    EventAlert,
    EventCheckpoint,
    EventCurriculum,
    EventEnd,
    EventResume,
    EventUpdate,
    update_fields,
)
from echelon.training import checkpoint as checkpoints
from echelon.training import records
from echelon.training.curriculum import significant_changes
from echelon.training.evaluation import EvalStats, MakeEnv, eval_event
from echelon.training.opponents.league_source import LeagueSource
from echelon.training.ppo.collect import CollectionAborted, CollectTimes
from echelon.training.ppo.trainer import ReloadCheckpoint
from echelon.training.runtime.devices import release_cache
from echelon.training.runtime.process import Clock, device_memory_mb, peak_memory_mb
from echelon.training.session import EvaluationPutOff, MakePolicy, Session

STOP_AFTER_UPDATE, STOP_NOW = 1, 2
"""Levels of ``should_stop``."""
MIN_REPORTED_CHANGE = 0.05
"""Smallest change of a curriculum parameter that is emitted as an event."""
PAUSED = "paused"  # why training ends at ``pause_steps``; such a run counts as stopped
SLOW_UPDATE_S = 10.0
"""Duration beyond which every update is saved [s]: a host that is taken away gives notice of about 25 s."""
MAX_RELOADS = 3
"""Number of reloads of one checkpoint after which the run ends with an error."""

Emit = Callable[[Event], None]
ShouldStop = Callable[[], int]


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """How a run ended."""

    reason: str
    """completed or stopped."""
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
    run_dir: os.PathLike[str] | None = None,
    resume: Path | str | None = None,
    want_checkpoint: Callable[[], bool] | None = None,
    make_env: MakeEnv | None = None,
    progress: Callable[[str, int, int], None] | None = None,
    make_policy: MakePolicy | None = None,
    clock: Clock | None = None,
    sync_records: Callable[[], object] = lambda: None,
) -> RunResult:
    """Train as ``config`` says until its end or a stop, and emit events.

    ``should_stop`` is called at every step: 0 continues, 1 (or True) saves after this update and stops, 2 aborts the
    rollout and keeps the last checkpoint. ``resume`` is a checkpoint folder or ``latest``. Without ``run_dir`` nothing
    is saved. ``make_env`` replaces ``VectorEnv`` and ``make_policy`` the network of ``config.model``.
    ``clock`` replaces the wall clock, which schedules follow: every reading is the ``elapsed_s`` of an event.
    ``progress(what, done, total)`` is called while maps and kernels are prepared, and ``sync_records`` before a
    checkpoint is written, to flush the emitted events to the disk. With several ranks (see
    ``echelon.training.runtime.process_group``) each calls this; rank 0 emits and saves, any may ask to stop.
    """
    with Session(config, run_dir, make_env, progress, make_policy, clock=clock, resume=resume) as session:
        training = TrainingRun(session, emit, should_stop, want_checkpoint or (lambda: False), sync_records)
        training.start(resume)
        try:
            reason = ""
            while not (reason := reason or training.end_reason()) or session.rollouts.waits:
                timer = PhaseTimer()
                session.set_progress()
                training.apply_curriculum()
                session.refresh_maps()
                timer.mark("maps")

                try:
                    ahead = not reason and training.may_play_ahead()
                    metrics, times = session.rollouts.advance(ahead, training.should_abort)
                except ReloadCheckpoint as error:
                    training.reload(error)
                    continue
                if not config.start_from:
                    session.trainer.update_obs_normalizer(session.buffer)
                session.ema.update(session.counters.update)
                release_cache(session.device, session.counters.update + 1, config.ppo.empty_cache_every)
                timer.mark("update")

                training.report(metrics, times, timer)
                training.snapshot_if_due()
                training.update_league()
                training.evaluate_if_due()
                training.save_if_due()
        except CollectionAborted:
            return training.end("stopped", "the rollout was aborted; the last checkpoint is kept")
        training.finish(reason)
        steps = session.counters.global_step
        message = f"reached pause_steps {config.pause_steps} at {steps} steps" if reason == PAUSED else ""
        return training.end("stopped" if message else reason, message)


class PhaseTimer:
    """Durations of the phases of an update [s]."""

    def __init__(self) -> None:
        self.began = self._last = time.perf_counter()
        self.phases: dict[str, float] = {}

    def mark(self, phase: str) -> None:
        """Store the time since the last mark as the duration of ``phase``."""
        now = time.perf_counter()
        self.phases[phase] = now - self._last
        self._last = now


class TrainingRun:
    """A session in progress: the events it emits, when it stops, and what is due after an update."""

    def __init__(
        self,
        session: Session,
        emit: Emit,
        should_stop: ShouldStop,
        want_checkpoint: Callable[[], bool],
        sync_records: Callable[[], object],
    ) -> None:
        self.session = session
        self.emit: Emit = emit if session.group.is_main else lambda event: None
        self.should_stop, self.want_checkpoint, self.sync_records = should_stop, want_checkpoint, sync_records
        self.last_checkpoint: Checkpoint | None = None
        self.last_evaluation: EvalStats | None = None
        self._requested = False
        """Whether a checkpoint is requested that waits for a rollout."""
        self._update_s = 0.0
        """Duration of the newest update [s]."""
        self._reported_parameters: dict[str, Any] = {}
        self._reloads: Counter[str] = Counter()
        """Number of reloads per checkpoint."""

    # -- start and end

    def start(self, resume: Path | str | None) -> None:
        """Restore a checkpoint, or begin a new run, which is submitted and evaluated untrained where configured."""
        s = self.session
        self._recover_checkpoints()
        found = self._find(resume)
        self.last_checkpoint = saved = found.checkpoint
        if saved is None:
            s.apply_curriculum()
            s.begin()
        else:
            notice = s.restore(saved)
            notices = [*found.notices, saved.version_notice, notice, s.schedule_change(saved)]
            message = "; ".join(filter(None, notices))
            self._emit_resume(saved, message)
        self.emit(s.start_event("" if saved is None else saved.path.name))
        if s.counters.update == 0:
            self._join_league()
            if s.config.eval.at_start:
                self.evaluate()
        elif s.counters.evaluated_update != s.counters.update:
            self.evaluate_if_due()
        s.clock.start()

    def end_reason(self) -> str:
        """Return why training ends, the same on every rank, or an empty string: completed, stopped or ``PAUSED``."""
        s = self.session
        if s.progress >= 1.0:
            return "completed"
        level = s.group.all_max(int(self.should_stop()))
        if level >= STOP_NOW and not s.group.is_single:
            raise CollectionAborted("a rank asked to stop at once")
        paused = PAUSED if 0 < s.config.pause_steps <= s.counters.global_step else ""
        return "stopped" if level >= STOP_AFTER_UPDATE else paused

    def should_abort(self) -> bool:
        """Return whether to abort the rollout; one of several ranks completes its update first."""
        return int(self.should_stop()) >= STOP_NOW and self.session.group.is_single

    def finish(self, reason: str) -> None:
        """Submit, evaluate and save the policy as it is at the end, unless that was done after the last update.

        A paused run is evaluated too. A completed one ends with its report.
        """
        s = self.session
        if reason == "completed":
            self._emit_all(s.submit(lambda: self.should_stop() >= STOP_NOW))
        if reason in ("completed", PAUSED) and s.counters.evaluated_update != s.counters.update:
            self.evaluate()
        if s.folder is not None and s.counters.saved_update != s.counters.update:
            try:
                self.save("end" if reason == "completed" else "stop")
            except OSError as error:
                raise OSError(f"{write_fault(self._checkpoint_name, error)}; free disk space and resume") from error
        if reason == "completed" and s.config.eval.report:
            self.last_evaluation = s.report(self.should_stop)
            self._emit_evaluation(self.last_evaluation, "report")

    def end(self, reason: str, message: str = "") -> RunResult:
        s, c = self.session, self.session.counters
        path = None if self.last_checkpoint is None else self.last_checkpoint.path
        reached = {"reason": reason, **self._position, "episodes": c.episodes}
        saved = "" if path is None else f"checkpoints/{path.name}"
        self.emit(EventEnd(**reached, elapsed_s=s.read_clock(), checkpoint=saved, message=message))
        return RunResult(**reached, checkpoint=path, evaluation=self.last_evaluation)

    # -- parts of an update

    def apply_curriculum(self, reason: str = "schedule") -> None:
        """Set the curriculum parameters of the coming update; emit those that changed significantly."""
        parameters = self.session.apply_curriculum()
        changes = significant_changes(self._reported_parameters, parameters, MIN_REPORTED_CHANGE)
        if changes:
            self._reported_parameters |= changes
            self.emit(EventCurriculum(**self._position, parameters=dict(self._reported_parameters), reason=reason))

    def report(self, metrics: dict[str, Any], times: CollectTimes, timer: PhaseTimer) -> None:
        """Advance the counters and emit the update and its episodes; ``metrics`` are the trainer's."""
        s, c = self.session, self.session.counters
        steps = s.group.all_sum(int(s.buffer.alive.sum()))
        by_rank = s.group.all_gather(s.collector.episodes.take())
        episodes = [record for ended in by_rank for record in ended.records]
        opponents = [name for ended in by_rank for name in ended.opponents]
        c.update += 1
        c.global_step += steps
        c.episodes += sum(ended.count for ended in by_rank)
        s.episode_stats.add(episodes, s.layout)
        s.source.record_outcomes(episodes, opponents)
        rates = records.activation_rates(s.buffer)
        duration_s = self._update_s = time.perf_counter() - timer.began
        update_s = timer.phases["update"] - times.all_s
        phases_s = {"env": times.env_s, "forward": times.forward_s, "update": update_s}
        other_s = duration_s - sum(phases_s.values()) - timer.phases["maps"]
        if s.config.bank_refresh_every:
            phases_s["maps"] = timer.phases["maps"]
        self.emit(
            EventUpdate(
                update=c.update,
                global_step=c.global_step,
                episodes=c.episodes,
                elapsed_s=s.read_clock(),
                steps_per_s=steps / duration_s,
                **s.episode_stats.averages(),
                **update_fields(metrics),
                learner_share=s.collector.learner_share,
                max_grad_norm=s.config.ppo.max_grad_norm,
                peak_memory_mb=peak_memory_mb(),
                device_memory_mb=device_memory_mb(s.device),
                phases_s={**phases_s, "other": other_s},
                **s.env.maps.statistics(),
                reward_terms=s.episode_stats.reward_terms(),
                actions=rates,
                curriculum=dict(s.env.get_curriculum()),
                opponents=s.opponents.histogram(),
                elo=c.elo,
            )
        )
        if episodes:
            self.emit(records.episodes_event(episodes, s.layout, **self._position, opponents=opponents))
        trace = s.profiler.step()
        if trace is not None:
            self._alert(f"trace in {trace}", level="info")

    def snapshot_if_due(self) -> None:
        """Add the policy to the opponent pool every ``past_every_updates`` and emit its rating."""
        every = self.session.config.opponents.past_every_updates
        if not every or self.session.counters.update % every:
            return
        rating = self.session.snapshot(self.should_stop)
        if rating is not None:
            self.emit(rating)

    def update_league(self) -> None:
        """Submit to the league and read it again where due."""
        self._emit_all(self.session.update_league(lambda: self.should_stop() > 0))

    def evaluate_if_due(self) -> None:
        """Evaluate every ``eval.every_updates``; a stop puts the evaluation off until the run is resumed.

        It is the last but for scheduled saves: a best policy is saved here, and a resumed run continues with the next
        update.
        """
        every = self.session.config.eval.every_updates
        if every and self.session.counters.update % every == 0:
            self.evaluate(self._give_way)

    def _give_way(self) -> None:
        if self.should_stop():
            raise EvaluationPutOff

    def may_play_ahead(self) -> bool:
        """Return whether the next rollout may be played beside the coming update: neither save nor end follows it."""
        config, update = self.session.config, self.session.counters.update + 1
        saves = [every for every in (config.save_every, config.eval.every_updates) if every]
        due = self._requested or update == config.max_updates or any(update % every == 0 for every in saves)
        return config.ppo.overlap and not due

    def save_if_due(self) -> None:
        """Save every ``save_every`` updates, slow ones and on request, unless this update is saved already.

        While a rollout waits, a request does too, for one update.
        """
        s, c = self.session, self.session.counters
        is_slow = self._update_s > SLOW_UPDATE_S
        requested = s.group.broadcast(self.want_checkpoint() or is_slow) or self._requested
        self._requested = requested and s.rollouts.waits
        if s.rollouts.waits:
            return
        if s.folder is not None and (requested or c.update % s.config.save_every == 0) and c.saved_update != c.update:
            self._try_save("requested" if requested else "scheduled")

    def evaluate(self, on_step: Callable[[], object] | None = None) -> None:
        """Evaluate on the seeds of choice, emit the results, and save the policy if it is the best."""
        s = self.session
        stats = s.evaluate(on_step or self.should_stop)
        if stats is None:
            return
        is_best = s.is_best(stats)
        self.last_evaluation = stats
        self._emit_evaluation(stats, "choice", is_best=is_best)
        for match in s.evaluator.matches:
            self.emit(match)
        if s.evaluator.fault:
            self._alert(s.evaluator.fault)
        if is_best and s.folder is not None and s.counters.update > 0:
            self._try_save("best")

    def save(self, reason: str) -> None:
        """Write a checkpoint, point ``best.json`` at it if this update's evaluation is the best so far, and emit it."""
        began, s = time.perf_counter(), self.session
        saved = s.save(self.sync_records)
        self.last_checkpoint = saved
        if s.counters.best.get("update") == s.counters.update and s.group.is_main:
            with self._alert_on_disk_error(BEST):
                checkpoints.mark_best(saved.path.parent, saved, s.counters.best)
        self.emit(
            EventCheckpoint(
                update=s.counters.update,
                global_step=saved.step,
                path=f"checkpoints/{saved.path.name}",
                id=saved.id,
                reason=reason,
                duration_s=time.perf_counter() - began,
                size_mb=saved.size_mb(),
            )
        )

    def reload(self, error: ReloadCheckpoint) -> None:
        """Restore the last checkpoint after an update that was not finite; elapsed time continues.

        Raises ``ValueError`` if there is no checkpoint, or if it has been reloaded ``MAX_RELOADS`` times.
        """
        s = self.session
        saved = self._newest().checkpoint
        if saved is None:
            raise ValueError(f"{error}; nonfinite_policy is 'reload', but there is no checkpoint yet") from error
        name, nonfinite, elapsed_s = saved.path.name, s.trainer.nonfinite, s.read_clock()
        if self._reloads[name] == MAX_RELOADS:
            raise ValueError(
                f"{error}; reloaded {name} {MAX_RELOADS} times, expected a finite update; try a lower ppo.lr"
            ) from error
        self._reloads[name] += 1
        s.restore(saved, fresh_random=True)
        s.clock.restart(elapsed_s)
        s.trainer.nonfinite, s.counters.elapsed_s = nonfinite, elapsed_s
        self._alert(f"{error}; reloading {name}")
        self._emit_resume(saved)

    # -- helpers

    def _newest(self) -> CheckpointSearch:
        folder = self.session.folder
        return CheckpointSearch(checkpoint=None) if folder is None else latest_valid(folder)

    def _find(self, resume: Path | str | None) -> CheckpointSearch:
        """Return the checkpoint to resume from, if any; emit an alert for each skipped checkpoint."""
        if resume is None:
            return CheckpointSearch(checkpoint=None)
        if str(resume) != "latest":
            return CheckpointSearch(checkpoint=open_checkpoint(Path(resume)))
        found = self._newest()
        for notice in found.notices:
            self.emit(EventAlert(message=notice))
        if found.checkpoint is None and found.notices:
            raise ValueError(f"run has no valid checkpoint: {found.notices[0]}")
        return found

    def _join_league(self) -> None:
        """Submit the untrained policy (an exploiter submits only at its end) and sample opponents by its rating."""
        s = self.session
        if s.league is None:
            return
        if not (isinstance(s.source, LeagueSource) and s.source.target is not None):
            self._emit_all(s.submit(lambda: self.should_stop() >= STOP_NOW))
        s.league.refresh_opponents()
        s.opponents.reset()

    def _recover_checkpoints(self) -> None:
        s = self.session
        if s.folder is not None and s.group.is_main:
            for path in checkpoints.recover(s.folder):
                self.emit(
                    EventAlert(message=f"checkpoint {path.name!r} of an interrupted save is recovered", level="info")
                )
        s.group.broadcast(None)

    def _try_save(self, reason: str) -> None:
        """Save; a disk error skips this checkpoint with an alert."""
        with self._alert_on_disk_error(self._checkpoint_name):
            self.save(reason)

    @contextlib.contextmanager
    def _alert_on_disk_error(self, name: str) -> Iterator[None]:
        """Turn an ``OSError`` while ``name`` is written into an alert."""
        try:
            yield
        except OSError as error:
            self._alert(write_fault(name, error), level="error")

    def _emit_evaluation(self, stats: EvalStats, purpose: SeedRange, is_best: bool = False) -> None:
        config = self.session.config
        self.emit(
            eval_event(
                stats,
                eval_seeds(config.eval.seeds, purpose),
                **self._position,
                opponent=config.eval_opponent,
                weapon_prob=config.eval.weapon_prob,
                deterministic=config.eval.deterministic or purpose == "report",
                purpose=purpose,
                is_best=is_best,
            )
        )

    def _emit_resume(self, saved: Checkpoint, message: str = "") -> None:
        elapsed_s = self.session.counters.elapsed_s
        self.emit(EventResume(**self._position, elapsed_s=elapsed_s, checkpoint=saved.path.name, message=message))

    def _emit_all(self, events: Iterable[Event]) -> None:
        for event in events:
            self.emit(event)

    def _alert(self, message: str, **fields: Any) -> None:
        self.emit(EventAlert(message=message, **self._position, **fields))

    @property
    def _checkpoint_name(self) -> str:
        return f"checkpoint {step_name(self.session.counters.global_step)!r}"

    @property
    def _position(self) -> dict[str, Any]:
        """Update and step, the fields that locate an event in training."""
        return {"update": self.session.counters.update, "global_step": self.session.counters.global_step}
