"""Evaluation jobs: batches that do not depend on each other, and results equal to those of an evaluation in one go."""

from __future__ import annotations

import json
import math
import shutil
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from echelon import champion
from echelon.config.seeds import eval_seeds
from echelon.jobs.evaluations import batch_event, played_parts
from echelon.replay.reader import Replay
from echelon.rl.checkpoint import find_checkpoint
from echelon.telemetry.lines import MAX_RECORD_BYTES, to_json
from echelon.telemetry.log import EventLog
from echelon.training.eval_job import EvalMatches, PlayedPart
from echelon.training.eval_plan import ROWS_PER_BATCH, EvalPart, EvalPlan, GameSize, batch_seeds
from echelon.training.evaluation import evaluate_ladder
from echelon.training.weights import export_checkpoint
from tests.arena.policy_files import SMALL, save

SHORT = replace(SMALL, max_episode_seconds=4.0)
PLAN = EvalPlan(
    target="one", policy="policy.safetensors", opponents=("heuristic:easy", "heuristic:hard"), ladder=True, seeds=3,
    batch_seeds=2, weapon_prob=1.0, threads=1,
)  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A job's folder with the copy of a policy."""
    root = tmp_path_factory.mktemp("job")
    export_checkpoint(find_checkpoint(save(root / "one", 1, env=SHORT)), root / "policy.safetensors")
    return root


def played(
    plan: EvalPlan, folder: Path, done: tuple[EvalPart, ...] = (), limit: int = 99
) -> dict[EvalPart, PlayedPart]:
    parts = EvalMatches(plan, folder).play(done, lambda finished: None)
    found = {part.part: part for _, part in zip(range(limit), parts, strict=False)}
    parts.close()
    return found


def without_times(result: dict) -> dict:
    levels = [{**row, "duration_s": 0} for row in result["levels"]]
    return {**result, "levels": levels}


def test_batches_cover_all_seeds_evenly():
    for seeds, most in ((40, 16), (1, 16), (16, 16), (17, 16), (3, 1)):
        batches = replace(PLAN, seeds=seeds, batch_seeds=most).batches()
        assert [i for positions in batches for i in positions] == list(range(seeds))
        sizes = [len(positions) for positions in batches]
        assert max(sizes) <= most and max(sizes) - min(sizes) <= 1
    assert sum(PLAN.parts().values()) == PLAN.matches == 3 * 2 * 2 * 2
    assert batch_seeds(SHORT, "cpu") == 40 and batch_seeds(replace(SHORT, num_packs=20), "cpu") == 2


def test_plan_survives_its_spec_and_damage_is_an_error():
    assert EvalPlan.from_dict(json.loads(json.dumps(asdict(PLAN)))) == PLAN
    for change in (
        {"seeds": 0}, {"seeds": "many"}, {"seeds": 10**12}, {"batch_seeds": 10**9}, {"weapon_prob": None},
        {"opponents": []}, {"opponents": ["champion"]},
    ):  # fmt: skip
        with pytest.raises(ValueError, match="evaluation plan .*, expected "):
            EvalPlan.from_dict({**asdict(PLAN), **change})
    with pytest.raises(ValueError, match="evaluation plan is damaged: it is None, expected "):
        EvalPlan.from_dict(None)
    with pytest.raises(ValueError, match="damaged: seeds is missing"):
        EvalPlan.from_dict({name: value for name, value in asdict(PLAN).items() if name != "seeds"})


def test_one_batch_equals_the_evaluation_in_one_go(folder):
    shutil.copytree(champion.FOLDER, folder / "champion")
    names = {"easy": "heuristic:easy", "hard": "heuristic:hard", "champion": "champion"}
    policy = {"opponent_policy": "champion", "opponent_mean": True}
    matches, plan = EvalMatches(PLAN, folder), replace(PLAN, seeds=1, opponents=tuple(names.values()), **policy)
    one_go = evaluate_ladder(matches.policy.policy, SHORT, eval_seeds(1), tuple(names), threads=1)
    parts = played(plan, folder)
    assert one_go["champion"].mean_return != one_go["easy"].mean_return, "another opponent"
    for level, expected in one_go.items():
        stats = EvalMatches(plan, folder).stats(names[level], parts)
        assert math.isfinite(stats.sampled_win_rate) and stats.actions and stats.returns_by_role
        assert replace(stats, duration_s=0.0) == replace(expected, duration_s=0.0)


