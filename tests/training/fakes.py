"""A small batched environment with the interface of ``VectorEnv``, whose task a policy learns in seconds.

Two mechs per team; each observes a target in [-1, 1] and is rewarded for an equal first action; against policy
opponents the team with the larger return wins. Episodes have different lengths, end by termination or truncation, and
mechs die in them. One numpy generator draws everything, so the state can be saved and restored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from echelon.training.batch_options import Episodes, Maps, Pilots, Sides

MECHS, OBS_DIM, ACTION_DIM = 4, 5, 3
TEAM = MECHS // 2
LENGTHS = (9, 14)
DEATH_RATE = 0.01
WIN_SHARE = -0.08


@dataclass(frozen=True)
class FakeEpisode:
    env: int
    seed: int
    length: int
    winner: int
    reason: str
    hp: tuple[float, float]
    zone_score: tuple[float, float]
    returns: np.ndarray
    terms: np.ndarray
    learner_team: int
    deaths: np.ndarray
    present: np.ndarray


class FakeEnv:
    """Follow the target; odd environments are truncated by the time limit, even ones terminate."""

    reward_names = ("aim", "alive")

    def __init__(
        self,
        num_envs: int,
        env_cfg: Any = None,
        *,
        sides: Sides = Sides(),
        maps: Maps = Maps(),
        pilots: Pilots = Pilots(),
        episodes: Episodes = Episodes(),
        device: str = "cpu",
        threads: int = 0,
        progress: Any = None,
    ) -> None:
        learning = [sides.learners] * num_envs if isinstance(sides.learners, str) else list(sides.learners)
        self.num_envs, self.mechs, self.obs_dim, self.action_dim = num_envs, MECHS, OBS_DIM, ACTION_DIM
        self.device = torch.device(device)
        learns = np.zeros((num_envs, MECHS), bool)
        for e, side in enumerate(learning):
            learns[e, :TEAM] = side in ("blue", "both")
            learns[e, TEAM:] = side in ("red", "both")
        self.sides, self.rows = learning, int(learns.sum())
        self.row_of = torch.full((num_envs, MECHS), -1, dtype=torch.int32)
        self.row_of[torch.from_numpy(learns)] = torch.arange(self.rows, dtype=torch.int32)
        self.agent_of_row = torch.from_numpy(learns.reshape(-1).nonzero()[0])
        self.env_of_row = self.agent_of_row // MECHS
        self._assign_opponents(sides.opponents, pilots.skill)
        self.roles = (self.agent_of_row % MECHS % 2 + 1).to(torch.int8)
        self.normalizable = torch.tensor([True, False, False, False, False])
        self.seeds, self.autoreset = episodes.seeds, episodes.autoreset
        self.weapon_prob, self.skill = pilots.weapon_prob, pilots.skill
        self.rng = np.random.default_rng(episodes.seed + episodes.first_env)
        e, m = num_envs, MECHS
        self.actions = torch.zeros(e, m, ACTION_DIM)
        self.rewards = torch.zeros(e, m)
        self.terminated, self.truncated = torch.zeros(e, m, dtype=torch.bool), torch.zeros(e, m, dtype=torch.bool)
        self.acting, self.alive_now = torch.ones(e, m, dtype=torch.bool), torch.ones(e, m, dtype=torch.bool)
        self.episode_over, self.final_mask = torch.zeros(e, dtype=torch.bool), torch.zeros(e, dtype=torch.bool)
        self.present = torch.ones(e, m, dtype=torch.bool)
        self.final_obs = torch.zeros(self.rows, OBS_DIM)
        self.obs = torch.zeros(1, self.rows, OBS_DIM)
        self.target = np.zeros((e, m))
        self.clock, self.length = np.zeros(e, np.int64), np.zeros(e, np.int64)
        self.returns, self.episode_seed = np.zeros((e, m), np.float32), np.zeros(e, np.int64)
        self.episodes: list[FakeEpisode] = []
        self.forwards_seen, self.closed = 0, False

    def _assign_opponents(self, opponents: str | Sequence[str], skill: str) -> None:
        others = [opponents] * self.num_envs if isinstance(opponents, str) else list(opponents)
        controlled = np.zeros((self.num_envs, MECHS), bool)
        for e, side in enumerate(others):
            controlled[e, :TEAM], controlled[e, TEAM:] = side == "blue", side == "red"
        self.agent_of_opponent_row = torch.from_numpy(controlled.reshape(-1).nonzero()[0])
        self.env_of_opponent_row = self.agent_of_opponent_row // MECHS
        self.opponent_rows = len(self.agent_of_opponent_row)
        self.opponent_obs = torch.zeros(self.opponent_rows, OBS_DIM)
        self.pilots: list[str | None] = [skill] * self.num_envs
        self.parameters: dict[str, Any] = {}
        self.contested = [side == "both" or bool(controlled[e].any()) for e, side in enumerate(self.sides)]

    central_dim = MECHS + 1
    """Every mech's target as the learner views it, and the clock."""

    def write_central(self, out: Tensor) -> None:
        targets = torch.from_numpy(self.target).float()[self.env_of_row]
        red = self.agent_of_row % MECHS >= TEAM
        out[:, :MECHS] = torch.where(red.unsqueeze(1), targets.roll(TEAM, 1), targets)
        out[:, MECHS] = torch.from_numpy(self.clock).float()[self.env_of_row] / max(LENGTHS)

    def attach(self, obs: Tensor) -> None:
        self.obs = obs

    def reset(self, row: int = 0) -> None:
        if self.seeds is not None:
            self.rng = np.random.default_rng(list(self.seeds))
        for e in range(self.num_envs):
            self._begin(e)
        self._observe(self.obs[row])

    def step(self, row: int = 0) -> None:
        aim = self.actions[..., 0].double().numpy()
        self.acting.copy_(self.alive_now)
        living = self.alive_now.numpy()
        reward = np.where(living, -np.square(aim - self.target), 0.0).astype(np.float32)
        self.rewards.copy_(torch.from_numpy(reward))
        self.returns += reward
        self.clock += 1
        died = living & (self.rng.random(living.shape) < DEATH_RATE)
        self.alive_now[torch.from_numpy(died)] = False
        self.target = self.rng.uniform(-1, 1, self.target.shape)
        over = self.clock == self.length
        truncated = over & (np.arange(self.num_envs) % 2 == 1)
        self.episode_over.copy_(torch.from_numpy(over))
        self.final_mask.copy_(torch.from_numpy(truncated))
        truncated_mechs = torch.from_numpy(truncated)[:, None] & self.alive_now
        self.truncated.copy_(truncated_mechs)
        self.terminated.copy_((torch.from_numpy(over)[:, None] | ~self.alive_now) & ~truncated_mechs)
        if truncated.any():
            self._observe(self.final_obs)
        for e in np.flatnonzero(over):
            self._end(int(e), bool(truncated[e]))
        self._observe(self.obs[row])

    def pop_episodes(self) -> list[FakeEpisode]:
        popped, self.episodes = self.episodes, []
        return popped

    def set_heuristic_weapon_prob(self, p: float) -> None:
        self.weapon_prob = p

    def set_heuristic_skill(self, skill: str) -> None:
        self.set_scripted_skills([skill] * self.num_envs)
        self.skill = skill

    def set_scripted_skills(self, skills: Sequence[str | None]) -> None:
        self.pilots = list(skills)

    def set_teacher(self, skill: str | None) -> None:
        self.teacher = skill

    def label(self) -> None:
        """Write the best actions of learners into ``actions``; the opponents' stay."""
        learns = self.row_of >= 0
        self.actions[learns] = 0.0
        self.actions[..., 0][learns] = torch.from_numpy(self.target).float()[learns]

    def set_curriculum(self, **parameters: Any) -> None:
        self.weapon_prob = parameters.pop("weapon_prob", self.weapon_prob)
        if "skill" in parameters:
            self.set_heuristic_skill(parameters["skill"])
        self.parameters |= parameters

    def get_curriculum(self) -> dict[str, Any]:
        return {"weapon_prob": self.weapon_prob, **self.parameters}

    def prefetch_curriculum(self, **parameters: Any) -> None:
        self.expected = parameters

    def refresh_maps(self, count: int) -> None:
        pass

    def map_statistics(self) -> dict[str, Any]:
        return {}

    def close(self) -> None:
        self.closed = True

    def state_dict(self) -> dict[str, np.ndarray]:
        state = self.rng.bit_generator.state["state"]
        words = [state["state"] >> shift & 2**64 - 1 for shift in (0, 64)]
        words += [state["inc"] >> shift & 2**64 - 1 for shift in (0, 64)]
        return {
            "rng": np.array(words, np.uint64),
            "target": self.target.copy(),
            "clock": self.clock.copy(),
            "length": self.length.copy(),
            "returns": self.returns.copy(),
            "seed_of": self.episode_seed.copy(),
            "alive": self.alive_now.numpy().copy(),
            "weapon_prob": np.array([self.weapon_prob]),
        }

    def load_state_dict(self, state: dict[str, np.ndarray]) -> None:
        words = [int(w) for w in state["rng"]]
        whole = {**self.rng.bit_generator.state}
        whole["state"] = {"state": words[0] | words[1] << 64, "inc": words[2] | words[3] << 64}
        self.rng.bit_generator.state = whole
        self.target, self.clock, self.length = state["target"].copy(), state["clock"].copy(), state["length"].copy()
        self.returns, self.episode_seed = state["returns"].copy(), state["seed_of"].copy()
        self.alive_now.copy_(torch.from_numpy(state["alive"]))
        self.weapon_prob = float(state["weapon_prob"][0])

    def _begin(self, e: int) -> None:
        self.clock[e], self.length[e] = 0, self.rng.choice(LENGTHS)
        self.episode_seed[e] = self.rng.integers(2**20) if self.seeds is None else self.seeds[e]
        self.target[e] = self.rng.uniform(-1, 1, MECHS)
        self.returns[e] = 0
        self.alive_now[e] = True

    def _end(self, e: int, truncated: bool) -> None:
        side = 1 if self.sides[e] == "red" else 0
        returns = self.returns[e, TEAM:] if side else self.returns[e, :TEAM]
        won = returns.mean() / self.length[e] > WIN_SHARE
        if self.contested[e] and self.pilots[e] is None:
            won = returns.mean() > (self.returns[e, :TEAM] if side else self.returns[e, TEAM:]).mean()
        hp = (1.0, 0.0) if won == (side == 0) else (0.0, 1.0)
        self.episodes.append(
            FakeEpisode(
                env=e,
                seed=int(self.episode_seed[e]),
                length=int(self.length[e]),
                winner=side if won else 1 - side,
                reason="time_up" if truncated else "elimination",
                hp=hp,
                zone_score=(0.0, 0.0),
                returns=self.returns[e].copy(),
                terms=np.stack([self.returns[e], np.ones(MECHS, np.float32)], 1),
                learner_team=-1 if self.sides[e] == "both" else side,
                deaths=~self.alive_now[e].numpy(),
                present=np.ones(MECHS, bool),
            )
        )
        if self.autoreset:
            self._begin(e)

    def _observe(self, out: Tensor) -> None:
        full = np.zeros((self.num_envs * MECHS, OBS_DIM), np.float32)
        full[:, 0] = self.target.reshape(-1)
        full[:, 1] = 1.0
        full[:, 2] = np.repeat(self.clock, MECHS) / max(LENGTHS)
        full *= self.alive_now.numpy().reshape(-1, 1)
        out.copy_(torch.from_numpy(full)[self.agent_of_row])
        if out is not self.final_obs:
            self.opponent_obs.copy_(torch.from_numpy(full)[self.agent_of_opponent_row])
