"""Recorded matches equal the simulated ones, and recording does not change the simulation."""

import time
from pathlib import Path

import numpy as np
import pytest

from echelon.agents.heuristic import script_of
from echelon.config import EVAL_SEED_BASE, EnvConfig
from echelon.replay.header import TeamInfo
from echelon.replay.reader import Replay
from echelon.replay.record import MatchInfo, Recorder
from echelon.replay.schema import COLUMNS, EventKind, MechFlag
from echelon.training.batch_options import Episodes, Maps, Pilots, Sides
from echelon.training.vec_env import VectorEnv
from tests.replay.battles import EDGE, HEIGHT, all_frames, battle, config
from tests.state_hash import state_hash

SCALE = {column.name: column.scale for column in COLUMNS}
FLOATS = ("yaw", "hp", "leg_hp", "heat", "stability")
LIMIT_KB = 24.0
"""Size limit of a minute of ten mechs in combat with its world [kB]; without combat it is 18."""
FRAMES_PER_MINUTE = 240


def play(
    folder: Path, cfg: EnvConfig, *, recorded: int, envs: int = 1, threads: int = 1, observe=lambda env: None,
    changes=None,
):  # fmt: skip
    """Play an episode in each environment and record ``recorded``; return file, final state hash and recorder."""
    with battle(cfg, envs, threads=threads, changes=changes) as env:
        env.reset()
        teams = TeamInfo(name="B", level="easy"), TeamInfo(name="R", checkpoint="abc")
        recorder = Recorder(env.engine, [recorded], folder, [MatchInfo(name=f"m{recorded}", teams=teams)])
        recorder.begin()
        observe(env)
        for _ in range(cfg.max_steps):
            env.step()
            recorder.after_step()
            observe(env)
        (path,) = recorder.finish()
        return path, state_hash(env.engine.batch, recorded), recorder


class Observer:
    """Collects state, deaths and map of environment 0 at each environment step."""

    def __init__(self) -> None:
        self.states: list[dict[str, np.ndarray]] = []
        self.deaths: list[tuple[int, int]] = []
        self.materials: list[np.ndarray] = []
        self.over = False

    def __call__(self, env) -> None:
        batch = env.engine.batch
        if self.over:
            return
        names = ("pos", "vel", "alive", "tick", "score", "focus", "painter", "painted", *FLOATS)
        state = {name: batch.numpy(name)[0].copy() for name in names}
        if self.states:
            died = np.flatnonzero((self.states[-1]["alive"] == 1) & (state["alive"] == 0))
            self.deaths += [(int(state["tick"]), int(m)) for m in died]
        self.states.append(state)
        self.materials.append(batch.numpy("material")[0].copy())
        self.over = bool(batch.numpy("ended")[0])


@pytest.fixture(scope="module")
def match(tmp_path_factory):
    seen = Observer()
    path, _, recorder = play(tmp_path_factory.mktemp("match"), config(), recorded=0, observe=seen)
    with Replay(path) as replay:
        yield replay, seen, recorder


def all_events(replay: Replay) -> list[tuple[int, int, int, int]]:
    rows = []
    for n in range(len(replay.chunks)):
        chunk = replay.chunk(n)
        events = chunk.tables["events"]
        columns = [events[name].tolist() for name in ("tick", "kind", "actor", "target")]
        rows += [(chunk.ref.tick0 + tick, *rest) for tick, *rest in zip(*columns, strict=True)]
    return rows


def test_header_sensing_ranges(match):
    replay, _, _ = match
    assert replay.header["sensing"] == {
        "radar": [21.0, 16.8, 14.0, 11.2],  # 14 vox times the factor of each class's suite
        "ewar": 50.0,
        "ecm": 0.85,
        "eccm": 0.65,
        "own_eccm": False,
        "quality": [0.25, 1.5],
    }


