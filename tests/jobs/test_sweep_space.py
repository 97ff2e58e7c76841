"""Search spaces of sweeps, what Optuna chooses, and plans of files and options."""

import math
import sys
from dataclasses import asdict

import pytest

from echelon.jobs.config_layers import ConfigError
from echelon.jobs.sweeps.plan import SweepPlan, configuration, plan_from
from echelon.jobs.sweeps.schedule import TrialJournal
from echelon.jobs.sweeps.search import choose, importance
from echelon.jobs.sweeps.space import distribution, grid_values, specs_of, split_spec
from echelon.telemetry.events import EventRung, EventTrial
from echelon_cli.sweep_job import plan_of
from tests.jobs.canned_sweep import make_plan


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ppo.lr=1e-5..1e-3:log", "FloatDistribution(high=0.001, log=True, low=1e-05, step=None)"),
        ("env.num_packs=1..4:step=3", "IntDistribution(high=4, log=False, low=1, step=3)"),
        ("model.recurrence=lstm,mingru", "CategoricalDistribution(choices=('lstm', 'mingru'))"),
        ("ppo.obs_norm=true,false", "CategoricalDistribution(choices=(True, False))"),
        ("ppo.ent_coef_end=0..1", "FloatDistribution(high=1.0, log=False, low=0.0, step=None)"),
    ],
)
def test_specification_is_a_distribution_of_the_type_of_its_option(text, expected):
    assert str(distribution(*split_spec(text))) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ppo.lrr=1,2", "did you mean 'ppo.lr'"),
        ("ppo.lr", "expected KEY=VALUES"),
        ("ppo.lr=1e-3..1e-5", "low <= high"),
        ("ppo.lr=1..1", "expected the lower bound first"),
        ("ppo.lr=0..1:log", "low > 0"),
        ("ppo.lr=1e-5..x", "'x'; try"),
        ("ppo.lr=nan..1", "expected numbers of at most"),
        ("ppo.lr=1..inf", "expected numbers of at most"),
        (f"ppo.rollout_steps=1..{10**400}", "expected numbers of at most|too large"),
        ("ppo.lr=0..1:step=x", "'x'; try"),
        ("ppo.lr=0..1:step=inf", "expected numbers of at most"),
        ("ppo.lr=0..1:step=5e-324", "step is too small"),
        ("ppo.lr=1e-5..1e-3:logg", "expected log, step, points"),
        ("model.recurrence=1..2", "expected a list of choices"),
        ("ppo.rollout_steps=1.5..20", "'1.5'"),
        ("ppo.lr=1e-3,1e-3", "expected different ones"),
        (f"ppo.lr={','.join(str(n / 1e6) for n in range(1, 1002))}", "at most 1000"),
    ],
)
def test_invalid_specification_is_refused_in_one_line(text, message):
    with pytest.raises(ConfigError, match=message) as error:
        distribution(*split_spec(text))
    assert "\n" not in str(error.value) and len(str(error.value)) < 300


def test_grid_has_the_values_of_its_specification():
    assert grid_values("ppo.rollout_steps", "128..512:step=128") == [128, 256, 384, 512]
    assert grid_values("ppo.rollout_steps", "1..4") == [1, 2, 3, 4]
    low, middle, high = grid_values("ppo.lr", "1e-5..1e-3:log:points=3")
    assert (low, high) == (1e-5, 1e-3) and math.isclose(middle, 1e-4)
    for spec in ("1e-5..1e-3", "1e-5..1e-3:points=1", "1e-5..1e-3:points=2.5"):
        with pytest.raises(ConfigError, match="points=4"):
            grid_values("ppo.lr", spec)


def test_sections_of_a_file_may_be_nested():
    table = {"ppo": {"lr": "1e-5..1e-3:log", "obs_norm": [True, False]}, "model.recurrence": ["lstm", "mingru"]}
    expected = {"ppo.lr": "1e-5..1e-3:log", "ppo.obs_norm": "true,false", "model.recurrence": "lstm,mingru"}
    assert specs_of(table) == expected


VARY = ("ppo.lr=1e-5..1e-3:log", "ppo.rollout_steps=64..512:step=64", "model.recurrence=lstm,mingru")


def plan(sampler: str, **fields) -> SweepPlan:
    return plan_of(None, "quickstart", {}, VARY, {"sampler": sampler, "trials": 12, "steps": 9000, **fields})


def search(sweep: SweepPlan, upto: int, events: list) -> list:
    """Return the journal after choosing trials up to a number; every fourth choice ends those before it.

    One trial has no finite value, one has failed.
    """
    while len(journal := TrialJournal(sweep, events).search) < upto:
        number = len(journal)
        events = [*events, EventTrial(number=number, params=choose(sweep, journal, number))]
        if number % 4 == 3:
            for n in range(number - 3, number + 1):
                value = math.nan if n == 1 else (n * 7 % 5) / 5
                state = "failed" if n == 3 else "evaluated"
                events.append(EventRung(trial=n, rung=0, state=state, value=value))
    return events


