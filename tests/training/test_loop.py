"""The training loop on a small fake environment: learning, stops, checkpoints, exact resumes, events."""

from __future__ import annotations

import json
import math
import random
import shutil
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

from echelon.config import EvalConfig, MixConfig, OpponentConfig
from echelon.config.seeds import eval_seeds
from echelon.env.engine_state import EngineStateMismatch
from echelon.rl.checkpoint import latest_valid, open_checkpoint
from echelon.rl.weights import load_policy
from echelon.runs import RunPaths
from echelon.telemetry.events import (
    EventAlert,
    EventCheckpoint,
    EventCurriculum,
    EventEnd,
    EventEpisodes,
    EventEval,
    EventRating,
    EventResume,
    EventStart,
    EventUpdate,
)
from echelon.telemetry.lines import to_json
from echelon.training import checkpoint as checkpoints
from echelon.training import loop
from echelon.training.ppo.actor import Actor
from echelon.training.ppo.collect import CollectedEpisodes, Collector, RolloutParts
from echelon.training.ppo.execution import make_steps
from echelon.training.ppo.optimizer import LR_FACTOR_START
from echelon.training.session import Session
from echelon.version import SIM_VERSION
from tests.training.conftest import GAMMA, make_small_run
from tests.training.fakes import FakeEnv
from tests.training.runs import (
    assert_equal_updates,
    assert_equal_weights,
    assert_resumes_exactly,
    collected,
    of,
    run,
    weights,
)


def test_run_learns_the_task(small_run):
    config = small_run(num_envs=16, total_steps=12_000, ppo={"lr": 1e-2, "obs_norm": True, "lr_schedule": "linear"})
    result, events = run(config)
    updates = of(events, EventUpdate)
    assert result.reason == "completed"
    assert updates[-1].avg_return > 0.1 * updates[1].avg_return, "returns are negative: nearer to zero is better"
    assert result.evaluation is not None and result.evaluation.win_rate > 0.8
    assert result.checkpoint is None and not of(events, EventCheckpoint), "without a folder nothing is saved"


STEPS = 1600


class Finished(NamedTuple):
    folder: Path
    result: loop.RunResult
    events: list[Any]
    newest: list[int]
    """Step of the newest checkpoint at each call of ``sync_records``."""


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Finished:
    """A run that evaluates, reports, and saves by schedule and request."""
    folder, newest = tmp_path_factory.mktemp("finished"), []

    def sync() -> None:
        found = latest_valid(folder / "checkpoints").checkpoint
        newest.append(found.step if found else 0)

    config = make_small_run(
        {"lr_schedule": "linear", "ent_coef": 0.02, "ent_coef_end": 0.0},
        total_steps=STEPS,
        eval=EvalConfig(seeds=4, report=True, every_updates=2, at_start=True),
    )
    requests = iter([False] * 4 + [True] + [False] * 100)
    result, events = run(config, folder, sync_records=sync, want_checkpoint=lambda: next(requests))
    return Finished(folder, result, events, newest)


def test_run_emits_serializable_events_in_order(finished):
    assert not RunPaths(finished.folder).trace.exists(), "profiling is off by default"
    events, result = finished.events, finished.result
    for event in events:
        json.loads(to_json(event))
    assert isinstance(events[0], EventStart) and isinstance(events[-1], EventEnd)
    assert isinstance(events[1], EventEval) and events[1].update == 0
    assert [u.update for u in of(events, EventUpdate)] == list(range(1, result.update + 1))
    assert of(events, EventCurriculum)[0].parameters == {"weapon_prob": 1.0}
    assert of(events, EventCheckpoint)[-1].update == result.update
    assert events[-1].reason == "completed" and events[-1].global_step == result.global_step >= STEPS


