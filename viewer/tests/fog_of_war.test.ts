// Effects and rounds under fog of war: nothing reveals the position of hidden mechs.

import { Vector3 } from "three";
import { describe, expect, test } from "vitest";
import type { Chunk } from "../src/data/replay";
import { sampleMech } from "../src/interpolate";
import { EventKind, HitFlag } from "../src/protocol.gen";
import { type EffectPools, Effects } from "../src/render/effects";
import type { Mechs } from "../src/render/mechs";
import { drawRounds } from "../src/render/rounds";
import { worldPoint } from "../src/spaces";
import { type EventRow, eventRows, sensorReplay } from "./fixtures";

const [SOURCE, OTHER] = [0, 5]; // far apart at the start of the match
const NEAR = 5; // distance within which a drawing reveals a mech [vox]
const AFTER = 2; // time after an event at which effects are checked [ticks]
const { header, chunks } = sensorReplay();
const weapon = (name: string) => header.weapons.findIndex((spec) => spec.name === name);
const shown = (...hidden: number[]) => Float32Array.from(header.roster, (_, mech) => (hidden.includes(mech) ? 0 : 1));

/** Return the first chunk with only these events. */
const chunkWith = (...rows: EventRow[]): Chunk => ({
  ...chunks[0],
  rounds: { ...chunks[0].rounds, count: 0 },
  events: eventRows(rows),
});

/** Return pools that record the points where something is drawn. */
function recordingPools(): { pools: EffectPools; points: Vector3[] } {
  const points: Vector3[] = [];
  const beams = { add: (from: Vector3, to: Vector3) => points.push(from.clone(), to.clone()) };
  const sprites = { add: (at: Vector3) => points.push(at.clone()) };
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
function drawnNear(mech: number, row: EventRow, hidden: number[]): boolean {
  const { pools, points } = recordingPools();
  const events = [chunkWith({ ...row, tick: at })];
  new Effects(header, mechs, pools).draw(events, at + AFTER, shown(...hidden), shown(...hidden));
  return points.some((point) => point.distanceTo(place(mech, at)) < NEAR);
}

const at = chunks[0].tick0 + 1;
const [gunner, between] = [place(SOURCE, at), place(SOURCE, at).lerp(place(OTHER, at), 0.5)];
const [x, y, z] = [between.x, -between.z, between.y];
const STOPPED = { kind: EventKind.AMS, actor: SOURCE, target: OTHER, flags: HitFlag.STOPPED, x, y, z };

describe("effects under the fog of war", () => {
  test("use two mechs that are far apart", () => {
    expect(gunner.distanceTo(place(OTHER, at))).toBeGreaterThan(4 * NEAR);
  });

  test.each([
    ["a hit", { kind: EventKind.HIT, weapon: weapon("laser"), value: 10 }],
    ["a heavy hit", { kind: EventKind.HIT, weapon: weapon("gauss"), value: 10 }],
    ["painting", { kind: EventKind.PAINT, weapon: weapon("painter"), value: 0 }],
  ])("of %s appear only at visible mechs", (name, row) => {
    const event = { ...row, actor: SOURCE, target: OTHER };
    // rounds are drawn along their flight, not with the hit
    expect(drawnNear(SOURCE, event, [])).toBe(name !== "a heavy hit");
    expect(drawnNear(OTHER, event, [])).toBe(true);
    expect(drawnNear(SOURCE, event, [SOURCE])).toBe(false);
    expect(drawnNear(OTHER, event, [SOURCE])).toBe(name !== "painting"); // the hit is drawn at its target
    expect(drawnNear(OTHER, event, [OTHER])).toBe(false);
  });

  test.each([
    ["launching", { kind: EventKind.LAUNCH, actor: SOURCE, target: -1, weapon: weapon("missile") }],
    ["point defence", { ...STOPPED, weapon: weapon("missile") }],
    ["shutting down", { kind: EventKind.SHUTDOWN, actor: SOURCE, target: -1, weapon: -1 }],
  ])("of %s are hidden for a hidden mech", (_, event) => {
    expect(drawnNear(SOURCE, event, [])).toBe(true);
    expect(drawnNear(SOURCE, event, [SOURCE])).toBe(false);
  });

  test("of an intercepted missile appear even if the defender is hidden", () => {
    const { pools, points } = recordingPools();
    const event = { ...STOPPED, tick: at, weapon: weapon("missile") };
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
  const round = { actor: SOURCE, target: -1, weapon: missile };
  const chunk = chunkWith(
    { ...round, tick: at, kind: EventKind.LAUNCH },
    { ...round, tick: at + ticks, kind: EventKind.IMPACT, x, y, z },
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
