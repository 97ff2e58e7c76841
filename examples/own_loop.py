"""Your own learner over the Gymnasium vector interface: clipped policy gradient with a feed-forward network.

python examples/own_loop.py --seconds 120
"""

import argparse
import time

import numpy as np
import torch
from torch import nn

import echelon
from echelon.agents import heuristic

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--seconds", type=float, default=120.0, help="CPU time to train [s]")
parser.add_argument("--battles", type=int, default=32, help="battles in the batch")
parser.add_argument("--opponent", default="easy", help="scripted level of red")
parser.add_argument("--rollout", type=int, default=64, help="environment steps between updates")
options = parser.parse_args()

torch.set_num_threads(1)
envs = echelon.EchelonVectorEnv(
    options.battles,
    echelon.get_preset("quickstart").env,
    side="blue",
    pilots=heuristic.install,
    script=options.opponent,
    maps=min(options.battles, 32),
    threads=1,
)
agents, obs_dim = envs.num_envs, envs.single_observation_space.shape[0]
action_dim, horizon = envs.single_action_space.shape[0], options.rollout
gamma, gae_lambda, clip, epochs, minibatches = 0.99, 0.95, 0.2, 2, 8


def network(outputs: int) -> nn.Sequential:
    """Return a two-layer tanh network [B, obs_dim] -> [B, outputs]."""
    return nn.Sequential(nn.Linear(obs_dim, 128), nn.Tanh(), nn.Linear(128, 128), nn.Tanh(), nn.Linear(128, outputs))


actor, critic, log_std = network(action_dim), network(1), nn.Parameter(torch.full((action_dim,), -0.5))
parameters = [*actor.parameters(), *critic.parameters(), log_std]
optimizer = torch.optim.Adam(parameters, lr=1e-3, eps=1e-5)


def policy(observations: torch.Tensor) -> torch.distributions.Normal:
    """Return the action distribution for observations [B, obs_dim]."""
    return torch.distributions.Normal(actor(observations), log_std.exp())


def advantages(rewards, values, finished, next_value):
    """Return generalised advantage estimates [T, B]; ``finished[t]`` is 1 where step t ended the episode."""
    result, running = torch.zeros_like(rewards), torch.zeros_like(next_value)
    for t in reversed(range(len(rewards))):
        following = next_value if t == len(rewards) - 1 else values[t + 1]
        error = rewards[t] + gamma * following * (1 - finished[t]) - values[t]
        running = error + gamma * gae_lambda * (1 - finished[t]) * running
        result[t] = running
    return result


observations, infos = envs.reset(seed=1)
alive, wins, steps, started = infos["alive"], [], 0, time.process_time()
while time.process_time() - started < options.seconds or not steps:
    rows = {name: [] for name in ("obs", "action", "log_prob", "reward", "value", "finished", "alive")}
    for _ in range(horizon):
        current = torch.as_tensor(observations).clone()
        with torch.no_grad():
            distribution = policy(current)
            action = distribution.sample()
            rows["value"].append(critic(current).squeeze(-1))
            rows["log_prob"].append(distribution.log_prob(action).sum(-1))
        rows["obs"].append(current)
        rows["action"].append(action)
        rows["alive"].append(torch.as_tensor(alive).bool().clone())
        observations, reward, terminated, truncated, infos = envs.step(action.clamp(-1, 1).numpy())
        rows["reward"].append(torch.as_tensor(reward).float().clone())
        rows["finished"].append(torch.as_tensor(terminated | truncated).float())
        alive = infos["alive"]
        if "final_info" in infos:
            wins += [winner == "blue" for winner in infos["final_info"]["winner"] if winner is not None]
    batch = {name: torch.stack(values) for name, values in rows.items()}
    with torch.no_grad():
        next_value = critic(torch.as_tensor(observations)).squeeze(-1)
    advantage = advantages(batch["reward"], batch["value"], batch["finished"], next_value)
    target = advantage + batch["value"]
    living = batch["alive"].flatten()
    obs, action, log_prob, advantage, target = (
        values.flatten(0, 1)[living] for values in (batch["obs"], batch["action"], batch["log_prob"], advantage, target)
    )
    advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    steps += len(obs)
    for _ in range(epochs):
        for index in torch.randperm(len(obs)).chunk(minibatches):
            distribution = policy(obs[index])
            ratio = (distribution.log_prob(action[index]).sum(-1) - log_prob[index]).exp()
            clipped = ratio.clamp(1 - clip, 1 + clip)
            policy_loss = -torch.min(ratio * advantage[index], clipped * advantage[index]).mean()
            value_loss = (critic(obs[index]).squeeze(-1) - target[index]).square().mean()
            loss = policy_loss + 0.25 * value_loss - 0.001 * distribution.entropy().sum(-1).mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(parameters, 0.5)
            optimizer.step()
    recent = np.mean(wins[-1000:]) if wins else float("nan")
    print(f"{steps:9,d} agent-steps  loss {float(loss):7.3f}  recent win rate {recent:.0%}", flush=True)
envs.close()
