"""The league as a meta-game: pairs without matches, entries without matches, and the size of the bootstrap."""

import pytest

from echelon.arena import metagame as module
from echelon.arena.glicko2 import Glicko2Rating, win_probability
from echelon.arena.metagame import cross_play, metagame
from echelon.arena.store import Store, add_default_levels

IDS = tuple(f"heuristic:{level}" for level in ("trivial", "easy", "medium", "hard"))


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "league.db") as opened:
        add_default_levels(opened)
        yield opened


def results(**wins: tuple[int, int, int]) -> dict:
    """Return head-to-head results, ``ab=(wins, draws, losses)`` those of entry a against entry b, by first letters."""
    of = {name.partition(":")[2][0]: name for name in IDS}
    pairs = []
    for (one, other), (won, drawn, lost) in wins.items():
        for a, b, w, x in ((one, other, won, lost), (other, one, lost, won)):
            row = {"id": of[a], "against": of[b], "wins": w, "draws": drawn, "losses": x}
            pairs.append({**row, "score": (w + drawn / 2) / (won + drawn + lost)})
    return {"entries": [{"id": name, "name": name} for name in IDS], "pairs": pairs}


def by_id(found: dict, column: str) -> list[float]:
    assert [row["id"] for row in found["entries"]] == list(IDS[:3])
    return [row[column] for row in found["entries"]]


def test_cycle_has_three_supporters_and_an_entry_without_matches_is_left_out(store):
    found = metagame(store, results(te=(30, 0, 10), em=(30, 0, 10), mt=(30, 0, 10)))
    assert by_id(found, "nash") == pytest.approx([1 / 3] * 3) and by_id(found, "alpha_rank") == pytest.approx(
        [1 / 3] * 3
    )
    assert min(by_id(found, "support")) > 0.99 and by_id(found, "nash_averaged") == pytest.approx([0.5] * 3)
    assert by_id(found, "matches") == [80] * 3 and by_id(found, "name") == list(IDS[:3])
    assert (found["pairs"], found["unplayed"], found["resamples"]) == (3, 0, module.RESAMPLES)


def test_pair_without_matches_has_the_score_that_ratings_expect(store):
    strong, weak = Glicko2Rating(1900.0, 60.0, 0.06), Glicko2Rating(1300.0, 60.0, 0.06)
    with store.editing() as league:
        league.entries[IDS[0]].rating, league.entries[IDS[2]].rating = strong, weak
    found = metagame(store, results(te=(30, 0, 10), em=(0, 4, 0)))
    assert (found["pairs"], found["unplayed"]) == (3, 1) and by_id(found, "nash") == pytest.approx([1.0, 0.0, 0.0])
    assert by_id(found, "nash_averaged") == pytest.approx([0.5, 0.25, win_probability(weak, strong)])


def test_league_without_matches_has_no_meta_game(store):
    assert metagame(store, results())["entries"] == []


def test_large_league_is_resampled_less_and_its_best_entries_are_compared(store, monkeypatch):
    monkeypatch.setattr(module, "MOST_ENTRIES", 2)
    found = cross_play(store)
    assert (len(found["entries"]), found["left_out"]) == (2, 3)
    monkeypatch.setattr(module, "RESAMPLED_SCORES", 900)
    assert metagame(store, results(te=(3, 0, 1), em=(3, 0, 1)))["resamples"] == module.FEWEST_RESAMPLES
