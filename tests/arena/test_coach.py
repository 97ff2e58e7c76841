"""Measured mistakes: a known blunder is found, equal lines differ by nothing, and the seed decides alone."""

import hashlib
from pathlib import Path

import numpy as np
import pytest

from echelon.agents import heuristic
from echelon.arena import coach
from echelon.arena.branch import OTHER, Brancher, BranchPlan
from echelon.arena.coach import cast_of, find_mistakes, subject, suspects
from echelon.arena.verify import verify
from echelon.env.engine import Engine
from echelon.env.seats import TRIGGERS
from echelon.gen.bank import build_bank_for
from echelon.play.catalogue import Catalogue
from echelon.replay.codec import ReplayError
from echelon.replay.embed import embed_world, store_coaching
from echelon.replay.header import TeamInfo
from echelon.replay.reader import Replay
from echelon.replay.record import MatchInfo, Recorder
from tests.arena.recorded_matches import record_matches, small_game

BLUE_MECH, RED_MECH = 0, 5
STEP_TICKS = 5
DUEL_SEED = 11


def record_duel(folder: Path, seed: int, *, fires: bool) -> Path:
    """Record a duel of two experts; red pulls a trigger only with ``fires``."""
    cfg = small_game(seconds=20.0, size=30)
    engine = Engine(cfg, 1, build_bank_for(cfg, [seed]), autoreset=False, pilots=heuristic.install)
    batch = engine.batch
    batch.set("forced_seed", np.array([seed], np.int32))
    batch.set("forced_slot", np.zeros(1, np.int32))
    batch.set("script", np.full((1, engine.num_mechs), heuristic.script_of("expert"), np.int32))
    engine.reset()
    alive = np.zeros((1, engine.num_mechs), np.int32)
    alive[0, [BLUE_MECH, RED_MECH]] = 1
    batch.set("alive", alive)
    engine.step()  # a recording that begins later begins with its state
    teams = TeamInfo(name="expert", level="heuristic:expert"), TeamInfo(name="expert", level="heuristic:expert")
    recorder = Recorder(
        engine, [0], folder, [MatchInfo(name=f"duel{seed}", teams=teams, map_seed=seed)], policy="actions"
    )
    recorder.begin()
    while not batch.numpy("over")[0]:
        engine.run("pilots")
        actions = batch.numpy("actions").copy()
        if not fires:
            actions[:, RED_MECH, list(TRIGGERS)] = -1.0
        batch.set("actions", actions)
        engine.step(program="after_pilots")
        recorder.after_step()
    recorder.finish()
    engine.close()
    return recorder.paths[0]


def found(path: Path, who: str = "", **options) -> dict:
    with Replay(path) as recorded:
        return find_mistakes(recorded, cast_of(recorded, Catalogue()), who, **options)


@pytest.fixture
def few_pairs(monkeypatch):
    monkeypatch.setattr(coach, "SCREENED", 16)
    monkeypatch.setattr(coach, "DECIDED", 48)
    monkeypatch.setattr(coach, "SUSPECTS", 2)


@pytest.fixture(scope="module")
def idle_duel(tmp_path_factory) -> Path:
    return record_duel(tmp_path_factory.mktemp("duel"), DUEL_SEED, fires=False)


@pytest.mark.long
def test_held_fire_in_a_duel_is_found_with_a_better_line_to_watch(idle_duel, few_pairs, tmp_path):
    result = found(idle_duel, folder=tmp_path, run="r")
    assert (result["of"], result["by"]) == ("red", "expert") and result["tested"] > 0
    mistake = result["mistakes"][0]
    assert mistake["mech"] == RED_MECH and mistake["low"] > coach.MARGIN and mistake["better"] > mistake["recorded"]
    assert mistake["caption"].count(":") == 2 and f"{100 * mistake['value']:+.0f} points" in mistake["caption"]
    assert mistake["run"] == "r" and verify(tmp_path / mistake["file"]).ok
    with Replay(tmp_path / mistake["file"]) as line:
        parent = line.header["parent"]
        assert parent["set"] == {"R1": f"expert for {mistake['window_s']:g} s"} and parent["tick"] == mistake["tick"]
        assert line.outcome is not None and line.outcome["winner"] != 0
    other = found(idle_duel, folder=tmp_path, run="r", threads=2)
    assert other == result, "threads change the result"
    assert found(idle_duel, seed=1)["mistakes"] != result["mistakes"]


def first_actions(path: Path, steps: int) -> np.ndarray:
    with Replay(path) as branch:
        return branch.chunk(0).frames["action"][1 : steps + 1].reshape(steps, 10, -1)


