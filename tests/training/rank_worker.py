"""One rank of the process group tests: ``python -m tests.training.rank_worker FOLDER PLAN...``.

It runs the plans one after the other, and writes the results of each to ``FOLDER/PLAN/rank-<n>.pt``.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

import torch

from echelon.config import EvalConfig, MixConfig, OpponentConfig
from echelon.config.presets import quickstart
from echelon.files import atomic_write
from echelon.jobs.leave import leave
from echelon.jobs.ranks import free_port
from echelon.rl.obs_norm import ObsNormalizer
from echelon.training import loop
from echelon.training.normalization import NORM_EPS, ReturnNormalizer, update_obs_normalizer
from echelon.training.ppo import losses as ppo_losses
from echelon.training.ppo.trainer import PPOTrainer
from echelon.training.rollout import rows_by_role
from echelon.training.runtime import process_group
from echelon.training.runtime.process_group import ProcessGroup, process_group_from_environment
from echelon.training.session import Session
from tests.training.conftest import make_small_run
from tests.training.fakes import FakeEnv


def digest(module: torch.nn.Module) -> str:
    parts = [t.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy() for t in module.state_dict().values()]
    return hashlib.sha256(b"".join(part.tobytes() for part in parts)).hexdigest()


def train(folder: Path, stop_after: int = 10**6, resume: str | None = None, bad: int = -1, run=None, **ppo):
    """Train on the fake environment; return digests of the weights after every update and other results."""
    rank, digests, events, first, merged = int(os.environ.get("RANK", "0")), [], [], [], []
    keep, keep_snapshot, pool = PPOTrainer.update, Session.snapshot, []

    def snapshot(self, *args):
        rated = keep_snapshot(self, *args)
        names = {name: digest(self.source.policy(name)) for name in self.source.snapshots}
        pool.append((self.source.level, names, {name: self.source.ratings.get(name) for name in names}))
        return rated

    def update(self, buffer, *args):
        if len(digests) == 1 and rank == bad:
            buffer.advantages[0, 0] = float("nan")
        if not first:
            merged.append(statistics(self.group))
        first.append(buffer.obs_rows[0].clone())
        result = keep(self, buffer, *args)
        digests.append(digest(self.model))
        return result

    PPOTrainer.update, Session.snapshot = update, snapshot
    stop = lambda: int(len(digests) >= stop_after)  # noqa: E731
    options = {"obs_norm": True, "ent_coef": 0.01, "target_kl": 0.5, **ppo}
    config = make_small_run(**{"total_steps": 2200, **(run or {})}, ppo=options)
    torch.set_num_threads(1)
    result = loop.run(config, events.append, stop, run_dir=folder, resume=resume, make_env=FakeEnv)
    PPOTrainer.update, Session.snapshot = keep, keep_snapshot
    return {
        "digests": digests, "first": first[0], "statistics": merged[0],
        "update": result.update, "steps": result.global_step,
        "reason": result.reason, "events": [e.kind for e in events], "episodes": result.episodes,
        "notice": next((e.message for e in events if e.kind == "resume"), ""),
        "pool": pool,
        "met": [set(e.opponents) for e in events if e.kind == "update"],
        "elo": [e.elo for e in events if e.kind == "rating"],
    }  # fmt: skip


def first_half(folder: Path):
    result = train(folder, stop_after=3)
    if os.environ["RANK"] == "0":  # before the next plan, whose port it opens
        shutil.copytree(folder / "checkpoints", folder.with_name("second half") / "checkpoints")
    return result


def joined_statistics(folder: Path):
    group = process_group_from_environment()
    group.join(torch.device("cpu"))
    found = statistics(group)
    group.close()
    return found


def statistics(group: ProcessGroup):
    """Merge the parts of one sample by rank; return the statistics of this rank."""
    obs, x, alive, roles = sample()
    rows = torch.arange(len(x)).tensor_split(group.size)[group.rank]
    returns = ReturnNormalizer(group=group)
    returns.update(x[rows])
    norm = ObsNormalizer(4)
    norm.set_normalizable(torch.tensor([True, True, False, True]))
    update_obs_normalizer(norm, obs[rows], alive[rows], group)
    lonely = ObsNormalizer(4)
    lonely.set_normalizable(torch.ones(4, dtype=torch.bool))
    update_obs_normalizer(lonely, obs, alive * group.rank, group)
    advantages, by_role = x[rows].clone(), x[rows].clone()
    ppo_losses.normalize_advantages(advantages, alive[rows], NORM_EPS, group)
    roles_of_rank = roles if group.rank else torch.zeros_like(roles)
    ppo_losses.normalize_advantages_per_role(by_role, alive[rows], rows_by_role(roles_of_rank), NORM_EPS, group)
    gradient = [torch.full((2, 2), float(group.rank)), torch.full((3,), 4.0 * group.rank)]
    group.average(gradient)
    return {
        "returns": returns.state_dict(), "obs": norm.state_dict(), "lonely": lonely.state_dict(),
        "advantages": advantages, "by_role": by_role,
        "gradient": gradient, "any": group.any(group.rank == 1), "most": group.all_max(group.rank),
        "total": group.all_sum(group.rank + 1), "from_main": group.broadcast(f"said by {group.rank}"),
        "all_of": group.all_gather(group.rank),
    }  # fmt: skip


def sample():
    """Return observations, a quantity, alive flags and roles; rows of the second half end early."""
    generator = torch.Generator().manual_seed(5)
    obs, x = torch.randn(37, 6, 4, generator=generator) * 3 + 2, torch.randn(37, 6, generator=generator) * 2 + 1
    alive = (torch.rand(37, 6, generator=generator) < 0.8).float()
    return obs, x, alive, torch.tensor([0, 0, 1, 1, 2, 2])


def mixed():
    """Return settings with opponents of every kind."""
    mix = MixConfig(scripted=1.0, past=2.0, self_play=1.0)
    return {
        "num_envs": 6, "total_steps": 3000,
        "opponents": OpponentConfig(skill="trivial", mix=mix, past_every_updates=2, past_keep=3, rating_seeds=1),
        "eval": EvalConfig(seeds=1, every_updates=2, at_start=False),
    }  # fmt: skip


def battles(folder: Path):
    """Train two updates on real battles, on the device and with the capture that the environment names."""
    preset = quickstart()
    small = replace(preset.env, world=replace(preset.env.world, size_x=40, size_y=40))
    config = replace(
        preset, env=small, num_envs=4, bank_maps=2, threads=1, max_updates=2, device=os.environ["DEVICE"],
        ppo=replace(preset.ppo, rollout_steps=32, num_minibatches=2, capture=os.environ["CAPTURE"] == "True"),
        eval=replace(preset.eval, every_updates=0, at_start=False),
    )  # fmt: skip
    digests, weights, keep = [], {}, PPOTrainer.update

    def update(self, *args):
        result = keep(self, *args)
        digests.append(digest(self.model))
        weights.update({name: value.detach().cpu().clone() for name, value in self.model.named_parameters()})
        return result

    PPOTrainer.update = update
    result = loop.run(config, lambda event: None, lambda: 0, run_dir=None)
    return {"digests": digests, "weights": weights, "update": result.update, "steps": result.global_step}


def fall_silent(folder: Path):
    """Join, and wait for the rank that the environment names, which is suspended."""
    process_group.BEAT_S = 0.02
    group = process_group_from_environment()
    group.join(torch.device("cpu"))
    group.any(False)
    if os.environ["SILENT"] == os.environ["RANK"]:
        os.kill(os.getpid(), signal.SIGSTOP)
    group.any(True)


PLANS = {
    "battles": battles,
    "train against a mix": lambda folder: train(folder, run=mixed()),
    "train": train,
    "train on ragged chunks": lambda folder: train(folder, rollout_steps=36, update_epochs=4, run={"max_updates": 2}),
    "falls silent": fall_silent,
    "first half": first_half,
    "second half": lambda folder: train(folder, resume="latest"),
    "one asks to stop": lambda folder: train(folder, stop_after=2 if os.environ["RANK"] == "1" else 10**6),
    "one goes bad": lambda folder: train(folder, bad=1, nonfinite_policy="skip"),
    "one raises": lambda folder: train(folder, bad=1),
    "statistics": joined_statistics,
}


def main(folder: Path, *plans: str) -> None:
    for plan in plans:
        (place := folder / plan).mkdir(exist_ok=True)
        # the ranks of each plan meet at a port of their own: a group that has ended may still be at its own
        if os.environ["RANK"] == "0":
            atomic_write(place / "port", str(free_port()))
        while not (place / "port").exists():
            time.sleep(0.02)
        os.environ["MASTER_PORT"] = (place / "port").read_text()
        torch.save(PLANS[plan](place), place / f"rank-{os.environ['RANK']}.pt")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
    leave(0)
