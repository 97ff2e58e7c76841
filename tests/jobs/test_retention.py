"""Disk use, rules for what stays, and archives of runs."""

from __future__ import annotations

import gzip
import json
import os
import tarfile
import tracemalloc

import pytest

from echelon.jobs import retention
from echelon.jobs.retention import Keep, archive, archives, disk_use, parse_keep, prune, removable, restore
from echelon.runs import RunPaths, create_run, list_runs


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
    (): Keep(),
    ("all",): Keep(),
    ("best",): Keep(best=True, latest=0, replays=0),
    ("latest",): Keep(best=False, latest=1, replays=0),
    ("best,latest=2", "replays=20"): Keep(best=True, latest=2, replays=20),
    ("replays",): Keep(best=False, latest=0, replays=None),
}


@pytest.mark.parametrize(("rules", "expected"), RULES.items(), ids=map(str, RULES))
def test_keep_rule_is_parsed(rules, expected):
    assert parse_keep(rules) == expected


@pytest.mark.parametrize("rule", ["beste", "latest=-1", "latest=x", "best=2", "all,best"])
def test_word_that_is_no_rule_is_refused(rule):
    with pytest.raises(ValueError, match="is no rule, expected all, best, latest=N or replays=N"):
        parse_keep([rule])


@pytest.mark.parametrize(
    ("rule", "gone"),
    [
        ("all", []),
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


def test_archived_run_comes_back_as_it_was(run):
    content = (run.checkpoints / "step-2" / "state.pt").read_bytes()
    path = archive(run, parse_keep(["best"]))
    assert list_runs() == [] and not run.root.exists() and archives() == [path]
    restored = restore(path)
    assert restored.root == run.root and restored.metrics.read_text() == "{}\n"
    assert sorted(p.name for p in restored.checkpoints.iterdir()) == ["best.json", "step-2"]
    assert (restored.checkpoints / "step-2" / "state.pt").read_bytes() == content
    assert not restored.lock.exists() and list(restored.replays.iterdir()) == []
    with pytest.raises(ValueError, match="exists; try: echelon runs rm"):
        restore(path)


@pytest.mark.parametrize("state", ["running", "queued"])
def test_run_that_has_not_ended_is_refused(run, state, monkeypatch):
    from dataclasses import replace

    status = retention.job_status(run)
    monkeypatch.setattr(retention, "job_status", lambda _: replace(status, state=state))
    for change in (lambda: archive(run, Keep()), lambda: prune(run, Keep())):
        with pytest.raises(ValueError, match=f"is {state}, expected one that has ended; try: echelon"):
            change()
    assert (run.checkpoints / "step-1").is_dir() and archives() == []


@pytest.mark.parametrize("fault", ["_write", "_verify", "fsync"])
def test_failed_archive_leaves_the_run_and_no_file(run, monkeypatch, fault):
    def fail(*_):
        raise OSError("No space left on device")

    monkeypatch.setattr(retention, fault, fail)
    with pytest.raises(OSError):
        archive(run, Keep())
    assert (run.checkpoints / "step-4" / "state.pt").is_file()
    assert [path for path in (run.root.parent / "archive").iterdir()] == []


def test_damaged_archive_is_found_before_the_run_is_deleted(run, monkeypatch):
    write = retention._write

    def damage(target, *rest):
        names = write(target, *rest)
        data = bytearray(target.read_bytes())
        data[len(data) // 2] ^= 0xFF
        target.write_bytes(data)
        return names

    monkeypatch.setattr(retention, "_write", damage)
    with pytest.raises(ValueError, match="is damaged|lacks files"):
        archive(run, Keep())
    assert (run.checkpoints / "step-4" / "state.pt").is_file() and archives() == []


def test_archive_that_leads_elsewhere_is_refused(run, tmp_path):
    path = archive(run, Keep())
    with tarfile.open(path, "w:gz") as file:
        member = tarfile.TarInfo(f"{run.id}/../../escaped")
        file.addfile(member)
    with pytest.raises(ValueError, match="cannot be restored"):
        restore(path)
    assert list_runs() == [] and not (tmp_path / "escaped").exists()


@pytest.mark.parametrize(
    "name", ["league.db", "league", "league.db-wal", "queue.db", "worlds", "archive", "filters.json"]
)
def test_archive_with_the_name_of_another_file_of_the_home_is_refused(run, tmp_path, name):
    path = tmp_path / f"{name}.tar.gz"
    with tarfile.open(path, "w:gz") as file:
        spec = tarfile.TarInfo(f"{name}/spec.json")
        file.addfile(spec)
    with pytest.raises(ValueError, match="names no run"):
        restore(path)
    assert not (run.root.parent / name).exists()


def member(name: str, size: int = 0, kind: bytes = tarfile.REGTYPE, **facts: object) -> bytes:
    """Return a header of a member of an archive."""
    info = tarfile.TarInfo(name)
    info.size, info.type = size, kind
    for fact, value in facts.items():
        setattr(info, fact, value)
    return info.tobuf(tarfile.GNU_FORMAT)


def extended(text: str) -> bytes:
    """Return an extended header with one record."""
    record = f"{len(text) + 4:3d} {text}\n".lstrip().encode()
    return member("x", len(record), tarfile.XHDTYPE) + record.ljust(512, b"\0")


MEBI = 1 << 20
HOSTILE = {
    "extended header of 64 MiB": [member("x", 64 * MEBI, tarfile.XHDTYPE), *[bytes(MEBI)] * 64],
    "name of 64 MiB": [member("x", 64 * MEBI, tarfile.GNUTYPE_LONGNAME), *[b"a" * MEBI] * 64],
    "time of no platform": [extended("mtime=1e400"), member("RUN/a")],
    "deep name": [extended("path=RUN" + 400 * "/a"), member("RUN/a")],
    "link elsewhere": [member("RUN/a", 0, tarfile.SYMTYPE, linkname="/etc/passwd")],
    "link within": [member("RUN/a", 0, tarfile.LNKTYPE, linkname="RUN/spec.json")],
    "pipe": [member("RUN/a", 0, tarfile.FIFOTYPE)],
    "another folder": [member("other/a")],
    "map of holes": [extended("GNU.sparse.map=a,b"), member("RUN/a")],
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_archive_is_refused_in_one_line_and_little_memory(case, tmp_path):
    path, home = tmp_path / "RUN.tar.gz", tmp_path / "home"
    home.mkdir()
    with gzip.open(path, "wb", 1) as file:
        file.write(member("RUN/spec.json", 2, mode=0o644) + b"{}".ljust(512, b"\0"))
        for block in (*HOSTILE[case], bytes(1024)):
            file.write(block)
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="cannot be restored") as error:
            restore(path, home)
        assert tracemalloc.get_traced_memory()[1] < 16 * MEBI
    finally:
        tracemalloc.stop()
    assert "\n" not in str(error.value) and len(str(error.value)) < 500
    assert list(home.iterdir()) == []


def test_archive_has_no_more_members_than_a_run(run, monkeypatch):
    monkeypatch.setattr(retention, "MAX_MEMBERS", 5)
    with pytest.raises(ValueError, match="more than 5 members"):
        archive(run, Keep())
    assert run.root.is_dir() and archives() == []


def test_archive_writes_through_no_link_of_its_folder(run, tmp_path):
    other, folder = tmp_path / "other", run.root.parent / "archive"
    other.write_text("text")
    folder.mkdir()
    (folder / f".{run.id}.tar.gz.tmp").symlink_to(other)
    archive(run, Keep())
    assert other.read_text() == "text" and len(archives()) == 1


def test_file_with_several_names_is_archived_with_each(run):
    weights = run.checkpoints / "step-1" / "state.pt"
    os.link(weights, weights.with_name("copy.pt"))
    content = weights.read_bytes()
    folder = restore(archive(run, Keep())).checkpoints / "step-1"
    assert [(folder / name).read_bytes() for name in ("state.pt", "copy.pt")] == [content, content]
