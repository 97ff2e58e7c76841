"""Hostile files with right checksums: every reader raises its declared error, and memory stays within the budgets."""

import itertools
import random
import resource
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from echelon.arena.reconstruct import action_entries, moment_tick, recorded_pilots, recorded_steps, require_playable
from echelon.atlas.scene import scene_from_replay
from echelon.replay import codec
from echelon.replay.codec import ReplayError, pack_map, unpack_map
from echelon.replay.embed import embed_world
from echelon.replay.extra_records import read_seats, read_state, state_heads
from echelon.replay.reader import Replay
from echelon.replay.record import chunk_frames
from echelon.replay.schema import (
    BUDGETS,
    MAX_CAPTION,
    MAX_CHUNKS,
    MAX_FRAMES,
    MAX_MARKERS,
    MAX_MOMENT_MECHS,
    MAX_MOMENTS,
    MAX_SECONDS,
    MAX_VALUES,
    MAX_WIN_POINTS,
    WIN_GROUPS,
    RecordType,
)
from echelon.replay.timeline import Timeline
from echelon.server.catalogue import summarize
from echelon.server.responses import strict_json
from echelon_cli.commands.replay import _rows, describe
from tests.replay.hostile import Parts, Record, assemble, bases, hostile_replay
from tests.replay.synthetic import write_match

CASES = 160
"""Random files of the default run."""
SHARE = 8
"""Every which file of the default run goes through all readers, the others are opened, listed and served."""
MEASURED = 10
"""Random files for which memory is measured."""
MAX_MEMORY = 64 * 2**20
"""Peak memory of Python objects and arrays while one small file is read [bytes]."""
ALL_CASES, STEP = 100_000, 1_000
MIB = 2**20
MAX_PROCESS_MEMORY = 256 * MIB
"""Memory of the process above its idle state."""
MAX_CPU_S = 1.0
"""CPU time to open, list or serve one file [s]."""
QUICK = ("open_replay", "serve_replay")
MOMENT = {
    "tick": 20, "second": 1.0, "from": 0.0, "to": 2.5, "kind": "kill", "rank": 1, "score": 0.2, "team": 0,
    "mechs": ["B1"], "before": 0.5, "after": 0.7, "caption": "0:01 B1 kills R1",
}  # fmt: skip
HOSTILE_MOMENTS = (
    {"tick": -1}, {"tick": 2**64 - 1}, {"second": float("nan")}, {"from": "0"}, {"to": float("inf")}, {"kind": 3},
    {"rank": 0}, {"rank": MAX_MOMENTS + 1}, {"team": 2}, {"mechs": ["B1"] * (MAX_MOMENT_MECHS + 1)}, {"mechs": "B1"},
    {"before": -0.1}, {"after": 1.5}, {"caption": "x" * (MAX_CAPTION + 1)}, {"caption": b"x"},
)  # fmt: skip
CORPUS = Path(__file__).resolve().parents[1] / "golden" / "hostile"
"""Minimised files on which a reader once failed; the viewer's tests read them too."""


def open_replay(path: Path) -> None:
    with Replay(path) as replay:
        strict_json(summarize("id", "run", path, replay, True))


def serve_replay(path: Path) -> None:
    with Replay(path) as replay:
        strict_json({"header": replay.header})
        for n in range(len(replay.chunks)):
            replay.chunk_bytes(n)
        strict_json(replay.timeline())


def decode_replay(path: Path) -> None:
    with Replay(path) as replay:
        for n in range(len(replay.chunks)):
            replay.chunk(n)


def describe_replay(path: Path) -> None:
    """Show a replay as ``replay info`` does."""
    with Replay(path) as replay:
        strict_json(found := describe(replay))
        _rows(found)


def export_replay(path: Path) -> None:
    with Replay(path) as replay:
        data = embed_world(replay)
    exported = path.with_suffix(".exported")
    exported.write_bytes(data)
    Replay(exported).close()


def draw_replay(path: Path) -> None:
    with Replay(path) as replay:
        scene_from_replay(replay)


def prepare_verification(path: Path) -> None:
    with Replay(path) as replay:
        if not action_entries(replay.header):
            return
        require_playable(replay)
        recorded_pilots(replay)
        moment_tick(replay, replay.ticks)
        for _ in recorded_steps(replay, 0, replay.ticks):
            pass


def read_extra_records(path: Path) -> None:
    with Replay(path) as replay:
        for head in state_heads(replay):
            read_state(replay, head)
        read_seats(replay)


