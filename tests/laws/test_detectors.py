"""Matches of ``hard`` pilots on every biome: no faulty states, and most deaths are caused by the enemy."""

import pytest

from echelon.config import EnvConfig
from echelon.gen.biomes import BIOMES
from tests.laws.detectors import Faults, cases_of, play_and_detect

QUICK, MANY = (20, 4000), (200, 1000)
"""Matches, and the seed of the first."""
KINDS = (*BIOMES, "")
"""Every biome alone, and maps of four biomes as in matches."""


@pytest.fixture(scope="module", params=[QUICK, pytest.param(MANY, marks=pytest.mark.slow)], ids=str)
def found(request: pytest.FixtureRequest) -> Faults:
    matches, first_seed = request.param
    return play_and_detect(EnvConfig(), cases_of(KINDS, matches, first_seed), "hard")


@pytest.mark.parametrize("kind", ["stuck", "astray", "floating", "overlapping"])
def test_no_mech_is_in_a_faulty_state(found, kind):
    faults = found.of(kind)
    assert not faults, f"{len(faults)} in {found.matches} matches:\n" + "\n".join(map(str, faults[:20]))


def test_most_deaths_are_caused_by_enemy_fire(found):
    assert sum(found.causes.values()) > found.matches and found.share_by_enemy >= 0.8, found.causes


def test_every_weapon_and_device_is_used(found):
    assert found.unused() == []
