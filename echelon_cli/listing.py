"""One row per run for lists of runs, read at a constant cost however long the run is."""

import math
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from echelon import machine
from echelon.files import error_text
from echelon.jobs.kinds import has_plan
from echelon.jobs.labels import read_labels
from echelon.jobs.status import ALIVE, JobStatus, job_status
from echelon.replay.schema import SUFFIX
from echelon.runs import RunPaths, policy_name, read_json
from echelon.telemetry.evaluations import ladder_score, read_evaluations
from echelon.telemetry.events import EventAlert, EventFresh, EventRung
from echelon.telemetry.latest import SEARCHED_LISTED, read_latest
from echelon.telemetry.snapshot import RunSnapshot
from echelon_cli import output
from echelon_cli.tui.format import short_run_id

NAMES = {"self": "self-play", "": "-"}
"""Opponents with another name in tables."""

FULL_ID_COLUMNS = 100
"""Terminal width from which full run ids are shown; the short id at their end names a run as well."""

GAME_OPTIONS = (
    "world",
    "map_size_range",
    "num_packs",
    "packs_per_team_range",
    "min_pack_size",
    "min_episode_seconds",
    "max_episode_seconds",
    "zone_win_share",
)

ALERT_LIFETIME_S = 3600.0
"""Time for which an alert is shown in lists of runs [s]."""

SCRIPTED = "heuristic:"
"""Prefix of the scripted levels, which lists leave out."""

TAIL_BYTES = 64 << 10
"""End of the results of evaluation jobs that a list of runs reads, some twenty results."""

FEWEST_PARALLEL = 2000
"""Runs from which several processes read their rows; fewer are read before processes have started."""


@dataclass(frozen=True, kw_only=True)
class RunRow:
    """One run in a list of runs."""

    id: str
    root: Path
    state: str
    kind: str = ""
    reason: str = ""
    preset: str = ""
    device: str = ""
    opponent: str = ""
    game: str = ""
    """What decides which matches its evaluations play."""
    created: float = 0.0
    progress: float = 0.0
    """Fraction of the job's plan, 0 to 1; NaN for a kind without a plan."""
    update: int = 0
    steps: int = 0
    steps_per_s: float = math.nan
    avg_return: float = math.nan
    win_rate: float = math.nan
    """Training win rate over the newest episodes."""
    eval_rate: float = math.nan
    """Win rate of the newest evaluation in training."""
    eval_low: float = math.nan
    eval_high: float = math.nan
    """Its 95 % confidence interval."""
    ladder: float = math.nan
    """Ladder score of the newest evaluated checkpoint; NaN where it did not play the whole ladder."""
    ladder_low: float = math.nan
    ladder_high: float = math.nan
    """Its 95 % confidence interval."""
    rating: float = math.nan
    """Elo of the newest rated snapshot, relative to the untrained policy at 0; NaN without one."""
    group: str = ""
    tags: tuple[str, ...] = ()
    notes: str = ""
    """What the user has written about the run."""
    variant: str = ""
    """What differs from the other runs of a list that shows one group; empty elsewhere."""
    alert: str = ""
    """Newest alert of a running run, while it is recent."""
    policy: str = ""
    """The policy that an evaluation job plays."""
    done: str = ""
    """What a job other than training has done so far."""

    @property
    def is_alive(self) -> bool:
        return self.state in ALIVE

    @property
    def is_working(self) -> bool:
        """Whether the job runs and works through a plan; an idle play session does not."""
        return self.is_alive and has_plan(self.kind)

    @property
    def status(self) -> str:
        """Text of the status column: why the run ended, its newest alert, variant, labels, or what it has done."""
        labels = " ".join([self.group, *(f"#{tag}" for tag in self.tags), self.notes.partition("\n")[0]]).strip()
        return self.reason or self.alert or self.variant or labels or self.done

    def to_dict(self) -> dict[str, Any]:
        """Return the row as plain values under the JSON keys that all commands use."""
        row = asdict(self)
        where = {"folder": str(row.pop("root"))}
        del row["variant"], row["game"]
        measured = {"last_win_rate": row.pop("eval_rate"), "last_win_low": row.pop("eval_low")}
        measured["last_win_high"] = row.pop("eval_high")
        return {"id": row.pop("id"), **where, "global_step": row.pop("steps"), **measured, **row}


def job_json(paths: RunPaths, status: JobStatus | None = None, **facts: Any) -> dict[str, Any]:
    """Return a run in the JSON form of all commands: id, folder, state where known, then ``facts``."""
    return {"id": paths.id, "folder": str(paths.root), **(asdict(status) if status else {}), **facts}


def file_state(path: Path) -> tuple[int, int] | None:
    """Return modification time [ns] and size of a file, which tell whether it has changed; None without one."""
    try:
        state = os.stat(path)
    except OSError:
        return None
    return state.st_mtime_ns, state.st_size


def shown_id(run_id: str) -> str:
    """Return a run's id for tables: the full id on wide terminals, else the short id."""
    return run_id if output.console().width >= FULL_ID_COLUMNS else short_run_id(run_id)


