// The observation of a mech: its form, where contacts are believed to be, and any value of a mech as a series.

import { zlibSync } from "fflate";
import { describe, expect, test } from "vitest";
import { matching, recordedNames, seriesOfMech, valueAt, valueText } from "../src/data/mech_series";
import { MatchScan } from "../src/data/match_scan";
import { ObservationStore, beliefsAt, rowAt, unpackObservations } from "../src/data/observations";
import { ReplayError } from "../src/data/payload";
import { draws, later, replayOf } from "./fixtures";

const COLUMNS: [string, number, number, string][] = [
  ["contacts[0].ahead", -1.5, 1.5, "map edges"],
  ["contacts[0].left", -1.5, 1.5, "map edges"],
  ["contacts[0].up", -1, 1, "map edges"],
  ["contacts[0].valid", 0, 1, "flag"],
  ["ego.hull", 0, 1, "share"],
  ["aiming[0].range", 0, 8, "15 vox"],
];
const { header, chunks } = replayOf("insight.ecr");

/** Pack observations as echelon/arena/observations.py does. */
function packed(rows: number[][], contacts: number[], cut = 0): Uint8Array {
  const about = { tick: 0, step: header.frame_ticks, rows: rows.length, contacts: 1, columns: COLUMNS };
  const json = JSON.stringify(about);
  const text = new TextEncoder().encode(json + " ".repeat((4 - (json.length % 4)) % 4));
  const words = Float32Array.from(COLUMNS.flatMap((_, k) => rows.map((row) => row[k])));
  const parts = [Uint32Array.of(text.length), text, Int32Array.from(contacts), words];
  const body = Buffer.concat(parts.map((part) => Buffer.from(part.buffer, part.byteOffset, part.byteLength)));
  const whole = body.subarray(0, body.length - cut);
  return new Uint8Array(
    Buffer.concat([Uint32Array.of(whole.length), zlibSync(whole)].map((part) => Buffer.from(part.buffer))),
  );
}

describe("observations", () => {
  test("are restored by column, and refused at another size", () => {
    const found = unpackObservations(
      packed(
        [
          [1, 2, 3, 1, 0.5, 2],
          [4, 5, 6, 0, 0.25, 3],
        ],
        [7, -1],
      ),
    );
    expect([found.count, found.slots, [...found.contacts]]).toEqual([2, 1, [7, -1]]);
    expect(found.columns[5]).toEqual({ name: "aiming[0].range", low: 0, high: 8, unit: "15 vox" });
    expect([...found.values[1]]).toEqual([2, 5]);
    expect([0, 4.9, 5, 99].map((tick) => rowAt(found, tick))).toEqual([0, 0, 1, 1]);
    expect(() => unpackObservations(packed([[1, 2, 3, 1, 0, 0]], [7], 4))).toThrow(ReplayError);
    expect(() => unpackObservations(new Uint8Array(2))).toThrow(ReplayError);
  });

  test("place contacts where the pilot believes them, whatever its heading", () => {
    const draw = draws();
    const edge = Math.max(...header.world.size);
    const chunk = chunks[0];
    for (let row = 0; row < chunk.frames; row++) {
      const at = row * chunk.mechs + 3;
      const there = [draw() * edge, draw() * edge, draw() * 9];
      const [dx, dy, dz] = (["x", "y", "z"] as const).map((axis, k) => (there[k] - chunk.mech[axis][at]) / edge);
      const [sin, cos] = [Math.sin(chunk.mech.yaw[at]), Math.cos(chunk.mech.yaw[at])];
      const values = [dx * cos + dy * sin, dy * cos - dx * sin, dz, 0.4, 1, 1];
      const rows = Array.from({ length: chunk.frames }, () => values);
      const found = unpackObservations(
        packed(
          rows,
          rows.map(() => 6),
        ),
      );
      const [belief] = beliefsAt(found, header, chunk, row * header.frame_ticks + 2, 3);
      expect([belief.mech, belief.slot]).toEqual([6, 0]);
      expect(belief.sure).toBeCloseTo(0.4, 5);
      belief.at.forEach((value, k) => expect(value).toBeCloseTo(there[k], 3));
    }
    const none = unpackObservations(packed([[0, 0, 0, 0, 1, 1]], [-1]));
    expect(beliefsAt(none, header, chunk, 0, 3)).toEqual([]);
  });

  test("are asked for once per mech; a late answer for another mech is dropped", async () => {
    const answers: ((found: ReturnType<typeof unpackObservations>) => void)[] = [];
    const store = new ObservationStore((mech) =>
      mech === 9 ? Promise.reject(new Error("no actions")) : new Promise((done) => answers.push(done)),
    );
    const found = unpackObservations(packed([[0, 0, 0, 0, 1, 1]], [-1]));
    expect([store.of(1, true), store.of(1, true), store.of(2, true), store.of(1, false)]).toEqual([
      null,
      null,
      null,
      null,
    ]);
    expect(answers.length).toBe(2);
    answers[0](found);
    await later();
    expect(store.of(2, true)).toBeNull();
    answers[1](found);
    await later();
    expect(store.of(2, true)).toBe(found);
    store.of(9, true);
    await later();
    expect([store.problem, store.of(9, true)]).toEqual(["no actions", null]);
  });
});

describe("series of a mech", () => {
  test("have every recorded value and column, the last one not after a time, found by words", async () => {
    const scan = new MatchScan((number) => Promise.resolve(chunks[number]), header);
    scan.request(chunks.length, false, 3);
    while (scan.version < chunks.length) await later();
    const found = unpackObservations(
      packed(
        [
          [1, 2, 3, 1, 0.5, 2],
          [4, 5, 6, 0, 0.25, 3],
        ],
        [7, -1],
      ),
    );
    const series = seriesOfMech(header, scan.curves!, found);
    expect(series.length).toBe(recordedNames(header).length + COLUMNS.length);
    const end = chunks.at(-1)!;
    const of = (text: string) => matching(series, text);
    const taken = of("figures taken")[0];
    expect(valueAt(taken, 1e9)).toBeCloseTo(scanned(3), 3);
    expect(valueAt(of("state.leg_hp")[0], 1e9)).toBe(end.mech.leg_hp[(end.frames - 1) * end.mechs + 3]);
    const hull = of("hull share")[0];
    expect([-1, 0, 0.24, 0.25, 9].map((second) => valueAt(hull, second))).toEqual([NaN, 0.5, 0.5, 0.25, 0.25]);
    expect(of("contacts[0] edges").map(({ name }) => name)).toEqual(["ahead", "left", "up"]);
    expect(valueText(header, "map edges", 0.5)).toBe(
      `0.500 map edges (${(Math.max(...header.world.size) / 2).toFixed(1)} vox)`,
    );
    expect([valueText(header, "15 vox", 2), valueText(header, "flag", 1), valueText(header, "", NaN)]).toEqual([
      "2 × 15 vox (30.0 vox)",
      "yes",
      "–",
    ]);
  });
});

/** Return the damage that a mech took in the golden match. */
function scanned(mech: number): number {
  return chunks.reduce((sum, { events }) => {
    for (let i = 0; i < events.count; i++)
      if (events.kind[i] === 1 && events.target[i] === mech) sum += events.value[i];
    return sum;
  }, 0);
}
