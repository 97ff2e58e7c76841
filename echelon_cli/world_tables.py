"""Tables about generated maps: the measurements of one, and statistics over many."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

from echelon_cli import output

TRACE = 5e-5
"""Fractions below this are not listed."""
HASH_DIGITS = 16
"""Hexadecimal digits of a hash in tables."""


def show_measurements(found: dict[str, Any]) -> None:
    x, y, z = found["size"]
    zone, paths, heights = found["zone"], found["ways"], found["heights"]
    output.show_table(
        ("", ""),
        [
            ("seed", found["seed"]),
            ("size", f"{x}x{y}x{z}"),
            ("biomes", ", ".join(f"{corner} {name}" for corner, name in found["biomes"].items()) or "none: open plain"),
            (
                "solid",
                f"{_share(found['solid_share'])} of the cells block movement, {_share(found['opaque_share'])} sight",
            ),
            (
                "heights",
                f"{_share(heights['open_share'])} of the columns open, median height of the others "
                f"{heights['median_built']:g}, maximum {heights['max']}",
            ),
            ("zone", f"radius {zone['radius']:.1f} at {zone['centre'][0]:.1f}, {zone['centre'][1]:.1f}"),
            *((f"{side} spawns", _start(found, side)) for side in ("blue", "red")),
            ("path costs", _fairness(paths["ratio"], found["fair"])),
            ("connected", _connected(found)),
            *(("", _fixup(fixup)) for fixup in found["dug"]),
            ("recipe", found["hashes"]["recipe"][:HASH_DIGITS]),
            ("content", found["hashes"]["materials"][:HASH_DIGITS]),
            ("generated in", f"{1e3 * found['took_s']:.0f} ms"),
        ],
    )
    output.print_line()
    rows = [
        (name.replace("_", " "), _share(share), _share(found["seen_from_above"][name]))
        for name, share in found["materials"].items()
        if max(share, found["seen_from_above"][name]) >= TRACE
    ]
    output.show_table(("material", "of cells", "from above"), rows, right=("of cells", "from above"))
    output.print_line()
    columns = ("class", "cells", "of columns", "largest part", "reach the zone")
    walks = [
        (
            ", ".join(walk["classes"]),
            walk["cells"],
            _share(walk["columns_share"]),
            _share(walk["largest_component"]),
            _share(walk["reach_zone"]),
        )
        for walk in found["walk"]
    ]
    output.show_table(columns, walks, right=columns[1:])


STATISTICS: tuple[tuple[str, Callable[[dict[str, Any]], float | None], bool], ...] = (
    ("solid share", lambda row: row["solid_share"], True),
    ("opaque share", lambda row: row["opaque_share"], True),
    ("open columns", lambda row: row["heights"]["open_share"], True),
    ("greatest height", lambda row: row["heights"]["max"], False),
    ("cells, small classes", lambda row: row["walk"][0]["cells"], False),
    ("cells, heavy", lambda row: row["walk"][-1]["cells"], False),
    ("reach the zone, small classes", lambda row: row["walk"][0]["reach_zone"], True),
    ("reach the zone, heavy", lambda row: row["walk"][-1]["reach_zone"], True),
    ("zone radius", lambda row: row["zone"]["radius"], False),
    ("blue's way", lambda row: row["ways"]["blue"]["walked"], False),
    ("red's way", lambda row: row["ways"]["red"]["walked"], False),
    ("longer way over shorter", lambda row: row["ways"]["ratio"], False),
    ("lines dug", lambda row: len(row["dug"]), False),
    ("blocked cells dug through", lambda row: sum(dug["blocked_cells"] for dug in row["dug"]), False),
    ("regenerated", lambda row: row["regenerated"], False),
    ("milliseconds", lambda row: 1e3 * row["took_s"], False),
)
"""(name, value of a map, whether it is a fraction)."""


def spread_of(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return statistics over many maps, with the seeds of the extremes and the number of each outcome."""
    statistics = {}
    for name, value, share in STATISTICS:
        found = [(v, row["seed"]) for row in rows if (v := value(row)) is not None and math.isfinite(v)]
        if found:
            values = [v for v, _ in found]
            low, high = min(found), max(found, key=lambda pair: (pair[0], -pair[1]))
            statistics[name] = {
                "mean": sum(values) / len(values),
                "median": median(values),
                "min": low[0],
                "min_seed": low[1],
                "max": high[0],
                "max_seed": high[1],
                "share": share,
            }
    outcomes = Counter(_outcome(row) for row in rows)
    biomes = Counter(name for row in rows for name in set(row["biomes"].values()))
    return {
        "first_seed": rows[0]["seed"],
        "count": len(rows),
        "size": rows[0]["size"],
        "outcomes": {name: outcomes[name] for name in OUTCOMES},
        "cut_off": sum(bool(row["ways"][side]["cut_off"]) for row in rows for side in ("blue", "red")),
        "statistics": statistics,
        "biomes": dict(sorted(biomes.items(), key=lambda pair: (-pair[1], pair[0]))),
    }