def test_update_event_reports_metrics(finished):
    updates, episodes = of(finished.events, EventUpdate), of(finished.events, EventEpisodes)
    last = updates[-1]
    assert set(last.phases_s) == {"env", "forward", "update", "other"} and min(last.phases_s.values()) >= 0
    assert last.grad_norm > 0 and last.max_grad_norm == 0.5 and last.steps_per_s > 0
    assert 0 < last.dead_share < 0.3 and last.reward_std > 0
    assert last.reward_terms.keys() == {"aim", "alive"} and last.reward_terms["alive"] == 1.0
    assert last.peak_memory_mb > 0 and last.curriculum == {"weapon_prob": 1.0}
    rates = [u.lr for u in updates]
    before = [0, *[u.global_step for u in updates[:-1]]]
    assert rates == pytest.approx([3e-3 * (1 - min(1, s / STEPS)) for s in before])
    assert updates[0].ent_coef == 0.02 and updates[-1].ent_coef < updates[0].ent_coef
    assert sum(e.count for e in episodes) == finished.result.episodes == last.episodes > 0
    assert all(e.count == e.wins + e.losses + e.draws and len(e.samples) <= 32 for e in episodes)
    assert set(episodes[0].returns_by_role) == {"light", "medium"}


def test_update_event_spreads_are_positive_and_steady(finished):
    for name in ("adv_std", "value_std", "return_std", "reward_std"):
        values = [getattr(u, name) for u in of(finished.events, EventUpdate)]
        assert len(values) > 5 and all(math.isfinite(v) and v > 0 for v in values), name
        assert all(max(a, b) <= 10 * min(a, b) for a, b in zip(values, values[1:], strict=False)), name


def test_global_step_counts_living_learner_rows_once(finished):
    first, rows = of(finished.events, EventUpdate)[0], 8 * 2 * 16
    assert first.global_step == round(rows * (1 - first.dead_share))
    assert finished.result.global_step < finished.result.update * rows


def test_checkpoints_by_schedule_and_request_are_pruned(finished):
    saved = {(c.update, c.reason) for c in of(finished.events, EventCheckpoint)}
    assert saved >= {(3, "scheduled"), (5, "requested")}
    checkpoints_left = list((finished.folder / "checkpoints").glob("step-*"))
    assert 3 <= len(checkpoints_left) <= 4 and finished.result.checkpoint in checkpoints_left


def test_best_pointer_names_best_evaluation(finished):
    best = checkpoints.read_best(finished.folder / "checkpoints")
    better = [e for e in of(finished.events, EventEval) if e.is_best and e.update > 0]
    assert better and best is not None and best["eval"]["update"] == better[-1].update
    assert (finished.folder / "checkpoints" / best["checkpoint"]).is_dir()


def test_report_at_the_end_uses_seeds_that_chose_nothing(finished):
    *choices, report = of(finished.events, EventEval)
    chosen = {seed for event in choices for seed in event.seeds}
    assert len(choices) > 1 and {e.purpose for e in choices} == {"choice"} and report.purpose == "report"
    assert chosen == set(eval_seeds(4, "choice")) and report.seeds == eval_seeds(4, "report")
    assert not chosen & set(report.seeds) and not report.is_best and report.episodes == 8
    assert math.isnan(choices[-1].sampled_win_rate) and report.deterministic
    assert report.sampled_low <= report.sampled_win_rate <= report.sampled_high
    evaluation = finished.result.evaluation
    assert evaluation is not None and evaluation.win_rate == report.win_rate
    assert evaluation.sampled_win_rate == report.sampled_win_rate


def test_records_are_synced_before_each_checkpoint(finished):
    saved = [e.global_step for e in of(finished.events, EventCheckpoint)]
    assert finished.newest == [0, *saved[:-1]], "each was synced while the one before was the newest"


def test_stop_saves_checkpoint_after_update_and_plays_no_report(small_run, tmp_path):
    config = small_run(eval=EvalConfig(seeds=1, report=True, every_updates=2, at_start=False))
    result, events = run(config, tmp_path, stop_after=2)
    assert result.reason == "stopped" and result.update == 2 and events[-1].reason == "stopped"
    assert of(events, EventCheckpoint)[-1].update == 2 and not of(events, EventEval)
    found = latest_valid(tmp_path / "checkpoints").checkpoint
    assert found is not None and found.manifest["update"] == 2 and found.path == result.checkpoint


