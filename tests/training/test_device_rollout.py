"""A rollout on a device: one read, whatever happens in it, and the same rollout as on a CPU."""

from __future__ import annotations

from contextlib import ExitStack, nullcontext
from dataclasses import replace

import pytest
import torch

from echelon.config import EnvConfig, MixConfig, ModelConfig, OpponentConfig, TeacherConfig, WorldConfig
from echelon.rl import traced_policy
from echelon.rl.build import build_model
from echelon.rl.lstm_state import LSTMState
from echelon.training.batch_options import Maps, Sides
from echelon.training.opponents.schedule import BLOCKS, OpponentSchedule
from echelon.training.ppo.graph.capture import WARM_UP
from echelon.training.ppo.graph.steps import GraphSteps, episode_slots
from echelon.training.ppo.teacher import Teaching
from echelon.training.rollout import RolloutBuffer
from echelon.training.session import Session
from echelon.training.vec_env import VectorEnv
from tests.device_rules import device_rules
from tests.training.conftest import GAMMA, make_small_run
from tests.training.transfer_counter import counting

SHORT = EnvConfig(world=WorldConfig(size_x=40, size_y=40), max_episode_seconds=2.0, zone_win_share=2.0, gamma=GAMMA)
"""Episodes of eight environment steps, which end by the time limit."""
STEPS = 16
MIX = MixConfig(scripted=1.0, easy=1.0, past=6.0, self_play=2.0)
"""Some environment always has a policy: on a CPU noise is drawn only then."""
STORED = ("actions", "logprobs", "rewards", "dones", "values", "alive", "present", "truncation_bonus")


def session(steps: int = STEPS, **run) -> Session:
    ppo = {"rollout_steps": steps, "recompute_advantages": True}
    opponents = OpponentConfig(mix=MIX, past_every_updates=1, skill="medium")
    options = {"num_envs": 4, "opponents": opponents, "bank_maps": 2, "bank_spare": 1}
    return Session(replace(make_small_run(ppo, **{**options, **run}), env=SHORT))


def play(rollouts: int, *, on_device: bool, **run):
    """Return the parts of each rollout, and the session's opponents after them."""
    found = []
    with device_rules() if on_device else nullcontext(), session(**run) as s:
        s.begin()
        for _ in range(rollouts):
            s.set_progress()
            s.collector.collect()
            s.collector.bootstrap(0.95)
            ended = s.collector.episodes.take()
            tensors = {name: getattr(s.buffer, name).clone() for name in (*STORED, "advantages", "obs_rows")}
            truncations = [(t.step, t.rows.tolist(), t.obs.clone()) for t in s.buffer.truncations]
            found.append((tensors, ended, truncations))
            s.counters.update += 1
            s.snapshot()
        groups = [group.count for group in s.opponents._schedules.groups]
        return found, (s.opponents.names, s.opponents.episodes, s.collector.carry(), groups)


SUITE = {"kind": "suite", "action_head": "hybrid", "recurrence": "mingru"}


@pytest.mark.parametrize("network", [{}, pytest.param(SUITE, marks=pytest.mark.long)], ids=["classic", "suite"])
def test_device_rollout_equals_cpu_rollout(network, monkeypatch):
    # a native program rounds otherwise, which a quantised message may show
    monkeypatch.setattr(traced_policy, "has_program", lambda policy: False)
    model = ModelConfig(**{"kind": "classic", "hidden_dim": 16, "lstm_hidden_dim": 16, "init_log_std": -0.5, **network})
    (cpu, cpu_end), (device, device_end) = (play(3, on_device=on_device, model=model) for on_device in (False, True))
    assert cpu_end[:2] == device_end[:2] and any(name.startswith("past:") for name in cpu_end[0])
    assert device_end[3] == ([3] if network else [1, 1, 1]), "snapshots of one architecture act together, LSTMs alone"
    for (tensors, ended, truncations), (own, own_ended, own_truncations) in zip(cpu, device, strict=True):
        for name, values in tensors.items():
            torch.testing.assert_close(own[name], values, rtol=1e-4, atol=1e-5, msg=name)
        assert ended.count == own_ended.count > 0 and ended.opponents == own_ended.opponents
        for record, twin in zip(ended.records, own_ended.records, strict=True):
            first, second = ((each.env, each.seed, each.length, each.reason) for each in (record, twin))
            assert first == second
            assert (record.returns == twin.returns).all() and (record.present == twin.present).all()
        assert [t[:2] for t in truncations] == [t[:2] for t in own_truncations] and truncations


