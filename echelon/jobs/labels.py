"""Labels of runs: group, tags and notes in ``labels.json`` of a run, which may change at any time."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from echelon.files import atomic_write
from echelon.runs import RunPaths, read_json, require_plain_files

MAX_CHARS = 60
MAX_NOTES_CHARS = 2000
MAX_TAGS = 32

BASELINE = "baseline"
"""Tag of the run that the dashboard compares others with."""


@dataclass(frozen=True, kw_only=True)
class Labels:
    """What a user has written about a run."""

    group: str = ""
    tags: tuple[str, ...] = ()
    notes: str = ""


def read_labels(paths: RunPaths) -> Labels:
    """Return the labels of a run; what is damaged is left out."""
    found = read_json(paths.labels) or {}
    tags = found.get("tags")
    words = [_short(tag, MAX_CHARS) for tag in tags[:MAX_TAGS]] if isinstance(tags, list) else []
    return Labels(
        group=_short(found.get("group"), MAX_CHARS),
        tags=tuple(dict.fromkeys(word for word in words if word)),
        notes=_short(found.get("notes"), MAX_NOTES_CHARS),
    )


def _short(value: Any, limit: int) -> str:
    return value[:limit] if isinstance(value, str) else ""


def require_label(tag: str) -> None:
    """Raise ``ValueError`` for a group or tag that is too long or no single word."""
    if len(tag) > MAX_CHARS or not tag.isprintable() or " " in tag or not tag:
        raise ValueError(f"label {tag[:200]!r} is no word of at most {MAX_CHARS} characters; try {tag[:20].strip()!r}")


def change_labels(
    paths: RunPaths,
    *,
    group: str | None = None,
    add: Sequence[str] = (),
    remove: Sequence[str] = (),
    notes: str | None = None,
) -> Labels:
    """Change labels of a run and return them; ``ValueError`` for one that is too long or no single word."""
    for tag in (*add, *remove, *([group] if group else ())):
        require_label(tag)
    if notes is not None and len(notes) > MAX_NOTES_CHARS:
        raise ValueError(f"notes have {len(notes)} characters, expected at most {MAX_NOTES_CHARS}")
    before = read_labels(paths)
    tags = tuple(dict.fromkeys(tag for tag in (*before.tags, *add) if tag not in remove))
    if len(tags) > MAX_TAGS:
        raise ValueError(f"run {paths.id!r} would have {len(tags)} tags, expected at most {MAX_TAGS}")
    after = Labels(
        group=before.group if group is None else group, tags=tags, notes=before.notes if notes is None else notes
    )
    if after != before:
        require_plain_files(paths)
        atomic_write(paths.labels, json.dumps(asdict(after), ensure_ascii=False) + "\n")
    return after


NO_DIFFERENCE = "-"
PROGRESS_KEYS = frozenset({"pause_steps"})
"""Fields that tell how far a sweep has taken a trial, not what it trains."""


def variant_names(configs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a name per configuration, of flat values, from what differs among them: ``lr=0.0003 · seed=2``.

    A key is shortened to its last part where no other differing key ends like it. ``NO_DIFFERENCE`` where nothing does.
    """
    keys = sorted({key for config in configs for key in config if key not in PROGRESS_KEYS})
    differing = [key for key in keys if len({repr(config.get(key)) for config in configs}) > 1]
    last = [key.rpartition(".")[2] for key in differing]
    shown = [name if last.count(name) == 1 else key for key, name in zip(differing, last, strict=True)]
    return [
        " · ".join(f"{name}={_value(config.get(key))}" for key, name in zip(differing, shown, strict=True))
        or NO_DIFFERENCE
        for config in configs
    ]


def _value(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else "none" if value is None else str(value)
