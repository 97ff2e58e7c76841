"""Matches of ``hard`` pilots on every biome: nobody is stuck, strays, floats or overlaps; the enemy is what kills."""

from __future__ import annotations

import pytest

from echelon.config import EnvConfig
from echelon.gen.biomes import BIOMES
from tests.laws.detectors import Findings, cases_of, watch_matches

QUICK, MANY = 20, 200
KINDS = (*BIOMES, "")
"""Every biome alone, and four drawn as in matches."""


@pytest.fixture(scope="module")
def few() -> Findings:
    """Twenty matches; on these maps pilots that never leave an obstacle stray twice."""
    return watch_matches(EnvConfig(), cases_of(KINDS, QUICK, first_seed=4000), "hard")


@pytest.fixture(scope="module")
def many() -> Findings:
    """Two hundred matches."""
    return watch_matches(EnvConfig(), cases_of(KINDS, MANY, first_seed=1000), "hard")


def check_nobody(found: Findings, kind: str) -> None:
    offences = found.of(kind)
    assert not offences, f"{len(offences)} in {found.matches} matches:\n" + "\n".join(map(str, offences[:20]))


OFFENCES = ["stuck", "astray", "floating", "overlapping"]


@pytest.mark.parametrize("kind", OFFENCES)
def test_no_mech_is_in_a_faulty_state(few, kind):
    check_nobody(few, kind)


def test_most_deaths_are_caused_by_enemy_fire(few):
    assert sum(few.causes.values()) > 20 and few.share_by_enemy >= 0.8, few.causes


def test_every_weapon_and_device_is_used_in_20_matches(few):
    assert few.unused() == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", OFFENCES)
def test_no_mech_is_in_a_faulty_state_in_200_matches(many, kind):
    check_nobody(many, kind)


@pytest.mark.slow
def test_most_deaths_are_caused_by_enemy_fire_in_200_matches(many):
    assert many.share_by_enemy >= 0.8, many.causes


@pytest.mark.slow
def test_every_weapon_and_device_is_used_in_200_matches(many):
    assert many.unused() == []
