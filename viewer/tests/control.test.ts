// Player and camera rules of control.ts, and timeline helpers.

import { beforeEach, describe, expect, test } from "vitest";
import * as control from "../src/control";
import { HeldKeys } from "../src/input";
import { ChunkStore } from "../src/data/store";
import { groupEvents, lineText } from "../src/hud/feed";
import { freeArea } from "../src/framing";
import { EventKind } from "../src/protocol.gen";
import type { ViewerState } from "../src/state";
import { FIELD_OF_VIEW } from "../src/spaces";
import { LIVE, SPEEDS, advance, clockText, deathTicks, liveText, nextMarker, nextSpeed } from "../src/timeline";
import { openedState, smallExpected, smallReplay } from "./fixtures";

const golden = smallReplay();
const { series, markers, outcome } = smallExpected().index;

/** Return a state with the golden match open. */
const opened = (live = false) => openedState(golden, { series, markers, outcome, live });

let state: ViewerState;
beforeEach(async () => {
  state = await opened();
});

describe("playback", () => {
  test("moves the cursor by time and speed", () => {
    control.tickClock(state, 0.5);
    expect(state.tick).toBeCloseTo(10);
    control.setSpeed(state, -2);
    control.tickClock(state, 0.1);
    expect(state.tick).toBeCloseTo(6);
  });

  test("stops at both ends, and restarts at the other end", () => {
    control.seek(state, 1e9);
    control.tickClock(state, 1);
    expect(state.tick).toBe(control.lastTick(state.match!));
    expect(state.playing).toBe(false);
    control.togglePlay(state);
    expect(state.tick).toBe(0);
    control.reverse(state);
    control.tickClock(state, 1);
    expect(state.playing).toBe(false);
    control.togglePlay(state);
    expect(state.tick).toBe(control.lastTick(state.match!));
  });

  test("stops while a pointer holds the playhead, and plays on afterwards", () => {
    state.held = true;
    control.seek(state, 1e9);
    control.tickClock(state, 1);
    expect(state.playing).toBe(true);
    control.seek(state, 20);
    control.tickClock(state, 1);
    expect(state.tick).toBe(20);
    state.held = false;
    control.tickClock(state, 0.1);
    expect(state.tick).toBeCloseTo(22);
  });

  test("of a continuation starts and ends at its first tick", () => {
    const match = state.match!;
    match.index = { ...match.index, chunks: match.index.chunks.slice(1) };
    const first = match.index.chunks[0][0];
    expect(first).toBeGreaterThan(0);
    control.openMatch(state, match);
    expect(state.tick).toBe(first);
    control.seek(state, 0);
    expect(state.tick).toBe(first);
    control.seek(state, 1e9);
    control.togglePlay(state);
    control.togglePlay(state);
    expect(state.tick).toBe(first);
  });

  test("steps whole frames and pauses", () => {
    control.seek(state, 12.3);
    control.stepFrames(state, 1);
    expect([state.tick, state.playing]).toEqual([15, false]);
    control.stepFrames(state, -1);
    expect(state.tick).toBe(10);
  });

  test("waits while the current chunk is missing", () => {
    state.match!.chunk = null;
    const before = state.tick;
    state.match!.store = new ChunkStore(() => new Promise(() => undefined));
    control.tickClock(state, 1);
    expect(state.tick).toBe(before);
  });

  test("jumps to next and previous events", () => {
    const first = control.jumpToMarker(state, 1)!;
    expect(state.tick).toBe(first.tick);
    control.jumpToMarker(state, 1);
    control.jumpToMarker(state, -1);
    expect(state.tick).toBe(first.tick);
    control.seek(state, 0);
    expect(control.jumpToMarker(state, -1)).toBeNull();
  });
});

