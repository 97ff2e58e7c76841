"""The first maps of a pool: the same by one process and by several, which only a pool that prefetches starts."""

from __future__ import annotations

import numpy as np
import pytest

from echelon.config import EnvConfig, WorldConfig
from echelon.training import map_pool
from echelon.training.batch_options import Maps
from echelon.training.map_pool import MapPool

CFG = EnvConfig(world=WorldConfig(size_x=28, size_y=28))
MAPS = 6


@pytest.mark.parametrize(("prefetching", "per_worker", "expected"), [(1, 2, 3), (1, 64, 0), (0, 2, 0)])
def test_first_maps_are_generated_by_processes_where_many_are_needed(
    tmp_path, monkeypatch, prefetching, per_worker, expected
):
    asked, generate = [], map_pool.generate_maps

    def counted(specs, *, workers, progress):
        asked.append(workers)
        return generate(specs, workers=min(workers, 2), progress=progress)

    monkeypatch.setenv("ECHELON_CACHE", str(tmp_path))
    monkeypatch.setattr(map_pool, "generate_maps", counted)
    monkeypatch.setattr(map_pool, "MAPS_PER_WORKER", per_worker)
    pool = MapPool(CFG, 5, Maps(MAPS, workers=prefetching), workers=4)
    pool.close()
    monkeypatch.setenv("ECHELON_CACHE", str(tmp_path / "empty"))
    alone = MapPool(CFG, 5, Maps(MAPS))
    assert asked == [expected, 0]
    np.testing.assert_array_equal(pool.bank.material, alone.bank.material)
    assert pool.bank.recipe_hashes == alone.bank.recipe_hashes
