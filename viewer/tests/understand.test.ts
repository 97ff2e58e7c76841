// What helps to understand a match: who knew of whom, what can be seen from where, the ways to the zone, the curves of a
// pilot, and where the director looks.

import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import * as control from "../src/control";
import { payload, scanFile } from "../src/data/container";
import { decodeChunk, decodeHeader } from "../src/data/decode";
import { contactsOf, eyesOf, fogTeam, knewOf, knowsSight } from "../src/data/knowledge";
import { heightsOf, seenFrom } from "../src/data/sight";
import { ChunkStore } from "../src/data/store";
import { Sweep } from "../src/data/sweep";
import { floorsOf, wayFrom, waysTo } from "../src/data/ways";
import { shotAt } from "../src/director";
import { gaitOf, makePoses } from "../src/interpolate";
import { Look } from "../src/palette";
import { MechFlag } from "../src/protocol.gen";
import { formatRoute, parseRoute } from "../src/routes";
import { sweptOf } from "../src/session";
import { type MatchState, type ViewerState, defaults } from "../src/state";
import { paintHeat, paintWays } from "../src/render/veil";
import { smallReplay } from "./fixtures";

const FOLDER = new URL("../../tests/golden/replays/", import.meta.url);
const expected = JSON.parse(readFileSync(new URL("insight.json", FOLDER), "utf8")) as {
  chunk: number; tick0: number; tick1: number; columns: Record<string, number[]>;
};

function insightReplay() {
  const bytes = new Uint8Array(readFileSync(new URL("insight.ecr", FOLDER)));
  const map = scanFile(bytes);
  const header = decodeHeader(payload(bytes, map.header));
  return { header, chunks: map.chunks.map((head) => decodeChunk(header, head, payload(bytes, head))) };
}

/** A state with the golden match with policy columns open, all of it in memory. */
async function opened(): Promise<ViewerState> {
  const { header, chunks } = insightReplay();
  const none = () => Promise.reject(new Error("unused"));
  const store = new ChunkStore((number) => Promise.resolve(chunks[number]));
  const index = {
    live: false, chunks: chunks.map((chunk): [number, number, number] => [chunk.tick0, chunk.tick1, 0]), outcome: null, markers: [],
    series: { second: [], score: [[], []], alive: [[], []], hp: [[], []], damage: [[], []] },
  } as MatchState["index"];
  const match: MatchState = {
    id: "x", run: "", title: "", source: { open: none, refresh: none, chunk: none, world: none, close: () => undefined }, header, index, store, markers: [],
    deaths: new Float64Array(header.mechs), world: null, scenery: null, chunk: null, chunkNumber: 0, poses: makePoses(header.mechs),
    shown: new Float32Array(header.mechs), sweep: new Sweep((number) => Promise.resolve(chunks[number]), sweptOf(header)),
  };
  const state = defaults();
  control.updateIndex(match, index);
  control.openMatch(state, match);
  for (let i = 0; i < chunks.length; i++) {
    store.want(i, chunks.length, 1);
    await new Promise((resolve) => setTimeout(resolve));
  }
  control.locate(state);
  return state;
}

describe("policy columns", () => {
  test("are those that Python wrote, to the last integer", () => {
    const { header, chunks } = insightReplay();
    const insight = chunks[expected.chunk].insight!;
    const scale = new Map(header.columns.map((column) => [column.name, column.scale]));
    for (const name of ["action", "value", "reward", "contact", "sees"] as const) {
      const integers = Array.from(insight[name], (value) => Math.round(value / (scale.get(name) ?? 1)) + 0);
      expect(integers, name).toEqual(expected.columns[name]);
    }
    expect(header.insight?.terms.length).toBe(insight.reward.length / insight.value.length);
  });

  test("are absent where they were not asked for", () => {
    const { chunks } = smallReplay();
    expect(chunks[0].insight).toBeNull();
    expect(contactsOf(chunks[0], chunks[0].tick0, 0)).toEqual([]);
    expect(knewOf(chunks[0], chunks[0].tick0, 0, 1)).toBeNull();
  });
});

