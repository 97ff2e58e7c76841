"""The filter of the run list, prompt fields, the preview below the list, and the help on queries."""

from dataclasses import replace
from pathlib import Path

import pytest

from echelon.jobs.labels import change_labels
from echelon.jobs.spec import JobSpec, write_spec
from echelon_cli.listing import RunRow
from echelon_cli.query import FIELDS
from echelon_cli.tui.screens.base import COMMON_KEYS
from echelon_cli.tui.screens.help import help_lines
from echelon_cli.tui.screens.run import RunScreen
from echelon_cli.tui.screens.runs import CHART_ROWS, PLACEHOLDER, preview_of
from echelon_cli.tui.theme import make_theme
from tests.tui.support.canned import make_run


async def test_query_filters_runs_and_reports_errors(dashboard, living, ended):
    async with dashboard(size=(80, 24)) as user:
        await user.until("amber-jackal", "quiet-heron")
        await user.press("slash", *"wins>")
        text = await user.until("wins expects a fraction; try wins>50%", "2 of 2")
        assert "amber-jackal" in text and "quiet-heron" in text
        await user.press(*"0% -state:running")
        text = await user.until("1 of 2")
        assert "quiet-heron" in text and "amber-jackal" not in text and "expects" not in text
        await user.press(*" zebra ")
        await user.until("no run matches")
        await user.press("enter", "escape")
        await user.until("amber-jackal", "quiet-heron", "2 runs")


async def test_query_applies_to_runs_added_later(dashboard, home, living):
    async with dashboard() as user:
        await user.until("amber-jackal")
        await user.press("slash", *"steps>1k preset:quick")
        await user.until("1 of 1")
        make_run(home, "20260101-130000-quickstart-swift-lynx", updates=30, ended="completed", seed=5)
        await user.until("2 of 2", "swift-lynx")
        make_run(home, "20260101-140000-quickstart-idle-otter", updates=0, ended="failed", seed=5)
        await user.until("2 of 3")


async def test_query_error_fits_one_line_on_smallest_terminal(dashboard, living):
    async with dashboard(size=(60, 20)) as user:
        await user.until("amber-jackal")
        await user.press("slash", *"stage:running")
        await user.until("unknown field 'stage'")
        assert all(len(line) <= 60 for line in user.text.splitlines())
        assert "running" in user.text.splitlines()[4], "the list is unchanged"


async def test_prompt_field_shows_its_purpose(dashboard, living):
    async with dashboard(size=(60, 20)) as user:
        await user.until("amber-jackal")
        await user.press("slash", *"amber")
        await user.until("\n filter amber")
        await user.press("enter")
        await user.until("\n filter amber")
        await user.press("escape", "enter")
        await user.until("win rate")
        await user.press("slash", *"loss")
        await user.until("\n find loss")
        await user.press("enter", "escape", "l")
        await user.until("following")
        await user.press("slash", *"start")
        await user.until("\n search start")


def test_preview_uses_rows_left_by_the_run_list():
    assert preview_of(60, 20, 4) == (11, 2, 2) and preview_of(80, 24, 1) == (18, 4, 2)
    assert preview_of(80, 24, 12) == (0, 0, 0), "the list takes precedence"
    assert preview_of(160, 48, 4) == (30, 4, 2) and preview_of(160, 48, 200) == (19, 4, 4)
    assert preview_of(160, 48, 0) == (0, 0, 0), "without a run there is nothing to draw"
    for size in ((60, 20), (80, 24), (110, 34), (160, 48), (200, 60)):
        for runs in range(1, 60):
            rows, charts, beside = preview_of(*size, runs)
            assert rows <= size[1] - 6 and (not charts or rows // (charts // beside) >= CHART_ROWS)


async def test_new_runs_push_the_preview_off_a_small_screen(dashboard, home, living):
    async with dashboard(size=(80, 24)) as user:
        await user.until("amber-jackal", "win rate", "training", "steps")
        for number in range(10):
            make_run(home, f"20260101-13000{number}-quickstart-idle-fox{number}", updates=2, ended="stopped")
        await user.until("11 runs", "fox9", "amber-jackal")
        await user.holds(lambda: "win rate" not in user.text)


def test_wide_help_has_two_columns():
    keys = (*RunScreen.KEYS, *COMMON_KEYS)
    wide = ["".join(text for text, _ in line) for line in help_lines(keys, make_theme(), 160)]
    narrow = ["".join(text for text, _ in line) for line in help_lines(keys, make_theme(), 80)]
    assert "Keys" in wide[0] and "States" in wide[0] and len(wide) < 0.75 * len(narrow)
    assert all(len(line) <= 160 for line in wide)
    assert sum(" 1 to 6 " in line for line in wide) == 1
    words = {word for line in narrow for word in line.split()}
    assert words <= {word for line in wide for word in line.split()}


def test_help_lists_every_query_field_and_fits_smallest_terminal():
    lines = ["".join(text for text, _ in line) for line in help_lines((), make_theme(), 60)]
    text = " ".join(" ".join(lines).split())
    assert all(name in text for name in FIELDS) and "Run filter" in text
    assert all(len(line) <= 60 for line in lines) and len(PLACEHOLDER) < 60


@pytest.mark.parametrize("size", [(160, 48), (80, 24)], ids=str)
async def test_filter_that_leaves_one_group_shows_what_differs(dashboard, home, size):
    for number, lr in enumerate((0.001, 0.0003)):
        paths = make_run(home, f"20260101-12000{number}-quickstart-iron-fox{number}", updates=8, ended="stopped")
        write_spec(paths, JobSpec(kind="train", config={"preset": "quickstart", "seed": number, "ppo": {"lr": lr}}))
        change_labels(paths, group="rates")
    make_run(home, "20260101-120009-quickstart-idle-otter", updates=8, ended="stopped")
    async with dashboard(size=size) as user:
        text = await user.until("fox0", "fox1", "otter")
        assert "lr=0.001" not in text
        await user.press("slash", *"group:rates")
        await user.until("2 of 3", "lr=0.001 · seed=0", "lr=0.0003 · seed=1")


def test_status_has_no_opponent_that_no_evaluation_has_met():
    row = RunRow(id="a", root=Path("a"), state="running", opponent="heuristic:expert")
    assert (
        not row.status
        and replace(row, group="rates", variant="lr=0.1").status == "lr=0.1"
        and "variant" not in row.to_dict()
    )
