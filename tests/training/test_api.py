"""The Python API: programs of docs/api.md run; ``PolicyAgent`` and added reward terms."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import numpy as np
import pytest
import torch

from echelon.config import EnvConfig, ModelConfig, WorldConfig
from echelon.env import reward
from echelon.env.reward import Term, term_zone
from echelon.rl.build import build_model
from echelon.training.batch_options import Maps, Pilots, Sides
from echelon.training.policy_agent import PolicyAgent, env_config_of
from echelon.training.vec_env import VectorEnv

PAGE = Path(__file__).resolve().parents[2] / "docs" / "api.md"
PROGRAMS = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


def policy():
    torch.manual_seed(0)
    return build_model(ModelConfig(kind="classic", hidden_dim=8, lstm_hidden_dim=8, init_log_std=-0.5), 6, 4)


@pytest.mark.long
def test_programs_of_api_page_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    outputs = []
    for number, program in enumerate(PROGRAMS):
        path = tmp_path / f"program_{number}.py"
        path.write_text(program, encoding="utf-8")
        runpy.run_path(str(path))
        outputs.append(capsys.readouterr().out)
    trained, played, evaluated, table, curriculum, zone_rewards = outputs
    assert "past:0" in trained and "completed" in trained
    assert re.search(r"hit points left: [\[{(]", played), played
    assert evaluated.count("95 % interval") == 2 and "trivial" in evaluated
    assert table.startswith("[100] [0.25] [")
    assert "'heat', 'paint'" in curriculum and "'missiles'" in curriculum, curriculum
    assert "0.25" in zone_rewards


def test_policy_agent_keeps_state_per_agent_and_resets():
    rng = np.random.default_rng(0)
    observations_by_step = [{name: rng.normal(size=6).astype(np.float32) for name in ("a", "b")} for _ in range(4)]
    shared, single = PolicyAgent(policy()), PolicyAgent(policy())
    for step, observations in enumerate(observations_by_step):
        both = shared.act(observations)
        one = single.act({"b": observations["b"]})
        np.testing.assert_allclose(both["b"], one["b"], atol=1e-6)
        assert both["a"].dtype == np.float32 and both["a"].shape == (4,)
        if step == 0:
            first = both
    again = shared.act(observations_by_step[0])
    assert not np.allclose(again["a"], first["a"]), "actions depend on the recurrent state"
    shared.reset()
    np.testing.assert_array_equal(shared.act(observations_by_step[0])["a"], first["a"])
    assert shared.act({}) == {}


def test_stochastic_policy_agent_is_reproducible_by_seed():
    observations = {"a": np.zeros(6, np.float32)}
    first, second, other = (PolicyAgent(policy(), deterministic=False, seed=s).act(observations) for s in (1, 1, 2))
    np.testing.assert_array_equal(first["a"], second["a"])
    assert not np.array_equal(first["a"], other["a"])


def test_env_config_of_rejects_metadata_without_environment():
    with pytest.raises(ValueError, match="does not describe its environment"):
        env_config_of({})


def test_added_reward_term_is_weighted_and_reported():
    cfg = EnvConfig(world=WorldConfig(size_x=30, size_y=30, size_z=16))
    presence = Term("presence", term_zone, weight=3.0)
    with pytest.raises(ValueError, match="'presence' exists already"):
        reward.term_names((*reward.TERMS, presence, presence))
    options = {"maps": Maps(1), "pilots": Pilots("easy"), "terms": (*reward.TERMS, presence)}
    with VectorEnv(2, cfg, sides=Sides("none"), **options) as env:
        env.reset()
        zone_rewards, results = torch.zeros(2), env.results
        for _ in range(60):
            env.step()
            zone = results.terms[..., results.names.index("zone")] / cfg.reward.zone
            measured = results.terms[..., results.names.index("presence")] / 3.0
            torch.testing.assert_close(measured, zone, rtol=1e-5, atol=1e-7)
            torch.testing.assert_close(results.rewards, results.terms.sum(-1), rtol=1e-4, atol=1e-5)
            zone_rewards += zone.sum(1)
        assert (zone_rewards > 0).any(), "a mech stood in the zone"
