# type: ignore
"""Device code of the policy columns: contacts, actions, their probabilities, value estimates and rewards of each mech.

Arena, evaluations and sim record actions by default, the others on request. A frame shows the end of an environment
step; its policy columns belong to that step: the contacts when it began, the action as it was applied, its value
estimate, the probabilities of its choices and its reward terms. A mech without a policy has probabilities of 0.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import warp as wp

from echelon.actions import CHANCES
from echelon.replay.columns import bounds
from echelon.replay.frames import FRAME_HEAD, FrameLog, quantized
from echelon.replay.schema import COLUMNS, FrameColumn
from echelon.sim.backend import Launch, in_phase
from echelon.sim.batch import Batch
from echelon.sim.state import Controls, Events, Journal, Senses
from echelon.sim.structs import Field, array_struct

wp.set_module_options({"enable_backward": False, "fuse_fp": False})

WORD = wp.constant(8)
"""Mechs per entry of the bit mask column ``sees``."""
ACTION, VALUE, REWARD, CONTACT, SEES, CHANCE = (wp.constant(i) for i in range(6))
"""Indices of the policy columns."""
MECH_WIDTH = sum(column.k for column in COLUMNS if column.per == "mech")
"""Values per mech in the columns that every match has."""


@dataclass(frozen=True, kw_only=True)
class PolicyColumns:
    """Contents of a match's policy columns; the header stores it as ``insight``."""

    actions: Sequence[str]
    terms: Sequence[str]
    contacts: int
    estimates: bool = False
    chances: Sequence[str] = ()
    only_actions: bool = False

    def to_header(self) -> dict[str, Any]:
        """Return the entries of a header: ``insight``, or ``actions`` where they are the only column."""
        if self.only_actions:
            return {"actions": list(self.actions)}
        insight: dict[str, Any] = {"contacts": self.contacts, "estimates": self.estimates}
        if self.chances:
            insight["chances"] = list(self.chances)
        return {"insight": {"actions": list(self.actions), "terms": list(self.terms), **insight}}

    def columns(self, mechs: int) -> tuple[FrameColumn, ...]:
        """Return the policy columns in order, for a match of ``mechs`` mechs."""
        action = FrameColumn(name="action", dtype="i8", scale=1 / 127, k=len(self.actions))
        if self.only_actions:
            return (action,)
        chance = FrameColumn(name="chance", dtype="u8", scale=0.01, predict=1, k=len(self.chances))
        return (
            action,
            FrameColumn(name="value", dtype="i16", scale=0.01, predict=1),
            FrameColumn(name="reward", dtype="i16", scale=0.001, k=len(self.terms)),
            FrameColumn(name="contact", dtype="i16", predict=1, k=self.contacts),
            FrameColumn(name="sees", dtype="u8", k=-(-mechs // int(WORD))),
            *((chance,) if self.chances else ()),
        )


FIELDS = {"chances": Field(wp.float32, "EMO", "probabilities of choices, 0 without a policy")}
"""Arrays that only recordings of policy columns have."""


@array_struct
class PolicyLayout:
    """Position and quantisation of the policy columns, A columns; those that are not recorded have no width."""

    insight_start = Field(wp.int32, "A", "values per mech in the columns before it")
    insight_width = Field(wp.int32, "A", "values per mech")
    insight_step = Field(wp.float32, "A", "quantisation steps per unit")
    insight_low = Field(wp.int32, "A", "smallest integer")
    insight_high = Field(wp.int32, "A", "largest integer")


@wp.func
def policy_offset(layout: PolicyLayout, c: int, m: int, i: int, count: int) -> int:
    return FRAME_HEAD + layout.insight_start[c] * count + m * layout.insight_width[c] + i


@wp.func
def policy_value(layout: PolicyLayout, c: int, value: float) -> int:
    return quantized(value, layout.insight_step[c], layout.insight_low[c], layout.insight_high[c])


@wp.func
def visible_bits(senses: Senses, e: int, m: int, k: int) -> int:
    """Return entry ``k`` of the column ``sees``: bit b is set if mech ``m`` sees mech ``k * WORD + b``."""
    bits = int(0)
    for b in range(WORD):
        j = k * WORD + b
        if j < senses.visible.shape[2]:
            if senses.visible[e, m, j] == wp.uint8(1):
                bits += 1 << b
    return bits


@wp.kernel
def record_policy(
    events: Events,
    controls: Controls,
    senses: Senses,
    journal: Journal,
    layout: PolicyLayout,
    actions: wp.array3d(dtype=float),
    value: wp.array2d(dtype=float),
    terms: wp.array3d(dtype=float),
    chances: wp.array3d(dtype=float),
    recording: FrameLog,
    recording_out: FrameLog,
):
    """Write the policy columns of a mech; action, value and reward are 0 at the first frame."""
    i, m = wp.tid()
    e = journal.journal_env[i]
    page = journal.journal_page[i]
    if journal.page_open[page] == 0:
        return
    row = recording.frame_count[page] % recording.frames.shape[1]
    count = senses.visible.shape[1]
    stepped = float(0.0)
    if recording.frame_count[page] > 0:
        stepped = 1.0
    acted = stepped * float(events.acting[e, m])
    for k in range(layout.insight_width[ACTION]):
        a = float(0.0)
        if wp.isfinite(actions[e, m, k]):
            a = wp.clamp(actions[e, m, k], -1.0, 1.0)
        offset = policy_offset(layout, ACTION, m, k, count)
        recording_out.frames[page, row, offset] = policy_value(layout, ACTION, a * acted)
    if layout.insight_width[VALUE] == 0:
        return
    estimate = policy_value(layout, VALUE, value[e, m] * acted)
    recording_out.frames[page, row, policy_offset(layout, VALUE, m, 0, count)] = estimate
    for k in range(layout.insight_width[REWARD]):
        offset = policy_offset(layout, REWARD, m, k, count)
        recording_out.frames[page, row, offset] = policy_value(layout, REWARD, terms[e, m, k] * stepped)
    for k in range(layout.insight_width[CONTACT]):
        offset = policy_offset(layout, CONTACT, m, k, count)
        recording_out.frames[page, row, offset] = controls.contact[e, m, k]
    for k in range(layout.insight_width[SEES]):
        recording_out.frames[page, row, policy_offset(layout, SEES, m, k, count)] = visible_bits(senses, e, m, k)
    for k in range(layout.insight_width[CHANCE]):
        p = float(0.0)
        if wp.isfinite(chances[e, m, k]):
            p = chances[e, m, k] * acted
        recording_out.frames[page, row, policy_offset(layout, CHANCE, m, k, count)] = policy_value(layout, CHANCE, p)


def add_constants(batch: Batch, policy_columns: PolicyColumns) -> None:
    """Put position, width and quantisation of each policy column on the device, and add ``FIELDS``."""
    batch.lengths["O"] = len(CHANCES)
    batch.add_fields(FIELDS)
    recorded = policy_columns.columns(batch.num_mechs)
    columns = replace(policy_columns, only_actions=False, chances=CHANCES).columns(batch.num_mechs)
    widths = [column.k if i < len(recorded) else 0 for i, column in enumerate(columns)]
    limits = np.array([bounds(column.dtype) for column in columns], np.int32)
    batch.add_constant("insight_start", np.cumsum([MECH_WIDTH, *widths[:-1]]).astype(np.int32), wp.int32)
    batch.add_constant("insight_width", np.array(widths, np.int32), wp.int32)
    batch.add_constant("insight_step", np.array([1 / column.scale for column in columns], np.float32), wp.float32)
    batch.add_constant("insight_low", np.ascontiguousarray(limits[:, 0]), wp.int32)
    batch.add_constant("insight_high", np.ascontiguousarray(limits[:, 1]), wp.int32)


def launches() -> list[Launch]:
    """Return the launches that write the policy columns of a frame; they run before the frame is counted."""
    return in_phase("journal", [Launch(record_policy, "JM")])
