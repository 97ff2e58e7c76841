"""PufferLib: its PuffeRL trainer on a benchmark task, through a native `PufferEnv` over `echelon.make_vec`.

The pins of PufferLib exclude those of Echelon; `just door pufferlib` makes an environment that ignores them.

python examples/pufferlib_ppo.py --task 5v5-trivial-v1 --steps 500000
"""

import tempfile
import time
from argparse import ArgumentDefaultsHelpFormatter, ArgumentParser
from typing import Any

import numpy as np
import pufferlib
import torch
from pufferlib import pufferl
from torch import nn

import echelon


class EchelonPufferEnv(pufferlib.PufferEnv):
    """The mechs of a team as the agents of a native environment, which writes into PufferLib's buffers."""

    def __init__(self, task: str, battles: int, seed: int, **options: Any) -> None:
        self.envs = echelon.make_vec(task, battles=battles, seed=seed, **options)
        self.single_observation_space = self.envs.single_observation_space
        self.single_action_space = self.envs.single_action_space
        self.num_agents = self.envs.num_envs
        self.acted, self.won = 0, []
        super().__init__()

    def reset(self, seed: int | None = None) -> tuple[np.ndarray, list[dict[str, Any]]]:
        """Begin all battles."""
        self.observations[:] = self.envs.reset(seed=seed)[0]
        return self.observations, []

    def step(self, actions: np.ndarray) -> tuple[Any, ...]:
        """Play a step; the time limit of a battle is an end."""
        observations, rewards, terminated, truncated, infos = self.envs.step(np.asarray(actions, np.float32))
        self.observations[:], self.rewards[:], self.terminals[:] = observations, rewards, terminated | truncated
        self.acted += int(infos["acted"].sum())
        ended = (infos["outcome"][infos["_outcome"]] == 1).tolist()
        self.won += ended
        return self.observations, self.rewards, self.terminals, self.truncations, [{"won": w} for w in ended]

    def close(self) -> None:
        """Release the simulator."""
        self.envs.close()


class Policy(nn.Module):
    """Separate actor and critic, a Gaussian with one deviation per action."""

    def __init__(self, env: EchelonPufferEnv) -> None:
        super().__init__()
        width, actions = env.single_observation_space.shape[0], env.single_action_space.shape[0]

        def network(outputs: int) -> nn.Sequential:
            return nn.Sequential(
                nn.Linear(width, 128), nn.Tanh(), nn.Linear(128, 128), nn.Tanh(), nn.Linear(128, outputs)
            )

        self.mean, self.value = network(actions), network(1)
        self.log_std = nn.Parameter(torch.full((actions,), -0.5))

    def forward_eval(self, observations: torch.Tensor, state: Any = None) -> tuple[torch.distributions.Normal, Any]:
        """Return action distribution and values of observations [B, D]."""
        mean = self.mean(observations)
        return torch.distributions.Normal(mean, self.log_std.exp().expand_as(mean)), self.value(observations)

    forward = forward_eval


parser = ArgumentParser(description=__doc__, formatter_class=ArgumentDefaultsHelpFormatter)
parser.add_argument("--task", default="5v5-trivial-v1", help="benchmark task (docs/tasks.md)")
parser.add_argument("--seed", type=int, default=0, help="seed of environment and learner")
parser.add_argument("--steps", type=int, default=500_000, help="rows of rollouts, those of dead mechs too")
parser.add_argument("--battles", type=int, default=32)
parser.add_argument("--rollout", type=int, default=64, help="environment steps between updates")
parser.add_argument("--eval-seeds", type=int, default=100, help="held-out seeds, each from both sides")
options = parser.parse_args()

torch.manual_seed(options.seed)
torch.set_num_threads(1)
env = EchelonPufferEnv(options.task, options.battles, options.seed, threads=1)
rows = options.rollout * env.num_agents
part = options.rollout * max(1, env.num_agents // 8)
policy = Policy(env)
config = {
    "env": options.task, "seed": options.seed, "device": "cpu", "cpu_offload": False, "torch_deterministic": True,
    "precision": "float32", "compile": False, "compile_mode": "default", "compile_fullgraph": False, "use_rnn": False,
    "total_timesteps": max(rows, options.steps // rows * rows), "batch_size": rows, "bptt_horizon": options.rollout,
    "minibatch_size": part, "max_minibatch_size": part, "update_epochs": 2, "optimizer": "adam",
    "learning_rate": 1e-3, "anneal_lr": True, "adam_beta1": 0.9, "adam_beta2": 0.999, "adam_eps": 1e-5, "gamma": 0.99,
    "gae_lambda": 0.95, "clip_coef": 0.2, "vf_coef": 0.5, "vf_clip_coef": 10.0, "max_grad_norm": 0.5,
    "ent_coef": 0.001, "vtrace_rho_clip": 1.0, "vtrace_c_clip": 1.0, "prio_alpha": 0.0, "prio_beta0": 1.0,
    "checkpoint_interval": 1_000_000, "data_dir": tempfile.mkdtemp(prefix="echelon-puffer-"),
}  # fmt: skip
trainer = pufferl.PuffeRL(config, env, policy)
trainer.print_dashboard = lambda *args, **kwargs: None
began = time.time()
while trainer.global_step < config["total_timesteps"]:
    trainer.evaluate()
    trainer.train()
    if trainer.epoch % 10 == 0:
        recent = np.mean(env.won[-1000:]) if env.won else float("nan")
        print(f"{env.acted:9,d} agent-steps  win rate of training {recent:.0%}", flush=True)
seconds = time.time() - began
trainer.close()


@torch.no_grad()
def act(observations: np.ndarray, first: np.ndarray) -> np.ndarray:
    """Return mean actions [N, A]."""
    return policy.mean(torch.from_numpy(observations)).clamp(-1, 1).numpy()


opponent = echelon.TASKS[options.task].opponent
stats = echelon.evaluate(act, opponent, env=options.task, seeds=options.eval_seeds)
print(
    f"against {opponent}: {stats.win_rate:.0%} wins (95 % interval {stats.win_low:.0%} to {stats.win_high:.0%})"
    f" after {env.acted:,} agent-steps, {seconds:.0f} s",
    flush=True,
)
