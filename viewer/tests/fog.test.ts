// What the picture shows of mechs that the fog of war hides: nothing that would tell where they are.

import { Vector3 } from "three";
import { describe, expect, test } from "vitest";
import type { Chunk, EventRows } from "../src/data/replay";
import { sampleOne } from "../src/interpolate";
import { EventKind, HitFlag } from "../src/protocol.gen";
import { type Brushes, Effects } from "../src/render/effects";
import type { Mechs } from "../src/render/mechs";
import { drawRounds } from "../src/render/rounds";
import { worldPoint } from "../src/spaces";
import { reachReplay } from "./fixtures";

const [DOER, OTHER] = [0, 5]; // far apart where the match begins
const NEAR = 5; // what is drawn this near to a mech tells where it is [vox]
const AFTER = 2; // when effects are looked at [ticks]
const { header, chunks } = reachReplay();
const weapon = (name: string) => header.weapons.findIndex((spec) => spec.name === name);
const shown = (...hidden: number[]) => Float32Array.from(header.roster, (_, mech) => (hidden.includes(mech) ? 0 : 1));

/** The first chunk, but with these events only: tick, kind, who, whom, weapon, value, flags, x, y, z. */
function chunkWith(...rows: number[][]): Chunk {
  const names = ["tick", "kind", "who", "whom", "weapon", "value", "flags", "x", "y", "z"];
  const events = Object.fromEntries(names.map((name, k) => [name, Float64Array.from(rows, (row) => row[k])]));
  const none = { ...chunks[0].rounds, count: 0 };
  return { ...chunks[0], rounds: none, events: { ...events, count: rows.length } as unknown as EventRows };
}

/** Brushes that only note where something is drawn. */
function noting(): { brushes: Brushes; points: Vector3[] } {
  const points: Vector3[] = [];
  const beams = { add: (from: Vector3, to: Vector3) => points.push(from.clone(), to.clone()) };
  const sprites = { add: (x: number, y: number, z: number) => points.push(new Vector3(x, y, z)) };
  return { brushes: { beams, sprites, numbers: { add: () => undefined } } as unknown as Brushes, points };
}

const mechs = { height: () => 3, muzzle: (_: number, x: number, y: number, z: number, _yaw: number, out: Vector3) => worldPoint(x, y, z, out) } as unknown as Mechs;

function place(mech: number, tick: number): Vector3 {
  const { x, y, z } = sampleOne(chunks[0], mech, tick, header.tick_hz);
  return worldPoint(x, y, z, new Vector3());
}

/** Whether anything of an event is drawn near a mech. */
function drawnNear(mech: number, event: number[], hidden: number[]): boolean {
  const { brushes, points } = noting();
  const tick = event[0] + AFTER;
  new Effects(header, mechs, brushes).draw([chunkWith(event)], tick, shown(...hidden), shown(...hidden));
  return points.some((point) => point.distanceTo(place(mech, event[0])) < NEAR);
}

const at = chunks[0].tick0 + 1;
const [gunner, between] = [place(DOER, at), place(DOER, at).lerp(place(OTHER, at), 0.5)];
const middle = [between.x, -between.z, between.y];

describe("effects under the fog of war", () => {
  test("have two mechs apart to be told of", () => {
    expect(gunner.distanceTo(place(OTHER, at))).toBeGreaterThan(4 * NEAR);
  });

  test.each([
    ["a hit", [at, EventKind.HIT, DOER, OTHER, weapon("laser"), 10, 0, 0, 0, 0]],
    ["a heavy hit", [at, EventKind.HIT, DOER, OTHER, weapon("gauss"), 10, 0, 0, 0, 0]],
    ["painting", [at, EventKind.PAINT, DOER, OTHER, weapon("painter"), 0, 0, 0, 0, 0]],
  ])("%s show at who is shown alone", (name, event) => {
    // what flies is drawn where it flies, not with the hit
    expect(drawnNear(DOER, event, [])).toBe(name !== "a heavy hit");
    expect(drawnNear(OTHER, event, [])).toBe(true);
    expect(drawnNear(DOER, event, [DOER])).toBe(false);
    expect(drawnNear(OTHER, event, [DOER])).toBe(name !== "painting"); // its mark stays on the ground
    expect(drawnNear(OTHER, event, [OTHER])).toBe(false);
  });

  test.each([
    ["launching", [at, EventKind.LAUNCH, DOER, -1, weapon("missile"), 0, 0, 0, 0, 0]],
    ["point defence", [at, EventKind.AMS, DOER, OTHER, weapon("missile"), 0, HitFlag.STOPPED, ...middle]],
    ["shutting down", [at, EventKind.SHUTDOWN, DOER, -1, -1, 0, 0, 0, 0, 0]],
  ])("%s is not seen of who is not shown", (_, event) => {
    expect(drawnNear(DOER, event, [])).toBe(true);
    expect(drawnNear(DOER, event, [DOER])).toBe(false);
  });

  test("a missile that is shot down is seen where it was, whoever did it", () => {
    const { brushes, points } = noting();
    const event = [at, EventKind.AMS, DOER, OTHER, weapon("missile"), 0, HitFlag.STOPPED, ...middle];
    new Effects(header, mechs, brushes).draw([chunkWith(event)], at + AFTER, shown(DOER, OTHER), shown());
    expect(points.some((point) => point.distanceTo(between) < NEAR)).toBe(true);
  });
});

describe("rounds under the fog of war", () => {
  const missile = weapon("missile");
  const [range, ticks] = [gunner.distanceTo(between), (gunner.distanceTo(between) / header.weapons[missile].speed) * header.tick_hz];
  const chunk = chunkWith([at, EventKind.LAUNCH, DOER, -1, missile, 0, 0, 0, 0, 0], [at + ticks, EventKind.IMPACT, DOER, -1, missile, 0, 0, ...middle]);
  const drawn = (share: number, ...hidden: number[]) => {
    const { brushes, points } = noting();
    drawRounds([chunk], header, at + ticks * share, shown(...hidden), brushes);
    return points.map((point) => point.distanceTo(gunner));
  };

  test("begin where they are fired, if that may be seen", () => {
    expect(range).toBeGreaterThan(12);
    expect(Math.min(...drawn(0.2))).toBeLessThan(2);
  });

  test("are seen only away from who is hidden, and so is their smoke", () => {
    expect(drawn(0.2, DOER)).toEqual([]);
    const late = drawn(0.99, DOER);
    expect(late.length).toBeGreaterThan(0);
    expect(Math.min(...late)).toBeGreaterThan(NEAR);
  });
});
