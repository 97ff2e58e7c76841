"""Falls: harmless by default, with damage under the optional landing rules."""

import numpy as np
import pytest

from echelon.sim.arsenal import Chassis
from tests.sim.flat_field import Field5v5


def drop(landing: bool, *, fallen: bool = False, hp: float = 150.0) -> tuple[Field5v5, float]:
    """Drop a medium from ten voxels until it rests; return the field and the landing speed."""
    field = Field5v5(landing=landing)
    field.place(0, Chassis.MEDIUM, 30, 30, z=11.5)
    field.put("hp", hp, 0)
    field.put("fallen", 1000 if fallen else 0, 0)
    field.tick()
    speed = 0.0
    while field["vel"][0, 0][2] < 0:
        speed = float(-field["vel"][0, 0][2])
        field.tick()
    return field, (speed + 9.81 * 0.05) * 0.98


def test_landing_is_harmless_by_default():
    field, _ = drop(False)
    assert field["stability"][0, 0] == 100.0 and field["hp"][0, 0] == 150.0


def test_landing_of_fallen_mech_damages_and_can_kill():
    hurt, speed = drop(True, fallen=True)
    assert hurt["hp"][0, 0] == pytest.approx(150 - (speed - 6), abs=1e-2)
    dead, _ = drop(True, fallen=True, hp=2.0)
    assert dead["alive"][0, 0] == 0 and dead["killer"][0, 0] == -1
    assert np.isin(dead["material"][0, 1, 30, 30], (4, 5)), "a wreck lies where it fell"
