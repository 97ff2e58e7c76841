"""The opponents and heat map panels: shares, groups of snapshots, and map sizes."""

import math

import numpy as np
import pytest
from safetensors.numpy import save_file

from echelon.telemetry.events import EventCheckpoint, EventEpisodes, EventResume, EventUpdate
from echelon.telemetry.heat_maps import KINDS, heat_files
from echelon.telemetry.snapshot import MAX_OPPONENTS, RunSnapshot, SnapshotBuilder
from echelon_cli.tui.feed import follower as following
from echelon_cli.tui.feed.follower import RunFollower
from echelon_cli.tui.feed.messages import HeatMaps
from echelon_cli.tui.panels.heat_maps import draw_heat_maps, levels_of, resampled
from echelon_cli.tui.panels.opponents import (
    OpponentStats,
    draw_opponents,
    group_snapshots,
    opponent_stats,
    win_rate_role,
)
from echelon_cli.tui.theme import HEAT, heat_role, make_theme
from tests.tui.support.canned import events, make_run

THEME = make_theme()


def snapshot_after(*more) -> RunSnapshot:
    return SnapshotBuilder([*events(20), *more]).snapshot()


def episodes(update: int, **against: dict[str, int]) -> EventEpisodes:
    return EventEpisodes(update=update, global_step=update, count=4, by_opponent=against)


def test_opponents_are_sorted_by_share_with_win_rates():
    found = opponent_stats(snapshot_after(episodes(21, self={"win": 3, "loss": 1, "draw": 0})))
    assert [opponent.name for opponent in found] == ["heuristic:easy", "heuristic:medium", "self", "past:50"]
    by_name = {opponent.name: opponent for opponent in found}
    assert by_name["self"].win_rate == 0.75 and by_name["self"].share == 12 / 64
    assert math.isnan(by_name["past:50"].win_rate), "no battle against it yet"
    text = draw_opponents(found, 40, 8, THEME).text()
    assert "self-play" in text and "75%" in text and "38%" in text


def test_win_rate_is_of_the_newest_battles():
    records = [episodes(21 + n, self={"loss": 4} if n < 50 else {"win": 4}) for n in range(70)]
    results = snapshot_after(*records).episodes
    assert results.against["self"] == (80, 0, 20), "the newest 100 battles, 80 of them won"
    assert len(results.recent["self"]) == 25


def test_whole_run_rate_counts_every_battle_and_rewinds():
    records = [episodes(21 + n, self={"loss": 4} if n < 50 else {"win": 4}) for n in range(70)]
    found = {row.name: row for row in opponent_stats(snapshot_after(*records))}["self"]
    assert found.win_rate == 0.8 and found.whole == 80 / 280 and found.whole_battles == 280
    assert draw_opponents([found], 40, 8, THEME).text().splitlines()[1].split()[-2:] == ["80%", "29%"]
    assert "29%" not in draw_opponents([found], 26, 8, THEME).text(), "a narrow panel keeps the recent rate"
    again = snapshot_after(
        *records[:1],
        EventUpdate(update=21, global_step=21),
        EventCheckpoint(update=21, global_step=21, path="c"),
        *(event for n in range(1, 5) for event in (EventUpdate(update=21 + n, global_step=21 + n), records[n])),
        EventResume(update=21, global_step=21),
    )
    assert again.episodes.whole["self"] == (0, 0, 4)


def test_champion_has_a_row_like_levels():
    found = opponent_stats(snapshot_after(episodes(21, champion={"win": 1, "loss": 3, "draw": 0})))
    row = next(opponent for opponent in found if opponent.name == "champion")
    assert row.win_rate == 0.25 and row.battles == 4
    line = next(line for line in draw_opponents(found, 40, 8, THEME).text().splitlines() if "champion" in line)
    assert line.endswith("25%")


def test_win_rate_is_coloured_only_when_significant():
    shares = {(0.0, 40): "bad", (1.0, 40): "good", (0.5, 40): "", (0.6, 10): "", (0.0, 1): "", (math.nan, 0): "dim"}
    assert {key: win_rate_role(*key) for key in shares} == shares


