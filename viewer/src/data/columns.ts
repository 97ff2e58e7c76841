// Codes integer columns: the counterpart of echelon/replay/columns.py. Byte planes are joined, zig-zag coding undone
// and the prediction added, modulo the width of the type. Sizes come from a file, so they are checked before they
// allocate memory.

import { BY_RATE, type ColumnSpec, type Dtype, type FrameColumnSpec } from "../protocol.gen";
import { ReplayError } from "./payload";

const BYTES: Record<Dtype, number> = { u8: 1, u16: 2, u32: 4, i8: 1, i16: 2, i32: 4 };

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

export interface ReadColumn<Spec extends ColumnSpec> {
  readonly spec: Spec;
  readonly ints: Ints; // row-major, shape [rows, width]
}

/** Rate of change of a column: `gain` times the integers of another column. */
interface Rate {
  readonly ints: Ints;
  readonly gain: number;
}

/** Return the integers of a column from its zig-zag residuals, row-major. */
function restore(zigzag: Uint32Array, spec: ColumnSpec, rows: number, width: number, rate: Rate | null): Ints {
  const { dtype, predict } = spec;
  const values = allocate(dtype, rows * width);
  for (let w = 0; w < width; w++) {
    for (let f = 0; f < rows; f++) {
      const coded = zigzag[f === 0 ? w : width + w * (rows - 1) + (f - 1)];
      // the typed array keeps the low bits, which implements the modulo
      values[f * width + w] = ((coded >>> 1) ^ -(coded & 1)) + predicted(values, predict, f, w, width);
      if (rate !== null && f > 0) values[f * width + w] += rate.gain * rate.ints[f * width + w];
    }
  }
  return values;
}

/** Return the prediction of value `w` of row `f` from the rows before. */
function predicted(values: Ints, predict: number, f: number, w: number, width: number): number {
  if (predict === 0 || f === 0) return 0;
  const last = values[(f - 1) * width + w];
  return predict !== 2 || f === 1 ? last : 2 * last - values[(f - 2) * width + w];
}

/** Return the size of a block [bytes]; throws for an unknown type. */
function blockBytes(columns: readonly ColumnSpec[], rows: number, widths: readonly number[]): number {
  let total = 0;
  columns.forEach((spec, i) => {
    const size = BYTES[spec.dtype];
    if (size === undefined) throw new ReplayError(`column "${spec.name}" has type "${spec.dtype}", expected u8 to i32`);
    total += rows * widths[i] * size;
  });
  return total;
}

/** Return the rate of a column predicted by rate; throws if there is none of its shape. */
function rateOf(spec: ColumnSpec, found: ReadonlyMap<string, ReadColumn<ColumnSpec>>, count: number): Rate {
  const { rate, gain } = spec as FrameColumnSpec;
  const by = found.get(rate ?? "");
  if (by === undefined || by.spec.predict === BY_RATE || by.ints.length !== count || !Number.isInteger(gain)) {
    throw new ReplayError(`column "${spec.name}" refers to no valid rate column`);
  }
  return { ints: by.ints, gain: gain ?? 0 };
}

/**
 * Decode a block of columns: the low bytes of every column's first row, then those of the other rows, then all higher
 * bytes. `data` must have exactly the size of the block.
 */
export function decodeBlock<Spec extends ColumnSpec>(
  columns: readonly Spec[],
  data: Uint8Array,
  rows: number,
  widthOf: (column: Spec) => number,
): Map<string, ReadColumn<Spec>> {
  const widths = columns.map(widthOf);
  const total = blockBytes(columns, rows, widths);
  if (data.length !== total) throw new ReplayError(`block holds ${data.length} bytes, expected ${total}`);
  const wide = widths.reduce((sum, width) => sum + width, 0);
  let [first, rest, high] = [0, Math.min(rows, 1) * wide, rows * wide];
  const found = new Map<string, ReadColumn<Spec>>();
  const later: (() => void)[] = []; // decoded last: columns predicted by rate need the integers of another
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
    found.set(spec.name, { spec, ints: allocate(spec.dtype, 0) }); // reserves its place in the order
    const fill = (rate: Rate | null) =>
      found.set(spec.name, { spec, ints: restore(zigzag, spec, rows, widths[i], rate) });
    if (spec.predict === BY_RATE) later.push(() => fill(rateOf(spec, found, count)));
    else fill(null);
  });
  for (const fill of later) fill();
  return found;
}

/** Return rows of integers within their bounds as the block that `decodeBlock` reads. */
export function encodeBlock<Spec extends ColumnSpec>(
  columns: readonly Spec[],
  rows: readonly ArrayLike<number>[],
  widthOf: (column: Spec) => number,
): Uint8Array<ArrayBuffer> {
  const widths = columns.map(widthOf);
  const wide = widths.reduce((sum, width) => sum + width, 0);
  const read = new Map<string, ReadColumn<Spec>>();
  let start = 0;
  columns.forEach((spec, i) => {
    const width = widths[i];
    const ints = Int32Array.from(
      { length: rows.length * width },
      (_, n) => rows[Math.trunc(n / width)][start + (n % width)],
    );
    read.set(spec.name, { spec, ints });
    start += width;
  });
  const data = new Uint8Array(blockBytes(columns, rows.length, widths));
  const lead = Math.min(rows.length, 1);
  let [first, rest, high] = [0, lead * wide, rows.length * wide];
  columns.forEach((spec, i) => {
    const [width, { ints }] = [widths[i], read.get(spec.name)!];
    const rate = spec.predict === BY_RATE ? rateOf(spec, read, ints.length) : null;
    const unused = 32 - 8 * BYTES[spec.dtype];
    for (let at = 0; at < ints.length; at++) {
      const [f, w] = [Math.trunc(at / width), at % width];
      let residual = ints[at] - predicted(ints, spec.predict, f, w, width);
      if (rate !== null && f > 0) residual -= rate.gain * rate.ints[at];
      const signed = (residual << unused) >> unused;
      const coded = (signed << 1) ^ (signed >> 31);
      const other = w * (rows.length - 1) + f - 1; // place of a value that is not in the first row
      data[f === 0 ? first + w : rest + other] = coded;
      for (let plane = 1; plane < BYTES[spec.dtype]; plane++)
        data[high + (plane - 1) * ints.length + (f === 0 ? w : width + other)] = coded >>> (8 * plane);
    }
    first += lead * width;
    rest += ints.length - lead * width;
    high += ints.length * (BYTES[spec.dtype] - 1);
  });
  return data;
}
