"""Four ranks train over gloo on one machine: equal weights, and statistics of one process over all their rows."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.training.test_process_group import assert_pooled, run_ranks

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
    code, found = run_ranks("statistics", tmp_path, RANKS)
    assert code == 0 and len(found) == RANKS
    assert_pooled(found)
    mean = sum(range(RANKS)) / RANKS
    assert all(torch.equal(rank["gradient"][0], torch.full((2, 2), mean)) for rank in found)