def test_evaluation_that_a_stop_puts_off_is_made_at_the_resume(small_run, tmp_path):
    config = small_run(max_updates=5, total_steps=10**6, eval=EvalConfig(seeds=2, every_updates=2, at_start=False))
    whole, resumed, _ = assert_resumes_exactly(config, tmp_path, 2)
    found = [[(e.update, e.win_rate, e.purpose) for e in of(events, EventEval)] for events in (whole, resumed)]
    assert found[0] == found[1] and [update for update, *_ in found[0]][:2] == [2, 4]
    kinds = [e.kind for e in resumed]
    assert kinds.index("resume") < kinds.index("eval"), "the first session ended without it"


def test_second_stop_aborts_rollout_without_checkpoint(small_run, tmp_path):
    result, events = run(small_run(save_every=1), tmp_path, stop_after=2, level=2)
    assert result.reason == "stopped" and result.update == 2
    calls = iter(range(10**6))
    aborted = loop.run(
        small_run(), events.append, lambda: 2 * (next(calls) > 40), run_dir=tmp_path / "other", make_env=FakeEnv
    )
    assert aborted.reason == "stopped" and aborted.checkpoint is None and "aborted" in events[-1].message


RESUMED: dict[str, dict] = {
    "statistics and schedules": {
        "ppo": {"obs_norm": True, "ent_coef": 0.01, "lr_schedule": "cosine", "burn_in_steps": 2},
        "eval": EvalConfig(seeds=2, every_updates=4, at_start=True),
    },
    "opponents of every kind": {
        "opponents": OpponentConfig(
            mix=MixConfig(scripted=0.0, easy=1.0, past=2.0, self_play=1.0), past_every_updates=1, past_keep=2,
            rating_seeds=1,
        ),
    },
}  # fmt: skip


@pytest.mark.parametrize("case", RESUMED)
def test_resumed_run_is_bit_exact(small_run, tmp_path, case):
    config = small_run(max_updates=5, total_steps=10**6, num_envs=6, **RESUMED[case])
    whole, resumed, _ = assert_resumes_exactly(config, tmp_path, 3, fields=("reward_terms",))
    assert of(resumed, EventResume)[0].update == 3
    rated = [[(r.name, r.elo) for r in of(events, EventRating)] for events in (whole, resumed)]
    assert rated[0] == rated[1] and bool(rated[0]) == ("opponents" in case)


def test_paused_run_is_evaluated_and_continues_as_if_undisturbed(small_run, tmp_path):
    options = {"ppo": {"lr_schedule": "cosine"}, "eval": EvalConfig(seeds=2, every_updates=0, at_start=False)}
    whole, whole_events = run(small_run(**options), tmp_path / "whole")
    paused, first = run(small_run(**options, pause_steps=700), tmp_path / "cut")
    (evaluation,) = of(first, EventEval)
    assert paused.reason == "stopped" and paused.checkpoint is not None and "pause_steps 700" in first[-1].message
    assert 700 <= evaluation.global_step == paused.global_step < whole.global_step
    again, second = run(small_run(**options, pause_steps=700), tmp_path / "cut", resume="latest")
    assert again.global_step == paused.global_step and not of(second, EventEval), "a pause that is reached lasts"
    cut, third = run(small_run(**options), tmp_path / "cut", resume="latest")
    assert cut.reason == "completed"
    assert_equal_weights(weights(cut), weights(whole))
    assert_equal_updates(whole_events, first + third, ("lr",))


