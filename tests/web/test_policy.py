"""A policy as WebAssembly acts as its native program."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from echelon import champion
from echelon.rl.build import FlatPolicy
from echelon.rl.host_program import HostPolicy
from echelon.rl.weights import load_policy
from echelon.web import build
from echelon.web.policy import policy_files, policy_module
from tests.rl.policies import frozen, observations, small_policy
from tests.web.in_node import needs_node, run_in_node
from tests.web.test_simulator import match

ACT = Path(__file__).with_name("act.mjs")
STEPS, MECHS = 6, 8
TOLERANCE = 2e-5
"""Of actions and recurrent states: products are fused natively only, and sums are in another order."""


class Acted(NamedTuple):
    actions: np.ndarray
    """[T, M, A]"""
    states: np.ndarray
    """[T, mechs of the description, H]"""


def in_half_precision(policy: FlatPolicy) -> FlatPolicy:
    """Round the matrices of a policy as its file has them."""
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.copy_(parameter.half() if parameter.dim() == 2 else parameter)
    return policy


def act_in_node(folder: Path, policy: FlatPolicy, obs: torch.Tensor, steps: Sequence[dict[str, Any]]) -> Acted:
    """Let a policy act on ``obs [T, M, D]``."""
    most = obs.shape[1] + 2
    description, weights = policy_files(policy, most, "small")
    files = {
        "policy.wasm": policy_module(),
        "weights.bin": weights,
        "observations.bin": obs.numpy().tobytes(),
        "job.json": json.dumps({"description": description, "width": obs.shape[2], "steps": steps}).encode(),
    }
    for name, content in files.items():
        (folder / name).write_bytes(content)
    run_in_node(ACT, folder)
    found = np.fromfile(folder / "found.bin", np.float32).reshape(len(steps), -1)
    count = obs.shape[1] * policy.action_dim
    states = found[:, count:].reshape(len(steps), most, -1)
    return Acted(found[:, :count].reshape(*obs.shape[:2], -1), states)


def act_natively(policy: FlatPolicy, obs: torch.Tensor, mechs: Sequence[Sequence[int]]) -> Acted:
    """Return the mean actions, and the states of mechs, on ``obs [T, M, D]``; at each step only of ``mechs``."""
    acts, actions = HostPolicy(policy), torch.zeros(obs.shape[1], policy.action_dim)
    memory, found = torch.zeros(obs.shape[1], policy.lstm_hidden_dim), []
    for row, own in zip(obs, mechs, strict=True):
        acts.act_in(torch.tensor(own, dtype=torch.long), row, memory, None, actions)
        found.append((actions.numpy().copy(), memory.numpy().copy()))
    return Acted(*map(np.stack, zip(*found, strict=True)))


def assert_acts_equal(found: Acted, expected: Acted) -> None:
    np.testing.assert_allclose(found.actions, expected.actions, rtol=0, atol=TOLERANCE)
    shown = expected.states.shape[1]
    np.testing.assert_allclose(found.states[:, :shown], expected.states, rtol=0, atol=TOLERANCE)
    assert not found.states[:, shown:].any()


@needs_node
@pytest.mark.parametrize("hidden_dim", [16, 128])
def test_policy_acts_as_natively_while_mechs_die(tmp_path, hidden_dim):
    policy = in_half_precision(small_policy("hybrid mingru", hidden_dim=hidden_dim))
    obs = torch.stack([observations(MECHS, share=share) for share in np.linspace(0.0, 1.0, STEPS)])
    mechs = [[m for m in range(MECHS) if m != t and m + t < 11] for t in range(STEPS)]
    steps = [{"mechs": own} for own in mechs]
    found = act_in_node(tmp_path, policy, obs, [{"start": []} | steps[0], *steps[1:]])
    assert_acts_equal(found, act_natively(policy, obs, mechs))


@needs_node
def test_samples_are_those_of_the_distribution(tmp_path):
    policy, draws, mechs = frozen(in_half_precision(small_policy("hybrid mingru"))), 100, 40
    obs = observations(1, share=0.5).expand(draws, mechs, -1)
    steps = [{"mechs": list(range(mechs)), "start": [seed]} for seed in (*range(draws - 1), 0)]
    actions = act_in_node(tmp_path, policy, obs.contiguous(), steps).actions
    torch.manual_seed(1)
    rows = draws * mechs
    native = policy.act(
        obs[0, :1].expand(rows, -1), policy.initial_state(rows), noise=torch.randn(rows, policy.noise_dim)
    )
    drawn = native[0].numpy()
    for power in (1, 2):
        columns, expected = actions.reshape(rows, -1) ** power, drawn**power
        off = np.abs(columns.mean(0) - expected.mean(0))
        assert (off <= 5 * np.sqrt(2 / rows) * expected.std(0)).all()
    assert (actions[0] == actions[-1]).all() and (actions[0] != actions[1]).any()
    assert (drawn.std(0) > 0.1).sum() > policy.action_dim // 2, "columns vary, except those of unavailable targets"


@needs_node
def test_policy_refuses_what_does_not_fit(tmp_path):
    policy, obs = small_policy("hybrid mingru"), observations(1, MECHS, share=0.5)
    with pytest.raises(AssertionError, match="gets [0-9]+ observations and 208 action columns, expected [0-9]+ and"):
        act_in_node(tmp_path, policy, obs[..., 1:].contiguous(), [{"mechs": [0], "start": []}])


@pytest.mark.parametrize("network", ["suite", "hybrid", "mingru", "classic hybrid"])
def test_policy_without_a_program_is_refused(network):
    with pytest.raises(ValueError, match="policy 'mine' has a network .*, expected a suite model .*; try"):
        policy_files(small_policy(network), MECHS, "mine")


@pytest.mark.long
@needs_node
@pytest.mark.parametrize("game", build.GAMES)
def test_champion_acts_as_natively(tmp_path, game):
    policy = in_half_precision(load_policy(champion.FOLDER).policy)
    obs, mechs = champion_match(policy, game, 120)
    assert len(mechs[0]) > len(mechs[-1]) > 0, "some mechs die"
    steps = [{"mechs": own} for own in mechs]
    found = act_in_node(tmp_path, policy, obs, [{"start": []} | steps[0], *steps[1:]])
    assert_acts_equal(found, act_natively(policy, obs, mechs))


def champion_match(policy: FlatPolicy, game: str, steps: int) -> tuple[torch.Tensor, list[list[int]]]:
    """Return observations ``[T, M, D]`` of a match of a policy against experts, and its living mechs at each step."""
    engine = match(build.game_config(game), 11, 4, "expert", "expert")
    flown = range(engine.num_mechs // 2)
    engine.batch.numpy("script")[0, : len(flown)] = 0
    acts, memory = HostPolicy(policy), torch.zeros(engine.num_mechs, policy.lstm_hidden_dim)
    obs, mechs = [], []
    engine.run("reset")
    for _ in range(steps):
        row = torch.from_numpy(engine.batch.numpy("obs")[0].copy())
        living = [m for m in flown if engine.batch.numpy("alive")[0, m]]
        acts.act_in(torch.tensor(living), row, memory, None, torch.from_numpy(engine.batch.numpy("actions")[0]))
        engine.run("decision")
        obs.append(row)
        mechs.append(living)
    engine.close()
    return torch.stack(obs), mechs
