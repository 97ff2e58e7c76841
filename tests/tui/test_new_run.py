"""The new-run form: presets, options, invalid values, and the started run."""

import time

import pytest

from echelon.jobs.config_layers import unflatten
from echelon.jobs.kinds import KINDS
from echelon.jobs.spec import JobSpec, read_spec, write_spec
from echelon.runs import create_run, list_runs
from echelon_cli.tui import actions
from echelon_cli.tui.screens.new_run import (
    OPTIONS,
    PRESET,
    FormRow,
    cloned_changes,
    draw_form,
    form_rows,
    make_draft,
    value_text,
)
from echelon_cli.tui.screens.run import RunScreen
from echelon_cli.tui.screens.runs import RunsScreen
from echelon_cli.tui.theme import make_theme
from tests.jobs.conftest import FAKE, until
from tests.jobs.conftest import start as start_fake  # noqa: F401  the fixture ends what a test has started


@pytest.fixture
def fake_kind(monkeypatch, start_fake):  # noqa: F811
    monkeypatch.setitem(KINDS, "train", FAKE)


async def test_new_run_form_starts_a_run_with_a_changed_option(dashboard, fake_kind):
    async with dashboard() as user:
        await user.until("no runs yet", "n  starts a run", "echelon train", "kernels")
        await user.press("n")
        await user.until("preset quickstart", "no changes")
        await user.press(*["down"] * (1 + OPTIONS.index("ppo.lr")), "enter")
        await user.until("type a value")
        await user.press(*["backspace"] * 5, *"2e-4", "enter")
        await user.until("1 change", "0.0002")
        await user.press("ctrl+s")
        await user.until("Start a run with preset quickstart and 1")
        await user.press("y")
        await user.holds(lambda: isinstance(user.app.screen, RunScreen))
        await user.until("running")
        await user.press("escape")
        assert isinstance(user.app.screen, RunsScreen)
        await user.until("1 run")
    (paths,) = list_runs()
    spec = read_spec(paths)
    assert spec.config["ppo"]["lr"] == 2e-4 and spec.provenance["ppo.lr"] == "--set"
    until(paths, "running")


async def test_new_run_form_reports_invalid_values(dashboard):
    async with dashboard(size=(60, 20)) as user:
        await user.press("n")
        await user.until("preset quickstart", "no changes")
        await user.press("slash", *"clip probability", "enter", "enter", "end", "backspace", "backspace", "backspace")
        await user.press(*"-3", "enter")
        await user.until("ppo.clip_coef is -3")
        assert "no changes" in user.text
        await user.press("backspace", "backspace", *"0.3", "enter")
        await user.until("1 change\n", "0.3")
        await user.press("escape", "down", "enter", "backspace", *"5", "enter")
        await user.until("2 changes", "20 options, 1 changed")
        await user.press("u")
        await user.until("1 change\n")
        await user.press("escape")
        assert isinstance(user.app.screen, RunsScreen)
        await user.press("n")
        await user.until("1 change\n", "U resets")
        await user.press("U")
        await user.until("no changes")
    assert list_runs() == []


def test_start_run_reports_failures(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("no folder")
    root, (text, role) = actions.start(blocked, "quickstart", {})
    assert root is None and role == "bad" and "cannot be written" in text
    root, (text, role) = actions.start(tmp_path / "runs", "quickstart", {"ppo.lr": -1})
    assert root is None and role == "bad" and "ppo.lr" in text


def test_form_has_every_option_in_a_group_and_common_ones_first():
    draft = make_draft("quickstart", {"seed": 3, "ppo.clip_coef": 0.3, "start_from": "a b"})
    rows = form_rows(draft, (), "")
    groups = [row for row in rows if row.group]
    assert [row.name for row in rows[: len(OPTIONS) + 1]] == [PRESET, *OPTIONS] and len(rows) < 24
    assert sorted(name for row in groups for name in row.group) == sorted(draft.values.keys() - {PRESET})
    assert form_rows(draft, ("ppo",), "")[len(OPTIONS) + 1 :].count(FormRow("ppo.clip_coef")) == 1
    assert [row.name for row in form_rows(draft, (), "clip_coef ppo.")] == ["ppo.clip_coef"]
    found = [row.name for row in form_rows(draft, (), "skill")]
    names = ["skill" in name for name in found]
    assert len(set(names)) == 2 and names == sorted(names, reverse=True), "names before descriptions"
    assert all(text and text == " ".join(text.split()) for text in draft.descriptions.values()), "no line break"
    assert draft.with_text("seed", "") == {"ppo.clip_coef": 0.3, "start_from": "a b"}
    assert draft.with_text("threads", "2") == {**draft.changes, "threads": 2}


@pytest.mark.parametrize("size", [(160, 44), (60, 18), (20, 3), (1, 1)], ids=str)
def test_form_shows_only_changed_values_as_changed_at_any_size(size):
    draft, unfolded = make_draft("quickstart", {"env.num_packs": 3}), {"env", "ppo"}
    rows = form_rows(draft, unfolded, "")
    for cursor in range(0, len(rows), 7):
        grid = draw_form(draft, rows, cursor, unfolded, size, make_theme())
        assert (grid.width, grid.height) == size
        for y, line in enumerate(grid.text().splitlines()):
            assert ("series1" in grid.roles[y]) <= line.strip().startswith("env.num_packs")


def test_values_are_shown_as_they_are_typed():
    assert [value_text(value) for value in (None, True, 1e-4, (1, 2))] == ["none", "true", "0.0001", "(1, 2)"]


async def test_clone_has_the_preset_and_the_differing_values_of_a_run(dashboard, home):
    paths = create_run("quickstart", home)
    base = make_draft("quickstart", {"ppo.lr": 2e-4, "seed": 7})
    write_spec(paths, JobSpec(kind="train", config=unflatten({**base.values, "retired.field": 3}), created=time.time()))
    assert cloned_changes(paths.root) == ("quickstart", {"ppo.lr": 2e-4, "seed": 7})
    async with dashboard() as user:
        await user.until("quickstart")
        await user.press("N")
        await user.until("preset quickstart", "2 changes")
