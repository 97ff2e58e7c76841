"""Competitions: every forgery of a folder fails a check of its own, and a stopped one goes on as if it never was."""

import json
import shutil
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from echelon.arena.competition import BOARD, MATCHES, RULES, Competition, verify
from echelon.config import with_fairness
from echelon.statistics import ELO_SCALE, bradley_terry
from echelon.version import __version__
from echelon.web.board import files_check, page_fault, write_board
from tests.arena.policy_files import SMALL, save

GAME = with_fairness(replace(SMALL, max_episode_seconds=11.0), "path")
"""Its matches last until a first state is recorded."""


def play(folder: Path, stops: int = 0) -> Competition:
    """Play a competition, and stop it after each batch."""
    left = [True] * stops
    while not Competition.open(folder).run(envs=4, threads=1, show=str, should_stop=lambda: bool(left and left.pop())):
        assert left is not None
    return Competition.open(folder)


@pytest.fixture(scope="module")
def cup(tmp_path_factory, home):
    folder = tmp_path_factory.mktemp("cup") / "cup"
    begun = Competition.init(folder, "cup", GAME, 1)
    begun.enter("easy", "easy", None)
    begun.enter("medium", "medium", None)
    for name, seed in (("one", 1), ("two", 2)):
        begun.enter(name, "", save(folder.parent / name, seed, env=GAME))
    begun.enter("three", "", save(folder.parent / "three", 3, env=GAME), attacks="two")
    write_board(play(folder))
    return folder


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """The host's runs, where the secret is."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("home")
        patch.setenv("ECHELON_HOME", str(folder))
        yield folder


def faults(folder: Path, sample: float = 0.0) -> dict[str, str]:
    found = verify(Competition.open(folder), sample, 0, published=[PUBLISHED] if sample == 0.0 else [])
    return {name: wrong for name, _, wrong in found if wrong}


PUBLISHED = "0" * 64
"""What a host has published of another competition."""


def rewrite(path: Path, change) -> None:
    """Change the JSON of a file, or of the first line of one with a value a line."""
    head, newline, rest = path.read_text().partition("\n") if path.suffix == ".jsonl" else (path.read_text(), "", "")
    value = json.loads(head)
    change(value)
    path.write_text(json.dumps(value) + newline + rest)


def test_a_copied_folder_is_checked_from_its_files_alone(cup, tmp_path, monkeypatch):
    copy = Path(shutil.copytree(cup, tmp_path / "copy"))
    monkeypatch.setenv("ECHELON_HOME", str(tmp_path / "elsewhere"))
    found = {name: (text, wrong) for name, text, wrong in verify(Competition.open(copy), 1.0)}
    assert not [wrong for _, wrong in found.values() if wrong]
    assert all(
        found[f"actions of {name}"][0].startswith("100.00%") for name in ("easy", "medium", "one", "two", "three")
    )
    assert found["matches"][0] == "14 of 14" and found["simulation"][0].startswith("14 of 14 matches")
    for change in (
        lambda: Competition.open(copy).enter("late", "hard", None),
        lambda: Competition.open(copy).remove("one"),
    ):
        with pytest.raises(ValueError, match="has begun, its entries are fixed since its first match"):
            change()


FORGERIES = {
    "published": lambda at: None,
    "secret": lambda at: rewrite(at / RULES, lambda rules: rules.update(secret="00" * 32)),
    "rules and entries": lambda at: next((at / "entries").rglob("*.safetensors")).write_bytes(b"other"),
    "matches": lambda at: (at / MATCHES).write_text((at / MATCHES).read_text().partition("\n")[2]),
    "recordings": lambda at: rewrite(at / MATCHES, lambda row: row.update(winner="draw")),
    "ratings": lambda at: rewrite(at / BOARD, lambda board: board["entries"][0].update(rating=3000.0)),
}


@pytest.mark.parametrize("check", FORGERIES)
def test_each_forgery_fails_its_check(cup, tmp_path, check):
    copy = Path(shutil.copytree(cup, tmp_path / "copy"))
    FORGERIES[check](copy)
    assert check in faults(copy)


def test_a_player_in_the_name_of_another_is_found(cup, tmp_path):
    """The host lets policy two play for policy one, and writes everything else as it should be."""
    copy = Path(shutil.copytree(cup, tmp_path / "copy"))
    forged = Competition.open(copy)
    shutil.copytree(copy / forged.entries[3].file, copy / forged.entries[2].file, dirs_exist_ok=True)
    forged.entries[2] = replace(forged.entries[2], sha256=forged.hash_of(forged.entries[2]))
    forged.save()
    assert "rules and entries" in faults(copy)
    rewrite(copy / RULES, lambda rules: rules.update(closed=forged.seal()))
    assert list(faults(copy)) == ["published"], "the seal is another one now"
    found = faults(copy, 1.0)
    assert list(found) == ["actions of one"] and "another player played in its name" in found["actions of one"]


def test_rules_and_what_an_entry_is_are_sealed(cup, tmp_path):
    copy = Path(shutil.copytree(cup, tmp_path / "copy"))
    for change in ({"maps": 1, "name": "other"}, {"env": {**asdict(GAME), "max_episode_seconds": 4.0}}):
        forged = Competition.open(copy)
        forged.rules = replace(forged.rules, **change)
        assert forged.seal() != Competition.open(cup).rules.closed
    forged = Competition.open(copy)
    forged.entries[2] = replace(forged.entries[2], program=True)
    forged.entries[0] = replace(forged.entries[0], level="expert")
    forged.rules = replace(forged.rules, closed=forged.seal())
    forged.save()
    assert faults(copy)["rules and entries"] == "easy is no such level; one is not what it is listed as"
    with pytest.raises(ValueError, match="entry 'expert' has the name of a level, expected another"):
        Competition.init(tmp_path / "new", "new", GAME, 1).enter("expert", "easy", None)


def test_the_page_is_that_of_the_matches(cup, tmp_path):
    copy = Path(shutil.copytree(cup, tmp_path / "copy"))
    assert page_fault(Competition.open(copy)) == ""
    index, viewer = copy / "index.html", copy / "watch/game.json"
    index.write_text(index.read_text().replace("easy", "hard", 1))
    assert page_fault(Competition.open(copy)) == "index.html is not what the matches give"
    index.write_bytes((cup / "index.html").read_bytes())
    rewrite(viewer, lambda game: game["matches"][0].update(blue="other"))
    assert "list of matches, watch/game.json, is not what the matches give" in page_fault(Competition.open(copy))


def test_files_that_no_check_reads_are_named(cup, tmp_path):
    copy = Path(shutil.copytree(cup, tmp_path / "copy"))
    assert files_check(Competition.open(copy)) == (f"viewer of Echelon {__version__}", "")
    index = copy / "watch/index.html"
    index.write_text(index.read_text().replace("</body>", "<script>alert(1)</script></body>"))
    assert files_check(Competition.open(copy))[0].startswith("not checked: viewer is not that of Echelon ")
    shutil.copyfile(cup / "watch/index.html", index)
    (copy / "matches/other.ecr").write_bytes(b"other")
    assert files_check(Competition.open(copy))[1] == "matches/other.ecr belongs to no entry, match or page"


def test_an_attacker_plays_its_target_only_and_is_not_rated(cup):
    c = Competition.open(cup)
    own = [row for row in c.rows if "three" in (row.blue, row.red)]
    assert [(row.blue, row.red) for row in own] == [("three", "two"), ("two", "three")]
    c.rows = [replace(row, winner="blue") for row in c.rows]
    board = c.board()
    assert [row["name"] for row in board["entries"]] == ["easy", "medium", "one", "two"]
    assert [row["matches"] for row in board["entries"]] == [6, 6, 6, 6]
    assert board["attackers"] == [{"name": "three", "attacks": "two", "wins": 1, "matches": 2}]
    found = [row["red_team"] for row in board["entries"]]
    assert found == [None, None, None, {"attacker": "three", "of": 1, "win_rate": 50.0, "interval": [9.5, 90.5]}]
    page = (cup / "index.html").read_text()
    assert 'id="three-two"' in page and 'href="#three-two"' in page and "Red team" in page
    unsealed = replace(c, rules=replace(c.rules, closed=""))
    with pytest.raises(ValueError, match="'three' is no rated entry, expected one of: 'easy', 'medium', 'one', 'two'"):
        unsealed.enter("four", "hard", None, attacks="three")
    with pytest.raises(ValueError, match="entry 'Hard' is the level hard, which enters under this name and attacks"):
        unsealed.enter("Hard", "hard", None)


def test_ranks_count_the_entries_that_are_better(cup):
    c = Competition.open(cup)
    rows = [row for row in c.rows * 40 if "three" not in (row.blue, row.red)]
    c.rows = [replace(row, winner={row.blue: "blue", row.red: "red"}.get("one", "draw")) for row in rows]
    assert {row["name"]: row["rank"] for row in c.board()["entries"]} == {"easy": 2, "medium": 2, "one": 1, "two": 2}
    c.rows = [replace(row, winner="draw") for row in rows]
    assert {row["rank"] for row in c.board()["entries"]} == {1}


def test_a_removed_entry_takes_its_attackers_and_files(home, tmp_path):
    c = Competition.init(tmp_path / "cup", "cup", GAME, 1)
    for name, seed, attacks in (("one", 1, ""), ("two", 2, ""), ("three", 3, "two")):
        c.enter(name, "", save(tmp_path / name, seed, env=GAME), attacks)
    with pytest.raises(ValueError, match="entry 'four' does not exist, expected one of: 'one', 'two', 'three'"):
        c.remove("four")
    c.remove("two")
    assert [entry.name for entry in Competition.open(tmp_path / "cup").entries] == ["one"]
    assert [path.name for path in (tmp_path / "cup/entries").iterdir() if path.is_dir()] == ["000"]
    again = c.enter("two", "", save(tmp_path / "four", 4, env=GAME))
    assert again.file == "entries/001" and c.fault_of(again) == ""


def test_a_stopped_competition_goes_on(cup, home, tmp_path, monkeypatch):
    monkeypatch.setenv("ECHELON_HOME", str(home))
    done, again = Competition.open(cup), Path(shutil.copytree(cup, tmp_path / "again"))
    rewrite(again / RULES, lambda rules: rules.update(secret=""))
    lines = (again / MATCHES).read_text().splitlines(keepends=True)
    (again / MATCHES).write_text("".join(lines[:3]))
    assert faults(again)["secret"] == "the competition has not finished"
    assert faults(again)["matches"] == "11 missing, the first is match 3"
    finished = play(again, stops=2)
    same = [[{**asdict(row), "sha256": ""} for row in each.rows] for each in (finished, done)]
    assert same[0] == same[1], "but for the times at which they were recorded"
    assert finished.rules == done.rules


def test_ratings_are_the_odds_of_winning_and_their_intervals_cover():
    points = np.array([[0.0, 750.0], [250.0, 0.0]])
    ratings, covariances = bradley_terry(points, 1)
    assert ratings[1] == covariances[1, 1] == covariances[0, 1] == 0.0
    assert ratings[0] == pytest.approx(ELO_SCALE * np.log(750.5 / 250.5)) == pytest.approx(190, abs=1.0)
    one_sided, _ = bradley_terry(np.array([[0.0, 10.0, 10.0], [0.0, 0.0, 10.0], [0.0, 0.0, 0.0]]), 1)
    assert np.isfinite(one_sided).all() and one_sided[0] > one_sided[1] > one_sided[2]
    rng, true, covered = np.random.default_rng(0), np.array([0.0, 100.0, -150.0, 300.0]), 0
    differences = 0
    chances = 1.0 / (1.0 + np.exp((true[None] - true[:, None]) / ELO_SCALE))
    for _ in range(200):
        won = np.triu(rng.binomial(40, chances), 1)
        drawn = won + np.tril((40 - won.T), -1)
        np.fill_diagonal(drawn, 0)
        found, between = bradley_terry(drawn)
        errors, variance = found - true, np.diag(between)
        covered += int((np.abs(errors)[1:] < 1.96 * np.sqrt(variance[1:])).sum())
        apart = np.abs(errors[1] - errors[3]) < 1.96 * np.sqrt(variance[1] + variance[3] - 2 * between[1, 3])
        differences += int(apart)
    assert 0.92 < covered / 600 < 0.98 and 0.91 < differences / 200 < 0.99
