"""The new-run form: presets, options, invalid values, and the started run."""

from __future__ import annotations

import time

import pytest

from echelon.jobs.config_layers import default_values, field_descriptions, unflatten
from echelon.jobs.kinds import KINDS
from echelon.jobs.spec import JobSpec, read_spec, write_spec
from echelon.runs import create_run, list_runs
from echelon_cli.tui import actions
from echelon_cli.tui.screens.new_run import cloned_changes, draw_options, make_draft, value_text
from echelon_cli.tui.screens.run import RunScreen
from echelon_cli.tui.screens.runs import RunsScreen
from echelon_cli.tui.theme import make_theme
from tests.jobs.conftest import FAKE, until
from tests.jobs.conftest import start as start_fake  # noqa: F401  the fixture ends what a test has started


@pytest.fixture
def fake_kind(monkeypatch, repository, start_fake):  # noqa: F811
    monkeypatch.setitem(KINDS, "train", FAKE)
    monkeypatch.setenv("PYTHONPATH", str(repository))


def test_option_list_shows_descriptions_on_wide_screens():
    draft = make_draft("quickstart", {})
    keys = list(draft.values)
    meant = draft.descriptions[keys[1]]
    wide, small = (draw_options(draft, keys, 0, 0, (width, 24), make_theme()).text() for width in (160, 60))
    assert meant in wide and meant not in small
    for text, width in ((wide, 160), (small, 60)):
        assert all(len(line) <= width for line in text.splitlines())
    assert all(key in wide for key in keys[:20]), "no name is truncated for it"


def test_new_run_form_starts_a_run_with_a_changed_option(watch, fake_kind):
    async def scene(user):
        await user.until("no runs yet", "n  starts a run", "kernels")
        await user.press("n")
        await user.until("preset quickstart", "no changes")
        await user.press("slash", *"ppo.lr", "enter")
        await user.until("ppo.lr_schedule")
        await user.press("enter")
        await user.until("type a value")
        await user.press(*["backspace"] * 5, *"2e-4", "enter")
        await user.until("1 change", "--set", "0.0002")
        await user.press("ctrl+s")
        await user.until("Start a run with preset quickstart and 1")
        await user.press("y")
        await user.holds(lambda: isinstance(user.app.screen, RunScreen))
        await user.until("running")
        await user.press("escape")
        assert isinstance(user.app.screen, RunsScreen)
        await user.until("1 run")

    watch(scene)
    (paths,) = list_runs()
    spec = read_spec(paths)
    assert spec.config["ppo"]["lr"] == 2e-4 and spec.provenance["ppo.lr"] == "--set"
    until(paths, "running")


def test_new_run_form_reports_invalid_values(watch):
    async def scene(user):
        await user.press("n")
        await user.until("preset quickstart")
        await user.press("slash", *"clip_coef", "enter")
        await user.until("ppo.clip_coef")
        await user.press("enter", *["backspace"] * 8, *"-3", "enter")
        await user.until("ppo.clip_coef is -3")
        assert "no changes" in user.text
        await user.press(*["backspace"] * 8, *"0.3", "enter")
        await user.until("1 change")
        await user.press("u")
        await user.until("no changes")
        await user.press("escape", "escape")
        assert isinstance(user.app.screen, RunsScreen)

    watch(scene, size=(60, 20))
    assert list_runs() == []


def test_start_run_reports_failures(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("no folder")
    root, (text, role) = actions.start(blocked, "quickstart", {})
    assert root is None and role == "bad" and "cannot be written" in text
    root, (text, role) = actions.start(tmp_path / "runs", "quickstart", {"ppo.lr": -1})
    assert root is None and role == "bad" and "ppo.lr" in text


def test_new_run_form_lists_every_option_with_description():
    draft = make_draft("quickstart", {"seed": 3})
    assert set(draft.values) == set(default_values()) == set(field_descriptions())
    assert draft.row("seed") == ("seed", "3", "--set")
    silent = [key for key, meaning in field_descriptions().items() if not meaning]
    assert len(silent) < 0.1 * len(draft.values), silent
    assert [value_text(value) for value in (None, True, 1e-4, (1, 2))] == ["none", "true", "0.0001", "(1, 2)"]


def test_new_run_form_keeps_changes_and_shows_its_filter(watch):
    async def scene(user):
        await user.press("n")
        await user.until("preset quickstart", "no changes")
        assert user.text.index("seed") < user.text.index("total_steps") < user.text.index("ppo.lr"), (
            "common options first"
        )
        await user.press("slash", *"clip_coef", "enter", "enter", *["backspace"] * 8, *"0.3", "enter")
        await user.until("1 change", "filter 'clip_coef': ", " filter ")
        await user.press("escape")
        await user.holds(lambda: "filter 'clip_coef'" not in user.text)
        await user.press("escape")
        assert isinstance(user.app.screen, RunsScreen)
        await user.press("n")
        await user.until("1 change", "U resets")
        await user.press("U")
        await user.until("no changes")

    watch(scene, size=(80, 24))


def test_clone_has_the_preset_and_the_differing_values_of_a_run(watch, home):
    paths = create_run("quickstart", home)
    base = make_draft("quickstart", {"ppo.lr": 2e-4, "seed": 7})
    write_spec(paths, JobSpec(kind="train", config=unflatten({**base.values, "retired.field": 3}), created=time.time()))
    assert cloned_changes(paths.root) == ("quickstart", {"ppo.lr": 2e-4, "seed": 7})

    async def scene(user):
        await user.until("quickstart")
        await user.press("N")
        await user.until("preset quickstart", "2 changes")

    watch(scene)
