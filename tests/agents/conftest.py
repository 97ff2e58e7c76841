"""An open field with scripted pilots, which the tests of a module share."""

import pytest

from echelon.agents.heuristic import install
from tests.env.battle import Battle


@pytest.fixture(scope="module")
def field() -> Battle:
    return Battle(pilots=install)


@pytest.fixture
def duel(field: Battle) -> Battle:
    """The field after a reset: every mech is dead, and pilots remember nothing. Blue is mech 0 to 4, red 5 to 9."""
    return field.fresh()
