// Effects and rounds under fog of war: nothing reveals the position of hidden mechs.

import { Vector3 } from "three";
import { describe, expect, test } from "vitest";
import type { Chunk, EventRows } from "../src/data/replay";
import { sampleMech } from "../src/interpolate";
import { EventKind, HitFlag } from "../src/protocol.gen";
import { type EffectPools, Effects } from "../src/render/effects";
import type { Mechs } from "../src/render/mechs";
import { drawRounds } from "../src/render/rounds";
import { worldPoint } from "../src/spaces";
import { sensorReplay } from "./fixtures";

const [SOURCE, OTHER] = [0, 5]; // far apart at the start of the match
const NEAR = 5; // distance within which a drawing reveals a mech [vox]
const AFTER = 2; // time after an event at which effects are checked [ticks]
const { header, chunks } = sensorReplay();
const weapon = (name: string) => header.weapons.findIndex((spec) => spec.name === name);
const shown = (...hidden: number[]) => Float32Array.from(header.roster, (_, mech) => (hidden.includes(mech) ? 0 : 1));

/** Return the first chunk with only these events: tick, kind, actor, target, weapon, value, flags, x, y, z. */
function chunkWith(...rows: number[][]): Chunk {
  const names = ["tick", "kind", "actor", "target", "weapon", "value", "flags", "x", "y", "z"];
  const events = Object.fromEntries(names.map((name, k) => [name, Float64Array.from(rows, (row) => row[k])]));
  const none = { ...chunks[0].rounds, count: 0 };
  return { ...chunks[0], rounds: none, events: { ...events, count: rows.length } as unknown as EventRows };
}

/** Return pools that record the points where something is drawn. */
function recordingPools(): { pools: EffectPools; points: Vector3[] } {
  const points: Vector3[] = [];
  const beams = { add: (from: Vector3, to: Vector3) => points.push(from.clone(), to.clone()) };
  const sprites = { add: (x: number, y: number, z: number) => points.push(new Vector3(x, y, z)) };
  return { pools: { beams, sprites, numbers: { add: () => undefined } } as unknown as EffectPools, points };
}

const mechs = {
  height: () => 3,
  muzzle: (_: number, x: number, y: number, z: number, _yaw: number, out: Vector3) => worldPoint(x, y, z, out),
} as unknown as Mechs;

function place(mech: number, tick: number): Vector3 {
  const { x, y, z } = sampleMech(chunks[0], mech, tick, header.tick_hz);
  return worldPoint(x, y, z, new Vector3());
}

/** Return whether an event draws anything near a mech. */
function drawnNear(mech: number, event: number[], hidden: number[]): boolean {
  const { pools, points } = recordingPools();
  const tick = event[0] + AFTER;
  new Effects(header, mechs, pools).draw([chunkWith(event)], tick, shown(...hidden), shown(...hidden));
  return points.some((point) => point.distanceTo(place(mech, event[0])) < NEAR);
}

const at = chunks[0].tick0 + 1;
const [gunner, between] = [place(SOURCE, at), place(SOURCE, at).lerp(place(OTHER, at), 0.5)];
const middle = [between.x, -between.z, between.y];

describe("effects under the fog of war", () => {
  test("use two mechs that are far apart", () => {
    expect(gunner.distanceTo(place(OTHER, at))).toBeGreaterThan(4 * NEAR);
  });

  test.each([
    ["a hit", [at, EventKind.HIT, SOURCE, OTHER, weapon("laser"), 10, 0, 0, 0, 0]],
    ["a heavy hit", [at, EventKind.HIT, SOURCE, OTHER, weapon("gauss"), 10, 0, 0, 0, 0]],
    ["painting", [at, EventKind.PAINT, SOURCE, OTHER, weapon("painter"), 0, 0, 0, 0, 0]],
  ])("of %s appear only at visible mechs", (name, event) => {
    // rounds are drawn along their flight, not with the hit
    expect(drawnNear(SOURCE, event, [])).toBe(name !== "a heavy hit");
    expect(drawnNear(OTHER, event, [])).toBe(true);
    expect(drawnNear(SOURCE, event, [SOURCE])).toBe(false);
    expect(drawnNear(OTHER, event, [SOURCE])).toBe(name !== "painting"); // the hit is drawn at its target
    expect(drawnNear(OTHER, event, [OTHER])).toBe(false);
  });

  test.each([
    ["launching", [at, EventKind.LAUNCH, SOURCE, -1, weapon("missile"), 0, 0, 0, 0, 0]],
    ["point defence", [at, EventKind.AMS, SOURCE, OTHER, weapon("missile"), 0, HitFlag.STOPPED, ...middle]],
    ["shutting down", [at, EventKind.SHUTDOWN, SOURCE, -1, -1, 0, 0, 0, 0, 0]],
  ])("of %s are hidden for a hidden mech", (_, event) => {
    expect(drawnNear(SOURCE, event, [])).toBe(true);
    expect(drawnNear(SOURCE, event, [SOURCE])).toBe(false);
  });

  test("of an intercepted missile appear even if the defender is hidden", () => {
    const { pools, points } = recordingPools();
    const event = [at, EventKind.AMS, SOURCE, OTHER, weapon("missile"), 0, HitFlag.STOPPED, ...middle];
    new Effects(header, mechs, pools).draw([chunkWith(event)], at + AFTER, shown(SOURCE, OTHER), shown());
    expect(points.some((point) => point.distanceTo(between) < NEAR)).toBe(true);
  });
});

describe("rounds under the fog of war", () => {
  const missile = weapon("missile");
  const [range, ticks] = [
    gunner.distanceTo(between),
    (gunner.distanceTo(between) / header.weapons[missile].speed) * header.tick_hz,
  ];
  const chunk = chunkWith(
    [at, EventKind.LAUNCH, SOURCE, -1, missile, 0, 0, 0, 0, 0],
    [at + ticks, EventKind.IMPACT, SOURCE, -1, missile, 0, 0, ...middle],
  );
  const drawn = (share: number, ...hidden: number[]) => {
    const { pools, points } = recordingPools();
    drawRounds([chunk], header, at + ticks * share, shown(...hidden), pools);
    return points.map((point) => point.distanceTo(gunner));
  };

  test("start at a visible owner", () => {
    expect(range).toBeGreaterThan(12);
    expect(Math.min(...drawn(0.2))).toBeLessThan(2);
  });

  test("and their smoke appear only away from a hidden owner", () => {
    expect(drawn(0.2, SOURCE)).toEqual([]);
    const late = drawn(0.99, SOURCE);
    expect(late.length).toBeGreaterThan(0);
    expect(Math.min(...late)).toBeGreaterThan(NEAR);
  });
});
