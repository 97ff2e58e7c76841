"""Benchmark scenes of the league: match rate, cost of many opponents, and standings of a long history.

Policies are untrained and have the network of the presets; they rarely hit, so that matches last the full minute.
"""

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import torch

from echelon.actions import ACTION_DIM
from echelon.arena.contest import MatchPlan, MatchSession, Pairing, Pilot
from echelon.arena.league import LeagueEntry
from echelon.arena.match_runner import play
from echelon.arena.matchmaking import Fixture, match_seed
from echelon.arena.policies import GroupedPolicies
from echelon.arena.policy_runner import GroupedPolicyRunner
from echelon.arena.standings import standings
from echelon.arena.store import MatchRecord, Store
from echelon.bench import ON_CPU, Measure, Setting
from echelon.bench.stopwatch import Stopwatch
from echelon.config import EnvConfig, ModelConfig
from echelon.config.presets import PRESETS
from echelon.env import layout
from echelon.env.layout import FLAT_OBS_DIM
from echelon.machine import cores
from echelon.rl.build import build_model
from echelon.rl.weights import LoadedPolicy

ENVS = 64
"""Matches played in parallel on a CPU."""
MATCHES = 192
"""Total number of matches in ``ENVS`` environments; most start when another ends."""
MAPS = 4
MANY = 8
"""Number of distinct opponents that is compared with one."""
STEPS = 20
STORED = 10_000
ENTRIES = 20


def fresh_policy(seed: int, env: EnvConfig, model: ModelConfig | None = None) -> LoadedPolicy:
    """Return an untrained policy of ``model``, by default the network of the presets, for this environment."""
    torch.manual_seed(seed)
    obs_dim = layout.obs_dim(env)
    map_width = obs_dim - FLAT_OBS_DIM - layout.END_WIDTH
    policy = build_model(model or PRESETS["league"]().model, obs_dim, ACTION_DIM, map_width)
    sizes = {"obs_dim": obs_dim, "action_dim": ACTION_DIM}
    return LoadedPolicy(policy.eval().requires_grad_(False), sizes)


def _matches(pilots: list[Pilot], setting: Setting = ON_CPU) -> Measure:
    """Return a measurement of matches between successive pilots, 5v5, 100x100x20."""
    env, envs = EnvConfig(), setting.envs or ENVS
    matches = MATCHES * envs // ENVS
    policies = {pilot.id: fresh_policy(seed, env) for seed, pilot in enumerate(pilots) if not pilot.level}
    for loaded in policies.values():
        loaded.policy.to("cpu" if setting.on_cpu else setting.device)
    order = [pilot.id for pilot in pilots]
    pairs = islice(cycle(zip(order, order[1:] + order[:1], strict=True)), matches)
    plan = MatchPlan(env=env, pilots={p.id: p for p in pilots}, seats=dict(enumerate(pairs)))
    pairings = [Pairing(n, match_seed(0, n % MAPS), False) for n in range(matches)]

    def measure() -> dict[str, Any]:
        with GroupedPolicyRunner(plan=plan, load=lambda pilot: policies[pilot.id], threads=cores()) as policy_runner:
            session = MatchSession(envs=envs, device=setting.device, policy_runner=policy_runner)
            results = list(play(plan, pairings, session))
        length = sum(result.record.length for result in results) / len(results) * env.dt_act
        rate = len(results) / session.seconds
        whole = rate * length / env.max_episode_seconds
        return {"per_s": rate, "unit": "matches", "mean_length_s": length, "full_length_per_s": whole}

    return measure


@contextmanager
def scripted(setting: Setting = ON_CPU) -> Iterator[Measure]:
    """64 parallel matches of medium against hard pilots, 5v5, 100x100x20."""
    yield _matches([Pilot(id=level, label=level, level=level) for level in ("medium", "hard")], setting)


@contextmanager
def four(setting: Setting = ON_CPU) -> Iterator[Measure]:
    """64 parallel matches between 4 policies, 5v5, 100x100x20."""
    yield _matches([Pilot(id=str(n), label=str(n)) for n in range(4)], setting)


@contextmanager
def twenty(setting: Setting = ON_CPU) -> Iterator[Measure]:
    """64 parallel matches between 20 policies, 5v5, 100x100x20."""
    yield _matches([Pilot(id=str(n), label=str(n)) for n in range(20)], setting)


@contextmanager
def opponents(setting: Setting = ON_CPU) -> Iterator[Measure]:
    """Actions of one team in 64 environments by 8 opponents; ``ratio`` is the cost relative to one opponent."""
    env = EnvConfig()
    rows = env.team_size * (setting.envs or ENVS)
    policies = [fresh_policy(seed, env).policy.to(setting.device) for seed in range(MANY)]
    obs = torch.randn(rows, layout.obs_dim(env)).to(setting.device)
    groups = []
    for count in (1, MANY):
        grouped = GroupedPolicies(rows, ACTION_DIM, threads=cores(), device=torch.device(setting.device))
        for n in range(count):
            grouped.assign(range(n * rows // count, (n + 1) * rows // count), policies[n])
        grouped.act(obs)
        groups.append(grouped)

    def measure() -> dict[str, Any]:
        spent = [0.0, 0.0]
        for _ in range(STEPS):
            for i, grouped in enumerate(groups):
                stopwatch = Stopwatch(setting.device)
                stopwatch.start()
                grouped.act(obs)
                spent[i] += stopwatch.stop()
        return {"per_s": STEPS * rows / spent[1], "unit": "actions", "ratio": spent[1] / spent[0]}

    yield measure
    for grouped in groups:
        grouped.close()


@contextmanager
def history() -> Iterator[Measure]:
    """Standings of 20 entries over 10,000 stored matches, including opening the file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "league.db"
        with Store(path) as store:
            fill(store)

        def measure() -> dict[str, Any]:
            began = time.perf_counter()
            with Store(path) as store:
                assert len(standings(store)) == ENTRIES
            seconds = time.perf_counter() - began
            return {"per_s": 1 / seconds, "unit": "standings", "seconds": seconds}

        yield measure


def fill(store: Store, matches: int = STORED, rounds: int = 10) -> None:
    """Fill a store with entries and rated matches, one transaction per round."""
    names = [str(n) for n in range(ENTRIES)]
    with store.editing() as league:
        for name in names:
            league.entries[name] = LeagueEntry(name, "", "candidate")
    per_round = matches // rounds
    for number in range(1, rounds + 1):
        pairs = [
            (names[n % ENTRIES], names[(n + 1 + n // ENTRIES % (ENTRIES - 1)) % ENTRIES]) for n in range(per_round)
        ]
        fixtures = [Fixture(n, blue, red, n) for n, (blue, red) in enumerate(pairs)]
        period = store.open_period("bench", number, fixtures)
        with store.writing() as db:
            db.executemany(
                "UPDATE matches SET state = 'played', winner = ?, reason = 'time_up' WHERE period = ? AND number = ?",
                [(("blue", "red", "draw")[n % 3], period.id, n) for n in range(1, per_round)],
            )
        store.record(period, 0, MatchRecord(winner="blue", reason="time_up"))
        store.close_period(period)
