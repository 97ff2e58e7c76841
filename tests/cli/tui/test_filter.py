"""The line above the list of runs: what is typed into it narrows the list, and what it means is in the help."""

from __future__ import annotations

from echelon_cli.query import FIELDS
from echelon_cli.tui.look import make_look
from echelon_cli.tui.screens.help import help_lines
from echelon_cli.tui.screens.runs import PLACEHOLDER
from tests.cli.tui.canned import make_run


def test_a_query_narrows_the_list_and_says_what_it_does_not_understand(watch, living, ended):
    async def scene(user):
        await user.until("amber-jackal", "quiet-heron")
        await user.press("slash", *"wins>")
        text = await user.until("wins wants a share, such as wins>50%", "2 of 2")
        assert "amber-jackal" in text and "quiet-heron" in text
        await user.press(*"0% -state:running")
        text = await user.until("1 of 2")
        assert "quiet-heron" in text and "amber-jackal" not in text and "wants" not in text
        await user.press("enter", "escape")
        await user.until("amber-jackal", "quiet-heron", "2 runs")

    watch(scene, size=(80, 24))


def test_the_query_holds_for_runs_that_appear_later(watch, home, living):
    async def scene(user):
        await user.until("amber-jackal")
        await user.press("slash", *"steps>1k preset:quick")
        await user.until("1 of 1")
        make_run(home, "20260101-130000-quickstart-swift-lynx", updates=30, ended="completed", seed=5)
        await user.until("2 of 2", "swift-lynx")
        make_run(home, "20260101-140000-quickstart-idle-otter", updates=0, ended="failed", seed=5)
        await user.until("2 of 3")

    watch(scene)


def test_a_problem_is_one_line_on_the_smallest_screen(watch, living):
    async def scene(user):
        await user.until("amber-jackal")
        await user.press("slash", *"stage:running")
        await user.until("'stage' is no field")
        assert all(len(line) <= 60 for line in user.text.splitlines())
        assert "running" in user.text.splitlines()[4], "the list stays as it was"

    watch(scene, size=(60, 20))


def test_the_help_names_every_field_and_fits_the_smallest_screen():
    lines = ["".join(text for text, _ in line) for line in help_lines((), make_look(), 60)]
    text = " ".join(" ".join(lines).split())
    assert all(name in text for name in FIELDS) and "Filter of runs" in text
    assert all(len(line) <= 60 for line in lines) and len(PLACEHOLDER) < 60