READERS: tuple[tuple[Callable[[Path], None], type[Exception]], ...] = (
    (open_replay, ReplayError),
    (serve_replay, ReplayError),
    (decode_replay, ReplayError),
    (describe_replay, ReplayError),
    (export_replay, ReplayError),
    (draw_replay, ReplayError),
    (prepare_verification, ValueError),
    (read_extra_records, ReplayError),
)
"""Readers of replays and the only error that each may raise."""
"""Readers of world files and the only error that each may raise."""


def parts(**header: Any) -> Parts:
    """Return the parts of a small match with changed header entries."""
    made = deepcopy(bases()[0])
    made.header |= header
    return made


def run_readers(path: Path, data: bytes, readers=READERS) -> dict[str, str]:
    """Read a file in every way; return the messages by reader, and fail for any error that is not declared."""
    path.write_bytes(data)
    messages = {}
    for reader, declared in readers:
        try:
            reader(path)
        except declared as error:
            assert "\n" not in str(error) and len(str(error)) < 600
            messages[reader.__name__] = str(error)
    return messages


MECH = {"team": 0, "pack": 0, "chassis": 0, "name": "x", "present": True}
HEADERS: dict[str, dict[str, Any]] = {
    "teams is a number": {"teams": 5},
    "team without a level": {"teams": [{"name": "blue", "policy": "", "checkpoint": ""}] * 2},
    "team is a text": {"teams": ["blue", "red"]},
    "one team": {"teams": [{"name": "blue"}]},
    "team name is a map": {"teams": [{"name": {}}, {"name": "red"}]},
    "created is a text": {"created": "yesterday"},
    "created is not finite": {"created": float("nan")},
    "created overflows a calendar": {"created": 1e300},
    "seed is a list": {"seed": []},
    "schema is a map": {"schema": {}},
    "schema is a truth value": {"schema": [True, 0]},
    "roster has numbers": {"roster": [1, 2, 3, 4]},
    "team of a mech is 7": {"roster": [{**MECH, "team": 7}] * 4},
    "class of a mech is not listed": {"roster": [{**MECH, "chassis": 4}] * 4},
    "mechs is a text": {"mechs": "4"},
    "no mechs": {"mechs": 0},
    "more mechs than the roster": {"mechs": 5},
    "roster is null": {"roster": None},
    "schema is empty": {"schema": []},
    "tick_hz is 0": {"tick_hz": 0},
    "no columns": {"columns": []},
    "column of an unknown type": {
        "columns": [{"name": "x", "dtype": "f8", "scale": 1.0, "predict": 0, "per": "mech", "k": 1}]
    },
    "world is a list": {"world": [1]},
    "world has no size": {"world": {"sha256": "0" * 64}},
    "world leaves its folder": {"world": {"sha256": "../" * 20, "size": [12, 10, 6]}},
    "world has size 0": {"world": {"sha256": "0" * 64, "size": [0, 0, 0]}},
    "columns is a map": {"columns": {"name": "tick"}},
    "column without k": {"columns": [{"name": "tick", "dtype": "u16", "scale": 1.0, "predict": 0, "per": "frame"}]},
    "tables is null": {"tables": None},
    "tables is empty": {"tables": []},
    "changes of a branch is a number": {"parent": {"file": "a.ecr", "sha256": "0" * 64, "tick": 1, "changes": 5}},
    "config is a number": {"config": 3},
    "insight is null": {"insight": None},
    "tick_hz is not finite": {"tick_hz": float("nan")},
    "zone is empty": {"zone": []},
}


@pytest.mark.parametrize("change", HEADERS.values(), ids=HEADERS)
def test_header_with_wrong_values_is_rejected(tmp_path, change):
    messages = run_readers(tmp_path / "odd.ecr", assemble(parts(**change)))
    assert len(messages) == len(READERS) and "odd.ecr" in messages["open_replay"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda columns: columns.append(columns[-1]), "same name"),
        (lambda columns: columns[0].update(per="mech"), "'tick' has another shape"),
    ],
    ids=["duplicate", "shape"],
)
def test_header_with_impossible_columns_is_rejected(tmp_path, change, words):
    made = parts()
    change(made.header["columns"])
    assert words in run_readers(tmp_path / "odd.ecr", assemble(made))["open_replay"]


def test_header_of_wide_frames_is_rejected_before_allocating(tmp_path):
    made = parts()
    wide = {"name": "wide{}", "dtype": "u8", "scale": 1.0, "predict": 0, "per": "mech", "k": 1024}
    made.header["roster"] *= 1024
    made.header["mechs"] = 4096
    made.header["columns"] += [{**wide, "name": f"wide{n}"} for n in range(100)]
    path = tmp_path / "wide.ecr"
    path.write_bytes(assemble(made))
    assert path.stat().st_size < 30_000
    error, peak = measured(lambda: Replay(path))
    assert f"values, expected at most {MAX_VALUES}" in error and peak < MAX_MEMORY


