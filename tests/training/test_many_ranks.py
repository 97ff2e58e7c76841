"""Four ranks train over gloo on one machine: equal weights, and statistics of one process over all their rows."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.training.test_process_group import run_ranks

RANKS = 4


def trained(folder: Path, count: int, *, device: str = "cpu", capture: bool = False) -> list[dict]:
    """Return the results of each of ``count`` ranks that train two updates on battles."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DEVICE", device)
        patch.setenv("CAPTURE", str(capture))
        code, found = run_ranks("battles", folder, count)
    assert code == 0 and len(found) == count
    return found


@pytest.mark.long
def test_four_ranks_keep_equal_weights_on_battles(tmp_path):
    found = trained(tmp_path, RANKS)
    assert all(rank["digests"] == found[0]["digests"] and rank["steps"] == found[0]["steps"] for rank in found)
    assert found[0]["update"] == 2 and len(set(found[0]["digests"])) == 2


@pytest.mark.long
def test_four_ranks_merge_statistics_and_gradients_as_one_process(tmp_path):
    """Means and deviations of returns and observations, normal advantages and gradients are those of all rows."""
    code, (whole,) = run_ranks("shares", tmp_path / "one", 1)
    more, found = run_ranks("shares", tmp_path / "four", RANKS)
    assert code == more == 0 and [rank["total"] for rank in found] == [len(whole["rows"])] * RANKS
    for rank in found:
        for name in ("returns", "obs", "gradient"):
            torch.testing.assert_close(rank[name], whole[name], rtol=1e-5, atol=1e-5, msg=name)
        torch.testing.assert_close(rank["advantages"], whole["advantages"][rank["rows"]], rtol=1e-5, atol=1e-5)
