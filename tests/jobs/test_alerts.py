"""Alert rules: one alert per cause, armed again once the cause is gone; resource usage."""

import math
import os
import signal
import time

import pytest

from echelon.jobs import alerts
from echelon.jobs.alerts import MachineAlertRules, TrainingAlertRules
from echelon.jobs.usage import ResourceUsage, visible_gpu
from echelon.telemetry.events import EventAlert, EventCurriculum, EventEval, EventStart, EventUpdate
from echelon.telemetry.log import read_events
from tests.jobs.conftest import kill, process_identity, until, wait_for


@pytest.fixture(autouse=True)
def _short_averages(monkeypatch):
    monkeypatch.setattr(alerts, "WIN_RATE_UPDATES", 5.0)
    monkeypatch.setattr(alerts, "MIN_UPDATES", 10)


def update(number: int, win_rate: float = math.nan, **fields) -> EventUpdate:
    return EventUpdate(update=number, global_step=number * 10, win_rate=win_rate, **fields)


def messages(watch: TrainingAlertRules, *events) -> list[str]:
    return [alert.message for event in events for alert in watch.check(event)]


def evaluation(number: int, wins: float, margin: float = 0.05, opponent: str = "heuristic:easy") -> EventEval:
    rates = {"win_rate": wins, "win_low": wins - margin, "win_high": wins + margin}
    return EventEval(update=number, global_step=number, opponent=opponent, episodes=80, **rates)


def test_nonfinite_minibatch_raises_alert_with_update():
    watch = TrainingAlertRules()
    assert messages(watch, update(1), update(2)) == []
    (first,) = messages(watch, update(3, nonfinite=2))
    assert "2 minibatches of update 3" in first
    assert messages(watch, update(4, nonfinite=2)) == []
    assert len(messages(watch, update(5, nonfinite=3))) == 1
    resumed = TrainingAlertRules()
    assert messages(resumed, EventStart(device="cpu", start_update=7), update(8, nonfinite=4)) == []
    assert len(messages(resumed, update(9, nonfinite=5))) == 1


def test_win_rate_collapse_raises_one_alert_until_recovery():
    watch = TrainingAlertRules()
    assert messages(watch, *(update(n, 0.7) for n in range(40))) == []
    alerts_raised = messages(watch, *(update(n, 0.2) for n in range(40, 80)))
    assert len(alerts_raised) == 1 and "collapsed from 70%" in alerts_raised[0]
    assert messages(watch, *(update(n, 0.7) for n in range(80, 120))) == []
    assert len(messages(watch, *(update(n, 0.1) for n in range(120, 160)))) == 1


def test_noise_and_first_updates_raise_no_collapse_alert():
    watch = TrainingAlertRules()
    assert messages(watch, update(1, 0.9), *(update(n, 0.1) for n in range(2, 40))) == []
    assert messages(TrainingAlertRules(), *(update(n, 0.5 + 0.3 * (-1) ** n) for n in range(200))) == []


def test_win_rate_while_a_teacher_plays_raises_no_alert():
    watch = TrainingAlertRules()
    imitation = [update(n, 0.9 - 0.02 * n, learner_share=n / 40) for n in range(40)]
    assert messages(watch, *imitation, *(update(n, 0.1) for n in range(40, 80))) == []


def level(number: int, skill: str, team_alpha: float = 1.0) -> EventCurriculum:
    return EventCurriculum(update=number, global_step=number, parameters={"skill": skill, "team_alpha": team_alpha})


def test_curriculum_level_change_resets_win_rate_alert():
    watch = TrainingAlertRules()
    assert messages(watch, level(0, "easy"), *(update(n, 0.9) for n in range(40))) == []
    assert messages(watch, level(40, "medium"), *(update(n, 0.4) for n in range(40, 80))) == []
    alerts_raised = messages(watch, level(80, "medium", 0.9), *(update(n, 0.05) for n in range(80, 120)))
    assert len(alerts_raised) == 1 and "from 40%" in alerts_raised[0], "another parameter does not reset the alert"


def test_evaluation_alert_requires_disjoint_intervals():
    watch = TrainingAlertRules()
    assert messages(watch, evaluation(1, 0.6), evaluation(2, 0.52)) == []
    (alerts_raised,) = messages(watch, evaluation(3, 0.3), evaluation(4, 0.3))
    assert "heuristic:easy" in alerts_raised and "from 60% at update 1 to 30%" in alerts_raised
    assert messages(watch, evaluation(5, 0.1, opponent="heuristic:hard")) == []
    assert messages(watch, evaluation(6, 0.7), evaluation(7, 0.68)) == []
    assert len(messages(watch, evaluation(8, 0.2))) == 1


def test_low_resource_alert_rearms_after_recovery(tmp_path, monkeypatch):
    free = {"disk": 2.0, "memory": 2.0}
    measured = alerts.resources(tmp_path)
    assert all(amount > 0 for amount, _ in measured.values()), "the amounts are known on this machine"
    monkeypatch.setattr(alerts, "resources", lambda _: {name: (free[name], measured[name][1]) for name in measured})
    watch = MachineAlertRules(tmp_path)
    assert watch.check("running", "") == []
    free["disk"] = 0.9
    (alert,) = watch.check("running", "")
    assert "disk low" in alert.message and "MiB free" in alert.message
    free["disk"] = 1.2
    assert watch.check("running", "") == []
    free["disk"] = 0.9
    assert watch.check("running", "") == [], "still near the limit"
    free["disk"] = 2.0
    watch.check("running", "")
    free["disk"] = free["memory"] = 0.5
    assert ["disk low" in a.message for a in watch.check("running", "")] == [True, False]


def test_stall_and_recovery_are_recorded_as_alerts(start):
    paths = start()
    until(paths, "running")
    kill(process_identity(paths, "worker"), signal.SIGSTOP)

    def raised() -> list[str]:
        return [event.message for event in read_events(paths.metrics)[0] if isinstance(event, EventAlert)]

    wait_for(lambda: any("stalled: worker is suspended" in message for message in raised()))
    kill(process_identity(paths, "worker"), signal.SIGCONT)
    wait_for(lambda: any("running again after a stall" in message for message in raised()))
    events, skipped = read_events(paths.metrics)
    updates = [event.update for event in events if isinstance(event, EventUpdate)]
    assert skipped == 0 and len(raised()) == 2
    assert updates == list(range(1, 1 + len(updates))), "concurrent writers do not damage lines"


def test_cpu_cores_are_measured_between_samples(tmp_path):
    usage, began = ResourceUsage(tmp_path), time.monotonic()
    before = os.times()
    while (os.times().user - before.user) < 0.3:
        sum(range(1000))
    spent, after = time.monotonic() - began, os.times()
    used = after.user + after.system - before.user - before.system
    assert usage.sample()["cpu_cores"] == pytest.approx(used / spent, rel=0.3)
    time.sleep(0.3)
    assert usage.sample()["cpu_cores"] < 0.3


def test_missing_gpu_gives_nan_usage(tmp_path):
    assert math.isnan(ResourceUsage(tmp_path, "cuda:7").sample()["gpu_share"])


def test_visible_gpu_maps_index_through_cuda_visible_devices():
    assert visible_gpu(1, None) == "1"
    assert visible_gpu(1, "3, GPU-ab") == "GPU-ab" and visible_gpu(0, "3,5") == "3"
    assert visible_gpu(4, "3") == "4"