describe("loop at an end of the match", () => {
  test("continues at its other end", () => {
    const last = control.lastTick(state.match!);
    control.setLoop(state, 40, last);
    control.seek(state, last - 1);
    control.tickClock(state, 0.2);
    expect([state.tick, state.playing]).toEqual([40, true]);
    control.setLoop(state, 0, 40);
    control.seek(state, 1);
    control.reverse(state);
    control.tickClock(state, 0.2);
    expect([state.tick, state.playing]).toEqual([40, true]);
  });

  test("restarts at its start when paused at its end", () => {
    const last = control.lastTick(state.match!);
    control.setLoop(state, 40, last);
    state.playing = false;
    control.seek(state, last);
    control.togglePlay(state);
    expect(state.tick).toBe(40);
  });
});

test("reverse selects an available speed for every speed", () => {
  for (const speed of SPEEDS) {
    control.setSpeed(state, speed);
    control.reverse(state);
    expect(SPEEDS).toContain(state.speed);
    expect(Math.sign(state.speed)).toBe(-Math.sign(speed));
  }
});

describe("takeUnannounced", () => {
  test("returns markers passed by playing and stepping, each once", () => {
    const { markers } = state.match!;
    const first = markers[0].tick;
    control.seek(state, first - 1);
    control.tickClock(state, 0.2);
    const heard = markers.filter(({ tick }) => tick > first - 1 && tick <= first + 3);
    expect(control.takeUnannounced(state)).toEqual(heard);
    expect(control.takeUnannounced(state)).toEqual([]);
    control.seek(state, first - 1);
    control.stepFrames(state, 1);
    expect(state.playing).toBe(false);
    expect(control.takeUnannounced(state)).toEqual(
      markers.filter(({ tick }) => tick > first - 1 && tick <= state.tick),
    );
    control.stepFrames(state, -1);
    expect(control.takeUnannounced(state)).toEqual([]);
  });

  test("returns all markers of a moment jumped to, and none passed by seeking", () => {
    const match = state.match!;
    match.markers = [30, 50, 50, 50, 90].map((tick, actor) => ({ tick, kind: EventKind.FALL, actor, target: -1 }));
    state.playing = false;
    control.seek(state, 40);
    control.jumpToMarker(state, 1);
    expect(control.takeUnannounced(state).map(({ actor }) => actor)).toEqual([1, 2, 3]);
    control.seek(state, 90);
    expect(control.takeUnannounced(state)).toEqual([]);
    control.jumpToMarker(state, -1);
    expect(control.takeUnannounced(state).map(({ actor }) => actor)).toEqual([1, 2, 3]);
  });
});

/** Extend a live match by a number of seconds. */
function grow(seconds: number): void {
  const match = state.match!;
  const last = control.lastTick(match);
  control.updateIndex(match, {
    ...match.index,
    chunks: [...match.index.chunks, [last, last + seconds * match.header.tick_hz, 0]],
  });
}

describe("live match", () => {
  test("is not followed after pausing, even at the live edge", async () => {
    state = await opened(true);
    control.togglePlay(state);
    expect(state.following).toBe(false);
    control.stepFrames(state, 1000);
    expect([state.tick, state.following]).toEqual([control.lastTick(state.match!), false]);
    control.togglePlay(state);
    expect(state.following).toBe(false);
  });

  test("is caught up with by faster playback, or by a jump after a large lag", async () => {
    state = await opened(true);
    const before = state.tick;
    grow(5);
    control.tickClock(state, 0.1);
    expect(state.tick).toBeCloseTo(before + 0.1 * 1.15 * 20);
    grow(60);
    control.tickClock(state, 0.1);
    expect(control.secondsBehind(state)).toBeLessThanOrEqual(2.5);
  });

  test("is not followed within a loop", async () => {
    state = await opened(true);
    control.setLoop(state, 20, 60);
    expect(state.following).toBe(false);
  });

  test("is labelled LIVE only at the live edge", () => {
    expect([2.5, 4.4].map((behind) => liveText(behind, true))).toEqual([LIVE, LIVE]);
    expect([4.6, 120].map((behind) => liveText(behind, true))).toEqual(["5 s behind", "120 s behind"]);
    expect(liveText(2.5, false)).toBe("3 s behind");
  });

  test("opens at a margin behind the live edge", async () => {
    state = await opened(true);
    expect(state.following).toBe(true);
    expect(control.secondsBehind(state)).toBeCloseTo(2.5);
    control.tickClock(state, 0.2);
    expect(state.playing).toBe(true);
  });

  test("is not followed after seeking back, until goLive", async () => {
    state = await opened(true);
    control.seek(state, 20);
    expect(state.following).toBe(false);
    control.goLive(state);
    expect([state.following, state.tick]).toEqual([true, control.lastTick(state.match!)]);
  });

  test("keeps playing at the live edge", async () => {
    state = await opened(true);
    control.seek(state, 1e9);
    control.tickClock(state, 1);
    expect(state.playing).toBe(true);
  });
});

