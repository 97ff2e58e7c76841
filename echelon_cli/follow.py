"""Follow a run on a terminal or into a pipe: a line per update, evaluation and alert, and a summary at the end.

Only reads the run folder, so ending it never affects the run. The columns of a progress line are rows of ``COLUMNS``.
"""

import math
import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from echelon.jobs.status import JobStatus, job_status
from echelon.runs import RunPaths, follow_folder, is_deleted
from echelon.telemetry import events
from echelon.telemetry.evaluations import newest_results
from echelon.telemetry.lines import to_json
from echelon.telemetry.snapshot import RunSnapshot, SnapshotFeed
from echelon_cli import output
from echelon_cli.listing import opponent_name, trial_text
from echelon_cli.output import count, duration, measured, percent, print_line

POLL_S = 0.25
"""Polling interval [s]."""

HEADER_EVERY = 20
"""Progress lines between two headers."""


@dataclass(frozen=True)
class ProgressColumn:
    """One value of a progress line."""

    name: str
    width: int
    text: Callable[[events.EventUpdate, RunSnapshot], str]
    wide: bool = False
    """Shown only on terminals of at least ``WIDE`` columns."""


WIDE = 110

COLUMNS: tuple[ProgressColumn, ...] = (
    ProgressColumn("update", 6, lambda u, _: str(u.update)),
    ProgressColumn("steps", 7, lambda u, _: count(u.global_step)),
    ProgressColumn("steps/s", 7, lambda u, _: count(u.steps_per_s)),
    ProgressColumn("return", 8, lambda u, _: measured(u.avg_return)),
    ProgressColumn("training", 8, lambda u, _: percent(u.win_rate)),
    ProgressColumn("policy", 8, lambda u, _: measured(u.pg_loss)),
    ProgressColumn("value", 8, lambda u, _: measured(u.vf_loss)),
    ProgressColumn("entropy", 7, lambda u, _: measured(u.entropy)),
    ProgressColumn("kl", 8, lambda u, _: measured(u.approx_kl), wide=True),
    ProgressColumn("clip", 5, lambda u, _: percent(u.clipfrac), wide=True),
    ProgressColumn("expl", 6, lambda u, _: measured(u.explained_variance), wide=True),
    ProgressColumn("grad", 7, lambda u, _: measured(u.grad_norm)),
    ProgressColumn("left", 6, lambda u, s: duration(s.eta_s)),
)


class Follower:
    """Prints the records that a run appends from now on."""

    def __init__(self, paths: RunPaths, *, as_json: bool = False, quiet: bool = False, live: bool = False) -> None:
        """Follow a run; ``quiet`` prints nothing, ``live`` shows the phase on a terminal until the end."""
        self.paths, self._id = follow_folder(paths), paths.id
        self.as_json = as_json
        self._quiet, self._live = quiet, live
        self.feed = SnapshotFeed(paths.metrics)
        self._lines = 0
        _, self.snapshot = self.feed.poll()

    def follow(self, until: Callable[[JobStatus, RunSnapshot], bool]) -> JobStatus:
        """Print new records until ``until`` holds or the run has ended; return its status at that moment."""
        waiting = None if self.as_json or self._quiet else output.spinner()
        started = time.monotonic()
        try:
            while True:
                if is_deleted(self.paths):
                    raise ValueError(f"run {self._id!r} was deleted while it ran, which ends its job")
                status = job_status(self.paths)
                self.feed.move(self.paths.metrics)
                found, self.snapshot = self.feed.poll()
                if waiting and found and not self._live:
                    waiting.stop()
                    waiting = None
                for event in () if self._quiet else found:
                    self.show(event)
                self._alert_terminal(status, found)
                if status.has_ended or until(status, self.snapshot):
                    return status
                if waiting:
                    waiting.start()
                    waiting.update(
                        output.plain(f"{status.phase or status.state}: {duration(time.monotonic() - started)}")
                    )
                time.sleep(POLL_S)
        finally:
            if waiting:
                waiting.stop()

    def _alert_terminal(self, status: JobStatus, found: Sequence[events.Event]) -> None:
        """Ring the bell of the terminal, and show its notification, at the end of the job and at alerts."""
        if self.as_json:
            return
        for event in found:
            if isinstance(event, events.EventAlert) and event.level != "info":
                output.notify(f"{self.paths.id}: {event.level}", event.message)
        if status.has_ended:
            output.notify(f"{self.paths.id} {status.state}", status.reason)

    def show(self, event: events.Event) -> None:
        if self.as_json:
            output.show_json_text(to_json(event))
            return
        match event:
            case events.EventStart() if event.num_envs:
                print_line(start_line(event))
            case events.EventResume():
                print_line(f"resumed at update {event.update} from {event.checkpoint}. {event.message}".strip())
            case events.EventUpdate():
                self._show_update(event)
            case events.EventEval():
                print_line(eval_line(event), style="bold")
            case events.EventEvalBatch():
                print_line(batch_line(event))
            case events.EventCheckpoint():
                print_line(f"saved {event.path}", style="dim")
            case events.EventRound():
                print_line(round_line(event))
            case events.EventRung() | events.EventFresh() if event.state != "started":
                print_line(rung_line(event) if isinstance(event, events.EventRung) else fresh_line(event))
            case events.EventMatch() if not event.update:
                print_line(f"recorded {event.path}", style="dim")
            case events.EventAlert():
                print_line(f"{event.level}: {event.message}", style="yellow")

    def _show_update(self, event: events.EventUpdate) -> None:
        columns = [c for c in COLUMNS if not c.wide or output.console().width >= WIDE]
        if self._lines % HEADER_EVERY == 0:
            print_line(" ".join(c.name.rjust(c.width) for c in columns), style="bold")
        self._lines += 1
        print_line(" ".join(c.text(event, self.snapshot).rjust(c.width) for c in columns))


