"""Disk use of runs, and rules for what stays."""

from __future__ import annotations

import json
import os

import pytest

from echelon.jobs import retention
from echelon.jobs.retention import Keep, disk_use, parse_keep, prune, removable
from echelon.runs import RunPaths, create_run


@pytest.fixture
def run() -> RunPaths:
    """An ended run with four checkpoints, the second of which is the best, and three replays."""
    paths = create_run("fake")
    paths.spec.write_text(json.dumps({"kind": "train", "config": {}}))
    paths.exit.write_text(json.dumps({"code": 0}))
    paths.metrics.write_text("{}\n")
    paths.lock.write_text("")
    for step in (1, 2, 3, 4):
        folder = paths.checkpoints / f"step-{step}"
        folder.mkdir()
        (folder / "state.pt").write_bytes(os.urandom(20_000))
    (paths.checkpoints / "best.json").write_text(json.dumps({"checkpoint": "step-2", "id": "x", "eval": {}}))
    paths.replays.mkdir()
    for number in range(3):
        (paths.replays / f"m{number}.ecr").write_bytes(bytes(1000))
        os.utime(paths.replays / f"m{number}.ecr", (number, number))
    return paths


RULES = {
    ("best",): Keep(best=True, latest=0, replays=0),
    ("latest",): Keep(best=False, latest=1, replays=0),
    ("best,latest=2", "replays=20"): Keep(best=True, latest=2, replays=20),
    ("replays",): Keep(best=False, latest=0, replays=None),
}


@pytest.mark.parametrize(("rules", "expected"), RULES.items(), ids=map(str, RULES))
def test_keep_rule_is_parsed(rules, expected):
    assert parse_keep(rules) == expected


@pytest.mark.parametrize("rule", ["beste", "latest=-1", "latest=x", "best=2", "all"])
def test_word_that_is_no_rule_is_refused(rule):
    with pytest.raises(ValueError, match="is no rule, expected best, latest=N or replays=N"):
        parse_keep([rule])


@pytest.mark.parametrize(
    ("rule", "gone"),
    [
        ("best,latest", ["step-3", "step-1", "m2.ecr", "m1.ecr", "m0.ecr"]),
        ("latest=2,replays=1", ["step-2", "step-1", "m1.ecr", "m0.ecr"]),
        ("replays", ["step-4", "step-3", "step-2", "step-1"]),
    ],
)
def test_rule_names_what_goes(run, rule, gone):
    assert [path.name for path in removable(run, parse_keep([rule]))] == gone


def test_disk_use_counts_by_kind_and_hard_links_once(run):
    before = disk_use(run)
    assert before.checkpoints >= 80_000 and before.replays >= 3_000
    os.link(run.checkpoints / "step-1" / "state.pt", run.root / "backup.pt")
    assert disk_use(run).total == before.total


def test_prune_never_deletes_the_newest_checkpoint(run):
    assert prune(run, parse_keep(["replays=1"])) > 50_000
    assert sorted(path.name for path in run.checkpoints.iterdir()) == ["best.json", "step-4"]
    assert [path.name for path in run.replays.iterdir()] == ["m2.ecr"]


@pytest.mark.parametrize("state", ["running", "queued"])
def test_run_that_has_not_ended_is_refused(run, state, monkeypatch):
    from dataclasses import replace

    status = retention.job_status(run)
    monkeypatch.setattr(retention, "job_status", lambda _: replace(status, state=state))
    with pytest.raises(ValueError, match=f"is {state}, expected one that has ended; try: echelon"):
        prune(run, parse_keep(["latest"]))
    assert (run.checkpoints / "step-1").is_dir()
