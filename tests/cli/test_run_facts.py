"""What ``runs show`` and ``runs compare`` print of a run: a win rate of 0 is a result, a count of 0 is none."""

from echelon.telemetry.evaluations import YARDSTICK
from echelon.telemetry.events import EventEval, EventUpdate
from echelon.telemetry.log import EventLog

RATES = ("evaluation, 95 % interval", "best checkpoint", "ladder score", "training win rate (current mix)", "return")


def beaten(ended_run, name: str):
    """Return a run that has won no battle."""
    paths = ended_run(name, wins=0.0)
    with EventLog(paths.metrics) as log:
        log.append(EventUpdate(update=5, global_step=500, win_rate=0.0, avg_return=0.0))
        bounds = {"win_rate": 0.0, "win_low": 0.0, "win_high": 0.05}
        log.append(EventEval(update=5, global_step=500, opponent="baseline", episodes=80, is_best=True, **bounds))
    with EventLog(paths.evals) as log:
        for name in YARDSTICK:
            log.append(EventEval(update=5, global_step=500, opponent=name, episodes=80, job=name, **bounds))
    return paths


def test_win_rate_of_zero_is_shown(echelon, ended_run):
    beaten(ended_run, "20260101-000000-quickstart-idle-otter")
    beaten(ended_run, "20260101-000001-quickstart-idle-heron")
    for words in (("show", "otter"), ("compare", "otter", "heron")):
        lines = echelon("runs", *words)[1].splitlines()
        shown = {label: line for label in RATES for line in lines if line.startswith(label)}
        assert sorted(shown) == sorted(RATES)
        assert "0% (0-5)" in shown["evaluation, 95 % interval"] and "0% (0-5)" in shown["best checkpoint"]


def test_values_without_a_measurement_are_omitted(echelon, ended_run):
    ended_run("20260101-000000-quickstart-idle-otter").metrics.write_text("")
    out = echelon("runs", "show", "otter")[1]
    assert not any(label in out for label in (*RATES, "evaluated at step", "episodes", "unreadable lines"))


def test_evaluations_in_training_name_their_purpose(echelon, ended_run):
    paths = beaten(ended_run, "20260101-000000-quickstart-idle-otter")
    with EventLog(paths.metrics) as log:
        log.append(EventEval(update=5, global_step=500, opponent="easy", episodes=8, win_rate=0.5, purpose="report"))
    out = echelon("runs", "show", "otter")[1]
    lines = out.splitlines()
    at = next(number for number, line in enumerate(lines) if "in training against" in line)
    assert "purpose" in lines[at] and "report" in lines[at + 1] and "selection" in lines[at + 2]
