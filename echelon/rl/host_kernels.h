// Operations of a policy on a CPU, forward and backward, over rows of float32 whose widths are multiples of LANES.
// Vectors are the compiler's own, so one source serves AVX2, AVX-512 and NEON.

namespace echelon {

#if defined(__AVX512F__)
constexpr int LANES = 16;
#else
constexpr int LANES = 8;
#endif
constexpr int BLOCK = 96;  // rows or entities computed at once: activations of a block stay in the first two caches
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
inline Vec at_least(Vec x, Vec least) { return pick(x < least, least, x); }  // keeps what is not a number
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
    if (rows - m >= 4) {
        tile<4, VECTORS>(a + m * rows_a, rows_a, steps_a, b, stride_b, c + m * stride_c, stride_c, depth, adds);
        m += 4;
    }
    if (rows - m >= 2) {
        tile<2, VECTORS>(a + m * rows_a, rows_a, steps_a, b, stride_b, c + m * stride_c, stride_c, depth, adds);
        m += 2;
    }
    if (m < rows)
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

// y[rows, width] = x[rows, depth] weight[depth, width] + bias, rectified or not
inline void linear(const float* x, int64 stride_x, int depth, const float* weight, int64 stride_weight, const float* bias,
                   float* y, int64 stride_y, int width, bool rectifies, int rows)
{
    for (int r = 0; r < rows; ++r)
        __builtin_memcpy(y + r * stride_y, bias, width * sizeof(float));
    product(x, stride_x, 1, weight, stride_weight, y, stride_y, rows, width, depth, true);
    for (int r = 0; rectifies && r < rows; ++r)
        for (int i = 0; i < width; i += LANES)
            store(y + r * stride_y + i, at_least(load(y + r * stride_y + i), Vec{}));
}

// Adds to the gradients of weight[depth, width] and bias, given dy[rows, width], which is first set to 0 where a
// rectified y is. The gradient of x is dy times turned[width, stride_turned], if dx is not null.
inline void linear_gradient(const float* x, int64 stride_x, int depth, const float* y, int64 stride_y, bool rectifies,
                            float* dy, int64 stride_dy, int width, const float* turned, int64 stride_turned, float* dx,
                            int64 stride_dx, int width_dx, float* d_weight, float* d_bias, int rows)
{
    for (int r = 0; r < rows; ++r)
        for (int i = 0; i < width; i += LANES) {
            Vec d = load(dy + r * stride_dy + i);
            if (rectifies)
                store(dy + r * stride_dy + i, d = pick(load(y + r * stride_y + i) > Vec{}, d, Vec{}));
            store(d_bias + i, load(d_bias + i) + d);
        }
    product(x, 1, stride_x, dy, stride_dy, d_weight, width, depth, width, rows, true);
    if (dx)
        product(dy, stride_dy, 1, turned, stride_turned, dx, stride_dx, rows, width_dx, width, false);
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

// Entities before each chosen set, at[R]
inline void entity_starts(const Sets& sets, int64* at)
{
    for (int64 r = 0, n = 0; r < sets.count; ++r) {
        at[r] = n;
        n += sets.offsets[sets.chosen[r] + 1] - sets.offsets[sets.chosen[r]];
    }
}

inline float share_of(const Sets& sets, int64 set, bool mean)
{
    const int64 chosen = sets.chosen[set], size = sets.offsets[chosen + 1] - sets.offsets[chosen];
    return mean && size > 1 ? 1.0f / size : 1.0f;
}

// out[R, H] sums or means of encoded entities, keys[R, S, K] of the first slots.
// normal, encoded[P, H] and inverse[P] are kept for the gradient, or null.
inline void encode_sets(const Sets& sets, const SetWeights& w, int hidden, int slots, int key_width, bool mean,
                        float* scratch, float* normal, float* inverse, float* encoded, float* out, float* keys)
{
    float *x = scratch, *z = x + BLOCK * sets.width, *r = z + BLOCK * hidden, *e = r + BLOCK * hidden, *k = e + BLOCK * hidden;
    int64 of_set[BLOCK];
    int slot[BLOCK];
    Cursor at{0, -1};
    __builtin_memset(out, 0, sets.count * hidden * sizeof(float));
    __builtin_memset(keys, 0, sets.count * slots * key_width * sizeof(float));
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

// Steps and sequences of a MinGRU. Without row[B, T] all steps are in rows, step by step; else it is the row of a step in
// gates[.., 3 H], y and all else, after those before `first`, or -1 where the step is left out, after which none is
// evaluated until a reset.
struct Steps {
    const float *gates, *keep, *memory;  // keep[T, B], with row[B, T], resets the memory, [B, H] before the first step
    const int64* row;
    int64 first, steps, sequences;
    int width;
    int64 stride_gates, stride;  // distance of two rows of the gates and of y
    int64 of(int64 t, int64 b) const { return !row ? t * sequences + b : row[b * steps + t] < 0 ? -1 : row[b * steps + t] - first; }
    float kept(int64 t, int64 b) const { return keep[row ? b * steps + t : t * sequences + b]; }
};

// Outputs y[.., H] and memories after each step[.., H]
inline void scan(const Steps& s, float* y, float* after)
{
    const int width = s.width;
    for (int64 b = 0; b < s.sequences; ++b)
        for (int i = 0; i < width; i += LANES) {
            Vec m = load(s.memory + b * width + i);
            for (int64 t = 0; t < s.steps; ++t) {
                m = m * splat(s.kept(t, b));
                const int64 row = s.of(t, b);
                if (row < 0)
                    continue;
                const float* g = s.gates + row * s.stride_gates + i;
                const Vec update = sigmoid(load(g)), output = sigmoid(load(g + width)), candidate = load(g + 2 * width);
                m = m + update * (candidate - m);
                store(after + row * width + i, m);
                store(y + row * s.stride + i, candidate + output * (m - candidate));
            }
        }
}

// Gradient of the gates from that of y; the one of the last memory is 0
inline void scan_gradient(const Steps& s, const float* after, const float* d_y, float* d_gates)
{
    const Vec one = splat(1.0f);
    const int width = s.width;
    for (int64 b = 0; b < s.sequences; ++b)
        for (int i = 0; i < width; i += LANES) {
            Vec carried{};
            for (int64 t = s.steps - 1; t >= 0; --t) {
                const Vec kept = splat(s.kept(t, b));
                const int64 row = s.of(t, b), last = t ? s.of(t - 1, b) : -1;
                if (row < 0)
                    continue;
                const float* g = s.gates + row * s.stride_gates + i;
                float* d = d_gates + row * s.stride_gates + i;
                const Vec update = sigmoid(load(g)), output = sigmoid(load(g + width)), candidate = load(g + 2 * width);
                const Vec grad = load(d_y + row * s.stride + i), m = load(after + row * width + i);
                const Vec start = last >= 0 ? load(after + last * width + i) : t ? Vec{} : load(s.memory + b * width + i);
                const Vec before = start * kept, flow = grad * output + carried;
                store(d, flow * (candidate - before) * update * (one - update));
                store(d + width, grad * (m - candidate) * output * (one - output));
                store(d + 2 * width, grad * (one - output) + flow * update);
                carried = flow * (one - update) * kept;
            }
        }
}

// First `slots` values of a column of the entities of each set, out[R, S], 0 for an empty slot
inline void first_slots(const Sets& sets, int column, int slots, float* out)
{
    __builtin_memset(out, 0, sets.count * slots * sizeof(float));
    for (int64 r = 0; r < sets.count; ++r) {
        const int64 chosen = sets.chosen[r];
        for (int64 i = sets.offsets[chosen]; i < sets.offsets[chosen + 1] && sets.slots[i] < slots; ++i)
            out[r * slots + sets.slots[i]] = sets.features[i * sets.width + column];
    }
}

inline float clipped(float x, float limit) { return x > limit ? limit : x < -limit ? -limit : x; }

// Entities of the rows at[R] of obs before each, offsets[R + 1]; one is real where its column of the mask is below 1
inline void entity_offsets(const float* obs, int64 stride, const int64* at, int64 rows, int mask, int slots, int64* offsets)
{
    offsets[0] = 0;
    for (int64 r = 0; r < rows; ++r) {
        int64 n = offsets[r];
        for (int s = 0; s < slots; ++s)
            n += obs[at[r] * stride + mask + s] < 1.0f;
        offsets[r + 1] = n;
    }
}

// Normalized, clipped features[E, F] and slots[E] of the entities of the rows at[R] of obs, whose first ones are at
// offsets[R].
// Blocks are pairs of a first column and the columns of a slot, one after another in the features.
inline void pack_entities(const float* obs, int64 stride, const int64* at, int64 rows, int mask, int slots, const int64* blocks, int count,
                          const float* scale, const float* shift, float limit, const int64* offsets, float* features,
                          int32* of_slot)
{
    int64 width = 0;
    for (int b = 0; b < count; ++b)
        width += blocks[2 * b + 1];
    for (int64 r = 0; r < rows; ++r) {
        const float* row = obs + at[r] * stride;
        int64 n = offsets[r];
        for (int s = 0; s < slots; ++s) {
            if (!(row[mask + s] < 1.0f))
                continue;
            float* f = features + n * width;
            for (int b = 0; b < count; ++b)
                for (int64 i = 0, c = blocks[2 * b] + s * blocks[2 * b + 1]; i < blocks[2 * b + 1]; ++i, ++c) {
                    *f++ = clipped(row[c] * scale[c] + shift[c], limit);
                }
            of_slot[n++] = s;
        }
    }
}

constexpr int MOST_COLUMNS = 64, MOST_CHOICES = 32, MOST_SELECTORS = 4;
constexpr float MOST_LOG_STD = 2.0f, LEAST_LOG_SHARE = -80.0f, NO_SHARE = 1e-30f;
constexpr float LEAST_SLOPE = 1e-6f, HALF_LOG_2PI = 0.91893853f, LABEL_STD = 0.6f;

// Where the outputs of the heads[width] and a decoded action have their parts. Heads: means[A], log standard deviations[A],
// value, then the selectors: a query and the logit of no target, then logits. An action: numbers before tanh, switches
// (1 for on), choices, and the part of its log-probability that is the same for every policy. Targets are the choices
// of the first selector, except for its last.
struct Layout {
    const int64 *numbers, *switches, *choices;  // columns of numbers and switches; choices of each selector
    const int64 *selectors, *draws;             // first column and columns of each selector; noise of each choice
    const float* codes;                         // columns of each choice of each selector
    int columns, width, number_count, switch_count, selector_count, key_width;
    int value() const { return 2 * columns; }
    int query() const { return 2 * columns + 1; }
    int targets() const { return int(choices[0]) - 1; }
};

// Logits of selector s, whose own ones begin at `from`, and which choices are available; return where the next begin
inline int logits_of(const Layout& at, int s, int from, const float* heads, const float* keys, const float* hostile, float* logits,
                     bool* available)
{
    const int count = int(at.choices[s]);
    const float root = 1.0f / __builtin_sqrtf(float(at.key_width));
    for (int c = 0; c < count; ++c) {
        const bool is_target = s == 0 && c < at.targets();
        available[c] = !is_target || hostile[c] > 0.0f;
        logits[c] = is_target ? 0.0f : heads[from + (s ? c : at.key_width)];
        for (int k = 0; is_target && k < at.key_width; ++k)
            logits[c] += keys[c * at.key_width + k] * heads[from + k] * root;
    }
    return from + (s ? count : at.key_width + 1);
}

inline float log_std_of(const Layout& at, const float* heads, int64 column, float least, float most)
{
    const float raw = heads[at.columns + column];
    most = most < MOST_LOG_STD ? most : MOST_LOG_STD;
    return raw < least ? least : raw > most ? most : raw;
}

inline float slope_of(float squashed)
{
    const float slope = 1.0f - squashed * squashed;
    return slope < LEAST_SLOPE ? LEAST_SLOPE : slope;
}

// What the loss of a row is made of: coefficients, and the scale that values are regressed on
struct Loss {
    float clip, entropy, value, imitation, scale, shift, imitates, log_std_min, log_std_max;
};

struct Terms {
    double loss, policy, value, entropy, kl, clipped, imitation;
};

// Shares of the choices of a selector with logits below infinity, and their entropy
struct Shares {
    float share[MOST_CHOICES], log_share[MOST_CHOICES], entropy = 0.0f;
    int count;

    void of(const float* logits, const bool* available, int n)
    {
        count = n;
        float most = -3e38f, total = 0.0f;
        for (int c = 0; c < n; ++c)
            if (available[c] && !(logits[c] <= most))
                most = logits[c];
        for (int c = 0; c < n; ++c) {
            const float shifted = available[c] ? logits[c] - most : 0.0f;
            log_share[c] = shifted < LEAST_LOG_SHARE ? LEAST_LOG_SHARE : shifted;
            total += share[c] = available[c] ? ::expf(log_share[c]) : 0.0f;
        }
        const float log_total = ::logf(total);
        for (int c = 0; c < n; ++c) {
            share[c] /= total;
            log_share[c] -= log_total;
            entropy -= share[c] * log_share[c];
        }
    }
    // The choice that an unavailable one has the effect of is the last
    int decode(float choice, const bool* available) const { return available[int(choice)] ? int(choice) : count - 1; }
};

// Adds the loss of a row to `terms`, and writes its gradient for the outputs of the heads and for keys[S, K].
// Labels and weights as in echelon.training.ppo.losses, the distribution as in echelon.rl.action_distribution.
inline void score(const Layout& at, const Loss& loss, const float* heads, const float* keys, const float* hostile,
                  const float* action, const float* label, const float* noise, float advantage, float target, float before,
                  float policy_weight, float value_weight, Terms& terms, float* d_heads, float* d_keys)
{
    const int value_at = at.value(), targets = at.targets();
    const float root = 1.0f / __builtin_sqrtf(float(at.key_width));
    float logprob = action[at.number_count + at.switch_count + at.selector_count], entropy = 0.0f, imitation = 0.0f;
    float z[MOST_COLUMNS], inverse[MOST_COLUMNS], drawn[MOST_COLUMNS], slope[MOST_COLUMNS], log_std[MOST_COLUMNS];
    for (int n = 0; n < at.number_count; ++n) {
        const int64 c = at.numbers[n];
        log_std[n] = log_std_of(at, heads, c, loss.log_std_min, loss.log_std_max);
        inverse[n] = ::expf(-log_std[n]);
        z[n] = (action[n] - heads[c]) * inverse[n];
        drawn[n] = ::tanhf(heads[c] + noise[c] / inverse[n]);
        slope[n] = slope_of(drawn[n]);
        logprob += -0.5f * z[n] * z[n] - log_std[n] - HALF_LOG_2PI;
        entropy += 0.5f + HALF_LOG_2PI + log_std[n] + ::logf(slope[n]);
        if (label) {
            const float miss = (label[n] - heads[c]) / LABEL_STD;
            imitation += 0.5f * miss * miss;
        }
    }
    const float* on = action + at.number_count;
    const float* taught = label ? label + at.number_count : nullptr;
    float on_share[MOST_COLUMNS];
    for (int w = 0; w < at.switch_count; ++w) {
        const float logit = heads[at.switches[w]], tail = ::expf(logit > 0.0f ? -logit : logit);
        const float softplus = (logit > 0.0f ? logit : 0.0f) + ::logf(1.0f + tail);
        on_share[w] = logit > 0.0f ? 1.0f / (1.0f + tail) : tail / (1.0f + tail);
        const float spread = softplus - logit * on_share[w];
        logprob += logit * on[w] - softplus;
        entropy += spread;
        if (taught)
            imitation -= logit * taught[w] - softplus;
    }
    Shares shares[MOST_SELECTORS];
    int choice[MOST_SELECTORS], taught_choice[MOST_SELECTORS];
    for (int s = 0, from = at.query(); s < at.selector_count; ++s) {
        float logits[MOST_CHOICES];
        bool available[MOST_CHOICES];
        from = logits_of(at, s, from, heads, keys, hostile, logits, available);
        shares[s].of(logits, available, int(at.choices[s]));
        choice[s] = shares[s].decode(on[at.switch_count + s], available);
        logprob += shares[s].log_share[choice[s]];
        entropy += shares[s].entropy;
        if (taught) {
            taught_choice[s] = shares[s].decode(taught[at.switch_count + s], available);
            imitation -= shares[s].log_share[taught_choice[s]];
        }
    }

    const bool imitates = loss.imitates > 0.0f;
    const float log_ratio = logprob - before, ratio = ::expf(log_ratio);
    const float low = 1.0f - loss.clip, high = 1.0f + loss.clip, clipped = ratio < low ? low : ratio > high ? high : ratio;
    const float worst = -advantage * ratio < -advantage * clipped ? -advantage * clipped : -advantage * ratio;
    const float error = heads[value_at] * loss.scale + loss.shift - target;
    const float value_loss = 0.5f * value_weight * error * error;
    terms.value += value_loss;
    terms.entropy += policy_weight * entropy;
    terms.imitation += policy_weight * imitation;
    terms.loss += loss.value * value_loss + loss.imitation * policy_weight * imitation;
    if (!imitates) {
        terms.policy += policy_weight * worst;
        terms.kl += policy_weight * (ratio - 1.0f - log_ratio);
        terms.clipped += policy_weight * (ratio - 1.0f > loss.clip || 1.0f - ratio > loss.clip);
        terms.loss += policy_weight * (worst - loss.entropy * entropy);
    }

    const bool follows = (ratio >= low && ratio <= high) || -advantage * ratio > -advantage * clipped;
    const float d_logprob = !imitates && follows ? -advantage * policy_weight * ratio : 0.0f;
    const float d_entropy = imitates ? 0.0f : -loss.entropy * policy_weight, d_miss = loss.imitation * policy_weight;
    __builtin_memset(d_heads, 0, at.width * sizeof(float));
    d_heads[value_at] = loss.value * value_weight * error * loss.scale;
    for (int n = 0; n < at.number_count; ++n) {
        const int64 c = at.numbers[n];
        const float raw = heads[at.columns + c];
        const float pull = slope[n] > LEAST_SLOPE ? -2.0f * drawn[n] * d_entropy : 0.0f;
        d_heads[c] = pull + z[n] * inverse[n] * d_logprob;
        if (raw >= loss.log_std_min && raw <= MOST_LOG_STD && raw <= loss.log_std_max)
            d_heads[at.columns + c] = (z[n] * z[n] - 1.0f) * d_logprob + d_entropy + pull * noise[c] / inverse[n];
        if (label)
            d_heads[c] += d_miss * (heads[c] - label[n]) / (LABEL_STD * LABEL_STD);
    }
    for (int w = 0; w < at.switch_count; ++w) {
        const float logit = heads[at.switches[w]], share = on_share[w];
        float d = (on[w] - share) * d_logprob - (share - share * share) * logit * d_entropy;
        if (taught)
            d -= (taught[w] - share) * d_miss;
        d_heads[at.switches[w]] = d;
    }
    for (int s = 0, from = at.query(); s < at.selector_count; ++s) {
        const Shares& own = shares[s];
        for (int c = 0; c < own.count; ++c) {
            const float share = own.share[c] > NO_SHARE ? own.share[c] : 0.0f;
            float d = -share * ((own.log_share[c] + own.entropy) * d_entropy + d_logprob);
            if (c == choice[s])
                d += d_logprob;
            if (taught)
                d += (share - (c == taught_choice[s] ? 1.0f : 0.0f)) * d_miss;
            if (s > 0 || c == targets) {
                d_heads[from + (s > 0 ? c : at.key_width)] = d;
                continue;
            }
            for (int k = 0; k < at.key_width; ++k) {
                d_heads[from + k] += d * root * keys[c * at.key_width + k];
                d_keys[c * at.key_width + k] = d * root * heads[from + k];
            }
        }
        from += s > 0 ? own.count : at.key_width + 1;
    }
}
// Writes the action of a row, its log-probability and its value: sampled with standard normal noise, or without noise
// the likeliest.
inline void act(const Layout& at, float log_std_min, float log_std_max, const float* heads, const float* keys,
                const float* hostile, const float* noise, float* action, float* logprob, float* value)
{
    const auto uniform = [](float x) { return 0.5f * ::erfcf(x * -0.70710678f); };
    float total = 0.0f;
    *value = heads[at.value()];
    for (int n = 0; n < at.number_count; ++n) {
        const int64 c = at.numbers[n];
        const float log_std = log_std_of(at, heads, c, log_std_min, log_std_max), most = 1.0f - LEAST_SLOPE;
        const float drawn = ::tanhf(heads[c] + (noise ? noise[c] * ::expf(log_std) : 0.0f));
        action[c] = drawn > most ? most : drawn < -most ? -most : drawn;
        const float before = 0.5f * (::logf(1.0f + action[c]) - ::logf(1.0f - action[c]));
        const float z = (before - heads[c]) * ::expf(-log_std);
        total += -0.5f * z * z - log_std - HALF_LOG_2PI - ::logf(slope_of(action[c]));
    }
    for (int w = 0; w < at.switch_count; ++w) {
        const int64 c = at.switches[w];
        const float logit = heads[c], share = 1.0f / (1.0f + ::expf(-logit));
        const bool on = noise ? uniform(noise[c]) < share : logit > 0.0f;
        action[c] = on ? 1.0f : -1.0f;
        total += (on ? logit : 0.0f) - (logit > 0.0f ? logit : 0.0f) - ::logf(1.0f + ::expf(logit > 0.0f ? -logit : logit));
    }
    const float* codes = at.codes;
    const int64* draws = at.draws;
    for (int s = 0, from = at.query(); s < at.selector_count; ++s) {
        float logits[MOST_CHOICES], best = -3e38f;
        bool available[MOST_CHOICES];
        const int count = int(at.choices[s]);
        const int64 first = at.selectors[2 * s], width = at.selectors[2 * s + 1];
        from = logits_of(at, s, from, heads, keys, hostile, logits, available);
        int choice = count - 1;
        for (int c = 0; c < count; ++c) {
            float score = logits[c];
            if (noise) {
                const float u = uniform(noise[*draws++]), least = 1e-7f;
                score -= ::logf(-::logf(u < least ? least : u > 1.0f - least ? 1.0f - least : u));
            }
            if (available[c] && score > best) {
                best = score;
                choice = c;
            }
        }
        __builtin_memcpy(action + first, codes + choice * width, width * sizeof(float));
        codes += count * width;
        Shares shares;
        shares.of(logits, available, count);
        total += shares.log_share[choice];
    }
    *logprob = total;
}

enum Operation {
    PACK_ENTITIES, ROWS,                                                              // called alone
    GATHER, LINEAR, LINEAR_GRADIENT, NORM, NORM_GRADIENT, SETS, SETS_GRADIENT, HOSTILE, SCORE,  // for a block of rows
    NORMALIZE, PACK, ACT, SCATTER,
    ENTITY_STARTS, STEPS, STEPS_GRADIENT, OFFSETS,                                    // for all rows
};

// Numbers and addresses of the arguments of an operation, in the order of its parameters. Where rows are computed in
// blocks, a matrix is the address of its first row and the distance of two, negative where it has the rows of one block.
struct Arguments {
    const int64* a;
    int64 first;  // row of the block

    const float* in(int i) const { return reinterpret_cast<const float*>(a[i]); }
    float* out(int i) const { return reinterpret_cast<float*>(a[i]); }
    const int64* index(int i) const { return reinterpret_cast<const int64*>(a[i]); }
    float* rows(int i) const { return a[i] ? out(i) + (a[i + 1] > 0 ? first * a[i + 1] : 0) : nullptr; }
    int64 stride(int i) const { return a[i + 1] > 0 ? a[i + 1] : -a[i + 1]; }
    Sets sets(int64 count) const { return {in(0), reinterpret_cast<const int32*>(a[1]), index(2), index(3) + first, count, int(a[4])}; }
    SetWeights weights() const { return {in(5), in(6), in(7), in(8), in(9), in(10), in(11)}; }
};

// Run an operation for a block of n rows
inline void run_rows(int operation, const Arguments& a, int n)
{
    const int64* v = a.a;
    switch (operation) {
    case GATHER:
        for (int r = 0; r < n; ++r)
            __builtin_memcpy(a.rows(4) + r * a.stride(4),
                             v[2] ? a.in(0) + a.index(2)[a.first + r] * v[1] : a.rows(0) + r * a.stride(0), v[3] * sizeof(float));
        return;
    case SCATTER:
        for (int r = 0; r < n; ++r)
            __builtin_memcpy(a.out(0) + a.index(2)[a.first + r] * v[1], a.rows(4) + r * v[5], v[3] * sizeof(float));
        return;
    case LINEAR:
        return linear(a.rows(0), a.stride(0), v[2], a.in(3), v[4], a.in(5), a.rows(6), a.stride(6), v[8], v[9], n);
    case LINEAR_GRADIENT:
        return linear_gradient(a.rows(0), v[1], v[2], a.rows(3), v[4], v[5], a.rows(6), a.stride(6), v[8], a.in(9), v[10],
                               a.rows(11), a.stride(11), v[13], a.out(14), a.out(15), n);
    case NORM:
        for (int r = 0; r < n; ++r) {
            a.out(4)[a.first + r] = normalize(a.rows(0) + r * a.stride(0), a.rows(2) + r * a.stride(2), v[9]);
            scale_and_rectify(a.rows(2) + r * a.stride(2), a.in(5), a.in(6), a.rows(7) + r * a.stride(7), v[9]);
        }
        return;
    case NORM_GRADIENT:
        for (int r = 0; r < n; ++r)
            norm_gradient(a.rows(0) + r * a.stride(0), a.rows(2) + r * v[3], a.rows(4) + r * v[5], a.in(6)[a.first + r], a.in(7),
                          a.rows(8) + r * a.stride(8), a.out(10), a.out(11), v[12]);
        return;
    case SETS:
    case SETS_GRADIENT: {
        const int hidden = v[12], slots = v[13], keys = v[14];
        float *normal = a.out(17), *inverse = a.out(18), *encoded = a.out(19);
        if (normal) {
            const int64 entity = a.index(22)[a.first];
            normal += entity * hidden, inverse += entity, encoded += entity * hidden;
        }
        float *sums = a.out(20) + a.first * hidden, *by_slot = a.out(21) + a.first * slots * keys;
        if (operation == SETS)
            return encode_sets(a.sets(n), a.weights(), hidden, slots, keys, v[15], a.out(16), normal, inverse, encoded, sums, by_slot);
        const SetGradients g{a.out(23), a.out(24), a.out(25), a.out(26), a.out(27), a.out(28), a.out(29)};
        return encode_sets_gradient(a.sets(n), a.weights(), g, hidden, slots, keys, v[15], a.out(16), normal, inverse, encoded,
                                    sums, by_slot);
    }
    case HOSTILE:
        return first_slots(a.sets(n), v[5], v[6], a.out(7) + a.first * v[6]);
    case NORMALIZE:  // spans of columns, each its first and its width
        for (int r = 0; r < n; ++r) {
            const float* row = a.in(0) + a.index(2)[a.first + r] * v[1];
            float* out = a.rows(8) + r * a.stride(8);
            for (int64 span = 0; span < v[4]; ++span)
                for (int64 c = a.index(3)[2 * span], end = c + a.index(3)[2 * span + 1]; c < end; ++c)
                    *out++ = clipped(row[c] * a.in(5)[c] + a.in(6)[c], float(v[7]));
        }
        return;
    case PACK:
        return pack_entities(a.in(0), v[1], a.index(2) + a.first, n, v[3], v[4], a.index(5), v[6], a.in(7), a.in(8), v[9],
                             a.index(10) + a.first, a.out(11), reinterpret_cast<int32*>(v[12]));
    case ACT: {
        const Layout& at = *reinterpret_cast<const Layout*>(v[0]);
        const int slots = at.targets(), keys = slots * at.key_width;
        for (int64 r = a.first; r < a.first + n; ++r)
            act(at, *a.in(11), *a.in(1), a.in(2) + r * at.width, a.in(3) + r * keys, a.in(4) + r * slots,
                v[5] ? a.in(5) + a.index(10)[r] * v[6] : nullptr, a.out(7) + a.index(10)[r] * at.columns, a.out(8) + r, a.out(9) + r);
        return;
    }
    case SCORE: {
        const Layout& at = *reinterpret_cast<const Layout*>(v[0]);
        const Loss& loss = *reinterpret_cast<const Loss*>(v[1]);
        const int slots = int(at.choices[0]) - 1, keys = slots * at.key_width;
        for (int64 r = a.first; r < a.first + n; ++r) {
            const int64 step = a.index(7)[r], row = a.index(8)[r];
            score(at, loss, a.in(2) + r * at.width, a.in(3) + r * keys, a.in(4) + r * slots, a.in(9) + row * v[10],
                  v[11] ? a.in(11) + row * v[12] : nullptr, a.in(13) + step * at.columns, a.in(14)[step], a.in(15)[step],
                  a.in(16)[step], a.in(17)[step], a.in(18)[step], *reinterpret_cast<Terms*>(v[19]), a.out(5) + r * at.width,
                  a.out(6) + r * keys);
        }
        return;
    }
    }
}

// Run the operations between two addresses, each its number, its length and its arguments, for all rows block by block
inline void run_program(int64 begin, int64 finish, int64 rows)
{
    const auto *at = reinterpret_cast<const int64*>(begin), *end = reinterpret_cast<const int64*>(finish);
    const auto steps = [&](const int64* v) {
        return Steps{reinterpret_cast<const float*>(v[0]), reinterpret_cast<const float*>(v[1]), reinterpret_cast<const float*>(v[2]),
                     reinterpret_cast<const int64*>(v[3]), v[4], v[5], v[6], int(v[7]), v[8], v[9]};
    };
    for (int64 first = 0; first < rows; first += BLOCK)
        for (const int64* p = at; p < end; p += p[1]) {
            const Arguments a{p + 2, first};
            const int64* v = a.a;
            if (*p < ENTITY_STARTS)
                run_rows(int(*p), a, int(rows - first < BLOCK ? rows - first : BLOCK));
            else if (first == 0 && *p == ENTITY_STARTS)
                entity_starts(a.sets(rows), reinterpret_cast<int64*>(v[5]));
            else if (first == 0 && *p == STEPS)
                scan(steps(v), a.out(10), a.out(11));
            else if (first == 0 && *p == OFFSETS)
                entity_offsets(a.in(0), v[1], a.index(2), rows, v[3], v[4], reinterpret_cast<int64*>(v[5]));
            else if (first == 0)
                scan_gradient(steps(v), a.in(10), a.in(11), a.out(12));
        }
}

// Run an operation that is called alone
inline void run(int operation, const int64* v)
{
    const Arguments a{v, 0};
    switch (operation) {
    case PACK_ENTITIES:
        return pack_entities(a.in(0), v[1], a.index(2), v[3], v[4], v[5], a.index(6), v[7], a.in(8), a.in(9), v[10],
                             a.index(11), a.out(12), reinterpret_cast<int32*>(v[13]));
    case ROWS:
        for (int64 part = 0; part < v[1]; ++part)
            run_program(a.index(0)[2 * part], a.index(0)[2 * part + 1], v[2]);
        return;
    }
}

}  // namespace echelon
