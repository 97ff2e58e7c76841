"""Cuts and flips over every golden replay: what is whole before the damage plays, and nothing else does.

A share of them runs always, all ten thousand with the slow tests. A file is damaged in memory and read through the same
path as one on a disk. Whole chunks before the damage must decode to what they held before; after it, a chunk decodes to
exactly that or is refused in one line.
"""

from __future__ import annotations

import random
import tracemalloc
from pathlib import Path

import pytest

from echelon.replay import codec
from echelon.replay.reader import Replay, ReplayError
from tests.replay.golden import GOLDEN

CORPUS = tuple(path for path, *_ in GOLDEN)
SHARE, DAMAGES = 600, 10_000
DECODED = 1
"""Chunks decoded of each damaged file, the last before the damage; all are looked up and checked."""
MEASURED = 100
"""Damages over which memory is watched, which takes its time."""
MOST_MEMORY = 64 * 2**20
"""Most that reading a damaged file may take at once, of files below 100 kB [bytes]."""


class Whole:
    """A golden replay as it is: its bytes, where its chunks end, what they hold."""

    def __init__(self, path: Path) -> None:
        self.data = path.read_bytes()
        with Replay(path) as replay, open(path, "rb") as file:
            heads = [codec.read_head(file, c.offset) for c in replay.chunks]
            self.starts = [head.offset for head in heads]
            self.ends = [head.offset + codec.HEAD.size + head.stored for head in heads]
            # what pads a record says nothing
            self.sizes = [codec.HEAD.size + head.stored for head in heads]
            self.records = [replay.chunk_bytes(n)[:size] for n, size in enumerate(self.sizes)]
            self.hashes = [replay.chunk(n).hash for n in range(len(heads))]


@pytest.fixture(scope="module")
def corpus() -> list[Whole]:
    return [Whole(path) for path in CORPUS]


def damaged(data: bytes, draws: random.Random) -> tuple[bytes, int]:
    """Return a cut or flipped file, and the first byte that is not as it was."""
    at = draws.randrange(len(data))
    if draws.random() < 0.5:
        return data[:at], at
    changed = bytearray(data)
    changed[at] ^= 1 << draws.randrange(8)
    if draws.random() < 0.3:  # a burst
        for k in range(at, min(len(data), at + draws.randrange(1, 64))):
            changed[k] = draws.randrange(256)
    first = next((k for k in range(at, len(data)) if changed[k] != data[k]), len(data))
    return bytes(changed), first


def check(path: Path, whole: Whole, first: int) -> int:
    """Open a damaged file, compare what it gives, and return how many chunks it gave."""
    before = sum(end <= first for end in whole.ends)
    try:
        replay = Replay(path)
    except ReplayError as error:
        assert "\n" not in str(error)
        assert before == 0 or first < whole.starts[0], f"{before} whole chunks are lost: {error}"
        return 0
    with replay:
        given = 0
        assert len(replay.chunks) >= before
        for n, ref in enumerate(replay.chunks[: len(whole.records)]):
            try:
                record = replay.chunk_bytes(n)
            except ReplayError as error:
                assert n >= before and "\n" not in str(error), f"chunk {n} of {before} whole ones: {error}"
                continue
            if ref.offset == whole.starts[n]:
                assert record[: whole.sizes[n]] == whole.records[n]
            given += 1
        for n in range(max(0, before - DECODED), before):
            assert replay.chunk(n).hash == whole.hashes[n]
        try:
            replay.timeline()
        except ReplayError as error:
            assert "\n" not in str(error)
        return given


@pytest.mark.parametrize("damages", [SHARE, pytest.param(DAMAGES, marks=pytest.mark.slow)])
def test_random_damage_affects_only_damaged_records(tmp_path, corpus, damages):
    path = tmp_path / "damaged.ecr"
    draws = random.Random(damages)
    given = 0
    peak = 0
    tracemalloc.start()
    for number in range(damages):
        whole = corpus[number % len(corpus)]
        data, first = damaged(whole.data, draws)
        path.write_bytes(data)
        given += check(path, whole, first)
        if number == MEASURED:
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
    assert given > damages, "most damages leave chunks that play"
    assert 0 < peak < MOST_MEMORY