CHUNKS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "frames is a text": lambda body: body.update(f="9"),
    "frames is a truth value": lambda body: body.update(f=True),
    "columns is a number": lambda body: body.update(c=2**31),
    "hash is a number, which bytes() takes as a length": lambda body: body.update(h=2**33),
    "hash is long": lambda body: body.update(h=bytes(1000)),
    "tables is null": lambda body: body.update(t=None),
    "table is a number": lambda body: body["t"].__setitem__(0, 5),
    "rows is negative": lambda body: body["t"].__setitem__(0, [-1, b""]),
    "rows is a fraction": lambda body: body["t"].__setitem__(0, [0.5, b""]),
    "rows is 2^40": lambda body: body["t"].__setitem__(0, [2**40, b""]),
    "no frames": lambda body: body.pop("f"),
}


@pytest.mark.parametrize("change", CHUNKS.values(), ids=CHUNKS)
@pytest.mark.parametrize("closed", [True, False])
def test_chunk_with_wrong_values_is_rejected(tmp_path, change, closed):
    made = parts()
    made.closed = closed
    change(made.chunks[0][1])
    path = tmp_path / "odd.ecr"
    messages = run_readers(path, assemble(made))
    assert "chunk 0 of replay 'odd.ecr' cannot be read" in messages["decode_replay"]
    assert "open_replay" not in messages


@pytest.mark.parametrize(
    "index",
    [
        {"outcome": None}, {"outcome": 5}, {"outcome": {"score": 3}}, {"outcome": {"winner": "blue"}},
        {"outcome": {"alive": [float("nan"), 0]}}, {"world": [2**40, 8]}, {"world": ["a", 1]}, {"world": []},
        {"t": None},
        {"t": [[0, b""]]}, {"t": [5, 6, 7]}, {"t": [[2**62, b""]] * 4}, {"t": [[True, b""]] * 4},
        {"moments": None}, {"moments": 5}, {"moments": [5]}, {"moments": [{}]},
        {"moments": [MOMENT] * (MAX_MOMENTS + 1)},
        *({"moments": [{**MOMENT, **change}]} for change in HOSTILE_MOMENTS),
    ],
    ids=str,
)  # fmt: skip
def test_index_with_wrong_values_costs_at_most_the_index(tmp_path, index):
    made = parts()
    made.extra = index
    path = tmp_path / "odd.ecr"
    assert run_readers(path, assemble(made)) == {}
    with Replay(path) as replay:
        assert len(replay.chunks) == len(made.chunks)


def test_index_with_hostile_moments_of_the_right_form_is_read(tmp_path):
    made = parts()
    made.moments = [
        {**MOMENT, "rank": 2, "caption": "\x1b[31m" * 99, "mechs": ["<b>"] * MAX_MOMENT_MECHS}
    ] * MAX_MOMENTS
    path = tmp_path / "odd.ecr"
    assert run_readers(path, assemble(made)) == {}
    with Replay(path) as replay:
        assert replay.complete and replay.timeline()["moments"] == made.moments and replay.top_moment == ""


@pytest.mark.parametrize(("rows", "valid"), [(MAX_WIN_POINTS + 1, False), (1500, True)])
def test_index_with_too_many_points_of_win_probability_is_ignored(tmp_path, rows, valid):
    made = parts()
    made.win = [[2**32 - 1, 65535, 0, 65535, *([-(2**15)] * len(WIN_GROUPS))]] * rows
    path = tmp_path / "odd.ecr"
    assert run_readers(path, assemble(made)) == {}
    with Replay(path) as replay:
        assert replay.complete == valid
        blue = replay.timeline()["win"]["blue"]
        assert len(blue) <= MAX_WIN_POINTS and all(0.0 <= p <= 1.0 for p in blue)


@pytest.mark.parametrize("row", [[0, 0, 0, 0], [8, 2**31, 0, 40], [2**32 - 8, 64, 0, 40], [9, 64, 0, 40]], ids=str)
def test_index_with_chunks_outside_the_file_is_ignored(tmp_path, row):
    made = parts()
    made.rows = {1: row}
    path = tmp_path / "odd.ecr"
    assert run_readers(path, assemble(made)) == {}
    with Replay(path) as replay:
        assert len(replay.chunks) == len(made.chunks) and not replay.complete


