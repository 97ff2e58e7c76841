"""The two ways to play and to train, and which of them a policy gets: the host reads every result, or none.

Where the policy computes (``echelon.rl.regime``) decides here and nowhere else. Both ways have the same methods: steps
those of ``collect.Steps``; updates ``begin``, ``make_room``, ``train``, ``finish``, ``update_returns``,
``update_observations`` and ``clear``.
"""

from __future__ import annotations

from typing import cast

import torch

from echelon.training.ppo.collect import Collector, Steps
from echelon.training.ppo.graph.capture import CudaGraphCache, record_cuda_graph
from echelon.training.ppo.graph.steps import GraphSteps
from echelon.training.ppo.graph.update import GraphUpdate
from echelon.training.ppo.host.steps import HostSteps
from echelon.training.ppo.host.update import HostUpdate
from echelon.training.ppo.losses import Gradients, Report
from echelon.training.ppo.optimizer import Optimizer
from echelon.training.runtime.process_group import ProcessGroup
from echelon.training.runtime.threads import ThreadPool

Update = HostUpdate | GraphUpdate


def make_steps(collector: Collector) -> Steps:
    regime = collector.policy.regime
    if regime.packs:
        return HostSteps(collector)
    return GraphSteps(collector, capture=collector.config.capture and regime.captures)


def make_update(
    gradients: Gradients, optimizer: Optimizer, pool: ThreadPool, group: ProcessGroup, report: Report
) -> Update:
    """Return how minibatches are trained on; ``report(what, terms)`` handles a loss or gradient that is not finite.

    Flags on a device can stop Adam alone, in one process and without a loss scale; elsewhere the host checks there too.
    """
    config, regime = gradients.config, gradients.regime
    captures = config.capture and regime.captures
    flags = group.is_single and isinstance(optimizer, torch.optim.Adam) and not gradients.scaler.is_enabled()
    if not regime.packs and flags:
        adam = cast(torch.optim.Optimizer, optimizer)
        return GraphUpdate(gradients, adam, report, record_cuda_graph if captures else None)
    graphs = CudaGraphCache(gradients.evaluate_whole) if captures else None
    return HostUpdate(gradients, optimizer, pool, group, report, graphs)