def test_a_cell_of_a_matrix_equals_the_evaluation_of_its_size(folder):
    games = tuple(GameSize(edge=edge, packs=packs, batch_seeds=3) for edge in (40, 50) for packs in (1, 2))
    plan = replace(PLAN, opponents=("heuristic:easy",), ladder=False, games=games)
    parts = played(plan, folder)
    assert sum(plan.parts().values()) == plan.matches == 4 * 3 * 2 * 2
    assert EvalPlan.from_dict(json.loads(json.dumps(asdict(plan)))) == plan
    matches = EvalMatches(plan, folder)
    result = matches.matrix(parts)
    assert result["opponent"] == "heuristic:easy" and len({cell["mean_return"] for cell in result["cells"]}) == 4
    for game, cell in zip(games, result["cells"], strict=True):
        world = replace(SHORT.world, size_x=game.edge, size_y=game.edge)
        env = replace(SHORT, world=world, num_packs=game.packs)
        alone = evaluate_ladder(matches.policy.policy, env, eval_seeds(3), ("easy",), threads=1)["easy"]
        same = {**asdict(game), **asdict(replace(alone, duration_s=cell["duration_s"]))}
        assert cell == same, "a cell is an evaluation"


def test_resumed_evaluation_equals_undisturbed_one(folder, tmp_path):
    matches, whole = EvalMatches(PLAN, folder), played(PLAN, folder)
    assert list(whole) == list(PLAN.parts())
    found: dict[EvalPart, PlayedPart] = {}
    while len(found) < len(whole):
        # a kill after five parts, in the middle of a batch; the file is all that remains
        for part in played(PLAN, folder, tuple(found), limit=5).values():
            found[part.part] = part
            with EventLog(tmp_path / "matches.jsonl") as log:
                log.append(batch_event(found, part, PLAN))
        with open(tmp_path / "matches.jsonl", "ab") as file:
            file.write(b'{"kind":"eval_batch","batch":0,"oppo')
        assert played_parts(tmp_path / "matches.jsonl", PLAN) == found
        found = played_parts(tmp_path / "matches.jsonl", PLAN)
    for name in PLAN.opponents:
        first, second = matches.stats(name, whole), matches.stats(name, found)
        assert without_times(matches.result({name: first}, ())) == without_times(matches.result({name: second}, ()))
    last = batch_event(found, found[EvalPart(1, "heuristic:hard", False)], PLAN)
    assert (last.played, last.matches, last.episodes, last.episodes_planned) == (24, 24, 6, 6)
    most = max(ROWS_PER_BATCH.values()) // SHORT.team_size
    assert len(to_json(last)) / len(last.results) * most < MAX_RECORD_BYTES, "longer records cannot be read"
    assert last.wins == round(matches.stats("heuristic:hard", whole).sampled_win_rate * 6)


def test_recordings_name_pilots_and_kind_of_actions(folder, tmp_path):
    plan = replace(PLAN, seeds=1, opponents=("heuristic:easy",), replays=str(tmp_path))
    scripted = replace(plan, target="heuristic:hard", policy="", replay_prefix="scripted")
    found = {}
    for each in (plan, scripted):
        played(each, folder)
        with Replay(next(tmp_path.glob(f"{each.replay_prefix}-*-blue.ecr"))) as replay:
            found[each.target] = [(team["name"], team["level"], team.get("mean")) for team in replay.header["teams"]]
    easy = ("easy", "heuristic:easy", None)
    played(replace(plan, record_sampled=True, replay_prefix="sampled"), folder)
    with Replay(next(tmp_path.glob("sampled-*-blue.ecr"))) as replay:
        assert replay.header["teams"][0].get("mean") is None, "these recordings are of sampled actions"
    assert found == {"one": [("update 1", "", True), easy], "heuristic:hard": [("hard", "heuristic:hard", None), easy]}


def test_first_seeds_are_recorded_from_both_sides(folder, tmp_path):
    plan = replace(PLAN, seeds=3, batch_seeds=2, opponents=("heuristic:easy",), replays=str(tmp_path), recorded=1)
    found = [result for each in played(plan, folder).values() for result in each.results if result.replay]
    assert {(result.seed, result.side) for result in found} == {(eval_seeds(3)[0], side) for side in (0, 1)}
    assert sorted(path.name for path in tmp_path.glob("*.ecr")) == sorted(Path(r.replay).name for r in found)
    for result in found:
        with Replay(Path(result.replay)) as replay:
            assert (replay.header["seed"], replay.ticks) == (result.seed, (replay.outcome or {})["ticks"])
            assert [team["name"] for team in replay.header["teams"]].index("update 1") == result.side


def test_damaged_batch_records_are_played_again(folder, tmp_path):
    part = next(iter(played(PLAN, folder, limit=1).values()))
    event = batch_event({part.part: part}, part, PLAN)
    damaged = [
        replace(event, results=event.results[:-1]),
        replace(event, batch=7),
        replace(event, opponent="heuristic:expert"),
        replace(event, results=[{**row, "length": None} for row in event.results]),
        replace(event, results=[{"seed": 1}] * len(event.results)),
    ]
    for row in damaged:
        with EventLog(tmp_path / "matches.jsonl") as log:
            log.append(row)
    assert played_parts(tmp_path / "matches.jsonl", PLAN) == {}
    with EventLog(tmp_path / "matches.jsonl") as log:
        log.append(event)
        log.append(replace(event, duration_s=9.0))
    assert played_parts(tmp_path / "matches.jsonl", PLAN) == {part.part: part}, "the first record counts"
