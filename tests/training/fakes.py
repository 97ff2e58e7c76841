"""A small batched environment with the interface of ``VectorEnv``, whose task a policy learns in seconds.

Two mechs per team; each observes a target in [-1, 1] and is rewarded for an equal first action; against policy
opponents the team with the larger return wins. Episodes have different lengths, end by termination or truncation, and
mechs die in them. One numpy generator draws everything, so the state can be saved and restored.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from echelon.training.batch_options import Episodes, Maps, Pilots, Sides
from echelon.training.batched_env import LearnerRows, Rows, Sizes

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


class FakeResults:
    names = ("aim", "alive")

    def __init__(self, envs: int) -> None:
        self.rewards = torch.zeros(envs, MECHS)
        self.terminated, self.truncated = (torch.zeros(envs, MECHS, dtype=torch.bool) for _ in range(2))
        self.acting, self.alive, self.present = (torch.ones(envs, MECHS, dtype=torch.bool) for _ in range(3))
        self.over, self.final_mask = (torch.zeros(envs, dtype=torch.bool) for _ in range(2))


class FakePilots:
    """Pilots whose teacher knows the best actions."""

    def __init__(self, env: FakeEnv, skill: str) -> None:
        self._env, self.teacher = env, None
        self.set_skills([skill] * env.num_envs)

    def set_skills(self, skills: Sequence[str | None]) -> None:
        self.skills = list(skills)

    def set_teacher(self, skill: str | None) -> None:
        self.teacher = skill

    def label(self) -> None:
        learns = self._env.rows.row_of >= 0
        self._env.actions[learns] = 0.0
        self._env.actions[..., 0][learns] = torch.from_numpy(self._env.target).float()[learns]


class FakeMaps:
    def prefetch(self, changes: dict[str, Any]) -> None:
        self.expected = changes

    def refresh(self, count: int) -> None:
        pass

    def statistics(self) -> dict[str, Any]:
        return {}


class FakeLog:
    def __init__(self) -> None:
        self.ended: list[FakeEpisode] = []

    def pop(self) -> list[FakeEpisode]:
        popped, self.ended = self.ended, []
        return popped


def _mechs_of(sides: Sequence[str]) -> np.ndarray:
    """Return whether mechs belong to the side of their environment [E, M]."""
    blue, red = (np.array([side in (name, "both") for side in sides]) for name in ("blue", "red"))
    return np.repeat(np.stack([blue, red], 1), TEAM, axis=1)


class FakeEnv:
    """Follow the target; odd environments are truncated by the time limit, even ones terminate."""

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
        others = [sides.opponents] * num_envs if isinstance(sides.opponents, str) else list(sides.opponents)
        self.num_envs, self.sides, self.device = num_envs, learning, torch.device(device)
        self.actions = torch.zeros(num_envs, MECHS, ACTION_DIM)
        normalizable = torch.tensor([True, False, False, False, False])
        self.sizes = Sizes(num_envs, OBS_DIM, ACTION_DIM, max(LENGTHS), normalizable)
        self.rows = LearnerRows(
            _mechs_of(learning), self.actions, OBS_DIM,
            roster=[1, 2], connect=lambda obs, final_obs: None, central=self._read_central,
        )  # fmt: skip
        controlled = _mechs_of(others)
        self.opponents = Rows(controlled, self.actions, OBS_DIM)
        self.contested = [side == "both" or bool(controlled[e].any()) for e, side in enumerate(learning)]
        self.results, self.pilots = FakeResults(num_envs), FakePilots(self, pilots.skill)
        self.maps, self.episodes = FakeMaps(), FakeLog()
        self.seeds, self.autoreset = episodes.seeds, episodes.autoreset
        self.weapon_prob = pilots.weapon_prob
        self.parameters: dict[str, Any] = {}
        self.rng = np.random.default_rng(episodes.seed + episodes.first_env)
        e, m = num_envs, MECHS
        self.target = np.zeros((e, m))
        self.clock, self.length = np.zeros(e, np.int64), np.zeros(e, np.int64)
        self.returns, self.episode_seed = np.zeros((e, m), np.float32), np.zeros(e, np.int64)
        self.forwards_seen, self.closed = 0, False

    def _read_central(self) -> Tensor:
        env, agent = self.rows.env[::TEAM], self.rows.agent[::TEAM]
        targets, clock = (torch.from_numpy(x).float()[env] for x in (self.target, self.clock))
        red = (agent % MECHS >= TEAM).unsqueeze(1)
        return torch.cat([torch.where(red, targets.roll(TEAM, 1), targets), clock.unsqueeze(1) / max(LENGTHS)], 1)

    def reset(self, row: int = 0) -> None:
        if self.seeds is not None:
            self.rng = np.random.default_rng(list(self.seeds))
        for e in range(self.num_envs):
            self._begin(e)
        self._observe(self.rows.obs[row])

    def step(self, row: int = 0) -> None:
        aim = self.actions[..., 0].double().numpy()
        results = self.results
        results.acting.copy_(results.alive)
        living = results.alive.numpy()
        reward = np.where(living, -np.square(aim - self.target), 0.0).astype(np.float32)
        results.rewards.copy_(torch.from_numpy(reward))
        self.returns += reward
        self.clock += 1
        died = living & (self.rng.random(living.shape) < DEATH_RATE)
        results.alive[torch.from_numpy(died)] = False
        self.target = self.rng.uniform(-1, 1, self.target.shape)
        over = self.clock == self.length
        truncated = over & (np.arange(self.num_envs) % 2 == 1)
        results.over.copy_(torch.from_numpy(over))
        results.final_mask.copy_(torch.from_numpy(truncated))
        truncated_mechs = torch.from_numpy(truncated)[:, None] & results.alive
        results.truncated.copy_(truncated_mechs)
        results.terminated.copy_((torch.from_numpy(over)[:, None] | ~results.alive) & ~truncated_mechs)
        if truncated.any():
            self._observe(self.rows.final_obs)
        for e in np.flatnonzero(over):
            self._end(int(e), bool(truncated[e]))
        self._observe(self.rows.obs[row])

    def set_curriculum(self, **parameters: Any) -> None:
        self.weapon_prob = parameters.pop("weapon_prob", self.weapon_prob)
        if "skill" in parameters:
            self.pilots.set_skills([parameters["skill"]] * self.num_envs)
        self.parameters |= parameters

    def get_curriculum(self) -> dict[str, Any]:
        return {"weapon_prob": self.weapon_prob, **self.parameters}

    def close(self) -> None:
        self.closed = True

    def state_dict(self) -> dict[str, np.ndarray]:
        return {
            "rng": np.frombuffer(json.dumps(self.rng.bit_generator.state).encode(), np.uint8),
            "target": self.target.copy(),
            "clock": self.clock.copy(),
            "length": self.length.copy(),
            "returns": self.returns.copy(),
            "seed_of": self.episode_seed.copy(),
            "alive": self.results.alive.numpy().copy(),
            "weapon_prob": np.array([self.weapon_prob]),
        }

    def load_state_dict(self, state: dict[str, np.ndarray]) -> None:
        self.rng.bit_generator.state = json.loads(state["rng"].tobytes())
        self.target, self.clock, self.length = state["target"].copy(), state["clock"].copy(), state["length"].copy()
        self.returns, self.episode_seed = state["returns"].copy(), state["seed_of"].copy()
        self.results.alive.copy_(torch.from_numpy(state["alive"]))
        self.weapon_prob = float(state["weapon_prob"][0])
        self._observe(self.rows.obs[0])

    def _begin(self, e: int) -> None:
        self.clock[e], self.length[e] = 0, self.rng.choice(LENGTHS)
        self.episode_seed[e] = self.rng.integers(2**20) if self.seeds is None else self.seeds[e]
        self.target[e] = self.rng.uniform(-1, 1, MECHS)
        self.returns[e] = 0
        self.results.alive[e] = True

    def _end(self, e: int, truncated: bool) -> None:
        side = 1 if self.sides[e] == "red" else 0
        returns = self.returns[e, TEAM:] if side else self.returns[e, :TEAM]
        won = returns.mean() / self.length[e] > WIN_SHARE
        if self.contested[e] and self.pilots.skills[e] is None:
            won = returns.mean() > (self.returns[e, :TEAM] if side else self.returns[e, TEAM:]).mean()
        hp = (1.0, 0.0) if won == (side == 0) else (0.0, 1.0)
        self.episodes.ended.append(
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
                deaths=~self.results.alive[e].numpy(),
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
        full *= self.results.alive.numpy().reshape(-1, 1)
        out.copy_(torch.from_numpy(full)[self.rows.agent])
        if out is not self.rows.final_obs:
            self.opponents.obs.copy_(torch.from_numpy(full)[self.opponents.agent])
