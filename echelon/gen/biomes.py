"""Table of biomes: name, and brush that fills a quadrant with it.

Add a biome as a brush and a line here. The order determines which biomes a seed draws: append new biomes, and raise
``GENERATOR_VERSION`` in ``echelon.gen.recipe``.
"""

from __future__ import annotations

from echelon.gen import biomes_built as built
from echelon.gen import biomes_wild as wild
from echelon.gen.shapes import Brush

BIOMES: dict[str, Brush] = {
    "urban_residential": built.urban_residential,
    "industrial_refinery": built.industrial_refinery,
    "civic_government": built.civic_government,
    "forest_park": wild.forest_park,
    "barrens": wild.barrens,
    "arcology_spire": built.arcology_spire,
    "sunken_canal": wild.sunken_canal,
    "geo_front": wild.geo_front,
    "glass_desert": wild.glass_desert,
    "command_outpost": built.command_outpost,
    "dense_jungle": wild.dense_jungle,
    "mining_pit": wild.mining_pit,
    "volcanic_ridge": wild.volcanic_ridge,
    "hydroponic_lab": built.hydroponic_lab,
    "server_farm": built.server_farm,
    "orbital_relay": built.orbital_relay,
}
