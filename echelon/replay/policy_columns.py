"""Device code of the policy columns: what a pilot was shown, what it did about it and what it was paid, by decision.

They are recorded only for matches of which it was asked. A frame stands at a decision's end, so its columns tell of the
decision that led to it: what was known when it began, the action as it was applied, its value estimate, its reward.
"""

# ruff: noqa: E501
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import warp as wp

from echelon.replay.columns import bounds
from echelon.replay.frames import FRONT, quantized
from echelon.replay.schema import COLUMNS, FrameColumn
from echelon.sim.backend import Launch, in_phase
from echelon.sim.batch import Batch

wp.set_module_options({"enable_backward": False, "fuse_fp": False})

WORD = wp.constant(8)
"""Mechs that share an entry of the column ``sees``."""
ACTION, VALUE, REWARD, CONTACT, SEES = (wp.constant(i) for i in range(5))
"""Places of the policy columns after the others."""
MECH_WIDTH = sum(column.k for column in COLUMNS if column.per == "mech")
"""Values of a mech in the columns that every match has."""


@dataclass(frozen=True, kw_only=True)
class PolicyColumns:
    """What the policy columns of a match are about."""

    actions: Sequence[str]
    """Name of each entry of an action vector."""
    terms: Sequence[str]
    """Name of each reward term."""
    contacts: int
    """Most contacts that a pilot's display holds."""
    estimates: bool = False
    """Whether somebody writes value estimates."""

    def to_header(self) -> dict[str, Any]:
        """Return it as a header says it."""
        return {**asdict(self), "actions": list(self.actions), "terms": list(self.terms)}

    def columns(self, mechs: int) -> tuple[FrameColumn, ...]:
        """Return the policy columns, in order."""
        return (
            FrameColumn(name="action", dtype="i8", scale=1 / 127, k=len(self.actions)),
            FrameColumn(name="value", dtype="i16", scale=0.01, predict=1),
            FrameColumn(name="reward", dtype="i16", scale=0.001, k=len(self.terms)),
            FrameColumn(name="contact", dtype="i16", predict=1, k=self.contacts),
            FrameColumn(name="sees", dtype="u8", k=-(-mechs // int(WORD))),
        )


# fmt: off
@wp.func
def policy_offset(c: int, m: int, i: int, count: int, insight_start: wp.array(dtype=wp.int32), insight_width: wp.array(dtype=wp.int32)) -> int:
    """Where a frame keeps entry i of a mech in policy column c."""
    return FRONT + insight_start[c] * count + m * insight_width[c] + i


@wp.kernel
def record_policy(
    # rules
    insight_start: wp.array(dtype=wp.int32), insight_width: wp.array(dtype=wp.int32), insight_step: wp.array(dtype=wp.float32), insight_low: wp.array(dtype=wp.int32), insight_high: wp.array(dtype=wp.int32),
    # state in
    journal_env: wp.array(dtype=wp.int32), journal_page: wp.array(dtype=wp.int32), page_open: wp.array(dtype=wp.int32), frame_count: wp.array(dtype=wp.int32), acting: wp.array2d(dtype=wp.int32), actions: wp.array3d(dtype=wp.float32), value: wp.array2d(dtype=wp.float32), terms: wp.array3d(dtype=wp.float32), contact: wp.array3d(dtype=wp.int32), visible: wp.array3d(dtype=wp.uint8),
    # out
    frames: wp.array3d(dtype=wp.int32),
):
    """Write what a pilot was shown, did, expected and was paid; nothing but what it is shown before the first decision."""
    i, m = wp.tid()
    e = journal_env[i]
    page = journal_page[i]
    if page_open[page] == 0:
        return
    row = frame_count[page] % frames.shape[1]
    count = visible.shape[1]
    decided = float(0.0)
    if frame_count[page] > 0:
        decided = 1.0
    acted = decided * float(acting[e, m])
    for k in range(insight_width[ACTION]):
        a = float(0.0)
        if wp.isfinite(actions[e, m, k]):
            a = wp.clamp(actions[e, m, k], -1.0, 1.0)
        frames[page, row, policy_offset(ACTION, m, k, count, insight_start, insight_width)] = quantized(a * acted, ACTION, insight_step, insight_low, insight_high)
    frames[page, row, policy_offset(VALUE, m, 0, count, insight_start, insight_width)] = quantized(value[e, m] * acted, VALUE, insight_step, insight_low, insight_high)
    for k in range(insight_width[REWARD]):
        frames[page, row, policy_offset(REWARD, m, k, count, insight_start, insight_width)] = quantized(terms[e, m, k] * decided, REWARD, insight_step, insight_low, insight_high)
    for k in range(insight_width[CONTACT]):
        frames[page, row, policy_offset(CONTACT, m, k, count, insight_start, insight_width)] = contact[e, m, k]
    for k in range(insight_width[SEES]):
        bits = int(0)
        for b in range(WORD):
            j = k * WORD + b
            if j < count:
                if visible[e, m, j] == wp.uint8(1):
                    bits += 1 << b
        frames[page, row, policy_offset(SEES, m, k, count, insight_start, insight_width)] = bits


# fmt: on
def add_constants(batch: Batch, insight: PolicyColumns) -> None:
    """Tell the device where each policy column lies, how wide and how fine it is."""
    columns = insight.columns(batch.num_mechs)
    widths = [column.k for column in columns]
    limits = np.array([bounds(column.dtype) for column in columns], np.int32)
    batch.add_constant("insight_start", np.cumsum([MECH_WIDTH, *widths[:-1]]).astype(np.int32), wp.int32)
    batch.add_constant("insight_width", np.array(widths, np.int32), wp.int32)
    batch.add_constant("insight_step", np.array([1 / column.scale for column in columns], np.float32), wp.float32)
    batch.add_constant("insight_low", np.ascontiguousarray(limits[:, 0]), wp.int32)
    batch.add_constant("insight_high", np.ascontiguousarray(limits[:, 1]), wp.int32)


def launches() -> list[Launch]:
    """Return what writes the policy columns of a frame, before the frame is counted."""
    return in_phase("journal", [Launch(record_policy, "JM")])
