"""An update on a device: one read, whatever happens in it, and the same weights as on a CPU."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
import torch

from echelon.config import ModelConfig
from echelon.env.layout import END_WIDTH, FLAT_OBS_DIM, flat_offsets
from echelon.rl.build import build_model
from echelon.training.normalization import RunningMeanStd
from echelon.training.ppo.graph import update as graph_update
from echelon.training.ppo.graph.update import EntityCounts, GraphUpdate
from echelon.training.ppo.teacher import Teaching
from echelon.training.rollout import RolloutBuffer, chunk_spans, plan_minibatches
from echelon.training.runtime.devices import read_scalars
from tests.device_rules import device_rules
from tests.training.support import N, T, model_of, rollout_of, trainer_of, weights_of
from tests.training.transfer_counter import counting

PLAIN = {"ent_coef": 0.05, "ent_coef_end": 0.0, "lr_schedule": "linear"}
CASES = {
    "plain": {},
    "accumulated": {"grad_accum_steps": 2, "draw_members": True},
    "scaled": {"per_role_adv_norm": True, "advantage_share": 0.6, "recompute_advantages": True},
}


SUITE_DIM = FLAT_OBS_DIM + END_WIDTH


def suite_of(recurrence="mingru"):
    torch.manual_seed(0)
    model = ModelConfig(hidden_dim=8, lstm_hidden_dim=8, action_head="hybrid", recurrence=recurrence)
    return build_model(model, SUITE_DIM, 18)


def suite_rollout_of(model, share: float = 0.3) -> RolloutBuffer:
    """Return a random rollout in which mechs see a ``share`` of the contacts and packmates that they have slots for."""
    torch.manual_seed(1)
    buffer = RolloutBuffer.create(T, N, model.obs_dim, model.action_dim)
    buffer.obs_rows.uniform_(-1, 1)
    for name in ("contact_mask", "squad_mask"):
        columns = buffer.obs_rows[..., slice(*flat_offsets()[name])]
        columns.copy_((torch.rand(columns.shape) >= share).float())
    for part in (buffer.rewards, buffer.actions):
        part.uniform_(-1, 1)
    buffer.logprobs.fill_(-20.0)
    buffer.alive[5:, 0] = buffer.alive[11:, 1] = buffer.alive[:, 2] = 0.0
    buffer.alive[14:, 0] = buffer.dones[14, 0] = 1.0
    buffer.compute_gae(torch.zeros(N), torch.zeros(N), 0.99, 0.95)
    return buffer


def labelled(model):
    """Return a rollout in which mechs are absent, with a teacher's actions."""
    buffer = rollout_of(model)
    buffer.present[:, 0] = 0.0
    buffer.alive.mul_(buffer.present)
    buffer.labels = torch.rand(buffer.actions.shape, generator=torch.Generator().manual_seed(2)) * 2 - 1
    return buffer


def updated(*, on_device: bool, record=None, recurrence: str = "mingru", **options):
    """Return metrics of two updates, and weights, optimizer and return statistics after them."""
    with device_rules() if on_device else nullcontext():
        model = model_of(head="hybrid", recurrence=recurrence)
        buffer, trainer = labelled(model), trainer_of(model, **{**PLAIN, **options})
        assert isinstance(trainer.minibatch_update, GraphUpdate) == on_device
        if record is not None:
            trainer.minibatch_update = GraphUpdate(
                trainer.gradients, trainer.optimizer, trainer.learning_rate, trainer._report, record
            )
        metrics = []
        for progress in (0.0, 0.5):
            trainer.set_progress(progress, Teaching(has_labels=True, coef=0.1))
            metrics.append(trainer.update(buffer, model.initial_state(N)))
            buffer.compute_gae(buffer.next_value.clone(), buffer.next_done.clone(), 0.99, 0.95)
        moments = [v for part in trainer.state_dict()["optimizer"]["adam"].values() for v in part.values()]
        return metrics, weights_of(model), [*moments, *trainer.return_normalizer.state_dict().values()]


def numbers(metrics: dict) -> dict:
    return {k: v for k, v in metrics.items() if isinstance(v, (int, float))} | metrics["agreement_by_part"]


