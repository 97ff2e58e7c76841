"""Several processes train over gloo: equal weights, merged statistics, shared decisions."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from echelon.jobs.ranks import free_port
from echelon.rl.checkpoint import latest_valid
from echelon.rl.obs_norm import ObsNormalizer
from echelon.training import session
from echelon.training.normalization import NORM_EPS, ReturnNormalizer, update_obs_normalizer
from echelon.training.ppo import losses as ppo_losses
from echelon.training.runtime.process_group import ProcessGroup, process_group_from_environment
from echelon.training.runtime.threads import resolve_threads, thread_environment
from echelon.training.session import Session
from tests.training.rank_worker import sample, train

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 600
CALM = ("train against a mix", "train on ragged chunks", "one asks to stop", "one goes bad")


def run_ranks(folder: Path, *plans: str, count: int = 2) -> tuple[int, dict[str, list[dict]]]:
    """Run plans one after the other in ``count`` processes; return the exit code and the results of each rank."""
    words = ["echelon.jobs.ranks", str(count), "tests.training.rank_worker", str(folder), *plans]
    command, environment = [sys.executable, "-m", *words], {**os.environ, **thread_environment()}
    done = subprocess.run(command, cwd=ROOT, env=environment, timeout=LIMIT_S)
    paths = {plan: sorted((folder / plan).glob("rank-*.pt")) for plan in plans}
    return done.returncode, {name: [torch.load(p, weights_only=False) for p in each] for name, each in paths.items()}


@pytest.fixture(scope="module")
def ended(tmp_path_factory) -> tuple[Path, int, dict[str, list[dict]]]:
    """The folder, the exit code and the results of two processes, of which one fails in the last plan."""
    folder, plans = tmp_path_factory.mktemp("ranks"), ["train", "first half", "second half", *CALM, "one raises"]
    return folder, *run_ranks(folder, *plans)


@pytest.fixture(scope="module")
def ran(ended) -> dict[str, list[dict]]:
    return ended[2]


@pytest.fixture(scope="module")
def merged(ran) -> list[dict]:
    """Statistics of one sample on two ranks."""
    return [rank["statistics"] for rank in ran["train"]]


@pytest.mark.long
def test_weights_and_normalizers_are_equal_on_all_ranks(ran):
    main, other = ran["train"]
    assert main["digests"] == other["digests"] and len(main["digests"]) == main["update"] >= 4
    assert len(set(main["digests"])) == len(main["digests"]), "every update changes something"


@pytest.mark.long
def test_ranks_collect_distinct_episodes_and_both_count(ran):
    main, other = ran["train"]
    assert not torch.equal(main["first"], other["first"])
    assert (main["steps"], main["episodes"]) == (other["steps"], other["episodes"])
    rows, steps = 8 * 2, 16
    assert main["steps"] > 1.5 * main["update"] * rows * steps, "two processes collect twice as many samples"


@pytest.mark.long
def test_ranks_share_snapshot_pool_and_ladder_level(ran):
    main, other = ran["train against a mix"]
    assert main["digests"] == other["digests"] and main["update"] >= 6
    assert main["pool"] == other["pool"] and len(main["pool"][-1][1]) == 3, "snapshots, their ratings and the level"
    assert any("past:" in name for sampled in main["met"] for name in sampled) and all(
        "self" in sampled for sampled in main["met"]
    )
    assert len(main["elo"]) == len(main["pool"]) - 1 and other["elo"] == []


@pytest.mark.long
def test_ragged_chunks_keep_ranks_in_step(ran):
    main, other = ran["train on ragged chunks"]
    assert main["digests"] == other["digests"] and main["update"] == 2


@pytest.mark.long
def test_only_rank_zero_emits_events(ran):
    main, other = ran["train"]
    assert other["events"] == [] and {"start", "update", "checkpoint", "end"} <= set(main["events"])


@pytest.mark.long
def test_resumed_two_rank_run_is_bit_exact(ran):
    for first, second, whole in zip(ran["first half"], ran["second half"], ran["train"], strict=True):
        assert first["update"] == 3 and first["digests"] + second["digests"] == whole["digests"]
    assert ran["second half"][0]["steps"] == ran["train"][0]["steps"]


@pytest.mark.long
def test_two_rank_checkpoint_resumes_on_one_rank(ran, ended, tmp_path):
    shutil.copytree(first := ended[0] / "first half" / "checkpoints", tmp_path / "checkpoints")
    second = train(tmp_path, resume="latest")
    assert second["update"] > 3 and second["steps"] > ran["first half"][0]["steps"]
    assert second["notice"] == "saved by 2 processes, now 1: new episodes begin", "with as many learners as before"
    saved = latest_valid(tmp_path / "checkpoints").checkpoint
    assert saved is not None and saved.manifest["processes"] == 1
    assert saved.manifest["rows"] == 2 * latest_valid(first).checkpoint.manifest["rows"]
    third = train(tmp_path, resume="latest", run={"total_steps": 4000})
    assert third["notice"] == "" and third["steps"] > second["steps"], "it goes on exactly, with as many environments"


@pytest.mark.parametrize(
    ("asked", "size", "expected"),
    [(8, 2, 8), (8, 1, 16), (8, 4, 4), (8, 3, 8), (4, 1, 4)],
    ids=["as before", "fewer", "more", "not divisible", "asked for"],
)
@pytest.mark.parametrize("total", [{"environments": 16}, {}])
def test_total_of_environments_stays_when_the_number_of_ranks_changes(asked, size, expected, total, monkeypatch):
    manifest = {"args": {"num_envs": 8}, "processes": 2, **total}
    monkeypatch.setattr(session, "open_checkpoint", lambda path: SimpleNamespace(manifest=manifest))
    group, config = ProcessGroup(size=size), SimpleNamespace(num_envs=asked)
    found = SimpleNamespace(group=group, config=config, folder=Path())
    assert Session._environments(found, "step-1") == expected
    assert Session._environments(found, None) == asked


@pytest.mark.long
def test_stop_on_one_rank_stops_all_at_same_update(ran):
    main, other = ran["one asks to stop"]
    assert main["reason"] == other["reason"] == "stopped"
    assert main["update"] == other["update"] == 2


@pytest.mark.long
def test_nonfinite_loss_on_one_rank_is_skipped_by_all(ran):
    main, other = ran["one goes bad"]
    assert main["digests"] == other["digests"] and main["reason"] == "completed"


@pytest.mark.long
def test_failing_rank_ends_the_others(ended):
    _, code, found = ended
    assert code == 1 and found["one raises"] == []


@pytest.mark.long
@pytest.mark.parametrize("silent", [0, 1])
def test_rank_whose_peer_on_another_node_falls_silent_ends(silent, tmp_path):
    """A suspended rank stands for one whose node is down: its connections stay open."""
    shared = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1"}
    shared |= {"MASTER_PORT": str(free_port()), "GLOO_SOCKET_IFNAME": "lo", "SILENT": str(silent)}
    command = [sys.executable, "-m", "tests.training.rank_worker", str(tmp_path), "falls silent"]
    ranks = [subprocess.Popen(command, cwd=ROOT, env={**os.environ, **shared, "RANK": str(r)}) for r in (0, 1)]
    try:
        assert ranks[1 - silent].wait(LIMIT_S) == 5 and ranks[silent].poll() is None
    finally:
        ranks[silent].kill()
        ranks[silent].wait()


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
        code, found = run_ranks(folder, "battles", count=count)
    assert code == 0 and len(found["battles"]) == count
    return found["battles"]


@pytest.mark.slow
def test_four_ranks_keep_equal_weights_on_battles(tmp_path):
    found = trained(tmp_path, RANKS)
    assert all(rank["digests"] == found[0]["digests"] and rank["steps"] == found[0]["steps"] for rank in found)
    assert found[0]["update"] == 2 and len(set(found[0]["digests"])) == 2


@pytest.mark.slow
def test_three_ranks_merge_statistics_and_gradients_as_one_process(tmp_path):
    code, found = run_ranks(tmp_path, "statistics", count=3)
    assert code == 0 and len(found["statistics"]) == 3
    assert_pooled(found["statistics"])
    assert all(torch.equal(rank["gradient"][0], torch.full((2, 2), 1.0)) for rank in found["statistics"])
