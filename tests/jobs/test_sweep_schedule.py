"""The schedule of a sweep against a plain-Python oracle, in any order of completion and across kills."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from echelon.jobs.sweeps.plan import BASELINE, SweepPlan
from echelon.jobs.sweeps.schedule import Choose, Done, Journal, Repeat, Start, Wait, finalists, next_step, search_step
from echelon.jobs.sweeps.space import Dimension
from echelon.telemetry.events import EventRung, EventTrial

LR = Dimension(key="ppo.lr", low=1e-5, high=1e-3, log=True)


def make_plan(**fields) -> SweepPlan:
    return SweepPlan(base={"total_steps": 9000, "seed": 4}, dimensions=(LR,), **fields)


def value_of(number: int, rung: int, salt: int) -> tuple[str, float]:
    """Return state and value of a trial at a rung: one in eight fails, many values are equal."""
    draw = random.Random(f"{number}/{rung}/{salt}")
    return ("failed", float("nan")) if draw.random() < 1 / 8 else ("evaluated", draw.randrange(4) / 4)


def simulate(plan: SweepPlan, salt: int, order: random.Random, kills: bool) -> list:
    """Return the journal of a sweep whose running trials end in a random order; kills read the journal again."""
    events: list = []
    journal = Journal()

    def write(event) -> None:
        events.append(event)
        journal.add(event)

    while True:
        if kills and order.random() < 0.2:
            journal = Journal(events)
        step = next_step(plan, journal) if len(journal.running) < plan.at_once else Wait()
        match step:
            case Done():
                return events
            case Choose(bracket):
                write(EventTrial(number=len(journal.trials), bracket=bracket))
            case Repeat(origin, number):
                name = "" if origin >= 0 else BASELINE
                seed = plan.final_seed(number)
                write(EventTrial(number=len(journal.trials), origin=origin, seed=seed, name=name, bracket=-1))
            case Start(trial, rung):
                write(EventRung(trial=trial, rung=rung, state="started"))
            case Wait():
                assert journal.running, "a sweep that waits for nothing never ends"
                trial = order.choice(journal.running)
                state, value = value_of(trial.number, trial.open_rung, salt)
                write(EventRung(trial=trial.number, rung=trial.open_rung, state=state, value=value))


def halving_oracle(plan: SweepPlan, salt: int) -> dict[int, dict[int, tuple[str, float]]]:
    """Return the results of successive halving by trial and rung, computed bracket by bracket."""
    table: dict[int, dict[int, tuple[str, float]]] = {}
    first = 0
    for size in plan.bracket_sizes:
        there = list(range(first, first + size))
        first += size
        for rung in range(plan.last_rung + 1):
            for number in there:
                table.setdefault(number, {})[rung] = value_of(number, rung, salt)
            good = [n for n in there if table[n][rung][0] == "evaluated"]
            good.sort(key=lambda n: (-table[n][rung][1], n))
            there = good[: max(1, len(there) // plan.reduction)]
    return table


def table_of(events) -> dict[int, dict[int, tuple[str, float]]]:
    trials = Journal(events).search
    return {t.number: {r: (e.state, e.value) for r, e in t.results.items()} for t in trials}


def comparable(table) -> str:
    return repr({number: dict(sorted(rungs.items())) for number, rungs in sorted(table.items())})


PLANS = st.builds(
    make_plan,
    trials=st.integers(1, 14),
    bracket=st.integers(0, 6),
    rungs=st.integers(1, 4),
    reduction=st.integers(2, 4),
    at_once=st.integers(1, 4),
    finalists=st.integers(0, 3),
)


@settings(max_examples=60, deadline=None)
@given(plan=PLANS, salt=st.integers(0, 50), seed=st.integers(0, 50), kills=st.booleans())
def test_halving_gives_the_oracles_table_in_any_order(plan, salt, seed, kills):
    events = simulate(plan, salt, random.Random(seed), kills)
    assert comparable(table_of(events)) == comparable(halving_oracle(plan, salt))
    check_once(plan, events)


@settings(max_examples=60, deadline=None)
@given(plan=PLANS, salt=st.integers(0, 50), seed=st.integers(0, 50))
def test_asha_promotes_only_the_best_so_far_and_leaves_none_behind(plan, salt, seed):
    plan = make_plan(
        trials=plan.trials,
        rungs=plan.rungs,
        reduction=plan.reduction,
        at_once=plan.at_once,
        pruning="asha",
        finalists=0,
    )
    events = simulate(plan, salt, random.Random(seed), kills=True)
    seen: dict[int, dict[int, tuple[str, float]]] = {}
    for event in events:
        if not isinstance(event, EventRung):
            continue
        if event.state != "started":
            seen.setdefault(event.rung, {})[event.trial] = (event.state, event.value)
        elif event.rung:
            assert event.trial in top(seen[event.rung - 1], plan.reduction), "among the best 1/reduction when promoted"
    for rung in range(plan.last_rung):
        promoted = seen.get(rung + 1, {}).keys()
        assert set(top(seen.get(rung, {}), plan.reduction)) <= set(promoted), f"rung {rung} left a trial behind"
    assert len(table_of(events)) == plan.trials
    check_once(plan, events)


def top(results: dict[int, tuple[str, float]], reduction: int) -> list[int]:
    good = sorted((n for n in results if results[n][0] == "evaluated"), key=lambda n: (-results[n][1], n))
    return good[: len(results) // reduction]


def check_once(plan: SweepPlan, events: list) -> None:
    """Every trial is chosen once, starts once per rung, and has one result for each start."""
    chosen = [event.number for event in events if isinstance(event, EventTrial)]
    assert chosen == list(range(len(chosen)))
    for states in (("started",), ("evaluated", "failed")):
        keys = [(e.trial, e.rung) for e in events if isinstance(e, EventRung) and e.state in states]
        assert len(keys) == len(set(keys))
    journal = Journal(events)
    assert not journal.running and search_step(plan, journal) is None
    expected = [trial.number for trial in finalists(plan, journal)]
    repeats = [(trial.choice.origin, trial.choice.seed) for trial in journal.finals]
    origins = [*expected, -1] if expected else []
    assert sorted(repeats) == sorted((o, plan.final_seed(n)) for o in origins for n in range(plan.final_seeds))


def test_planned_steps_are_those_of_an_undisturbed_sweep():
    plan = make_plan(trials=24, finalists=3, final_seeds=3)
    assert plan.rung_steps == (1000, 3000, 9000) and plan.bracket_sizes == (24,)
    assert plan.planned_steps == 24 * 1000 + 8 * 2000 + 2 * 6000 + 12 * 9000
    events = simulate(plan, 3, random.Random(0), kills=False)
    assert Journal(events).done_steps(plan) <= plan.planned_steps


def test_equal_values_are_ordered_by_margin_then_number():
    plan = make_plan(trials=6, rungs=2, finalists=0)
    events: list = [EventTrial(number=n) for n in range(6)]
    for n, margin in enumerate((0.0, 0.2, 0.1, 0.2, float("nan"), 0.0)):
        events.append(EventRung(trial=n, rung=0, state="evaluated", value=0.0, hp_margin=margin))
    assert next_step(plan, Journal(events)) == Start(1, 1)


@pytest.mark.parametrize(("sampler", "sizes"), [("random", (20,)), ("tpe", (8, 8, 4))])
def test_adaptive_samplers_choose_in_brackets(sampler, sizes):
    assert make_plan(trials=20, sampler=sampler).bracket_sizes == sizes
