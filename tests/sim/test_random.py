"""The counter-based generator: the stated bits, the same for ints and arrays, and sequential draws."""

import numpy as np
import pytest

from echelon.sim.random import Stream, StreamId, draw_u32, mix, uniform01


def reference_draw(keys: tuple[int, int, int, int, int]) -> int:
    """Compute a draw in wrapping 32-bit numpy arithmetic, written out from the definition."""
    with np.errstate(over="ignore"):
        u = np.uint32

        def scramble(x: np.uint32) -> np.uint32:
            x ^= x >> u(16)
            x *= u(0x21F0AAAD)
            x ^= x >> u(15)
            x *= u(0x735A2D97)
            return x ^ (x >> u(15))

        seed, stream, tick, entity, draw = (u(k) for k in keys)
        h = scramble(seed ^ u(0x9E3779B9))
        h = scramble(h ^ (stream * u(0x85EBCA6B) + u(1)))
        h = scramble(h ^ (tick * u(0xC2B2AE35) + u(2)))
        h = scramble(h ^ (entity * u(0x27D4EB2F) + u(3)))
        return int(scramble(h ^ (draw * u(0x165667B1) + u(4))))


def test_random_draws_match_reference_values() -> None:
    keys = np.random.default_rng(0).integers(0, 2**32, size=(200, 5))
    for row in keys.tolist():
        assert draw_u32(*row) == reference_draw(tuple(row))


def test_random_array_keys_match_integer_keys() -> None:
    entity = np.arange(50)
    drawn = draw_u32(7, StreamId.COMBAT, 3, entity[:, None], np.arange(4))
    assert drawn.dtype == np.uint32 and drawn.shape == (50, 4)
    assert drawn[13, 2] == draw_u32(7, StreamId.COMBAT, 3, 13, 2)
    assert uniform01(7, 2, 3, entity, 0)[5] == np.float32(uniform01(7, 2, 3, 5, 0))


def test_random_negative_keys_wrap_as_unsigned() -> None:
    assert draw_u32(-1, 0, 0, 0, 0) == draw_u32(2**32 - 1, 0, 0, 0, 0)
    assert draw_u32(0, 0, 0, np.array([-1]), 0)[0] == draw_u32(0, 0, 0, 2**32 - 1, 0)


def test_random_mix_is_injective() -> None:
    words = np.arange(1 << 16, dtype=np.uint64)
    assert len(np.unique(mix(words))) == len(words)


def test_random_draw_depends_on_every_key() -> None:
    base = (1, 2, 3, 4, 5)
    others = [tuple(k + (i == j) for j, k in enumerate(base)) for i in range(5)]
    assert len({draw_u32(*keys) for keys in [base, *others]}) == 6


def test_random_uniforms_are_evenly_distributed() -> None:
    drawn = uniform01(3, StreamId.AGENT, 0, np.arange(100_000), 0)
    assert drawn.dtype == np.float32 and drawn.min() >= 0 and drawn.max() < 1
    counts, _ = np.histogram(drawn, bins=10, range=(0, 1))
    assert np.abs(counts - 10_000).max() < 500


def test_random_stream_draws_in_sequence() -> None:
    stream = Stream(9, StreamId.TERRAIN, tick=2, entity=4)
    taken = [stream.u32() for _ in range(600)]
    assert taken == [draw_u32(9, StreamId.TERRAIN, 2, 4, n) for n in range(600)]
    assert stream.draws == 600


def test_random_integers_reach_both_bounds() -> None:
    stream = Stream(1, StreamId.TERRAIN)
    assert {stream.integers(3, 6) for _ in range(200)} == {3, 4, 5, 6}
    assert stream.integers(5, 2) == 5


def test_random_permutation_is_complete_and_varies() -> None:
    stream = Stream(1, StreamId.ORDER)
    orders = [tuple(stream.permutation(6)) for _ in range(50)]
    assert all(sorted(order) == list(range(6)) for order in orders)
    assert len(set(orders)) > 40


@pytest.mark.parametrize("chance", [0.0, 0.3, 1.0])
def test_random_coin_matches_probability(chance: float) -> None:
    stream = Stream(5, StreamId.MAP)
    assert sum(stream.coin(chance) for _ in range(4000)) / 4000 == pytest.approx(chance, abs=0.03)
