# type: ignore
"""Counter-based random numbers on the device, keyed by (seed, stream, tick, entity, draw).

The same function in numpy is ``echelon.sim.random``; a test holds them equal. No generator has state, so a
draw never depends on batch size, thread split or other draws.
"""

import warp as wp

from echelon.sim.random import StreamId

wp.set_module_options({"enable_backward": False, "fuse_fp": False})

STREAM_VARIANT = wp.constant(int(StreamId.VARIANT))
STREAM_COMBAT = wp.constant(int(StreamId.COMBAT))
STREAM_ORDER = wp.constant(int(StreamId.ORDER))
STREAM_AGENT = wp.constant(int(StreamId.AGENT))
STREAM_MAP = wp.constant(int(StreamId.MAP))
STREAM_DISPLAY = wp.constant(int(StreamId.DISPLAY))
STREAM_RUN = wp.constant(int(StreamId.RUN))
MIX_A = wp.constant(wp.uint32(0x21F0AAAD))
MIX_B = wp.constant(wp.uint32(0x735A2D97))
BYTE = wp.constant(wp.uint32(255))
BYTES_MEAN = wp.constant(510.0)
BYTES_SCALE = wp.constant(1.0 / 147.80054)
"""One over the standard deviation of the sum of four even bytes, sqrt(4 (256^2 - 1) / 12)."""
KEY_SEED = wp.constant(wp.uint32(0x9E3779B9))
KEY_STREAM = wp.constant(wp.uint32(0x85EBCA6B))
KEY_TICK = wp.constant(wp.uint32(0xC2B2AE35))
KEY_ENTITY = wp.constant(wp.uint32(0x27D4EB2F))
KEY_DRAW = wp.constant(wp.uint32(0x165667B1))


@wp.func
def mix(x: wp.uint32) -> wp.uint32:
    """Scramble 32 bits: a bijection with near-ideal avalanche."""
    x = x ^ (x >> wp.uint32(16))
    x = x * MIX_A
    x = x ^ (x >> wp.uint32(15))
    x = x * MIX_B
    x = x ^ (x >> wp.uint32(15))
    return x


@wp.func
def keyed(seed: wp.uint32, stream: wp.int32, tick: wp.int32, entity: wp.int32) -> wp.uint32:
    """Return the key that all draws of one entity share, as ``drawn`` takes it."""
    h = mix(seed ^ KEY_SEED)
    h = mix(h ^ (wp.uint32(stream) * KEY_STREAM + wp.uint32(1)))
    h = mix(h ^ (wp.uint32(tick) * KEY_TICK + wp.uint32(2)))
    h = mix(h ^ (wp.uint32(entity) * KEY_ENTITY + wp.uint32(3)))
    return h


@wp.func
def drawn(key: wp.uint32, draw: wp.int32) -> wp.uint32:
    """Return the 32 random bits of one draw."""
    return mix(key ^ (wp.uint32(draw) * KEY_DRAW + wp.uint32(4)))


@wp.func
def draw_u32(seed: wp.uint32, stream: wp.int32, tick: wp.int32, entity: wp.int32, draw: wp.int32) -> wp.uint32:
    """Return 32 random bits for the key."""
    return drawn(keyed(seed, stream, tick, entity), draw)


@wp.func
def bell(bits: wp.uint32) -> wp.float32:
    """Return an approximately normal number, mean 0 and deviation 1: the scaled sum of the four bytes."""
    low = (bits & BYTE) + ((bits >> wp.uint32(8)) & BYTE)
    high = ((bits >> wp.uint32(16)) & BYTE) + (bits >> wp.uint32(24))
    return (float(low + high) - BYTES_MEAN) * BYTES_SCALE


@wp.func
def uniform01(seed: wp.uint32, stream: wp.int32, tick: wp.int32, entity: wp.int32, draw: wp.int32) -> wp.float32:
    """Return a float in [0, 1) with 24 random bits."""
    return float(draw_u32(seed, stream, tick, entity, draw) >> wp.uint32(8)) * (1.0 / 16777216.0)


@wp.func
def below(bits: wp.uint32, n: wp.int32) -> wp.int32:
    """Map 32 random bits to an integer in [0, n) by the high half of a 64-bit product."""
    return int((wp.uint64(bits) * wp.uint64(n)) >> wp.uint64(32))