def test_resume_applies_changed_configuration(small_run, tmp_path):
    run(small_run(ppo={"obs_norm": True}), tmp_path, stop_after=2)
    options = {"critic_lr_mult": 5.0, "adam_eps": 0.5, "lr": 1e-4}
    for on in (True, False):
        with Session(small_run(ppo={**options, "obs_norm": on}), tmp_path, FakeEnv) as session:
            found = latest_valid(tmp_path / "checkpoints").checkpoint
            assert found is not None
            session.restore(found)
            session.trainer.set_progress(0.0)
            groups = session.trainer.optimizer.param_groups
            rates = [(float(g["lr"] / session.trainer.learning_rate.factor), g["eps"]) for g in groups]
            assert rates == [(pytest.approx(1e-4), 0.5), (pytest.approx(5e-4), 0.5)]
            assert session.trainer.optimizer.state, "what the optimiser has learned stays"
            normalizer = session.policy.obs_normalizer
            assert torch.equal(normalizer.normalizable, session.env.sizes.normalizable & on)
            assert (normalizer.scale != 1.0).tolist() == normalizer.normalizable.tolist()


def test_start_from_uses_own_normalizable_columns(small_run, tmp_path):
    for on in (True, False):
        folder = tmp_path / str(on)
        result, _ = run(small_run(ppo={"obs_norm": on}), folder, stop_after=1)
        config = small_run(ppo={"obs_norm": not on}, start_from=str(result.checkpoint))
        with Session(config, None, FakeEnv) as session:
            session.begin()
            normalizer = session.policy.obs_normalizer
            assert torch.equal(normalizer.normalizable, session.env.sizes.normalizable & (not on))
            normalizer.refresh()
            assert (normalizer.scale != 1.0).any().item() is False


def test_start_from_keeps_the_statistics_of_observations(small_run, tmp_path):
    first, _ = run(small_run(ppo={"obs_norm": True}), tmp_path / "first", stop_after=2)
    config = small_run(ppo={"obs_norm": True}, start_from=str(first.checkpoint))
    second, _ = run(config, tmp_path / "second", stop_after=2)
    before, after = (load_policy(result.checkpoint).policy for result in (first, second))
    for name, part in before.obs_normalizer.state_dict().items():
        assert torch.equal(part, after.obs_normalizer.state_dict()[name]), name
    assert before.obs_normalizer.count > 0 and not torch.equal(
        before.core.actor_mean.weight, after.core.actor_mean.weight
    )


def test_start_from_takes_moments_and_statistics_of_returns_that_follow_the_new_task(small_run, tmp_path):
    result, _ = run(small_run(ppo={"obs_norm": True, "kl_lr_target": 0.02}), tmp_path, stop_after=2)
    source = open_checkpoint(result.checkpoint).state()["trainer"]
    config = small_run(ppo={"obs_norm": True}, start_from=str(result.checkpoint))
    with pytest.MonkeyPatch.context() as patch, Session(config, None, FakeEnv) as session:
        patch.setattr("echelon.training.ppo.trainer.START_FROM_COUNT", 10.0)
        session.begin()
        state = session.trainer.state_dict()
        assert state["optimizer"]["adam"].keys() == source["optimizer"]["adam"].keys() != set()
        for number, row in state["optimizer"]["adam"].items():
            assert torch.equal(row["exp_avg_sq"], source["optimizer"]["adam"][number]["exp_avg_sq"])
        assert state["return_rms"]["var"] == source["return_rms"]["var"] and source["return_rms"]["count"] > 10
        assert state["return_rms"]["count"] == 10
        assert float(state["lr_factor"]) == pytest.approx(LR_FACTOR_START) and state["updates"] == 0


def unfitting(env, state):
    raise EngineStateMismatch("engine state does not fit: array 'hp'")


SAVED = {"total_steps": 1000, "save_every": 1}


@pytest.fixture(scope="module")
def saved_run(tmp_path_factory) -> Path:
    """A run that was stopped after three updates, with a checkpoint of each."""
    folder = tmp_path_factory.mktemp("saved") / "run"
    run(make_small_run(**SAVED), folder, stop_after=3)
    return folder


@pytest.fixture
def stopped(saved_run, tmp_path) -> Path:
    """A copy of that run, to be resumed."""
    return Path(shutil.copytree(saved_run, tmp_path / "stopped"))


