"""Several processes train over gloo: equal weights, merged statistics, shared decisions."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from echelon.rl.checkpoint import latest_valid
from echelon.rl.obs_norm import ObsNormalizer
from echelon.training.normalization import NORM_EPS, ReturnNormalizer, update_obs_normalizer
from echelon.training.ppo import losses as ppo_losses
from echelon.training.runtime.process_group import ProcessGroup, process_group_from_environment
from echelon.training.runtime.threads import resolve_threads, thread_environment
from tests.training.rank_worker import sample

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 240


def run_ranks(what: str, folder: Path, count: int = 2) -> tuple[int, list[dict]]:
    """Run a plan in ``count`` processes; return the exit code and the results of each rank."""
    folder.mkdir(exist_ok=True)
    for old in folder.glob("rank-*.pt"):
        old.unlink()
    command = [sys.executable, "-m", "echelon.jobs.ranks", str(count), "tests.training.rank_worker", what, str(folder)]
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, **thread_environment()}, timeout=LIMIT_S)
    paths = sorted(folder.glob("rank-*.pt"))
    return done.returncode, [torch.load(path, weights_only=False) for path in paths]


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> tuple[Path, list[dict]]:
    """An uninterrupted run of two processes."""
    folder = tmp_path_factory.mktemp("whole")
    code, found = run_ranks("train", folder)
    assert code == 0
    return folder, found


@pytest.fixture(scope="module")
def half(tmp_path_factory) -> tuple[Path, list[dict]]:
    """The same run, stopped half way; tests that continue it copy the folder."""
    folder = tmp_path_factory.mktemp("half")
    code, found = run_ranks("first half", folder)
    assert code == 0 and found[0]["update"] == found[1]["update"] == 3
    return folder, found


@pytest.fixture(scope="module")
def merged(whole) -> list[dict]:
    """Statistics of one sample on two ranks."""
    return [rank["statistics"] for rank in whole[1]]


@pytest.mark.long
def test_weights_and_normalizers_are_equal_on_all_ranks(whole):
    main, other = whole[1]
    assert main["digests"] == other["digests"] and len(main["digests"]) == main["update"] >= 4
    assert len(set(main["digests"])) == len(main["digests"]), "every update changes something"


@pytest.mark.long
def test_ranks_collect_distinct_episodes_and_both_count(whole):
    main, other = whole[1]
    assert not torch.equal(main["first"], other["first"])
    assert (main["steps"], main["episodes"]) == (other["steps"], other["episodes"])
    rows, steps = 8 * 2, 16
    assert main["steps"] > 1.5 * main["update"] * rows * steps, "two processes collect twice as many samples"


@pytest.mark.long
def test_ranks_share_snapshot_pool_and_ladder_level(tmp_path):
    code, (main, other) = run_ranks("train against a mix", tmp_path)
    assert code == 0 and main["digests"] == other["digests"] and main["update"] >= 6
    assert main["pool"] == other["pool"] and len(main["pool"][-1][1]) == 3, "snapshots, their ratings and the level"
    assert any("past:" in name for sampled in main["met"] for name in sampled) and all(
        "self" in sampled for sampled in main["met"]
    )
    assert len(main["elo"]) == len(main["pool"]) - 1 and other["elo"] == []


@pytest.mark.long
def test_ragged_chunks_keep_ranks_in_step(tmp_path):
    code, (main, other) = run_ranks("train on ragged chunks", tmp_path)
    assert code == 0 and main["digests"] == other["digests"] and main["update"] == 2


@pytest.mark.long
def test_only_rank_zero_emits_events(whole):
    main, other = whole[1]
    assert other["events"] == [] and {"start", "update", "checkpoint", "end"} <= set(main["events"])


@pytest.mark.long
def test_resumed_two_rank_run_is_bit_exact(whole, half, tmp_path):
    folder, first = half
    shutil.copytree(folder, tmp_path / "again")
    code, second = run_ranks("second half", tmp_path / "again")
    assert code == 0
    for rank in (0, 1):
        assert first[rank]["digests"] + second[rank]["digests"] == whole[1][rank]["digests"]
    assert second[0]["steps"] == whole[1][0]["steps"]


@pytest.mark.long
def test_two_rank_checkpoint_resumes_on_one_rank(half, tmp_path):
    folder, first = half
    shutil.copytree(folder, tmp_path / "alone")
    code, second = run_ranks("second half", tmp_path / "alone", count=1)
    assert code == 0 and second[0]["update"] > 3 and second[0]["steps"] > first[0]["steps"]
    begin = "saved by 2 processes, now 1: new episodes begin, the batch has 16 learners, before 32"
    assert second[0]["notice"].startswith(begin)
    saved = latest_valid(tmp_path / "alone" / "checkpoints").checkpoint
    assert saved is not None and saved.manifest["processes"] == 1


@pytest.mark.long
def test_stop_on_one_rank_stops_all_at_same_update(tmp_path):
    code, (main, other) = run_ranks("one asks to stop", tmp_path)
    assert code == 0 and main["reason"] == other["reason"] == "stopped"
    assert main["update"] == other["update"] == 2


@pytest.mark.long
def test_nonfinite_loss_on_one_rank_is_skipped_by_all(tmp_path):
    code, (main, other) = run_ranks("one goes bad", tmp_path)
    assert code == 0 and main["digests"] == other["digests"] and main["reason"] == "completed"


@pytest.mark.long
def test_failing_rank_ends_the_others(tmp_path):
    began = time.monotonic()
    code, _ = run_ranks("one raises", tmp_path)
    assert code == 1 and time.monotonic() - began < LIMIT_S / 2


@pytest.mark.long
def test_killed_rank_ends_the_others_with_its_signal(tmp_path):
    code, found = run_ranks("one dies", tmp_path)
    assert code == -signal.SIGKILL and found == []


def assert_pooled(found: list[dict]) -> None:
    """Means and deviations of returns and observations, and normal advantages, are those of all ranks' rows."""
    obs, x, alive, _ = sample()
    returns = ReturnNormalizer()
    returns.update(x)
    norm = ObsNormalizer(4)
    norm.set_normalizable(torch.tensor([True, True, False, True]))
    update_obs_normalizer(norm, obs, alive)
    advantages = x.clone()
    ppo_losses.normalize_advantages(advantages, alive, NORM_EPS)
    for name, expected in returns.state_dict().items():
        assert all(torch.allclose(part["returns"][name], expected) for part in found)
    for name, expected in norm.state_dict().items():
        assert all(torch.allclose(part["obs"][name], expected) for part in found)
    assert torch.allclose(torch.cat([part["advantages"] for part in found]), advantages, atol=1e-6)


