"""Observations of the suite layout without their padding: only the contacts and squad mates that exist.

In a typical battle most entity slots are empty, so most columns of an observation are padding. ``pack`` normalizes and
copies only what exists. A learner reads every step of a rollout several times: ``PackedRollout`` packs all of them
once, and a minibatch gathers its rows from there.

Shapes: ``T step, N learner row, L chunk step, B sequence, R row, S slot, P packed entity, F entity feature, D column``.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from echelon.env.layout import CONTACT_DIM, END_BLOCKS, END_WIDTH, SQUAD_DIM, flat_offsets
from echelon.rl.deepset import Compacted, EntityRows
from echelon.rl.host_kernels import EntitySets
from echelon.rl.obs_norm import OBS_CLIP, ObsNormalizer, normalized
from echelon.rl.regime import HOST, Regime
from echelon.rl.suite_model import JOINED_TO, SuiteObservation

STEPS_AT_ONCE = 4
"""Steps of a rollout that are packed at once: few enough for the processor's cache."""
WIDTHS = {"contacts": CONTACT_DIM, "squad": SQUAD_DIM}
MASKS = {"contacts": "contact_mask", "squad": "squad_mask"}


Each = Callable[[Callable[[Any], Any], Sequence[Any]], list[Any]]


def in_turn(work: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
    return [work(item) for item in items]


class Columns(NamedTuple):
    """Columns ``[first, end)`` of a flat observation."""

    first: int
    end: int

    @property
    def width(self) -> int:
        return self.end - self.first


class Packing(NamedTuple):
    """Where a flat observation has what a ``SuiteObservation`` is made of."""

    entities: dict[str, tuple[tuple[Columns, int], ...]]
    """Blocks of each kind of entity: columns, and features per slot."""
    masks: dict[str, Columns]
    vectors: dict[str, tuple[Columns, ...]]
    """Columns of each field that has no slots."""


def packing(obs_dim: int) -> Packing:
    at = {name: Columns(*span) for name, span in flat_offsets().items()}
    entities = {name: [(at[name], width)] for name, width in WIDTHS.items()}
    vectors = {name: [at[name]] for name in ("ego_state", "suite_descriptor", "panel_stats")}
    first, core_end = obs_dim - END_WIDTH, at["panel_stats"].end
    if first > core_end:
        vectors["tail"] = [Columns(core_end, first)]
    for block in END_BLOCKS:
        span, name = Columns(first, first + block.width), JOINED_TO[block.name]
        if name in entities:
            entities[name].append((span, len(block.features)))
        else:
            vectors[name].append(span)
        first = span.end
    return Packing(
        {name: tuple(blocks) for name, blocks in entities.items()},
        {name: at[mask] for name, mask in MASKS.items()},
        {name: tuple(spans) for name, spans in vectors.items()},
    )


def pack(
    obs: Tensor,
    layout: Packing,
    normalizer: ObsNormalizer,
    room: Mapping[str, int] | None = None,
    regime: Regime = HOST,
) -> SuiteObservation:
    """Return the normalized blocks of ``obs [..., D]``, entities packed in the order of rows and slots.

    There are as many rows as entities, or as ``room`` has for each kind: more entities than that lose the last ones.
    """
    fields: dict[str, Any] = _vectors(obs, layout, normalizer)
    rows = obs.flatten(0, -2)
    for name in layout.entities:
        fields[MASKS[name]] = obs[..., slice(*layout.masks[name])]
        if room is None:
            fields[name] = EntityRows.padded(*_entities(rows, layout, name, normalizer), regime)
            continue
        at = Compacted.of(_real(rows, layout, name), room[name])
        features = _features(rows, layout, name, normalizer, at.sets.clamp_min(0), at.slots % layout.masks[name].width)
        fields[name] = EntityRows(features, *at)
    return SuiteObservation(**fields)


def count_entities(obs: Tensor, layout: Packing) -> dict[str, Tensor]:
    """Return the entities of each kind in observations ``[..., D]``, each ``[...]`` int64."""
    return {name: (obs[..., slice(*columns)] < 1.0).sum(-1) for name, columns in layout.masks.items()}


class PackedRollout:
    """All observations of a rollout, normalized and packed once."""

    def __init__(self, obs: Tensor, layout: Packing, normalizer: ObsNormalizer, each: Each = in_turn) -> None:
        """``obs [T, N, D]`` may be overwritten afterwards; ``each`` maps a function over parts, maybe on threads."""
        self.widths = {name: sum(span.width for span in spans) for name, spans in layout.vectors.items()}
        """Columns of each field that has no slots."""
        self.columns = obs.new_empty(obs.shape[0] * obs.shape[1], sum(self.widths.values()))

        def fill(part: tuple[Tensor, Tensor]) -> None:
            source, target = part
            torch.cat(list(_vectors(source.flatten(0, 1), layout, normalizer).values()), -1, out=target)

        targets = self.columns.split(STEPS_AT_ONCE * obs.shape[1])
        each(fill, list(zip(obs.split(STEPS_AT_ONCE), targets, strict=True)))
        flat = obs.flatten(0, 1)
        kinds = each(lambda name: _sets(flat, layout, name, normalizer), list(layout.entities))
        self.kinds = dict(zip(layout.entities, kinds, strict=True))
        steps, rows = obs.shape[:2]
        self.index = torch.arange(steps * rows, device=obs.device).view(steps, rows)
        """Row of each observation ``[T, N]``."""

    def gather(self, index: Tensor) -> SuiteObservation:
        """Return the observations of the rows ``index [...]``."""
        rows = index.flatten()
        columns = self.columns.index_select(0, rows).view(*index.shape, -1)
        fields: dict[str, Any] = dict(zip(self.widths, columns.split(list(self.widths.values()), -1), strict=True))
        for name, kind in self.kinds.items():
            fields[name], fields[MASKS[name]] = kind._replace(chosen=rows), None
        return SuiteObservation(**fields)


@dataclass(frozen=True)
class PackedRows:
    """Observations of a rollout by their rows; slices of steps and sequences are those of an observation tensor."""

    rollout: PackedRollout
    index: Tensor
    """[L, B], or [K]"""

    @property
    def shape(self) -> torch.Size:
        return self.index.shape

    def __getitem__(self, part: Any) -> "PackedRows":
        return PackedRows(self.rollout, self.index[part])

    def flatten(self, first: int, last: int) -> "PackedRows":
        return PackedRows(self.rollout, self.index.flatten(first, last))

    def gather(self) -> SuiteObservation:
        return self.rollout.gather(self.index)


def _vectors(obs: Tensor, layout: Packing, normalizer: ObsNormalizer) -> dict[str, Tensor]:
    fields = {}
    for name, spans in layout.vectors.items():
        parts = [normalizer.part(obs, *span) for span in spans]
        fields[name] = parts[0] if len(parts) == 1 else torch.cat(parts, -1)
    return fields


def _real(rows: Tensor, layout: Packing, name: str) -> Tensor:
    """Return which slots ``[R, S]`` of ``rows [R, D]`` have an entity."""
    return rows[:, slice(*layout.masks[name])] < 1.0


def _sets(rows: Tensor, layout: Packing, name: str, normalizer: ObsNormalizer) -> EntitySets:
    """Return the normalized entities of ``rows [R, D]``."""
    blocks = [at for span, width in layout.entities[name] for at in (span.first, width)]
    return EntitySets.of(rows, layout.masks[name], blocks, normalizer.scale, normalizer.shift, int(OBS_CLIP))


def _entities(rows: Tensor, layout: Packing, name: str, normalizer: ObsNormalizer) -> tuple[Tensor, Tensor, Tensor]:
    """Return normalized features ``[P, F]``, set and slot ``[P]`` of the entities of ``rows [R, D]``."""
    sets, slots = _real(rows, layout, name).nonzero(as_tuple=True)
    return _features(rows, layout, name, normalizer, sets, slots), sets, slots


def _features(
    rows: Tensor, layout: Packing, name: str, normalizer: ObsNormalizer, sets: Tensor, slots: Tensor
) -> Tensor:
    """Return the normalized features ``[P, F]`` of the ``sets`` and ``slots [P]`` of ``rows [R, D]``."""
    parts = []
    for span, width in layout.entities[name]:
        columns, shape = slice(*span), (-1, width)
        scale, shift = (x[columns].view(shape).index_select(0, slots) for x in (normalizer.scale, normalizer.shift))
        parts.append(normalized(rows[:, columns].unflatten(-1, shape)[sets, slots], scale, shift))
    return torch.cat(parts, -1)
