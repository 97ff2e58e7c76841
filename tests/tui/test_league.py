"""The league screen: read-only access, panels at any size, navigation and updates."""

import random
import shutil
import subprocess
from pathlib import Path

import pytest

from echelon.arena import database
from echelon.arena.league import LeagueEntry
from echelon.arena.matchmaking import Fixture
from echelon.arena.store import MatchRecord, Store, StoreError, league_path
from echelon.jobs.tickets import PYTHON_MODULE
from echelon_cli.tui.feed.league import LeagueFollower, read_league
from echelon_cli.tui.feed.messages import LeagueView
from echelon_cli.tui.feed.thread import RUNS
from echelon_cli.tui.panels.league import (
    COLUMNS,
    draw_entry,
    draw_entry_matches,
    draw_head_to_head,
    draw_ratings_table,
    entry_matches,
    first_visible,
)
from echelon_cli.tui.theme import make_theme

THEME = make_theme()
JOB = "20260101-100000-arena-odd-moth"
NAMES = ("heuristic:medium", "anna", "boris", "a-name-longer-than-its-column-will-ever-be")
STYLE = {
    "mechs": 5.0, "matches": 1.0, "damage.laser": 300.0, "damage.gauss": 100.0, "kills.laser": 2.0, "lost.laser": 3.0
}  # fmt: skip
SIZES = [(160, 48), (60, 20)]


def play(path: Path, rounds: int, first: int = 1) -> None:
    """Play rounds in which the first of two names wins; about every tenth match is a draw."""
    rng = random.Random(first)
    pairs = [(a, b) for a in NAMES for b in NAMES if a != b]
    with Store(path) as store:
        if not store.league().entries:
            with store.editing() as league:
                for name in NAMES:
                    kind, label = ("heuristic", "medium") if name.startswith("heuristic") else ("candidate", name)
                    league.entries[name] = LeagueEntry(name, "", kind, meta={"label": label})
        for number in range(first, first + rounds):
            period = store.open_period(JOB, number, fixtures(pairs, number))
            for fixture in store.unplayed(period):
                stronger = min(fixture.blue, fixture.red, key=NAMES.index)
                winner = "draw" if rng.random() < 0.1 else "blue" if stronger == fixture.blue else "red"
                how = MatchRecord(winner=winner, reason="zone_control", seconds=31.0, styles=(STYLE, STYLE))
                store.record(period, fixture.number, how)
            store.close_period(period)


def fixtures(pairs: list[tuple[str, str]], number: int) -> list[Fixture]:
    return [Fixture(n, blue, red, seed=100 * number + n) for n, (blue, red) in enumerate(pairs)]


@pytest.fixture(scope="module")
def played(tmp_path_factory) -> Path:
    """A league of three rounds."""
    path = tmp_path_factory.mktemp("league") / "league.db"
    play(path, 3)
    return path


@pytest.fixture(scope="module")
def view(played) -> LeagueView:
    return read_league(played)


@pytest.fixture
def league(home, played) -> Path:
    """A copy of the league beside the runs."""
    league_path(home).parent.mkdir(parents=True)
    return Path(shutil.copy(played, league_path(home)))


def test_league_is_read_without_changing_it(league):
    before = league.read_bytes()
    view = read_league(league)
    assert [row["id"] for row in view.entries][:2] == ["heuristic:medium", "anna"]
    assert view.entries[0]["rating"] == 1500 and len(view.entries[0]["history"]) == 3
    assert view.entries[1]["style"]["damage_by"] == {"laser": 0.75, "gauss": 0.25}
    assert view.pairs["anna", "boris"]["score"] > 0.8 and len(view.matches) == 36
    assert league.read_bytes() == before


def test_league_in_read_only_folder_is_read(league, monkeypatch):
    monkeypatch.setattr(database, "READ_ONLY_MODES", ("mode=rw&cache=none", *database.READ_ONLY_MODES[-1:]))
    monkeypatch.setattr(database, "UNWRITABLE", ("no such cache mode",))
    assert len(read_league(league).entries) == len(NAMES)


def test_read_only_store_refuses_writes(league):
    with Store(league, read_only=True) as store, pytest.raises(StoreError, match="open for reading only"):
        store.init_setting("env", 1)
    with pytest.raises(StoreError, match="does not exist"):
        Store(league.with_name("other.db"), read_only=True)
    assert not league.with_name("other.db").exists()


def test_league_is_reread_only_after_changes(home, league):
    follower = LeagueFollower(home)
    assert follower.poll() and not follower.poll()
    play(league, 1, first=4)
    follower._next_read = 0.0
    assert follower.poll() and len(follower.view.entries[0]["history"]) == 4
    with Store(league) as store:
        store.open_period(JOB, 9, fixtures([("anna", "boris")], 9))
    follower._next_read = 0.0
    assert follower.poll() and follower.view.unfinished[0]["round"] == 9