@pytest.mark.parametrize("ticks", [(2**31, 2**31 + 40), (2**32 - 41, 2**32 - 1), (40, 0), (0, 2**31)], ids=str)
@pytest.mark.parametrize("closed", [True, False])
def test_chunk_ticks_beyond_a_match_end_it_before_allocating(tmp_path, ticks, closed):
    made = parts(tick_hz=0.1)
    made.closed = closed
    made.chunks[1] = (ticks, made.chunks[1][1])
    path = tmp_path / "late.ecr"
    path.write_bytes(assemble(made))
    with Replay(path) as replay:
        assert len(replay.chunks) == 1
        found, peak = measured(replay.timeline)
    assert peak < MAX_MEMORY and len(found["series"]["second"]) < MAX_SECONDS


def test_chunk_with_ticks_of_frames_out_of_order_is_rejected(tmp_path):
    made = parts()
    made.chunks[0] = ((0, 41), made.chunks[0][1])
    made.chunks[1] = ((41, 81), made.chunks[1][1])
    assert "expected 0 to 41" in run_readers(tmp_path / "odd.ecr", assemble(made))["decode_replay"]


@pytest.mark.parametrize("filler", [b"\x80", b"\x90", b"\xc0", b"\x91", b"\xdd\x00\x01\x00\x00"], ids=repr)
@pytest.mark.parametrize("kind", [RecordType.HEADER, RecordType.CHUNK, RecordType.INDEX])
def test_payload_of_many_objects_is_rejected_within_memory(filler, kind):
    size = BUDGETS[kind].raw_bytes - 8
    payload = b"\x81\xa1a\xdd" + (size // 2).to_bytes(4, "big") + filler * (size // len(filler))
    long = b"\x81\xa1a\x9f" + (b"\xdc\x03\xff" + filler * 1023) * 15 * 12
    for data in (payload[:size], long):
        error, peak = measured(lambda data=data: unpack_map(data, kind))
        assert "replay record" in error and peak < MAX_MEMORY


def test_head_with_raw_length_above_its_budget_is_rejected(tmp_path):
    made = parts()
    bomb = Record(RecordType.CHUNK, bytes(BUDGETS[RecordType.CHUNK].raw_bytes + 1), ticks=(0, 40))
    made.records = [lambda records: records.insert(2, bomb)]
    made.closed = False
    path = tmp_path / "bomb.ecr"
    path.write_bytes(assemble(made))
    with Replay(path) as replay:
        assert replay.chunks == []


def test_timeline_memory_depends_on_seconds_not_frames(tmp_path):
    with Replay(write_match(tmp_path / "m.ecr", 1)) as replay:
        chunk, timeline = replay.chunk(0), Timeline({**replay.header, "tick_hz": 1000.0})
    frames = {name: values[:1].repeat(MAX_FRAMES, axis=0) for name, values in chunk.frames.items()}
    events = {name: values[:0] for name, values in chunk.tables["events"].items()}
    timeline.add(frames, events, 0)
    tracemalloc.start()
    try:
        for n in range(50):
            timeline.add(frames, events, n)
        assert tracemalloc.get_traced_memory()[0] < MAX_FRAMES * 8
    finally:
        tracemalloc.stop()


def test_runs_of_a_chunk_cover_a_limited_number_of_voxels(tmp_path, monkeypatch):
    with Replay(write_match(tmp_path / "m.ecr", 3)) as replay:
        monkeypatch.setattr("echelon.replay.schema.MAX_CELLS", 2)
        assert len(replay.chunk(0).tables["edits"]["cell"]) > 0
        with pytest.raises(ReplayError, match="chunk changes [0-9]+ voxels, expected at most 2"):
            replay.chunk(2)


def test_timeline_lists_a_limited_number_of_markers(tmp_path, monkeypatch):
    monkeypatch.setattr("echelon.replay.schema.MAX_MARKERS", 3)
    with Replay(write_match(tmp_path / "m.ecr", 5)) as replay:
        assert len(replay.timeline()["markers"]) == 3 and replay.complete


def test_stored_world_that_inflates_beyond_its_size_is_rejected(tmp_path):
    path = write_match(tmp_path / "m.ecr", 1, worlds=tmp_path / "worlds")
    (stored,) = (tmp_path / "worlds").iterdir()
    stored.write_bytes(codec.zlib.compress(bytes(60 * MIB)))
    with Replay(path) as replay:
        error, peak = measured(replay.load_world)
    assert "is damaged, expected a zlib stream of 736 bytes" in error and peak < MIB


def test_chunk_frames_keep_chunks_within_the_budget():
    assert chunk_frames(0.05, 5, 30_000) == 8
    for dt, repeat, width in itertools.product((0.001, 0.05), (1, 5), (200, 30_000, MAX_VALUES // 4)):
        frames = chunk_frames(dt, repeat, width) + 1
        assert frames <= MAX_FRAMES and frames * width <= MAX_VALUES // 2


def test_header_of_empty_maps_is_rejected_within_process_memory(tmp_path):
    (tmp_path / "odd.ecr").write_bytes((CORPUS / "roster-of-empty-maps.ecr").read_bytes())
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ReplayError, match="roster"):
        Replay(tmp_path / "odd.ecr")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MAX_MEMORY // 1024


def test_budgets_exceed_the_longest_match_of_100_against_100():
    day_s, mechs, values_per_mech, policy_values = 86_400, 200, 24, 80
    assert day_s < MAX_SECONDS and day_s / 2 < MAX_CHUNKS
    assert 20 * 9 * mechs * (values_per_mech + policy_values) < MAX_VALUES
    header = parts(roster=bases()[0].header["roster"] * (mechs // 4), mechs=mechs).header
    assert 10 * len(pack_map(header)) < BUDGETS[RecordType.HEADER].raw_bytes
    index_bytes = day_s * 18 + day_s // 2 * 16 + MAX_MARKERS * 9 + MAX_WIN_POINTS * 26 + MAX_MOMENTS * 2**10
    assert index_bytes < BUDGETS[RecordType.INDEX].raw_bytes


def measured(work: Callable[[], Any]) -> tuple[Any, int]:
    """Return the result of ``work`` or the message of its ``ReplayError``, and its peak memory [bytes]."""
    tracemalloc.start()
    try:
        try:
            result = work()
        except ReplayError as error:
            result = str(error)
        return result, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("path", sorted(CORPUS.glob("*.ecr")), ids=lambda path: path.name)
def test_corpus_raises_only_declared_errors(tmp_path, path):
    run_readers(tmp_path / path.name, path.read_bytes(), READERS)


def test_random_replays_raise_only_declared_errors(tmp_path):
    path, opened = tmp_path / "case.ecr", 0
    for seed in range(CASES):
        readers = READERS if seed % SHARE == 0 else READERS[: len(QUICK)]
        opened += "open_replay" not in run_readers(path, hostile_replay(random.Random(seed)), readers)
    assert CASES / 4 < opened < CASES, "most changes must be deep enough to pass the first checks"


def test_random_replays_stay_within_memory(tmp_path):
    path = tmp_path / "case.ecr"
    for seed in range(CASES, CASES + MEASURED):
        data = hostile_replay(random.Random(seed))
        assert measured(lambda data=data: run_readers(path, data))[1] < MAX_MEMORY, f"seed {seed}"


@pytest.mark.fuzz
def test_100000_random_files_raise_only_declared_errors_within_limits(tmp_path):
    rows = []
    for first in range(0, ALL_CASES, STEP):
        command = [sys.executable, "-m", "tests.replay.test_hostile_files", str(tmp_path), str(first), str(STEP)]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-2000:]
        rows.append([float(value) for value in done.stdout.split()])
    memory, quick, whole = (max(column) for column in zip(*rows, strict=True))
    print(
        f"{ALL_CASES} files: {memory:.0f} MiB, {quick:.2f} s to open and serve, {whole:.2f} s for all readers at most"
    )
    assert quick <= MAX_CPU_S


def run_limited(folder: Path, first: int, count: int) -> tuple[float, float, float]:
    """Read ``count`` random files; return the largest growth of memory [MiB], and of CPU times [s]."""
    path = folder / "case.ecr"
    run_readers(path, assemble(parts()))
    pages = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (pages + MAX_PROCESS_MEMORY,) * 2)
    idle = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    slowest = dict.fromkeys((reader.__name__ for reader, _ in READERS), 0.0)
    for seed in range(first, first + count):
        draws = random.Random(seed)
        data = hostile_replay(draws)
        for reader, declared in READERS:
            before = resource.getrusage(resource.RUSAGE_SELF)
            try:
                run_readers(path, data, ((reader, declared),))
            except BaseException as error:
                raise AssertionError(f"seed {seed}, {reader.__name__}: {error!r}") from error
            after = resource.getrusage(resource.RUSAGE_SELF)
            spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            slowest[reader.__name__] = max(slowest[reader.__name__], spent)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - idle) / 1024
    return grown, max(slowest[name] for name in QUICK), max(slowest.values())


if __name__ == "__main__":
    print(*run_limited(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
