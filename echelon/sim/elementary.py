"""Device functions that equal each other on every device: natural logarithm, exponential function, integer powers.

Rewards and observations use these rather than the platform's math library, whose last bit differs between machines.
They are series in double precision, rounded once: within half a unit in the last place of a 32-bit float.
"""

import warp as wp

wp.set_module_options({"enable_backward": False, "fuse_fp": False})

LN_2 = wp.constant(wp.float64(0.6931471805599453))
SQRT_2 = wp.constant(wp.float64(1.4142135623730951))
ONE, TWO, HALF = wp.constant(wp.float64(1.0)), wp.constant(wp.float64(2.0)), wp.constant(wp.float64(0.5))
FRACTION_BITS = wp.constant(wp.uint64(52))
FRACTION = wp.constant(wp.uint64((1 << 52) - 1))
BIAS, UNIT = wp.constant(1023), wp.constant(wp.uint64(1023 << 52))
"""Of a double: the bits of its fraction, the exponent of 1, and that exponent in its place."""
LEAST_EXPONENT, MOST_EXPONENT = wp.constant(-110.0), wp.constant(89.0)
"""Where the exponential function is 0 and infinite as a 32-bit float."""


@wp.func
def power_of_two(k: int) -> wp.float64:
    return wp.cast(wp.uint64(k + BIAS) << FRACTION_BITS, dtype=wp.float64)


@wp.func
def natural_log(x: float) -> wp.float32:
    bits = wp.cast(wp.float64(x), dtype=wp.uint64)
    k = int(bits >> FRACTION_BITS) - BIAS
    m = wp.cast(bits & FRACTION | UNIT, dtype=wp.float64)
    if m > SQRT_2:
        m = m * HALF
        k += 1
    s = (m - ONE) / (m + ONE)
    z = s * s
    series = ONE / wp.float64(13.0)
    for i in range(6):
        series = series * z + ONE / wp.float64(11 - 2 * i)
    return wp.float32(TWO * s * series + wp.float64(k) * LN_2)


@wp.func
def exponential(x: float) -> wp.float32:
    d = wp.float64(wp.clamp(x, LEAST_EXPONENT, MOST_EXPONENT))
    k = wp.floor(d / LN_2 + HALF)
    r = d - k * LN_2
    series = wp.float64(1.0)
    for i in range(12):
        series = ONE + series * r / wp.float64(12 - i)
    return wp.float32(series * power_of_two(int(k)))


@wp.func
def power(x: float, n: int) -> wp.float32:
    """Return ``x`` to the power ``n``, 0 or more."""
    product = wp.float64(1.0)
    for _i in range(n):
        product = product * wp.float64(x)
    return wp.float32(product)