describe("mechs and camera", () => {
  test("cycleMech cycles through living mechs", () => {
    control.cycleMech(state, 1);
    const first = state.selected;
    for (let i = 0; i < state.match!.header.mechs; i++) control.cycleMech(state, 1);
    expect(state.selected).toBe(first);
    control.cycleMech(state, -1);
    expect(state.selected).not.toBe(first);
  });

  test("follow mode selects a mech, and leaving it keeps the camera's position", () => {
    control.setCameraMode(state, "follow");
    expect(state.selected).toBeGreaterThanOrEqual(0);
    control.select(state, -1, false);
    expect(state.camera.mode).toBe("orbit");
    expect(state.camera.target[0]).toBeGreaterThan(0);
  });

  test("the camera stays above the ground and over the map", () => {
    for (let i = 0; i < 200; i++) control.turnCamera(state, 0.1, -0.1);
    expect(state.camera.elevation).toBeGreaterThan(0);
    for (let i = 0; i < 200; i++) control.panCamera(state, 3, 3);
    const [sizeX, sizeY] = state.match!.header.world.size;
    expect(state.camera.target[0]).toBeGreaterThanOrEqual(0);
    expect(state.camera.target[0]).toBeLessThanOrEqual(sizeX);
    expect(state.camera.target[1]).toBeLessThanOrEqual(sizeY);
    for (let i = 0; i < 200; i++) control.zoomCamera(state, 0.8);
    expect(state.camera.distance).toBeGreaterThan(1);
  });

  test("select ignores an unknown mech", () => {
    control.select(state, 99, true);
    expect(state.selected).toBe(-1);
  });
});

describe("timeline", () => {
  test("clockText formats seconds as m:ss", () => {
    expect([clockText(0), clockText(59.99), clockText(61), clockText(-3)]).toEqual(["0:00", "0:59", "1:01", "0:00"]);
  });

  test("nextSpeed steps from fastest backward to fastest forward", () => {
    let speed: number = SPEEDS[0];
    for (const expected of SPEEDS.slice(1)) expect((speed = nextSpeed(speed, 1))).toBe(expected);
    expect(nextSpeed(16, 1)).toBe(16);
    expect(nextSpeed(-8, -1)).toBe(-8);
  });

  test("advance limits the cursor to the match", () => {
    expect(advance(5, 1, 1, 20, 10)).toEqual({ tick: 10, stopped: true });
    expect(advance(5, 0.1, -1, 20, 10)).toEqual({ tick: 3, stopped: false });
  });

  test("deathTicks returns each mech's death", () => {
    const markers = [
      { tick: 9, kind: EventKind.KILL, actor: 1, target: 2 },
      { tick: 12, kind: EventKind.FALL, actor: 0, target: -1 },
    ];
    expect([...deathTicks(markers, EventKind.KILL, 4)]).toEqual([Infinity, Infinity, 9, Infinity]);
    expect(nextMarker(markers, 9, 1)?.tick).toBe(12);
  });
});

