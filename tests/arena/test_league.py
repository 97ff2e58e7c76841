"""The league in memory: periods, promotion, retirement, names, opponents."""

import json
import math
import os
import random
from collections import Counter

import pytest

from echelon.arena import matchmaking
from echelon.arena.league import ADJECTIVES, NOUNS, GameResult, Glicko2Rating, League, LeagueEntry, commander_name
from echelon.arena.matchmaking import RoundSpec, fixtures


def entry(name, rating=1500.0, rd=50.0, *, kind="commander", games=100, **more):
    return LeagueEntry(name, f"{name}.pt", kind, rating=Glicko2Rating(rating, rd), games=games, **more)


def league_of(*entries):
    league = League()
    for one in entries:
        league.entries[one.entry_id] = one
    return league


def test_rating_period_uses_ratings_at_period_start():
    league = league_of(entry("a"), entry("b"))
    a, b = (league.entries[i].rating for i in "ab")
    league.apply_rating_period({"a": [GameResult(b, 1.0)], "b": [GameResult(a, 0.0)]})
    up, down = (league.entries[i].rating.rating - 1500 for i in "ab")
    assert up == pytest.approx(-down) and up > 1
    assert [league.entries[i].games for i in "ab"] == [101, 101]


def test_rating_period_is_independent_of_dict_order():
    rng = random.Random(5)
    names = "abcdef"
    games = {n: [GameResult(Glicko2Rating(), rng.random(), rng.choice(names)) for _ in range(5)] for n in names}
    found = []
    for order in (names, names[::-1]):
        league = league_of(*(entry(n, 1300 + 70 * i) for i, n in enumerate(names)))
        league.apply_rating_period({n: games[n] for n in order})
        found.append({n: league.entries[n].rating for n in names})
    assert found[0] == found[1]


def test_rating_period_resolves_opponent_by_id():
    by_id, by_rating = (league_of(entry("a"), entry("b", 1700)) for _ in range(2))
    wrong = Glicko2Rating(100, 30)
    by_id.apply_rating_period({"a": [GameResult(wrong, 1.0, "b")], "b": [GameResult(wrong, 0.0, "a")]})
    snapshot = by_rating.entries["b"].rating
    by_rating.apply_rating_period({"a": [GameResult(snapshot, 1.0)]})
    assert by_id.entries["a"].rating == by_rating.entries["a"].rating


def test_rating_period_ignores_unknown_ids_and_increases_idle_deviation():
    league = league_of(entry("a"))
    league.apply_rating_period({"ghost": [GameResult(Glicko2Rating(), 1.0)], "a": []})
    assert set(league.entries) == {"a"} and league.entries["a"].rating.rd > 50 and league.entries["a"].games == 100


def test_retire_commanders_removes_weakest():
    league = league_of(*(entry(f"cmd_{i}", 1500 - 50 * i) for i in range(10)))
    gone = league.retire_commanders(keep_top=7)
    assert {e.entry_id for e in gone} == {"cmd_7", "cmd_8", "cmd_9"}
    assert len(league.top_commanders(99)) == 7 and all(e.kind == "retired" for e in gone)


def test_retire_commanders_keeps_entries_below_min_games():
    league = league_of(*(entry(f"c{i}", 1500 - 50 * i, games=5 if i < 3 else 100) for i in range(6)))
    gone = league.retire_commanders(keep_top=4, min_games=20)
    assert len(gone) == 2 and all(e.games >= 20 for e in gone)


def test_retire_commanders_ranks_by_the_conservatism_of_the_league():
    league = league_of(entry("steady", 1500, 30), entry("new", 1520, 150))
    league.conservatism = 0.0
    assert [e.entry_id for e in league.retire_commanders(keep_top=1)] == ["steady"]