def test_past_snapshots_are_grouped_in_small_panels():
    many = [
        OpponentStats("heuristic:easy", 0.5, 0.5, 10),
        *(OpponentStats(f"past:{n}", 0.05, n / 10, 10) for n in range(10)),
    ]
    easy, past = group_snapshots(many)
    assert easy.name == "heuristic:easy" and past.name == "10 of past"
    assert past.share == pytest.approx(0.5) and past.win_rate == pytest.approx(0.45) and past.battles == 100
    assert "10 of past" in draw_opponents(many, 30, 6, THEME).text()
    assert "past 9" in draw_opponents(many, 30, 14, THEME).text()


def test_superseded_episodes_are_dropped_and_opponents_bounded():
    rewound = snapshot_after(episodes(21, other={"win": 1}), EventResume(update=20, global_step=20))
    assert "other" in snapshot_after(episodes(21, other={"win": 1})).episodes.against
    assert all(event.update <= 20 for event in rewound.ratings)
    crowded = snapshot_after(*(episodes(21 + n, **{f"past:{n}": {"win": 1}}) for n in range(3 * MAX_OPPONENTS)))
    against = crowded.episodes.against
    assert len(against) == MAX_OPPONENTS and f"past:{3 * MAX_OPPONENTS - 1}" in against


def test_resampled_heat_map_keeps_positions():
    cells = np.zeros((16, 16))
    cells[0, 0], cells[15, 8] = 4.0, 1.0
    for size in (5, 8, 16, 32):
        found = np.array(resampled(cells.tolist(), size))
        assert found.shape == (size, size)
        assert found[0, 0] == found.max() and found[size - 1, size // 2] > 0
    assert levels_of([[0.0, 0.001, 1.0]], 8) == [[0, 1, 7]], "only empty cells have level 0"


def test_heat_map_draws_two_rows_per_cell_with_y_up():
    cells = tuple(tuple(float(y == 15 and x == 0) for x in range(16)) for y in range(16))
    grid = draw_heat_maps(HeatMaps(3, {"movement": cells}), 20, 9, THEME)
    hottest = len(HEAT["dark"]) - 1
    assert grid.roles[1][0] == heat_role(hottest, 0) and grid.roles[8][0] == heat_role(0, 0)
    assert grid.text().splitlines()[0] == "movement"


def test_heat_map_without_colour_uses_shades():
    cells = tuple(tuple(float(x == y) for x in range(16)) for y in range(16))
    heat = HeatMaps(3, dict.fromkeys(KINDS, cells))
    plain_rows = draw_heat_maps(heat, 40, 17, make_theme(colour=False)).text()
    assert "██" in plain_rows and "▀" not in plain_rows
    assert draw_heat_maps(heat, 40, 17, make_theme("ascii")).text().isascii()
    assert all(kind in draw_heat_maps(heat, 60, 9, THEME).text() for kind in KINDS)


def test_follower_reads_newest_valid_heat_maps(home):
    paths = make_run(home, "20260101-120000-quickstart-amber-jackal", updates=5)
    follower = RunFollower(paths.root)
    follower.poll()
    assert follower.view.heat_maps is None
    paths.heat.mkdir()
    grids = {kind: np.full((4, 4), 2.0, np.float32) for kind in KINDS}
    save_file(grids, paths.heat / "u000003.safetensors")
    assert follower.poll() and follower.view.heat_maps.update == 3
    assert not follower.poll(), "unchanged files cause no update"
    (paths.heat / "u000009.safetensors").write_bytes(b"PK torn")
    follower.poll()
    assert follower.view.heat_maps.update == 3, "a damaged file is skipped"
    assert list(heat_files(paths.heat)) == [3, 9]


def test_follower_tries_only_the_newest_heat_maps(home, monkeypatch):
    tried = []

    def damaged(path):
        tried.append(path.name)
        raise ValueError(path)

    paths = make_run(home, "20260101-120000-quickstart-amber-jackal", updates=5)
    paths.heat.mkdir()
    for update in range(20):
        (paths.heat / f"u{update:06d}.safetensors").write_bytes(b"PK torn")
    monkeypatch.setattr(following, "read_heat", damaged)
    RunFollower(paths.root).poll()
    assert tried == ["u000019.safetensors", "u000018.safetensors", "u000017.safetensors", "u000016.safetensors"]
