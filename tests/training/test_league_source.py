"""Opponents from a league: near ratings, exploiters, a target; bounded cache, resumes, unloadable policies."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
import torch

from echelon.arena import matchmaking
from echelon.arena.glicko2 import Glicko2Rating
from echelon.arena.league import League, LeagueEntry
from echelon.config import LeagueConfig, MixConfig, OpponentConfig
from echelon.rl.weights import LoadedPolicy
from echelon.training.opponents import league_source
from echelon.training.opponents.league_source import RETURN_SHARE, LeagueSource, find_target
from echelon.training.opponents.pool import FLOOR, OpponentMix
from echelon.training.opponents.runner import OpponentRunner
from echelon.training.runtime.threads import ThreadPool
from tests.training.runs import advance, opposed
from tests.training.test_opponents import champion_of, policy

RUN = "20260101-000000-quickstart-iron-fox"


def entry(name: str, kind: str = "candidate", rating: float = 1500.0, games: int = 40, **meta) -> LeagueEntry:
    return LeagueEntry(
        f"{name}:1:2", f"/league/{name}.pt", kind, None, f"2026-01-01T00:00:{len(name):02}Z",
        Glicko2Rating(rating, 50.0), games, {"label": name, **meta},
    )  # fmt: skip


def league(*entries: LeagueEntry, levels: tuple[str, ...] = ()) -> League:
    src = League()
    for level in levels:
        src.add_scripted(level)
    src.entries |= {e.entry_id: e for e in entries}
    return src


@pytest.fixture
def opened(monkeypatch):
    """Replace policy loading; return the list of loaded paths."""
    opened_paths: list[str] = []

    def load_pilot(pilot, device, signature):
        opened_paths.append(pilot.path)
        if "broken" in pilot.path:
            raise ValueError(f"checkpoint {pilot.path!r} is gone; add it again from where it is now")
        return LoadedPolicy(policy(len(opened_paths)), {})

    monkeypatch.setattr(league_source, "load_pilot", load_pilot)
    return opened_paths


def source(held: League, mix: MixConfig | None = None, pfsp: float = 0.0, **options) -> LeagueSource:
    mix = mix or MixConfig(scripted=0.0, league=1.0)
    cfg = OpponentConfig(mix=mix, skill="medium", pfsp=pfsp, league=LeagueConfig(**options))
    src = LeagueSource(cfg, 5, policy, run=RUN, check_policy=lambda loaded: loaded.policy)
    src.update_from(held)
    return src


def draws(drawn_from: OpponentMix, count: int = 4000) -> Counter[str]:
    return Counter(drawn_from.draw_many([(n % 40, n // 40) for n in range(count)]))


def test_league_opponents_are_sampled_by_rating_weight(opened):
    others = [entry(f"r{gap}", rating=1500.0 + gap) for gap in (0, 100, 200, 300)]
    submitted = entry("mine", rating=1500.0, run=RUN, update=10)
    counts = draws(source(league(submitted, *others)))
    weights = {f"candidate:r{gap}": matchmaking.opponent_weight(gap) for gap in (0, 100, 200, 300)}
    total = sum(weights.values())
    assert counts.keys() == weights.keys(), "all but the own entry"
    chi_square = sum((counts[n] - 4000 * w / total) ** 2 / (4000 * w / total) for n, w in weights.items())
    assert chi_square < 16.3, "three degrees of freedom, one in a thousand"


@pytest.mark.parametrize(("games", "sampled"), [(19, {"candidate:near"}), (20, {"candidate:near", "candidate:far"})])
def test_warmup_samples_near_ratings_only(opened, games, sampled):
    submitted = entry("mine", games=games, run=RUN, update=3)
    held = league(submitted, entry("near", rating=1699.0), entry("far", rating=1700.0))
    assert draws(source(held)).keys() == sampled


def test_exploiters_of_this_run_have_their_own_weight(opened):
    submitted = entry("mine", run=RUN, update=3)
    held = league(
        submitted,
        entry("weak", "exploiter", 900.0, target=submitted.entry_id),
        entry("other", "exploiter", 1500.0, target="somebody"),
        entry("rival"),
        levels=("medium",),
    )
    mix = MixConfig(scripted=0.0, league=0.8, exploiters=0.2)
    counts = draws(source(held, mix))
    assert counts.keys() == {"exploiter:weak", "exploiter:other", "candidate:rival", "heuristic:medium"}
    assert counts["exploiter:weak"] / 4000 == pytest.approx(0.2, abs=0.03)
    del held.entries["weak:1:2"]
    assert draws(source(held, mix)).keys() == {"exploiter:other", "candidate:rival", "heuristic:medium"}


def test_champion_is_sampled_beside_the_league_and_is_no_entry_of_it(opened):
    cfg = OpponentConfig(mix=MixConfig(scripted=0.0, league=1.0, champion=1.0), skill="medium")
    own = champion_of(3)
    found = LeagueSource(cfg, 5, policy, run=RUN, check_policy=lambda loaded: loaded.policy, champion=own)
    found.update_from(league(entry("champion")))
    counts = draws(found)
    assert counts.keys() == {"champion", "candidate:champion"} and 1800 < counts["champion"] < 2200
    found.release({"champion"})
    assert found.is_ready("champion") and found.policy("champion") is own.policy
    assert found.policy("candidate:champion") is not own.policy


def test_exploiter_samples_only_its_target_until_beaten(opened):
    held = league(entry("main", run="20260101-000000-x-tidal-owl", update=5), entry("rival"), levels=("easy",))
    src = source(held, target="main", target_episodes=10)
    assert draws(src, 200).keys() == {"candidate:main"} and src.target == "main:1:2"
    for outcome in ["win"] * 7 + ["loss"] * 3:
        src.record_outcome("candidate:main", outcome)
    assert src.target_win_rate == pytest.approx(0.7) and not src.target_is_beaten, "more than 0.7, not as much"
    src.record_outcome("candidate:main", "win")
    src.record_outcome("heuristic:easy", "loss")
    assert not src.target_is_beaten, "the oldest that went was a win as well"
    for _ in range(7):
        src.record_outcome("candidate:main", "win")
    assert src.target_is_beaten


def test_find_target_accepts_entry_run_or_commander():
    old, new = (entry(f"tidal-owl u{n}", run="20260101-000000-x-tidal-owl", update=n) for n in (5, 50))
    held = league(old, new, entry("boss", "commander"), levels=("easy",))
    assert find_target(held, "tidal-owl u5", 0) is find_target(held, "update 5 of tidal-owl", 0) is old
    assert find_target(held, "tidal-owl", 0) is new, "the newest of the run"
    assert find_target(held, "easy", 0).entry_id == "heuristic:easy"
    assert find_target(held, "commander", 0).name == "boss"
    with pytest.raises(
        ValueError,
        match="target is 'nobody', expected one of: boss, easy, update 5 of tidal-owl, update 50 of tidal-owl",
    ):
        find_target(held, "nobody", 0)
    with pytest.raises(ValueError, match="the league has none"):
        find_target(league(old), "commander", 0)


def test_find_target_accepts_the_label_that_a_commander_had_as_a_candidate():
    boss = entry("champion u9", "commander")
    boss.commander_name = "Ashen Dagger #94d7"
    held = league(boss, entry("tidal-owl u5"), levels=("easy",))
    for name in ("champion u9", "champion", "Ashen Dagger #94d7", "ashen", boss.entry_id):
        assert find_target(held, name, 0) is boss


def test_unloadable_policy_leaves_the_pool_with_notice(opened):
    src = source(league(entry("broken"), entry("whole")))
    assert draws(src, 100).keys() == {"candidate:whole"}
    assert len(src.notices) == 1 and "opponent 'candidate:broken' is no longer sampled: checkpoint" in src.notices[0]
    src = source(league(entry("broken")))
    assert draws(src, 10).keys() == {"heuristic:medium"}, "an empty pool falls back to the scripted level"


def test_policy_cache_is_bounded_but_keeps_policies_in_use(opened):
    src = source(league(*(entry(f"e{n}") for n in range(12))), cache=2, candidates=12)
    _, runner = opposed(6, src)
    for _ in range(6):
        runner.reset()
        runner.act()
        flying = set(runner.names)
        assert len(src._cache) == max(2, len(flying))
        assert all(src.policy(name) is src.policy(name) for name in flying)
    assert len(opened) > 12, "what was put out had to be loaded again"


def test_loading_policies_keeps_training_rng(opened):
    src = source(league(*(entry(f"e{n}") for n in range(4))))
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    draws(src, 40)
    assert opened and torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize("fate", ["commander", "retired"])
def test_refreshed_league_leaves_running_episodes_their_opponents(opened, fate):
    held = league(entry("mine", run=RUN, update=3), entry("rival"))
    env, runner = opposed(4, src := source(held, pfsp=1.0))
    advance(env, runner)
    state = runner.state_dict()["recurrent"][0].clone()
    held.entries["rival:1:2"].kind = fate
    held.entries |= {e.entry_id: e for e in (entry("new"), entry("mine", rating=1650.0, run=RUN, update=4))}
    src.update_from(held, runner.names)
    pool = {"candidate:new", "commander:rival"} if fate == "commander" else {"candidate:new"}
    assert set(src.pool) == pool and src.rating.rating == 1650.0
    assert runner.names == ["candidate:rival"] * 4 and not runner.done.any()
    assert torch.equal(runner.state_dict()["recurrent"][0], state) and state.any()
    again = OpponentRunner(env, source(held), ThreadPool(1))
    again.load_state_dict(runner.state_dict())
    for one in (runner, again):
        advance(env, one)
        one.after_step(torch.tensor([False, True, False, False]), True)
        assert [name == "candidate:rival" for name in one.names] == [True, False, True, True] and one.names[1] in pool
        assert one.done.tolist() == [0, 0, 1, 1, 0, 0, 0, 0]
        one.source.record_outcome("candidate:rival", "loss")
        assert one.source.priorities.win_rates["rival:1:2"][1] == 1, "booked to the opponent that played it"


def test_scheduled_opponents_of_a_refreshed_league_begin_with_the_next_episode(opened):
    held = league(entry("rival"))
    env, runner = opposed(4, src := source(held))
    env.pilots.schedule = env.pilots.follow = lambda _: None
    del held.entries["rival:1:2"]
    held.entries["new:1:2"] = entry("new")
    src.update_from(held, runner.names)
    runner.begin_schedule(2)
    assert [[runner.scheduled(e, slot) for slot in range(3)] for e in range(4)] == [
        ["candidate:rival", "candidate:new", "candidate:new"]
    ] * 4
    runner.act()
    runner.end_schedule([0, 1, 0, 2])
    assert runner.names == ["candidate:rival", "candidate:new"] * 2


def test_pfsp_samples_league_entries_by_win_rate_through_promotion(opened):
    held = league(entry("strong", rating=100.0), entry("even"), entry("weak", rating=2000.0))
    src = source(held, pfsp=1.0)
    for _ in range(200):
        for name, outcome in (("strong", "loss"), ("even", "draw"), ("weak", "win")):
            src.record_outcome(f"candidate:{name}", outcome)
    held.entries["strong:1:2"].kind = "commander"
    src.update_from(held)
    counts = draws(src)
    expected = {"commander:strong": 1.0, "candidate:even": 0.5, "candidate:weak": FLOOR}
    assert counts.keys() == expected.keys()
    for name, weight in expected.items():
        assert counts[name] / 4000 == pytest.approx(weight / sum(expected.values()), abs=0.02)


def test_matches_of_the_league_are_the_first_estimate_of_a_win_rate(opened):
    held = league(entry("mine", run=RUN, update=3), entry("weak"), entry("strong"))
    src = source(held, pfsp=1.0)
    src.update_from(held, results={"weak:1:2": [16, 2, 0], "strong:1:2": [0, 0, 18]})
    assert src.priorities.win_rates == {"weak:1:2": (0.9, 18), "strong:1:2": (0.05, 18)}
    assert draws(src)["candidate:strong"] / 4000 == pytest.approx(0.95 / 1.05, abs=0.02)
    src.record_outcome("candidate:weak", "loss")
    after = src.priorities.win_rates["weak:1:2"]
    src.update_from(held, results={"weak:1:2": [30, 0, 0]})
    assert src.priorities.win_rates["weak:1:2"] == after, "episodes of the learner as it is now count on"


def test_pfsp_weighs_the_kinds_of_the_league_by_their_opponents(opened):
    held = league(entry("mine", run=RUN, update=3), entry("weak", "exploiter", target=RUN), entry("strong"))
    src = source(held, MixConfig(scripted=0.0, league=0.5, exploiters=0.5), pfsp=1.0, retire_win_rate=1.0)
    for _ in range(200):
        src.record_outcome("candidate:strong", "draw")
        src.record_outcome("exploiter:weak", "win")
    assert draws(src)["exploiter:weak"] / 4000 == pytest.approx(FLOOR / (FLOOR + 0.5), abs=0.02)


@pytest.mark.parametrize("pfsp", [0.0, 1.0])
def test_beaten_exploiters_retire_and_come_back_when_they_win_again(opened, pfsp):
    held = league(entry("mine", run=RUN, update=3), *(entry(n, "exploiter", target=RUN) for n in ("old", "new")))
    held.entries["other:1:2"] = entry("other")
    src = source(held, MixConfig(scripted=0.0, exploiters=1.0), pfsp=pfsp)
    for _ in range(20):
        src.record_outcome("exploiter:old", "win")
    assert src.retired == ["exploiter:old"], "the lower bound of 20 wins is above 70 %"
    assert draws(src)["exploiter:old"] / 4000 == pytest.approx(RETURN_SHARE, abs=0.015)
    for _ in range(20):
        src.record_outcome("exploiter:new", "win")
    counts = draws(src)
    assert counts["candidate:other"] / 4000 == pytest.approx(1 - RETURN_SHARE, abs=0.015), "as without exploiters"
    assert min(counts["exploiter:old"], counts["exploiter:new"]) > 50
    for _ in range(10):
        src.record_outcome("exploiter:old", "loss")
    assert src.retired == ["exploiter:new"] and draws(src)["exploiter:old"] > 3700
    again = LeagueSource(src.cfg, 5, policy, run=RUN, check_policy=lambda loaded: loaded.policy)
    again.load_state_dict(src.state_dict())
    assert again.retired == src.retired and draws(again, 400) == draws(src, 400)


def test_league_source_state_dict_restores_pool(opened):
    mix = MixConfig(scripted=1.0, league=2.0, exploiters=1.0)
    submitted = entry("mine", run=RUN, update=3)
    held = league(submitted, entry("a"), entry("b"), entry("x", "exploiter", target=RUN), levels=("hard",))
    first = source(held, mix)
    first.record_outcome("candidate:a", "win")
    again = LeagueSource(first.cfg, 5, policy, run=RUN, check_policy=lambda loaded: loaded.policy)
    again.load_state_dict(first.state_dict())
    assert [first.draw(3, n) for n in range(200)] == [again.draw(3, n) for n in range(200)]
    assert (again.rating, again.games, again.pool) == (first.rating, first.games, first.pool)


def test_missing_opponent_is_replaced_on_resume_from_zero_state(opened):
    env, first = opposed(6, source(league(entry("a"), entry("b"))))
    advance(env, first)
    assert set(first.names) == {"candidate:a", "candidate:b"} and not first.done.any()
    state = first.state_dict()
    for row in state["source"]["league"]["entries"].values():
        row["ckpt_path"] = row["ckpt_path"].replace("/b.", "/broken.")
    again = OpponentRunner(env, src := source(league(entry("c"))), ThreadPool(1))
    again.load_state_dict(state)
    replaced = [name == "candidate:b" for name in first.names]
    assert again.names == ["candidate:a"] * 6 and src.pool == ["candidate:a"]
    assert again.done.bool().tolist() == [replaced[e] for e in env.opponents.env.tolist()]
    assert again.episodes == [n + is_replaced for n, is_replaced in zip(first.episodes, replaced, strict=True)]
    assert len(src.notices) == 1 and "opponent 'candidate:b' is no longer sampled" in src.notices[0]
    again.act()


def test_entries_with_equal_names_are_distinguished_by_id(opened):
    twin = replace(entry("twin"), entry_id="twin:9:9")
    src = source(league(entry("twin"), twin))
    assert set(src.pool) == {"candidate:twin", "candidate:twin (twin:9:9)"} or len(src.pool) == 2
    stored = src.state_dict()["league"]["entries"].values()
    assert {row["entry_id"] for row in stored} == {"twin:1:2", "twin:9:9"}
