"""A batch accepts only values of an array's shape and element type, and one declaration per array."""

import numpy as np
import pytest
import warp as wp

from echelon.sim.backend import Launch
from echelon.sim.state import Mechs
from echelon.sim.structs import Field, array_struct, fields_of
from tests.sim.flat_field import Field5v5


@pytest.fixture(scope="module")
def batch():
    field = Field5v5()
    return field.batch


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("hp", np.ones((1, 9), np.float32), r"array 'hp' is float32 of shape \(1, 9\), expected .* \(1, 10\)"),
        ("hp", np.ones((10, 1), np.float32), r"is float32 of shape \(10, 1\), expected float32 of shape \(1, 10\)"),
        ("hp", np.ones((1, 10)), "array 'hp' is float64 of shape .*, expected float32"),
        ("pos", np.ones((1, 10), np.float32), r"expected float32 of shape \(1, 10, 3\)"),
        ("seed", [3], "array 'seed' is int64 .*, expected uint32"),
    ],
)
def test_set_rejects_other_shapes_and_types_unchanged(batch, name, values, message):
    before = batch.numpy(name).copy()
    with pytest.raises(ValueError, match=message):
        batch.set(name, values)
    assert np.array_equal(batch.numpy(name), before)


def test_set_accepts_every_array_as_numpy_returns_it(batch):
    for name in batch.fields:
        batch.set(name, batch.numpy(name).copy())


@array_struct
class Armour:
    """Declares an array that ``Mechs`` declares already."""

    hp = Field(wp.float32, "EM", "thickness")


@array_struct
class Repeated:
    """Repeats an array by reference."""

    hp = Mechs.fields["hp"]


OUTSIDE = {"hp": Field(wp.float32, "EM", "thickness")}


@pytest.mark.parametrize(
    ("fields", "owners"), [(fields_of(Armour), "Armour and Mechs"), (OUTSIDE, "Mechs and a field outside structs")]
)
def test_array_declared_twice_is_refused_unchanged(batch, fields, owners):
    before = batch["hp"]
    with pytest.raises(
        ValueError, match=f"array 'hp' is declared by {owners}; rename one of them, or repeat the field"
    ):
        batch.add_fields(fields)
    assert batch["hp"] is before


def test_constant_of_another_struct_is_refused_where_a_field_has_its_name(batch):
    with pytest.raises(ValueError, match="array 'hp' is declared by Armour and Mechs; rename one of them"):
        batch.add_constant("hp", [1.0], wp.float32)


def test_struct_that_declares_the_array_of_another_is_not_bound(batch):
    @wp.kernel
    def thicken(armour_out: Armour):
        e, m = wp.tid()
        armour_out.hp[e, m] = 1.0

    with pytest.raises(ValueError, match="array 'hp' is declared by Armour and Mechs; rename one of them"):
        batch.capture([Launch(thicken, "EM")])


def test_field_repeated_by_reference_shares_the_array(batch):
    before = batch["hp"]
    batch.add_fields(fields_of(Repeated))
    assert batch["hp"] is before and Repeated.fields["hp"].struct == "Mechs"