def run_row(paths: RunPaths, before: RunRow | None = None) -> RunRow:
    """Return the current row of a run; ``before`` is an earlier row with the same records, which saves reading them."""
    try:
        status = job_status(paths)
    except (ValueError, OSError) as error:
        return RunRow(id=paths.id, root=paths.root, state="failed", reason=error_text(error))
    labels = read_labels(paths)
    given: dict[str, Any] = {"group": labels.group, "tags": labels.tags, "notes": labels.notes}
    if before is not None:
        return replace(before, state=status.state, reason=status.reason, **given)
    searched = (*SEARCHED_LISTED, EventAlert) if status.is_alive else SEARCHED_LISTED
    seen = read_latest(paths.metrics, searched=searched)
    update, start = seen.update, seen.start
    evaluation = next(iter((*filter(seen.is_trained, seen.evals), *seen.batches)), None)
    ladder = ladder_score(read_evaluations(paths.evals, TAIL_BYTES))
    return RunRow(
        id=paths.id,
        root=paths.root,
        state=status.state,
        kind=status.kind,
        reason=status.reason,
        preset=status.preset,
        device=start.device if start else "",
        opponent=evaluation.opponent if evaluation else opponent_of(start.config) if start else "",
        game=game_of(start.config) if start else "",
        created=status.created,
        progress=_progress(paths, seen) if has_plan(status.kind) else math.nan,
        policy=_policy(paths, seen) if seen.is_evaluation else "",
        done=_done(paths, status.kind, seen),
        update=update.update if update else status.update,
        steps=seen.global_step,
        steps_per_s=update.steps_per_s if update else math.nan,
        avg_return=update.avg_return if update else math.nan,
        win_rate=update.win_rate if update else math.nan,
        eval_rate=evaluation.win_rate if evaluation else math.nan,
        eval_low=evaluation.win_low if evaluation else math.nan,
        eval_high=evaluation.win_high if evaluation else math.nan,
        ladder=ladder.value,
        ladder_low=ladder.low,
        ladder_high=ladder.high,
        rating=update.elo if update else math.nan,
        alert=_recent_alert(seen, time.time()) if status.is_alive else "",
        **given,
    )


def run_rows(runs: Sequence[RunPaths]) -> list[RunRow]:
    """Return the rows of many runs in order, read by a process per core where that is faster.

    For commands only: a process with threads must not be forked.
    """
    cores = machine.cores() if sys.platform == "linux" else 1
    if cores == 1 or len(runs) < FEWEST_PARALLEL:
        return [run_row(run) for run in runs]
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    with ProcessPoolExecutor(cores, mp_context=multiprocessing.get_context("fork")) as pool:
        return list(pool.map(run_row, runs, chunksize=len(runs) // (4 * cores) + 1))


def _recent_alert(seen: RunSnapshot, now: float) -> str:
    """Return the newest alert if it is a warning or error raised within ``ALERT_LIFETIME_S``."""
    recent = [a for a in seen.alerts if a.level != "info" and now - a.time <= ALERT_LIFETIME_S]
    return recent[-1].message if recent else ""


def _policy(paths: RunPaths, seen: RunSnapshot) -> str:
    """Return the name of the policy that an evaluation job plays; its update is known after the first opponent."""
    plan = ((read_json(paths.spec) or {}).get("config") or {}).get("eval") or {}
    run, target = (Path(str(plan.get(name) or "")).name for name in ("run", "target"))
    return policy_name(f"update {seen.evals[-1].update}" if run and seen.evals else run or target, run)


def trial_text(event: EventRung | EventFresh) -> str:
    """Return where a trial of a sweep, or an attacker of a red team, is."""
    where = f"attacker {event.trial} at {event.share:.0%}"
    return where if event.share else f"trial {event.trial} rung {event.rung + 1}"


def _done(paths: RunPaths, kind: str, seen: RunSnapshot) -> str:
    """Return what a job other than training has done, in the unit of its kind."""
    if (played := seen.round) is not None:
        return f"round {played.round} of {played.rounds}, {played.played} of {played.matches} matches"
    if seen.batches:
        return f"{seen.batches[-1].played} of {seen.batches[-1].matches} matches"
    if (rung := seen.rung) is not None:
        return f"{trial_text(rung)}: {rung.state}"
    if has_plan(kind):
        return ""
    try:
        matches = sum(name.endswith(SUFFIX) for name in os.listdir(paths.replays))
    except OSError:
        matches = 0
    return f"{matches} match{'es' * (matches != 1)}"


def _progress(paths: RunPaths, seen: RunSnapshot) -> float:
    """Return the completed fraction of the plan; a resume may have extended it."""
    extended = (read_json(paths.extension) or {}).get("config")
    start = seen.start
    if start is not None and isinstance(extended, dict):
        limits = {
            name: extended[name]
            for name in ("total_steps", "max_minutes")
            if isinstance(extended.get(name), int | float)
        }
        start = replace(start, **limits)
    return replace(seen, start=start).progress


def opponent_name(name: str) -> str:
    """Return an opponent as tables name it: a scripted level without its prefix, a policy by its one name."""
    return NAMES.get(name) or " ".join(policy_name(part) for part in name.removeprefix(SCRIPTED).split(":"))


def game_of(config: dict[str, Any]) -> str:
    """Return what decides which matches the evaluations of a configuration play, their number aside."""
    env, evals = (found if isinstance(found := config.get(name), dict) else {} for name in ("env", "eval"))
    return repr([*(env.get(name) for name in GAME_OPTIONS), evals.get("weapon_prob"), evals.get("deterministic")])


def opponent_of(config: dict[str, Any]) -> str:
    """Return the opponent that a configuration names, or an empty string."""
    opponents = config.get("opponents")
    if not isinstance(opponents, dict):
        return ""
    target = (opponents.get("league") or {}).get("target")
    if target or (opponents.get("mix") or {}).get("league"):
        return f"exploits {target}" if target else "league"
    return f"{SCRIPTED}{skill}" if (skill := opponents.get("skill")) else ""
