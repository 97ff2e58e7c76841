"""PPO in one file, in the style of CleanRL, over `gymnasium.make_vec` and any benchmark task.

python examples/cleanrl_ppo.py --task 5v5-trivial-v1 --total-timesteps 500000 --agent learner.pt
python examples/cleanrl_ppo.py --agent learner.pt --total-timesteps 0 --opponent medium champion
"""

import time
from argparse import ArgumentDefaultsHelpFormatter, ArgumentParser
from functools import partial
from itertools import product
from pathlib import Path

import gymnasium as gym
import numpy as np
import torch
from torch import nn, optim
from torch.distributions.normal import Normal

import echelon
from echelon import tasks
from echelon.statistics import wilson_interval

parser = ArgumentParser(description=__doc__, formatter_class=ArgumentDefaultsHelpFormatter)
parser.add_argument("--task", default="5v5-trivial-v1", help="benchmark task (docs/tasks.md)")
parser.add_argument("--seed", type=int, default=0, help="seed of environment and learner")
parser.add_argument("--total-timesteps", type=int, default=500_000, help="steps of living mechs")
parser.add_argument("--num-envs", type=int, default=160, help="learning mechs, five to a battle")
parser.add_argument("--num-steps", type=int, default=64, help="environment steps between updates")
parser.add_argument("--learning-rate", type=float, default=1e-3)
parser.add_argument("--gamma", type=float, default=0.99)
parser.add_argument("--gae-lambda", type=float, default=0.95)
parser.add_argument("--num-minibatches", type=int, default=8)
parser.add_argument("--update-epochs", type=int, default=2)
parser.add_argument("--clip-coef", type=float, default=0.2)
parser.add_argument("--ent-coef", type=float, default=0.001)
parser.add_argument("--vf-coef", type=float, default=0.25)
parser.add_argument("--max-grad-norm", type=float, default=0.5)
parser.add_argument("--eval-seeds", type=int, default=100, help="held-out seeds, each from both sides")
parser.add_argument("--opponent", nargs="+", help="opponents of the evaluation; default: that of the task")
parser.add_argument("--agent", type=Path, help="file of the weights: trained further where it exists, then written")
args = parser.parse_args()


def layer_init(layer: nn.Linear, std: float = np.sqrt(2)) -> nn.Linear:
    """Return the layer with orthogonal weights and zero bias."""
    nn.init.orthogonal_(layer.weight, std)
    nn.init.zeros_(layer.bias)
    return layer


class Agent(nn.Module):
    """Separate actor and critic, a Gaussian with one deviation per action."""

    def __init__(self, envs: gym.vector.VectorEnv) -> None:
        super().__init__()
        width, actions = envs.single_observation_space.shape[0], envs.single_action_space.shape[0]

        def trunk() -> list[nn.Module]:
            return [layer_init(nn.Linear(width, 128)), nn.Tanh(), layer_init(nn.Linear(128, 128)), nn.Tanh()]

        self.critic = nn.Sequential(*trunk(), layer_init(nn.Linear(128, 1), std=1.0))
        self.actor_mean = nn.Sequential(*trunk(), layer_init(nn.Linear(128, actions), std=0.01))
        self.actor_logstd = nn.Parameter(torch.full((actions,), -0.5))

    def get_action_and_value(self, x: torch.Tensor, action: torch.Tensor | None = None):
        """Return action, log-probability, entropy and value of observations [B, D]."""
        probs = Normal(self.actor_mean(x), self.actor_logstd.exp())
        action = probs.sample() if action is None else action
        return action, probs.log_prob(action).sum(-1), probs.entropy().sum(-1), self.critic(x).squeeze(-1)


torch.manual_seed(args.seed)
torch.set_num_threads(1)
tasks.register()
envs = gym.make_vec(f"echelon/{args.task}", num_envs=args.num_envs, seed=args.seed, threads=1)
agent = Agent(envs)
if args.agent and args.agent.exists():
    agent.load_state_dict(torch.load(args.agent))
optimizer = optim.Adam(agent.parameters(), lr=args.learning_rate, eps=1e-5)
shape = (args.num_steps, args.num_envs)
obs = torch.zeros(shape + envs.single_observation_space.shape)
actions = torch.zeros(shape + envs.single_action_space.shape)
logprobs, rewards, dones, values, acted = (torch.zeros(shape) for _ in range(5))