def assert_equal_updates(first, second):
    for mine, other in zip(first[0], second[0], strict=True):
        assert numbers(mine) == pytest.approx(numbers(other), rel=1e-3, abs=1e-5)
    for mine, other in zip([*first[1], *first[2]], [*second[1], *second[2]], strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("case", CASES)
def test_device_update_equals_cpu_update(case):
    assert_equal_updates(*(updated(on_device=on_device, **CASES[case]) for on_device in (False, True)))


def test_captured_device_update_equals_plain_and_is_captured_once_per_shape():
    captures = []

    def record(work):
        captures.append(work)
        return work

    options = {"recurrence": "lstm", "grad_accum_steps": 2, "tbptt_chunk_length": 9}
    plain, captured = (updated(on_device=True, record=how, **options) for how in (None, record))
    assert len(captures) == 3, "with an optimizer step, without, and a shorter last chunk"
    for mine, other in zip([*plain[1], *plain[2]], [*captured[1], *captured[2]], strict=True):
        assert torch.equal(mine, other), "a warm-up changes nothing"


def test_device_update_of_entities_equals_cpu_update():
    results, rooms = [], []
    for on_device in (False, True):
        with device_rules() if on_device else nullcontext():
            model = suite_of()
            trainer = trainer_of(model, draw_members=True)
            for share in (0.3, 0.3, 0.5):
                buffer = suite_rollout_of(model, share)
                metrics = trainer.update(buffer, model.initial_state(N))
                if on_device:
                    rooms.append(trainer.minibatch_update.room)
            results.append((metrics, weights_of(model)))
    assert results[0][0]["grad_norm"] == pytest.approx(results[1][0]["grad_norm"], rel=1e-2)
    for mine, other in zip(results[0][1], results[1][1], strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-3, atol=1e-5)
    slots = T * N / 3 * 20
    assert rooms[0] is rooms[1], "room that suffices is kept"
    assert 0.3 * slots < rooms[1]["contacts"] < 0.6 * slots, "empty slots are not computed"
    assert rooms[1]["contacts"] < rooms[2]["contacts"]


def test_room_grows_at_once_and_shrinks_when_it_was_not_needed_for_long():
    captures = []
    with device_rules():
        model = suite_of()
        update = trainer_of(model).minibatch_update
    update.clear = lambda: captures.append(update.room)
    for needed, room in [(1000, 1152), (1100, 1152), (400, 1152), (1200, 1408), *[(500, 1408)] * 7, (500, 576)]:
        update.allot({"contacts": needed})
        assert update.room == {"contacts": room}
    assert len(captures) == 3


def test_entities_of_the_fullest_minibatch_are_counted():
    model = suite_of()
    buffer = suite_rollout_of(model)
    spans = chunk_spans(T, 8)
    counts = model.count_entities(buffer.obs)
    with counting() as transfers:
        counted = EntityCounts(counts, spans)
    assert transfers.reads == 1
    plan = plan_minibatches(T, N, 8, 4, draws_rows=True)
    most = {
        name: max(sum(int(of[u.first : u.end, u.rows].sum()) for u in part) for part in plan)
        for name, of in counts.items()
    }
    assert counted.most(plan) == most and most["contacts"] > most["squad"] > 0


def test_steps_of_the_dead_are_not_evaluated(monkeypatch):
    model = suite_of()
    buffer, trainer = suite_rollout_of(model), trainer_of(model, update_epochs=1)
    living, score, rows = int(buffer.alive.sum()), trainer.gradients.score, []
    monkeypatch.setattr(
        trainer.gradients, "score", lambda obs, *args: rows.append(obs.shape.numel()) or score(obs, *args)
    )
    trainer.update(buffer, model.initial_state(N))
    assert sum(rows) == living < T * N


@pytest.mark.parametrize("recurrence", ["mingru", "lstm"])
def test_device_evaluates_living_steps_in_fixed_room_with_the_gradient_of_all(monkeypatch, recurrence):
    results, rows = [], []
    for packs in (False, True):
        with device_rules():
            model = suite_of(recurrence)
            buffer, trainer = suite_rollout_of(model, 0.3), trainer_of(model, num_minibatches=1, update_epochs=1)
            buffer.alive[:, N // 2 :] = 0.0
            if not packs:
                monkeypatch.setattr(graph_update, "pack_living", lambda batch, room: batch)
            score = trainer.gradients.score
            trainer.gradients.score = lambda obs, *args, s=score: rows.append(obs.shape[:-1].numel()) or s(obs, *args)
            metrics = trainer.update(buffer, model.initial_state(N))
            monkeypatch.undo()
            results.append((metrics["grad_norm"], weights_of(model)))
    living = int(buffer.alive.sum())
    assert rows[0] == T * N and living < rows[1] == trainer.minibatch_update.room["living"] < 0.8 * T * N
    assert results[0][0] == pytest.approx(results[1][0], rel=1e-4)
    for mine, other in zip(results[0][1], results[1][1], strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-6)


def test_device_update_of_entities_reads_the_device_twice():
    with device_rules():
        model = suite_of()
        buffer, trainer = suite_rollout_of(model), trainer_of(model)
        with counting() as transfers:
            trainer.update(buffer, model.initial_state(N))
        assert transfers.faults == [] and transfers.reads == 2, "the counts, and the figures"
        assert transfers.host_work == 2 * trainer.config.update_epochs, "plans, and their fullest minibatches"


@pytest.mark.parametrize("case", CASES)
def test_device_update_reads_the_device_once(case):
    with device_rules():
        model = model_of(head="hybrid")
        buffer, trainer = labelled(model), trainer_of(model, **{**PLAIN, **CASES[case]})
        trainer.set_progress(0.0, Teaching(has_labels=True, coef=0.1))
        with counting() as transfers:
            trainer.update(buffer, model.initial_state(N))
        assert transfers.faults == [] and transfers.reads == 1
        assert transfers.uploads == trainer.config.update_epochs == transfers.host_work
        with counting() as transfers:
            trainer.update_obs_normalizer(buffer)
        assert transfers.faults == [] and transfers.reads == 0


def test_transfer_counter_finds_a_read_in_a_minibatch(monkeypatch):
    with device_rules():
        model = model_of()
        buffer, trainer = rollout_of(model), trainer_of(model, update_epochs=1)
        whole_gradient = trainer.gradients.whole_gradient

        def reading(batch):
            terms, gradients = whole_gradient(batch)
            float(terms.loss)
            return terms, gradients

        monkeypatch.setattr(trainer.gradients, "whole_gradient", reading)
        with counting() as transfers:
            trainer.update(buffer, model.initial_state(N))
        assert len(transfers.faults) == trainer.config.num_minibatches


@pytest.mark.parametrize("policy", ["skip", "raise"])
def test_nonfinite_minibatch_moves_nothing_on_a_device(policy):
    with device_rules():
        model = model_of()
        buffer, before = rollout_of(model), weights_of(model)
        buffer.advantages.fill_(float("nan"))
        trainer = trainer_of(model, nonfinite_policy=policy, update_epochs=1)
        if policy == "raise":
            with pytest.raises(ValueError, match="loss at update 1, epoch 0, minibatch 0 is not finite"):
                trainer.update(buffer, model.initial_state(N))
        else:
            metrics = trainer.update(buffer, model.initial_state(N))
            assert metrics["nonfinite"] == 3 and metrics["optimizer_steps"] == 0
        assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))


