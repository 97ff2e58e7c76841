"""CUDA against the CPU: decisions, whole battles, captured graphs, training, memory. Skipped where there is no GPU.

What needs no GPU of these runs on the CPU too: ``test_spread.py`` (layout, launches one by one), ``test_devices.py``
(functions of floats), ``test_thread_orders.py``, and in other folders ``test_process_group.py``, ``test_memory.py``,
``test_stopwatch.py`` and ``test_hardware.py`` (captured updates).
"""

from collections import Counter
from dataclasses import asdict, replace

import numpy as np
import pytest
import torch

from echelon.config import DisplayConfig, EnvConfig, WorldConfig
from echelon.config.presets import gpu
from echelon.env.env import EchelonEnv
from echelon.env.layout import OPTIONAL_BLOCKS
from echelon.jobs import worker
from echelon.jobs.spec import JobSpec, write_spec
from echelon.runs import RunPaths
from echelon.training.batch_options import Episodes, Pilots, Sides
from echelon.training.vec_env import VectorEnv
from tests.parity.test_spread import BATTLES, differing, played
from tests.training.test_process_group import trained

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device on this machine"),
]
SMALL = EnvConfig(world=WorldConfig(size_x=48, size_y=48), max_episode_seconds=15.0)
TOO_LARGE = replace(gpu(), num_envs=10**5, bank_maps=8, bank_refresh_maps=8, bank_spare=8)
TOLERANCE = 1e-5
STATE = ("pos", "vel", "yaw", "hp", "leg_hp", "heat", "stability", "cooldown", "alive", "score", "material")


@pytest.mark.parametrize("layout", ["suite", "classic"])
def test_cuda_decision_matches_cpu(layout):
    cfg = replace(SMALL, obs_layout=layout)
    options = {"episodes": Episodes(seeds=list(range(8))), "pilots": Pilots(weapon_prob=1.0)}
    with VectorEnv(8, cfg, device="cpu", **options) as cpu, VectorEnv(8, cfg, device="cuda", **options) as gpu:
        cpu.reset()
        gpu.reset()
        draws = np.random.default_rng(0)
        for _ in range(40):
            gpu.load_state_dict(cpu.state_dict())
            actions = torch.from_numpy(draws.uniform(-1, 1, tuple(cpu.actions.shape)).astype(np.float32))
            cpu.actions.copy_(actions)
            gpu.actions.copy_(actions.to(gpu.device))
            cpu.step()
            gpu.step()
            for name in STATE:
                a, b = cpu.engine.batch.numpy(name), gpu.engine.batch.numpy(name)
                np.testing.assert_allclose(b, a, rtol=TOLERANCE, atol=TOLERANCE, err_msg=name)
            torch.testing.assert_close(gpu.rows.obs[0].cpu(), cpu.rows.obs[0], rtol=TOLERANCE, atol=TOLERANCE)


def test_cuda_decision_is_captured_once():
    with VectorEnv(4, SMALL, sides=Sides("both"), device="cuda") as env:
        env.reset()
        env.step()
        runner = env.engine._runners["decision"]
        for _ in range(5):
            env.step()
        assert env.engine._runners["decision"] is runner


@pytest.mark.parametrize("extras", [{}, {block.config_field: True for block in OPTIONAL_BLOCKS}])
def test_cuda_environment_matches_cpu(extras):
    cfg = replace(SMALL, display=DisplayConfig(fill="suite" if extras else "quotas"), **extras)
    envs = [EchelonEnv(cfg, device=device) for device in ("cpu", "cuda")]
    for mine, theirs in zip(*(env.reset(seed=3)[0].values() for env in envs), strict=True):
        np.testing.assert_allclose(theirs, mine, rtol=TOLERANCE, atol=TOLERANCE)
    for env in envs:
        env.step({})


@pytest.mark.parametrize("case", BATTLES)
def test_cuda_battle_is_equal_to_the_cpu(case):
    expected, edits = played(Counter(), case=case)
    found, cuda_edits = played(Counter(), "cuda", case=case)
    assert differing(found, expected) == []
    np.testing.assert_array_equal(cuda_edits, edits)


def test_captured_cuda_battle_is_equal_to_eager_launches():
    assert differing(played(Counter(), "cuda", eager=True)[0], played(Counter(), "cuda")[0]) == []


def test_cuda_training_is_close_with_captured_updates(tmp_path):
    (captured,), (eager,) = (
        trained(tmp_path / str(capture), 1, device="cuda", capture=capture) for capture in (True, False)
    )
    assert captured["update"] == eager["update"] == 2
    for name, value in captured["weights"].items():
        torch.testing.assert_close(value, eager["weights"][name], rtol=1e-3, atol=1e-3, msg=name)


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="fewer than two CUDA devices")
def test_two_processes_on_cuda_have_equal_weights(tmp_path):
    main, other = trained(tmp_path, 2, device="cuda")
    assert main["digests"] == other["digests"] and main["update"] == 2


def test_run_that_the_gpu_cannot_hold_is_refused_with_the_option_to_lower(tmp_path):
    paths = RunPaths(tmp_path)
    write_spec(paths, JobSpec(kind="train", config=asdict(TOO_LARGE)))
    with pytest.raises(ValueError, match=r"GiB of GPU memory \(.*; try a lower ppo.rollout_steps"):
        worker.train(paths, None, None)  # type: ignore[arg-type]
