// Analysis of a match: contacts and fog of war, lines of sight, zone distance and mech curves.

import { describe, expect, test } from "vitest";
import * as control from "../src/control";
import { contactsOf, observersOf, fogTeam, hasDetected, recordsVisibility } from "../src/data/fog_of_war";
import { occluderHeights, visibleColumns } from "../src/data/line_of_sight";
import { distanceScale, paintZoneDistance } from "../src/data/heat";
import { MatchScan } from "../src/data/match_scan";
import { seriesOfMech } from "../src/data/mech_series";
import { floorHeights, pathToZone, zoneDistances } from "../src/data/zone_distance";
import { gaitPhase } from "../src/interpolate";
import { Appearance } from "../src/palette";
import { MechFlag } from "../src/protocol.gen";
import { type Columns, expectedOf, later, openedState, replayOf, smallReplay, stored } from "./fixtures";

const expected = expectedOf<Columns>("insight.json");
const insight = replayOf("insight.ecr");

/** Return a state with the golden match with policy columns open. */
const opened = () => openedState(insight);

describe("policy columns", () => {
  test("are restored exactly", () => {
    const { header, chunks } = insight;
    const columns = chunks[expected.chunk].insight!;
    for (const name of ["action", "value", "reward", "contact", "sees"] as const)
      expect(stored(header, name, columns[name]), name).toEqual(expected.columns[name]);
    expect(header.insight?.terms.length).toBe(columns.reward.length / columns.value.length);
  });

  test("are absent if not recorded", () => {
    const { chunks } = smallReplay();
    expect(chunks[0].insight).toBeNull();
    expect(contactsOf(chunks[0], chunks[0].tick0, 0)).toEqual([]);
    expect(hasDetected(chunks[0], chunks[0].tick0, 0, 1)).toBeNull();
  });
});

describe("fog of war", () => {
  test("of a team hides hostiles that no pilot has detected", async () => {
    const state = await opened();
    const match = state.match!;
    expect(recordsVisibility(match)).toBe(true);
    let hidden = 0;
    for (let tick = 0; tick <= control.lastTick(match); tick += match.header.frame_ticks) {
      state.fog = "red";
      control.seek(state, tick);
      const chunk = match.chunk!;
      match.header.roster.forEach(({ team }, mech) => {
        if (!(match.poses.flags[mech] & MechFlag.ALIVE) || match.poses.alive[mech] < 0.5) return;
        if (team === 1) return expect(match.shown[mech]).toBe(1);
        // a frame's SEEN flag belongs to the decision that led to it
        const at = chunk.tick.indexOf(tick);
        const knew = match.header.roster.some(
          (other, m) =>
            other.team === 1 &&
            (chunk.insight!.sees[(at * chunk.mechs + m) * Math.ceil(chunk.mechs / 8) + (mech >> 3)] >> (mech & 7)) & 1,
        );
        expect(match.shown[mech] > 0.5, `mech ${mech} at ${tick}`).toBe(knew);
        if (!knew) hidden++;
      });
    }
    expect(hidden).toBeGreaterThan(0);
  });

  test("of a mech shows what it has detected, including its contacts", async () => {
    const state = await opened();
    control.select(state, 6, false);
    state.fog = "mech";
    control.seek(state, 90);
    const match = state.match!;
    expect(fogTeam(match, "mech", 6)).toBe(1);
    expect(observersOf(match, "mech", 6)).toEqual([6]);
    const contacts = contactsOf(match.chunk!, state.tick, 6);
    for (const other of contacts) expect(hasDetected(match.chunk!, state.tick, 6, other)).toBe(true);
    match.shown.forEach((share, mech) => {
      if (mech !== 6 && match.poses.alive[mech] > 0.5)
        expect(share).toBe(hasDetected(match.chunk!, state.tick, 6, mech) ? 1 : 0);
    });
    control.select(state, -1, false);
    expect(state.fog).toBe("none");
  });

  test("cycles through the sides, and the mech if one is selected", async () => {
    const state = await opened();
    const seen = [1, 2, 3].map(() => (control.cycleFog(state), state.fog));
    expect(seen).toEqual(["blue", "red", "none"]);
    state.selected = 0;
    state.fog = "red";
    control.cycleFog(state);
    expect(state.fog).toBe("mech");
  });
});

