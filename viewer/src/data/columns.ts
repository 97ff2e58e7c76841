// Integer columns from bytes: the mirror of echelon/replay/columns.py. Byte planes are joined, zig-zag undone and the
// prediction added back, modulo the width of the type. Sizes come from a file, so they are checked before anything is
// allocated by them.

import { BY_RATE, type ColumnSpec, type Dtype, type FrameColumnSpec } from "../protocol.gen";

const BYTES: Record<Dtype, number> = { u8: 1, u16: 2, u32: 4, i8: 1, i16: 2, i32: 4 };

/** Make the typed array of a column. */
function allocate(dtype: Dtype, length: number) {
  switch (dtype) {
    case "u8":
      return new Uint8Array(length);
    case "i8":
      return new Int8Array(length);
    case "u16":
      return new Uint16Array(length);
    case "i16":
      return new Int16Array(length);
    case "u32":
      return new Uint32Array(length);
    case "i32":
      return new Int32Array(length);
  }
}

export type Ints = ReturnType<typeof allocate>;

/** One column of a block as it was read. */
export interface ReadColumn<Spec extends ColumnSpec> {
  readonly spec: Spec;
  readonly ints: Ints; // row by row, shape [rows, width]
}

/** How fast a column changes: `gain` times the integers of another, row by row. */
interface Rate {
  readonly ints: Ints;
  readonly gain: number;
}

/** Turn the zig-zag residuals of a column into its integers, row by row. */
function restore(zigzag: Uint32Array, spec: ColumnSpec, rows: number, width: number, rate: Rate | null): Ints {
  const { dtype, predict } = spec;
  const values = allocate(dtype, rows * width);
  for (let w = 0; w < width; w++) {
    for (let f = 0; f < rows; f++) {
      const coded = zigzag[f === 0 ? w : width + w * (rows - 1) + (f - 1)];
      // the typed array keeps the low bits, which is the "modulo the width" of the format
      values[f * width + w] = ((coded >>> 1) ^ -(coded & 1)) + predicted(values, predict, f, w, width);
      if (rate !== null && f > 0) values[f * width + w] += rate.gain * rate.ints[f * width + w];
    }
  }
  return values;
}

/** What the rows before say that value `w` of row `f` will be. */
function predicted(values: Ints, predict: number, f: number, w: number, width: number): number {
  if (predict === 0 || f === 0) return 0;
  const last = values[(f - 1) * width + w];
  return predict !== 2 || f === 1 ? last : 2 * last - values[(f - 2) * width + w];
}

/** Bytes of a block; throws at a type this viewer does not know. */
function blockBytes(columns: readonly ColumnSpec[], rows: number, widths: readonly number[]): number {
  let total = 0;
  columns.forEach((spec, i) => {
    const size = BYTES[spec.dtype];
    if (size === undefined) throw new Error(`column "${spec.name}" has type "${spec.dtype}", wanted u8 to i32`);
    total += rows * widths[i] * size;
  });
  return total;
}

/** The rate of a column that goes by one; throws where there is none of its shape. */
function rateOf(spec: ColumnSpec, found: ReadonlyMap<string, ReadColumn<ColumnSpec>>, count: number): Rate {
  const { rate, gain } = spec as FrameColumnSpec;
  const by = found.get(rate ?? "");
  if (by === undefined || by.spec.predict === BY_RATE || by.ints.length !== count || !Number.isInteger(gain)) {
    throw new Error(`column "${spec.name}" has no rate to go by`);
  }
  return { ints: by.ints, gain: gain ?? 0 };
}

/**
 * Decode a block of columns: the low bytes of every column's first row, then those of the other rows, then all higher
 * bytes; the whole of `data` must be used.
 */
export function decodeBlock<Spec extends ColumnSpec>(
  columns: readonly Spec[], data: Uint8Array, rows: number, widthOf: (column: Spec) => number,
): Map<string, ReadColumn<Spec>> {
  const widths = columns.map(widthOf);
  const total = blockBytes(columns, rows, widths);
  if (data.length !== total) throw new Error(`block holds ${data.length} bytes, wanted ${total}`);
  const wide = widths.reduce((sum, width) => sum + width, 0);
  let [first, rest, high] = [0, Math.min(rows, 1) * wide, rows * wide];
  const found = new Map<string, ReadColumn<Spec>>();
  const later: (() => void)[] = []; // columns that go by another, whose integers must be there first
  columns.forEach((spec, i) => {
    const [count, lead] = [rows * widths[i], Math.min(rows, 1) * widths[i]];
    const zigzag = new Uint32Array(count);
    for (let n = 0; n < count; n++) zigzag[n] = n < lead ? data[first + n] : data[rest + n - lead];
    for (let plane = 1; plane < BYTES[spec.dtype]; plane++) {
      const at = high + (plane - 1) * count;
      for (let n = 0; n < count; n++) zigzag[n] = (zigzag[n] | (data[at + n] << (8 * plane))) >>> 0;
    }
    first += lead;
    rest += count - lead;
    high += count * (BYTES[spec.dtype] - 1);
    found.set(spec.name, { spec, ints: allocate(spec.dtype, 0) }); // keeps the order
    const fill = (rate: Rate | null) => found.set(spec.name, { spec, ints: restore(zigzag, spec, rows, widths[i], rate) });
    if (spec.predict === BY_RATE) later.push(() => fill(rateOf(spec, found, count)));
    else fill(null);
  });
  for (const fill of later) fill();
  return found;
}