def test_missing_and_damaged_league_are_reported(home):
    follower = LeagueFollower(home)
    assert follower.poll() and follower.view.loaded and not follower.view.entries
    league_path(home).parent.mkdir(parents=True, exist_ok=True)
    league_path(home).write_bytes(b"no database " * 100)
    follower._next_read = 0.0
    assert follower.poll() and "not a database" in follower.view.problem


@pytest.mark.parametrize("size", [(200, 60), (56, 16), (30, 8), (20, 4), (12, 2)], ids=str)
@pytest.mark.parametrize("theme", [THEME, make_theme("ascii", colour=False)], ids=["braille", "ascii"])
def test_league_panels_fit_any_size(view, size, theme):
    for name in NAMES:
        for grid in (
            draw_ratings_table(view, name, *size, theme),
            draw_head_to_head(view, name, *size, theme),
            draw_entry_matches(entry_matches(view, name), name, *size, theme),
            draw_entry(view.entry(name), *size, theme),
        ):
            assert all(len(line) <= size[0] for line in grid.text().splitlines())
            assert theme is THEME or grid.text().isascii()


def test_long_opponent_name_keeps_the_match_result(view):
    rows = entry_matches(view, "anna")
    for width in (56, 76, 120):
        lines = draw_entry_matches(rows, "anna", width, len(rows), THEME).text().splitlines()
        assert all(line.endswith("zone held, 31 s") for line in lines)
        assert len({len(line) for line in lines}) == 1, "results are right-aligned"


def test_cursor_row_spans_the_full_width(view):
    for width in (56, 120):
        grid = draw_ratings_table(view, "anna", width, 10, THEME)
        assert set(grid.roles[2]) == {"cursor"}
    head, row = (line for line in grid.text().splitlines()[:2])
    assert head.index("kind") == row.index("heuristic"), "text is left-aligned with its heading"


def test_ratings_show_intervals_and_drop_minor_columns(view):
    wide, narrow = (draw_ratings_table(view, "anna", width, 10, THEME).text().splitlines() for width in (120, 40))
    assert all(column.name in wide[0] or column.name == "+-" for column in COLUMNS) and "◆" in wide[1]
    assert "rating" in narrow[0] and "±" in narrow[0] and "drawn" not in narrow[0]
    assert narrow[2].startswith("▸ 2 anna")


def test_first_row_keeps_the_cursor_visible():
    assert [first_visible(at, 40, 10) for at in (0, 4, 20, 39)] == [0, 0, 15, 30]
    assert first_visible(3, 4, 10) == 0


@pytest.mark.parametrize("size", SIZES, ids=str)
async def test_league_screen_navigates_and_follows(dashboard, league, living, size):
    async with dashboard(size=size) as user:
        await user.until("amber-jackal")
        await user.press("a")
        await user.until("4 entries", "anna", "1500")
        await user.press("down")
        await user.holds(lambda: "▸ 2 anna" in user.text)
        await user.press("2")
        await user.until("80.0 damage", "laser 75%")
        await user.press("3")
        await user.until("score of row against column", "100%")
        await user.press("4")
        await user.until("of anna", "won", "against medium")
        await user.press("enter")
        await user.until("no recorded match")
        with Store(league) as store:
            store.open_period(JOB, 9, fixtures([("anna", "boris")], 9))
        await user.until("round 9: 0 of 1 matches")
        await user.press("escape")
        await user.until("amber-jackal")


async def test_covered_screen_does_not_change_the_feed_subscription(dashboard, league, living):
    async with dashboard(size=(80, 24)) as user:
        await user.until("amber-jackal")
        below = user.app.screen
        await user.press("a")
        await user.until("4 entries")
        below._follow()  # as its timer does if the league is opened right after the cursor moved
        below.relayout()
        with Store(league) as store:
            store.open_period(JOB, 9, fixtures([("anna", "boris")], 9))
        await user.until("round 9: 0 of 1 matches")
        await user.press("escape")
        await user.holds(lambda: user.app.screen is below and RUNS in user.app.feed.topics)


async def test_empty_league_screen_can_start_a_round(dashboard, home, monkeypatch):
    commands = []

    def run(words, **options):
        commands.append((words, options["env"]["ECHELON_HOME"]))
        return subprocess.CompletedProcess(words, 0, f'{{"run": "{JOB}"}}\n', "")

    monkeypatch.setattr("echelon_cli.tui.actions.subprocess.run", run)
    async with dashboard() as user:
        await user.press("a")
        await user.until("no league yet")
        await user.press("p")
        await user.until("Play a round", "y yes")
        await user.press("y")
        await user.until("started a league round")
    assert commands == [([*PYTHON_MODULE, "echelon_cli.main", "arena", "run", "--detach", "--json"], str(home))]
