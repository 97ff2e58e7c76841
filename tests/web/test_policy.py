"""A policy as WebAssembly acts as its native program."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

from echelon import champion
from echelon.rl.build import FlatPolicy
from echelon.rl.host_program import HostPolicy
from echelon.rl.weights import LoadedPolicy, load_policy
from echelon.web import build
from echelon.web.policy import policy_files, policy_module
from tests.rl.policies import OBS_DIM, frozen, observations, small_policy
from tests.web.in_node import needs_node, run_in_node
from tests.web.test_simulator import match

STEPS, MECHS, LIFE = 6, 8, 40
"""Of a small policy; environment steps after which a mech of the champion dies, in the middle of its match."""
TOLERANCE = 2e-5
"""Of actions and recurrent states: products are fused natively only, and sums are in another order."""


Acted = tuple[np.ndarray, np.ndarray]
"""Actions ``[T, M, A]`` and recurrent states ``[T, M, H]``."""


def in_half_precision(policy: FlatPolicy) -> FlatPolicy:
    """Round the matrices of a policy as its file has them."""
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.copy_(parameter.half() if parameter.dim() == 2 else parameter)
    return frozen(policy)


def act_in_node(
    folder: Path, policy: FlatPolicy, obs: torch.Tensor, mechs: Sequence[Sequence[int]], seeds: Sequence[int] = ()
) -> Acted:
    """Let some mechs act on each of ``obs [T, M, D]``: in one match by the mean, or in matches of the seeds."""
    description, weights = policy_files(policy, obs.shape[1] + 2, "small")
    job = {"description": description, "width": obs.shape[2], "mechs": mechs, "seeds": seeds}
    contents = {"policy.wasm": policy_module(), "weights.bin": weights, "observations.bin": obs.numpy().tobytes()}
    for name, content in (contents | {"job.json": json.dumps(job).encode()}).items():
        (folder / name).write_bytes(content)
    run_in_node(Path(__file__).with_name("act.mjs"), folder)
    steps, count, _ = obs.shape
    found = np.fromfile(folder / "found.bin", np.float32).reshape(steps, -1)
    actions, states, unused = np.split(found, np.cumsum([count * policy.action_dim, count * policy.lstm_hidden_dim]), 1)
    assert not unused.any()
    return actions.reshape(steps, count, -1), states.reshape(steps, count, -1)


def assert_acts_as_natively(folder: Path, policy: FlatPolicy, obs: torch.Tensor, mechs: list[list[int]]) -> None:
    actions, states = act_in_node(folder, policy, obs, mechs)
    acts, action = HostPolicy(policy), torch.zeros(obs.shape[1], policy.action_dim)
    memory = torch.zeros(obs.shape[1], policy.lstm_hidden_dim)
    for step, acting in enumerate(mechs):
        acts.act_in(torch.tensor(acting), obs[step], memory, None, action)
        np.testing.assert_allclose(actions[step], action, rtol=0, atol=TOLERANCE)
        np.testing.assert_allclose(states[step], memory, rtol=0, atol=TOLERANCE)


@needs_node
@pytest.mark.parametrize("hidden_dim", [16, 128])
def test_policy_acts_as_natively_while_mechs_die(tmp_path, hidden_dim):
    policy = in_half_precision(small_policy("hybrid mingru", hidden_dim=hidden_dim))
    obs = torch.stack([observations(MECHS, share=share) for share in np.linspace(0.0, 1.0, STEPS)])
    mechs = [[m for m in range(MECHS) if m != t and m + t < 11] for t in range(STEPS)]
    assert_acts_as_natively(tmp_path, policy, obs, mechs)


@needs_node
def test_samples_are_those_of_the_distribution(tmp_path):
    policy, draws, mechs = in_half_precision(small_policy("hybrid mingru")), 100, range(40)
    rows, seeds = draws * len(mechs), [*range(draws - 1), 0]
    obs = observations(1, share=0.5).repeat(draws, len(mechs), 1)
    actions, _ = act_in_node(tmp_path, policy, obs, [list(mechs)] * draws, seeds)
    torch.manual_seed(1)
    noise = torch.randn(rows, policy.noise_dim)
    drawn = policy.act(obs.flatten(0, 1), policy.initial_state(rows), noise=noise)[0].numpy()
    for power in (1, 2):
        columns, expected = actions.reshape(rows, -1) ** power, drawn**power
        off = np.abs(columns.mean(0) - expected.mean(0))
        assert (off <= 5 * np.sqrt(2 / rows) * expected.std(0)).all()
    assert (actions[0] == actions[-1]).all() and (actions[0] != actions[1]).any()
    assert (drawn.std(0) > 0.1).sum() > policy.action_dim // 2, "columns vary, except those of unavailable targets"


@needs_node
def test_observations_of_another_game_are_refused(tmp_path):
    policy, obs = small_policy("hybrid mingru"), observations(1, MECHS, share=0.5)[..., 1:].contiguous()
    message = f"gets {obs.numel()} observations and {MECHS * policy.action_dim} action columns, expected {OBS_DIM} and"
    with pytest.raises(AssertionError, match=message):
        act_in_node(tmp_path, policy, obs, [[0]])


@pytest.mark.parametrize("network", ["suite", "hybrid", "mingru", "classic hybrid"])
def test_policy_without_a_program_is_refused(network):
    with pytest.raises(ValueError, match="policy 'mine' has a network .*, expected a suite model .*; try"):
        policy_files(small_policy(network), MECHS, "mine")


def test_build_refuses_such_a_policy_before_it_compiles(tmp_path, monkeypatch):
    (tmp_path / "index.html").touch()
    monkeypatch.setattr(build, "STATIC", tmp_path)
    monkeypatch.setattr(build, "load_policy", lambda path: LoadedPolicy(small_policy("mingru"), {}))
    told = list[str]()
    with pytest.raises(ValueError, match="policy 'mine' has a network"):
        build.build(tmp_path / "page", ["5v5"], champion.FOLDER, "mine", told.append)
    assert told == ["compiling mine"]


@pytest.mark.parametrize("name", ["hard", "still"])
def test_build_refuses_the_name_of_a_scripted_pilot(tmp_path, name):
    with pytest.raises(ValueError, match=f"policy '{name}' has the name of a scripted pilot, expected another; rename"):
        build.build(tmp_path / "page", ["5v5"], champion.FOLDER, name, print)


@pytest.mark.long
@needs_node
@pytest.mark.parametrize("game", build.GAMES)
def test_champion_acts_as_natively(tmp_path, game):
    policy = in_half_precision(load_policy(champion.FOLDER).policy)
    assert_acts_as_natively(tmp_path, policy, *champion_match(policy, game))


def champion_match(policy: FlatPolicy, game: str) -> tuple[torch.Tensor, list[list[int]]]:
    """Return observations ``[T, M, D]`` of a match against experts, and the living mechs of the policy's side."""
    engine = match(build.game_config(game), 11, 4, "expert", "expert")
    flown = range(engine.num_mechs // 2)
    engine.batch.numpy("script")[0, : len(flown)] = 0
    acts, memory = HostPolicy(policy), torch.zeros(engine.num_mechs, policy.lstm_hidden_dim)
    actions, alive = (engine.batch.numpy(name)[0] for name in ("actions", "alive"))
    obs, mechs = list[torch.Tensor](), list[list[int]]()
    engine.run("reset")
    for step in range(2 * LIFE):
        alive[1] *= step < LIFE
        obs.append(torch.from_numpy(engine.batch.numpy("obs")[0].copy()))
        mechs.append([m for m in flown if alive[m]])
        acts.act_in(torch.tensor(mechs[-1]), obs[-1], memory, None, torch.from_numpy(actions))
        engine.run("decision")
    engine.close()
    return torch.stack(obs), mechs
