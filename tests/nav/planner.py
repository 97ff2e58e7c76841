"""A* between two nodes of a navigation graph: the reference for the costs of ``echelon.nav.field``."""

from __future__ import annotations

from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

from echelon.nav.graph import NavGraph


class Planner:
    """A graph prepared for repeated searches."""

    def __init__(self, graph: NavGraph) -> None:
        self.graph = graph
        order = np.argsort(graph.source, kind="stable")
        self._target: list[int] = graph.target[order].tolist()
        self._cost: list[float] = graph.cost[order].tolist()
        self._first: list[int] = np.searchsorted(graph.source[order], np.arange(graph.num_nodes + 1)).tolist()

    def search(self, start: int, goal: int) -> tuple[list[int], float]:
        """Return the nodes of the cheapest route and the sum of its edge costs; without a route none, and infinity."""
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
                return _trace(parent, start, goal), best[goal]
            for edge in range(self._first[node], self._first[node + 1]):
                other, cost = self._target[edge], best[node] + self._cost[edge]
                if other not in closed and cost < best.get(other, np.inf):
                    best[other] = cost
                    parent[other] = node
                    heappush(heap, (cost + float(bound[other]), other))
        return [], float("inf")


def _trace(parent: dict[int, int], start: int, goal: int) -> list[int]:
    nodes = [goal]
    while nodes[-1] != start:
        nodes.append(parent[nodes[-1]])
    return nodes[::-1]
