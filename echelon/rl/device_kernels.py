# type: ignore
"""Operations of a policy on a CUDA device that are fused, with their gradients written out, as Triton kernels.

They read nothing on the host and have one shape per input, so that a graph can capture them. Sums have one order, and
blocks one size: a search for the fastest (``triton.autotune``) fails within a capture. Plain torch is the oracle;
``TRITON_INTERPRET=1`` runs the kernels on a CPU.

Shapes: ``P entity row, F entity feature, R set, H hidden, S slot, K key, T step, B sequence``.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

ENCODES = (9, 10)
"""Major compute capabilities whose products read weights in shared memory, as registers have no room for them."""
SMALLEST, LARGEST = 16, 128
"""Widths of an encoder are powers of two between these."""
SETS = 32
"""Sets that a program sums."""
ROWS, GRADIENT_ROWS = 64, 32
"""Entities that a program encodes at once, and whose gradient it computes."""
PROGRAMS = 128
"""Programs that share the gradient of an encoder, and write a part of the weights' gradient each."""
LANES = 128
"""Numbers of a recurrent state that a program carries through all steps."""
TYPES = {torch.float32: tl.float32, torch.bfloat16: tl.bfloat16, torch.float16: tl.float16}
SCANNED = {"do_not_specialize": ["steps", "sequences"]}


def operations_on(device: torch.device) -> list[str]:
    """Return the fields of ``Regime`` that these kernels serve on ``device``, after each ran there at its largest."""
    with torch.inference_mode(False), torch.enable_grad(), torch.cuda.device(device), torch.device(device):
        memory, wide = torch.zeros(1, 1, requires_grad=True), (LARGEST, LARGEST)
        scan(torch.zeros(1, 1, 3), torch.zeros(1, 1, 1), memory)[1].sum().backward()
        if torch.cuda.get_device_capability(device)[0] not in ENCODES:
            return ["scan"]
        shapes = ((LARGEST, 2 * SMALLEST + 1), *[(LARGEST,)] * 3, wide, (LARGEST,), (SMALLEST, LARGEST))
        rows = (torch.zeros(1, 2 * SMALLEST + 1), *torch.zeros(3, 2, dtype=torch.int64))
        with torch.autocast("cuda", torch.bfloat16):
            _Encode.apply(rows, 1, 1, 1e-5, *(torch.zeros(x, requires_grad=True) for x in shapes))[0].sum().backward()
    return ["scan", "encoder"]


@triton.jit(**SCANNED)
def _scan(
    gates, keep, memory, y_out, last_out, history_out, steps, sequences,
    HIDDEN: tl.constexpr, LANES: tl.constexpr, SAVES: tl.constexpr,
):  # fmt: skip
    lane = tl.program_id(0) * LANES + tl.arange(0, LANES)
    lanes, sequence = sequences * HIDDEN, lane // HIDDEN
    inside = lane < lanes
    gates += 3 * HIDDEN * sequence + lane % HIDDEN
    now = tl.load(memory + lane, mask=inside)
    for _ in range(steps):
        update, output, candidate = _gates(gates, HIDDEN, inside)
        if SAVES:
            tl.store(history_out + lane, now, mask=inside)
            history_out += lanes
        now *= tl.load(keep + sequence, mask=inside)
        now += update * (candidate - now)
        tl.store(y_out + lane, candidate + output * (now - candidate), mask=inside)
        gates, keep, y_out = gates + 3 * lanes, keep + sequences, y_out + lanes
    tl.store(last_out + lane, now, mask=inside)


@triton.jit
def _gates(gates, HIDDEN: tl.constexpr, inside):
    """Return update gate, output gate and candidate of a step."""
    update = tl.sigmoid(tl.load(gates, mask=inside).to(tl.float32))
    output = tl.sigmoid(tl.load(gates + HIDDEN, mask=inside).to(tl.float32))
    return update, output, tl.load(gates + 2 * HIDDEN, mask=inside).to(tl.float32)


