"""Phase tree: dotted timings as indented rows with sums."""

from collections.abc import Mapping

MIN_FRACTION = 0.01
"""Minimum fraction of the total for a row to be shown."""


def sums_by_prefix(times: Mapping[str, float]) -> dict[str, float]:
    """Return the total time of each dotted prefix of ``times``, the full names included."""
    sums: dict[str, float] = {}
    for name, value in times.items():
        parts = name.split(".")
        for depth in range(1, len(parts) + 1):
            prefix = ".".join(parts[:depth])
            sums[prefix] = sums.get(prefix, 0.0) + value
    return sums


def rows(times: Mapping[str, float]) -> list[tuple[str, float, float]]:
    """Return rows (indented label, time, fraction of the total), children below their parent, largest first."""
    sums = sums_by_prefix(times)
    total = sum(times.values()) or 1.0
    out: list[tuple[str, float, float]] = []

    def visit(prefix: str, depth: int) -> None:
        children = [n for n in sums if n.rpartition(".")[0] == prefix and sums[n] / total >= MIN_FRACTION]
        for name in sorted(children, key=lambda n: -sums[n]):
            out.append(("  " * depth + name.rpartition(".")[2], sums[name], sums[name] / total))
            visit(name, depth + 1)

    visit("", 0)
    return out
