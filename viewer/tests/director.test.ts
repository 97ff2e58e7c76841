// What the director frames and how fast it plays, and the framing it uses.

import { PerspectiveCamera, Vector3 } from "three";
import { describe, expect, test } from "vitest";
import { LONGEST_S, type Shot, type View, framingAt, paceAt, shotAt } from "../src/director";
import type { Chunk } from "../src/data/replay";
import {
  type Cutaway,
  type Insets,
  type Point,
  circlePoints,
  eyeOf,
  fitPoints,
  freeArea,
  freeTangents,
} from "../src/framing";
import { isHidden, isInside } from "../src/data/line_of_sight";
import { Appearance } from "../src/palette";
import { EventKind, type Header, MECH_COLUMNS, type Marker, MechFlag } from "../src/protocol.gen";
import { FIELD_OF_VIEW, cellIndex, worldPoint, wrapAngle } from "../src/spaces";
import type { MatchState } from "../src/state";
import { type EventRow, draws, eventRows, openedState, smallExpected, smallReplay } from "./fixtures";

const { header, chunks } = smallReplay();
const WINDOWS: [string, View][] = [
  ["1440 by 900", { showCutaways: true, window: [1440, 900], insets: { left: 242, right: 242, top: 86, bottom: 134 } }],
  ["390 by 844", { showCutaways: true, window: [390, 844], insets: { left: 0, right: 0, top: 150, bottom: 236 } }],
  ["844 by 390", { showCutaways: true, window: [844, 390], insets: { left: 0, right: 0, top: 60, bottom: 70 } }],
  [
    "844 by 390 with a card",
    { showCutaways: true, window: [844, 390], insets: { left: 84, right: 84, top: 62, bottom: 200 } },
  ],
];

/** Return the golden match with all chunks in memory. */
async function goldenMatch(): Promise<MatchState> {
  const { series, markers, outcome } = smallExpected().index;
  return (await openedState({ header, chunks }, { series, markers, outcome })).match!;
}

/** Return where a camera shows a point of voxel space [CSS px], as the stage does. */
function screenPoint(
  shot: { target: readonly number[]; distance: number; azimuth: number; elevation: number },
  { window: [width, height], insets }: View,
  [x, y, z]: readonly number[],
): [number, number] {
  const camera = new PerspectiveCamera((FIELD_OF_VIEW * 180) / Math.PI, width / height, 0.3, 1600);
  const { right, down } = freeArea([width, height], insets);
  camera.setViewOffset(width, height, -right, -down, width, height);
  const flat = Math.cos(shot.elevation) * shot.distance;
  const [tx, ty, tz] = shot.target;
  worldPoint(
    tx + Math.cos(shot.azimuth) * flat,
    ty + Math.sin(shot.azimuth) * flat,
    tz + Math.sin(shot.elevation) * shot.distance,
    camera.position,
  );
  camera.lookAt(worldPoint(tx, ty, tz, new Vector3()));
  camera.updateMatrixWorld();
  const at = worldPoint(x, y, z, new Vector3()).project(camera);
  return [((at.x + 1) / 2) * width, ((1 - at.y) / 2) * height];
}

const within = ([x, y]: [number, number], [width, height]: readonly [number, number], edges: Insets) =>
  x >= edges.left && x <= width - edges.right && y >= edges.top && y <= height - edges.bottom;

describe("opening shot", () => {
  test.each(WINDOWS)("shows every mech and the zone in the free part of a %s window", async (_, view) => {
    const match = await goldenMatch();
    const shot = framingAt(shotAt(match, 0, view)!, 0);
    const { x, y, z } = chunks[0].mech;
    const places = header.roster.map((_, mech) => [x[mech], y[mech], z[mech]]);
    for (const point of [...places, ...circlePoints(header.zone)])
      expect(within(screenPoint(shot, view, point), view.window, view.insets)).toBe(true);
  });

  test.each(WINDOWS)("has blue left of red in a %s window, or below in portrait", async (_, view) => {
    const match = await goldenMatch();
    const shot = framingAt(shotAt(match, 0, view)!, 0);
    const { x, y } = chunks[0].mech;
    const mean = (team: number, axis: 0 | 1) => {
      const places = header.roster.flatMap((mech, m) =>
        mech.team === team ? [screenPoint(shot, view, [x[m], y[m], 0])] : [],
      );
      return places.reduce((sum, place) => sum + place[axis], 0) / places.length;
    };
    const [width, height] = view.window;
    if (width > height) expect(mean(0, 0)).toBeLessThan(mean(1, 0));
    else expect(mean(0, 1)).toBeGreaterThan(mean(1, 1));
  });
});