describe("visibleColumns", () => {
  const size = [16, 9, 6] as const;
  const heights = new Uint8Array(size[0] * size[1]);
  for (let y = 0; y < size[1]; y++) heights[8 + y * size[0]] = 5; // a wall across the map

  test("ends at a wall, which is itself visible", () => {
    const seen = visibleColumns(heights, size, Float32Array.from([2.5, 4.5, 1.5]));
    for (let y = 0; y < size[1]; y++) {
      for (let x = 0; x < size[0]; x++) expect(seen[x + y * size[0]], `${x}, ${y}`).toBe(x <= 8 ? 1 : 0);
    }
  });

  test("passes over the wall from above, and is empty without eyes", () => {
    expect(visibleColumns(heights, size, Float32Array.from([2.5, 4.5, 40])).every((open) => open === 1)).toBe(true);
    expect(visibleColumns(heights, size, new Float32Array()).some((open) => open === 1)).toBe(false);
  });

  test("occluderHeights ignores glass and water", () => {
    const appearances = new Uint8Array(2 * 1 * 3);
    appearances[0] = Appearance.CONCRETE;
    appearances[4] = Appearance.CONCRETE;
    appearances[1] = Appearance.GLASS;
    expect([...occluderHeights(appearances, [2, 1, 3])]).toEqual([3, 0]);
  });
});

describe("zone distance", () => {
  const size = [12, 7, 6] as const;
  const heights = new Uint8Array(size[0] * size[1]);
  for (let y = 0; y < size[1] - 1; y++) heights[6 + y * size[0]] = 3; // a wall with a gap at one end
  const cost = zoneDistances([10, 2, 1.2], heights, size);

  test("paths lead around walls, each step closer", () => {
    const way = pathToZone(cost, heights, size, 1.5, 2.5);
    expect(way.some(([x, y]) => x > 6 && x < 7 && y > 6)).toBe(true);
    const lengths = way.map(([x, y]) => cost[Math.floor(x) + Math.floor(y) * size[0]]);
    expect(lengths.every((far, i) => i === 0 || far < lengths[i - 1])).toBe(true);
    expect(lengths.at(-1)).toBe(0);
  });

  test("floors pass under leaves and bridges", () => {
    const appearances = new Uint8Array(4 * 1 * 8);
    for (const z of [3, 4]) appearances[1 + 4 * z] = Appearance.CONCRETE; // a bridge
    for (const z of [1, 2]) appearances[2 + 4 * z] = Appearance.FOLIAGE;
    for (const z of [0, 1, 2]) appearances[3 + 4 * z] = Appearance.CONCRETE;
    expect([...floorHeights(appearances, [4, 1, 8])]).toEqual([0, 0, 0, 3]);
  });

  test("is infinite behind a closed wall and paths are empty outside", () => {
    const sealed = heights.slice();
    sealed[6 + 6 * size[0]] = 3;
    const none = zoneDistances([10, 2, 1.2], sealed, size);
    expect(none[1 + 2 * size[0]]).toBe(Infinity);
    expect(pathToZone(none, sealed, size, 1.5, 2.5)).toEqual([]);
    expect(pathToZone(cost, heights, size, -4, 2)).toEqual([]);
    const pixels = new Uint8Array(size[0] * size[1] * 4);
    paintZoneDistance(none, distanceScale(size, [10, 2, 1.2]), pixels);
    expect(pixels[(1 + 2 * size[0]) * 4]).toBe(24);
  });
});

