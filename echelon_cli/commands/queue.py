"""``echelon queue``: runs that start when their device is free, added with ``--queue`` of train, eval and arena run."""

from __future__ import annotations

import shutil
import time
from dataclasses import asdict, replace
from typing import Annotated, Any

import typer

from echelon_cli import output
from echelon_cli.foreign_text import completable
from echelon_cli.options import JsonFlag, complete_launchers
from echelon_cli.usage import usage_errors

app = typer.Typer(
    help="The queue: runs that start when their device is free. Add one with --queue of train, eval or arena run.",
    no_args_is_help=True,
)
RECENT = 10
"""Ended entries that are listed with --all."""
LOCAL = "local"
"""Word for a queue without a launcher."""
ENDS = {"first": 0, "last": None}
"""Words for positions of ``move``."""


def complete_queued(incomplete: str) -> list[str]:
    """Return the runs that wait in the queue and start with ``incomplete``."""
    from echelon.jobs.queue_store import WAITING, QueueStore, StoreError, queue_path

    try:
        with QueueStore(queue_path(), read_only=True, busy_s=0.1) as store:
            names = completable(entry.run for entry in store.entries((WAITING,)))
            return [name for name in names if name.startswith(incomplete)]
    except (StoreError, OSError):
        return []


def complete_slots(incomplete: str) -> list[str]:
    """Return the devices with slots that start with ``incomplete``, each with an equals sign."""
    from echelon.jobs.slots import machine_slots

    return [f"{device}=" for device in machine_slots({}) if device.startswith(incomplete)]


QueuedArgument = Annotated[
    str, typer.Argument(metavar="RUN", help="Id of a run that waits, or part of it.", autocompletion=complete_queued)
]


def _open():
    """Return the queue; a damaged one is built again from the runs that wait, which a notice reports."""
    from echelon.jobs.queue_store import open_queue, queue_path

    if not queue_path().is_file():
        from echelon.runs import require_home

        require_home()
    store, notices = open_queue()
    for notice in notices:
        output.show_notice(notice)
    return store


@app.command("list")
def list_entries(
    all_entries: Annotated[
        bool, typer.Option("--all", "-a", help=f"Include the {RECENT} entries that ended last.")
    ] = False,
    as_json: JsonFlag = False,
) -> int:
    """List queued runs in the order of their start. Those that run have their devices."""
    from echelon.jobs import queue
    from echelon.jobs.queue_store import OPEN, queue_path
    from echelon.runs import require_home

    if not queue_path().is_file():
        require_home()
        state: dict[str, Any] = {"running": False, "paused": False, "entries": []}
    else:
        with _open() as store:
            found = store.entries(OPEN) + (store.entries((), limit=RECENT) if all_entries else [])
            state = {"running": queue.is_started(), "paused": store.is_paused, "entries": found}
    entries, now = state["entries"], time.time()
    if as_json:
        output.show_json({**state, "entries": [asdict(entry) for entry in entries]})
        return output.DONE
    if not entries:
        output.print_line("the queue is empty; add a run with: echelon train --queue")
        return output.DONE
    from echelon_cli.listing import shown_id

    order = iter(range(1, len(entries) + 1))
    output.show_table(
        ("place", "run", "kind", "device", "state", "for", "status"),
        [
            (
                next(order) if entry.state == "waiting" else "-",
                shown_id(entry.run),
                entry.kind,
                ", ".join(entry.devices) or entry.demand.device,
                output.state_text("queued" if entry.state == "waiting" else entry.state),
                output.duration(now - (entry.ended_at or entry.started_at or entry.queued_at)),
                entry.reason,
            )
            for entry in entries
        ],
        right=("place", "for"),
        unwrapped=("state",),
        optional=("kind",),
    )
    waits = sum(entry.state == "waiting" for entry in entries)
    if waits and state["paused"]:
        output.print_line("the queue is paused; continue with: echelon queue resume", style="yellow")
    elif waits and not state["running"]:
        output.print_line("the queue does not run; start it with: echelon queue resume", style="yellow")
    return output.DONE


@app.command("move")
def move(
    run: QueuedArgument,
    place: Annotated[str, typer.Argument(metavar="PLACE", help="Number in the list, from 1, or first or last.")],
    as_json: JsonFlag = False,
) -> int:
    """Move a run that waits to another place of the queue."""
    from echelon.jobs import queue
    from echelon.jobs.queue_store import WAITING

    with _open() as store:
        entry = queue.find_entry(store, run, (WAITING,))
        count = len(store.entries((WAITING,)))
        if place not in ENDS and not (place.isdecimal() and 1 <= int(place[:9]) <= count):
            raise typer.BadParameter(f"place {place!r} is no place of the queue, expected 1 to {count}, first or last")
        index = int(place) - 1 if place.isdecimal() else ENDS[place]
        store.move(entry, count - 1 if index is None else index)
        order = [each.run for each in store.entries((WAITING,))]
    if as_json:
        output.show_json(order)
    else:
        output.print_line(f"{entry.run} is number {order.index(entry.run) + 1} of {len(order)}")
    return output.DONE