/** Return a staged match in a town of random houses, in which mechs wander, fight and die. */
async function inTown(seed: number): Promise<MatchState> {
  const share = draws();
  for (let i = 0; i < seed; i++) share();
  const [sizeX, sizeY, sizeZ] = TOWN;
  const ways = Array.from({ length: 4 }, () => [share() * sizeX, share() * sizeY, share() * 20, share()]);
  const deaths = [Infinity, 4 + share() * 20, Infinity, 4 + share() * 20];
  const stage: Stage = (mech, second) => {
    const [x, y, far, rate] = ways[mech];
    const angle = second * rate;
    return { x: x + far * Math.sin(angle), y: y + far * Math.cos(angle), flags: second > deaths[mech] ? 0 : 1 };
  };
  const kills = [1, 3].map((target) => ({ tick: seconds(deaths[target]), kind: EventKind.KILL, actor: 2, target }));
  const match = await staged(
    stage,
    kills.sort((a, b) => a.tick - b.tick),
  );
  const appearances = new Uint8Array(sizeX * sizeY * sizeZ);
  for (let house = 0; house < (sizeX * sizeY) / 120; house++) {
    const [left, near] = [share() * sizeX, share() * sizeY].map(Math.floor);
    const [wide, deep, high] = [8, 8, sizeZ].map((most) => 2 + Math.floor(share() * (most - 2)));
    for (let x = left; x < Math.min(sizeX, left + wide); x++)
      for (let y = near; y < Math.min(sizeY, near + deep); y++)
        for (let z = 0; z < high; z++) appearances[cellIndex(x, y, z, sizeX, sizeY)] = Appearance.CONCRETE;
  }
  const layer = sizeX * sizeY;
  if (seed === CAVE) appearances.fill(Appearance.ROCK, 4 * layer);
  match.scenery = { appearances, tints: new Uint8Array(layer), soil: new Uint8Array(4 * layer), top: sizeZ };
  return match;
}

/** Return the shots of a match in order, asked for at each tick in turn. */
function shotsOf(match: MatchState, ticks: Iterable<number>): Map<number, Shot> {
  const [, view] = WINDOWS[0];
  return new Map([...ticks].map((tick) => [tick, shotAt(match, tick, view)!]));
}

describe("shots in a random town", () => {
  const share = draws();
  const ticks = Array.from({ length: STAGED_S * 2 }, (_, i) => seconds(i / 2));
  const towns = [0, CAVE];

  test.each(towns)("are the same by seeking as by playing, %d", async (town) => {
    const played = shotsOf(await inTown(town), ticks);
    const sought = [...ticks].sort(() => share() - 0.5);
    for (const [tick, shot] of shotsOf(await inTown(town), sought)) expect(shot).toEqual(played.get(tick));
  });

  test.each(towns)("show no less than the usual angle, from outside of the walls, %d", async (town) => {
    const match = await inTown(town);
    const { appearances } = match.scenery!;
    for (const [tick, shot] of shotsOf(match, ticks)) {
      expect(shot.score).toBeGreaterThanOrEqual(shot.usual);
      expect(isInside(appearances, TOWN, eyeOf(framingAt(shot, tick)))).toBe(false);
    }
  });

  test.each(towns)("last at most 8 s from one angle, or wait for something, %d", async (town) => {
    const shots = [...new Set(shotsOf(await inTown(town), ticks).values())];
    expect(shots.length).toBeGreaterThan(2);
    expect(LONGEST_S).toBeLessThanOrEqual(8);
    shots.forEach((shot, i) => {
      expect((shot.end - shot.begin) / header.tick_hz).toBeLessThanOrEqual(LONGEST_S);
      const next = shots[i + 1];
      if (!next || shot.cause === "start" || shot.waits || next.waits) return;
      expect(Math.abs(wrapAngle(next.from.azimuth - shot.from.azimuth))).toBeGreaterThan(0.4);
    });
  });
});

/** A mech of a staged match at a second: where it is, and its flags; alive and at rest without. */
type Stage = (mech: number, second: number) => { x: number; y: number; flags?: number };
const CAVE = 20; // seed of a town under a thick roof
const STAGED_S = 24;
const TOWN: [number, number, number] = [100, 100, 40]; // size of its map

