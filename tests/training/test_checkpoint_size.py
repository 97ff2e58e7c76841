"""Bytes of a checkpoint per environment."""

from __future__ import annotations

from dataclasses import replace
from unittest import mock

import torch

from echelon.config import presets
from echelon.training import session as sessions
from tests.device_rules import device_rules

ENVS, OF_POLICIES = 8, 2
"""Environments that are measured, and those of them with a snapshot as opponent: its share in the mix."""


def test_checkpoint_of_2048_environments_of_the_gpu_preset_is_below_60_mb(tmp_path):
    """Computed from eight in mid-battle, recurrent states of noise, moments and all snapshots."""
    run = replace(presets.gpu(), device="cpu", num_envs=ENVS, bank_maps=4, bank_spare=1, bank_refresh_every=0)
    run = replace(run, ppo=replace(run.ppo, rollout_steps=2, num_minibatches=2))
    narrow = mock.patch.object(sessions, "observation_dtype", lambda *_: torch.bfloat16)
    with device_rules(), narrow, sessions.Session(run, tmp_path) as session:
        session.begin()
        opponents, pilots = session.opponents, session.env.pilots
        opponents.amp = True
        opponents.names = ["past:0"] * OF_POLICIES + ["heuristic:expert"] * (ENVS - OF_POLICIES)
        opponents._assign()
        pilots.set_teacher("expert")
        for _ in range(100):
            pilots.label()
            session.env.step()
        assert 0.2 < session.env.results.alive.float().mean() < 0.9, "battles have neither just begun nor ended"
        assert opponents._state is not None
        for state in (session.collector.actor.state, opponents._state):
            state.h.normal_()
        sizes = {name: row["size"] for name, row in session.save().manifest["files"].items()}
        recurrent = sum(part.nbytes for part in opponents.state_dict()["recurrent"])
    per_env = (sizes["env.safetensors"] + sizes["carry.safetensors"] + recurrent) / ENVS
    fixed = sizes["model.safetensors"] * (3 + run.opponents.past_keep)
    assert recurrent > 0 and 2048 * per_env + fixed < 60e6, f"{per_env:.0f} bytes per environment and {fixed} besides"
    print(f"{per_env:.0f} bytes per environment and {fixed} besides: {2048 * per_env + fixed:.3g}")
