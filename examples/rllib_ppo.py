"""RLlib: its PPO (new API stack) on a benchmark task, through the task's Gymnasium id alone.

pip install "ray[rllib]>=2.60,<2.61"
python examples/rllib_ppo.py --task 5v5-trivial-v1 --steps 500000
"""

import time
from argparse import ArgumentDefaultsHelpFormatter, ArgumentParser

import numpy as np
import torch
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig

import echelon
from echelon import tasks

parser = ArgumentParser(description=__doc__, formatter_class=ArgumentDefaultsHelpFormatter)
parser.add_argument("--task", default="5v5-trivial-v1", help="benchmark task (docs/tasks.md)")
parser.add_argument("--seed", type=int, default=0, help="seed of environment and learner")
parser.add_argument("--steps", type=int, default=500_000, help="rows of rollouts, those of dead mechs too")
parser.add_argument("--battles", type=int, default=32)
parser.add_argument("--rollout", type=int, default=64, help="environment steps between updates")
parser.add_argument("--eval-seeds", type=int, default=100, help="held-out seeds, each from both sides")
options = parser.parse_args()

torch.set_num_threads(1)
tasks.register()
mechs = options.battles * echelon.TASKS[options.task].config().team_size
rows = options.rollout * mechs
config = (
    PPOConfig()
    .environment(
        f"echelon/{options.task}",
        # RLlib expects a battle to be reset in the step after its end
        env_config={"autoreset": "NEXT_STEP", "seed": options.seed, "threads": 1},
    )
    .env_runners(
        num_env_runners=0, num_envs_per_env_runner=mechs, gym_env_vectorize_mode="vector_entry_point",
        rollout_fragment_length=options.rollout,
    )
    .learners(num_learners=0)
    .training(
        lr=[[0, 1e-3], [max(rows, options.steps), 1e-5]], gamma=0.99, lambda_=0.95, clip_param=0.2, use_kl_loss=False,
        vf_loss_coeff=0.25, vf_clip_param=100.0, entropy_coeff=0.001, grad_clip=0.5, train_batch_size=rows,
        minibatch_size=rows // 8, num_epochs=2,
    )
    .rl_module(
        model_config=DefaultModelConfig(fcnet_hiddens=[128, 128], fcnet_activation="tanh", vf_share_layers=False)
    )
    .debugging(seed=options.seed, log_level="ERROR")
)  # fmt: skip
algorithm = config.build_algo()
began, done = time.time(), 0
while done < options.steps:
    result = algorithm.train()
    done = int(result["num_env_steps_sampled_lifetime"])
    returned = result["env_runners"].get("episode_return_mean", float("nan"))
    print(f"{done:9,d} rows  mean return {returned:.2f}", flush=True)
seconds = time.time() - began
module = algorithm.get_module()


@torch.no_grad()
def act(observations: np.ndarray, first: np.ndarray) -> np.ndarray:
    """Return mean actions [N, A]: the first half of the inputs of the action distribution."""
    inputs = module.forward_inference({Columns.OBS: torch.from_numpy(observations)})[Columns.ACTION_DIST_INPUTS]
    return inputs.chunk(2, dim=-1)[0].clamp(-1, 1).numpy()


opponent = echelon.TASKS[options.task].opponent
stats = echelon.evaluate(act, opponent, env=options.task, seeds=options.eval_seeds)
print(
    f"against {opponent}: {stats.win_rate:.0%} wins (95 % interval {stats.win_low:.0%} to {stats.win_high:.0%})"
    f" after {done:,} rows, {seconds:.0f} s"
)
algorithm.stop()
