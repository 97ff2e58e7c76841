"""Search spaces of sweeps, the samplers, and plans of files and options."""

from __future__ import annotations

import math
import sys

import pytest

from echelon.jobs.config_layers import ConfigError
from echelon.jobs.sweeps.plan import SAMPLERS, SweepPlan, configuration, prepared
from echelon.jobs.sweeps.samplers import sampler_of
from echelon.jobs.sweeps.space import Dimension, dimensions_of, parse_dimension
from echelon.telemetry.events import EventRung, EventTrial
from echelon_cli.sweep_job import SweepOptions, plan_of


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ppo.lr=1e-5..1e-3:log", Dimension(key="ppo.lr", low=1e-5, high=1e-3, log=True)),
        ("env.num_packs=1..4:step=3", Dimension(key="env.num_packs", low=1, high=4, step=3, integer=True)),
        ("model.recurrence=lstm,mingru", Dimension(key="model.recurrence", choices=("lstm", "mingru"))),
        ("ppo.obs_norm=true,false", Dimension(key="ppo.obs_norm", choices=(True, False))),
        ("ppo.ent_coef_end=0..1", Dimension(key="ppo.ent_coef_end", low=0, high=1)),
    ],
)  # fmt: skip
def test_dimension_is_read_with_the_type_of_its_option(text, expected):
    found = parse_dimension(text)
    assert found == expected
    assert parse_dimension(f"{found.key}={found.text()}") == found


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ppo.lrr=1,2", "did you mean 'ppo.lr'"),
        ("ppo.lr", "expected KEY=VALUES"),
        ("ppo.lr=1e-3..1e-5", "expected the lower bound first"),
        ("ppo.lr=0..1:log", "expected more than 0"),
        ("ppo.lr=1e-5..x", "expected a number"),
        ("ppo.lr=1e-5..1e-3:logg", "expected low, high, step, log, points"),
        ("model.recurrence=1..2", "expected a list of choices"),
        ("ppo.rollout_steps=1.5..20", "expected whole bounds"),
        ("ppo.lr=1e-3,1e-3", "expected different ones"),
    ],
)
def test_invalid_dimension_is_refused_in_one_line(text, message):
    with pytest.raises(ConfigError, match=message) as error:
        parse_dimension(text)
    assert "\n" not in str(error.value)


TABLES = {
    "bounds without end": {"low": 1, "high": 10**400},
    "step is text": {"low": 1e-5, "high": 1e-3, "step": "x"},
    "step is no number": {"low": 1e-5, "high": 1e-3, "step": math.nan},
    "step is infinite": {"low": 1e-5, "high": 1e-3, "step": math.inf},
    "step is tiny": {"low": 1e-5, "high": 1e-3, "step": 5e-324},
    "points are text": {"low": 1e-5, "high": 1e-3, "points": "x"},
    "points are no whole number": {"low": 1e-5, "high": 1e-3, "points": 2.5},
    "log is text": {"low": 1e-5, "high": 1e-3, "log": "x"},
    "choices without end": [number / 1e6 for number in range(1, 1002)],
}


@pytest.mark.parametrize("case", TABLES)
def test_dimension_of_wrong_types_is_refused_in_one_line(case):
    with pytest.raises(ConfigError, match="ppo.lr") as error:
        dimensions_of({"ppo.lr": TABLES[case]})
    assert "\n" not in str(error.value) and len(str(error.value)) < 300


def test_grid_has_the_values_of_its_dimensions():
    assert parse_dimension("ppo.rollout_steps=128..512:step=128").grid() == (128, 256, 384, 512)
    low, middle, high = parse_dimension("ppo.lr=1e-5..1e-3:log:points=3").grid()
    assert (low, high) == (1e-5, 1e-3) and math.isclose(middle, 1e-4)
    with pytest.raises(ConfigError, match="points=4"):
        parse_dimension("ppo.lr=1e-5..1e-3").grid()


def test_share_is_the_position_of_a_value():
    lr = parse_dimension("ppo.lr=1e-5..1e-3:log")
    assert [round(lr.share(v), 6) for v in (1e-5, 1e-4, 1e-3)] == [0.0, 0.5, 1.0]
    assert parse_dimension("ppo.lr_schedule=none,linear,cosine").share("linear") == 0.5
    assert math.isnan(lr.share("x"))


def test_sections_of_a_file_may_be_nested():
    table = {"ppo": {"lr": {"low": 1e-5, "high": 1e-3, "log": True}}, "model.recurrence": ["lstm", "mingru"]}
    assert [d.key for d in dimensions_of(table)] == ["ppo.lr", "model.recurrence"]


VARY = ("ppo.lr=1e-5..1e-3:log", "ppo.rollout_steps=64..512:step=64", "model.recurrence=lstm,mingru")


def plan(sampler: str, **fields) -> SweepPlan:
    given = {"sampler": sampler, "trials": 12, "steps": 9000, **fields}
    return plan_of(None, SweepOptions(preset="quickstart", overrides={}, vary=VARY, fields=given))


