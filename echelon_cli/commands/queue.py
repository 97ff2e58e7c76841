"""``echelon runs queue``: runs that start when their device is free."""

import shutil
import time
from dataclasses import asdict, replace
from typing import Annotated, Any

import typer

from echelon.jobs.launchers import open_engine, parse_launcher
from echelon.jobs.tickets import Queue, Settings, machine_slots, parse_slots
from echelon.runs import require_home, runs_home
from echelon_cli import job, options, output
from echelon_cli.foreign_text import completable
from echelon_cli.listing import shown_id
from echelon_cli.options import argument, complete_launchers, one_of, option, usage_errors
from echelon_cli.output import Column

LOCAL = "local"
"""Word for a queue without a launcher."""
PLACES = {"first": 0, "last": None}
"""Words for places of ``--move``."""


def complete_queued(incomplete: str) -> list[str]:
    return [name for name in completable(Queue(runs_home()).runs()) if name.startswith(incomplete)]


def complete_slots(incomplete: str) -> list[str]:
    """Return the devices with slots that start with ``incomplete``, each with an equals sign."""
    return [f"{device}=" for device in machine_slots({}) if device.startswith(incomplete)]


def queue(
    runs: Annotated[list[str] | None, argument("[RUN]...", "Queued runs to move or remove.", complete_queued)] = None,
    move: Annotated[
        str | None,
        option("--move", "Move RUN among the waiting runs: first, last, or a number from 1.", "PLACE", one_of(*PLACES)),
    ] = None,
    rm: Annotated[bool, option("--rm", "Remove RUN from the queue, and its folder if it never ran.")] = False,
    paused: Annotated[bool | None, option("--pause/--resume", "Start no further runs, or start them again.")] = None,
    slots: Annotated[
        list[str] | None,
        option(
            "--slots", "Runs at once by device, such as cpu=2; default: 1; may be repeated.", "DEVICE=N", complete_slots
        ),
    ] = None,
    launcher: Annotated[
        str | None,
        option(
            "--launcher",
            "Start runs on hosts of ray or slurm; local: here.",
            "NAME[:KEY=VALUE,...]",
            complete_launchers,
        ),
    ] = None,
    at_once: Annotated[
        int | None,
        option("--at-once", "Runs submitted to the launcher at a time; default: unchanged.", min=1, max=10_000),
    ] = None,
    yes: options.Yes = False,
    as_json: options.Json = False,
) -> None:
    """List queued runs, change their order, pause the queue.

    A queued run starts when no earlier one waits for its device and a slot is free. Supervisors that were lost, as at a
    reboot, are started again.
    """
    from echelon.jobs import queue as jobs

    if bool(runs) != (rm or move is not None) or (rm and move is not None):
        raise typer.BadParameter("RUN needs either --move or --rm, and each of them a RUN")
    _require_valid(slots, launcher)
    is_changed = any(value is not None for value in (paused, slots, launcher, at_once))
    if not is_changed:
        require_home()
    found = jobs.open_queue()
    names = [jobs.find_queued(found, name) for name in runs or ()]
    if is_changed:
        _change_settings(found, paused, slots, launcher, at_once)
    if move is not None:
        _move(found, names, move)
    if rm:
        _remove(found, names, yes, as_json)
    problem = job.revive()
    settings = found.settings()
    rows = _rows(found)
    if as_json:
        output.show_json({**asdict(settings), "runs": rows})
    else:
        _show(rows, settings)
    if problem:
        output.show_notice(problem)


def _require_valid(slots: list[str] | None, launcher: str | None) -> None:
    """Raise ``BadParameter`` for slots or a launcher that do not exist."""
    with usage_errors():
        devices = [parse_slots(text)[0] for text in slots or ()]
        if launcher not in (None, LOCAL):
            parse_launcher(launcher)
    have = machine_slots({})
    if unknown := [device for device in devices if device not in have]:
        raise typer.BadParameter(f"device {unknown[0]!r} does not exist (have: {', '.join(have)})")
    if launcher not in (None, LOCAL):
        open_engine(launcher)


def _change_settings(
    queue: Queue, paused: bool | None, slots: list[str] | None, launcher: str | None, at_once: int | None
) -> None:
    given = {"paused": paused, "launcher": "" if launcher == LOCAL else launcher, "at_once": at_once}
    with queue.editing():
        before = queue.settings()
        changed = {name: value for name, value in given.items() if value is not None}
        queue.set(replace(before, slots={**before.slots, **dict(map(parse_slots, slots or ()))}, **changed))


def _move(queue: Queue, names: list[str], place: str) -> None:
    if len(names) != 1:
        raise typer.BadParameter(f"--move got {len(names)} runs, expected one")
    with queue.editing():
        taken = queue.taken()
        count = len([run for run in queue.runs() if run not in taken])
        if names[0] in taken:
            raise ValueError(f"run {names[0]!r} has started, expected one that waits")
        if place not in PLACES and not (place.isdecimal() and 1 <= int(place[:9]) <= count):
            raise typer.BadParameter(f"place {place!r} is no place of the queue, expected 1 to {count}, first or last")
        index = int(place) - 1 if place.isdecimal() else PLACES[place]
        queue.move(names[0], count - 1 if index is None else index)


def _remove(queue: Queue, names: list[str], yes: bool, as_json: bool) -> None:
    from echelon.jobs.queue import remove_waiting

    output.confirm(f"Remove {', '.join(names)} from the queue?", yes, as_json)
    for name in names:
        if remove_waiting(queue, name):
            shutil.rmtree(queue.home / name, ignore_errors=True)


def _rows(queue: Queue) -> list[dict[str, Any]]:
    from echelon.jobs.queue import waiting_reason

    taken, place, rows = queue.taken(), 0, []
    for run in queue.runs():
        ticket = queue.ticket(run)
        if ticket is None:
            rows.append({"run": run, "state": "failed", "reason": "its ticket is damaged; remove it with --rm"})
            continue
        is_running = run in taken
        place += not is_running
        rows.append(
            {
                "run": run,
                "place": 0 if is_running else place,
                "kind": ticket.kind,
                "devices": taken.get(run, [ticket.device]),
                "state": "running" if is_running else "queued",
                "queued_at": ticket.queued_at,
                "reason": "" if is_running else waiting_reason(queue, ticket),
            }
        )
    return rows


QUEUED = (
    Column("place", lambda row: row.get("place") or "-", right=True),
    Column("run", lambda row: shown_id(row["run"])),
    Column("kind", lambda row: row.get("kind", "-"), rank=1),
    Column("device", lambda row: ", ".join(row.get("devices", ())) or "-"),
    Column("state", lambda row: output.state_text(row["state"]), whole=True),
    Column("for", lambda row: output.age(row.get("queued_at", 0.0), time.time()), right=True),
    Column("status", lambda row: row["reason"]),
)


def _show(rows: list[dict[str, Any]], settings: Settings) -> None:
    if not rows:
        output.print_line("the queue is empty; add a run with: echelon train --queue")
    else:
        output.show_rows(QUEUED, rows)
    if settings.paused:
        output.print_line("the queue is paused; continue with: echelon runs queue --resume", style="yellow")
    if settings.launcher:
        output.print_line(f"runs start through {settings.launcher}, {settings.at_once} at a time", style="dim")
    elif settings.slots:
        output.print_line("slots: " + ", ".join(f"{name}={n}" for name, n in settings.slots.items()), style="dim")
