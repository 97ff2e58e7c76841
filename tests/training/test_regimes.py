"""Where a policy computes is asked in one place, and one factory chooses how its rollouts and updates are played."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import echelon
from echelon.rl.regime import CUDA, DEVICE, HOST, compiled, regime_of, sharing_weights
from echelon.training.ppo.graph.steps import GraphSteps
from echelon.training.ppo.graph.update import GraphUpdate
from echelon.training.ppo.host.steps import HostSteps
from echelon.training.ppo.host.update import HostUpdate
from echelon.training.session import Session
from tests.device_rules import device_rules
from tests.training.fakes import FakeEnv
from tests.training.support import N, model_of, rollout_of, trainer_of
from tests.training.test_device_rollout import session

PACKAGE = Path(echelon.__file__).parent
LEARNER = [
    *(PACKAGE / "rl").glob("*.py"),
    *(PACKAGE / "training" / "ppo").rglob("*.py"),
    *(PACKAGE / "training" / name for name in ("rollout.py", "normalization.py", "central_state.py")),
]
ASKS_DEVICE = re.compile(
    r"\.type [!=]= |\.is_cuda\b|is_compiling|is_tracing|is_available|reads_are_free|_device_rules\b"
)
"""Questions where a tensor lies or how its operations run."""
ASKS_REGIME = re.compile(r"\bregime_of\(|isinstance\([^)]*(Host|Graph)(Steps|Update)|(Host|Graph)(Steps|Update)\(")
"""Choices between the implementations of steps and minibatches."""


def files_with(pattern: re.Pattern[str]) -> set[str]:
    return {str(f.relative_to(PACKAGE)) for f in LEARNER if pattern.search(f.read_text())}


def test_device_is_asked_in_one_place():
    assert files_with(ASKS_DEVICE) == {"rl/regime.py"}


def test_a_gpu_has_the_kernels_that_start_there_and_one_warning_if_none_does(monkeypatch):
    def refuse(device):
        raise RuntimeError("Failed to find C compiler.\nmore")

    for operations_on, index in ((lambda device: ["scan"], 6), (refuse, 7)):
        monkeypatch.setitem(sys.modules, "echelon.rl.device_kernels", SimpleNamespace(operations_on=operations_on))
        monkeypatch.setattr("echelon.rl.device_kernels", sys.modules["echelon.rl.device_kernels"], raising=False)
        if operations_on is refuse:
            with pytest.warns(RuntimeWarning, match=r"^kernels of cuda:7 .*\(Failed to find C compiler\.\), "):
                assert regime_of(torch.device("cuda", index)) == CUDA
        assert regime_of(torch.device("cuda", 6)) == CUDA._replace(scan="device")
    assert compiled(CUDA._replace(scan="device", encoder="device")) == compiled(CUDA)


def test_implementations_are_chosen_in_one_factory():
    classes = {f"training/ppo/{side}/{part}.py" for side in ("host", "graph") for part in ("steps", "update")}
    chosen = {name for name in files_with(ASKS_REGIME) if name not in classes}
    assert chosen == {"rl/regime.py", "rl/build.py", "training/ppo/execution.py"}, "definition, policies, factory"


def test_factory_chooses_by_where_the_policy_computes(small_run):
    with Session(small_run(), None, FakeEnv) as s:
        assert isinstance(s.collector.steps, HostSteps) and isinstance(s.trainer.minibatch_update, HostUpdate)
    with device_rules(), session() as s:
        assert isinstance(s.collector.steps, GraphSteps) and isinstance(s.trainer.minibatch_update, GraphUpdate)
    with device_rules():
        scaled = trainer_of(model_of(), amp=True, amp_dtype="float16").minibatch_update
    assert isinstance(scaled, HostUpdate) and not scaled.skips_idle, "flags on a device know no loss scale"


def test_policy_takes_the_regime_of_its_device_and_a_twin_shares_its_weights():
    policy = model_of()
    assert policy.regime == policy.core.regime == policy.core.distribution.regime == HOST
    with device_rules():
        assert policy.to("cpu").core.regime == DEVICE
    assert policy.to("cpu").regime == HOST
    twin = sharing_weights(policy, compiled(HOST))
    assert twin.core.regime.lstm == "unrolled" and policy.core.regime == HOST
    assert all(a is b for a, b in zip(policy.parameters(), twin.parameters(), strict=True))
    trainer = trainer_of(policy)
    trainer.update(rollout_of(policy), policy.initial_state(N))
    weights = zip(policy.state_dict().values(), twin.state_dict().values(), strict=True)
    assert all(torch.equal(a, b) for a, b in weights)