def newest_of(folder: Path) -> checkpoints.Checkpoint:
    found = latest_valid(folder / "checkpoints").checkpoint
    assert found is not None
    return found


def test_resume_skips_damaged_checkpoint_with_alert(small_run, stopped):
    (newest_of(stopped).path / "state.json").write_bytes(b"torn")
    _, events = run(small_run(**SAVED), stopped, resume="latest", stop_after=1)
    assert "damaged" in of(events, EventAlert)[0].message
    assert of(events, EventResume)[0].update == 2


def test_resume_recovers_interrupted_save(small_run, stopped):
    path = newest_of(stopped).path
    path.rename(path.with_name(f".tmp-old-{path.name}"))
    _, events = run(small_run(**SAVED), stopped, resume="latest", stop_after=1)
    assert f"{path.name!r} of an interrupted save is recovered" in of(events, EventAlert)[0].message
    assert of(events, EventResume)[0].checkpoint == path.name


def test_resume_rejects_checkpoint_with_other_row_count(small_run, stopped):
    with pytest.raises(ValueError, match="rows 16, expected 8"):
        run(small_run(num_envs=4), stopped, resume=newest_of(stopped).path)


@pytest.mark.parametrize(
    ("changed", "value", "message"),
    [
        ("tests.training.fakes.FakeEnv.load_state_dict", unfitting, "new episodes begin: engine state does not fit"),
        ("echelon.rl.checkpoint.SIM_VERSION", 9, f"saved with simulation version {SIM_VERSION}, now 9: matches differ"),
    ],
)
def test_resume_names_what_has_changed(small_run, stopped, monkeypatch, changed, value, message):
    monkeypatch.setattr(changed, value)
    result, events = run(small_run(**SAVED), stopped, resume="latest")
    (resumed,) = of(events, EventResume)
    assert resumed.update == 3 and resumed.message.startswith(message)
    assert result.reason == "completed" and result.update > 3


def test_resume_names_the_learning_rate_that_a_longer_plan_raises(small_run, tmp_path):
    linear = {"ppo": {"lr_schedule": "linear"}, "save_every": 1}
    run(small_run(total_steps=1000, **linear), tmp_path, stop_after=3)
    _, events = run(small_run(total_steps=8000, **linear), tmp_path, resume="latest", stop_after=1)
    assert of(events, EventResume)[0].message == (
        "learning rate 0.00272, before 0.000795: total_steps is 8000, before 1000"
    )


class NanRewards(FakeEnv):
    """Gives NaN rewards from the fourth rollout on, also after a reload, in at most ``most`` steps."""

    steps, most = 0, 10**6

    def step(self, row: int = 0) -> None:
        super().step(row)
        NanRewards.steps += 1
        if 0 < NanRewards.steps - 16 * 3 <= NanRewards.most:
            self.results.rewards[0, 0] = float("nan")


@pytest.fixture
def nan_rewards(monkeypatch) -> type[NanRewards]:
    monkeypatch.setattr(NanRewards, "steps", 0)
    monkeypatch.setattr(NanRewards, "most", 10**6)
    return NanRewards


def test_nonfinite_update_reloads_last_checkpoint(small_run, tmp_path, nan_rewards):
    nan_rewards.most = 1
    config = small_run(save_every=1, ppo={"nonfinite_policy": "reload"})
    result, events = run(config, tmp_path, make_env=nan_rewards)
    alert = of(events, EventAlert)[0]
    assert "not finite" in alert.message and alert.update == 3
    assert of(events, EventResume)[0].update == 3 and result.reason == "completed"
    assert of(events, EventUpdate)[-1].nonfinite == 1


