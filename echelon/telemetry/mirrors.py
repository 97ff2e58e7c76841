"""Programs that show curves, each an optional package that is imported on use: TensorBoard, W&B and trackio.

A run that is observed writes to its mirrors while it trains (``echelon.jobs.observers``), ``echelon runs export``
writes a run that is there.
"""

import importlib
import importlib.util
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from echelon.telemetry.events import EventResume
from echelon.telemetry.export import Row

PROJECT, STEP = "echelon", "global_step"
"""Default project of W&B and trackio, and the axis of W&B's curves."""
FLUSH_S = 5
"""Time until TensorBoard's file is written [s]."""


class Mirror(ABC):
    """Curves of one run in another program."""

    @abstractmethod
    def __init__(self, run: Path, target: str, config: Mapping[str, Any], mode: str = "") -> None: ...

    @abstractmethod
    def write(self, rows: Sequence[Row]) -> None:
        """Add the values of records."""

    def resume(self, event: EventResume) -> None:  # noqa: B027
        """Drop the curves behind the step at which training continues."""

    @abstractmethod
    def close(self, failed: bool) -> None:
        """Write what remains and end the run there."""


class TensorBoard(Mirror):
    """An event file in a folder, by default ``tensorboard`` of the run."""

    def __init__(self, run: Path, target: str, config: Mapping[str, Any], mode: str = "") -> None:
        pb = "tensorboard.compat.proto"
        self._event = importlib.import_module(f"{pb}.event_pb2")
        self._summary = importlib.import_module(f"{pb}.summary_pb2").Summary
        writer = importlib.import_module("tensorboard.summary.writer.event_file_writer")
        folder = Path(target) if target else run / "tensorboard"
        folder.mkdir(parents=True, exist_ok=True)
        self._writer = writer.EventFileWriter(str(folder), flush_secs=FLUSH_S)

    def write(self, rows: Sequence[Row]) -> None:
        for row in rows:
            values = [self._summary.Value(tag=tag, simple_value=value) for tag, value in row.values.items()]
            self._writer.add_event(
                self._event.Event(wall_time=row.time, step=row.global_step, summary=self._summary(value=values))
            )
        self._writer.flush()

    def resume(self, event: EventResume) -> None:  # noqa: B027
        log = self._event.SessionLog(status=self._event.SessionLog.START)
        self._writer.add_event(self._event.Event(wall_time=event.time, step=event.global_step, session_log=log))

    def close(self, failed: bool) -> None:
        self._writer.close()


class Wandb(Mirror):
    """A run of W&B; without a ``mode`` it has the id of the run, so that a resumed session continues it."""

    def __init__(self, run: Path, target: str, config: Mapping[str, Any], mode: str = "") -> None:
        wandb = importlib.import_module("wandb")
        options = {"mode": mode} if mode else {"id": run.name, "resume": "allow", "dir": str(run)}
        quiet = wandb.Settings(silent=True, console="off")
        self._run = wandb.init(project=target or PROJECT, name=run.name, config=dict(config), settings=quiet, **options)
        # steps of W&B only increase; those of a resumed run may not
        self._run.define_metric("*", step_metric=STEP)

    def write(self, rows: Sequence[Row]) -> None:
        for row in rows:
            self._run.log({**row.values, STEP: row.global_step})

    def log_images(self, images: Mapping[str, Any]) -> None:
        self._run.log({f"heat/{kind}": image for kind, image in images.items()})

    def close(self, failed: bool) -> None:
        self._run.finish(exit_code=int(failed))


class Trackio(Mirror):
    """A run of trackio."""

    def __init__(self, run: Path, target: str, config: Mapping[str, Any], mode: str = "") -> None:
        trackio = importlib.import_module("trackio")
        self._run = trackio.init(project=target or PROJECT, name=run.name, resume="allow", config=dict(config))

    def write(self, rows: Sequence[Row]) -> None:
        for row in rows:
            self._run.log(dict(row.values), step=row.global_step)

    def close(self, failed: bool) -> None:
        self._run.finish()


@dataclass(frozen=True, kw_only=True)
class MirrorKind:
    """A row of ``MIRRORS``."""

    open: type[Mirror]
    title: str
    target: str
    """Meaning of the text after ``=``."""


MIRRORS: dict[str, MirrorKind] = {
    "tensorboard": MirrorKind(open=TensorBoard, title="TensorBoard", target="folder"),
    "wandb": MirrorKind(open=Wandb, title="W&B", target="project"),
    "trackio": MirrorKind(open=Trackio, title="trackio", target="project"),
}
"""Mirrors by the name of their package and of Echelon's extra."""


def require_mirror(name: str) -> None:
    """Raise ``ValueError`` for a mirror that does not exist or whose package is not installed."""
    if (kind := MIRRORS.get(name)) is None:
        raise ValueError(f"mirror {name!r} does not exist, expected one of: {', '.join(MIRRORS)}")
    if importlib.util.find_spec(name) is None:
        raise ValueError(f"{kind.title} is not installed; try: pip install 'echelon[{name}]'")