def test_retired_entries_are_saved_but_not_in_opponent_pool(tmp_path):
    league = league_of(entry("old", kind="retired"), entry("now"), entry("new", kind="candidate"))
    assert league.entries["old"] not in league.opponent_pool(commanders=9, candidates=9)
    league.save(tmp_path / "league.json")
    again = League.load(tmp_path / "league.json")
    assert again.entries["old"].kind == "retired" and again.as_dict() == league.as_dict()


def test_promotion_uses_conservative_rating_by_default():
    for k, rises in ((None, False), (2.0, False), (0.0, True)):
        league = league_of(entry("king", 1500, 30), entry("pretender", 1520, 100, kind="candidate"))
        assert league.promote_if_topk("pretender", top_k=1, conservatism=k) is rises
    league = league_of(entry("king", 1500, 30), entry("pretender", 1520, 100, kind="candidate"))
    league.conservatism = 0.0
    assert league.promote_if_topk("pretender", top_k=0)
    with pytest.raises(KeyError, match="nobody"):
        league.promote_if_topk("nobody", top_k=1)


@pytest.mark.parametrize("kind", ["exploiter", "heuristic", "retired"])
def test_promotion_applies_to_candidates_only(kind):
    league = league_of(entry("x", 9999, 10, kind=kind))
    assert not league.promote_if_topk("x", top_k=5) and league.entries["x"].kind == kind


def test_promotion_assigns_commander_name_once():
    league = league_of(entry("a", kind="candidate"), entry("b", kind="candidate", commander_name="Given"))
    for name in "ab":
        assert league.promote_if_topk(name, top_k=5)
    assert league.entries["b"].commander_name == "Given"
    first = league.entries["a"].commander_name
    adjective, noun, tag = first.split()
    assert adjective in ADJECTIVES and noun in NOUNS and len(tag) == 5 and int(tag[1:], 16) >= 0
    assert commander_name("a") == first and len({commander_name(str(i)) for i in range(200)}) > 190
    assert len(ADJECTIVES) == len(NOUNS) == 15


def test_opponent_pool_membership_by_kind():
    kinds = ("candidate", "commander", "exploiter", "heuristic", "retired")
    league = league_of(*(entry(kind, kind=kind) for kind in kinds))
    assert [e.kind for e in league.top_commanders(9)] == ["commander"]
    assert [e.kind for e in league.recent_candidates(9)] == ["candidate"]
    assert league.recent_candidates(9, exclude_id="candidate") == []
    pool = league.opponent_pool(exclude_id="candidate", commanders=9, candidates=9)
    assert {e.kind for e in pool} == {"commander", "exploiter", "heuristic"} and len(pool) == 3


def test_recent_candidates_are_sorted_newest_first():
    days = [entry(f"c{d}", kind="candidate", created_at=f"2030-01-0{d}T00:00:00Z") for d in (2, 4, 1, 3)]
    assert [e.entry_id for e in league_of(*days).recent_candidates(2)] == ["c4", "c3"]


def checkpoint(tmp_path, name="step-5.pt"):
    path = tmp_path / name
    path.write_bytes(b"weights")
    os.utime(path, (1_700_000_000, 1_700_000_000))
    return path


def test_checkpoint_entry_id_is_stem_size_and_mtime(tmp_path):
    league = League()
    path = checkpoint(tmp_path)
    added = league.upsert_checkpoint(path, kind="candidate")
    assert added.entry_id == "step-5:7:1700000000" and added.created_at.endswith("Z") and len(added.created_at) == 20
    assert league.upsert_checkpoint(path, kind="exploiter", meta={"target": "x"}) is added and added.kind == "exploiter"
    added.kind = "commander"
    assert league.upsert_checkpoint(path, kind="candidate").kind == "commander"
    with pytest.raises(ValueError, match="does not exist"):
        league.upsert_checkpoint(tmp_path / "gone.pt", kind="candidate")
    with pytest.raises(ValueError, match="kind of entry '.*step-5.pt' is 'king', expected one of"):
        league.upsert_checkpoint(path, kind="king")


