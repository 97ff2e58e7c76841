"""The same kernels on CUDA: one decision from equal state agrees with the CPU. Skipped where there is no GPU."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from echelon.config import DisplayConfig, EnvConfig, WorldConfig
from echelon.env.env import EchelonEnv
from echelon.env.layout import OPTIONAL_BLOCKS
from echelon.training.vec_env import VectorEnv

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device on this machine"),
]
SMALL = EnvConfig(world=WorldConfig(size_x=48, size_y=48), max_episode_seconds=15.0)
TOLERANCE = 1e-5
STATE = ("pos", "vel", "yaw", "hp", "leg_hp", "heat", "stability", "cooldown", "alive", "score", "material")


@pytest.mark.parametrize("layout", ["suite", "classic"])
def test_cuda_decision_matches_cpu(layout):
    cfg = replace(SMALL, obs_layout=layout)
    options = {"seeds": list(range(8)), "learners": "blue", "initial_weapon_prob": 1.0}
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
            torch.testing.assert_close(gpu.obs.cpu(), cpu.obs, rtol=TOLERANCE, atol=TOLERANCE)


def test_cuda_decision_is_captured_once():
    with VectorEnv(4, SMALL, device="cuda", learners="both") as env:
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
        env.close()
