// What the director frames and how fast it plays, and the framing it uses.

import { PerspectiveCamera, Vector3 } from "three";
import { describe, expect, test } from "vitest";
import { type View, paceAt, shotAt } from "../src/director";
import { type Insets, circlePoints, fitPoints, freeArea, freeTangents } from "../src/framing";
import { EventKind } from "../src/protocol.gen";
import { FIELD_OF_VIEW, worldPoint } from "../src/spaces";
import type { MatchState } from "../src/state";
import { openedState, smallExpected, smallReplay } from "./fixtures";

const { header, chunks } = smallReplay();
const WINDOWS: [string, View][] = [
  ["1440 by 900", { window: [1440, 900], insets: { left: 242, right: 242, top: 86, bottom: 134 } }],
  ["390 by 844", { window: [390, 844], insets: { left: 0, right: 0, top: 150, bottom: 236 } }],
  ["844 by 390", { window: [844, 390], insets: { left: 0, right: 0, top: 60, bottom: 70 } }],
  ["844 by 390 with a card", { window: [844, 390], insets: { left: 84, right: 84, top: 62, bottom: 200 } }],
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
    const shot = shotAt(match, 0, view)!;
    const { x, y, z } = chunks[0].mech;
    const places = header.roster.map((_, mech) => [x[mech], y[mech], z[mech]]);
    for (const point of [...places, ...circlePoints(header.zone)])
      expect(within(screenPoint(shot, view, point), view.window, view.insets)).toBe(true);
  });

  test.each(WINDOWS)("has blue left of red in a %s window, or below in portrait", async (_, view) => {
    const match = await goldenMatch();
    const shot = shotAt(match, 0, view)!;
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
