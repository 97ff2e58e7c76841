"""Synthetic runs: deterministic folders with the records, metrics and logs of real ones."""

from __future__ import annotations

import contextlib
import fcntl
import json
import math
import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

from echelon.files import atomic_write
from echelon.jobs.process import boot_id
from echelon.jobs.spec import JobSpec, write_spec
from echelon.runs import RunPaths
from echelon.telemetry.events import (
    Event,
    EventAlert,
    EventCheckpoint,
    EventCurriculum,
    EventEnd,
    EventEpisodes,
    EventEval,
    EventEvalBatch,
    EventLeague,
    EventRating,
    EventStart,
    EventUpdate,
)
from echelon.telemetry.log import EventLog

OPPONENT = "heuristic:medium"
STEPS_PER_UPDATE = 18_000
SECONDS_PER_UPDATE = 1.25
EVAL_EVERY = 50
MAP_SIZES = {0: [50, 60], 60: [65, 80], 120: [80, 100]}
"""Map sizes by the update from which they apply."""
START_TIME = 1_795_000_000.0

REPORTED = {"trivial": 0.96, "easy": 0.87, "medium": 0.74, "hard": 0.5, "expert": 0.31}
"""Win rates of evaluation jobs by level."""

EVALUATED = {"preset": "eval", "eval": {"run": "/runs/20260101-120000-quickstart-amber-jackal"}}
CONFIG = {"preset": "quickstart", "opponents": {"skill": "medium"}, "eval": {"every_updates": 50}}


def start_event() -> EventStart:
    return EventStart(
        time=START_TIME, device="cpu", preset="quickstart", total_steps=8_000_000, max_minutes=10.0,
        parameters=222_000, num_envs=64, rows=320, threads=2, rollout_steps=64, config=CONFIG,
    )  # fmt: skip


def update_event(update: int, rng: random.Random, planned: int = 440) -> EventUpdate:
    """Return one update of a run that learns to win about 70 % of its battles."""
    share = update / planned
    skill = 1 / (1 + math.exp(-(share - 0.35) * 9))
    noise = rng.gauss(0, 1)
    win = min(1.0, max(0.0, 0.72 * skill + 0.06 * noise))
    return EventUpdate(
        time=START_TIME + 5 + update * SECONDS_PER_UPDATE,
        update=update,
        global_step=update * STEPS_PER_UPDATE + rng.randrange(500),
        episodes=update * 26,
        elapsed_s=update * SECONDS_PER_UPDATE,
        steps_per_s=14_300 + 420 * rng.gauss(0, 1) - 900 * (rng.random() < 0.05),
        avg_return=0.4 + 2.6 * skill + 0.25 * rng.gauss(0, 1),
        avg_length=140 + 60 * (1 - skill),
        win_rate=win,
        loss_rate=max(0.0, 1 - win - 0.05),
        draw_rate=min(0.05, 1 - win), battles=min(100, 26 * update),
        loss=0.1,
        pg_loss=-0.004 + 0.003 * rng.gauss(0, 1),
        vf_loss=0.12 + 0.9 * math.exp(-share * 14) + 0.02 * abs(rng.gauss(0, 1)),
        entropy=15.6 - 5.2 * share + 0.12 * rng.gauss(0, 1),
        approx_kl=0.0075 + 0.0018 * rng.gauss(0, 1),
        clipfrac=0.11 + 0.015 * rng.gauss(0, 1),
        grad_norm=0.42 + 0.9 * math.exp(-share * 10) + 0.06 * abs(rng.gauss(0, 1)),
        grad_norm_max=0.75 + 1.2 * math.exp(-share * 10) + 0.25 * abs(rng.gauss(0, 1)),
        grad_clipped_share=0.4,
        max_grad_norm=0.5,
        explained_variance=0.93 - 0.9 * math.exp(-share * 12) + 0.015 * rng.gauss(0, 1),
        lr=1e-3 * (1 - share),
        lr_factor=0.5,
        agreement=1 - 0.5 * math.exp(-share * 20), imitation_loss=2.5 + 10 * math.exp(-share * 20),
        learner_share=min(0.5, 2 * share),
        ent_coef=0.001,
        epochs=1,
        phases_s={"env": 0.40, "forward": 0.30, "update": 0.54, "other": 0.012},
        reward_terms={
            "approach": 2.24 - 0.6 * share, "zone": 0.16 + 1.3 * skill, "damage": 0.21 + 0.5 * skill,
            "kill": 0.07 + 0.3 * skill, "assist": 0.045 + 0.1 * skill, "death": -0.2 - 0.25 * skill,
            "terminal": -2.0 + 3.1 * skill,
        },
        curriculum={"weapon_prob": 0.2},
        peak_memory_mb=910.0, cpu_cores=1.9 + 0.05 * math.sin(update), memory_mb=840.0 + update % 7,
        memory_free_mb=11_500.0, disk_free_mb=52_000.0,
        opponents={"heuristic:easy": 24, "heuristic:medium": 20, "past:50": 8, "self": 12}, elo=600.0 * skill,
        maps_used=64 + update // 4, map_stalls=update // 100, map_wait_s=0.4 * (update // 100),
    )  # fmt: skip


