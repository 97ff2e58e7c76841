"""Stable-Baselines3: its PPO on a benchmark task, through a `VecEnv` over `echelon.make_vec`.

pip install "stable-baselines3>=2.9,<3"
python examples/sb3_ppo.py --task 5v5-trivial-v1 --steps 500000
"""

import sys
import time
from argparse import ArgumentDefaultsHelpFormatter, ArgumentParser
from functools import partial
from typing import Any

import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import VecEnv

import echelon


class EchelonVecEnv(VecEnv):
    """The mechs of a team as the environments of a `VecEnv`, which resets in the step that ends a battle too."""

    def __init__(self, task: str, battles: int, seed: int, **options: Any) -> None:
        self.envs = echelon.make_vec(task, battles=battles, seed=seed, **options)
        self._actions = np.zeros(self.envs.action_space.shape, np.float32)
        self.acted, self.won = 0, []
        super().__init__(self.envs.num_envs, self.envs.single_observation_space, self.envs.single_action_space)

    def reset(self) -> np.ndarray:
        """Begin all battles."""
        return self.envs.reset()[0]

    def step_async(self, actions: np.ndarray) -> None:
        """Keep the actions for `step_wait`."""
        self._actions = actions

    def step_wait(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        """Play a step; the time limit of a battle is an end, so `TimeLimit.truncated` is never set."""
        observations, rewards, terminated, truncated, infos = self.envs.step(self._actions)
        self.acted += int(infos["acted"].sum())
        details: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for n in np.flatnonzero(infos["_outcome"]):
            details[n] = {"terminal_observation": infos["final_obs"][n], "is_success": infos["outcome"][n] == 1}
            self.won.append(details[n]["is_success"])
        return observations, rewards, terminated | truncated, details

    def close(self) -> None:
        """Release the simulator."""
        self.envs.close()

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """Return an attribute once for every environment."""
        return [getattr(self.envs, attr_name, None)] * self.num_envs

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Set an attribute of the batch."""
        setattr(self.envs, attr_name, value)

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> list[Any]:
        """Call a method of the batch once, such as `set_curriculum`."""
        return [getattr(self.envs, method_name)(*args, **kwargs)]

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        """Return False for every environment."""
        return [False] * self.num_envs


parser = ArgumentParser(description=__doc__, formatter_class=ArgumentDefaultsHelpFormatter)
parser.add_argument("--task", default="5v5-trivial-v1", help="benchmark task (docs/tasks.md)")
parser.add_argument("--seed", type=int, default=0, help="seed of environment and learner")
parser.add_argument("--steps", type=int, default=500_000, help="steps of living mechs")
parser.add_argument("--battles", type=int, default=32)
parser.add_argument("--rollout", type=int, default=64, help="environment steps between updates")
parser.add_argument("--eval-seeds", type=int, default=100, help="held-out seeds, each from both sides")
options = parser.parse_args()

torch.set_num_threads(1)
envs = EchelonVecEnv(options.task, options.battles, options.seed, threads=1)
model = PPO(
    "MlpPolicy", envs, learning_rate=lambda _: 1e-3 * max(0.0, 1 - envs.acted / options.steps), n_steps=options.rollout,
    batch_size=options.rollout * envs.num_envs // 8, n_epochs=2, ent_coef=0.001, vf_coef=0.25, seed=options.seed,
    policy_kwargs={"net_arch": [128, 128], "log_std_init": -0.5}, device="cpu",
)  # fmt: skip
began = time.time()
model.learn(sys.maxsize, callback=lambda *_: envs.acted < options.steps)  # else it counts steps of the dead
seconds = time.time() - began
print(f"win rate of training, last 1,000 mechs: {np.mean(envs.won[-1000:]) if envs.won else float('nan'):.0%}")
envs.close()


def act(observations: np.ndarray, first: np.ndarray, actions: str) -> np.ndarray:
    """Return mean or sampled actions [N, A]."""
    return model.predict(observations, deterministic=actions == "mean")[0]


opponent = echelon.TASKS[options.task].opponent
for actions in ("mean", "sampled"):
    stats = echelon.evaluate(partial(act, actions=actions), opponent, env=options.task, seeds=options.eval_seeds)
    print(
        f"against {opponent}: {stats.win_rate:.1%} wins (95 % interval {stats.win_low:.0%} to {stats.win_high:.0%}),"
        f" {actions} actions, after {envs.acted:,} agent-steps, {seconds:.0f} s"
    )