def choose(plan: SweepPlan, upto: int, events: list | None = None) -> list:
    """Return the journal after choosing trials up to a number; each bracket is evaluated before the next."""
    sampler, events = sampler_of(plan), list(events or [])
    for event in events:
        sampler.see(event)
    while len([e for e in events if isinstance(e, EventTrial)]) < upto:
        number = sum(isinstance(e, EventTrial) for e in events)
        new: list = [EventTrial(number=number, params=sampler.choose())]
        if number % 4 == 3:
            new += [
                EventRung(trial=n, rung=0, state="evaluated", value=(n * 7 % 5) / 5) for n in range(number - 3, number)
            ]
            new += [EventRung(trial=number, rung=0, state="failed")]
        for event in new:
            sampler.see(event)
        events += new
    return events


@pytest.mark.parametrize("sampler", [name for name in SAMPLERS if name != "grid"])
def test_sampler_built_again_from_the_journal_continues_as_before(sampler):
    pytest.importorskip("optuna")
    sweep = plan(sampler)
    whole = choose(sweep, 12)
    for cut in (3, 6, 11):
        assert [e.params for e in choose(sweep, 12, whole[:cut]) if isinstance(e, EventTrial)] == [
            e.params for e in whole if isinstance(e, EventTrial)
        ]
    params = [e.params for e in whole if isinstance(e, EventTrial)]
    assert len({repr(p) for p in params}) > 6 and {type(p["ppo.rollout_steps"]) for p in params} == {int}
    assert all(1e-5 <= p["ppo.lr"] <= 1e-3 and p["ppo.rollout_steps"] % 64 == 0 for p in params)


@pytest.mark.parametrize(("sampler", "missing"), [("random", "optuna"), ("tpe", "optuna"), ("cma", "cmaes")])
def test_sampler_without_its_package_names_the_extra(monkeypatch, sampler, missing):
    pytest.importorskip("optuna")
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ConfigError, match=r"not installed; try: pip install 'echelon\[sweep\]'"):
        plan(sampler)
    grid = SweepOptions(preset="quickstart", overrides={}, vary=VARY[1:], fields={"sampler": "grid"})
    assert plan_of(None, grid).trials == 16, "a grid needs none"


def test_grid_is_every_combination_once():
    sweep = prepared(
        plan_of(None, SweepOptions(preset="quickstart", overrides={}, vary=VARY[1:], fields={"sampler": "grid"}))
    )
    found = [repr(v.changes) for v in sweep.listed()]
    assert sweep.trials == 16 and len(set(found)) == 16


def test_plan_of_a_file_and_options_that_precede_it(tmp_path):
    file = tmp_path / "sweep.toml"
    file.write_text(
        '[sweep]\nsampler = "grid"\nsteps = 6000\nfinalists = 2\n'
        '[vary]\nppo.lr = [1e-4, 1e-3]\n[config]\npreset = "quickstart"\nnum_envs = 8\n'
    )
    options = SweepOptions(overrides={"num_envs": 4}, vary=("ppo.gamma=0.9,0.99",), fields={"finalists": 1})
    sweep = plan_of(file, options)
    assert (sweep.trials, sweep.finalists, sweep.preset, sweep.total_steps) == (4, 1, "quickstart", 6000)
    assert sweep.base["num_envs"] == 4 and sweep.base["max_minutes"] == 0.0, "budgets are steps"
    assert SweepPlan.from_dict(sweep.as_dict()) == sweep
    values = configuration(sweep, {"ppo.gamma": 0.9}, seed=3).values
    assert values["env.gamma"] == 0.9 and values["seed"] == 3


@pytest.mark.parametrize(
    ("fields", "vary", "message"),
    [
        ({"sampler": "best"}, VARY, "expected one of random"),
        ({"trials": 0}, VARY, "trials is 0"),
        ({}, (), "varies nothing"),
        ({}, ("ppo.gamma=0.9..1.5",), "ppo.gamma is 1.5"),
        ({"minutes": 5.0, "pruning": "asha"}, VARY, "limited in minutes"),
        ({"launcher": 5}, VARY, "launcher is 5, expected text"),
        ({"launcher": ["ray"]}, VARY, "launcher is .*, expected text"),
        ({"group": 5}, VARY, "group is 5, expected text"),
        ({"group": "two words"}, VARY, "is no word"),
        ({}, ("seed=0..999", "threads=0..999", "ppo.lr=0.1,0.2"), "grid has 2000000 trials, expected at most 2000"),
    ],
)
def test_invalid_plan_is_refused_before_anything_starts(fields, vary, message):
    with pytest.raises(ConfigError, match=message):
        plan_of(None, SweepOptions(preset="quickstart", overrides={}, vary=vary, fields={"sampler": "grid", **fields}))


@pytest.mark.parametrize("preset", [5, ["quickstart"]])
def test_preset_of_a_file_is_a_name(tmp_path, preset):
    file = tmp_path / "sweep.toml"
    file.write_text(f"[vary]\nppo.lr = [1e-4, 1e-3]\n[config]\npreset = {preset!r}\n")
    with pytest.raises(ConfigError, match="preset is .*, expected a name"):
        plan_of(file, SweepOptions(overrides={}, fields={}))