def start_line(event: events.EventStart) -> str:
    if not event.rows:
        return f"{event.device}: {event.num_envs} matches at a time"
    size = f"{event.num_envs} battles, {event.rows} learners, {count(event.parameters)} parameters"
    limit = f" or {event.max_minutes:g} min" if event.max_minutes else ""
    return f"{event.device}, {event.threads} threads: {size}; until {count(event.total_steps)} steps{limit}"


def round_line(event: events.EventRound) -> str:
    if event.state != "rated":
        speed = event.played / event.seconds if event.seconds > 0 else 0.0
        return f"round {event.round} of {event.rounds}: {event.played} of {event.matches} matches, {speed:.1f}/s"
    changes = [
        f"{what} {', '.join(who)}" for what, who in (("promoted", event.promoted), ("retired", event.retired)) if who
    ]
    return "; ".join([f"round {event.round} of {event.rounds} rated after {duration(event.seconds)}", *changes])


def rung_line(event: events.EventRung) -> str:
    where = trial_text(event)
    if event.state != "evaluated":
        return f"{where}  {event.state}: {event.message}"
    bounds = output.interval(event.low, event.high)
    value = measured(event.value) if bounds == "-" else f"{percent(event.value)} [{bounds}]"
    against = f" against {opponent_name(event.opponent)}" if event.opponent else ""
    return f"{where}  {value}{against} at {count(event.global_step)} steps; {percent(event.progress)} done"


def fresh_line(event: events.EventFresh) -> str:
    where = "target against itself" if event.is_usual else trial_text(event)
    if event.state != "evaluated":
        return f"{where}  {event.state}: {event.message}"
    if event.is_usual:
        return f"{where}  recorded {event.episodes} matches, its usual behaviour"
    mean = f"{percent(event.win_rate)} [{output.interval(event.win_low, event.win_high)}]"
    sampled = f"{percent(event.sampled_win_rate)} [{output.interval(event.sampled_low, event.sampled_high)}]"
    return f"{where}  best, on fresh seeds: {mean} mean, {sampled} sampled"


def batch_line(event: events.EventEvalBatch) -> str:
    """Return the win rate so far of an evaluation job in one line."""
    played = f"{event.played:>{len(str(event.matches))}} of {event.matches}"
    actions = "mean" if event.deterministic else "sampled"
    interval = f"[{output.bounds(event.win_low, event.win_high)}]"
    name = opponent_name(event.opponent)
    condition = "" if event.condition == events.EventEvalBatch.condition else f", {event.condition}"
    return (
        f"{played}  {name:<7}  {actions:<7}  {percent(event.win_rate):>4} wins {interval} in {event.episodes} matches"
        f"{condition}"
    )


