"""Export of a run's metrics to TensorBoard event files, a CSV table or a W&B run.

Every record becomes numbers by tag, such as ``train/entropy`` or ``eval/win_rate``, over learner agent-steps. Callers
pass records without superseded ones. TensorBoard and W&B are optional and imported on use.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from echelon.files import output_file
from echelon.telemetry.events import Event, EventEpisodes, EventEval, EventLeague, EventRating, EventUpdate

NOT_CURVES = {"time", "kind", "update", "global_step", "seeds", "is_best", "deterministic"}
"""Fields that are axes or no measurements."""
CSV_AXES = ("update", "global_step", "time")
MAX_TAGS = 4096
"""Most columns of metrics of a CSV table; a run of all features has some 400."""


@dataclass(frozen=True)
class Row:
    """The finite numbers of one record by tag."""

    update: int
    global_step: int
    time: float
    """Time of the record [s since the epoch]."""
    values: dict[str, float]


def rows(events: Iterable[Event]) -> Iterator[Row]:
    for event in events:
        convert = CONVERTERS.get(type(event))
        if convert is None:
            continue
        values = {
            tag: float(v) for tag, v in convert(event).items() if isinstance(v, (int, float)) and math.isfinite(v)
        }
        position: Any = event
        yield Row(position.update, position.global_step, event.time, values)


def require_curves(events: Iterable[Event], run: str) -> None:
    """Raise ``ValueError`` where a run has no record with measurements: an export of it would be empty."""
    if not any(row.values for row in rows(events)):
        raise ValueError(f"run {run!r} has no measurements to export yet; wait for its first update")


def _numbers(event: Event, prefix: str) -> dict[str, Any]:
    named = {f.name: getattr(event, f.name) for f in fields(event) if f.name not in NOT_CURVES}
    return {f"{prefix}/{n}": v for n, v in named.items() if isinstance(v, (int, float)) and not isinstance(v, bool)}


def _of_update(event: EventUpdate) -> dict[str, Any]:
    parameters: dict[str, Any] = {}
    for name, value in event.curriculum.items():
        if isinstance(value, Mapping):
            parameters |= {f"{name}/{part}": v for part, v in value.items()}
        elif isinstance(value, (list, tuple)) and len(value) == 2:
            parameters |= {f"{name}/min": value[0], f"{name}/max": value[1]}
        else:
            parameters[name] = value
    return {
        **_numbers(event, "train"),
        **_under("time", event.phases_s),
        **_reward(event.reward_terms, ""),
        **_under("actions", event.actions),
        **_under("curriculum", parameters),
        **_under("opponents", {f"{name}/environments": n for name, n in event.opponents.items()}),
    }


def _of_episodes(event: EventEpisodes) -> dict[str, Any]:
    rates = {}
    for name, results in event.by_opponent.items():
        episodes = sum(results.values())
        rates[f"opponents/{name}/win_rate"] = results.get("win", 0) / episodes if episodes else math.nan
    return {
        **_numbers(event, "episodes"),
        **{f"train/reward_{role}": value for role, value in event.returns_by_role.items()},
        **rates,
    }


def _of_eval(event: EventEval) -> dict[str, Any]:
    return {
        **_numbers(event, "eval"),
        **{f"eval/reward_{role}": value for role, value in event.returns_by_role.items()},
        **_reward(event.reward_terms, "eval/"),
        **_under("eval/actions", event.actions),
    }


def _of_rating(event: EventRating) -> dict[str, Any]:
    return _numbers(event, "rating")


def _of_league(event: EventLeague) -> dict[str, Any]:
    return {**_numbers(event, "arena"), "arena/promoted": int(event.promoted)}


def _under(prefix: str, values: Mapping[str, Any]) -> dict[str, Any]:
    return {f"{prefix}/{name}": value for name, value in values.items()}


def _reward(terms: Mapping[str, float], prefix: str) -> dict[str, Any]:
    """Return each reward term and its fraction of the sum of absolute values."""
    total = sum(abs(v) for v in terms.values())
    shares = {f"{prefix}reward_pct/{n}": abs(v) / total for n, v in terms.items()} if total else {}
    return {**{f"{prefix}reward/{n}": v for n, v in terms.items()}, **shares}


CONVERTERS: dict[type[Event], Callable[[Any], dict[str, Any]]] = {
    EventUpdate: _of_update,
    EventEpisodes: _of_episodes,
    EventEval: _of_eval,
    EventRating: _of_rating,
    EventLeague: _of_league,
}


def to_csv(events: Iterable[Event], path: Path) -> int:
    """Write a CSV table with a line per update and a column per tag; return the number of lines.

    ``ValueError`` for more than ``MAX_TAGS`` tags: a table has cells for each in every line.
    """
    lines: dict[int, dict[str, float]] = {}
    for row in rows(events):
        line = lines.setdefault(row.update, {"update": row.update, "global_step": row.global_step, "time": row.time})
        line |= row.values
    tags = sorted({tag for line in lines.values() for tag in line} - set(CSV_AXES))
    if len(tags) > MAX_TAGS:
        raise ValueError(f"records have {len(tags)} metrics, expected at most {MAX_TAGS} columns of a CSV table")
    with output_file(path) as file:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="")
        table = csv.DictWriter(text, [*CSV_AXES, *tags], lineterminator="\n")
        table.writeheader()
        table.writerows(lines[update] for update in sorted(lines))
        text.detach()
    return len(lines)


def to_tensorboard(events: Iterable[Event], folder: Path) -> int:
    """Write an event file into ``folder``; return the number of points. ``ValueError`` where TensorBoard is missing."""
    try:
        from tensorboard.compat.proto.event_pb2 import Event as Entry  # pyright: ignore[reportMissingImports]
        from tensorboard.compat.proto.summary_pb2 import Summary  # pyright: ignore[reportMissingImports]
        from tensorboard.summary.writer.event_file_writer import EventFileWriter  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise ValueError("TensorBoard is not installed; try: pip install 'echelon[tensorboard]'") from None
    folder.mkdir(parents=True, exist_ok=True)
    writer, points = EventFileWriter(str(folder)), 0
    try:
        for row in rows(events):
            values = [Summary.Value(tag=tag, simple_value=value) for tag, value in row.values.items()]
            writer.add_event(Entry(wall_time=row.time, step=row.global_step, summary=Summary(value=values)))
            points += len(values)
    finally:
        writer.close()
    return points


def to_wandb(
    events: Sequence[Event],
    *,
    project: str,
    name: str,
    config: Mapping[str, Any],
    mode: str = "online",
    folder: Path | None = None,
    images: Callable[[], Mapping[str, Any]] = dict,
) -> int:
    """Log a run to W&B under ``project``; return the number of steps. ``ValueError`` where W&B is missing.

    ``mode`` is online or offline, ``folder`` of its files, ``images`` returns images logged at the end.
    """
    try:
        import wandb  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise ValueError("W&B is not installed; try: pip install 'echelon[wandb]'") from None
    options: dict[str, Any] = {"project": project, "name": name, "config": dict(config), "mode": mode}
    logged = 0
    with wandb.init(**options, dir=None if folder is None else str(folder)) as run:
        # W&B requires increasing steps and accepts each step once
        for step, values in _by_step(events):
            run.log(values, step=step)
            logged += 1
        heat_maps = dict(images())
        if heat_maps:
            run.log({f"heat/{kind}": image for kind, image in heat_maps.items()})
    return logged


def _by_step(events: Iterable[Event]) -> Iterator[tuple[int, dict[str, float]]]:
    steps: dict[int, dict[str, float]] = {}
    for row in rows(events):
        steps.setdefault(row.global_step, {}).update(row.values)
    yield from sorted(steps.items())