describe("the fog of war", () => {
  test("hides hostiles of whom nobody knew, by every pilot's own sight", async () => {
    const state = await opened();
    const match = state.match!;
    expect(knowsSight(match)).toBe(true);
    let hidden = 0;
    for (let tick = 0; tick <= control.lastTick(match); tick += match.header.frame_ticks) {
      state.fog = "red";
      control.seek(state, tick);
      const chunk = match.chunk!;
      match.header.roster.forEach(({ team }, mech) => {
        if (!(match.poses.flags[mech] & MechFlag.ALIVE) || match.poses.alive[mech] < 0.5) return;
        if (team === 1) return expect(match.shown[mech]).toBe(1);
        // a frame's SEEN tells of the decision that led to it
        const at = chunk.tick.indexOf(tick);
        const knew = match.header.roster.some((other, m) => other.team === 1 && (chunk.insight!.sees[(at * chunk.mechs + m) * Math.ceil(chunk.mechs / 8) + (mech >> 3)] >> (mech & 7)) & 1);
        expect(match.shown[mech] > 0.5, `mech ${mech} at ${tick}`).toBe(knew);
        if (!knew) hidden++;
      });
    }
    expect(hidden).toBeGreaterThan(0);
  });

  test("of a mech is what it alone knew, its contacts among it", async () => {
    const state = await opened();
    control.select(state, 6, false);
    state.fog = "mech";
    control.seek(state, 90);
    const match = state.match!;
    expect(fogTeam(match, "mech", 6)).toBe(1);
    expect(eyesOf(match, "mech", 6)).toEqual([6]);
    const contacts = contactsOf(match.chunk!, state.tick, 6);
    for (const other of contacts) expect(knewOf(match.chunk!, state.tick, 6, other)).toBe(true);
    match.shown.forEach((share, mech) => {
      if (mech !== 6 && match.poses.alive[mech] > 0.5) expect(share).toBe(knewOf(match.chunk!, state.tick, 6, mech) ? 1 : 0);
    });
    control.select(state, -1, false);
    expect(state.fog).toBe("none");
  });

  test("goes round the sides, a mech's own only where one is selected", async () => {
    const state = await opened();
    const seen = [1, 2, 3].map(() => (control.cycleFog(state), state.fog));
    expect(seen).toEqual(["blue", "red", "none"]);
    state.selected = 0;
    state.fog = "red";
    control.cycleFog(state);
    expect(state.fog).toBe("mech");
  });
});

describe("sight over columns", () => {
  const size = [16, 9, 6] as const;
  const heights = new Uint8Array(size[0] * size[1]);
  for (let y = 0; y < size[1]; y++) heights[8 + y * size[0]] = 5; // a wall across the map

  test("ends at a wall, which is itself seen", () => {
    const seen = seenFrom(heights, size, Float32Array.from([2.5, 4.5, 1.5]));
    for (let y = 0; y < size[1]; y++) {
      for (let x = 0; x < size[0]; x++) expect(seen[x + y * size[0]], `${x}, ${y}`).toBe(x <= 8 ? 1 : 0);
    }
  });

  test("goes over the wall from high above it, and nobody sees nothing", () => {
    expect(seenFrom(heights, size, Float32Array.from([2.5, 4.5, 40])).every((open) => open === 1)).toBe(true);
    expect(seenFrom(heights, size, new Float32Array()).some((open) => open === 1)).toBe(false);
  });

  test("counts what hides, not glass and water", () => {
    const looks = new Uint8Array(2 * 1 * 3);
    looks[0] = Look.CONCRETE;
    looks[4] = Look.CONCRETE;
    looks[1] = Look.GLASS;
    expect([...heightsOf(looks, [2, 1, 3])]).toEqual([3, 0]);
  });
});

