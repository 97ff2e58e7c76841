"""Preview of a long run."""

from __future__ import annotations

from pathlib import Path

from echelon.telemetry.events import EventEpisodes, EventResume, EventStart, EventUpdate
from echelon.telemetry.latest import sample_updates
from echelon.telemetry.lines import to_json


def write(path: Path, updates: range, *, resumed_at: int = 0) -> None:
    with open(path, "a") as file:
        begin = (
            EventResume(update=resumed_at, global_step=0, time=updates[0])
            if resumed_at
            else EventStart(device="cpu", time=0)
        )
        file.write(to_json(begin) + "\n")
        for number in updates:
            file.write(
                to_json(EventUpdate(update=number, global_step=number * 10, time=number + 1000 * resumed_at)) + "\n"
            )
            file.write(to_json(EventEpisodes(update=number, global_step=number * 10, count=1)) + "\n")


def test_sample_updates_spreads_over_whole_run(tmp_path):
    path = tmp_path / "metrics.jsonl"
    write(path, range(1, 2001))
    found = [event.update for event in sample_updates(path, 50)]
    assert found == sorted(set(found)) and 40 <= len(found) <= 50
    assert found[0] == 1 and found[-1] > 1900
    assert max(b - a for a, b in zip(found, found[1:], strict=False)) < 100


def test_sample_updates_drops_superseded_updates(tmp_path):
    path = tmp_path / "metrics.jsonl"
    write(path, range(1, 1001))
    write(path, range(501, 801), resumed_at=500)
    found = sample_updates(path, 60)
    numbers = [event.update for event in found]
    assert numbers == sorted(set(numbers)) and numbers[-1] <= 800
    assert all(event.time > 1000 for event in found if event.update > 500), "superseded updates are dropped"


def test_sample_updates_of_short_and_empty_files(tmp_path):
    path = tmp_path / "metrics.jsonl"
    assert sample_updates(path) == []
    path.write_text("no record\n{torn")
    assert sample_updates(path) == []
    write(tmp_path / "short", range(1, 4))
    assert [event.update for event in sample_updates(tmp_path / "short")] == [1, 2, 3]
