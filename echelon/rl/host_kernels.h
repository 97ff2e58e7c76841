// Operations of a policy on a CPU, forward and backward, over rows of float32 whose widths are multiples of LANES.
// Vectors are the compiler's own, so one source serves AVX2, AVX-512 and NEON.

namespace echelon {

#if defined(__AVX512F__)
constexpr int LANES = 16;
#else
constexpr int LANES = 8;
#endif
constexpr int BLOCK = 96;  // entities encoded at once: activations of a block stay in the first two caches
constexpr int TILE = 6;    // rows of a product in registers, times two vectors
constexpr float EPS = 1e-5f;

typedef float Vec __attribute__((vector_size(LANES * 4), aligned(4), may_alias));
typedef int IntVec __attribute__((vector_size(LANES * 4), aligned(4), may_alias));
using wp::int32;
using wp::int64;

inline Vec splat(float x) { return x - Vec{}; }
inline Vec load(const float* p) { return *reinterpret_cast<const Vec*>(p); }
inline void store(float* p, Vec x) { *reinterpret_cast<Vec*>(p) = x; }
inline Vec pick(IntVec where, Vec a, Vec b) { return Vec((where & IntVec(a)) | (~where & IntVec(b))); }
inline Vec at_least(Vec x, Vec least) { return pick(x > least, x, least); }
inline float sum(Vec x)
{
    float total = 0.0f;
    for (int i = 0; i < LANES; ++i)
        total += x[i];
    return total;
}

// e^x of x clipped to [-87, 88]: 2^n times a polynomial of the remainder (Cephes), relative error 2e-7
inline Vec exp(Vec x)
{
    x = pick(x > splat(88.0f), splat(88.0f), at_least(x, splat(-87.0f)));
    Vec n = x * splat(1.44269504f) + splat(12582912.0f);
    const IntVec exponent = IntVec(n) << 23;
    n = n - splat(12582912.0f);
    const Vec r = x - n * splat(0.693359375f) + n * splat(2.12194440e-4f);
    Vec p = splat(1.9875691500e-4f);
    p = p * r + splat(1.3981999507e-3f);
    p = p * r + splat(8.3334519073e-3f);
    p = p * r + splat(4.1665795894e-2f);
    p = p * r + splat(1.6666665459e-1f);
    p = p * r + splat(5.0000001201e-1f);
    p = p * r * r + r + splat(1.0f);
    return Vec(IntVec(p) + exponent);
}

inline Vec sigmoid(Vec x) { return splat(1.0f) / (splat(1.0f) + exp(-x)); }

// C[ROWS, COLUMNS vectors] (+)= A B, with A[m, k] at a[m * rows_a + k * steps_a] and rows of B `stride_b` apart
template <int ROWS, int VECTORS>
inline void tile(const float* a, int64 rows_a, int64 steps_a, const float* b, int64 stride_b, float* c, int64 stride_c,
                 int depth, bool adds)
{
    Vec sums[ROWS][VECTORS];
    for (int m = 0; m < ROWS; ++m)
        for (int v = 0; v < VECTORS; ++v)
            sums[m][v] = adds ? load(c + m * stride_c + v * LANES) : Vec{};
    for (int k = 0; k < depth; ++k) {
        Vec right[VECTORS];
        for (int v = 0; v < VECTORS; ++v)
            right[v] = load(b + k * stride_b + v * LANES);
        for (int m = 0; m < ROWS; ++m) {
            const Vec left = splat(a[m * rows_a + k * steps_a]);
            for (int v = 0; v < VECTORS; ++v)
                sums[m][v] += left * right[v];
        }
    }
    for (int m = 0; m < ROWS; ++m)
        for (int v = 0; v < VECTORS; ++v)
            store(c + m * stride_c + v * LANES, sums[m][v]);
}

template <int VECTORS>
inline void column(const float* a, int64 rows_a, int64 steps_a, const float* b, int64 stride_b, float* c,
                   int64 stride_c, int rows, int depth, bool adds)
{
    int m = 0;
    for (; m + TILE <= rows; m += TILE)
        tile<TILE, VECTORS>(a + m * rows_a, rows_a, steps_a, b, stride_b, c + m * stride_c, stride_c, depth, adds);
    for (; m < rows; ++m)
        tile<1, VECTORS>(a + m * rows_a, rows_a, steps_a, b, stride_b, c + m * stride_c, stride_c, depth, adds);
}

// C[rows, width] (+)= A[rows, depth] B[depth, width]
__attribute__((noinline)) inline void product(const float* a, int64 rows_a, int64 steps_a, const float* b, int64 stride_b, float* c,
                    int64 stride_c, int rows, int width, int depth, bool adds)
{
    int n = 0;
    for (; n + 2 * LANES <= width; n += 2 * LANES)
        column<2>(a, rows_a, steps_a, b + n, stride_b, c + n, stride_c, rows, depth, adds);
    for (; n < width; n += LANES)
        column<1>(a, rows_a, steps_a, b + n, stride_b, c + n, stride_c, rows, depth, adds);
}

// Normalize z[width] to `normal`, and return the inverse of its standard deviation
inline float normalize(const float* z, float* normal, int width)
{
    Vec total{}, squares{};
    for (int i = 0; i < width; i += LANES)
        total += load(z + i);
    const Vec mean = splat(sum(total) / width);
    for (int i = 0; i < width; i += LANES) {
        const Vec d = load(z + i) - mean;
        squares += d * d;
    }
    const float inverse = 1.0f / __builtin_sqrtf(sum(squares) / width + EPS);
    for (int i = 0; i < width; i += LANES)
        store(normal + i, (load(z + i) - mean) * splat(inverse));
    return inverse;
}

inline void scale_and_rectify(const float* normal, const float* gain, const float* bias, float* y, int width)
{
    for (int i = 0; i < width; i += LANES)
        store(y + i, at_least(load(normal + i) * load(gain + i) + load(bias + i), Vec{}));
}

// From the gradient dy of a rectified norm y to that of its input, dz; adds to those of gain and bias
inline void norm_gradient(const float* dy, const float* y, const float* normal, float inverse, const float* gain,
                          float* dz, float* d_gain, float* d_bias, int width)
{
    Vec total{}, along{};
    for (int i = 0; i < width; i += LANES) {
        const Vec d = pick(load(y + i) > Vec{}, load(dy + i), Vec{}), x = load(normal + i), scaled = d * load(gain + i);
        store(d_gain + i, load(d_gain + i) + d * x);
        store(d_bias + i, load(d_bias + i) + d);
        store(dz + i, scaled);
        total += scaled;
        along += scaled * x;
    }
    const Vec mean = splat(sum(total) / width), slope = splat(sum(along) / width);
    for (int i = 0; i < width; i += LANES)
        store(dz + i, (load(dz + i) - mean - load(normal + i) * slope) * splat(inverse));
}

// Entities of the chosen sets, in their order
struct Sets {
    const float* features;  // [E, F]
    const int32* slots;     // [E]
    const int64* offsets;   // first entity of each set, then E
    const int64* chosen;    // [R]
    int64 count;            // R
    int width;              // F
};

struct SetWeights {
    const float *first, *first_bias, *gain, *norm_bias;  // first is [F, H], as the product reads it
    const float *second, *second_bias;                   // [H in, H out] forward, [H out, H in] backward
    const float* key;                                    // [H, K] forward, [K, H] backward; null without keys
};

struct Cursor {
    int64 set, entity;
};

// Copy up to BLOCK entities to x[.., F], with set and slot of each; return how many
inline int next_block(const Sets& sets, Cursor& at, float* x, int64* of_set, int* slot)
{
    int n = 0;
    while (n < BLOCK && at.set < sets.count) {
        const int64 chosen = sets.chosen[at.set], end = sets.offsets[chosen + 1];
        if (at.entity < sets.offsets[chosen])
            at.entity = sets.offsets[chosen];
        for (; n < BLOCK && at.entity < end; ++at.entity, ++n) {
            __builtin_memcpy(x + n * sets.width, sets.features + at.entity * sets.width, sets.width * sizeof(float));
            of_set[n] = at.set;
            slot[n] = sets.slots[at.entity];
        }
        if (at.entity < end)
            break;
        ++at.set;
        at.entity = -1;
    }
    return n;
}

inline float share_of(const Sets& sets, int64 set, bool mean)
{
    const int64 chosen = sets.chosen[set], size = sets.offsets[chosen + 1] - sets.offsets[chosen];
    return mean && size > 1 ? 1.0f / size : 1.0f;
}

// out[R, H] sums or means of encoded entities, keys[R, S, K] of the first slots; both zero before.
// normal, encoded[P, H] and inverse[P] are kept for the gradient, or null.
inline void encode_sets(const Sets& sets, const SetWeights& w, int hidden, int slots, int key_width, bool mean,
                        float* scratch, float* normal, float* inverse, float* encoded, float* out, float* keys)
{
    float *x = scratch, *z = x + BLOCK * sets.width, *r = z + BLOCK * hidden, *e = r + BLOCK * hidden, *k = e + BLOCK * hidden;
    int64 of_set[BLOCK];
    int slot[BLOCK];
    Cursor at{0, -1};
    for (int64 done = 0;;) {
        const int n = next_block(sets, at, x, of_set, slot);
        if (n == 0)
            return;
        for (int p = 0; p < n; ++p)
            __builtin_memcpy(z + p * hidden, w.first_bias, hidden * sizeof(float));
        product(x, sets.width, 1, w.first, hidden, z, hidden, n, hidden, sets.width, true);
        float* unit = normal ? normal + done * hidden : z;
        float* rows = encoded ? encoded + done * hidden : e;
        for (int p = 0; p < n; ++p) {
            const float inv = normalize(z + p * hidden, unit + p * hidden, hidden);
            if (inverse)
                inverse[done + p] = inv;
            scale_and_rectify(unit + p * hidden, w.gain, w.norm_bias, r + p * hidden, hidden);
            __builtin_memcpy(rows + p * hidden, w.second_bias, hidden * sizeof(float));
        }
        product(r, hidden, 1, w.second, hidden, rows, hidden, n, hidden, hidden, true);
        for (int p = 0; p < n; ++p) {
            float* total = out + of_set[p] * hidden;
            const Vec share = splat(share_of(sets, of_set[p], mean));
            for (int i = 0; i < hidden; i += LANES) {
                const Vec y = at_least(load(rows + p * hidden + i), Vec{});
                store(rows + p * hidden + i, y);
                store(total + i, load(total + i) + y * share);
            }
        }
        if (slots) {
            product(rows, hidden, 1, w.key, key_width, k, key_width, n, key_width, hidden, false);
            for (int p = 0; p < n; ++p)
                if (slot[p] < slots)
                    __builtin_memcpy(keys + (of_set[p] * slots + slot[p]) * key_width, k + p * key_width,
                                     key_width * sizeof(float));
        }
        done += n;
    }
}

struct SetGradients {
    float *first, *first_bias, *gain, *norm_bias, *second, *second_bias, *key;  // [F, H], [H out, H in], [K, H]
};

// Adds to the gradients of the weights, given those of out[R, H] and keys[R, S, K]
inline void encode_sets_gradient(const Sets& sets, const SetWeights& w, const SetGradients& g, int hidden, int slots,
                                 int key_width, bool mean, float* scratch, const float* normal, const float* inverse,
                                 const float* encoded, const float* d_out, const float* d_keys)
{
    float *x = scratch, *d = x + BLOCK * sets.width, *r = d + BLOCK * hidden, *dz = r + BLOCK * hidden, *k = dz + BLOCK * hidden;
    int64 of_set[BLOCK];
    int slot[BLOCK];
    Cursor at{0, -1};
    for (int64 done = 0;;) {
        const int n = next_block(sets, at, x, of_set, slot);
        if (n == 0)
            return;
        const float *unit = normal + done * hidden, *rows = encoded + done * hidden;
        if (slots) {
            for (int p = 0; p < n; ++p)
                for (int i = 0; i < key_width; ++i)
                    k[p * key_width + i] = slot[p] < slots ? d_keys[(of_set[p] * slots + slot[p]) * key_width + i] : 0.0f;
            product(k, key_width, 1, w.key, hidden, d, hidden, n, hidden, key_width, false);
            product(k, 1, key_width, rows, hidden, g.key, hidden, key_width, hidden, n, true);
        }
        for (int p = 0; p < n; ++p) {
            const Vec share = splat(share_of(sets, of_set[p], mean));
            for (int i = 0; i < hidden; i += LANES) {
                Vec y = load(d_out + of_set[p] * hidden + i) * share;
                if (slots)
                    y += load(d + p * hidden + i);
                y = pick(load(rows + p * hidden + i) > Vec{}, y, Vec{});
                store(d + p * hidden + i, y);
                store(g.second_bias + i, load(g.second_bias + i) + y);
            }
            scale_and_rectify(unit + p * hidden, w.gain, w.norm_bias, r + p * hidden, hidden);
        }
        product(d, 1, hidden, r, hidden, g.second, hidden, hidden, hidden, n, true);
        product(d, hidden, 1, w.second, hidden, dz, hidden, n, hidden, hidden, false);
        for (int p = 0; p < n; ++p) {
            float* row = dz + p * hidden;
            norm_gradient(row, r + p * hidden, unit + p * hidden, inverse[done + p], w.gain, row, g.gain, g.norm_bias, hidden);
            for (int i = 0; i < hidden; i += LANES)
                store(g.first_bias + i, load(g.first_bias + i) + load(row + i));
        }
        product(x, 1, sets.width, dz, hidden, g.first, hidden, sets.width, hidden, n, true);
        done += n;
    }
}

// Outputs y[T, B, H] and memories after each step[T, B, H] of a MinGRU's gates[T, B, 3 H]; keep[T, B] resets
inline void scan(const float* gates, const float* keep, const float* memory, float* y, float* after, int steps, int64 sequences,
                 int width)
{
    for (int64 b = 0; b < sequences; ++b)
        for (int i = 0; i < width; i += LANES) {
            Vec m = load(memory + b * width + i);
            for (int t = 0; t < steps; ++t) {
                const int64 row = t * sequences + b;
                const float* g = gates + row * 3 * width + i;
                const Vec update = sigmoid(load(g)), output = sigmoid(load(g + width)), candidate = load(g + 2 * width);
                m = m * splat(keep[row]);
                m = m + update * (candidate - m);
                store(after + row * width + i, m);
                store(y + row * width + i, candidate + output * (m - candidate));
            }
        }
}

inline void scan_gradient(const float* gates, const float* keep, const float* memory, const float* after, const float* d_y,
                          const float* d_last, float* d_gates, float* d_memory, int steps, int64 sequences, int width)
{
    const Vec one = splat(1.0f);
    for (int64 b = 0; b < sequences; ++b)
        for (int i = 0; i < width; i += LANES) {
            Vec carried = load(d_last + b * width + i);
            for (int t = steps - 1; t >= 0; --t) {
                const int64 row = t * sequences + b;
                const float* g = gates + row * 3 * width + i;
                float* d = d_gates + row * 3 * width + i;
                const Vec update = sigmoid(load(g)), output = sigmoid(load(g + width)), candidate = load(g + 2 * width);
                const Vec kept = splat(keep[row]), grad = load(d_y + row * width + i), m = load(after + row * width + i);
                const Vec before = (t ? load(after + (row - sequences) * width + i) : load(memory + b * width + i)) * kept;
                const Vec flow = grad * output + carried;
                store(d, flow * (candidate - before) * update * (one - update));
                store(d + width, grad * (m - candidate) * output * (one - output));
                store(d + 2 * width, grad * (one - output) + flow * update);
                carried = flow * (one - update) * kept;
            }
            store(d_memory + b * width + i, carried);
        }
}

// First `slots` values of a column of the entities of each set, out[R, S]; zero before
inline void first_slots(const Sets& sets, int column, int slots, float* out)
{
    for (int64 r = 0; r < sets.count; ++r) {
        const int64 chosen = sets.chosen[r];
        for (int64 i = sets.offsets[chosen]; i < sets.offsets[chosen + 1] && sets.slots[i] < slots; ++i)
            out[r * slots + sets.slots[i]] = sets.features[i * sets.width + column];
    }
}

// Normalized, clipped features[E, F] and slots[E] of the entities of obs[R], whose first ones are at offsets[R].
// Blocks are pairs of a first column and the columns of a slot, one after another in the features.
inline void pack_entities(const float* obs, int64 stride, int64 rows, int mask, int slots, const int64* blocks, int count,
                          const float* scale, const float* shift, float limit, const int64* offsets, float* features,
                          int32* of_slot)
{
    int64 width = 0;
    for (int b = 0; b < count; ++b)
        width += blocks[2 * b + 1];
    for (int64 r = 0; r < rows; ++r) {
        const float* row = obs + r * stride;
        int64 n = offsets[r];
        for (int s = 0; s < slots; ++s) {
            if (!(row[mask + s] < 1.0f))
                continue;
            float* f = features + n * width;
            for (int b = 0; b < count; ++b)
                for (int64 i = 0, c = blocks[2 * b] + s * blocks[2 * b + 1]; i < blocks[2 * b + 1]; ++i, ++c) {
                    const float x = row[c] * scale[c] + shift[c];
                    *f++ = x > limit ? limit : x < -limit ? -limit : x;
                }
            of_slot[n++] = s;
        }
    }
}

enum Operation { ENCODE_SETS, ENCODE_SETS_GRADIENT, SCAN, SCAN_GRADIENT, FIRST_SLOTS, PACK_ENTITIES };

// Run an operation; numbers and addresses of its arguments follow each other at `a`, in the order of its parameters
inline void run(int operation, const int64* a)
{
    const auto in = [&](int i) { return reinterpret_cast<const float*>(a[i]); };
    const auto out = [&](int i) { return reinterpret_cast<float*>(a[i]); };
    const auto sets = [&] {
        return Sets{in(0), reinterpret_cast<const int32*>(a[1]), reinterpret_cast<const int64*>(a[2]),
                    reinterpret_cast<const int64*>(a[3]), a[4], int(a[5])};
    };
    const auto weights = [&] { return SetWeights{in(6), in(7), in(8), in(9), in(10), in(11), in(12)}; };
    switch (operation) {
    case ENCODE_SETS:
        return encode_sets(sets(), weights(), a[13], a[14], a[15], a[16], out(17), out(18), out(19), out(20), out(21), out(22));
    case ENCODE_SETS_GRADIENT: {
        const SetGradients g{out(23), out(24), out(25), out(26), out(27), out(28), out(29)};
        return encode_sets_gradient(sets(), weights(), g, a[13], a[14], a[15], a[16], out(17), in(18), in(19), in(20), in(21), in(22));
    }
    case SCAN:
        return scan(in(0), in(1), in(2), out(3), out(4), a[5], a[6], a[7]);
    case SCAN_GRADIENT:
        return scan_gradient(in(0), in(1), in(2), in(3), in(4), in(5), out(6), out(7), a[8], a[9], a[10]);
    case FIRST_SLOTS:
        return first_slots(sets(), a[6], a[7], out(8));
    case PACK_ENTITIES:
        return pack_entities(in(0), a[1], a[2], a[3], a[4], reinterpret_cast<const int64*>(a[5]), a[6], in(7), in(8), a[9],
                             reinterpret_cast<const int64*>(a[10]), out(11), reinterpret_cast<int32*>(a[12]));
    }
}

}  // namespace echelon