describe("ways to the zone", () => {
  const size = [12, 7, 6] as const;
  const heights = new Uint8Array(size[0] * size[1]);
  for (let y = 0; y < size[1] - 1; y++) heights[6 + y * size[0]] = 3; // a wall with a gap at the top
  const cost = waysTo([10, 2, 1.2], heights, size);

  test("lead round walls, each step nearer", () => {
    const way = wayFrom(cost, heights, size, 1.5, 2.5);
    expect(way.some(([x, y]) => x > 6 && x < 7 && y > 6)).toBe(true);
    const lengths = way.map(([x, y]) => cost[Math.floor(x) + Math.floor(y) * size[0]]);
    expect(lengths.every((far, i) => i === 0 || far < lengths[i - 1])).toBe(true);
    expect(lengths.at(-1)).toBe(0);
  });

  test("pass under leaves and bridges, not over roofs", () => {
    const looks = new Uint8Array(4 * 1 * 8);
    for (const z of [3, 4]) looks[1 + 4 * z] = Look.CONCRETE; // a bridge
    for (const z of [1, 2]) looks[2 + 4 * z] = Look.FOLIAGE;
    for (const z of [0, 1, 2]) looks[3 + 4 * z] = Look.CONCRETE;
    expect([...floorsOf(looks, [4, 1, 8])]).toEqual([0, 0, 0, 3]);
  });

  test("do not exist from the top of the wall's foot, and from outside", () => {
    const sealed = heights.slice();
    sealed[6 + 6 * size[0]] = 3;
    const none = waysTo([10, 2, 1.2], sealed, size);
    expect(none[1 + 2 * size[0]]).toBe(Infinity);
    expect(wayFrom(none, sealed, size, 1.5, 2.5)).toEqual([]);
    expect(wayFrom(cost, heights, size, -4, 2)).toEqual([]);
    const pixels = new Uint8Array(size[0] * size[1] * 4);
    paintWays(none, pixels);
    expect(pixels[(1 + 2 * size[0]) * 4]).toBe(150);
  });

  test("heat is clearest at its peak and nothing where nothing was", () => {
    const pixels = new Uint8Array(12);
    paintHeat(Float32Array.from([0, 1, 10]), pixels);
    expect(pixels[3]).toBe(0);
    expect(pixels[11]).toBeGreaterThan(pixels[7]);
  });
});

describe("reading the whole match", () => {
  test("gives every frame once, and what was paid adds up", async () => {
    const { header, chunks } = insightReplay();
    const sweep = new Sweep((number) => new Promise((resolve) => setTimeout(() => resolve(chunks[number]), number % 2 ? 0 : 4)), sweptOf(header));
    sweep.want(chunks.length, true, 3);
    while (sweep.version < chunks.length) await new Promise((resolve) => setTimeout(resolve, 5));
    const curves = sweep.curves!;
    const ticks = [...chunks[0].tick, ...chunks.slice(1).flatMap((chunk) => [...chunk.tick].slice(1))];
    expect(curves.seconds).toEqual(ticks.map((tick) => tick / header.tick_hz));
    const paid = chunks.reduce((sum, chunk, n) => {
      for (let f = n ? 1 : 0; f < chunk.frames; f++)
        for (let k = 0; k < curves.terms.length; k++) sum += chunk.insight!.reward[(f * chunk.mechs + 3) * curves.terms.length + k];
      return sum;
    }, 0);
    expect(curves.gained.at(-1)).toBeCloseTo(paid, 4);
    const alive = chunks.reduce((sum, chunk) => {
      for (let at = chunk.mechs; at < chunk.mech.flags.length; at++) if (chunk.mech.flags[at] & MechFlag.ALIVE) sum += header.frame_ticks / header.tick_hz;
      return sum;
    }, 0);
    // a mech counts for nine columns, fewer at the border
    expect(sweep.presence.reduce((a, b) => a + b, 0)).toBeLessThanOrEqual(alive * 9 + 1e-3);
    expect(sweep.presence.reduce((a, b) => a + b, 0)).toBeGreaterThan(alive * 6);
  });

  test("ends at a chunk that cannot be had, until it is tried again", async () => {
    const { header, chunks } = insightReplay();
    let broken = true;
    const sweep = new Sweep((number) => (number === 1 && broken ? Promise.reject(new Error("gone")) : Promise.resolve(chunks[number])), sweptOf(header));
    sweep.want(chunks.length, true, -1);
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(sweep.version).toBeLessThan(chunks.length);
    broken = false;
    sweep.retry();
    sweep.want(chunks.length, true, -1);
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(sweep.presence.some((value) => value > 0)).toBe(true);
    expect(sweep.version).toBeGreaterThanOrEqual(chunks.length);
  });
});

