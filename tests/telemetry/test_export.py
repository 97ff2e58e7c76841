"""Exports to CSV, TensorBoard and W&B, read back."""

import csv
import math
import resource
import signal
from dataclasses import replace

import pytest

from echelon.telemetry.events import EventAlert, EventEpisodes, EventEval, EventRating, EventUpdate
from echelon.telemetry.export import rows, to_csv
from echelon.telemetry.mirrors import Wandb


def update(number: int, **facts) -> EventUpdate:
    return EventUpdate(
        update=number,
        global_step=100 * number,
        entropy=1.0 / number,
        phases_s={"env": 0.5},
        reward_terms={"damage": 3.0, "death": -1.0},
        actions={"heavy/primary": 0.25},
        curriculum={"weapon_prob": 0.5, "skill": "easy", "map_size_range": (40, 60), "reward_weights": {"zone": 0.5}},
        opponents={"past:0": 3},
        **facts,
    )


EVENTS = [
    update(1),
    EventEpisodes(
        update=1,
        global_step=100,
        count=4,
        returns_by_role={"scout": 2.5},
        by_opponent={"past:0": {"win": 3, "loss": 1, "draw": 0}},
    ),
    EventAlert(message="not a metric"),
    update(2, avg_return=7.0),
    EventEval(
        update=2, global_step=200, opponent="x", episodes=80, win_rate=0.75, seeds=[1, 2], actions={"heavy/vent": 0.1}
    ),
    EventRating(update=2, global_step=200, name="past:2", elo=123.0),
]
WANTED = {
    "train/entropy": 0.5,
    "train/avg_return": 7.0,
    "time/env": 0.5,
    "reward/damage": 3.0,
    "reward_pct/damage": 0.75,
    "reward_pct/death": 0.25,
    "actions/heavy/primary": 0.25,
    "curriculum/weapon_prob": 0.5,
    "curriculum/map_size_range/max": 60.0,
    "curriculum/reward_weights/zone": 0.5,
    "opponents/past:0/environments": 3.0,
    "eval/win_rate": 0.75,
    "eval/actions/heavy/vent": 0.1,
    "rating/elo": 123.0,
}


def test_rows_contain_finite_values_by_tag():
    exported = list(rows(EVENTS))
    assert [row.update for row in exported] == [1, 1, 2, 2, 2] and [row.global_step for row in exported][-1] == 200
    merged = {tag: value for row in exported for tag, value in row.values.items()}
    assert WANTED.items() <= merged.items()
    assert merged["train/reward_scout"] == 2.5 and merged["opponents/past:0/win_rate"] == 0.75
    assert "train/avg_return" not in exported[0].values, "NaN is not exported"
    assert all(math.isfinite(v) for v in merged.values())
    assert not [tag for tag in merged if tag.rpartition("/")[2] in ("update", "global_step", "seeds", "skill")]


def test_csv_has_one_line_per_update(tmp_path):
    assert to_csv(rows(EVENTS), tmp_path / "run.csv") == 2
    with open(tmp_path / "run.csv", newline="") as file:
        first, second = csv.DictReader(file)
    assert (first["update"], first["global_step"], first["train/avg_return"]) == ("1", "100", "")
    assert all(float(second[tag]) == value for tag, value in WANTED.items())


def test_wandb_export_writes_offline_run(tmp_path, monkeypatch):
    wandb = pytest.importorskip("wandb", reason="needs W&B: pip install 'echelon[wandb]'")
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))
    mirror = Wandb(tmp_path / "run", "p", {"seed": 1}, "offline")
    mirror.write(list(rows(EVENTS)))
    mirror.close(failed=False)
    assert wandb.run is None
    (file,) = tmp_path.rglob("*.wandb")
    content = file.read_bytes()
    assert b"train/entropy" in content and b"rating/elo" in content


def test_csv_of_too_many_metrics_is_refused_and_keeps_the_old_file(tmp_path):
    path = tmp_path / "run.csv"
    path.write_text("old")
    events = [replace(EVENTS[0], update=n, actions={f"{n}-{i}": 1.0 for i in range(100)}) for n in range(50)]
    with pytest.raises(ValueError, match=r"records have \d+ metrics, expected at most 4096"):
        to_csv(rows(events), path)
    assert path.read_text() == "old"


def test_csv_on_a_full_disk_keeps_the_old_file(tmp_path):
    path = tmp_path / "run.csv"
    path.write_text("old")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        with pytest.raises(OSError, match=r"run\.csv"):
            to_csv(rows(EVENTS), path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)
    assert path.read_text() == "old" and [each.name for each in tmp_path.iterdir()] == ["run.csv"]
