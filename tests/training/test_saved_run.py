"""A run folder saved by earlier code opens and resumes, exactly while the game is the same.

The folder is not renewed: ``fixtures/README.md`` says how it was made, and why it stays. Losses depend on the game, so
they are compared only while golden battles and simulation version are those of ``fixtures/saved_run_game.json``.
"""

from __future__ import annotations

import hashlib
import json
import math
import shutil
from functools import partial
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from echelon.config import RunConfig
from echelon.env import reward
from echelon.rl.checkpoint import latest_valid
from echelon.rl.weights import load_policy
from echelon.telemetry.events import EventResume, EventUpdate
from echelon.training import env_config_of, loop
from echelon.training.evaluation import MakeEnv
from echelon.training.vec_env import VectorEnv
from echelon.version import SIM_VERSION
from tests.golden import FOLDER
from tests.training.test_engine_state import term_added

SAVED_RUN = Path(__file__).parent / "fixtures" / "saved_run"
SAVED_GAME = SAVED_RUN.with_name("saved_run_game.json")
"""Simulation version of the game that the run was saved with, and sha256 of its golden battles and worlds."""
SAVED_RUN_ID = "20260101-000000-quickstart-hollow-quail"
SAVED_UPDATE = 2
ADVICE = (
    "resuming is no longer exact; if battles were meant to change, run `just golden` first, after which losses are not "
    "compared (CONTRIBUTING.md, A change that alters battles); a new reward term or option must default to no effect"
)


def game() -> dict[str, object]:
    """Return the version, and the sha256 of the golden battles and worlds, which change only with it."""
    golden = json.loads((FOLDER / "battles.json").read_text(encoding="utf-8"))
    found = hashlib.sha256(json.dumps(golden, sort_keys=True).encode()).hexdigest()
    return {"sim_version": SIM_VERSION, "sha256": found}


of_the_same_game = pytest.mark.skipif(
    game() != json.loads(SAVED_GAME.read_text(encoding="utf-8")),
    reason="the game is not the one that the run was saved with: only opening and resuming are tested",
)


@pytest.fixture
def saved_run(tmp_path: Path) -> Path:
    """Return a writable copy of the run folder, whose checkpoint is of update 2."""
    return Path(shutil.copytree(SAVED_RUN, tmp_path / SAVED_RUN_ID))


def test_saved_checkpoint_opens_and_loads(saved_run):
    found = latest_valid(saved_run / "checkpoints")
    assert found.checkpoint is not None and found.notices == ()
    assert found.checkpoint.manifest["update"] == SAVED_UPDATE
    assert found.checkpoint.state().keys() == {
        "trainer", "counters", "window", "rng", "curriculum", "opponents", "ranks",
    }  # fmt: skip
    loaded = load_policy(saved_run)
    assert loaded.meta["kind"] == "classic" and env_config_of(loaded.meta).world.size_x == 24


@pytest.fixture(scope="module")
def resumed(tmp_path_factory) -> list[EventUpdate]:
    """The updates of the resumed run."""
    return resume(Path(shutil.copytree(SAVED_RUN, tmp_path_factory.mktemp("run") / SAVED_RUN_ID)))


def test_saved_run_resumes_and_completes(resumed):
    assert all(math.isfinite(event.loss) and math.isfinite(event.grad_norm) for event in resumed)


@of_the_same_game
def test_saved_run_resumes_with_the_losses_of_the_uninterrupted_run(resumed):
    assert_continues_exactly(resumed)
    assert "added" not in resumed[-1].reward_terms


@pytest.mark.long
@of_the_same_game
def test_saved_run_resumes_exactly_with_a_reward_term_it_lacks(saved_run):
    terms = (*reward.TERMS, reward.Term("added", term_added, weight=0.0))
    resumed = resume(saved_run, partial(VectorEnv, terms=terms))
    assert_continues_exactly(resumed)
    assert resumed[-1].reward_terms["added"] == 0.0


def resume(saved_run: Path, make_env: MakeEnv = VectorEnv) -> list[EventUpdate]:
    """Resume the saved run to its end and return its updates."""
    config = TypeAdapter(RunConfig).validate_python(json.loads((saved_run / "spec.json").read_text())["config"])
    events = []
    result = loop.run(config, events.append, lambda: 0, run_dir=saved_run, resume="latest", make_env=make_env)
    assert result.reason == "completed" and result.update == config.max_updates == 4
    assert [event.checkpoint for event in events if isinstance(event, EventResume)] == ["step-240"]
    updates = [event for event in events if isinstance(event, EventUpdate)]
    assert [event.update for event in updates] == [SAVED_UPDATE + 1, SAVED_UPDATE + 2]
    return updates


def assert_continues_exactly(resumed: list[EventUpdate]) -> None:
    """Compare the updates of a resumed run with those of the uninterrupted one."""
    lines = [json.loads(line) for line in (SAVED_RUN / "metrics.jsonl").read_text().splitlines()]
    expected = [row for row in lines if row["kind"] == "update" and row["update"] > SAVED_UPDATE]
    for event, row in zip(resumed, expected, strict=True):
        for name in ("update", "global_step", "episodes", "opponents", "maps_used"):
            assert getattr(event, name) == row[name], f"{name} differs: {ADVICE}"
        for name in ("loss", "grad_norm", "avg_return", "lr"):
            assert getattr(event, name) == pytest.approx(row[name], rel=1e-3), f"{name} differs: {ADVICE}"
        assert json.loads(json.dumps(event.curriculum)) == row["curriculum"]
