"""An open field, which the tests of a module share."""

import pytest

from tests.sim.flat_field import Field5v5


@pytest.fixture(scope="module")
def open_field() -> Field5v5:
    return Field5v5()


@pytest.fixture
def field(open_field: Field5v5) -> Field5v5:
    """The open field after a reset, with every mech dead."""
    return open_field.fresh()