def eval_line(event: events.EventEval) -> str:
    interval = "" if (bounds := output.bounds(event.win_low, event.win_high)) == "-" else f" [{bounds}]"
    draws = f", {percent(event.draw_rate)} draws" if event.draw_rate else ""
    best = ", best" if event.is_best else ""
    sampled = f", {percent(event.sampled_win_rate)} sampled" if math.isfinite(event.sampled_win_rate) else ""
    name = "report" if event.purpose == "report" else "eval"
    return (
        f"{name} {event.update}: {percent(event.win_rate)} wins{interval}{sampled}{draws} against {event.opponent}, "
        f"{event.episodes} episodes{best}"
    )


def evaluation_text(event: events.EventEval) -> str:
    won = output.rate(event.win_rate, event.win_low, event.win_high)
    return f"{won} against {opponent_name(event.opponent)} at update {event.update}"


def show_summary(status: JobStatus, snapshot: RunSnapshot, paths: RunPaths) -> None:
    update, totals, best = snapshot.update, snapshot.episodes, snapshot.best
    rows: list[tuple[str, object]] = [("run", status.id), ("state", output.state_text(status.state))]
    if status.reason:
        rows.append(("reason", status.reason))
    if update is not None:
        speed = update.global_step / update.elapsed_s if update.elapsed_s > 0 else 0.0
        rows.append(("steps", f"{count(update.global_step)} in {duration(update.elapsed_s)}, {count(speed)}/s"))
    if totals.count:
        rows.append(("episodes", f"{totals.count}, {totals.wins} won, {totals.losses} lost, {totals.draws} drawn"))
    if snapshot.is_evaluation:
        rows += [("matches", f"{batch.played} of {batch.matches}") for batch in snapshot.batches[-1:]]
        rows += [(event.opponent, eval_line(event)) for event in newest_results(snapshot.evals)]
    elif snapshot.evals:
        last = snapshot.evals[-1]
        rows += [("first evaluation", evaluation_text(snapshot.evals[0])), ("last evaluation", evaluation_text(last))]
    if best is not None:
        rows.append(("best checkpoint", evaluation_text(best)))
    if status.checkpoint:
        rows.append(("checkpoint", status.checkpoint))
    rows.append(("folder", str(paths.root)))
    output.show_table(("", ""), rows, title="")
    show_next_steps(status)


NEXT_STEPS: dict[str, tuple[tuple[str, ...], str, str]] = {
    "train": (
        ("evaluate: echelon eval {0}", "continue: echelon train --resume {0} --minutes 30"),
        "echelon train --resume {0}",
        "replays: echelon watch {0}",
    ),
    "arena": (
        ("ratings: echelon arena standings",), "echelon arena run --resume {0}", "ratings: echelon arena standings"
    ),
    "eval": (("results: echelon runs show {0}",), "echelon eval --resume {0}", ""),
    "sweep": (
        ("results: echelon sweep show {0}",), "echelon sweep start --resume {0}", "trials: echelon sweep show {0}"
    ),
    "redteam": (
        ("report: echelon redteam --show {0}",), "echelon redteam --resume {0}", "report: echelon redteam --show {0}"
    ),
    "sim": (("watch: echelon watch {0}",), "", ""),
}  # fmt: skip
"""By kind or preset of a job: commands after its completion, the command that resumes it, and one while it runs."""
USABLE_STOPPED = ("train", "sim")
"""Kinds whose stopped runs have results."""


def show_next_steps(status: JobStatus) -> None:
    """Print the commands that usually follow a run that ended like this one."""
    completed, resume, _ = _next_steps(status)
    steps: tuple[str, ...] = ()
    if status.state == "completed" or (status.state == "stopped" and status.kind in USABLE_STOPPED):
        steps = completed
    elif status.state in ("stopped", "failed", "crashed") and resume:
        steps = ("logs: echelon runs logs {0}", f"continue: {resume}")
    for line in steps:
        print_line(line.format(shlex.quote(status.id)), style="dim")


def _next_steps(status: JobStatus) -> tuple[tuple[str, ...], str, str]:
    known = NEXT_STEPS.get(status.preset) if status.kind == "sweep" else None
    return known or NEXT_STEPS.get(status.kind, ((), "", ""))


def background_lines(status: JobStatus) -> list[str]:
    """Return that a run continues, and the commands that show and stop it."""
    own = _next_steps(status)[2]
    lines = (
        f"{status.id} continues in the background.",
        "  screen: echelon dash {0}    lines: echelon runs logs -f {0}",
        "  stop: echelon runs stop {0}    all runs: echelon dash",
        f"  {own}",
    )
    return [line.format(shlex.quote(status.id)) for line in lines if line.strip()]