def test_repeated_reloads_end_the_run_with_an_error(small_run, tmp_path, nan_rewards):
    events, config = [], small_run(save_every=1, ppo={"nonfinite_policy": "reload"})
    with pytest.raises(ValueError, match=r"update 4.* not finite.*; reloaded step-\d+ 3 times, expected"):
        loop.run(config, events.append, lambda: 0, run_dir=tmp_path, make_env=nan_rewards)
    assert [e.update for e in of(events, EventResume)] == [3, 3, 3]


def test_reload_keeps_elapsed_time(small_run, tmp_path, monkeypatch, nan_rewards):
    now = iter(range(10**6))
    monkeypatch.setattr("echelon.training.runtime.process.time.monotonic", lambda: float(next(now)))
    monkeypatch.setattr(loop, "MAX_RELOADS", 10**6)
    config = small_run(save_every=1, max_minutes=0.2, ppo={"nonfinite_policy": "reload"})
    result, events = run(config, tmp_path, make_env=nan_rewards)
    assert result.reason == "completed" and result.update == 3 and events[-1].elapsed_s >= 12


def test_truncation_bonus_only_at_time_limit(small_run):
    with collected(small_run()) as session:
        bonus = session.buffer.truncation_bonus
        rows = session.env.rows.env
        assert bonus[:, rows % 2 == 1].any(), "odd environments are truncated"
        assert not bonus[:, rows % 2 == 0].any(), "even ones terminate"
        ends = session.buffer.dones[1:] > 0
        assert not bonus[:-1][~ends].any()


def clock_of(seconds: list[float]):
    """Return a clock that returns each of ``seconds`` once."""
    readings = iter(seconds)
    return lambda: next(readings)


def readings(events) -> list[float]:
    """Return the logged readings of a run's clock, in order."""
    return [e.elapsed_s for e in events if isinstance(e, (EventUpdate, EventEnd))]


@pytest.mark.parametrize(
    ("limits", "seconds", "rates"),
    [
        ({}, [6.0, 30.0, 45.0, 60.0, 61.0], [3e-3, 2.7e-3, 1.5e-3, 0.75e-3]),
        ({"max_updates": 4}, [1.0, 48.0, 49.0, 50.0, 51.0], [3e-3, 2.25e-3, 0.6e-3, 0.55e-3]),
    ],
    ids=["time", "time and updates"],
)
def test_schedules_reach_their_end_with_the_nearest_limit(small_run, limits, seconds, rates):
    config = small_run(total_steps=10**7, max_minutes=1.0, ppo={"lr_schedule": "linear"}, **limits)
    result, events = run(config, clock=clock_of(seconds))
    assert result.reason == "completed" and result.update == 4 and result.global_step < 1000
    assert [u.lr for u in of(events, EventUpdate)] == pytest.approx(rates, rel=1e-2)
    assert readings(events) == seconds


def test_time_limit_excludes_the_set_up(small_run, monkeypatch):
    now = [0.0]

    class SlowEnv(FakeEnv):
        def __init__(self, *args, **options) -> None:
            super().__init__(*args, **options)
            now[0] += 1e6

    monkeypatch.setattr("echelon.training.runtime.process.time.monotonic", lambda: now[0])
    config = small_run(max_minutes=1.0, max_updates=2, eval=EvalConfig(seeds=1, every_updates=0, at_start=True))
    result, events = run(config, make_env=SlowEnv)
    assert result.update == 2 and readings(events) == [0.0] * 3


def test_run_without_time_limit_ignores_the_clock(small_run, tmp_path):
    config, ends = small_run(total_steps=700, ppo={"lr_schedule": "cosine"}), []
    for name, pace in (("slow", 1e3), ("fast", 1e-3)):
        ticks = iter(range(10**6))
        result, _ = run(config, tmp_path / name, clock=lambda ticks=ticks, pace=pace: pace * next(ticks))
        ends.append(weights(result))
    assert_equal_weights(*ends)


