"""A run started from the dashboard: presets, dials, mistakes, and the run itself."""

from __future__ import annotations

import pytest

from echelon.jobs.config_layers import default_values, field_descriptions
from echelon.jobs.kinds import KINDS
from echelon.jobs.spec import read_spec
from echelon.runs import list_runs
from echelon_cli.tui import actions
from echelon_cli.tui.screens.new_run import draw_options, make_draft, value_text
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
    assert all(key in wide for key in keys[:20]), "no name is cut for it"


def test_new_run_form_starts_a_run_with_a_changed_option(watch, fake_kind):
    async def scene(w):
        await w.until("no runs yet", "n  starts a run", "kernels")
        await w.press("n")
        await w.until("preset quickstart", "no changes")
        await w.press("slash", *"ppo.lr", "enter")
        await w.until("ppo.lr_schedule")
        await w.press("enter")
        await w.until("type a value")
        await w.press(*["backspace"] * 5, *"2e-4", "enter")
        await w.until("1 change", "--set", "0.0002")
        await w.press("ctrl+s")
        await w.until("Start a run with preset quickstart and 1")
        await w.press("y")
        await w.holds(lambda: isinstance(w.app.screen, RunScreen))
        await w.until("running")
        await w.press("escape")
        assert isinstance(w.app.screen, RunsScreen)
        await w.until("1 run")

    watch(scene)
    (paths,) = list_runs()
    spec = read_spec(paths)
    assert spec.config["ppo"]["lr"] == 2e-4 and spec.provenance["ppo.lr"] == "--set"
    until(paths, "running")


def test_new_run_form_reports_invalid_values(watch):
    async def scene(w):
        await w.press("n")
        await w.until("preset quickstart")
        await w.press("slash", *"clip_coef", "enter")
        await w.until("ppo.clip_coef")
        await w.press("enter", *["backspace"] * 8, *"-3", "enter")
        await w.until("ppo.clip_coef is -3")
        assert "no changes" in w.text
        await w.press(*["backspace"] * 8, *"0.3", "enter")
        await w.until("1 change")
        await w.press("u")
        await w.until("no changes")
        await w.press("escape", "escape")
        assert isinstance(w.app.screen, RunsScreen)

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
