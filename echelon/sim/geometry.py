# type: ignore
"""Device functions that equal each other on every device: logarithm, exponential, trigonometry, frames and boxes.

Kernels use these rather than the platform's math library, whose last bit differs between machines. Logarithm and
exponential are series in double precision, rounded once: within half a unit in the last place of a 32-bit float. The
coefficients of sine, cosine and arc tangent are the classic single-precision minimax ones (S. Moshier, Cephes).
"""

import warp as wp

wp.set_module_options({"enable_backward": False, "fuse_fp": False})


PI = wp.constant(3.14159265358979)
TWO_PI = wp.constant(6.28318530717959)
HALF_PI = wp.constant(1.57079632679490)
QUARTER_PI = wp.constant(0.785398163397448)
EPS_NORM = wp.constant(1.0e-7)
EPS_DIV = wp.constant(1.0e-9)


@wp.func
def wrap_angle(a: wp.float32) -> wp.float32:
    """Return an angle [rad] wrapped into [-pi, pi)."""
    b = a - TWO_PI * wp.floor((a + PI) / TWO_PI)
    if b >= PI:
        b -= TWO_PI
    return b


@wp.func
def _sin_poly(x: wp.float32) -> wp.float32:
    z = x * x
    return x + x * z * (-1.6666654611e-1 + z * (8.3321608736e-3 - z * 1.9515295891e-4))


@wp.func
def _cos_poly(x: wp.float32) -> wp.float32:
    z = x * x
    return 1.0 - 0.5 * z + z * z * (4.166664568e-2 + z * (-1.388731625e-3 + z * 2.443315711e-5))


@wp.func
def cos_sin(a: wp.float32) -> wp.vec2:
    """Return (cos a, sin a) of any angle [rad]; error below 2e-7 within a few turns."""
    k = int(wp.floor(a / HALF_PI + 0.5))
    r = a - float(k) * 1.5703125
    r = r - float(k) * 4.83826794897e-4
    q = k & 3
    s = _sin_poly(r)
    c = _cos_poly(r)
    if q == 1:
        return wp.vec2(-s, c)
    if q == 2:
        return wp.vec2(-c, -s)
    if q == 3:
        return wp.vec2(s, -c)
    return wp.vec2(c, s)


@wp.func
def _atan_positive(x: wp.float32) -> wp.float32:
    base = float(0.0)
    t = x
    if x > 2.414213562:
        base = HALF_PI
        t = -1.0 / x
    elif x > 0.4142135623:
        base = QUARTER_PI
        t = (x - 1.0) / (x + 1.0)
    z = t * t
    p = ((8.05374449538e-2 * z - 1.38776856032e-1) * z + 1.99777106478e-1) * z - 3.33329491539e-1
    return base + p * z * t + t


@wp.func
def arc_tan2(y: wp.float32, x: wp.float32) -> wp.float32:
    """Return the angle [rad] of the vector (x, y) in [-pi, pi]; 0 for the zero vector."""
    ax = wp.abs(x)
    ay = wp.abs(y)
    if ax < EPS_DIV and ay < EPS_DIV:
        return 0.0
    a = HALF_PI
    if ax > 0.0:
        a = _atan_positive(ay / ax)
    if x < 0.0:
        a = PI - a
    if y < 0.0:
        a = -a
    return a


@wp.func
def to_heading(v: wp.vec3, cs: wp.vec2) -> wp.vec3:
    """Rotate a world vector by -yaw into the heading frame (ahead, left, up); ``cs`` is (cos yaw, sin yaw)."""
    return wp.vec3(v[0] * cs[0] + v[1] * cs[1], -v[0] * cs[1] + v[1] * cs[0], v[2])


@wp.func
def xy_length(v: wp.vec3) -> wp.float32:
    return wp.sqrt(v[0] * v[0] + v[1] * v[1])


@wp.func
def unit3(v: wp.vec3) -> wp.vec3:
    """Return the unit vector of ``v``, zero if it is shorter than the norm epsilon."""
    n = wp.sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2])
    if n < EPS_NORM:
        return wp.vec3(0.0, 0.0, 0.0)
    return v / n


@wp.func
def clamp_unit(x: wp.float32) -> wp.float32:
    return wp.clamp(x, -1.0, 1.0)


@wp.func
def boxes_overlap(a: wp.vec3, ha: wp.vec3, b: wp.vec3, hb: wp.vec3) -> bool:
    """Whether two boxes given by centre and half size overlap strictly on all three axes."""
    return (
        a[0] - ha[0] < b[0] + hb[0]
        and a[0] + ha[0] > b[0] - hb[0]
        and a[1] - ha[1] < b[1] + hb[1]
        and a[1] + ha[1] > b[1] - hb[1]
        and a[2] - ha[2] < b[2] + hb[2]
        and a[2] + ha[2] > b[2] - hb[2]
    )


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
