"""Map generation from a seed: biomes, corridors, zone, spawns, validation, the map bank and its prefetch."""