@pytest.mark.parametrize("sampler", ["random", "tpe"])
def test_choice_is_a_function_of_plan_and_journal(sampler):
    sweep = plan(sampler)
    whole = search(sweep, 12, [])
    for cut in (3, 6, 11):
        again = search(sweep, 12, whole[:cut])
        assert [e.params for e in again if isinstance(e, EventTrial)] == [
            e.params for e in whole if isinstance(e, EventTrial)
        ]
    params = [e.params for e in whole if isinstance(e, EventTrial)]
    assert len({repr(p) for p in params}) == 12 and {type(p["ppo.rollout_steps"]) for p in params} == {int}
    assert all(1e-5 <= p["ppo.lr"] <= 1e-3 and p["ppo.rollout_steps"] % 64 == 0 for p in params)
    others = search(plan(sampler, seed=1), 12, [])
    assert [e.params for e in others if isinstance(e, EventTrial)] != params


def test_search_repeats_no_equal_trial():
    two = plan_of(None, "quickstart", {}, VARY[2:], {"trials": 16})
    assert (two.sampler, two.trials) == ("grid", 2), "two values are two trials"
    most = plan_of(None, "quickstart", {}, VARY[1:], {"trials": 15})
    params = [repr(e.params) for e in search(most, 15, []) if isinstance(e, EventTrial)]
    assert most.sampler == "random" and len(set(params)) == 15, "of 16 combinations"


def test_importance_finds_the_option_that_matters():
    sweep = plan("random")
    events: list = []
    for number in range(12):
        params = choose(sweep, (), number)
        value = -abs(math.log10(params["ppo.lr"]) + 4)
        events += [
            EventTrial(number=number, params=params),
            EventRung(trial=number, rung=0, state="evaluated", value=value),
        ]
    found = importance(sweep, TrialJournal(sweep, events).search)
    assert list(found)[0] == "ppo.lr" and found["ppo.lr"] > 0.5 and sum(found.values()) == pytest.approx(1.0)
    assert importance(sweep, TrialJournal(sweep, events[:6]).search) == {}, "too few trials"


def test_search_without_optuna_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(ConfigError, match=r"not installed; try: pip install 'echelon\[sweep\]'"):
        plan("random")
    assert plan_of(None, "quickstart", {}, (), {"ablate": ["lstm"]}).variants, "variants need none"
    assert importance(make_plan(), ()) == {}


def test_grid_is_every_combination_once():
    sweep = plan_of(None, "quickstart", {}, VARY[1:], {"sampler": "grid"})
    found = [repr(params) for params in sweep.grid()]
    assert sweep.trials == 16 and len(set(found)) == 16


def test_plan_of_a_file_and_options_that_precede_it(tmp_path):
    file = tmp_path / "sweep.toml"
    file.write_text(
        '[sweep]\nsampler = "grid"\nsteps = 6000\nfinalists = 2\n'
        '[vary]\nppo.lr = [1e-4, 1e-3]\n[config]\npreset = "quickstart"\nnum_envs = 8\n'
    )
    sweep = plan_of(file, None, {"num_envs": 4}, ("ppo.gamma=0.9,0.99",), {"finalists": 1})
    assert (sweep.trials, sweep.finalists, sweep.preset, sweep.base["total_steps"]) == (4, 1, "quickstart", 6000)
    assert sweep.base["num_envs"] == 4 and sweep.base["max_minutes"] == 0.0, "budgets are steps"
    assert plan_from(asdict(sweep)) == sweep
    values = configuration(sweep, {"ppo.gamma": 0.9}, seed=3).values
    assert values["env.gamma"] == 0.9 and values["seed"] == 3


@pytest.mark.parametrize(
    ("fields", "vary", "message"),
    [
        ({"sampler": "best"}, VARY, "sampler is 'best', expected 'random', 'grid' or 'tpe'"),
        ({"trials": 0}, VARY, "trials is 0"),
        ({}, (), "needs either --vary or --ablate"),
        ({"ablate": ["lstm"]}, VARY, "needs either --vary or --ablate"),
        ({}, ("ppo.gamma=0.9..1.5:points=2",), "ppo.gamma is 1.5"),
        ({"pruning": "asha"}, VARY, "expected one of steps"),
        ({"launcher": 5}, VARY, "launcher is 5"),
        ({"launcher": ["ray"]}, VARY, "launcher is"),
        ({"group": 5}, VARY, "group is 5"),
        ({"group": "two words"}, VARY, "is no word"),
        ({}, ("seed=0..999", "threads=0..999", "ppo.lr=0.1,0.2"), "grid has 2000000 trials, expected at most 2000"),
    ],
)
def test_invalid_plan_is_refused_before_anything_starts(fields, vary, message):
    with pytest.raises(ConfigError, match=message):
        plan_of(None, "quickstart", {}, vary, {"sampler": "grid", **fields})


@pytest.mark.parametrize("preset", [5, ["quickstart"]])
def test_preset_of_a_file_is_a_name(tmp_path, preset):
    file = tmp_path / "sweep.toml"
    file.write_text(f"[vary]\nppo.lr = [1e-4, 1e-3]\n[config]\npreset = {preset!r}\n")
    with pytest.raises(ConfigError, match="preset is .*, expected a name"):
        plan_of(file, None, {}, (), {})