def test_header_sensing_uses_changed_physics(tmp_path):
    changes = {"physics.radar_vox": 9.0, "physics.ewar_vox": 30.0}
    path, _, _ = play(tmp_path, config(max_episode_seconds=2.0, obs_layout="classic"), recorded=0, changes=[changes])
    with Replay(path) as replay:
        assert replay.header["sensing"]["radar"] == [9.0] * 4 and replay.header["sensing"]["ewar"] == 30.0


def test_frames_match_simulator_state_within_one_quantum(match):
    replay, seen, recorder = match
    frames = all_frames(replay)
    assert recorder.dropped == 0
    assert frames["tick"].tolist() == [int(state["tick"]) for state in seen.states]
    for f, state in enumerate(seen.states):
        alive = state["alive"] == 1
        assert ((frames["flags"][f] & MechFlag.ALIVE) != 0).tolist() == alive.tolist()
        for axis, name in enumerate("xyz"):
            np.testing.assert_allclose(
                frames[name][f] * SCALE[name], state["pos"][:, axis], atol=SCALE[name] / 2 + 1e-4
            )
            speed = np.clip(state["vel"][:, axis], -128, 127) * alive
            np.testing.assert_allclose(frames[f"v{name}"][f] * SCALE["vx"], speed, atol=SCALE["vx"] / 2 + 1e-4)
        turn = (frames["yaw"][f] * SCALE["yaw"] - state["yaw"] + np.pi) % (2 * np.pi) - np.pi
        assert np.abs(turn).max() <= SCALE["yaw"] / 2 + 1e-4
        for name in FLOATS[1:]:
            least = SCALE[name] if name == "hp" else -np.inf
            value = np.maximum(state[name], least) * alive
            np.testing.assert_allclose(frames[name][f] * SCALE[name], value, atol=SCALE[name] / 2 + 1e-4)
        np.testing.assert_allclose(frames["score"][f] * SCALE["score"], state["score"], atol=SCALE["score"] / 2 + 1e-4)
        assert frames["focus"][f].tolist() == np.where(alive, state["focus"], -1).tolist()
        painted = alive & (state["painted"] > 0)
        assert frames["painter"][f].tolist() == np.where(painted, state["painter"], -1).tolist()


def test_alive_mech_has_at_least_one_recorded_hit_point(tmp_path):
    def wound(env) -> None:
        hp = env.engine.batch.numpy("hp").copy()
        hp[0] = np.where(env.engine.batch.numpy("alive")[0] == 1, 0.3, hp[0])
        env.engine.batch.set("hp", hp)

    path, _, _ = play(tmp_path, config(max_episode_seconds=4.0), recorded=0, observe=wound)
    with Replay(path) as replay:
        frames = all_frames(replay)
    living = (frames["flags"] & MechFlag.ALIVE) != 0
    assert living[1].any() and (frames["hp"][1:][living[1:]] == 1).all()
    assert (frames["hp"][~living] == 0).all()


def test_deaths_are_kill_events_and_markers(match):
    replay, seen, _ = match
    kills = [(tick, target) for tick, kind, _, target in all_events(replay) if kind == EventKind.KILL]
    assert len(seen.deaths) >= 2, "the match has too few deaths"
    assert sorted(target for _, target in kills) == sorted(m for _, m in seen.deaths)
    for tick, target in kills:
        ((seen_tick, _),) = [death for death in seen.deaths if death[1] == target]
        assert seen_tick - 5 < tick <= seen_tick
    marks = [(tick, target) for tick, kind, _, target in replay.timeline()["markers"] if kind == EventKind.KILL]
    assert sorted(marks) == sorted(kills)


def test_events_cover_every_kind_and_every_damaged_mech(match):
    replay, seen, _ = match
    kinds = {kind for _, kind, _, _ in all_events(replay)}
    assert kinds >= {EventKind.HIT, EventKind.PAINT, EventKind.KILL, EventKind.LAUNCH, EventKind.IMPACT}
    damaged = {target for _, kind, _, target in all_events(replay) if kind == EventKind.HIT}
    lost_hp = {m for m in range(10) if any(state["hp"][m] < seen.states[0]["hp"][m] for state in seen.states)}
    assert lost_hp <= damaged


