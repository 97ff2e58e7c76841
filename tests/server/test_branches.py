"""Branches in the catalogue: what was changed, and the match that each continues, by the hash of its file."""

import hashlib
import os
import shutil
from pathlib import Path

from echelon.replay.reader import Replay
from echelon.replay.writer import MatchWriter
from echelon.server import branches
from echelon.server.branches import branch_of
from echelon.server.catalogue import ReplayCatalogue, match_id
from tests.replay.golden import SMALL, SMOKE

ONE, TWO = "20260101-000000-sim-first", "20260101-000000-sim-second"
NAME = "played-001.ecr"


def add(home: Path, run: str, source: Path, name: str = NAME) -> Path:
    replays = home / run / "replays"
    replays.mkdir(parents=True, exist_ok=True)
    (home / run / "spec.json").write_text("{}")
    return Path(shutil.copy(source, replays / name))


def add_branch(home: Path, run: str, name: str, parent: Path) -> str:
    """Write a replay without frames that continues another; return its id."""
    digest = hashlib.sha256(parent.read_bytes()).hexdigest()
    with Replay(SMALL) as replay:
        header = {**replay.header, "parent": {"file": parent.name, "sha256": digest, "tick": 5, "still": ["B3"]}}
        writer = MatchWriter(home / run / "replays" / name, header, replay.world)
        writer.close()
    return match_id(run, name)


def parents(home: Path) -> dict[str, str]:
    catalogue = ReplayCatalogue(home)
    return {m.id: m.summary["parent"]["match"] for m in catalogue.matches() if m.summary["parent"]}


def test_branches_of_equally_named_files_have_the_parent_of_their_hash(tmp_path):
    first, second = add(tmp_path, ONE, SMALL), add(tmp_path, TWO, SMOKE)
    made = {add_branch(tmp_path, ONE, f"b{n}.ecr", parent): parent for n, parent in enumerate((first, second))}
    expected = {branch: match_id(path.parent.parent.name, NAME) for branch, path in made.items()}
    assert parents(tmp_path) == expected
    first.unlink()  # the other file of this name is no parent
    assert parents(tmp_path)[next(iter(made))] == ""


def test_only_named_files_are_hashed_once_and_within_bounds(tmp_path, monkeypatch):
    parent = add(tmp_path, ONE, SMALL)
    add(tmp_path, ONE, SMOKE, "other.ecr")
    branch = add_branch(tmp_path, ONE, "b.ecr", parent)
    hashed = []
    whole = branches.Parents._hash_of
    monkeypatch.setattr(branches.Parents, "_hash_of", lambda self, m: hashed.append(m.path.name) or whole(self, m))
    monkeypatch.setattr("echelon.server.catalogue.SCAN_INTERVAL_S", -1.0)
    catalogue = ReplayCatalogue(tmp_path)

    def found() -> str:
        return next(m for m in catalogue.matches() if m.id == branch).summary["parent"]["match"]

    assert [found(), found()] == [match_id(ONE, NAME)] * 2 and hashed == [NAME]
    os.utime(parent, (1, 1))
    assert found() == match_id(ONE, NAME) and hashed == [NAME, NAME]
    for limit, value in (("MAX_FILE_BYTES", 10), ("MAX_HASHES", 0), ("SCAN_BYTES", 0)):
        with monkeypatch.context() as bounded:
            bounded.setattr(branches, limit, value)
            assert parents(tmp_path) == {branch: ""}


def test_branch_of_lists_what_was_changed():
    assert branch_of({}) is None
    parent = {"file": "a.ecr", "tick": 100, "sha256": "0" * 64, "set": {"B2": "expert"}, "still": ["B3"] * 999}
    assert branch_of({"parent": {**parent, "changes": {"laser.damage": 28, "x" * 999: 1}}}) == {
        "file": "a.ecr", "match": "", "tick": 100, "set": {"B2": "expert"}, "changes": ["laser.damage=28", "x" * 200],
        "still": ["B3"] * 256,
    }  # fmt: skip
