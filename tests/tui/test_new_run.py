"""The new-run form: presets, options, invalid values, and the started run."""

from __future__ import annotations

import time

import pytest

from echelon.jobs.config_layers import unflatten
from echelon.jobs.kinds import KINDS
from echelon.jobs.spec import JobSpec, read_spec, write_spec
from echelon.runs import create_run, list_runs
from echelon_cli.tui import actions
from echelon_cli.tui.screens.new_run import OTHERS, ROWS, cloned_changes, make_draft, value_text
from echelon_cli.tui.screens.run import RunScreen
from echelon_cli.tui.screens.runs import RunsScreen
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
        await user.press(*["down"] * ROWS.index("ppo.lr"), "enter")
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
        await user.press("end", "enter", *"ppo.clip_coef=-3", "enter")
        await user.until("ppo.clip_coef is -3")
        assert "no changes" in user.text
        await user.press("backspace", "backspace", *"0.3 seed=5", "enter")
        await user.until("2 changes", "ppo.clip_coef=0.3", "seed                5")
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


def test_form_rows_are_options_with_descriptions_and_assignments():
    draft = make_draft("quickstart", {"seed": 3, "ppo.clip_coef": 0.3, "start_from": "a b"})
    assert all(draft.descriptions[name] for name in ROWS)
    assert [draft.text(name) for name in (*ROWS[:2], OTHERS)] == ["quickstart", "3", "ppo.clip_coef=0.3"]
    others = draft.with_text(OTHERS, "'eval.seeds=4' threads=2")
    assert others == {"seed": 3, "start_from": "a b", "eval.seeds": 4, "threads": 2}
    assert draft.with_text("seed", "") == {"ppo.clip_coef": 0.3, "start_from": "a b"}
    with pytest.raises(ValueError, match="expected KEY=VALUE"):
        draft.with_text(OTHERS, "threads")
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