def maps_of(replay: Replay) -> list[np.ndarray]:
    """Return the map ``[z, y, x]`` at each frame, computed from edits; check the base table of each chunk."""
    x, y, z = replay.header["world"]["size"]
    cells, found = replay.materials().reshape(-1).copy(), []
    for n in range(len(replay.chunks)):
        chunk = replay.chunk(n)
        base = replay.materials().reshape(-1).copy()
        for cell, run, kind in zip(*(chunk.tables["base"][k] for k in ("cell", "run", "material")), strict=True):
            base[cell : cell + run] = kind
        np.testing.assert_array_equal(base, cells)
        edits = [chunk.tables["edits"][k] for k in ("tick", "cell", "run", "material")]
        assert (np.diff(edits[0]) >= 0).all()
        rows = list(zip(*edits, strict=True))
        for tick in chunk.ticks[1 if n else 0 :]:
            while rows and rows[0][0] + chunk.ref.tick0 <= tick:
                _, cell, run, kind = rows.pop(0)
                cells[cell : cell + run] = kind
            found.append(cells.reshape(y, x, z).transpose(2, 0, 1).copy())
        assert not rows
    return found


def test_edits_reproduce_map_at_every_frame(match):
    replay, seen, _ = match
    maps = maps_of(replay)
    assert len(maps) == len(seen.materials)
    for found, was in zip(maps, seen.materials, strict=True):
        np.testing.assert_array_equal(found, was)
    changed = [int((one != two).sum()) for one, two in zip(maps, maps[1:], strict=False)]
    assert sum(count > 0 for count in changed) > 3 and sum(changed) > 10


def test_overflowing_edit_log_still_ends_with_whole_map(tmp_path, monkeypatch):
    monkeypatch.setattr("echelon.sim.state.EDIT_ROWS_PER_MECH", 1)
    seen = Observer()
    path, _, recorder = play(tmp_path, config(), recorded=0, observe=seen)
    assert recorder.dropped > 0
    with Replay(path) as replay:
        np.testing.assert_array_equal(maps_of(replay)[-1], seen.materials[-1])


def test_round_positions_follow_their_direction(match):
    replay, _, _ = match
    followed = 0
    for n in range(len(replay.chunks)):
        chunk = replay.chunk(n)
        rounds = {name: values.tolist() for name, values in chunk.tables["rounds"].items()}
        rows = [dict(zip(rounds, values, strict=True)) for values in zip(*rounds.values(), strict=True)]
        assert all(0 <= row["frame"] < len(chunk.ticks) for row in rows)
        for one, two in zip(rows, rows[1:], strict=False):
            key = ("owner", "slot", "weapon")
            later = int(chunk.ticks[two["frame"]] - chunk.ticks[one["frame"]]) if two["frame"] > one["frame"] else 0
            weapon = replay.header["weapons"][one["weapon"]]
            if any(one[k] != two[k] for k in key) or later <= 0 or two["age"] - one["age"] != later:
                continue
            if weapon["guidance"] != "linear":
                continue
            way = np.array([two[axis] - one[axis] for axis in "xyz"]) / 4
            assert np.linalg.norm(way) == pytest.approx(weapon["speed"] * later / 20, abs=0.6)
            assert np.cos(np.arctan2(way[1], way[0]) - one["yaw"] * np.pi / 128) > 0.98
            followed += 1
    assert followed > 0


def test_header_and_outcome_match_the_battle(match):
    replay, seen, recorder = match
    header, outcome = replay.header, replay.timeline()["outcome"]
    assert header["world"]["size"] == [EDGE, EDGE, HEIGHT] and header["seed"] == EVAL_SEED_BASE + 3
    assert [team["name"] for team in header["teams"]] == ["B", "R"]
    assert header["config"]["world.size_x"] == EDGE and "gamma" not in header["config"]
    assert [mech["name"] for mech in header["roster"]][::5] == ["B1", "R1"]
    assert "insight" not in header and "action" not in {column["name"] for column in header["columns"]}
    assert (outcome["winner"], outcome["reason"]) == recorder.outcomes[0]
    assert outcome["alive"] == [int(seen.states[-1]["alive"][team * 5 : team * 5 + 5].sum()) for team in (0, 1)]
    assert outcome["ticks"] == int(seen.states[-1]["tick"])


