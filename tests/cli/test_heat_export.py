"""``echelon runs heat`` and ``echelon runs export``: a run's maps and curves outside the dashboard."""

import csv
import struct

import pytest

from echelon.training.spatial import SpatialAccumulator, save_heat
from tests.cli.conftest import parsed


@pytest.fixture
def heated(ended_run):
    """A run with heat maps of two evaluations."""
    paths = ended_run("20260101-000000-quickstart-calm-fox")
    for update, x in ((0, 1.0), (4, 9.0)):
        heat = SpatialAccumulator(4)
        heat.record_position([x, x, 1.0], [9.0, 9.0, 1.0], (10, 10))
        heat.record_death(x, 1.0, (10, 10))
        save_heat(heat, paths.heat / f"u{update:06d}.safetensors")
    return paths


def test_heat_prints_newest_map_with_y_upward(echelon, heated):
    code, out, _ = echelon("runs", "heat", "fox")
    assert code == 0 and "movement at update 4" in out
    body = [line.ljust(8)[:8] for line in out.splitlines()[1:5]]
    assert body == ["      @@", "        ", "        ", "==      "]
    assert echelon("runs", "heat", "fox", "--update", "0")[1].splitlines()[1].startswith("@@")


def test_heat_writes_json_and_png(echelon, heated, tmp_path):
    printed = parsed(echelon("runs", "heat", "fox", "--kind", "deaths", "--json")[1])
    assert printed["total"] == 1.0 and printed["cells"][0] == [0, 0, 0, 1.0] and printed["update"] == 4
    assert echelon("runs", "heat", "fox", "--png", str(tmp_path / "heat.png"))[0] == 0
    raw = (tmp_path / "heat.png").read_bytes()
    assert raw[1:4] == b"PNG" and struct.unpack(">II", raw[16:24]) == (96, 96)


def test_heat_lists_available_updates(echelon, heated, ended_run):
    assert "expected one of: 0, 4" in echelon("runs", "heat", "fox", "--update", "3")[2]
    ended_run("20260102-000000-quickstart-wild-owl")
    assert "has no heat maps" in echelon("runs", "heat", "owl")[2]


def test_export_writes_csv(echelon, ended_run, tmp_path):
    ended_run("20260101-000000-quickstart-calm-fox", wins=0.6)
    printed = parsed(echelon("runs", "export", "fox", "--csv", str(tmp_path / "run.csv"), "--json")[1])
    assert printed["csv"] == {"path": str(tmp_path / "run.csv"), "lines": 2}
    with open(tmp_path / "run.csv", newline="") as file:
        *_, last = csv.DictReader(file)
    assert (last["global_step"], last["train/avg_return"], last["eval/win_rate"]) == ("400", "1.5", "0.6")