global_step, update, won, start_time = 0, 0, [], time.time()
next_obs = torch.from_numpy(envs.reset(seed=args.seed)[0])
while global_step < args.total_timesteps:
    optimizer.param_groups[0]["lr"] = args.learning_rate * (1 - global_step / args.total_timesteps)
    for step in range(args.num_steps):
        obs[step] = next_obs
        with torch.no_grad():
            actions[step], logprobs[step], _, values[step] = agent.get_action_and_value(next_obs)
        next_numpy, reward, terminated, truncated, infos = envs.step(actions[step].clamp(-1, 1).numpy())
        next_obs = torch.from_numpy(next_numpy)
        rewards[step] = torch.from_numpy(reward)
        dones[step] = torch.from_numpy(terminated | truncated).float()  # the time limit is an end here
        acted[step] = torch.from_numpy(infos["acted"]).float()
        won += (infos["outcome"][infos["_outcome"]] == 1).tolist()
    global_step += int(acted.sum())

    with torch.no_grad():
        advantages, lastgaelam = torch.zeros(shape), torch.zeros(args.num_envs)
        next_value = agent.critic(next_obs).squeeze(-1)
        for t in reversed(range(args.num_steps)):
            following = next_value if t == args.num_steps - 1 else values[t + 1]
            delta = rewards[t] + args.gamma * following * (1 - dones[t]) - values[t]
            lastgaelam = delta + args.gamma * args.gae_lambda * (1 - dones[t]) * lastgaelam
            advantages[t] = lastgaelam
        returns = advantages + values

    living = acted.flatten() > 0  # the dead have no effect on what happens
    b_obs, b_actions, b_logprobs, b_advantages, b_returns = (
        x.flatten(0, 1)[living] for x in (obs, actions, logprobs, advantages, returns)
    )
    b_advantages = (b_advantages - b_advantages.mean()) / (b_advantages.std() + 1e-8)
    for _ in range(args.update_epochs):
        for mb in torch.randperm(len(b_obs)).chunk(args.num_minibatches):
            _, newlogprob, entropy, newvalue = agent.get_action_and_value(b_obs[mb], b_actions[mb])
            ratio = (newlogprob - b_logprobs[mb]).exp()
            clipped = ratio.clamp(1 - args.clip_coef, 1 + args.clip_coef)
            pg_loss = torch.max(-b_advantages[mb] * ratio, -b_advantages[mb] * clipped).mean()
            v_loss = 0.5 * ((newvalue - b_returns[mb]) ** 2).mean()
            loss = pg_loss - args.ent_coef * entropy.mean() + args.vf_coef * v_loss
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), args.max_grad_norm)
            optimizer.step()
    update += 1
    if update % 10 == 0:
        recent = np.mean(won[-1000:]) if won else float("nan")
        print(f"{global_step:9,d} agent-steps  win rate of training {recent:.0%}", flush=True)
    if args.agent:
        torch.save(agent.state_dict(), args.agent)
seconds = time.time() - start_time
envs.close()


@torch.no_grad()
def act(observations: np.ndarray, first: np.ndarray, actions: str) -> np.ndarray:
    """Return mean or sampled actions [N, A]."""
    x = torch.from_numpy(observations)
    found = agent.actor_mean(x) if actions == "mean" else agent.get_action_and_value(x)[0]
    return found.clamp(-1, 1).numpy()


for opponent, actions in product(args.opponent or [echelon.TASKS[args.task].opponent], ("mean", "sampled")):
    stats = echelon.evaluate(partial(act, actions=actions), opponent, env=args.task, seeds=args.eval_seeds)
    low, high = wilson_interval(stats.loss_rate * stats.episodes, stats.episodes)
    print(
        f"against {opponent}: {stats.win_rate:.1%} wins (95 % interval {stats.win_low:.0%} to {stats.win_high:.0%}),"
        f" {actions} actions, after {global_step:,} agent-steps, {seconds:.0f} s;"
        f" {opponent} wins {stats.loss_rate:.0%} ({low:.0%} to {high:.0%})",
        flush=True,
    )