@pytest.mark.parametrize("teacher", ["", "heuristic:medium"])
def test_device_rollout_reads_the_device_once(teacher):
    with device_rules(), session(teacher=TeacherConfig(policy=teacher)) as s:
        s.begin()
        s.collector.steps.revalues = False
        s.set_progress()
        with counting() as transfers:
            s.collector.collect()
        assert transfers.faults == [] and transfers.reads == 1
        assert s.collector.episodes.take().count > 0


def test_device_rollout_places_waiting_maps_without_another_read():
    """Besides the one read there are only uploads of maps and of the list of those in use."""
    with device_rules(), session() as s:
        s.begin()
        s.collector.steps.revalues = False
        pool, batch = s.env.maps, s.env.engine.batch
        s.set_progress()
        s.collector.collect()
        assert pool.known_in_use == set(batch.numpy("map_slot").tolist())
        with counting() as transfers:
            s.env.maps.refresh(2)
            waiting = pool._pending
            s.collector.collect()
        assert waiting and transfers.reads == 1
        assert {fault.partition(":")[0] for fault in transfers.faults} == {"assign at batch.py"}
        assert pool.known_in_use == set(batch.numpy("map_slot").tolist())


@pytest.mark.parametrize(
    "change",
    [lambda env: env.maps.place_maps(), lambda env: env.reset(), lambda env: env.load_state_dict(env.state_dict())],
)
def test_slots_in_use_are_read_again_after_a_change(change):
    with device_rules(), session() as s:
        s.begin()
        s.set_progress()
        s.collector.collect()
        assert s.env.maps.known_in_use
        change(s.env)
        assert s.env.maps.known_in_use is None


def test_share_of_rows_that_the_learner_controls_is_not_read_from_the_device():
    with device_rules(), session() as s:
        s.collector.set_teaching(Teaching(has_labels=False, learner_share=0.5))
        with counting() as transfers:
            share = s.collector.learner_share
        assert transfers.faults == [] and share == float(s.collector.actor._learner_acts.float().mean()) < 1.0


def test_transfer_counter_finds_a_read_in_a_step():
    with device_rules(), session(2) as s:
        s.begin()
        s.collector.steps.revalues = False
        step = s.env.step
        for fault in (
            lambda: s.env.results.rewards.sum().item(),
            lambda: bool(s.env.results.over.any()),
            lambda: s.env.results.rewards[s.env.results.acting],
            lambda: s.env.engine.batch.numpy("over"),
            lambda: torch.tensor([1, 2], device=s.device),
            lambda: s.env.engine.batch["obs_row"].assign([0]),
        ):
            s.env.step = lambda row, fault=fault: (fault(), step(row))
            with counting() as transfers:
                s.collector.collect()
            assert len(transfers.faults) == 2


def test_device_steps_are_captured_after_a_warm_up_and_again_after_a_change():
    captures, indices = [], []

    def capture(work):
        captures.append(len(indices))
        return work

    with device_rules(), session(STEPS) as s:
        steps = GraphSteps(s.collector.parts, capture=True, capture_work=capture)
        s.collector.steps = steps
        choose = s.collector.actor.choose
        s.collector.actor.choose = lambda row: (indices.append(int(steps.index)), choose(row))
        s.begin()
        s.set_progress()
        s.collector.collect()
        assert captures == [WARM_UP] and indices == list(range(STEPS))
        steps.clear()
        s.collector.collect()
    assert captures == [WARM_UP, STEPS + WARM_UP] and indices == [*range(STEPS), *range(STEPS)]


def test_step_beside_the_rollout_is_put_into_its_row():
    buffer = RolloutBuffer.create(4, 5, 3, 2, has_labels=True)
    row = buffer.new_row()
    for part in row:
        part.normal_()
    buffer.put(torch.tensor([2]), row)
    for stored, part in zip(buffer.row(2)[1:], row[1:], strict=True):
        assert torch.equal(stored, part) and part.any()
    assert not buffer.actions[[0, 1, 3]].any() and not buffer.obs_rows.any()


