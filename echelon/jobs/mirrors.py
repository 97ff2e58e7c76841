"""Live mirrors of a run's curves: TensorBoard, W&B and trackio, written by the observer's process.

Each is an optional package, imported on use.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from echelon.runs import RunPaths

if TYPE_CHECKING:
    from echelon.telemetry.events import EventResume
    from echelon.telemetry.export import Row

PROJECT = "echelon"
FLUSH_S = 5
"""Time until TensorBoard's file is written [s]."""
STEP = "global_step"


class MirrorWriter(Protocol):
    """A program that shows curves."""

    def write(self, rows: Sequence[Row]) -> None:
        """Add the values of records."""
        ...

    def resume(self, event: EventResume) -> None:
        """Drop what training repeats."""
        ...

    def close(self, failed: bool) -> None:
        """Write what remains and end the run there."""
        ...


class TensorBoardWriter:
    """An event file in a folder, by default ``tensorboard`` of the run."""

    def __init__(self, paths: RunPaths, target: str, config: Mapping[str, Any]) -> None:
        pb = "tensorboard.compat.proto"
        self._event = importlib.import_module(f"{pb}.event_pb2")
        self._summary = importlib.import_module(f"{pb}.summary_pb2").Summary
        writer = importlib.import_module("tensorboard.summary.writer.event_file_writer")
        folder = Path(target) if target else paths.root / "tensorboard"
        folder.mkdir(parents=True, exist_ok=True)
        self._writer = writer.EventFileWriter(str(folder), flush_secs=FLUSH_S)

    def write(self, rows: Sequence[Row]) -> None:
        for row in rows:
            values = [self._summary.Value(tag=tag, simple_value=value) for tag, value in row.values.items()]
            self._writer.add_event(
                self._event.Event(wall_time=row.time, step=row.global_step, summary=self._summary(value=values))
            )
        self._writer.flush()

    def resume(self, event: EventResume) -> None:
        log = self._event.SessionLog(status=self._event.SessionLog.START)
        self._writer.add_event(self._event.Event(wall_time=event.time, step=event.global_step, session_log=log))

    def close(self, failed: bool) -> None:
        self._writer.close()


class WandbWriter:
    """A run of W&B whose id is that of the run, so that a resumed session continues it."""

    def __init__(self, paths: RunPaths, target: str, config: Mapping[str, Any]) -> None:
        wandb = importlib.import_module("wandb")
        self._run = wandb.init(
            project=target or PROJECT, name=paths.id, id=paths.id, resume="allow", config=dict(config),
            dir=str(paths.root), settings=wandb.Settings(silent=True, console="off"),
        )  # fmt: skip
        # steps of W&B only increase; those of a resumed run may not
        self._run.define_metric("*", step_metric=STEP)

    def write(self, rows: Sequence[Row]) -> None:
        for row in rows:
            self._run.log({**row.values, STEP: row.global_step})

    def resume(self, event: EventResume) -> None:
        pass

    def close(self, failed: bool) -> None:
        self._run.finish(exit_code=int(failed))


class TrackioWriter:
    """A run of trackio."""

    def __init__(self, paths: RunPaths, target: str, config: Mapping[str, Any]) -> None:
        trackio = importlib.import_module("trackio")
        self._run = trackio.init(project=target or PROJECT, name=paths.id, resume="allow", config=dict(config))

    def write(self, rows: Sequence[Row]) -> None:
        for row in rows:
            self._run.log(dict(row.values), step=row.global_step)

    def resume(self, event: EventResume) -> None:
        pass

    def close(self, failed: bool) -> None:
        self._run.finish()


@dataclass(frozen=True, kw_only=True)
class MirrorKind:
    """A program that shows curves."""

    open: Callable[[RunPaths, str, Mapping[str, Any]], MirrorWriter]
    """Opens a mirror: (run, target, configuration)."""
    title: str
    target: str
    """What follows its name after ``=``."""


MIRRORS: dict[str, MirrorKind] = {
    "tensorboard": MirrorKind(open=TensorBoardWriter, title="TensorBoard", target="folder"),
    "wandb": MirrorKind(open=WandbWriter, title="W&B", target="project"),
    "trackio": MirrorKind(open=TrackioWriter, title="trackio", target="project"),
}
"""Mirrors by the name of their package and of Echelon's extra."""