/** Return a match without walls of two against two, staged; `events` are hits and kills. */
async function staged(stage: Stage, events: EventRow[] = []): Promise<MatchState> {
  const { tick_hz: hz, frame_ticks: step } = header;
  const mechs = 4;
  const roster = Array.from({ length: mechs }, (_, mech) => ({ ...header.roster[0], team: (mech >> 1) as 0 | 1 }));
  const made = Array.from({ length: STAGED_S / 2 }, (_, number): Chunk => {
    const [tick0, tick1] = [number * 2 * hz, (number + 1) * 2 * hz];
    const tick = Float64Array.from({ length: (tick1 - tick0) / step + 1 }, (_, frame) => tick0 + frame * step);
    const column = (value: (mech: number, second: number) => number) =>
      Float32Array.from({ length: tick.length * mechs }, (_, at) =>
        value(at % mechs, tick[Math.floor(at / mechs)] / hz),
      );
    const mech = Object.fromEntries(MECH_COLUMNS.map((name) => [name, column(() => 0)])) as Chunk["mech"];
    mech.x = column((m, second) => stage(m, second).x);
    mech.y = column((m, second) => stage(m, second).y);
    mech.z = column(() => 1);
    mech.flags = column((m, second) => stage(m, second).flags ?? MechFlag.ALIVE);
    const rows = events.filter((event) => event.tick! > tick0 && event.tick! <= tick1);
    return {
      ...chunks[0],
      tick0,
      tick1,
      tick,
      frames: tick.length,
      mechs,
      mech,
      insight: null,
      events: eventRows(rows),
    };
  });
  const kills = events.filter(({ kind }) => kind === EventKind.KILL);
  const markers = kills.map((event): Marker => [event.tick!, EventKind.KILL, event.actor ?? 0, event.target ?? 0]);
  const twoAgainstTwo = {
    ...header,
    world: { ...header.world, size: TOWN },
    mechs,
    roster,
    zone: [50, 50, 6] as Header["zone"],
    insight: undefined,
  };
  return (await openedState({ header: twoAgainstTwo as Header, chunks: made }, { markers })).match!;
}

const seconds = (second: number) => Math.round(second * header.tick_hz);
const [, desk] = WINDOWS[0];
/** Blue walks up and down far from red, which does the same. */
const apart: Stage = (mech, second) => ({ x: mech < 2 ? 10 + 4 * mech : 80 + 4 * mech, y: 20 + 8 * Math.sin(second) });

describe("cause of a shot", () => {
  test("is both teams while nothing happens", async () => {
    const shot = shotAt(await staged(apart), seconds(8), desk)!;
    expect(shot).toMatchObject({ cause: "advance", mechs: [0, 1, 2, 3] });
  });

  test("is a mech that gets nowhere", async () => {
    const match = await staged((mech, second) => (mech === 3 ? { x: 70, y: 70 } : apart(mech, second)));
    const causes = [8, 12, 18].map((second) => shotAt(match, seconds(second), desk)!);
    expect(causes.some(({ cause, mechs }) => cause === "stuck" && mechs[0] === 3)).toBe(true);
  });

  test.each([
    ["gets up", (second: number) => ({ x: 10, y: 70, flags: MechFlag.ALIVE | (second < 8 ? MechFlag.FALLEN : 0) })],
    ["comes into the zone", (second: number) => ({ x: 50, y: second < 8 ? 70 : 50 })],
  ])("is a mech that %s", async (_, comes) => {
    const match = await staged((mech, second) => (mech === 0 ? comes(second) : apart(mech, second)));
    expect(shotAt(match, seconds(8), desk)).toMatchObject({ cause: "return", mechs: [0] });
  });

  test("is the last mech of a team, with its next opponent", async () => {
    const kill = { tick: seconds(9), kind: EventKind.KILL, actor: 2, target: 0 };
    const match = await staged(
      (mech, second) => ({ ...apart(mech, second), flags: mech === 0 && second > 9 ? 0 : 1 }),
      [kill],
    );
    expect(shotAt(match, seconds(12), desk)).toMatchObject({ cause: "last", mechs: [1, 2] });
  });

  test.each([10.4, 11.6])("is a fight, and its kill at %d s is not cut in two", async (at) => {
    const hit = { tick: seconds(at - 0.5), kind: EventKind.HIT, actor: 2, target: 0, value: 30 };
    const kill = { tick: seconds(at), kind: EventKind.KILL, actor: 2, target: 0 };
    const match = await staged((mech, second) => ({ ...apart(mech, second), x: 40 + 5 * mech }), [hit, kill]);
    const shots = [-1, 0, 0.9].map((offset) => shotAt(match, seconds(at + offset), desk)!);
    expect(shots[0]).toMatchObject({ cause: "fight", mechs: [0, 1, 2, 3] });
    expect(new Set(shots).size).toBe(1);
  });
});

test.each([0.9, 0])("with policy columns a mech at throttle %d is stuck if it wants to move", async (throttle) => {
  const match = await staged((mech, second) => (mech === 3 ? { x: 50, y: 50 } : apart(mech, second)));
  match.header.insight = { actions: ["forward", "strafe"], terms: [], contacts: 0, estimates: false };
  for (let number = 0; number < match.index.chunks.length; number++) {
    const { frames, mechs } = match.store.get(number)!;
    const action = new Float32Array(frames * mechs * 2).fill(throttle);
    Object.assign(match.store.get(number)!, { insight: { action } });
  }
  const shot = shotAt(match, seconds(12), desk)!;
  expect(shot.cause).toBe(throttle > 0.5 ? "stuck" : "advance");
});

