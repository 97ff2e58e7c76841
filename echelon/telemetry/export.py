"""Curves of a run for other tools: records as numbers by tag, such as ``train/entropy``, and a CSV table of them.

Callers pass records without superseded ones; ``mirrors`` writes the rows to TensorBoard, W&B and trackio.
"""

import csv
import io
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
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
    """Yield the records that have values."""
    for event in events:
        convert = CONVERTERS.get(type(event))
        if convert is None:
            continue
        values = {
            tag: float(v) for tag, v in convert(event).items() if isinstance(v, (int, float)) and math.isfinite(v)
        }
        if values:
            position: Any = event
            yield Row(position.update, position.global_step, event.time, values)


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
    EventRating: lambda event: _numbers(event, "rating"),
    EventLeague: lambda event: _numbers(event, "arena") | {"arena/promoted": int(event.promoted)},
}


def to_csv(rows: Iterable[Row], path: Path) -> int:
    """Write a CSV table with a line per update and a column per tag; return the number of lines.

    ``ValueError`` for more than ``MAX_TAGS`` tags: a table has cells for each in every line.
    """
    lines: dict[int, dict[str, float]] = {}
    for row in rows:
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