OUTCOMES = ("connected as drawn", "dug open", "drawn again", "open plain")
"""Outcomes of map generation, best first; keys of the JSON output."""
LABELS = {
    "connected as drawn": "connected at once",
    "drawn again": "regenerated",
    "blue's way": "blue's path",
    "red's way": "red's path",
    "longer way over shorter": "ratio of path costs",
    "lines dug": "dug paths",
}
"""JSON key -> label in tables, where they differ."""


def _outcome(row: dict[str, Any]) -> str:
    if row["open_map"]:
        return OUTCOMES[3]
    if row["regenerated"]:
        return OUTCOMES[2]
    return OUTCOMES[1] if row["dug"] else OUTCOMES[0]


def show_spread(spread: dict[str, Any]) -> None:
    x, y, z = spread["size"]
    count, first = spread["count"], spread["first_seed"]
    output.print_line(f"{count} maps of {x}x{y}x{z}, seeds {first} to {first + count - 1}", style="bold")
    columns = ("", "mean", "median", "min", "seed", "max", "seed ")
    rows = []
    for name, row in spread["statistics"].items():
        form = _share if row["share"] else output.measured
        least, most = (form(row["min"]), row["min_seed"]), (form(row["max"]), row["max_seed"])
        rows.append((LABELS.get(name, name), form(row["mean"]), form(row["median"]), *least, *most))
    output.show_table(columns, rows, right=columns[1:])
    output.print_line()
    kinds = [(LABELS.get(name, name), number, _share(number / count)) for name, number in spread["outcomes"].items()]
    kinds.append(("teams with a mech cut off from the zone", spread["cut_off"], ""))
    output.show_table(("outcome", "maps", "share"), kinds, right=("maps", "share"))
    output.print_line()
    output.show_table(("biome", "on maps"), spread["biomes"].items(), right=("on maps",))


def _share(value: float) -> str:
    return f"{value:.1%}"


def _start(found: dict[str, Any], side: str) -> str:
    path, spawn = found["ways"][side], found["spawns"][side]
    x, y = spawn["centre"]
    walked = f"path of {path['walked']:.0f} to the zone" if path["walked"] is not None else "no path to the zone"
    cut_off = f", {path['cut_off']} cut off" if path["cut_off"] else ""
    corner = found["spawn_corners"][side]
    return (
        f"{len(spawn['mechs'])} in {corner} around {x:.0f}, {y:.0f}; {walked}, {path['straight']:.0f} straight{cut_off}"
    )


def _fairness(ratio: float | None, fair: dict[str, Any] | None) -> str:
    team = "-" if ratio is None else f"ratio {ratio:.2f}"
    return team if fair is None or fair["ratio"] is None else f"{team}, at most {fair['ratio']:.2f} for a class"


def _connected(found: dict[str, Any]) -> str:
    if found["open_map"]:
        return f"no: open plain after {found['regenerated']} unconnected attempts"
    retries = f"after {found['regenerated']} unconnected attempts, " if found["regenerated"] else ""
    return f"{retries}dug open" if found["dug"] else f"{retries}at once"


def _fixup(fixup: dict[str, Any]) -> str:
    path = fixup["label"].replace("_", " ")
    return f"{path}: dig {fixup['attempt']} through {fixup['blocked_cells']} blocked cells"
