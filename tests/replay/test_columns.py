"""Integer columns: round trip, and rejection of invalid columns and blocks."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from echelon.replay.columns import Layout, bounds, check_columns
from echelon.replay.schema import BY_RATE, COLUMNS, DTYPE_BYTES, INDEX_TABLES, TABLES

ALL_COLUMNS = [
    {"name": f"{dtype}-{predict}", "dtype": dtype, "scale": 1.0, "predict": predict, "per": "mech", "k": 1}
    for dtype in DTYPE_BYTES
    for predict in (0, 1, 2)
]
ALL_COLUMNS += [
    {**ALL_COLUMNS[0], "name": f"{dtype}-by-{rate}", "dtype": dtype, "predict": BY_RATE, "rate": rate, "gain": gain}
    for dtype, rate, gain in (("u16", "i8-1", 4), ("i8", "u16-0", -3), ("i32", "i32-2", 2**15), ("u8", "u32-1", 0))
]
"""A column of each type and predictor, and columns predicted by a rate column."""


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), rows=st.integers(1, 12), mechs=st.integers(1, 4), extreme=st.booleans())
def test_layout_round_trip(seed, rows, mechs, extreme):
    rng = np.random.default_rng(seed)
    limits = np.repeat([bounds(column["dtype"]) for column in ALL_COLUMNS], mechs, axis=0)
    values = rng.integers(limits[:, 0], limits[:, 1] + 1, (rows, len(limits)))
    if extreme:
        values = np.where(rng.random(values.shape) < 0.5, limits[:, 0], limits[:, 1])
    layout = Layout(ALL_COLUMNS, mechs)
    data = layout.encode(values)
    assert len(data) == rows * layout.row_bytes
    np.testing.assert_array_equal(layout.decode(data, rows), values)


def test_linear_values_encode_to_zeros():
    layout = Layout([{"name": "x", "dtype": "u16", "scale": 1.0, "predict": 2}])
    data = layout.encode(np.arange(100, 1100, 10).reshape(-1, 1))
    assert set(data[2:100]) == {0}


def test_position_predicted_from_rate_encodes_to_zeros():
    speed = np.array([3, -2, 0, 7, 7, -128, 127, 1])
    columns = [{**ALL_COLUMNS[0], "name": "v", "dtype": "i8"}]
    columns.insert(0, {**columns[0], "name": "x", "dtype": "u16", "predict": BY_RATE, "rate": "v", "gain": 4})
    rows = np.stack([1000 + 4 * np.append(0, speed[1:]).cumsum(), speed], axis=1)
    layout = Layout(columns, 1)
    data = layout.encode(rows)
    assert set(data[2 : 2 + len(speed) - 1]) == {0}
    np.testing.assert_array_equal(layout.decode(data, len(rows)), rows)


@pytest.mark.parametrize(
    "change", [{"rate": ""}, {"rate": "x"}, {"rate": "wide"}, {"gain": 10**9}, {"rate": "unknown"}], ids=str
)
def test_check_columns_rejects_invalid_rate(change):
    speed = {**ALL_COLUMNS[0], "name": "v", "dtype": "i8"}
    position = {**speed, "name": "x", "dtype": "u16", "predict": BY_RATE, "rate": "v", "gain": 4}
    check_columns([position, speed], frames=True)
    with pytest.raises(ValueError, match="column 'x' has no valid rate column"):
        check_columns([{**position, **change}, speed, {**speed, "name": "wide", "k": 2}], frames=True)


def test_layout_splits_columns_by_name():
    layout = Layout([column.to_header() for column in COLUMNS], 3)
    row = np.arange(layout.width).reshape(1, -1)
    parts = layout.split(row)
    assert [len(parts[name][0]) for name in ("tick", "score", "x", "cooldown")] == [1, 2, 3, 15]
    assert np.concatenate([parts[column.name][0] for column in COLUMNS]).tolist() == row[0].tolist()


@pytest.mark.parametrize("change", [-1, 1])
def test_decode_rejects_wrong_length(change):
    layout = Layout(ALL_COLUMNS, 2)
    data = layout.encode(np.zeros((3, layout.width), np.int64))
    with pytest.raises(ValueError, match="block has"):
        layout.decode(data[: len(data) + change] if change < 0 else data + b"x", 3)


def test_decode_rows_rejects_too_many_rows():
    with pytest.raises(ValueError, match="rows"):
        Layout([ALL_COLUMNS[0]]).decode_rows(b"", 2**40)


@pytest.mark.parametrize(
    "change", [{"dtype": "f4"}, {"predict": 4}, {"per": "galaxy"}, {"k": 0}, {"k": 10**9}], ids=str
)
def test_check_columns_rejects_unknown_type_or_shape(change):
    check_columns([ALL_COLUMNS[0]], frames=True)
    with pytest.raises(ValueError, match=r"column 'u8-0'"):
        check_columns([{**ALL_COLUMNS[0], **change}], frames=True)


def test_schema_column_names_are_unique():
    check_columns([column.to_header() for column in COLUMNS], frames=True)
    names = [column.name for column in COLUMNS]
    assert len(set(names)) == len(names)
    for table in (*TABLES, *INDEX_TABLES):
        check_columns([column.to_header() for column in table.columns], frames=False)