describe("groupEvents", () => {
  const heat = (tick: number, actor: number) => ({ tick, kind: EventKind.SHUTDOWN, actor, target: -1 });
  const kill = (tick: number, actor: number, target: number) => ({ tick, kind: EventKind.KILL, actor, target });

  test("joins overheating of all mechs in one line, and keeps kills apart", () => {
    const lines = groupEvents([heat(1, 3), kill(2, 0, 5), heat(2, 4), heat(3, 3), kill(4, 0, 6)]);
    expect(lines.map(({ kind, tick }) => [kind, tick])).toEqual([
      [EventKind.KILL, 2],
      [EventKind.SHUTDOWN, 3],
      [EventKind.KILL, 4],
    ]);
    expect([...lines[1].mechs]).toEqual([
      [3, 2],
      [4, 1],
    ]);
    const { header } = state.match!;
    expect(lineText(header, lines[1])).toBe("B5, B4 (2 times) overheated");
    expect(lineText(header, lines[0])).toBe("B1 destroyed R1");
  });

  test("names at most four mechs in a line", () => {
    const [line] = groupEvents([0, 1, 2, 3, 4, 5].map((actor) => heat(actor, actor)));
    expect(lineText(state.match!.header, line)).toBe("R1, B5, B4, 3 more overheated");
  });
});

describe("top-down camera", () => {
  test.each([
    [1280, 720],
    [960, 600],
    [480, 800],
  ])("shows every corner of the map between the panels of a %i by %i window", (width, height) => {
    state.window = [width, height];
    const side = width > 760 ? 250 : 0;
    state.insets = { left: side, right: side, top: 96, bottom: 132 };
    control.setCameraMode(state, "top");
    const { target, distance } = state.camera;
    const { right: across, down: along } = freeArea(state.window, state.insets);
    const [sizeX, sizeY, sizeZ] = state.match!.header.world.size;
    const scale = height / (2 * Math.tan(FIELD_OF_VIEW / 2));
    for (const [x, y] of [
      [0, 0],
      [sizeX, 0],
      [0, sizeY],
      [sizeX, sizeY],
    ]) {
      for (const z of [0, sizeZ]) {
        const [right, down] = [
          ((x - target[0]) / (distance - z)) * scale + width / 2 + across,
          height / 2 + along - ((y - target[1]) / (distance - z)) * scale,
        ];
        expect(right).toBeGreaterThanOrEqual(side);
        expect(right).toBeLessThanOrEqual(width - side);
        expect(down).toBeGreaterThanOrEqual(90);
        expect(down).toBeLessThanOrEqual(height - 125);
      }
    }
  });
});

describe("HeldKeys", () => {
  const press = { key: "d", shiftKey: false };
  /** Return how far the camera has turned after a second of frames of equal length. */
  async function turned(frames: number): Promise<number> {
    const state = await opened();
    const keys = new HeldKeys();
    const before = state.camera.azimuth;
    keys.press("KeyD", press);
    for (let i = 0; i < frames; i++) keys.advance(state, 1 / frames);
    keys.release("KeyD");
    keys.advance(state, 1);
    return state.camera.azimuth - before;
  }

  test("move the camera by time, whatever the frame rate", async () => {
    const [fast, slow] = [await turned(60), await turned(5)];
    expect(fast).toBeCloseTo(slow, 6);
    expect(fast).toBeGreaterThan(0.5);
  });

  test("are a single step when released at once, and end with the focus of the window", async () => {
    const state = await opened();
    const keys = new HeldKeys();
    const before = { ...state.camera };
    keys.press("KeyD", press);
    keys.advance(state, 0.05);
    expect(state.camera.azimuth).toBe(before.azimuth);
    keys.clear();
    keys.advance(state, 1);
    expect(state.camera.azimuth).toBe(before.azimuth);
  });
});