def events(updates: int, *, seed: int = 7, planned: int = 440) -> Iterator[Event]:
    rng = random.Random(seed)
    yield start_event()
    yield curriculum_event(0)
    yield eval_event(0, 0.02)
    for number in range(1, updates + 1):
        event = update_event(number, rng, planned)
        yield event
        won = round(26 * event.win_rate)
        yield EventEpisodes(
            time=event.time, update=number, global_step=event.global_step, count=26, wins=won, losses=26 - won,
            reasons={"zone_control": 17, "elimination": 7, "time_up": 2}, mean_return=event.avg_return,
            by_opponent={
                "heuristic:easy": {"win": won, "loss": 20 - won, "draw": 0} if won <= 20 else {"win": 20},
                "heuristic:medium": {"win": max(0, won - 20), "loss": 6 - max(0, won - 20), "draw": 0},
            },
        )  # fmt: skip
        if number in MAP_SIZES:
            yield curriculum_event(number)
        if number % EVAL_EVERY == 0:
            yield eval_event(number, event.win_rate - 0.03)
            yield EventRating(
                time=event.time, update=number, global_step=event.global_step, name=f"past:{number}", elo=event.elo,
                elo_error=25.0,
            )  # fmt: skip
            yield league_event(number, event.global_step, event.elo)
            yield EventCheckpoint(
                time=event.time, update=number, global_step=event.global_step,
                path=f"checkpoints/step-{event.global_step}", reason="best",
            )  # fmt: skip


def curriculum_event(update: int) -> EventCurriculum:
    parameters = {"weapon_prob": 0.2, "map_size_range": MAP_SIZES[update]}
    return EventCurriculum(
        time=START_TIME + 4 + update * SECONDS_PER_UPDATE, update=update, global_step=update * STEPS_PER_UPDATE,
        parameters=parameters, reason="schedule",
    )  # fmt: skip


def eval_event(update: int, wins: float) -> EventEval:
    wins = min(1.0, max(0.0, wins))
    return EventEval(
        time=START_TIME + 5 + update * SECONDS_PER_UPDATE, update=update, global_step=update * STEPS_PER_UPDATE,
        opponent=OPPONENT, episodes=80, win_rate=wins, loss_rate=1 - wins,
        win_low=max(0.0, wins - 0.1), win_high=min(1.0, wins + 0.1), is_best=True,
    )  # fmt: skip


def report_events(update: int, job: str) -> Iterator[EventEval]:
    for number, (level, wins) in enumerate(REPORTED.items()):
        yield EventEval(
            time=START_TIME + 900 + update + number, update=update, global_step=update * STEPS_PER_UPDATE,
            opponent=f"heuristic:{level}", episodes=80, win_rate=wins, loss_rate=1 - wins, win_low=max(0.0, wins - 0.1),
            win_high=min(1.0, wins + 0.08), sampled_win_rate=wins - 0.06, sampled_low=wins - 0.17,
            sampled_high=wins + 0.05, purpose="report", job=job, checkpoint="0f" * 8, maps="path",
            map_size=[100, 100, 20], seeds=list(range(2**30, 2**30 + 40)),
        )  # fmt: skip


def batch_events(played: int, batches: int = 4, size: int = 20) -> Iterator[EventEvalBatch]:
    parts = [(n, level, mean) for n in range(batches) for level in REPORTED for mean in (True, False)]
    for number, (batch, level, mean) in enumerate(parts[:played], start=1):
        wins = REPORTED[level] - 0.06 * (not mean)
        yield EventEvalBatch(
            time=START_TIME + 10 * number, batch=batch, opponent=f"heuristic:{level}", deterministic=mean,
            played=size * number, matches=size * len(parts), episodes=size * (batch + 1),
            episodes_planned=size * batches,
            wins=round(wins * size * (batch + 1)), win_low=max(0.0, wins - 0.2 / (batch + 1)),
            win_high=min(1.0, wins + 0.2 / (batch + 1)), duration_s=9.5,
        )  # fmt: skip