test("a shot of a match in progress stays, and follows its mechs", async () => {
  const match = await staged((mech, second) => ({ x: 20 + 5 * mech + 2 * second, y: 40 + 5 * Math.sin(second) }));
  const whole = match.index;
  const knows = (count: number) => (match.index = { ...whole, live: true, chunks: whole.chunks.slice(0, count) });
  knows(4);
  const early = shotAt(match, seconds(7), desk)!;
  knows(8);
  const late = shotAt(match, seconds(7), desk)!;
  expect([late.cause, late.mechs, late.from.azimuth]).toEqual([early.cause, early.mechs, early.from.azimuth]);
  expect(late.known).toBe(late.end);
  expect(late.to.target[0] - early.to.target[0]).toBeGreaterThan(0.5);
});

test("a cutaway opens the way to what it is about, and only there", () => {
  const size = [40, 40, 20];
  const appearances = new Uint8Array(40 * 40 * 20);
  for (let y = 0; y < 40; y++)
    for (let x = 20; x < 24; x++)
      for (let z = 0; z < 15; z++) appearances[cellIndex(x, y, z, 40, 40)] = Appearance.CONCRETE;
  const eye: Point = [38, 20, 18];
  const cutaway = { centre: [12, 20, 0] as Point, radius: 4 };
  const hidden = (y: number, away: Cutaway | null) => isHidden(appearances, size, [12, y, 2], eye, away);
  expect([20, 22, 30].map((y) => hidden(y, null))).toEqual([true, true, true]);
  expect([20, 22, 30].map((y) => hidden(y, cutaway))).toEqual([false, false, true]);
});

test("isHidden agrees with small steps along the line", () => {
  const share = draws();
  const size = [12, 12, 12];
  const appearances = Uint8Array.from({ length: 1728 }, () => (share() < 0.06 ? Appearance.ROCK : Appearance.AIR));
  for (let ray = 0; ray < 50; ray++) {
    const point = [share() * 12, share() * 12, share() * 12] as const;
    const eye = [share() * 40 - 14, share() * 40 - 14, share() * 30] as const;
    const own = point.map(Math.floor).join();
    const steps = Array.from({ length: 1500 }, (_, i) => point.map((from, k) => from + ((eye[k] - from) * i) / 1500));
    const slow = steps.some((at) => at.map(Math.floor).join() !== own && isInside(appearances, size, at as never));
    expect(isHidden(appearances, size, point, eye)).toBe(slow);
  }
});

describe("fitPoints", () => {
  test("touches an edge of the free part, so that the points are as large as possible", () => {
    const [, view] = WINDOWS[0];
    const points = circlePoints([30, 40, 20]);
    const direction = { azimuth: 0.7, elevation: 0.8 };
    const shot = { ...fitPoints(points, direction, freeTangents(view.window, view.insets), 1), ...direction };
    const { left, top, right, bottom } = view.insets;
    const gaps = points.flatMap((point) => {
      const [x, y] = screenPoint(shot, view, point);
      return [x - left, y - top, view.window[0] - right - x, view.window[1] - bottom - y];
    });
    expect(Math.min(...gaps)).toBeGreaterThan(-0.5);
    expect(Math.min(...gaps)).toBeLessThan(3);
  });

  test("keeps the least distance to a single point", () => {
    expect(fitPoints([[1, 2, 3]], { azimuth: 0, elevation: 1 }, [0.5, 0.3], 20)).toEqual({
      target: [1, 2, 3],
      distance: 20,
    });
  });
});

describe("paceAt", () => {
  const match = (damage: number[], kills: number[]) =>
    ({
      header: { tick_hz: 20 },
      markers: kills.map((tick) => ({ tick, kind: EventKind.KILL, actor: 0, target: 1 })),
      index: { series: { second: damage.map((_, i) => i + 1), damage: [damage, damage.map(() => 0)] } },
    }) as unknown as MatchState;

  test("skips seconds without damage, slows down around kills, and is normal in fights", () => {
    const fight = match([0, 0, 0, 0, 0, 0, 30, 30, 30, 0, 0, 0, 0, 0], [160]);
    expect([1, 4, 4.5, 6.5, 7.2, 8, 8.5, 9, 12].map((seconds) => paceAt(fight, seconds * 20))).toEqual([
      1, 2, 1, 1, 0.5, 0.5, 0.5, 1, 2,
    ]);
  });

  test("is normal where the index does not reach", () => {
    expect(paceAt(match([0, 0], []), 60)).toBe(1);
  });
});
