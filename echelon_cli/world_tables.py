"""Tables about a generated map: its measurements."""

from typing import Any

from echelon_cli import output

TRACE = 5e-5
"""Fractions below this are not listed."""
HASH_DIGITS = 16


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
    rows = [
        (name.replace("_", " "), _share(share), _share(found["seen_from_above"][name]))
        for name, share in found["materials"].items()
        if max(share, found["seen_from_above"][name]) >= TRACE
    ]
    output.show_table(("material", "of cells", "from above"), rows, right=("of cells", "from above"), title="")
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
    output.show_table(columns, walks, right=columns[1:], title="")


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