def test_recording_does_not_change_the_battle(tmp_path):
    cfg = config()
    with battle(cfg, threads=1) as env:
        env.reset()
        for _ in range(cfg.max_steps):
            env.step()
        unrecorded = state_hash(env.engine.batch, 0)
    _, recorded, _ = play(tmp_path, cfg, recorded=0)
    assert recorded == unrecorded


def test_autoreset_episode_is_recorded_to_its_end(tmp_path):
    cfg = config(max_episode_seconds=2.0)
    with VectorEnv(
        2, cfg, sides=Sides("none"), maps=Maps(2), pilots=Pilots(weapon_prob=1.0), episodes=Episodes(5), threads=2
    ) as env:
        env.reset()
        recorder = Recorder(env.engine, [1], tmp_path, [MatchInfo(name="m")])
        recorder.begin()
        for _ in range(12):  # into the next episode
            env.step()
            recorder.after_step()
        (path,) = recorder.finish()
        (record,) = [r for r in env.episodes.pop() if r.env == 1]
    with Replay(path) as replay:
        assert replay.complete and replay.ticks == 40
        outcome = replay.timeline()["outcome"]
        assert outcome["reason"] == record.reason == "time_up" and outcome["winner"] == record.winner
        assert outcome["score"] == pytest.approx(record.zone_score, abs=0.05)


def test_replay_size_per_minute_of_ten_mechs(tmp_path):
    sizes = []
    with battle(EnvConfig(), 4, seed=EVAL_SEED_BASE) as env:
        env.reset()
        recorder = Recorder(env.engine, range(4), tmp_path, [MatchInfo(name=f"m{i}") for i in range(4)])
        recorder.begin()
        for _ in range(FRAMES_PER_MINUTE):
            env.step()
            recorder.after_step()
        for path in recorder.finish():
            with Replay(path) as replay:
                world = next((tmp_path / "worlds").glob(f"{replay.header['world']['sha256']}.zz"))
                fixed = replay.chunks[0].offset + world.stat().st_size
                growing = sum(ref.length for ref in replay.chunks) * 20 * 60 / replay.ticks
                sizes.append((fixed + growing) / 1000)
    assert np.mean(sizes) < LIMIT_KB, sizes


@pytest.mark.bench
def test_recording_one_of_64_environments_costs_at_most_two_percent(tmp_path):
    seeds = [EVAL_SEED_BASE + i % 8 for i in range(64)]
    with VectorEnv(
        64,
        EnvConfig(),
        sides=Sides("both"),
        pilots=Pilots(weapon_prob=1.0),
        episodes=Episodes(seeds=seeds, autoreset=False),
    ) as env:
        env.engine.batch["script"].fill_(script_of("medium"))

        def seconds(recorded: bool) -> float:
            env.reset()
            recorder = Recorder(env.engine, [0], tmp_path, [MatchInfo(name="m")]) if recorded else None
            if recorder:
                recorder.begin()
            env.step()
            began = time.perf_counter()
            for _ in range(96):
                env.step()
                if recorder:
                    recorder.after_step()
            took = time.perf_counter() - began
            if recorder:
                recorder.finish()
            return took

        seconds(True)
        ratios = [seconds(True) / seconds(False) for _ in range(15)]
    assert np.median(ratios) <= 1.02, sorted(ratios)


def test_recorder_rejects_wrong_number_of_matches(tmp_path):
    with battle(config(), 2, threads=1) as env:
        with pytest.raises(ValueError, match="matches has 1 entries, expected one for each of 2"):
            Recorder(env.engine, [0, 1], tmp_path, [MatchInfo(name="m")])