test("the director's shot is the same however its moment was reached, and holds for some seconds", async () => {
  const state = await opened();
  const match = state.match!;
  const shots = [90, 100, 150].map((tick) => shotAt(match, tick)!);
  expect(shotAt(match, 90)).toEqual(shots[0]);
  expect(shots[1].target).toEqual(shots[0].target);
  const [x, y] = match.header.world.size;
  for (const { target, distance } of shots) {
    expect(target[0] >= 0 && target[0] <= x && target[1] >= 0 && target[1] <= y).toBe(true);
    expect(distance).toBeGreaterThan(10);
  }
});

describe("legs", () => {
  test("end a chunk with the foot they began it with, and go the recorded way between", () => {
    for (const stretch of [0, 0.4, 1.9, -2.6, 11]) {
      expect(gaitOf(0, stretch, 0, 1.5)).toBe(0);
      const end = gaitOf(stretch, stretch, 1, 1.5);
      expect(Math.abs(end - Math.round(end))).toBeLessThan(1e-9);
      expect(Math.abs(end * 1.5 - stretch)).toBeLessThanOrEqual(0.75 + 1e-9);
    }
  });
});

describe("a loop", () => {
  test("plays its stretch again, both ways, until it is let go", async () => {
    const state = await opened();
    control.seek(state, 40);
    control.markLoop(state);
    control.seek(state, 80);
    control.markLoop(state);
    expect(state.loop).toEqual([40, 80]);
    control.seek(state, 79);
    control.tickClock(state, 0.2);
    expect(state.tick).toBe(40);
    control.reverse(state);
    control.tickClock(state, 0.1);
    expect(state.tick).toBe(80);
    control.markLoop(state);
    expect(state.loop).toBeNull();
  });

  test("too short to be seen is none", async () => {
    const state = await opened();
    control.setLoop(state, 40, 42);
    expect(state.loop).toBeNull();
  });
});

describe("cameras", () => {
  test("fly ahead, and come back to the map", async () => {
    const state = await opened();
    control.setCameraMode(state, "free");
    const before = [...state.camera.target];
    control.fly(state, 3, 0, 0);
    const moved = Math.hypot(...state.camera.target.map((value, axis) => value - before[axis]));
    expect(moved).toBeCloseTo(3, 1);
    control.setCameraMode(state, "orbit");
    expect(state.camera.elevation).toBeGreaterThan(0);
  });

  test("in a mech let go into an orbit above the ground", async () => {
    const state = await opened();
    control.setCameraMode(state, "first");
    expect(state.selected).toBeGreaterThanOrEqual(0);
    expect(state.camera.distance).toBe(0);
    control.setCameraMode(state, "orbit");
    expect(state.camera.distance).toBeGreaterThan(4);
    expect(state.camera.mode).toBe("orbit");
  });
});

test("an address keeps the view, the fog, what lies on the ground, the loop and whose newest match it wants", () => {
  const route = {
    match: "abc", seconds: 3, mech: 2, camera: "free" as const, view: [1.25, -2, 3, 0.5, -0.3, 0] as [number, number, number, number, number, number],
    fog: "mech" as const, layer: "damage" as const, loop: [1, 2.5] as [number, number], newest: "20260101-run",
  };
  expect(parseRoute(formatRoute(route))).toEqual(route);
  expect(parseRoute("#match=abc&view=1~2~x~4~5~6&fog=all&layer=&ab=5~2&newest=../x")).toMatchObject({
    view: undefined, fog: undefined, layer: undefined, loop: undefined, newest: undefined,
  });
});
