"""The parts of ``just gpu``, rehearsed on a CPU: one that was killed or ended early continues where it was."""

from __future__ import annotations

import itertools
import json
import sys
from functools import partial

import pytest

from docs.results import figures
from echelon.bench import scenes
from echelon.telemetry.events import EventResume, EventUpdate
from echelon.training.batch_options import Maps
from tests.bench import gpu

SMALL = (
    "num_envs=4 bank_maps=2 bank_spare=1 bank_refresh_every=0 env.world.size_x=40 env.world.size_y=40 eval.seeds=2"
    " env.max_episode_seconds=3 threads=1 ppo.rollout_steps=8 ppo.num_minibatches=2 ppo.capture=false"
    " model.hidden_dim=16 model.lstm_hidden_dim=16"
)
TESTS = """
import pytest
pytestmark = pytest.mark.gpu
def test_first(): pass
def test_second(): assert {second}
"""


def results(folder, part: str) -> dict[tuple[str, str], float]:
    """Return the values of a part's file, which the results of the documents could have."""
    content = json.loads((folder / f"gpu-{part}.json").read_text(encoding="utf-8"))
    assert content["defaults"].keys() == figures.DEFAULTS
    assert all(figures.RESULT <= row.keys() <= figures.RESULT | figures.DEFAULTS for row in content["results"])
    return {(row["row"], row["column"]): row["value"] for row in content["results"]}


def test_part_begins_no_task_that_would_end_too_late(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(gpu.time, "monotonic", lambda: now[0])
    deadline, began = gpu.Deadline(8.0), []
    for now[0] in (0.0, 120.0, 240.0, 370.0):
        began.append(deadline.allows())
    assert began == [True, True, True, False], "110 s are left, and the last task took 130"
    assert gpu.Deadline(0.0).allows(), "a part has its first task however long"


def test_every_arm_is_a_configuration_and_ends_with_its_minutes():
    options = gpu.parser().parse_args(["arms", "folder"])
    for name, phases in gpu.ARMS.items():
        assert not phases[-1].is_over(1e9, 10**6, 4.0), name
        assert all(gpu.config_of(phase, options).max_minutes == 4.0 for phase in phases)
    first, *_, last = (gpu.config_of(phase, options) for phase in gpu.ARMS["recipe"])
    assert first.max_updates * first.teacher.imitation == gpu.IMITATION_UPDATES and last.ppo.rollout_steps == 64


@pytest.mark.long
def test_killed_arm_continues_and_a_finished_one_is_left_alone(tmp_path, monkeypatch):
    changes = [word for change in SMALL.split() for word in ("--set", change)]
    monkeypatch.setattr(gpu, "IMITATION_UPDATES", 10)
    arguments = ["arms", str(tmp_path), "recipe", "--device", "cpu", "--arm-minutes", "0.2", *changes]
    seen, follow, kill_at = [], gpu.Arm._follow, [gpu.IMITATION_UPDATES + 3]
    clock = itertools.count(1)
    monkeypatch.setitem(gpu.ARMS, "recipe", gpu.recipe(*gpu.THIRDS))
    monkeypatch.setattr(gpu, "run", partial(gpu.run, clock=lambda: 0.4 * next(clock)))

    def watched(arm, event):
        follow(arm, event)
        if isinstance(event, (EventUpdate, EventResume)):
            seen.append((type(event), event.update))
        if kill_at and seen[-1:] == [(EventUpdate, kill_at[0])]:
            kill_at.clear()
            raise KeyboardInterrupt

    monkeypatch.setattr(gpu.Arm, "_follow", watched)
    with pytest.raises(KeyboardInterrupt):
        gpu.main(arguments)
    killed = len(seen)
    assert gpu.main(arguments) == 0
    assert seen[killed] == (EventResume, gpu.IMITATION_UPDATES), "from the end of the imitation"
    found = results(tmp_path, "arms")
    assert found["recipe", "updates"] == seen[-1][1] > 13 and 0 <= found["recipe", "expert, mean"] <= 100
    trained = len(seen)
    assert gpu.main(arguments) == 0 and len(seen) == trained


@pytest.mark.long
def test_scenes_are_measured_once_each(tmp_path, monkeypatch):
    for name in ("WARM_STEPS", "MEASURED_STEPS", "TIMED_STEPS"):
        monkeypatch.setattr(scenes, name, 1)
    monkeypatch.setattr(scenes, "Maps", lambda count: Maps(1))
    arguments = ["scenes", str(tmp_path), "sim-blind", "--device", "cpu", "--envs", "1"]
    assert gpu.main(arguments) == 0
    (speed,) = results(tmp_path, "scenes").values()
    assert gpu.main([*arguments, "2"]) == 0
    found = results(tmp_path, "scenes")
    assert list(found) == [("sim-blind", "1 environments"), ("sim-blind", "2 environments")]
    assert found["sim-blind", "1 environments"] == speed > 0


@pytest.mark.long
def test_parity_repeats_what_failed(tmp_path, capsys):
    file = tmp_path / "test_some.py"

    def outcome(second: str) -> tuple[int, list[float], str]:
        file.write_text(TESTS.format(second=second), encoding="utf-8")
        for name in [name for name in sys.modules if name.endswith(file.stem)]:
            del sys.modules[name]
        code = gpu.main(["parity", str(tmp_path), str(file)])
        return code, list(results(tmp_path, "parity").values()), capsys.readouterr().out

    assert outcome("False")[:2] == (1, [1.0, 0.0])
    code, passed, shown = outcome("True")
    assert (code, passed) == (0, [1.0, 1.0]) and "1 passed" in shown
    assert outcome("(")[0] == 1, "a file that cannot be collected is a failure"