describe("MatchScan", () => {
  test("returns every frame once, with rewards accumulated", async () => {
    const { header, chunks } = insight;
    const scan = new MatchScan(
      (number) => new Promise((resolve) => setTimeout(() => resolve(chunks[number]), number % 2 ? 0 : 4)),
      header,
    );
    scan.request(chunks.length, true, 3);
    while (scan.version < chunks.length) await later(5);
    const curves = scan.curves!;
    const terms = header.insight!.terms.length;
    const ticks = [...chunks[0].tick, ...chunks.slice(1).flatMap((chunk) => [...chunk.tick].slice(1))];
    expect(curves.seconds).toEqual(ticks.map((tick) => tick / header.tick_hz));
    const reward = chunks.reduce((sum, chunk, n) => {
      for (let f = n ? 1 : 0; f < chunk.frames; f++)
        for (let k = 0; k < terms; k++) sum += chunk.insight!.reward[(f * chunk.mechs + 3) * terms + k];
      return sum;
    }, 0);
    const gained = seriesOfMech(header, curves, null).find(({ name }) => name === "reward_so_far")!;
    expect(Array.from(gained.values).at(-1)).toBeCloseTo(reward, 4);
    const alive = chunks.reduce((sum, chunk) => {
      for (let at = chunk.mechs; at < chunk.mech.flags.length; at++)
        if (chunk.mech.flags[at] & MechFlag.ALIVE) sum += header.frame_ticks / header.tick_hz;
      return sum;
    }, 0);
    // a mech counts for nine columns, fewer at the map's border
    const sum = scan.presence.reduce((total, grid) => total + grid.reduce((a, b) => a + b, 0), 0);
    expect(sum).toBeLessThanOrEqual(alive * 9 + 1e-3);
    expect(sum).toBeGreaterThan(alive * 6);
    // spawns of the teams lie apart: each has its own grid
    const { x: xs, y: ys } = chunks[0].mech; // at the second frame
    for (const [mech, { team }] of header.roster.entries()) {
      const [x, y] = [xs[header.mechs + mech], ys[header.mechs + mech]];
      const at = Math.floor(x) + Math.floor(y) * header.world.size[0];
      expect(scan.presence[team][at]).toBeGreaterThan(scan.presence[1 - team][at]);
    }
    expect([scan.gridShare(chunks.length), scan.gridShare(2 * chunks.length)]).toEqual([1, 0.5]);
  });

  test.each(["retry", "delay"])("stops at a failed chunk and reads it after a %s", async (cause) => {
    const { header, chunks } = insight;
    let [now, broken] = [0, true];
    const scan = new MatchScan(
      (number) => (number === 1 && broken ? Promise.reject(new Error("gone")) : Promise.resolve(chunks[number])),
      header,
      () => now,
    );
    const ask = async () => {
      scan.request(chunks.length, true, -1);
      await later(20);
      return scan.version;
    };
    expect(await ask()).toBeLessThan(chunks.length);
    broken = false;
    expect(await ask(), "it is not asked for again at once").toBeLessThan(chunks.length);
    if (cause === "retry") scan.retry();
    else now = 1001;
    expect(await ask()).toBe(chunks.length);
    expect(scan.presence[0].some((value) => value > 0)).toBe(true);
  });
});

test("gaitPhase ends a chunk on a whole cycle near the recorded distance", () => {
  for (const walkedEnd of [0, 0.4, 1.9, -2.6, 11]) {
    expect(gaitPhase(0, walkedEnd, 0, 1.5)).toBe(0);
    const end = gaitPhase(walkedEnd, walkedEnd, 1, 1.5);
    expect(Math.abs(end - Math.round(end))).toBeLessThan(1e-9);
    expect(Math.abs(end * 1.5 - walkedEnd)).toBeLessThanOrEqual(0.75 + 1e-9);
  }
});

describe("loop", () => {
  test("repeats in both directions until it is cleared", async () => {
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

  test("is cleared if it is too short", async () => {
    const state = await opened();
    control.setLoop(state, 40, 42);
    expect(state.loop).toBeNull();
  });
});

describe("cameras", () => {
  test("free camera moves forward, and orbit returns to the map", async () => {
    const state = await opened();
    control.setCameraMode(state, "free");
    const before = [...state.camera.target];
    control.fly(state, 3, 0);
    const moved = Math.hypot(...state.camera.target.map((value, axis) => value - before[axis]));
    expect(moved).toBeCloseTo(3, 1);
    control.setCameraMode(state, "orbit");
    expect(state.camera.elevation).toBeGreaterThan(0);
  });

  test("first person changes to an orbit above the ground", async () => {
    const state = await opened();
    control.setCameraMode(state, "first");
    expect(state.selected).toBeGreaterThanOrEqual(0);
    expect(state.camera.distance).toBe(0);
    control.setCameraMode(state, "orbit");
    expect(state.camera.distance).toBeGreaterThan(4);
    expect(state.camera.mode).toBe("orbit");
  });
});
