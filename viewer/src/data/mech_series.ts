// Everything of one mech that can be drawn over the match: its figures, motion and actions, and every column of
// what its policy observed. Pure.

import type { Header } from "../protocol.gen";
import { FIGURES, addFigures, noFigures } from "./figures";
import { type Observations, voxels } from "./observations";
import type { Chunk } from "./replay";

/** Every recorded value of one mech: a line per name of `recordedNames`, with a value per frame in time order. */
export interface MechCurves {
  mech: number;
  seconds: number[];
  values: number[][];
}

/** A value of a mech: its group and name, and unit. */
export interface SeriesName {
  readonly group: string;
  readonly name: string;
  readonly unit: string;
}

export interface MechSeries extends SeriesName {
  readonly seconds: ArrayLike<number>; // times of the values, ascending
  readonly values: ArrayLike<number>;
}

const FIGURE_UNITS: Partial<Record<string, string>> = { damage: "hit points", taken: "hit points", zone_s: "s" };
const MOTION = [
  ["speed", "vox/s"],
  ["x", "vox"],
  ["y", "vox"],
  ["z", "vox"],
  ["leg_hp", "hit points"],
  ["hp", "hit points"],
  ["heat", "heat units"],
  ["stability", "points"],
] as const;

/** Return the values that chunks have of a mech, in the order of `mechValues`; a `sum` grows from chunk to chunk. */
export function recordedNames({ insight }: Header): (SeriesName & { readonly sum: boolean })[] {
  return [
    ...FIGURES.map((name) => ({ group: "figures", name, unit: FIGURE_UNITS[name] ?? "", sum: true })),
    ...MOTION.map(([name, unit]) => ({ group: "state", name, unit, sum: false })),
    ...(insight?.actions ?? []).map((name) => ({ group: "actions", name, unit: "−1 to 1", sum: false })),
    ...(insight?.estimates ? [{ group: "policy", name: "predicted_value", unit: "", sum: false }] : []),
    ...(insight ? [{ group: "policy", name: "reward_so_far", unit: "", sum: true }] : []),
    ...(insight?.terms ?? []).map((name) => ({ group: "reward so far", name, unit: "", sum: true })),
  ];
}

/** Return the values of a mech at each frame of a chunk, shape [frames][K]; sums count from its start. */
export function mechValues(header: Header, chunk: Chunk, mech: number): number[][] {
  const [{ insight }, { insight: recorded }] = [chunk, header];
  const gained = (recorded?.terms ?? []).map(() => 0);
  return Array.from(chunk.tick, (tick, frame) => {
    const at = frame * chunk.mechs + mech;
    const figures = noFigures(header.mechs);
    addFigures(figures, header, chunk, tick);
    // the first frame of a chunk repeats the last frame of the previous chunk
    if (frame > 0) gained.forEach((_, k) => (gained[k] += insight?.reward[at * gained.length + k] ?? 0));
    return [
      ...FIGURES.map((name) => figures[name][mech]),
      ...MOTION.map(([name]) =>
        name === "speed" ? Math.hypot(chunk.mech.vx[at], chunk.mech.vy[at]) : chunk.mech[name][at],
      ),
      ...(recorded?.actions ?? []).map((_, k, { length }) => insight?.action[at * length + k] ?? 0),
      ...(recorded?.estimates ? [insight?.value[at] ?? 0] : []),
      ...(recorded ? [gained.reduce((sum, reward) => sum + reward, 0), ...gained] : []),
    ];
  });
}

/** Return all series of a mech, those of the observation grouped by block and slot. */
export function seriesOfMech(header: Header, curves: MechCurves, found: Observations | null): MechSeries[] {
  const recorded = recordedNames(header).map(({ group, name, unit }, k) => ({
    ...{ group, name, unit },
    ...{ seconds: curves.seconds, values: curves.values[k] },
  }));
  if (!found) return recorded;
  const seconds = Array.from({ length: found.count }, (_, row) => (found.tick + row * found.step) / header.tick_hz);
  const observed = found.columns.map(({ name, unit }, k) => {
    const [group, ...rest] = name.split(".");
    return { group, name: rest.join("."), unit, seconds, values: found.values[k] };
  });
  return [...recorded, ...observed];
}

/** Return the value of a series at a time: the last one not after it; NaN before the first. */
export function valueAt({ seconds, values }: Pick<MechSeries, "seconds" | "values">, second: number): number {
  let [low, high] = [0, Math.min(seconds.length, values.length)];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (seconds[middle] <= second + 1e-6) low = middle + 1;
    else high = middle;
  }
  return low > 0 ? values[low - 1] : NaN;
}

/** Return the series whose group, name or unit has all words of a text. */
export function matching<S extends SeriesName>(series: readonly S[], text: string): S[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  return series.filter(({ group, name, unit }) => {
    const all = `${group}.${name} ${name.replace(/_/g, " ")} ${unit}`.toLowerCase();
    return words.every((word) => all.includes(word));
  });
}

/** Return a value with its unit, distances also in voxels: "0.31 map edges (15.5 vox)". */
export function valueText(header: Header, unit: string, value: number): string {
  if (Number.isNaN(value)) return "–";
  const digits = Number.isInteger(value) ? 0 : Math.abs(value) < 10 ? 3 : 1;
  if (unit === "flag") return value === 0 ? "no" : value === 1 ? "yes" : value.toFixed(2);
  const vox = voxels(header, unit, value);
  const times = vox !== null && unit !== "map edges" ? "× " : "";
  const shown = [
    value.toFixed(digits),
    unit.includes("share") ? "" : times + unit,
    vox === null ? "" : `(${vox.toFixed(1)} vox)`,
  ];
  return shown.filter(Boolean).join(" ");
}
