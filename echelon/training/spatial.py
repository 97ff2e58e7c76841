"""Heat maps: where the policy's mechs move, deal damage and die, on a square grid over maps of any size.

``SpatialAccumulator`` counts, ``HeatMapObserver`` fills one while episodes are played, ``save_heat`` and ``load_heat``
write and read a file. Importing this loads neither W&B nor matplotlib: ``to_images`` imports them when called and
returns nothing without them. Row 0 of a map is the smallest y.
"""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save

from echelon.files import atomic_write
from echelon.telemetry.heat_maps import read_heat
from echelon.training.records import EpisodeObserver

GRID_SIZE = 32
ARRAYS = {"deaths": "death_locations", "damage": "damage_locations", "movement": "movement_density"}
"""Name of each map and its attribute."""
COLOUR_MAP = "hot"

Grid = NDArray[np.float32]


class SpatialAccumulator:
    """Three maps of ``grid_size`` x ``grid_size`` cells; positions and world sizes are numbers or arrays [vox]."""

    def __init__(self, grid_size: int = GRID_SIZE) -> None:
        if grid_size < 1:
            raise ValueError(f"grid_size is {grid_size!r}, expected at least 1")
        self.grid_size = grid_size
        self.death_locations: Grid = np.zeros((grid_size, grid_size), np.float32)
        self.damage_locations: Grid = np.zeros((grid_size, grid_size), np.float32)
        self.movement_density: Grid = np.zeros((grid_size, grid_size), np.float32)

    def record_death(self, x: Any, y: Any, world_size: Any) -> None:
        """Count deaths at ``x``, ``y`` in worlds of ``world_size`` (width, height) [vox]."""
        self._add(self.death_locations, x, y, 1.0, world_size)

    def record_damage(self, x: Any, y: Any, damage: Any, world_size: Any) -> None:
        """Add ``damage`` [hp] dealt from ``x``, ``y``."""
        self._add(self.damage_locations, x, y, damage, world_size)

    def record_position(self, x: Any, y: Any, world_size: Any) -> None:
        """Count one step spent at ``x``, ``y``."""
        self._add(self.movement_density, x, y, 1.0, world_size)

    def reset(self) -> None:
        for name in ARRAYS.values():
            getattr(self, name).fill(0.0)

    def maps(self) -> dict[str, Grid]:
        """Return the nonzero maps by name."""
        return {kind: getattr(self, name) for kind, name in ARRAYS.items() if getattr(self, name).any()}

    def to_images(self) -> dict[str, Any]:
        """Return the nonzero maps as W&B images; warn and return none if W&B or matplotlib is missing."""
        try:
            import matplotlib  # pyright: ignore[reportMissingImports]
            import wandb  # pyright: ignore[reportMissingImports]

            matplotlib.use("Agg", force=False)
            from matplotlib import pyplot  # pyright: ignore[reportMissingImports]
        except ImportError as error:
            warnings.warn(f"heat maps are not drawn: {error}", RuntimeWarning, stacklevel=2)
            return {}
        images = {}
        for kind, grid in self.maps().items():
            figure, axes = pyplot.subplots()
            axes.imshow(grid / grid.max(), cmap=COLOUR_MAP, origin="lower", vmin=0.0, vmax=1.0)
            axes.set_title(kind)
            images[kind] = wandb.Image(figure)
            pyplot.close(figure)
        return images

    def _add(self, grid: Grid, x: Any, y: Any, amount: Any, world_size: Any) -> None:
        width, height = (np.asarray(edge, np.float64) for edge in world_size)
        column = np.clip((np.asarray(x) / width * self.grid_size).astype(np.int64), 0, self.grid_size - 1)
        row = np.clip((np.asarray(y) / height * self.grid_size).astype(np.int64), 0, self.grid_size - 1)
        np.add.at(grid, (row, column), np.asarray(amount, np.float32))


class HeatMapObserver(EpisodeObserver):
    """Fills an accumulator with the learners of a batch, one episode per environment.

    Movement and deaths count at the mech's position, damage at the position it was dealt from.
    """

    def __init__(self, env: Any, heat: SpatialAccumulator) -> None:
        self.heat = heat
        self._env = env
        self._learns = env.rows.row_of.cpu().numpy() >= 0
        self._running = np.ones(env.sizes.num_envs, bool)

    def begin(self) -> None:
        self._running[:] = True

    def after_step(self) -> None:
        env, batch = self._env, self._env.engine.batch
        acted = env.results.acting.cpu().numpy() & self._learns & self._running[:, None]
        position = batch.numpy("pos")[acted]
        size = batch.numpy("size")[np.nonzero(acted)[0]]
        x, y, world = position[:, 0], position[:, 1], (size[:, 0], size[:, 1])
        self.heat.record_position(x, y, world)
        self.heat.record_damage(x, y, batch.numpy("dealt")[acted], world)
        died = batch.numpy("died")[acted] != 0
        self.heat.record_death(x[died], y[died], (size[died, 0], size[died, 1]))
        self._running &= ~env.results.over.cpu().numpy()


def save_heat(heat: SpatialAccumulator, path: Path) -> None:
    """Write the maps to ``path``, atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic_write(path, save({kind: getattr(heat, name) for kind, name in ARRAYS.items()}), durable=False)


def load_heat(path: Path) -> SpatialAccumulator:
    """Return what ``save_heat`` wrote; raise ``ValueError`` naming the file if it has no heat maps."""
    grids = read_heat(path)
    heat = SpatialAccumulator(len(grids["deaths"]))
    for kind, grid in grids.items():
        getattr(heat, ARRAYS[kind])[:] = grid
    return heat
