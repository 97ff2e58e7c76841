"""Matches of ``hard`` pilots on every biome: no faulty states, and most deaths are caused by the enemy."""

from __future__ import annotations

import pytest

from echelon.config import EnvConfig
from echelon.gen.biomes import BIOMES
from tests.laws.detectors import Faults, cases_of, play_and_detect

QUICK, MANY = 20, 200
KINDS = (*BIOMES, "")
"""Every biome alone, and maps of four biomes as in matches."""


@pytest.fixture(scope="module")
def few() -> Faults:
    return play_and_detect(EnvConfig(), cases_of(KINDS, QUICK, first_seed=4000), "hard")


@pytest.fixture(scope="module")
def many() -> Faults:
    return play_and_detect(EnvConfig(), cases_of(KINDS, MANY, first_seed=1000), "hard")


def check_no_faults(found: Faults, kind: str) -> None:
    faults = found.of(kind)
    assert not faults, f"{len(faults)} in {found.matches} matches:\n" + "\n".join(map(str, faults[:20]))


FAULT_KINDS = ["stuck", "astray", "floating", "overlapping"]


@pytest.mark.parametrize("kind", FAULT_KINDS)
def test_no_mech_is_in_a_faulty_state(few, kind):
    check_no_faults(few, kind)


def test_most_deaths_are_caused_by_enemy_fire(few):
    assert sum(few.causes.values()) > 20 and few.share_by_enemy >= 0.8, few.causes


def test_every_weapon_and_device_is_used_in_20_matches(few):
    assert few.unused() == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", FAULT_KINDS)
def test_no_mech_is_in_a_faulty_state_in_200_matches(many, kind):
    check_no_faults(many, kind)


@pytest.mark.slow
def test_most_deaths_are_caused_by_enemy_fire_in_200_matches(many):
    assert many.share_by_enemy >= 0.8, many.causes


@pytest.mark.slow
def test_every_weapon_and_device_is_used_in_200_matches(many):
    assert many.unused() == []
