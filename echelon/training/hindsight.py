"""Orders that a teacher's mechs obeyed without having them: labels in hindsight (Andrychowicz et al., 2017).

Every order is tried beside the mechs' own ones, which changes nothing in the battle: its goal, its columns of the
observation, and how far it is obeyed, by the kernels of real orders. When a rollout is complete, each of its windows of
about ``WINDOW_S``, if no episode begins in it, shows the order that was obeyed most, where that was clearly more than
the mech's own. Of the windows without an order only a share of ``env.order_rate`` does, so that the policy learns to
act without one too. The recurrent state of the rollout stays. Shapes: ``T step, N learner row``.
"""

from typing import Any

import numpy as np
import torch
import warp as wp
from torch import Tensor

from echelon.actions import ORDER_NAMES, Order
from echelon.config import PACK_SIZE, RunConfig
from echelon.env import layout, reward
from echelon.env.observe import orders
from echelon.sim.backend import Launch
from echelon.sim.structs import Field
from echelon.training.rollout import RolloutBuffer

WINDOW_S = 5.0
"""Time for which a mech has the same label [s]; windows of equal length fill the rollout."""
MARGIN = 0.5
"""By how much the mean obedience of a label exceeds that of the order that the mech had, 0 without one."""
WIDTH = layout.ORDERS.width
TRIED = {order: f"tried_{name}" for order, name in zip(Order, ORDER_NAMES, strict=True) if order != Order.NONE}


class Hindsight:
    """Follows what the mechs that learn obey, and relabels a rollout of ``config``."""

    def __init__(self, env: Any, config: RunConfig) -> None:
        self._env, self._engine, self._batch = env, env.engine, env.engine.batch
        self._weight, self._rate = config.env.reward.obey, config.env.order_rate
        self._at = layout.offset("orders", layout.blocks(config.env))
        steps = config.ppo.rollout_steps
        count = max(1, round(steps * config.env.dt_act / WINDOW_S))
        self.edges = [steps * i // count for i in range(count + 1)]
        """First steps of the windows, and the end of the rollout."""
        self._columns, self._obeyed = list[Tensor](), list[Tensor]()
        self._rows = torch.zeros(len(TRIED), env.rows.count, WIDTH)
        fields = {f"{name}_{array}": row for name in TRIED.values() for array, row in orders.FIELDS.items()}
        self._batch.add_fields({**fields, "tried_amounts": Field(wp.float32, "EMR", "obedience to each order tried")})
        self._batch.add_constant("no_order_rate", np.zeros(1, np.float32), wp.float32)
        shown, obeyed = list[Launch](), list[Launch]()
        for (order, name), rows in zip(TRIED.items(), self._rows, strict=True):
            self._batch[f"{name}_order_kind"].fill_(int(order))
            self._batch.backend.add({f"{name}_obs": wp.from_torch(rows.unsqueeze(0))}, per_env=False)
            given = {array: f"{name}_{array}" for array in orders.FIELDS}
            given |= {"fresh": "every", "order_rate": "no_order_rate"}
            rows_of = {"obs": f"{name}_obs", "obs_row": "first_row", "orders_at": 0}
            shown.append(Launch(orders.update_orders, "EM", given))
            shown.append(Launch(orders.write_orders, "EM", given | rows_of))
            column = {"column": int(order) - 1, "amounts": "tried_amounts"}
            obeyed.append(Launch(reward.term_obey, "EM", given | column))
        self._engine.programs |= {"try_orders": lambda: shown, "obey_orders": lambda: obeyed}

    def before_step(self) -> None:
        """Try the orders in the state before a step, and measure those of the step before it."""
        if self._columns:
            self._measure()
        if len(self._columns) in self.edges[:-1]:
            self._give()
        self._engine.run("try_orders")
        self._columns.append(self._rows.clone())

    def _give(self) -> None:
        """Set place and named mechs of the tried orders: the nearest visible hostile and living packmate."""
        get = self._batch.numpy
        pos, team, alive, mechs = get("pos"), get("team"), get("alive") == 1, np.arange(self._engine.num_mechs)
        apart = np.linalg.norm(pos[:, :, None] - pos[:, None], axis=-1)
        packs = (mechs // PACK_SIZE == mechs[:, None] // PACK_SIZE) & (mechs != mechs[:, None])
        seen = (team[:, :, None] != team[:, None]) & (get("visible") == 1)
        for order, name in TRIED.items():
            fits = {Order.FOCUS: seen, Order.SCREEN: packs}.get(order, False) & alive[:, None]
            nearest = np.where(fits, apart, np.inf).argmin(2)
            self._batch.set(f"{name}_order_place", pos)
            self._batch.set(f"{name}_order_mech", np.where(fits.any(2), nearest, -1).astype(np.int32))

    def _measure(self) -> None:
        self._engine.run("obey_orders")
        own = wp.to_torch(self._batch["amounts"])[..., [reward.TERM_NAMES.index("obey")]]
        tried = torch.cat([own, wp.to_torch(self._batch["tried_amounts"])[..., : len(TRIED)]], -1)
        self._obeyed.append(tried.flatten(0, 1).index_select(0, self._env.rows.agent))

    def relabel(self, buffer: RolloutBuffer, rows: Tensor, next_done: Tensor) -> Tensor:
        """Show what ``rows [N]`` obeyed, with its reward, and return it ``[T, N]``, 0 where the own order stays."""
        self._measure()
        columns, obeyed = torch.stack(self._columns), torch.stack(self._obeyed)
        self._columns, self._obeyed = [], []
        ends, labels = torch.cat([buffer.dones[1:], next_done[None]]), torch.zeros(obeyed.shape[:2], dtype=torch.long)
        counted = buffer.alive * (1.0 - ends)
        for first, end in zip(self.edges, self.edges[1:], strict=False):
            steps = slice(first, end)
            means = (obeyed[steps] * counted[steps, :, None]).sum(0) / counted[steps].sum(0).clamp_min(1.0)[:, None]
            best, order = means[:, 1:].max(1)
            is_clear = rows & (best > means[:, 0] + MARGIN) & (ends[first : end - 1].sum(0) == 0)
            has_order = (buffer.obs_rows[first, :, self._at : self._at + WIDTH] != 0).any(-1)
            is_shown = is_clear & (has_order | (torch.rand(len(rows)) < self._rate))
            labels[steps] = torch.where(is_shown, order + 1, 0)
        t, n = ((labels > 0) & (buffer.alive > 0)).nonzero(as_tuple=True)
        order = labels[t, n]
        buffer.obs_rows[t, n, self._at : self._at + WIDTH] = columns[t, order - 1, n].to(buffer.obs_rows.dtype)
        buffer.rewards[t, n] += self._weight * (obeyed[t, n, order] - obeyed[t, n, 0])
        return labels
