"""Controls of human pilots: read before every tick, while all other mechs keep theirs for the environment step.

An input is an action vector in steps of 1/127. Drive, triggers, venting, target and electronic warfare follow it in
every tick; display settings and message are those of a step's first tick. Inputs of a step are ``i8 [ticks, S, A]`` for
the mechs of S seats; every environment gets the same.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from echelon.actions import ECCM_ABOVE, QUANTISATION_LEVELS, TARGET_DIM, TARGET_START, ActionIndex
from echelon.sim.arsenal import CHASSIS, Mechanic

if TYPE_CHECKING:
    from echelon.env.engine import Engine

Inputs = NDArray[np.int8]
DRIVE = slice(ActionIndex.FORWARD, ActionIndex.YAW_RATE + 1)
TRIGGERS = (ActionIndex.PRIMARY, ActionIndex.SECONDARY, ActionIndex.TERTIARY, ActionIndex.SPECIAL)
"""Action entry of each trigger bit."""
HAS_EWAR = np.array([spec.has_ewar for spec in CHASSIS])


def action_of(inputs: Inputs) -> NDArray[np.float32]:
    levels = np.maximum(inputs, -QUANTISATION_LEVELS).astype(np.float32)
    return levels / np.float32(QUANTISATION_LEVELS)


class Seats:
    """The seats of an engine: mechs that follow inputs."""

    def __init__(self, engine: "Engine", mechs: Sequence[int]) -> None:
        self._engine, self.mechs = engine, list(mechs)

    def begin_step(self, inputs: Inputs) -> None:
        """Begin an environment step, whose policies have acted, with the inputs ``[S, A]`` of its first tick."""
        self._write_actions(inputs)
        self._engine.run("begin_step")
        self._write_controls(inputs)

    def tick(self, inputs: Inputs | None = None) -> None:
        """Play a tick, with other inputs ``[S, A]`` if given."""
        if inputs is not None:
            self._write_actions(inputs)
            self._write_controls(inputs)
        self._engine.run("tick")

    def end_step(self, row: int = 0) -> None:
        """End the environment step; observations go to ``obs[row]``."""
        self._engine.set_row(row)
        self._engine.run("end_step")

    def step(self, inputs: Inputs) -> None:
        """Play an environment step, whose policies have acted, with the inputs ``[ticks, S, A]``."""
        self.begin_step(inputs[0])
        self.tick()
        for each in inputs[1:]:
            self.tick(each)
        self.end_step()

    def _write_actions(self, inputs: Inputs) -> None:
        actions = self._engine.batch.numpy("actions")
        actions[:, self.mechs] = action_of(inputs)
        self._commit(actions=actions)

    def _write_controls(self, inputs: Inputs) -> None:
        """Decode the inputs ``[S, A]`` as the kernels of ``echelon.sim.kernels.controls`` decode actions."""
        batch, at = self._engine.batch, (slice(None), self.mechs)
        action, alive = action_of(inputs), batch.numpy("alive")[at]
        drive, trigger, vent = (batch.numpy(name) for name in ("drive", "trigger", "vent"))
        drive[at] = alive[..., None].astype(np.float32) * action[:, DRIVE]
        held = [(action[:, column] > 0).astype(np.int32) << bit for bit, column in enumerate(TRIGGERS)]
        trigger[at] = alive * sum(held)
        vent[at] = alive * (action[:, ActionIndex.VENT] > 0)
        self._commit(drive=drive, trigger=trigger, vent=vent)
        self._choose_targets(action, alive)
        self._switch_ewar(action, alive)

    def _choose_targets(self, action: NDArray[np.float32], alive: NDArray[np.int32]) -> None:
        batch = self._engine.batch
        if not batch.cfg.enable_target_selection:
            return
        focus, slot = batch.numpy("focus"), batch.numpy("focus_slot")
        preferred = action[:, TARGET_START : TARGET_START + TARGET_DIM]
        best = preferred.argmax(axis=1)
        contact = batch.numpy("contact")[:, self.mechs, best]
        envs, team = np.arange(batch.num_envs)[:, None], batch.numpy("team")
        is_target = (batch.numpy("alive")[envs, contact] == 1) & (team[envs, contact] != team[:, self.mechs])
        is_target &= (contact >= 0) & (alive == 1) & (preferred.max(axis=1) > 0)
        focus[:, self.mechs] = np.where(is_target, contact, -1)
        slot[:, self.mechs] = np.where(is_target, best, -1)
        self._commit(focus=focus, focus_slot=slot)

    def _switch_ewar(self, action: NDArray[np.float32], alive: NDArray[np.int32]) -> None:
        batch = self._engine.batch
        if not batch.cfg.enable_ewar:
            return
        ecm, eccm = batch.numpy("ecm"), batch.numpy("eccm")
        withheld = (batch.numpy("withheld") & int(Mechanic.EWAR)) != 0
        has = (alive == 1) & HAS_EWAR[batch.numpy("chassis")[:, self.mechs]] & ~withheld[:, None]
        value = action[:, ActionIndex.SECONDARY]
        eccm[:, self.mechs] = has & (value > ECCM_ABOVE)
        ecm[:, self.mechs] = has & (value > 0) & (value <= ECCM_ABOVE)
        self._commit(ecm=ecm, eccm=eccm)

    def _commit(self, **arrays: NDArray) -> None:
        """Write arrays back where they are copies, on a GPU."""
        if self._engine.batch.device != "cpu":
            for name, values in arrays.items():
                self._engine.batch.set(name, values)