def test_timed_run_is_bit_equal_when_its_logged_times_are_fed_back(small_run, tmp_path, monkeypatch):
    pace = random.Random(1)
    now = accumulate(pace.uniform(0.05, 0.2) for _ in range(10**6))
    monkeypatch.setattr("echelon.training.runtime.process.time.monotonic", lambda: next(now))
    config = small_run(
        total_steps=10**7,
        max_minutes=0.02,
        ppo={"lr_schedule": "linear", "ent_coef": 0.01, "ent_coef_end": 0.0},
        opponents=OpponentConfig(weapon_prob_start=0.2, weapon_ramp_share=0.5),
    )
    _, first = run(config, tmp_path / "timed", stop_after=2)
    timed, second = run(config, tmp_path / "timed", resume="latest")
    logged = readings(first)[:-1] + readings(second)
    assert (
        of(second, EventResume)[0].elapsed_s
        == of(first, EventUpdate)[-1].elapsed_s
        < of(second, EventUpdate)[0].elapsed_s
    ), "the clock of a resumed run continues"
    assert logged == sorted(logged) and logged[-2] >= 1.2 > logged[-3]
    lines = json.loads(json.dumps(logged))
    replayed, events = run(config, tmp_path / "replayed", clock=clock_of(lines))
    assert replayed.update == timed.update and readings(events) == logged
    assert_equal_weights(weights(timed), weights(replayed))
    assert_equal_updates(first + second, events, ("lr",))
    rates = [u.lr for u in of(events, EventUpdate)]
    assert rates[-1] < 0.5 * rates[0]


def test_time_limit_as_an_end_adds_no_bonus_and_cuts_returns(small_run):
    config = small_run()
    config = replace(config, env=replace(config.env, truncation_bootstraps=False))
    with collected(config) as session:
        buffer, env = session.buffer, session.env
        assert not buffer.truncation_bonus.any() and not buffer.truncations
        ends = (buffer.dones[1:] > 0) & (env.rows.env % 2 == 1)
        assert ends.any(), "odd environments reach the time limit"
        torch.testing.assert_close(buffer.returns[:-1][ends], buffer.rewards[:-1][ends])


def test_recompute_revalues_truncation_bonus(small_run):
    with collected(small_run(ppo={"recompute_advantages": True})) as session:
        session.collector.collect()
        session.collector.bootstrap(0.95)
        buffer, given = session.buffer, (session.buffer, session.collector.start_state, 8)
        once = buffer.truncation_bonus.clone()
        session.trainer._score_rollout(*given)
        assert once.any() and torch.allclose(buffer.truncation_bonus, once, atol=1e-5), "the weights are the same"
        with torch.no_grad():
            session.policy.core.critic.bias += 1.0
        session.trainer._score_rollout(*given)
        assert torch.allclose(buffer.truncation_bonus, once + GAMMA * (once != 0), atol=1e-5)


def test_bootstrap_uses_detached_state(small_run):
    with Session(small_run(), None, FakeEnv) as session:
        seen = []
        keep = session.policy.get_value
        session.policy.get_value = lambda obs, state, done: seen.append(state) or keep(obs, state, done)
        session.collector.reset()
        session.collector.collect()
        session.collector.bootstrap(0.95)
        assert seen and all(s.h.grad_fn is None and s.c.grad_fn is None for s in seen)


def test_collector_and_policy_reject_wrong_observation_width(small_run):
    env = FakeEnv(2)
    env.sizes = replace(env.sizes, obs_dim=6)
    with Session(small_run(), None, FakeEnv) as session:
        actor = Actor(env, session.policy, session.config.ppo, session.device)
        parts = RolloutParts(actor, session.buffer, CollectedEpisodes(2))
        with pytest.raises(AssertionError, match="differ in rows or columns"):
            Collector(parts, make_steps(parts))
        with pytest.raises(ValueError, match="4 columns, expected 5"):
            session.policy.get_value(torch.zeros(2, 4), session.policy.initial_state(2), torch.zeros(2))


def test_environment_writes_observations_into_rollout(small_run):
    with Session(small_run(), None, FakeEnv) as session:
        assert session.env.rows.obs.data_ptr() == session.buffer.obs_rows.data_ptr()