def test_first_policy_fixes_league_env_signature(tmp_path):
    league = League()
    one, two = checkpoint(tmp_path), checkpoint(tmp_path, "other.pt")
    league.upsert_checkpoint(one, kind="candidate", env_signature={"obs_dim": 867})
    with pytest.raises(ValueError, match="obs_dim 900, expected 867"):
        league.upsert_checkpoint(two, kind="candidate", env_signature={"obs_dim": 900})
    assert len(league.entries) == 1
    again = League.from_dict(league.as_dict())
    with pytest.raises(ValueError, match="layout 'classic', expected None"):
        again.upsert_checkpoint(two, kind="candidate", env_signature={"obs_dim": 867, "layout": "classic"})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "cannot be read"),
        ("[]", "holds no league, expected the output of"),
        ('{"schema_version": 9}', "schema_version is 9, expected 1"),
        ({"entries": 3}, "entries is 3, expected a valid list"),
        ({"entries": [3]}, "entry 0: it is 3, expected a dictionary"),
        ({"entries": [{"entry_id": 4}]}, "entry 0: entry_id is 4, expected a valid string"),
        ({"entries": [{"entry_id": "a", "ckpt_path": "", "kind": "king"}]}, "entry 0: kind of entry 'a' is 'king'"),
        ({"glicko2": {"speed": 1}}, "expected its constants"),
        ({"conservatism": float("nan")}, "conservatism is nan, expected"),
        ({"env_signature": 4}, "env_signature is 4, expected a valid dictionary"),
    ],
)
def test_load_damaged_league_file_raises_one_line_error(tmp_path, text, message):
    text = text if isinstance(text, str) else json.dumps({**League().as_dict(), **text})
    (tmp_path / "league.json").write_text(text)
    with pytest.raises(ValueError, match=message):
        League.load(tmp_path / "league.json")


def test_opponent_weight_decreases_with_rating_gap():
    for gap, weight in {0: 1.0, 100: 0.882, 200: 0.607, 300: 0.325, 400: 0.135}.items():
        assert round(matchmaking.opponent_weight(gap), 3) == weight


def test_sample_opponent_follows_weights():
    pool = [entry(str(gap), 1500 + gap) for gap in (0, 100, 200, 300)]
    rng, draws = random.Random(3), 20_000
    got = Counter(matchmaking.sample_opponent(pool, 1500.0, rng).entry_id for _ in range(draws))
    weights = [matchmaking.opponent_weight(gap) for gap in (0, 100, 200, 300)]
    expected = [draws * w / sum(weights) for w in weights]
    chi2 = sum((got[e.entry_id] - x) ** 2 / x for e, x in zip(pool, expected, strict=True))
    assert chi2 < 16.3, f"p < 0.001 with three degrees of freedom: {got}"


def test_sample_opponent_empty_pool_raises_and_zero_weights_are_uniform():
    with pytest.raises(ValueError, match="opponent pool is empty"):
        matchmaking.sample_opponent([], 1500.0, random.Random())
    far = [entry("a", 1e6), entry("b", -1e6)]
    rng = random.Random(1)
    got = Counter(matchmaking.sample_opponent(far, 0.0, rng).entry_id for _ in range(400))
    assert min(got["a"], got["b"]) > 150


@pytest.mark.parametrize(
    ("games", "gaps", "allowed"),
    [
        (19, (199, 300), {199}),
        (20, (199, 300), {199, 300}),
        (None, (199, 300), {199, 300}),
        (0, (200, 300), {200, 300}),
        (0, (-199, 200), {-199}),
        (0, (450, 900), {450}),
        (0, (900, 1200), {900, 1200}),
    ],
)
def test_warmup_restricts_opponents_to_near_ratings(games, gaps, allowed):
    pool = [entry(str(gap), 1500 + gap) for gap in gaps]
    rng = random.Random(2)
    eligible = {
        int(matchmaking.sample_opponent(pool, 1500.0, rng, sigma=1e4, games=games).entry_id) for _ in range(200)
    }
    assert eligible == allowed


