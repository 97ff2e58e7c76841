"""Run folders: names and lookup."""

import json
import os
import shutil
import time

import pytest

from echelon.files import atomic_write
from echelon.runs import (
    RunFile,
    RunNotFoundError,
    RunPaths,
    create_run,
    find_run,
    follow_folder,
    is_deleted,
    list_runs,
    load_json,
    new_run_id,
    read_json,
    runs_home,
)


def make_run(name: str) -> RunPaths:
    paths = RunPaths(runs_home() / name)
    paths.root.mkdir(parents=True)
    atomic_write(paths.spec, "{}")
    return paths


def test_run_id_contains_time_preset_and_two_words(rng):
    name = new_run_id("quick start/..", now=0.0, rng=rng)
    stamp, day_time, preset, *words = name.split("-")
    assert (stamp, day_time, preset) == ("19700101", "000000", "quick_start___")
    assert len(words) == 2


def test_list_runs_newest_first_without_other_folders():
    assert list_runs() == []
    old, new = make_run("20260101-000000-a-calm-fox"), make_run("20260201-000000-a-calm-fox")
    make_run("--all")  # "echelon runs stop --all" would be another command
    (runs_home() / "notes").mkdir()
    assert list_runs() == [new, old]


def test_list_runs_ignores_unreadable_folder(monkeypatch):
    run, stat = make_run("20260101-000000-a-calm-fox"), os.stat
    (runs_home() / "lost+found").mkdir()

    def guarded(path, *words, **how):
        if "lost+found" in str(path):
            raise PermissionError(13, "Permission denied", str(path))
        return stat(path, *words, **how)

    monkeypatch.setattr(os, "stat", guarded)
    assert list_runs() == [run] and find_run("fox") == run
    with pytest.raises(RunNotFoundError):
        find_run(str(runs_home() / "lost+found"))


def test_list_runs_unreadable_home_raises_error(monkeypatch):
    def closed(path):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(os, "listdir", closed)
    with pytest.raises(ValueError, match="runs' cannot be read: permission denied; try another ECHELON_HOME"):
        list_runs()


def test_list_runs_ignores_removed_folders():
    make_run(".20260101-000000-a-calm-fox.removed")
    assert list_runs() == []


def test_find_run_by_id_prefix_words_folder_and_latest():
    one, two = make_run("20260101-000000-a-calm-fox"), make_run("20260102-000000-a-wild-owl")
    for name in (one.id, "20260101", "calm-fox", "calm", str(one.root)):
        assert find_run(name) == one
    with pytest.raises(RunNotFoundError, match="is of kind 'train'"):
        find_run("latest")
    assert list_runs() == [two, one], "without a recorded time the name decides"


def test_runs_follow_the_recorded_time_and_latest_is_a_training_run():
    now, year = time.time(), 365 * 86_400.0
    ages = {"20260101-000000-a-newest": 60.0, "paper-baseline": year / 4, "20280101-000000-a-wrong-clock": -2 * year}
    for name, age in ages.items():
        make_run(name).spec.write_text(json.dumps({"kind": "train", "created": now - age}))
    part = make_run("20260102-000000-quickstart-calm-fox")
    part.spec.write_text(json.dumps({"kind": "train", "created": now - 1.0, "parent": "20260101-000001-redteam-a-b"}))
    session = make_run("20000101-000000-play-calm-fox")
    session.spec.write_text(json.dumps({"kind": "play", "created": now}))
    assert [run.id for run in list_runs()] == [session.id, part.id, *ages]
    assert find_run("latest").id == "20260101-000000-a-newest" and find_run("latest", kind="play") == session


def test_open_run_follows_its_folder_and_names_a_deleted_one(tmp_path):
    (tmp_path / "one").mkdir()
    run = follow_folder(RunPaths(tmp_path / "one"))
    atomic_write(run.spec, "{}")
    (tmp_path / "one").rename(tmp_path / "two")
    (tmp_path / "one").mkdir()
    assert run.id == "two" and run.spec == tmp_path / "two" / "spec.json" and not is_deleted(run)
    shutil.rmtree(tmp_path / "two")
    assert is_deleted(run)
    with pytest.raises(FileNotFoundError, match="run folder '.*two' was deleted while its job ran"):
        _ = run.metrics


def test_find_run_ambiguous_name_lists_matches():
    make_run("20260101-000000-a-calm-fox"), make_run("20260101-000001-a-calm-owl")
    with pytest.raises(RunNotFoundError, match="ambiguous.*calm-fox, .*calm-owl"):
        find_run("calm")


@pytest.mark.parametrize("name", ["clam-fox", "20260101-000000-a-calm-fix"])
def test_find_run_missing_name_suggests_nearest(name):
    make_run("20260101-000000-a-calm-fox")
    with pytest.raises(RunNotFoundError, match="does not exist.*did you mean '.*calm-fox'"):
        find_run(name)


@pytest.mark.parametrize("name", ["", "x", "../..", "a\nb", "\0"])
def test_find_run_invalid_name_raises_error(name):
    make_run("20260101-000000-b-calm-fog")
    with pytest.raises(ValueError, match="does not exist"):
        find_run(name)


def test_create_and_find_run_in_any_home(hostile_home):
    paths = create_run("quickstart")
    atomic_write(paths.spec, '{"kind": "train"}')
    assert paths.root.parent == hostile_home
    assert find_run("latest") == paths


@pytest.mark.parametrize("raw", [b"", b"[1]", b"{", b"\xff\xfe\0"])
def test_read_json_damaged_file_returns_none(tmp_path, raw):
    path = tmp_path / "proc.json"
    path.write_bytes(raw)
    assert read_json(path) is None


def test_load_json_unreadable_file_raises_os_error(tmp_path):
    (tmp_path / "loop.json").symlink_to("loop.json")
    with pytest.raises(OSError):
        load_json(tmp_path / "loop.json")
    assert load_json(tmp_path / "missing.json") is None and read_json(tmp_path / "loop.json") is None


def test_create_run_syncs_every_new_folder(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(os, "fsync", lambda handle: synced.append(os.readlink(f"/proc/self/fd/{handle}")))
    paths = create_run("quickstart", tmp_path / "new" / "home")
    assert synced == [str(path) for path in (tmp_path, tmp_path / "new", paths.root.parent)]


def test_run_paths_are_inside_run_folder(tmp_path):
    paths = RunPaths(tmp_path / "run")
    files = [getattr(paths, name) for name, kind in vars(RunPaths).items() if isinstance(kind, RunFile)]
    assert all(file.is_relative_to(paths.root) for file in files)
    assert len(set(files)) == len(files)
