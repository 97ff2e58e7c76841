"""The curriculum panel: parameters in use, their values and their changes."""

from echelon.telemetry.events import EventCurriculum, EventResume, EventStart, EventUpdate
from echelon.telemetry.snapshot import MAX_CURRICULUM_EVENTS, RunSnapshot, SnapshotBuilder
from echelon_cli.tui.panels.curriculum import (
    CHANGES_TITLE,
    HISTORY_ROWS,
    TABLE_FROM,
    ParameterChange,
    changes_of,
    draw_curriculum,
    parameters_of,
)
from echelon_cli.tui.theme import make_theme

THEME = make_theme()
SIZES = ([50, 60], [65, 80], [80, 100])


def curriculum_event(update: int, reason: str = "schedule", **parameters) -> EventCurriculum:
    return EventCurriculum(update=update, global_step=update * 1000, parameters=parameters, reason=reason)


def start(**mix: float) -> EventStart:
    return EventStart(device="cpu", config={"opponents": {"skill": "easy", "mix": mix}} if mix else {})


def three_changes() -> RunSnapshot:
    """Return a run whose maps grew twice, and whose scripted opponents became stronger in between."""
    return SnapshotBuilder(
        [
            curriculum_event(0, map_size_range=SIZES[0], skill="trivial"),
            curriculum_event(640, map_size_range=SIZES[1], skill="trivial"),
            curriculum_event(900, "gate passed", map_size_range=SIZES[1], skill="easy"),
            curriculum_event(1121, map_size_range=SIZES[2], skill="easy"),
        ]
    ).snapshot()


def drawn(snapshot: RunSnapshot, width: int, height: int) -> str:
    return draw_curriculum(parameters_of(snapshot), changes_of(snapshot), width, height, THEME).text()


def test_parameter_changes_are_newest_first_with_change_and_reason():
    changes = changes_of(three_changes())
    assert [(change.update, change.label, change.values, change.shown_reason) for change in changes] == [
        (1121, "map size", "65-80 to 80-100", ""),
        (900, "skill", "trivial to easy", "gate passed"),
        (640, "map size", "50-60 to 65-80", ""),
    ]


def test_narrow_panel_shows_fitting_changes_and_count_of_older_ones():
    snapshot = three_changes()
    lines = drawn(snapshot, 16, 6).splitlines()
    assert lines[:3] == ["map size  80-100", "skill       easy", CHANGES_TITLE]
    assert lines[3:] == ["1121 map size", " 65-80 to 80-100", "and 2 older"]
    text = drawn(snapshot, 16, 14)
    assert "older" not in text and text.index("1121") < text.index("900") < text.index("640")
    assert "gate passed" in " ".join(text.split())


def test_wide_panel_shows_one_change_per_line_with_steps():
    lines = drawn(three_changes(), TABLE_FROM + 20, 12).rstrip().splitlines()
    at = lines.index(CHANGES_TITLE)
    assert lines[at + 1].split() == ["1121", "1.12M", "steps", "map", "size", "65-80", "to", "80-100"]
    assert lines[at + 2].endswith("gate passed") and len(lines) == at + 4


def test_zoomed_panel_shows_more_changes():
    snapshot = SnapshotBuilder(curriculum_event(n, packs=n) for n in range(40)).snapshot()
    small, large = (drawn(snapshot, 36, height) for height in (9, 30))
    assert small.count(" to ") == 6 and large.count(" to ") == 27
    assert small.endswith("and 33 older") and large.endswith("and 12 older")


def test_bars_are_dropped_before_change_rows():
    changes = [ParameterChange(n, n, "weapon_prob", 0.1, 0.2) for n in range(40, 0, -1)]
    for spare, has_bar in ((3, True), (2, False)):
        text = draw_curriculum({"weapon_prob": 0.25}, changes, 36, spare + HISTORY_ROWS, THEME).text()
        assert ("━" in text) == has_bar


def test_skill_parameter_is_hidden_without_scripted_opponents():
    update = EventUpdate(update=1, global_step=9, curriculum={"skill": "easy", "weapon_prob": 1.0})
    events = [curriculum_event(0, skill="easy", weapon_prob=1.0), curriculum_event(5, skill="medium", weapon_prob=1.0)]
    side_by_side = SnapshotBuilder([start(scripted=0.0, easy=1.0, medium=1.0), *events, update]).snapshot()
    assert parameters_of(side_by_side) == {"weapon_prob": 1.0} and changes_of(side_by_side) == []
    for opponents in (start(scripted=1.0, easy=1.0), start()):
        snapshot = SnapshotBuilder([opponents, *events, update]).snapshot()
        assert parameters_of(snapshot) == {"skill": "easy", "weapon_prob": 1.0}
        assert [change.name for change in changes_of(snapshot)] == ["skill"]


def test_resume_removes_superseded_changes():
    builder = SnapshotBuilder(curriculum_event(update, packs=packs) for packs, update in enumerate((0, 50, 90), 1))
    builder.add(EventResume(update=60, global_step=60_000))
    builder.add(curriculum_event(60, packs=2))
    snapshot = builder.snapshot()
    assert [change.update for change in changes_of(snapshot)] == [50] and parameters_of(snapshot) == {"packs": 2}


def test_listed_changes_are_bounded():
    snapshot = SnapshotBuilder(curriculum_event(n, packs=n) for n in range(3 * MAX_CURRICULUM_EVENTS)).snapshot()
    assert len(snapshot.moves) == MAX_CURRICULUM_EVENTS
    assert changes_of(snapshot)[0].update == 3 * MAX_CURRICULUM_EVENTS - 1


def test_only_share_parameters_have_a_bar():
    text = draw_curriculum({"weapon_prob": 0.25, "map_size": 60, "opponent": "hard"}, [], 20, 10, THEME).text()
    assert "weapon prob" in text and "60" in text and "hard" in text
    assert sum("━" in line for line in text.splitlines()) == 1


def test_long_parameter_name_gets_its_own_row():
    parameters = {"weapon_prob": 0.25, "packs": 3}
    lines = draw_curriculum(parameters, [], 14, 3, THEME).text().splitlines()
    assert lines == ["weapon prob", "         0.250", "packs        3"]
    assert draw_curriculum(parameters, [], 14, 2, THEME).text().startswith("weapon …"), "no row is left for it"


def test_range_parameter_fits_beside_its_name():
    text = draw_curriculum({"map_size_range": [50, 60], "packs_per_team_range": (1, 1)}, [], 18, 2, THEME).text()
    assert [line.split() for line in text.splitlines()] == [["map", "size", "50-60"], ["packs", "per", "team", "1"]]


def test_panel_without_parameters_shows_empty_state():
    assert "no parameters" in draw_curriculum({}, [], 20, 4, THEME).text()
