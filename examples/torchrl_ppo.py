"""TorchRL: its collector, GAE and clipped PPO loss on a benchmark task, through an `EnvBase` over `echelon.make_vec`.

pip install "torchrl>=0.14,<0.15"
python examples/torchrl_ppo.py --task 5v5-trivial-v1 --steps 500000
"""

import time
from argparse import ArgumentDefaultsHelpFormatter, ArgumentParser
from functools import partial
from typing import Any

import numpy as np
import torch
from tensordict import TensorDict, TensorDictBase
from tensordict.nn import NormalParamExtractor, TensorDictModule
from torch import nn
from torchrl.collectors import Collector
from torchrl.data import Bounded, Composite, Unbounded
from torchrl.envs import EnvBase
from torchrl.modules import ProbabilisticActor, TanhNormal, ValueOperator
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

import echelon


class EchelonTorchRLEnv(EnvBase):
    """The mechs of a team as a batch of environments `[N]`."""

    def __init__(self, task: str, battles: int, seed: int, **options: Any) -> None:
        self.envs = echelon.make_vec(task, battles=battles, seed=seed, **options)
        count = self.envs.num_envs
        super().__init__(batch_size=(count,))
        space = self.envs.observation_space
        self.observation_spec = Composite(
            observation=Bounded(torch.from_numpy(space.low), torch.from_numpy(space.high), space.shape),
            acted=Unbounded((count, 1), dtype=torch.bool),
            shape=(count,),
        )
        self.action_spec = Bounded(-1.0, 1.0, self.envs.action_space.shape)
        self.reward_spec = Unbounded((count, 1))
        self.acted, self.won = 0, []
        self._current = torch.zeros(space.shape)

    def _reset(self, tensordict: TensorDictBase | None = None, **kwargs: Any) -> TensorDict:
        """Begin all battles; those that ended in the last step have begun already."""
        if tensordict is None or "_reset" not in tensordict.keys():
            self._current = torch.from_numpy(self.envs.reset()[0])
        return self._row(self._current, torch.ones(self.batch_size, dtype=torch.bool))

    def _step(self, tensordict: TensorDictBase) -> TensorDict:
        """Play a step; where a battle ended the observation returned is its last one. The time limit is an end."""
        observations, rewards, terminated, truncated, infos = self.envs.step(tensordict["action"].numpy())
        self._current, ended = torch.from_numpy(observations), infos["_outcome"]
        self.acted += int(infos["acted"].sum())
        self.won += (infos["outcome"][ended] == 1).tolist()
        returned = self._current
        if ended.any():
            returned = returned.clone()
            returned[torch.from_numpy(ended)] = torch.from_numpy(np.stack(infos["final_obs"][ended]))
        row = self._row(returned, torch.from_numpy(infos["acted"]))
        row["reward"] = torch.from_numpy(rewards).unsqueeze(-1)
        row["done"] = row["terminated"] = torch.from_numpy(terminated | truncated).unsqueeze(-1)
        return row

    def _row(self, observations: torch.Tensor, acted: torch.Tensor) -> TensorDict:
        return TensorDict({"observation": observations, "acted": acted.unsqueeze(-1)}, self.batch_size)

    def _set_seed(self, seed: int | None) -> None:
        self._current = torch.from_numpy(self.envs.reset(seed=seed)[0])


parser = ArgumentParser(description=__doc__, formatter_class=ArgumentDefaultsHelpFormatter)
parser.add_argument("--task", default="5v5-trivial-v1", help="benchmark task (docs/tasks.md)")
parser.add_argument("--seed", type=int, default=0, help="seed of environment and learner")
parser.add_argument("--steps", type=int, default=500_000, help="steps of living mechs")
parser.add_argument("--battles", type=int, default=32)
parser.add_argument("--rollout", type=int, default=64, help="environment steps between updates")
parser.add_argument("--eval-seeds", type=int, default=100, help="held-out seeds, each from both sides")
options = parser.parse_args()

torch.manual_seed(options.seed)
torch.set_num_threads(1)
env = EchelonTorchRLEnv(options.task, options.battles, options.seed, threads=1)
width, actions = env.envs.single_observation_space.shape[0], env.envs.single_action_space.shape[0]


def network(outputs: int) -> nn.Sequential:
    """Return a two-layer tanh network."""
    return nn.Sequential(nn.Linear(width, 128), nn.Tanh(), nn.Linear(128, 128), nn.Tanh(), nn.Linear(128, outputs))


mean_and_scale = nn.Sequential(network(2 * actions), NormalParamExtractor(scale_mapping="biased_softplus_0.6"))
actor = ProbabilisticActor(
    TensorDictModule(mean_and_scale, in_keys=["observation"], out_keys=["loc", "scale"]), spec=env.action_spec,
    in_keys=["loc", "scale"], distribution_class=TanhNormal, return_log_prob=True,
)  # fmt: skip
critic = ValueOperator(network(1), in_keys=["observation"])
advantage = GAE(gamma=0.99, lmbda=0.95, value_network=critic)
loss_module = ClipPPOLoss(actor, critic, clip_epsilon=0.2, entropy_coeff=0.001, critic_coeff=0.25)
optimizer = torch.optim.Adam(loss_module.parameters(), lr=1e-3, eps=1e-5)
rows = options.rollout * env.envs.num_envs
collector = Collector(env, actor, frames_per_batch=rows, total_frames=-1, auto_register_policy_transforms=False)
learned, began = 0, time.time()
for update, batch in enumerate(collector):
    optimizer.param_groups[0]["lr"] = 1e-3 * (1 - learned / options.steps)
    learned = env.acted
    with torch.no_grad():
        advantage(batch)
    living = batch.reshape(-1)
    living = living[living["next", "acted"].squeeze(-1)]  # the dead have no effect on what happens
    scale = living["advantage"].std() + 1e-8
    living["advantage"] = (living["advantage"] - living["advantage"].mean()) / scale
    for _ in range(2):
        for index in torch.randperm(len(living)).chunk(8):
            losses = loss_module(living[index])
            loss = losses["loss_objective"] + losses["loss_critic"] + losses["loss_entropy"]
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(loss_module.parameters(), 0.5)
            optimizer.step()
    if update % 10 == 9:
        recent = np.mean(env.won[-1000:]) if env.won else float("nan")
        print(f"{env.acted:9,d} agent-steps  win rate of training {recent:.0%}", flush=True)
    if learned >= options.steps:
        break
seconds = time.time() - began
collector.shutdown()


@torch.no_grad()
def act(observations: np.ndarray, first: np.ndarray, actions: str) -> np.ndarray:
    """Return the actions [N, A] at the mean before tanh, or sampled ones."""
    mean, scale = mean_and_scale(torch.from_numpy(observations))
    return (mean if actions == "mean" else torch.normal(mean, scale)).tanh().numpy()


opponent = echelon.TASKS[options.task].opponent
for actions in ("mean", "sampled"):
    stats = echelon.evaluate(partial(act, actions=actions), opponent, env=options.task, seeds=options.eval_seeds)
    print(
        f"against {opponent}: {stats.win_rate:.1%} wins (95 % interval {stats.win_low:.0%} to {stats.win_high:.0%}),"
        f" {actions} actions, after {env.acted:,} agent-steps, {seconds:.0f} s"
    )