@app.command("pause")
def pause(as_json: JsonFlag = False) -> int:
    """Start no further runs; those that run continue."""
    with _open() as store:
        store.set_paused(True)
    output.show_json({"paused": True}) if as_json else output.print_line("the queue is paused")
    return output.DONE


@app.command("resume")
def resume(as_json: JsonFlag = False) -> int:
    """Continue a paused or stopped queue. A crash or the end of the machine stops one too."""
    from echelon.jobs import queue
    from echelon.jobs.queue_store import OPEN

    with _open() as store:
        store.set_paused(False)
        store.adopt()
        count = len(store.entries(OPEN))
    if count:
        queue.ensure_started()
    if as_json:
        output.show_json({"paused": False, "entries": count})
    else:
        output.print_line(f"the queue runs: {count} entries" if count else "the queue is empty")
    return output.DONE


@app.command("rm")
def rm(
    runs: Annotated[
        list[str],
        typer.Argument(metavar="RUN...", help="Ids of runs that wait, or parts.", autocompletion=complete_queued),
    ],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Skip the confirmation.")] = False,
    as_json: JsonFlag = False,
) -> int:
    """Remove runs that wait. The folder of one that never ran is deleted."""
    from echelon.jobs import queue
    from echelon.jobs.queue_store import STARTING, WAITING
    from echelon.runs import runs_home

    with _open() as store:
        entries = {entry.id: entry for name in runs if (entry := queue.find_entry(store, name, (WAITING, STARTING)))}
        names = [entry.run for entry in entries.values()]
        if not yes:
            if as_json:
                raise typer.BadParameter("queue rm --json cannot ask for confirmation; add --yes")
            output.confirm(f"Remove {', '.join(names)} from the queue?")
        for entry in entries.values():
            if queue.remove_entry(store, entry):
                shutil.rmtree(runs_home() / entry.run, ignore_errors=True)
            if not as_json:
                output.print_line(f"{entry.run} removed from the queue")
    if as_json:
        output.show_json(names)
    return output.DONE


@app.command("slots")
def slots(
    numbers: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[DEVICE=NUMBER]...",
            help="Slots of a device, such as cpu=2 or cuda:0=1.",
            autocompletion=complete_slots,
        ),
    ] = None,
    as_json: JsonFlag = False,
) -> int:
    """Show or set the runs at a time of each device. The default is one."""
    from echelon.jobs import queue
    from echelon.jobs.queue_store import OPEN
    from echelon.jobs.slots import machine_slots, parse_slots

    try:
        given = [parse_slots(text) for text in numbers or []]
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    with _open() as store:
        have = machine_slots({})
        if unknown := [device for device, _ in given if device not in have]:
            raise typer.BadParameter(f"device {unknown[0]!r} does not exist (have: {', '.join(have)})")
        for device, count in given:
            store.set_slots(device, count)
        entries, counts = store.entries(OPEN), machine_slots(store.slots())
    if given and entries:
        queue.ensure_started()
    rows = [
        {"device": device, "slots": count, "runs": [entry.run for entry in entries if device in entry.devices]}
        for device, count in counts.items()
    ]
    if as_json:
        output.show_json(rows)
    else:
        output.show_table(
            ("device", "slots", "runs"),
            [(row["device"], row["slots"], ", ".join(row["runs"]) or "-") for row in rows],
            right=("slots",),
        )
    return output.DONE


@app.command("launcher")
def launcher(
    text: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME[:KEY=VALUE,...]]",
            help="ray or slurm with options, such as slurm:partition=gpu,time=240; local for this machine.",
            autocompletion=complete_launchers,
        ),
    ] = None,
    at_once: Annotated[
        int | None,
        typer.Option("--at-once", min=1, max=10_000, help="Runs that wait for a host or run at once; default: 1."),
    ] = None,
    as_json: JsonFlag = False,
) -> int:
    """Show or set the cluster on whose hosts queued runs start. The default is this machine."""
    from echelon.jobs.launchers import ENGINES, open_engine, parse_launcher
    from echelon.jobs.queue_launcher import QueueLauncher, read_launcher, write_launcher
    from echelon.runs import runs_home

    home = runs_home()
    found = read_launcher(home) if text is None else None
    if text is None and at_once is not None and found is None:
        raise typer.BadParameter("--at-once sets how many runs a launcher gets, expected one; try: queue slots cpu=2")
    if text is not None and text != LOCAL:
        with usage_errors():
            parse_launcher(text)
        open_engine(text)
        found = QueueLauncher(text=text, at_once=at_once or 1)
    elif found is not None and at_once is not None:
        found = replace(found, at_once=at_once)
    if text is not None or at_once is not None:
        write_launcher(home, found)
    if as_json:
        output.show_json(asdict(found) if found else {"text": LOCAL, "at_once": None})
    elif found is None:
        output.print_line("queued runs start on this machine; others: " + ", ".join(ENGINES))
    else:
        output.print_line(f"queued runs start through {found.text}, {found.at_once} at once")
    return output.DONE
