"""The schedule of a sweep against a plain-Python oracle, in any order of completion and across kills."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from echelon.jobs.sweeps.plan import SweepPlan
from echelon.jobs.sweeps.schedule import TrialJournal, TrialStart, Wait, finalists, next_step
from echelon.telemetry.events import EventRung, EventTrial


def make_plan(**fields) -> SweepPlan:
    return SweepPlan(base={"total_steps": 9000, "seed": 4}, vary={"ppo.lr": "1e-5..1e-3:log"}, **fields)


def value_of(number: int, rung: int, salt: int) -> tuple[str, float]:
    """Return state and value of a trial at a rung: some fail, some are no number, many are equal."""
    draw = random.Random(f"{number}/{rung}/{salt}")
    kind = draw.randrange(16)
    return ("failed" if kind < 2 else "evaluated", float("nan") if kind < 3 else draw.randrange(4) / 4)


def simulate(plan: SweepPlan, salt: int, order: random.Random, kills: bool) -> list:
    """Return the journal of a sweep whose running trials end in a random order; kills read the journal again."""
    events: list = []
    journal = TrialJournal(plan)

    def write(event) -> None:
        events.append(event)
        journal.add(event)

    while True:
        if kills and order.random() < 0.2:
            journal = TrialJournal(plan, events)
        step = next_step(plan, journal) if len(journal.running) < plan.at_once else Wait()
        match step:
            case None:
                return events
            case EventTrial():
                write(step)
            case TrialStart(trial, rung):
                write(EventRung(trial=trial, rung=rung, state="started"))
            case Wait():
                assert journal.running, "a sweep that waits for nothing never ends"
                trial = order.choice(journal.running)
                state, value = value_of(trial.number, trial.open_rung, salt)
                write(EventRung(trial=trial.number, rung=trial.open_rung, state=state, value=value))


def halving_oracle(plan: SweepPlan, salt: int) -> dict[int, dict[int, tuple[str, float]]]:
    """Return the results of successive halving by trial and rung, computed bracket by bracket."""
    table: dict[int, dict[int, tuple[str, float]]] = {}
    for first in range(0, plan.trials, plan.batch):
        there = list(range(first, min(first + plan.batch, plan.trials)))
        for rung in range(plan.last_rung + 1):
            for number in there:
                table.setdefault(number, {})[rung] = value_of(number, rung, salt)
            good = [n for n in there if table[n][rung][0] == "evaluated"]
            good.sort(key=lambda n: (-table[n][rung][1] if table[n][rung][1] >= 0 else 1.0, n))
            there = good[: max(1, len(there) // plan.reduction)]
    return table


def table_of(plan, events) -> dict[int, dict[int, tuple[str, float]]]:
    trials = TrialJournal(plan, events).search
    return {t.number: {r: (e.state, e.value) for r, e in t.results.items()} for t in trials}


def comparable(table) -> str:
    return repr({number: dict(sorted(rungs.items())) for number, rungs in sorted(table.items())})


PLANS = st.builds(
    make_plan,
    trials=st.integers(1, 14),
    sampler=st.sampled_from(["random", "tpe"]),
    rungs=st.integers(1, 4),
    reduction=st.integers(2, 4),
    at_once=st.integers(1, 4),
    finalists=st.integers(0, 3),
)


@settings(max_examples=60, deadline=None)
@given(plan=PLANS, salt=st.integers(0, 50), seed=st.integers(0, 50), kills=st.booleans())
def test_halving_gives_the_oracles_table_in_any_order(plan, salt, seed, kills):
    events = simulate(plan, salt, random.Random(seed), kills)
    assert comparable(table_of(plan, events)) == comparable(halving_oracle(plan, salt))
    check_once(plan, events)


def check_once(plan: SweepPlan, events: list) -> None:
    """Every trial is chosen once, starts once per rung, and has one result for each start; the best are repeated."""
    chosen = [event.number for event in events if isinstance(event, EventTrial)]
    assert chosen == list(range(len(chosen)))
    for states in (("started",), ("evaluated", "failed")):
        keys = [(e.trial, e.rung) for e in events if isinstance(e, EventRung) and e.state in states]
        assert len(keys) == len(set(keys))
    journal = TrialJournal(plan, events)
    assert not journal.running and next_step(plan, journal) is None
    repeats = [(trial.choice.name, trial.choice.seed) for trial in journal.repeats]
    names = [variant.name for variant in plan.variants or finalists(plan, journal)]
    assert sorted(repeats) == sorted((name, plan.training_seed(n)) for name in names for n in range(plan.seeds))


def test_planned_steps_are_those_of_an_undisturbed_sweep():
    plan = make_plan(trials=24, finalists=3, seeds=3)
    assert plan.rung_steps == (1000, 3000, 9000) and plan.batch == 24
    assert plan.planned_steps == 24 * 1000 + 8 * 2000 + 2 * 6000 + 12 * 9000
    events = simulate(plan, 3, random.Random(0), kills=False)
    assert TrialJournal(plan, events).done_work <= plan.planned_steps


def test_equal_values_are_ordered_by_margin_then_number():
    plan = make_plan(trials=6, rungs=2, finalists=0)
    events: list = [EventTrial(number=n) for n in range(6)]
    for n, margin in enumerate((0.0, 0.2, 0.1, 0.2, float("nan"), 0.0)):
        events.append(EventRung(trial=n, rung=0, state="evaluated", value=0.0, hp_margin=margin))
    assert next_step(plan, TrialJournal(plan, events)) == TrialStart(1, 1)