@pytest.mark.long
def test_merged_rank_statistics_match_pooled_samples(merged):
    assert_pooled(merged)
    _, _, alive, roles = sample()
    by_role = torch.cat([part["by_role"] for part in merged])
    role_of = torch.cat([torch.zeros(19, 6), roles.expand(18, 6)])
    for role in (0, 1, 2):
        selected = by_role[(role_of == role) & alive.bool()]
        assert abs(float(selected.mean())) < 1e-5 and abs(float(selected.std()) - 1) < 1e-4


@pytest.mark.long
def test_rank_without_living_rows_takes_merged_statistics(merged):
    obs, _, alive, _ = sample()
    norm = ObsNormalizer(4)
    norm.set_normalizable(torch.ones(4, dtype=torch.bool))
    update_obs_normalizer(norm, obs, alive)
    assert all(torch.allclose(part["lonely"]["mean"], norm.mean) for part in merged)
    assert all(torch.allclose(part["lonely"]["var"], norm.var) for part in merged)


@pytest.mark.long
def test_process_group_averages_and_reduces(merged):
    for part in merged:
        assert torch.equal(part["gradient"][0], torch.full((2, 2), 0.5))
        assert torch.equal(part["gradient"][1], torch.full((3,), 2.0))
        assert part["any"] and part["most"] == 1 and part["total"] == 3
        assert part["from_main"] == "said by 0" and part["all_of"] == [0, 1]


def test_single_process_group_exchanges_nothing(monkeypatch):
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    group = process_group_from_environment()
    assert group.is_single and group.is_main
    monkeypatch.setattr("torch.distributed.all_reduce", lambda *_, **__: pytest.fail("exchanged something"))
    gradient = [torch.ones(3)]
    group.average(gradient)
    assert torch.equal(gradient[0], torch.ones(3)) and group.all_gather(7) == [7] and group.all_max(3) == 3


def test_resolve_threads_divides_cores_by_processes():
    assert resolve_threads(0, 10**6) == 1 and resolve_threads(3, 2) == 3
    assert resolve_threads(0, 2) == max(1, resolve_threads(0) // 2)


def test_process_group_reads_torchrun_environment(monkeypatch):
    for name, value in (("RANK", "3"), ("WORLD_SIZE", "4"), ("LOCAL_RANK", "1"), ("LOCAL_WORLD_SIZE", "2")):
        monkeypatch.setenv(name, value)
    group = process_group_from_environment()
    assert isinstance(group, ProcessGroup) and not group.is_main
    assert (group.rank, group.size, group.local_rank, group.local_size) == (3, 4, 1, 2)


RANKS = 4


def trained(folder: Path, count: int, *, device: str = "cpu", capture: bool = False) -> list[dict]:
    """Return the results of each of ``count`` ranks that train two updates on battles."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DEVICE", device)
        patch.setenv("CAPTURE", str(capture))
        code, found = run_ranks("battles", folder, count)
    assert code == 0 and len(found) == count
    return found


@pytest.mark.slow
def test_four_ranks_keep_equal_weights_on_battles(tmp_path):
    found = trained(tmp_path, RANKS)
    assert all(rank["digests"] == found[0]["digests"] and rank["steps"] == found[0]["steps"] for rank in found)
    assert found[0]["update"] == 2 and len(set(found[0]["digests"])) == 2


@pytest.mark.long
def test_four_ranks_merge_statistics_and_gradients_as_one_process(tmp_path):
    code, found = run_ranks("statistics", tmp_path, RANKS)
    assert code == 0 and len(found) == RANKS
    assert_pooled(found)
    mean = sum(range(RANKS)) / RANKS
    assert all(torch.equal(rank["gradient"][0], torch.full((2, 2), mean)) for rank in found)
