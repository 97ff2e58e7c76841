"""Replays with an embedded world have the same content as before."""

import pytest

from echelon.replay.embed import embed_world
from echelon.replay.reader import Replay
from tests.replay.golden import SMALL, contents
from tests.replay.synthetic import material, write_match


@pytest.mark.parametrize("closed", [True, False])
def test_embed_world_includes_external_world(tmp_path, closed):
    path = write_match(tmp_path / "m.ecr", worlds=tmp_path / "worlds", closed=closed)
    alone = tmp_path / "elsewhere" / "m.ecr"
    alone.parent.mkdir()
    with Replay(path) as replay:
        alone.write_bytes(embed_world(replay))
        before = [replay.chunk(n).frames["hp"].tolist() for n in range(len(replay.chunks))]
        line = replay.timeline()
    with Replay(alone) as replay:
        assert replay.complete is closed
        assert replay.timeline() == line
        assert [replay.chunk(n).frames["hp"].tolist() for n in range(len(replay.chunks))] == before
        assert (replay.materials() == material().transpose(1, 2, 0)).all()


def test_embed_world_keeps_embedded_replay_unchanged(tmp_path):
    path = tmp_path / "again.ecr"
    with Replay(SMALL) as replay:
        path.write_bytes(embed_world(replay))
    before, after = contents(SMALL), contents(path)
    for found in (before, after):
        del found["index"]["chunks"]
    assert after == before