def league_event(update: int, step: int, elo: float) -> EventLeague:
    """Return the league record of a snapshot; the second one is promoted."""
    return EventLeague(
        time=START_TIME + 5 + update * SECONDS_PER_UPDATE, update=update, global_step=step,
        name=f"amber-jackal u{update}",
        entry=f"e{update}", entry_kind="candidate", rating=1150.0 + 0.5 * elo, rd=90.0 - 0.2 * update, games=24,
        rank=max(1, 9 - update // EVAL_EVERY), ranked=9 + update // EVAL_EVERY, promoted=update == 2 * EVAL_EVERY,
    )  # fmt: skip


def log_lines(updates: int) -> list[str]:
    lines = ["2026-11-18 10:06:40 start device=cpu global_step=0"]
    for event in events(updates):
        stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(event.time))
        if isinstance(event, EventEval):
            lines.append(f"{stamp} eval update={event.update} opponent={OPPONENT} win_rate={event.win_rate:.3f}")
        elif isinstance(event, EventCheckpoint):
            lines.append(f"{stamp} checkpoint update={event.update} path={event.path} reason=best")
    return lines


def make_run(
    home: Path, name: str, *, updates: int = 200, ended: str = "", host: str = "", alerts: int = 0, seed: int = 7
) -> RunPaths:
    """Write a run folder; ``ended`` is completed, stopped, failed, or empty for a running one."""
    paths = RunPaths(home / name)
    for folder in (paths.log, paths.control, paths.checkpoints):
        folder.mkdir(parents=True, exist_ok=True)
    options = {"host": host} if host else {}
    write_spec(paths, JobSpec(kind="train", config=CONFIG, created=time.time() - 400, **options))
    last: Event | None = None
    with EventLog(paths.metrics) as log:
        for event in events(updates, seed=seed):
            log.append(event)
            last = event if isinstance(event, EventUpdate) else last
        for number in range(alerts):
            log.append(EventAlert(message=f"checkpoint could not be written: No space left on device ({number})"))
        step = getattr(last, "global_step", 0)
        if ended in ("completed", "stopped"):
            log.append(EventEnd(reason=ended, update=updates, global_step=step))
    paths.log_worker.write_text("\n".join(log_lines(updates)) + "\n")
    paths.log_supervisor.write_text("supervisor log\n")
    if ended:
        code = {"completed": 0, "stopped": 4, "failed": 1}[ended]
        message = "ppo.lr -1 must be > 0" if ended == "failed" else ""
        atomic_write(paths.exit, json.dumps({"code": code, "message": message, "update": updates, "global_step": step}))
    else:
        write_progress(paths, updates, step)
    return paths


def make_evaluation(home: Path, name: str, *, batches: int) -> RunPaths:
    """Write the folder of an evaluation job that has played some batches; it runs where its lock is held."""
    paths = RunPaths(home / name)
    for folder in (paths.log, paths.control):
        folder.mkdir(parents=True)
    write_spec(paths, JobSpec(kind="eval", config=EVALUATED, created=time.time() - 400))
    lines = []
    with EventLog(paths.metrics) as log:
        for event in (EventStart(time=START_TIME, device="cpu", preset="eval", num_envs=20), *batch_events(batches)):
            log.append(event)
            stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(event.time))
            lines.append(f"{stamp} {event.kind} {getattr(event, 'opponent', 'device=cpu')}")
    paths.log_worker.write_text("\n".join(lines) + "\n")
    write_progress(paths, 120, 120 * STEPS_PER_UPDATE)
    return paths


def write_progress(paths: RunPaths, update: int, step: int) -> None:
    row = {"monotonic": time.monotonic(), "boot_id": boot_id(), "phase": "training", "update": update}
    atomic_write(paths.progress, json.dumps({**row, "global_step": step}))


@contextlib.contextmanager
def alive(paths: RunPaths) -> Iterator[RunPaths]:
    handle = os.open(paths.lock, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield paths
    finally:
        os.close(handle)
