"""Random damage of the golden replays: complete chunks before the damage are read, other damage raises an error.

A share of them runs always, all ten thousand with the slow tests. Complete chunks
before the damage must decode to their original content; later chunks decode to it or raise a one-line error.
"""

import random
import tracemalloc
from pathlib import Path

import pytest

from echelon.replay import codec, schema
from echelon.replay.reader import Replay, ReplayError
from tests.replay.golden import GOLDEN

CORPUS = tuple(golden.path for golden in GOLDEN)
SHARE, DAMAGES = 120, 10_000
DECODED = 1
"""Chunks decoded per damaged file, the last before the damage; the records of all chunks are checked."""
MEASURED = 12
"""Damaged files for which memory is measured."""
MAX_MEMORY = 64 * 2**20
"""Peak memory limit for reading a damaged file below 100 kB [bytes]."""


class Whole:
    """An undamaged golden replay: bytes, chunk positions and content."""

    def __init__(self, path: Path) -> None:
        self.data = path.read_bytes()
        with Replay(path) as replay, open(path, "rb") as file:
            heads = [codec.read_head(file, c.offset) for c in replay.chunks]
            self.starts = [head.offset for head in heads]
            self.ends = [head.offset + schema.HEAD.size + head.stored for head in heads]
            # without padding
            self.sizes = [schema.HEAD.size + head.stored for head in heads]
            self.records = [replay.chunk_bytes(n)[:size] for n, size in enumerate(self.sizes)]
            self.hashes = [replay.chunk(n).hash for n in range(len(heads))]


@pytest.fixture(scope="module")
def corpus() -> list[Whole]:
    return [Whole(path) for path in CORPUS]


def damaged(data: bytes, draws: random.Random) -> tuple[bytes, int, int]:
    """Return truncated or changed data, and the offsets of the first and the last difference."""
    at = draws.randrange(len(data))
    if draws.random() < 0.5:
        return data[:at], at, len(data)
    changed = bytearray(data)
    changed[at] ^= 1 << draws.randrange(8)
    if draws.random() < 0.3:  # a burst
        for k in range(at, min(len(data), at + draws.randrange(1, 64))):
            changed[k] = draws.randrange(256)
    differing = [k for k in range(at, min(len(data), at + 64)) if changed[k] != data[k]] or [len(data)]
    return bytes(changed), differing[0], differing[-1]


def check(path: Path, whole: Whole, first: int, last: int) -> int:
    """Open a file that differs from byte ``first`` to ``last``, compare its chunks, and return the readable ones."""
    cut = path.stat().st_size < len(whole.data)
    before = sum(end <= first for end in whole.ends)
    try:
        replay = Replay(path)
    except ReplayError as error:
        assert "\n" not in str(error)
        assert before == 0 or first < whole.starts[0], f"{before} complete chunks are lost: {error}"
        return 0
    with replay:
        readable = 0
        assert len(replay.chunks) == before if cut else len(replay.chunks) >= before
        assert not (cut and replay.complete)
        for n, ref in enumerate(replay.chunks[: len(whole.records)]):
            try:
                record = replay.chunk_bytes(n)
            except ReplayError as error:
                assert n >= before and "\n" not in str(error), f"chunk {n} of {before} complete ones: {error}"
                assert not (replay.complete and ref.offset > last), f"chunk {n} is behind the damage: {error}"
                continue
            if ref.offset == whole.starts[n]:
                assert record[: whole.sizes[n]] == whole.records[n]
            readable += 1
        for n in range(max(0, before - DECODED), before):
            assert replay.chunk(n).hash == whole.hashes[n]
        try:
            replay.timeline()
        except ReplayError as error:
            assert "\n" not in str(error)
        return readable


@pytest.mark.parametrize("damages", [SHARE, pytest.param(DAMAGES, marks=pytest.mark.slow)])
def test_random_damage_affects_only_damaged_records(tmp_path, corpus, damages):
    path = tmp_path / "damaged.ecr"
    draws = random.Random(damages)
    readable = 0
    peak = 0
    tracemalloc.start()
    for number in range(damages):
        whole = corpus[number % len(corpus)]
        data, first, last = damaged(whole.data, draws)
        path.write_bytes(data)
        readable += check(path, whole, first, last)
        if number == MEASURED:
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
    assert readable > damages, "most damaged files have readable chunks"
    assert 0 < peak < MAX_MEMORY