def test_one_mech_repeats_its_actions_or_those_of_the_level_in_another_continuation(idle_duel, tmp_path):
    with Replay(idle_duel) as recorded:
        first = recorded.chunks[0].tick0
        tick = first + 40
        plan = BranchPlan(tick=tick, runs=1, still=frozenset((RED_MECH,)), stand_in="expert", window=8)
        brancher = Brancher(recorded, plan)
        for still in (False, True):
            brancher.play([0], folder=tmp_path / str(still), still=still)
        # the level is that of the mech's pilot, which flies a plain continuation
        Brancher(recorded, BranchPlan(tick=tick)).play([OTHER], folder=tmp_path / "plain")
        wanted = np.concatenate([c.frames["action"][1:] for c in map(recorded.chunk, range(len(recorded.chunks)))])
    paths = {name: next((tmp_path / name).glob("*.ecr")) for name in ("False", "True", "plain")}
    assert all(verify(path).ok for path in paths.values())
    played = {name: first_actions(path, 8) for name, path in paths.items()}
    wanted = wanted[(tick - first) // STEP_TICKS :][:8].reshape(8, 10, -1)
    np.testing.assert_array_equal(played["False"][:, RED_MECH], wanted[:, RED_MECH])
    np.testing.assert_array_equal(played["True"][:, RED_MECH], played["plain"][:, RED_MECH])
    assert (played["True"][:, RED_MECH] != wanted[:, RED_MECH]).any()
    assert (played["False"][:, BLUE_MECH] != wanted[:, BLUE_MECH]).any(), "with another seed blue acts as recorded"


@pytest.fixture(scope="module")
def battle(tmp_path_factory) -> Path:
    cfg = small_game(seconds=12.0)
    return record_matches(tmp_path_factory.mktemp("coach"), cfg, levels=("expert", "easy"), random_mech=False)[0].path


def test_suspects_are_moments_of_the_mechs_before_the_end(battle):
    with Replay(battle) as recorded:
        assert recorded.outcome is not None
        loser = 1 - recorded.outcome["winner"]
        name, mechs = subject(recorded)
        assert name == ("blue", "red")[loser] and mechs == [*range(5 * loser, 5 * loser + 5)]
        all_of_it = suspects(recorded, mechs)
        assert 0 < len(all_of_it) <= coach.SUSPECTS and {one.mech for one in all_of_it} <= set(mechs)
        assert all(0 <= one.tick < recorded.ticks and one.tick % STEP_TICKS == 0 for one in all_of_it)
        of_one = suspects(recorded, subject(recorded, "R2")[1])
        assert {one.mech for one in of_one} <= {6}
        with pytest.raises(ValueError, match="mistakes has 'R9', expected blue, red or one of: B1, "):
            subject(recorded, "R9")


class Stopped(Exception):
    pass


def test_stopped_coach_leaves_nothing_behind(battle, tmp_path):
    def stop(done: int, total: int, text: str) -> None:
        if done:
            raise Stopped

    before = battle.read_bytes()
    with pytest.raises(Stopped):
        found(battle, folder=tmp_path, on_progress=stop)
    assert not list(tmp_path.iterdir()) and battle.read_bytes() == before


COACHING = {"of": "red", "by": "expert", "tested": 1, "runs": 9, "seed": 0, "mistakes": [
    {"tick": 40, "mech": 5, "kind": "death", "window_s": 3.0, "value": 0.3, "low": 0.1, "high": 0.5, "recorded": 0.2,
     "better": 0.5, "run": "", "file": "", "caption": "0:02 R1 is destroyed."},
]}  # fmt: skip


def test_mistakes_are_stored_behind_the_recording(battle, tmp_path):
    path = tmp_path / battle.name
    with Replay(battle) as recorded:
        path.write_bytes(before := embed_world(recorded))
    with Replay(path) as recorded:
        parent = Brancher(recorded, BranchPlan(tick=40)).parent()
        moments = recorded.timeline()["moments"]
    assert parent["sha256"] == hashlib.sha256(before).hexdigest()
    for coaching in (COACHING, {**COACHING, "of": "B2", "mistakes": []}, {**COACHING, "tested": 5}):
        store_coaching(path, coaching)
    with Replay(path) as recorded:
        line = recorded.timeline()
        assert [(one["of"], one["tested"]) for one in line["coached"]] == [("B2", 1), ("red", 5)]
        assert line["moments"] == moments and recorded.recorded_bytes == len(before)
        assert Brancher(recorded, BranchPlan(tick=40)).parent() == parent, "earlier branches lose their parent"
        (tmp_path / "whole.ecr").write_bytes(embed_world(recorded))
    assert path.read_bytes().startswith(before) and verify(path).ok
    with Replay(tmp_path / "whole.ecr") as embedded:
        assert embedded.timeline()["coached"] == line["coached"]


def test_mistakes_of_another_form_are_not_read(battle, tmp_path):
    for number, wrong in enumerate(({"low": "0"}, {"better": 1.5}, {"tick": -1})):
        path = tmp_path / f"{number}.ecr"
        path.write_bytes(battle.read_bytes())
        store_coaching(path, {**COACHING, "mistakes": [{**COACHING["mistakes"][0], **wrong}]})
        with Replay(path) as recorded:
            assert not recorded.complete, wrong
    with pytest.raises((ValueError, ReplayError), match="was not closed"):
        store_coaching(path, COACHING)