def round_spec(**changes):
    return RoundSpec(**{"seed": 1, "number": 1, "seeds": 3, "opponents": 2, **changes})


def test_round_robin_plays_each_pair_on_same_seeds_from_both_sides():
    found = fixtures([entry(n) for n in "cab"], "round-robin", round_spec())
    assert len(found) == 3 * 3 * 2 and [f.number for f in found] == list(range(18))
    counts = Counter((f.blue, f.red) for f in found)
    assert set(counts.values()) == {3} and len(counts) == 6
    by_pair = {pair: {f.seed for f in found if (f.blue, f.red) == pair} for pair in counts}
    assert len({frozenset(seeds) for seeds in by_pair.values()}) == 1
    later = fixtures([entry(n) for n in "cab"], "round-robin", round_spec(number=2))
    assert not {f.seed for f in found} & {f.seed for f in later}
    assert all(2**30 <= f.seed < 2**31 for f in (*found, *later))


def test_skill_scheme_pairs_near_ratings_without_duplicates():
    entries = [entry(f"e{i:02d}", 1000 + 50 * i) for i in range(20)]
    found = fixtures(entries, "skill", round_spec(opponents=3))
    pairs = {tuple(sorted((f.blue, f.red))) for f in found}
    assert len(found) == len(pairs) * 6
    rating = {e.entry_id: e.rating.rating for e in entries}
    gaps = [abs(rating[a] - rating[b]) for a, b in pairs]
    assert sum(gaps) / len(gaps) < 200 and all(a != b for a, b in pairs)
    assert found == fixtures(entries[::-1], "skill", round_spec(opponents=3)), "the order of entries does not matter"
    assert found != fixtures(entries, "skill", round_spec(opponents=3, number=2))


@pytest.mark.parametrize("scheme", ["round-robin", "skill"])
def test_fixtures_only_restricts_matches_to_given_entries(scheme):
    found = fixtures([entry(n) for n in "abcd"], scheme, round_spec(only=frozenset("b"), opponents=9))
    assert {f.blue for f in found} | {f.red for f in found} == set("abcd") and all(
        "b" in (f.blue, f.red) for f in found
    )


def test_match_seeds_are_unique():
    assert len({matchmaking.match_seed(7, i) for i in range(20_000)}) == 20_000


def standings_of_known_strength(strengths, rounds, seed):
    """Return the ratings of simulated entries of known strength; per round each plays four others."""
    rng = random.Random(seed)
    league = league_of(*(LeagueEntry(str(i), "", "candidate") for i in range(len(strengths))))
    names = list(league.entries)
    for _ in range(rounds):
        results = {n: [] for n in names}
        for shift in (1, 2, 5, 9):
            order = rng.sample(names, len(names))
            for i, one in enumerate(order):
                other = order[(i + shift) % len(order)]
                chance = 1 / (1 + math.exp(-(strengths[int(one)] - strengths[int(other)]) / 173.7178))
                score = float(rng.random() < chance)
                results[one].append(GameResult(Glicko2Rating(), score, other))
                results[other].append(GameResult(Glicko2Rating(), 1 - score, one))
        league.apply_rating_period(results)
    return league


def test_rating_difference_intervals_cover_true_difference():
    inside = pairs = 0
    for seed in range(3):
        rng = random.Random(100 + seed)
        strengths = [rng.gauss(1500, 200) for _ in range(40)]
        league = standings_of_known_strength(strengths, 12, seed)
        for a in range(40):
            for b in range(a):
                one, other = league.entries[str(a)].rating, league.entries[str(b)].rating
                half = 1.959964 * math.hypot(one.rd, other.rd)
                pairs += 1
                inside += abs(one.rating - other.rating - (strengths[a] - strengths[b])) <= half
    assert pairs >= 2000
    assert inside / pairs >= 0.90, f"{inside} of {pairs}"
