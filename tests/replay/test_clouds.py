"""Smoke clouds and point-defence shots in a replay equal those of the simulator."""

import numpy as np
import pytest

from echelon.replay.reader import Replay
from echelon.replay.record import MatchInfo, Recorder
from echelon.replay.schema import CLOUD_STEP, EventKind, HitFlag
from echelon.sim.arsenal import Cooldown, Weapon
from echelon.sim.physics import PHYSICS
from echelon.sim.tables import duration_ticks
from tests.replay.battles import battle, config

SECONDS, EDGE, HEIGHT = 22.0, 36, 14
WATCHED = ("tick", "alive", "cooldown", "cloud_ticks", "cloud_pos", "intercepts", "overflow")


CONFIG = config(edge=EDGE, height=HEIGHT, max_episode_seconds=SECONDS)
CLOUD_TICKS = duration_ticks(PHYSICS.smoke_life_s, CONFIG.dt_sim)
AMS_TICKS = duration_ticks(PHYSICS.ams_cooldown_s, CONFIG.dt_sim)


def add_round(batch, m: int, weapon: Weapon, pos, vel, target: int = -1) -> None:
    changes = {"round_weapon": int(weapon), "round_pos": pos, "round_vel": vel, "round_age": 1, "round_target": target}
    if batch.numpy("round_weapon")[0, m, -1] < 0:
        for name, value in changes.items():
            batch.numpy(name)[0, m, -1] = value


def disturb(batch, step: int) -> None:
    """Add a smoke round every second, and missiles at heavies more often than their defence is ready."""
    rng = np.random.default_rng(step)
    m, pos = step // 4 % 10, batch.numpy("pos")[0]
    if step % 4 == 0:
        position = rng.uniform((3, 3, 9), (EDGE - 3, EDGE - 3, 11))
        add_round(batch, m, Weapon.SMOKE, position, (*rng.uniform(-9, 9, 2), -7.5))
    if step % 3 == 0:
        heavy = step // 3 % 2 * 5
        away = np.array([np.cos(step), np.sin(step), 0.3]) * 4.5
        add_round(batch, (heavy + 6) % 10, Weapon.MISSILE, pos[heavy] + away, -away, heavy)


def play(folder, *, envs: int = 1, threads: int = 1):
    """Record environment 0 of a disturbed battle; return the file and the state after each environment step."""
    states = []
    with battle(CONFIG, envs, threads=threads) as env:
        env.reset()
        recorder = Recorder(env.engine, [0], folder, [MatchInfo(name="m")])
        recorder.begin()
        for step in range(CONFIG.max_steps):
            disturb(env.engine.batch, step)
            env.step()
            if not states or not states[-1]["ended"]:
                states.append({name: env.engine.batch.numpy(name)[0].copy() for name in WATCHED})
                states[-1]["ended"] = bool(env.engine.batch.numpy("ended")[0])
            recorder.after_step()
        (path,) = recorder.finish()
        assert recorder.dropped == 0
    return path, states


@pytest.fixture(scope="module")
def match(tmp_path_factory):
    path, states = play(tmp_path_factory.mktemp("smoke"))
    with Replay(path) as replay:
        yield replay, states


def chunks(replay: Replay):
    return [replay.chunk(n) for n in range(len(replay.chunks))]


def clouds(chunk) -> np.ndarray:
    """Rows of tick, owner, x, y, z; ticks of the match."""
    rows = np.stack([chunk.tables["clouds"][name] for name in ("tick", "actor", "x", "y", "z")], axis=1)
    rows[:, 0] += chunk.ref.tick0
    return rows


def events(replay: Replay, kind: EventKind) -> list[dict[str, int]]:
    found = []
    for chunk in chunks(replay):
        table = chunk.tables["events"]
        for i in np.flatnonzero(table["kind"] == kind):
            found.append({name: int(values[i]) for name, values in table.items()})
            found[-1]["tick"] += chunk.ref.tick0
    return found


def test_clouds_match_simulator_at_every_frame(match):
    replay, states = match
    by_tick = {int(state["tick"]): state for state in states}
    checked = most = 0
    for chunk in chunks(replay):
        rows = clouds(chunk)
        for tick in chunk.ticks.tolist():
            if tick not in by_tick:
                continue
            left, pos = by_tick[tick]["cloud_ticks"], by_tick[tick]["cloud_pos"]
            living = rows[(rows[:, 0] <= tick) & (rows[:, 0] + CLOUD_TICKS > tick)]
            recorded = sorted((t + CLOUD_TICKS - tick, owner) for t, owner in living[:, :2].tolist())
            assert recorded == sorted((int(left[m, q]), m) for m, q in np.argwhere(left > 0).tolist())
            for burst, owner, *position in living.tolist():
                away = np.abs(pos[owner] - np.array(position) * CLOUD_STEP).max(axis=1)
                away[left[owner] != burst + CLOUD_TICKS - tick] = np.inf
                assert away.min() <= CLOUD_STEP / 2 + 1e-4
            checked, most = checked + len(living), max(most, len(living))
    assert checked > 20 and most > 1, "the match has too few clouds"


def test_chunk_holds_only_live_clouds(match):
    replay, _ = match
    earlier = 0
    for chunk in chunks(replay):
        burst = clouds(chunk)[:, 0]
        assert ((burst <= chunk.ref.tick1) & (burst + CLOUD_TICKS > chunk.ref.tick0)).all()
        assert (np.diff(burst) >= 0).all()
        earlier += int((burst < chunk.ref.tick0).sum())
    assert earlier > 0


def test_every_cloud_has_a_smoke_impact(match):
    replay, _ = match
    smoke = {(e["tick"], e["actor"]) for e in events(replay, EventKind.IMPACT) if e["weapon"] == Weapon.SMOKE}
    bursts = {(int(t), int(owner)) for chunk in chunks(replay) for t, owner in clouds(chunk)[:, :2]}
    assert bursts and bursts == smoke


def test_point_defence_shots_are_events_with_result(match):
    replay, states = match
    team = [mech["team"] for mech in replay.header["roster"]]
    shots = events(replay, EventKind.AMS)
    expected, hits, before = set(), 0, 0
    for state in states:
        tick = int(state["tick"])
        left = state["cooldown"][:, int(Cooldown.AMS)]
        for m in np.flatnonzero((state["alive"] == 1) & (left > AMS_TICKS - (tick - before))).tolist():
            expected.add((tick - (AMS_TICKS - int(left[m])), m))
        stopped = [e for e in shots if before < e["tick"] <= tick and e["flags"] & HitFlag.STOPPED]
        assert np.bincount([e["actor"] for e in stopped], minlength=len(left)).tolist() == state["intercepts"].tolist()
        hits, before = hits + len(stopped), tick
    living = {(e["tick"], e["actor"]) for e in shots}
    assert len(living) == len(shots) and expected <= living
    died = {m for m in range(len(team)) if not states[-1]["alive"][m]}
    assert {owner for _, owner in living - expected} <= died
    assert 0 < hits < len(shots), "the match has too few missiles"
    for e in shots:
        assert team[e["actor"]] != team[e["target"]] and e["weapon"] == Weapon.MISSILE
        assert replay.header["chassis"][replay.header["roster"][e["actor"]]["chassis"]]["name"] == "heavy"