def test_schedule_stays_at_its_last_opponent():
    schedule = OpponentSchedule(2, torch.device("cpu"))
    policy = build_model(ModelConfig(kind="classic", hidden_dim=16, lstm_hidden_dim=16), 8, 18)
    schedule.begin([["a", "b", "c"], ["self"] * 3], {"b": policy}.get, torch.tensor([0, 0]).numpy())
    over = torch.tensor([True, False])
    for expected in ("b", "c", "c"):
        schedule.advance(over)
        assert schedule.name(0, int(schedule.slot[0])) == expected
    assert schedule.taken([7, 0]) == [2, 0] and [group.rows.tolist() for group in schedule.groups] == [[0, 1]]
    assert episode_slots(1) == 2 and episode_slots(64) == 3


def test_scheduled_policies_act_for_their_own_rows_alone():
    """Against one pass for each policy. Evaluated are at most all rows and a part of a block for each policy."""
    envs, policies, widths = 40, 5, {"kind": "classic", "hidden_dim": 8, "lstm_hidden_dim": 6, "recurrence": "mingru"}
    torch.manual_seed(0)
    members = {f"past:{i}": build_model(ModelConfig(**widths), 7, 4).requires_grad_(False) for i in range(policies)}
    names = [[f"past:{(e + s) % (policies + 2)}" for s in range(3)] for e in range(envs)]
    env_of_row = torch.arange(2 * envs) // 2
    schedule = OpponentSchedule(envs, torch.device("cpu"))
    schedule.begin(names, members.get, env_of_row.numpy())
    (group,) = schedule.groups
    for highest in (1, 2, 3):
        schedule.slot.copy_(torch.randint(0, highest, (envs,)))
        rows = len(env_of_row)
        obs, done, actions = torch.randn(rows, 7), (torch.rand(rows) < 0.2).float(), torch.full((rows, 4), 9.0)
        state = LSTMState(torch.randn(1, rows, 6), torch.zeros(1, rows, 6))
        before, noise = LSTMState(*(part.clone() for part in state)), torch.randn(rows, members["past:0"].noise_dim)
        found = schedule.act(obs, state, done, noise, actions, env_of_row)
        expected = actions.clone(), before.h.clone()
        for name, policy in members.items():
            own = torch.tensor([names[e][schedule.slot[e]] == name for e in env_of_row])
            action, after = policy.act(obs[own], LSTMState(before.h[:, own], before.c[:, own]), done[own], noise[own])
            expected[0][own], expected[1][:, own] = action, after.h
        torch.testing.assert_close((found, state.h), expected)
        assert (found == 9.0).all(1).any(), "rows of scripted opponents keep their actions"
        blocks = group.blocks(schedule.current()[env_of_row])
        assert blocks.rows.numel() <= len(group.rows) * (1 + 1 / BLOCKS) + policies


def test_episode_log_has_the_newest_of_too_many_episodes():
    with VectorEnv(2, SHORT, sides=Sides("both"), maps=Maps(1), threads=1) as env, ExitStack():
        env.episodes.begin(2)
        env.reset()
        seeds = {e: [] for e in range(2)}
        for step in range(30):
            env.step()
            env.episodes.store(torch.tensor([step]))
            for record in env.episodes.pop():
                seeds[record.env].append(record.seed)
        env.episodes._done_count[:] = 0
        logged = env.episodes.drain()
        assert logged.counts.tolist() == [len(seeds[0]), len(seeds[1])] and len(seeds[0]) == 3
        found = [[r.seed for r in logged.records if r.env == e] for e in range(2)]
        assert found == [[seeds[e][0], seeds[e][-1]] for e in range(2)] and logged.orders == [0, 0, 1, 1]
        assert env.episodes.drain().records == []


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device on this machine")
def test_cuda_rollout_waits_once_and_is_equal_captured_and_eager(monkeypatch):
    found = []
    for capture in (False, True):
        with session(device="cuda") as s:
            s.begin()
            s.collector.steps = GraphSteps(s.collector.parts, capture=capture)
            s.collector.steps.revalues = False
            for _ in range(2):
                s.set_progress()
                torch.cuda.set_sync_debug_mode("error")
                drain = s.env.episodes.drain
                monkeypatch.setattr(
                    s.env.episodes, "drain", lambda d=drain: (torch.cuda.set_sync_debug_mode(0), d())[1]
                )
                s.collector.collect()
                monkeypatch.undo()
                s.collector.bootstrap(0.95)
            names = [r.seed for r in s.collector.episodes.take().records]
            found.append((names, [getattr(s.buffer, name).cpu() for name in STORED]))
    assert found[0][0] == found[1][0] and len(found[0][0]) > 0
    for eager, captured in zip(found[0][1], found[1][1], strict=True):
        torch.testing.assert_close(captured, eager)