def test_nonfinite_gradient_moves_nothing_on_a_device(monkeypatch):
    with device_rules():
        model = model_of()
        buffer, trainer = rollout_of(model), trainer_of(model, nonfinite_policy="skip", update_epochs=2)
        clip = graph_update.nn.utils.clip_grad_norm_
        norms = iter([torch.tensor(torch.inf)])
        monkeypatch.setattr(graph_update.nn.utils, "clip_grad_norm_", lambda *a: next(norms, None) or clip(*a))
        metrics = trainer.update(buffer, model.initial_state(N))
        assert metrics["nonfinite"] == 1 and metrics["optimizer_steps"] == 5
        assert {int(state["step"]) for state in trainer.optimizer.state.values()} == {5}


def test_figures_of_an_update_are_read_at_once():
    with counting() as transfers:
        _, found = read_scalars({"a": torch.tensor(1.5), "b": {"x": torch.tensor(2.0), "y": 3}, "c": "name"})
    assert found == {"a": 1.5, "b": {"x": 2.0, "y": 3}, "c": "name"} and transfers.reads == 1


def test_weighted_statistics_equal_those_of_the_chosen_samples():
    torch.manual_seed(0)
    samples, weights = torch.randn(50, 3) * 4 + 1, (torch.rand(50) < 0.5).float()
    chosen, weighted = RunningMeanStd(shape=(3,)), RunningMeanStd(shape=(3,))
    chosen.update(samples[weights > 0])
    weighted.update_weighted(samples.masked_fill(weights.unsqueeze(1) == 0, torch.nan), weights)
    weighted.update_weighted(samples, torch.zeros(50))
    for mine, other in zip(weighted.state_dict().values(), chosen.state_dict().values(), strict=True):
        torch.testing.assert_close(mine, other)
