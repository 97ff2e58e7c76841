"""``echelon world``: generate a map from a seed and measure it; draw a map in the terminal or as PNG."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from echelon.config import EnvConfig, Fairness
from echelon.files import write_output
from echelon.jobs.config_layers import ConfigError, did_you_mean
from echelon.replay.find import find_replay
from echelon_cli import options, output
from echelon_cli.matches import complete_matches
from echelon_cli.options import CHOICES, argument, one_of, option

if TYPE_CHECKING:
    from echelon.atlas.scene import Scene
    from echelon.atlas.views import MapView
    from echelon.gen.generate import GeneratedMap

ANY_BIOME = "any"
NUMBER = re.compile(r"-?\d+(\.\d+)?")
"""Text that is meant as a seed, valid or not."""


def complete_biomes(incomplete: str) -> list[str]:
    from echelon.gen.biomes import BIOMES

    return [name for name in (ANY_BIOME, *BIOMES) if name.startswith(incomplete)]


def world(
    what: Annotated[
        str, argument("SEED|REPLAY|RUN", "A seed, a replay, a match id, or a run (its newest match).", complete_matches)
    ],
    size: Annotated[str | None, option("--size", "Map edge or edges [vox]; default: the game's.", "X|XxY")] = None,
    height: options.Height = None,
    packs: options.Packs = None,
    biome: Annotated[
        str, option("--biome", "One biome for the whole map; any: four random ones.", complete=complete_biomes)
    ] = ANY_BIOME,
    zone_radius: Annotated[
        float | None, option("--zone-radius", "Mean radius of the capture zone [vox]; default: the game's.")
    ] = None,
    maps: options.Maps = None,
    max_distance_ratio: options.Ratio = None,
    nav: Annotated[
        str | None,
        option(
            "--nav", "Draw where a class can walk and its path length to the zone.", "CLASS", one_of(*CHOICES["class"])
        ),
    ] = None,
    measure: Annotated[bool, option("--measure", "Print measurements of a generated map.")] = False,
    plain: Annotated[bool, option("--plain", "Draw letters instead of colours.")] = False,
    width: Annotated[int | None, option("--width", "Width [columns]; default: the terminal's.", min=8)] = None,
    png: Annotated[Path | None, option("--png", "Write the drawing as PNG.", "FILE")] = None,
    as_json: options.Json = False,
) -> None:
    """Generate the map of a seed, or read a map, and draw it: from above, or the paths of a class to the zone."""
    from echelon.atlas.render import png as as_png
    from echelon.atlas.statistics import world_statistics

    if png is not None and not png.parent.is_dir():
        raise ConfigError(f"folder {str(png.parent)!r} does not exist; create it to save the picture")
    generated = None
    if not Path(what).exists() and NUMBER.fullmatch(what):
        settings = _settings(size, height, packs, biome, zone_radius, maps, max_distance_ratio)
        generated = _generate(settings, _seed(what))
    if generated is None and measure:
        raise typer.BadParameter("--measure is for a map that is generated; give a seed")
    title, scene = _find_scene(what, generated)
    view, sheet = _chosen_view(scene, nav)
    if png is not None:
        write_output(png, as_png(scene, sheet))
    if as_json:
        found = world_statistics(scene) if generated is None else _describe(*generated)
        output.show_json({"shown": title, "view": view, **found, "png": str(png or "")})
        return
    if measure and generated is not None:
        from echelon_cli.world_tables import show_measurements

        show_measurements(_describe(*generated))
    else:
        from echelon_cli.world_picture import show_picture

        show_picture(f"{title}, {view}", scene, sheet, plain=plain, width=width)
    if png is not None:
        output.print_line(f"wrote {png}")


def _seed(text: str) -> int:
    """Return the seed that a text names; ``ConfigError`` for anything else."""
    from echelon.config.seeds import require_seed
    from echelon.gen.generate import MAP_SEEDS

    try:
        return require_seed(int(text) if text.isdecimal() else text, "map seed", MAP_SEEDS)
    except ValueError as error:
        raise ConfigError(str(error)) from None


def _edges(text: str) -> tuple[int, int]:
    words = text.lower().split("x")
    if not all(word.isdecimal() for word in words) or len(words) > 2:
        raise ConfigError(f"size is {text!r}, expected an edge such as 100, or two such as 120x80")
    return int(words[0]), int(words[-1])


def _settings(
    size: str | None,
    height: int | None,
    packs: int | None,
    biome: str,
    zone_radius: float | None,
    maps: Fairness | None,
    ratio: float | None,
) -> dict[str, Any]:
    """Return the arguments of ``generate``, by default those of the game; ``ConfigError`` for an invalid value."""
    from echelon.gen.biomes import BIOMES

    if biome != ANY_BIOME and biome not in BIOMES:
        have = f"(have: {ANY_BIOME}, {', '.join(BIOMES)})"
        raise ConfigError(f"biome {biome!r} does not exist{did_you_mean(biome, BIOMES)} {have}")
    x, y = (None, None) if size is None else _edges(size)
    world = {"size_x": x, "size_y": y, "size_z": height, "fairness": maps, "max_distance_ratio": ratio}
    game = {"num_packs": packs, "zone_radius_vox": zone_radius}
    env = EnvConfig()
    try:
        env = replace(env, **{name: value for name, value in game.items() if value is not None})
        return {
            "world": replace(env.world, **{name: value for name, value in world.items() if value is not None}),
            "num_packs": env.num_packs,
            "zone_radius_vox": env.zone_radius_vox,
            "biome": "" if biome == ANY_BIOME else biome,
        }
    except ValueError as error:
        raise ConfigError(str(error)) from None


def _generate(settings: dict[str, Any], seed: int) -> tuple[GeneratedMap, float]:
    """Return the map of a seed and the time to generate it [s]."""
    from echelon.gen.generate import generate

    started = time.perf_counter()
    try:
        made = generate(settings.pop("world"), seed, **settings)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    return made, time.perf_counter() - started


def _describe(made: GeneratedMap, took_s: float) -> dict[str, Any]:
    """Return the measurements of a generated map as plain values."""
    from echelon.atlas.scene import scene_from_map
    from echelon.atlas.statistics import world_statistics

    variant, stats = made.recipe["variant"], made.recipe["stats"]
    return {
        "seed": made.map_seed,
        "biomes": variant["biomes"],
        "flip": variant["transform"],
        "spawn_corners": variant["spawn_corners"],
        **world_statistics(scene_from_map(made)),
        "fair": stats.get("paths"),
        "regenerated": variant["attempt"],
        "open_map": made.open_map,
        "dug": [dict(fixup) for fixup in made.fixups],
        "checks": len(stats["checks"]),
        "hashes": made.hashes,
        "took_s": took_s,
    }


def _find_scene(what: str, generated: tuple[GeneratedMap, float] | None) -> tuple[str, Scene]:
    """Return a title and the scene of a seed, a replay, a match or a run; a file wins over a seed."""
    from echelon.atlas.scene import scene_from_map, scene_from_replay
    from echelon.replay.reader import Replay

    if generated is not None:
        return f"seed {generated[0].map_seed}", scene_from_map(generated[0])
    with Replay(find_replay(what)) as replay:
        return f"{replay.path.name}, map {replay.header.get('map_seed', 0)}", scene_from_replay(replay)


def _chosen_view(scene: Scene, nav: str | None) -> tuple[str, MapView]:
    """Return the title of the requested view, and the view."""
    from echelon.atlas import views
    from echelon.nav.field import zone_field
    from echelon.nav.graph import RADIUS_OF_CHASSIS
    from echelon.sim.arsenal import Chassis

    if nav is None:
        return "from above", views.terrain(scene)
    names = [chassis.name.lower() for chassis in Chassis]
    if nav.lower() not in names:
        raise ConfigError(f"class {nav!r} does not exist{did_you_mean(nav, names)} (have: {', '.join(names)})")
    radius = RADIUS_OF_CHASSIS[names.index(nav.lower())]
    field = zone_field(scene.material, zone=scene.zone, radius=radius, clearance=scene.clearance)
    return f"paths of a {nav.lower()}", views.path_cost(scene, field)