@triton.jit(**SCANNED)
def _scan_gradient(
    gates, keep, history, grad, last, gates_out, memory_out, steps, sequences,
    HIDDEN: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    lane = tl.program_id(0) * LANES + tl.arange(0, LANES)
    lanes, sequence = sequences * HIDDEN, lane // HIDDEN
    inside = lane < lanes
    place, end = (3 * HIDDEN * sequence + lane % HIDDEN), (steps - 1).to(tl.int64)
    gates, gates_out = gates + end * 3 * lanes + place, gates_out + end * 3 * lanes + place
    keep, history, grad = keep + end * sequences, history + end * lanes, grad + end * lanes
    flow = tl.load(last + lane, mask=inside)
    for _ in range(steps):
        update, output, candidate = _gates(gates, HIDDEN, inside)
        kept = tl.load(keep + sequence, mask=inside)
        before = tl.load(history + lane, mask=inside) * kept
        after = before + update * (candidate - before)
        slope = tl.load(grad + lane, mask=inside)
        flow += slope * output
        tl.store(gates_out, flow * (candidate - before) * update * (1.0 - update), mask=inside)
        tl.store(gates_out + HIDDEN, slope * (after - candidate) * output * (1.0 - output), mask=inside)
        tl.store(gates_out + 2 * HIDDEN, slope * (1.0 - output) + flow * update, mask=inside)
        flow *= (1.0 - update) * kept
        gates, gates_out = gates - 3 * lanes, gates_out - 3 * lanes
        keep, history, grad = keep - sequences, history - lanes, grad - lanes
    tl.store(memory_out + lane, flow, mask=inside)


class _Scan(torch.autograd.Function):
    @staticmethod
    def forward(ctx, gates, keep, memory, saves):
        gates, keep, memory = gates.contiguous(), keep.contiguous(), memory.contiguous()
        steps, (sequences, hidden) = len(gates), memory.shape
        y, history = (memory.new_empty(count, *memory.shape) for count in (steps, steps * saves))
        last = torch.empty_like(memory)
        grid = (triton.cdiv(memory.numel(), LANES),)
        _scan[grid](gates, keep, memory, y, last, history, steps, sequences, hidden, LANES, saves)
        ctx.save_for_backward(gates, keep, history)
        return y, last

    @staticmethod
    @once_differentiable
    def backward(ctx, grad, last):
        gates, keep, history = ctx.saved_tensors
        slopes, memory = torch.empty_like(gates), torch.empty_like(last)
        (sequences, hidden), grid = last.shape, (triton.cdiv(last.numel(), LANES),)
        given = (gates, keep, history, grad.contiguous(), last.contiguous(), slopes, memory)
        _scan_gradient[grid](*given, len(gates), sequences, hidden, LANES)
        return slopes, None, memory, None


def scan(gates: Tensor, keep: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
    """Return what ``echelon.rl.recurrent.scan_stepwise`` returns for ``gates [T, B, 3 H]`` of any precision."""
    return _Scan.apply(gates, keep, memory, torch.is_grad_enabled())


@triton.jit
def _activations(
    features, row, real, w1, b1, gain, shift, w2, b2,
    WIDTH: tl.constexpr, PADDED: tl.constexpr, HIDDEN: tl.constexpr, EPS: tl.constexpr, TYPE: tl.constexpr,
):  # fmt: skip
    """Return features, normalised and rectified activations, encodings and inverse deviations of rows, and weights."""
    f, h = tl.arange(0, PADDED), tl.arange(0, HIDDEN)
    x = tl.load(features + row[:, None] * WIDTH + f, mask=real[:, None] & (f < WIDTH), other=0.0).to(TYPE)
    first = tl.load(w1 + h[:, None] * WIDTH + f, mask=f < WIDTH, other=0.0)
    second = tl.load(w2 + h[:, None] * HIDDEN + h)
    z = tl.dot(x, tl.trans(first)) + tl.load(b1 + h)
    z -= (tl.sum(z, 1) / HIDDEN)[:, None]
    scale = 1.0 / tl.sqrt(tl.sum(z * z, 1) / HIDDEN + EPS)
    normal = z * scale[:, None]
    hidden = tl.maximum(normal * tl.load(gain + h) + tl.load(shift + h), 0.0, tl.PropagateNan.ALL).to(TYPE)
    encoded = tl.maximum(tl.dot(hidden, tl.trans(second)) + tl.load(b2 + h), 0.0, tl.PropagateNan.ALL).to(TYPE)
    return x, normal, hidden, encoded, scale, second


@triton.jit(do_not_specialize=["count"])
def _encode(  # noqa: PLR0913 - a launch takes plain pointers
    features, sets, slots, offsets, w1, b1, gain, shift, w2, b2, key, sums_out, keys_out, count,
    WIDTH: tl.constexpr, PADDED: tl.constexpr, HIDDEN: tl.constexpr, EPS: tl.constexpr, TYPE: tl.constexpr,
    SLOTS: tl.constexpr, KEYS: tl.constexpr, SETS: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    group = tl.program_id(0) * SETS
    own, h = group + tl.arange(0, SETS), tl.arange(0, HIDDEN)
    total = tl.zeros((SETS, HIDDEN), tl.float32)
    end = tl.load(offsets + tl.minimum(group + SETS, count))
    for first in tl.range(tl.load(offsets + group), end, ROWS, num_stages=1, disable_licm=True):
        row, inside = tl.arange(0, ROWS), tl.arange(0, ROWS) < end - first
        of_set = tl.load(sets + first + row, mask=inside, other=-1).to(tl.int32)
        _, _, _, encoded, _, _ = _activations(
            features + first * WIDTH, row, of_set >= 0, w1, b1, gain, shift, w2, b2, WIDTH, PADDED, HIDDEN, EPS, TYPE
        )
        member = (of_set[None, :] == own[:, None]).to(TYPE)
        total = tl.dot(member, encoded, total)
        if SLOTS:
            k, slot = tl.arange(0, KEYS), tl.load(slots + first + row, mask=inside, other=SLOTS).to(tl.int32)
            found = tl.dot(encoded, tl.trans(tl.load(key + k[:, None] * HIDDEN + h)))
            placed = (of_set >= 0) & (slot < SLOTS)
            tl.store(keys_out + (of_set * SLOTS + slot)[:, None] * KEYS + k, found, mask=placed[:, None])
    tl.store(sums_out + own[:, None] * HIDDEN + h, total, mask=own[:, None] < count)


@triton.jit(do_not_specialize=["count", "size"])
def _encode_gradient(  # noqa: PLR0913
    features, sets, slots, offsets, w1, b1, gain, shift, w2, b2, key, sums, keys, parts_out, count, size,
    WIDTH: tl.constexpr, PADDED: tl.constexpr, HIDDEN: tl.constexpr, EPS: tl.constexpr, TYPE: tl.constexpr,
    SLOTS: tl.constexpr, KEYS: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Write this program's part of the gradient of the weights, one after the other."""
    h, f, k = tl.arange(0, HIDDEN), tl.arange(0, PADDED), tl.arange(0, KEYS)
    d_w1, d_w2 = tl.zeros((HIDDEN, PADDED), tl.float32), tl.zeros((HIDDEN, HIDDEN), tl.float32)
    d_b1, d_gain = tl.zeros((HIDDEN,), tl.float32), tl.zeros((HIDDEN,), tl.float32)
    d_shift, d_b2 = tl.zeros((HIDDEN,), tl.float32), tl.zeros((HIDDEN,), tl.float32)
    d_key = tl.zeros((KEYS, HIDDEN), tl.float32)
    end = tl.load(offsets + count)
    for first in tl.range(
        tl.program_id(0).to(tl.int64) * ROWS, end, tl.num_programs(0) * ROWS, num_stages=1, disable_licm=True
    ):
        row, inside = tl.arange(0, ROWS), tl.arange(0, ROWS) < end - first
        of_set = tl.load(sets + first + row, mask=inside, other=-1).to(tl.int32)
        real = of_set >= 0
        x, normal, hidden, encoded, scale, second = _activations(
            features + first * WIDTH, row, real, w1, b1, gain, shift, w2, b2, WIDTH, PADDED, HIDDEN, EPS, TYPE
        )
        slope = tl.load(sums + of_set[:, None] * HIDDEN + h, mask=real[:, None], other=0.0)
        if SLOTS:
            slot = tl.load(slots + first + row, mask=inside, other=SLOTS).to(tl.int32)
            placed = real & (slot < SLOTS)
            at = keys + (of_set * SLOTS + slot)[:, None] * KEYS + k
            of_key = tl.load(at, mask=placed[:, None], other=0.0).to(TYPE)
            d_key = tl.dot(tl.trans(of_key), encoded, d_key)
            slope = tl.dot(of_key, tl.load(key + k[:, None] * HIDDEN + h), slope)
        slope = tl.where(encoded > 0, slope, 0.0)
        d_b2 += tl.sum(slope, 0)
        d_w2 = tl.dot(tl.trans(slope.to(TYPE)), hidden, d_w2)
        slope = tl.where(hidden > 0, tl.dot(slope.to(TYPE), second), 0.0)
        d_gain += tl.sum(slope * normal, 0)
        d_shift += tl.sum(slope, 0)
        slope *= tl.load(gain + h)
        slope -= (tl.sum(slope, 1)[:, None] + normal * tl.sum(slope * normal, 1)[:, None]) / HIDDEN
        slope *= scale[:, None]
        d_b1 += tl.sum(slope, 0)
        d_w1 = tl.dot(tl.trans(slope.to(TYPE)), x, d_w1)
    part = parts_out + tl.program_id(0).to(tl.int64) * size
    tl.store(part + h[:, None] * WIDTH + f, d_w1, mask=f < WIDTH)
    part += HIDDEN * WIDTH + h
    tl.store(part, d_b1)
    tl.store(part + HIDDEN, d_gain)
    tl.store(part + 2 * HIDDEN, d_shift)
    tl.store(part + 3 * HIDDEN + h[:, None] * HIDDEN, d_w2)
    part += (3 + HIDDEN) * HIDDEN
    tl.store(part, d_b2)
    if SLOTS:
        tl.store(part + HIDDEN + k[:, None] * HIDDEN, d_key)


def _type_of_products(x):
    kind = x.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else torch.float32


class _Encode(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows, count, slots, eps, *weights):
        (hidden, width), low = weights[0].shape, _type_of_products(rows[0])
        weights = [weight.to(low) if weight.dim() > 1 else weight for weight in weights]
        padded, keys = max(SMALLEST, triton.next_power_of_2(width)), len(weights[6]) if slots else SMALLEST
        ctx.rows, ctx.sizes = rows, (width, padded, hidden, eps, TYPES[low], slots, keys)
        ctx.save_for_backward(*weights)
        sums = weights[1].new_empty(count, hidden)
        found = weights[1].new_zeros(count, slots, keys)
        given = (*rows, *weights[:6], weights[-1], sums, found, count)
        _encode[(triton.cdiv(count, SETS),)](*given, *ctx.sizes, SETS, ROWS, num_warps=4)
        return sums, found

    @staticmethod
    @once_differentiable
    def backward(ctx, sums, keys):
        weights, lengths = ctx.saved_tensors, [weight.numel() for weight in ctx.saved_tensors]
        programs = min(PROGRAMS, triton.cdiv(len(ctx.rows[0]), GRADIENT_ROWS))
        parts = sums.new_empty(programs, sum(lengths))
        given = (*ctx.rows, *weights[:6], weights[-1], sums.contiguous(), keys.contiguous(), parts, len(sums))
        _encode_gradient[(programs,)](*given, parts.shape[1], *ctx.sizes, GRADIENT_ROWS, num_warps=8)
        grads = zip(parts.sum(0).split(lengths), weights, strict=True)
        return None, None, None, None, *(grad.view_as(weight) for grad, weight in grads)


def encodes(features: Tensor, *widths: int) -> bool:
    """Return whether ``encode_rows`` takes ``features [P, F]`` and widths: under autocast, no gradient of features."""
    low = _type_of_products(features) != torch.float32 and not features.requires_grad
    return low and all(SMALLEST <= width <= LARGEST and width & (width - 1) == 0 for width in widths)


def encode_rows(rows: Any, count: int, phi: Any, key: Any, slots: int) -> tuple[Tensor, Tensor | None]:
    """Return sums of encoded ``EntityRows`` over ``count`` sets ``[R, H]``, and keys ``[R, slots, K]`` of first slots.

    ``phi`` is linear, norm, rectifier, linear, rectifier; ``key`` a linear layer without a bias.
    """
    first, norm, _, second, _ = phi
    weights = [first.weight, first.bias, norm.weight, norm.bias, second.weight, second.bias]
    weights += [key.weight] if slots else []
    rows = tuple(part.contiguous() for part in rows)
    sums, keys = _Encode.apply(rows, count, slots, norm.eps, *weights)
    return sums, keys if slots else None
