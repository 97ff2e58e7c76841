"""Benchmark scenes run and report their results; speed is asserted only with the marker bench."""

from dataclasses import replace

import pytest

from echelon.bench import Setting, learner, scenes, startup
from echelon.bench.phases import rows, sums_by_prefix
from echelon.config import WorldConfig
from echelon.config.presets import gpu
from echelon.training.batch_options import Maps
from echelon_cli.help import help_of
from tests.bench import dashboard, league, learning
from tests.bench.__main__ import CUDA_ENVS, SCENES


def test_sums_by_prefix_add_up_dotted_names():
    given = {"tick.move.a": 1.0, "tick.move.b": 2.0, "tick.fire": 4.0}
    assert sums_by_prefix(given) == {"tick": 7.0, "tick.move": 3.0, **given}


def test_rows_nest_children_and_drop_small_shares():
    shown = rows({"a.x": 50.0, "a.y": 30.0, "b": 19.9, "c": 0.1})
    assert [label for label, _, _ in shown] == ["a", "  x", "  y", "b"]
    assert shown[0][1:] == (80.0, pytest.approx(0.8))


def test_every_scene_is_described_also_without_docstrings(monkeypatch):
    for name, scene in scenes.SCENES.items():
        shown = (help_of(scene) or "").strip().partition("\n")[0]
        monkeypatch.setattr(scene, "__doc__", None)  # as `python -OO` does
        assert shown and (help_of(scene) or "").partition("\n")[0] == shown, name


MEASURED = ("sim-blind", "observation", "reset", "maps")
MEASURED_LONG = ("rays", "league-history")


@pytest.fixture(autouse=True)
def _small_scenes(monkeypatch):
    """Few steps on one map; no scene waits for its 64 maps. Scenes of the project are added."""
    monkeypatch.setattr(scenes, "SCENES", {**scenes.SCENES, **SCENES})
    monkeypatch.setattr(scenes, "CUDA_ENVS", CUDA_ENVS)
    for module, names in ((scenes, ("WARM_STEPS", "MEASURED_STEPS", "TIMED_STEPS")), (startup, ("MEASURED_RESETS",))):
        for name in names:
            monkeypatch.setattr(module, name, 1)
    for module in (scenes, startup):
        monkeypatch.setattr(module, "Maps", lambda count: Maps(1))


@pytest.mark.parametrize("name", [*MEASURED, *(pytest.param(name, marks=pytest.mark.long) for name in MEASURED_LONG)])
def test_scene_reports_positive_rate(name, monkeypatch):
    monkeypatch.setattr(startup, "MEASURED_MAPS", 1)
    (result,) = scenes.run_scenes([name], repeats=2)
    assert result["scene"] == name and result["min_per_s"] <= result["median_per_s"] <= result["max_per_s"]
    assert result["median_per_s"] > 0


def test_simulator_scene_reports_phases():
    (result,) = scenes.run_scenes(["sim-5v5"], repeats=1)
    phases = {"tick.movement.move", "tick.weapons.fire_weapons", "sensing.sense_sight", "pilots.steer"}
    assert phases <= result["phases_ms"].keys()
    assert 0.0 <= result["dead_share"] < 1.0


@pytest.mark.long
def test_training_scenes_of_a_gpu_play_against_a_full_pool_of_snapshots(monkeypatch):
    small = gpu()
    small = replace(small, device="cpu", num_envs=2, bank_maps=2, bank_refresh_maps=1, bank_spare=1)
    small = replace(small, env=replace(small.env, world=WorldConfig(size_x=40, size_y=40)))
    monkeypatch.setattr(learner, "config_of", lambda setting: small)
    with learner.start_session(setting=Setting("cuda:0", 2)) as session:
        assert len(session.source.snapshots) == small.opponents.past_keep
        assert session.opponents.names != ["", ""]


def test_settings_are_those_of_the_device():
    assert scenes.settings_of("sim-5v5", "cuda:0") == [Setting("cuda:0", 4096), Setting("cuda:0", 16384)]
    assert scenes.settings_of("train", "cpu", [8]) == [Setting("cpu", 8)] and scenes.settings_of("maps", "cpu")
    assert {"sim-5v5", "train", "league-4"} <= set(scenes.scenes_on("cuda:0")) < set(scenes.scenes_on("cpu"))
    for policies in ("chunk", "league-20", "league-opponents"):
        assert [setting.device for setting in scenes.settings_of(policies, "cuda:0")] == ["cuda:0"] * 2


@pytest.mark.long
@pytest.mark.parametrize(("name", "envs"), [("league-opponents", 2), ("chunk", 4), ("league-20", 2)])
def test_scene_of_policies_takes_a_number_of_environments(name, envs, monkeypatch):
    monkeypatch.setattr(learning, "CHUNK_REPEATS", 1)
    monkeypatch.setattr(league, "MATCHES", 128)
    (result,) = scenes.run_scenes([name], repeats=1, envs=[envs])
    assert result["envs"] == envs and result["median_per_s"] > 0


@pytest.mark.parametrize(("device", "envs", "option"), [("cuda:0", (), "device 'cuda:0'"), ("cpu", (8,), "envs")])
def test_scene_that_runs_on_the_cpu_alone_refuses_other_settings(device, envs, option):
    with pytest.raises(ValueError, match=f"scene 'maps' takes no {option}, expected one of: sim-5v5"):
        scenes.settings_of("maps", device, envs)


def test_processes_are_counted_up_to_the_cores():
    assert [scenes.process_counts(n) for n in (1, 2, 6)] == [[1], [1, 2], [1, 2, 4, 6]]


@pytest.mark.bench
def test_scaling_scene_measures_pinned_processes():
    (result,) = scenes.run_scenes(["scaling"], repeats=1)
    assert result["processes_1"] > 0 and 0 < result["efficiency"] and result["unit"] == "agent-steps"


def test_warm_up_reports_kernel_compilation():
    reports: list[str] = []
    scenes.warm_up(reports.append)
    counts = [text.rpartition(", ")[2] for text in reports if text.startswith("compiling kernels")]
    done, total = zip(*((int(n) for n in text.split(" of ")) for text in counts), strict=True)
    assert list(done) == sorted(done) and done[-1] == total[-1] >= 20


@pytest.mark.slow
def test_cold_kernel_compilation_takes_at_most_a_minute():
    with startup.compile_kernels() as measure:
        result = measure()
    assert result["modules"] >= 20 and result["seconds"] <= 60


@pytest.mark.parametrize(
    "name", ["dash-first", *(pytest.param(name, marks=pytest.mark.long) for name in ("dash-live", "dash-long"))]
)
def test_dashboard_scene_measures_real_dashboard(name, monkeypatch):
    for constant, value in {"RUNS": 3, "UPDATES": 60, "LONG_UPDATES": 2000, "LIVE_UPDATES": 3}.items():
        monkeypatch.setattr(dashboard, constant, value)
    (result,) = scenes.run_scenes([name], repeats=1)
    assert result["median_per_s"] > 0
    if name == "dash-live":
        assert result["bytes_at_rest"] == 0 and 0 < result["cpu_share"] < 1
    if name == "dash-long":
        assert result["newest_state_s"] < 2 * 2000 / result["median_per_s"]


@pytest.mark.bench
def test_chunk_scoring_is_three_times_faster_than_stepwise():
    (result,) = scenes.run_scenes(["chunk"], repeats=3)
    assert result["speedup"] >= 3.0
