"""A* between two nodes of a navigation graph: the reference for the costs of ``echelon.nav.field``."""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

from echelon.nav.graph import NavGraph


@dataclass(frozen=True, kw_only=True)
class Route:
    """Result of one search."""

    found: bool
    nodes: tuple[int, ...]
    """Node indices from start to goal; empty if not found."""
    length: int
    """Number of nodes of the route."""
    cost: float
    """Sum of the edge costs; infinite if not found."""
    expansions: int
    """Nodes taken from the open list."""


class Planner:
    """A graph prepared for repeated searches."""

    def __init__(self, graph: NavGraph) -> None:
        self.graph = graph
        order = np.argsort(graph.source, kind="stable")
        self._target: list[int] = graph.target[order].tolist()
        self._cost: list[float] = graph.cost[order].tolist()
        self._first: list[int] = np.searchsorted(graph.source[order], np.arange(graph.num_nodes + 1)).tolist()

    def search(self, start: int, goal: int) -> Route:
        """Return the cheapest route; not found if a node is unknown or no route exists."""
        nodes = self.graph.num_nodes
        if not (0 <= start < nodes and 0 <= goal < nodes):
            return _not_found(0)
        # Without heights, because climbing one cell costs less than its length in space.
        offset = self.graph.kyx[:, 1:] - self.graph.kyx[goal, 1:]
        bound: NDArray[np.float64] = np.hypot(offset[:, 0], offset[:, 1])
        best = {start: 0.0}
        parent: dict[int, int] = {}
        closed: set[int] = set()
        heap = [(float(bound[start]), start)]
        while heap:
            _, node = heappop(heap)
            if node in closed:
                continue
            closed.add(node)
            if node == goal:
                return _trace(parent, start, goal, best[goal], len(closed))
            for edge in range(self._first[node], self._first[node + 1]):
                other, cost = self._target[edge], best[node] + self._cost[edge]
                if other not in closed and cost < best.get(other, np.inf):
                    best[other] = cost
                    parent[other] = node
                    heappush(heap, (cost + float(bound[other]), other))
        return _not_found(len(closed))


def _not_found(expansions: int) -> Route:
    return Route(found=False, nodes=(), length=0, cost=float("inf"), expansions=expansions)


def _trace(parent: dict[int, int], start: int, goal: int, cost: float, expansions: int) -> Route:
    nodes = [goal]
    while nodes[-1] != start:
        nodes.append(parent[nodes[-1]])
    return Route(found=True, nodes=tuple(reversed(nodes)), length=len(nodes), cost=cost, expansions=expansions)
