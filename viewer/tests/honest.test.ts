// What the page says of damaged files, a lost server and slow drawing, and how playback gets over them.

import { describe, expect, test } from "vitest";
import * as control from "../src/control";
import { type FileDamage, UNDAMAGED, damageText, spansText } from "../src/data/damage";
import { PREFETCH_BYTES, Prefetcher, fitsMemory } from "../src/data/prefetch";
import { ApiError, DAMAGED } from "../src/data/request";
import { ChunkStore } from "../src/data/store";
import { lostText, problemText } from "../src/text";
import { makePoses } from "../src/interpolate";
import type { Header, IndexView, Outcome } from "../src/protocol.gen";
import { FrameMeter, rateText } from "../src/quality";
import { type MatchState, type ViewerState, defaults } from "../src/state";
import { later, smallExpected, smallReplay } from "./fixtures";

const { header, chunks } = smallReplay();
const HZ = header.tick_hz;
const ended = { winner: 1 } as Outcome;
const index = (outcome: Outcome | null, live = false, bytes = 0) =>
  ({ live, outcome, chunks: chunks.map(({ tick0, tick1 }) => [tick0, tick1, bytes]) }) as unknown as IndexView;

describe("damageText", () => {
  const text = (outcome: Outcome | null, file: Partial<FileDamage> = {}, unread: number[] = [], live = false) =>
    damageText(header as Header, index(outcome, live), { ...UNDAMAGED, ...file }, unread);
  const end = chunks.at(-1)!.tick1 / HZ;
  const clock = `0:${String(Math.floor(end)).padStart(2, "0")}`;

  test("is empty for whole and for live matches", () => {
    expect([text(ended), text(null, { complete: true }, [], true)]).toEqual(["", ""]);
  });

  test("names cause, recovered time and the missing result", () => {
    expect(text(null, { fault: "cut", complete: false })).toBe(
      `Truncated file: recovered first ${clock}, result missing`,
    );
    expect(text(null, { fault: "damaged", complete: false })).toContain("Damaged file");
    expect(text({ winner: -1 } as Outcome, { complete: false })).toContain("Incomplete recording");
  });

  test("names the time of damaged chunks, found at once or while playing", () => {
    expect(text(ended, { chunks: [1] }, [2, 1])).toMatch(/^Damaged file: 0:0\d–0:0\d cannot be read$/);
  });

  test("joins neighbouring chunks and counts what it does not name", () => {
    const many = { chunks: Array.from({ length: 20 }, (_, i) => [i * 40, i * 40 + 40, 0]) } as unknown as IndexView;
    expect(spansText(many, 20, [3, 2, 1, 7])).toBe("0:02–0:08, 0:14–0:16");
    expect(spansText(many, 20, [0, 4, 8, 12, 16])).toMatch(/^0:00–0:02, .* and 2 more$/);
  });
});

/** A state at the start of the golden match whose chunk 1 fails with a status, all others are in memory. */
async function failing(status: number): Promise<{ state: ViewerState; match: MatchState; repair: () => void }> {
  let broken = true;
  const store = new ChunkStore((number) =>
    number === 1 && broken ? Promise.reject(new ApiError(status, "no")) : Promise.resolve(chunks[number]),
  );
  const none = { request: () => undefined, stop: () => undefined, retry: () => undefined };
  const base = { id: "m", header, store, damage: UNDAMAGED, poses: makePoses(header.mechs), moments: [] };
  const parts = { axis: 0, shown: new Float32Array(header.mechs), scan: none, prefetcher: none };
  const match = { ...base, ...parts } as unknown as MatchState;
  control.updateIndex(match, { ...smallExpected().index, ...index(ended) });
  const state = defaults();
  control.openMatch(state, match);
  for (let i = 0; i < 8; i++) {
    control.tickClock(state, 0);
    await later();
  }
  return { state, match, repair: () => ((broken = false), store.retry()) };
}

describe("playback at a chunk that cannot be loaded", () => {
  test("skips a damaged one and plays on", async () => {
    const { state, match } = await failing(DAMAGED);
    for (let i = 0; i < 60 && state.tick < chunks[2].tick0 + 10; i++) control.tickClock(state, 0.1);
    expect(state.tick).toBeGreaterThan(chunks[2].tick0);
    expect([state.playing, match.store.damaged(), problemText(state)]).toEqual([true, [1], ""]);
  });

  test("skips it backward too, and stops where nothing follows", async () => {
    const { state, match } = await failing(DAMAGED);
    control.seek(state, chunks[2].tick0 + 5);
    control.setSpeed(state, -1);
    for (let i = 0; i < 60 && state.playing; i++) control.tickClock(state, 0.1);
    expect([state.tick, state.playing]).toEqual([0, false]);
    match.index.chunks = match.index.chunks.slice(0, 2);
    control.setSpeed(state, 1);
    for (let i = 0; i < 60 && state.playing; i++) control.tickClock(state, 0.1);
    expect(state.playing).toBe(false);
  });

  test("stops for a lost server, shows no stale figures, and continues when the chunk arrives", async () => {
    const { state, match, repair } = await failing(0);
    state.lost = true;
    for (let i = 0; i < 60; i++) control.tickClock(state, 0.1);
    expect([state.playing, state.interrupted, control.isBlank(match)]).toEqual([false, true, true]);
    expect(match.poses.tick).toBeNaN();
    expect(lostText(state)).toContain("playback has stopped");
    const stopped = state.tick;
    repair();
    for (let i = 0; i < 4; i++) {
      control.tickClock(state, 0.1);
      await later();
    }
    expect(state.playing).toBe(true);
    expect(state.tick).toBeGreaterThan(stopped);
    expect(match.poses.tick).not.toBeNaN();
  });

  test("does not continue after the user has paused", async () => {
    const { state, repair } = await failing(0);
    for (let i = 0; i < 60; i++) control.tickClock(state, 0.1);
    control.stepFrames(state, 1);
    repair();
    for (let i = 0; i < 4; i++) {
      control.tickClock(state, 0.1);
      await later();
    }
    expect(state.playing).toBe(false);
  });
});

describe("Prefetcher", () => {
  test("fetches every chunk once, but none while the player waits", async () => {
    const fetched: number[] = [];
    const prefetcher = new Prefetcher(async (number) => fetched.push(number));
    prefetcher.request(index(ended), true);
    expect(fetched).toEqual([]);
    for (let i = 0; i < 3 * chunks.length; i++) {
      prefetcher.request(index(ended), false);
      await later();
    }
    expect(fetched).toEqual(chunks.map((_, number) => number));
  });

  test("repeats a failed chunk after a delay, at once after retry", async () => {
    let [now, calls] = [0, 0];
    const prefetcher = new Prefetcher(
      () => (++calls === 1 ? Promise.reject(new Error("no")) : Promise.resolve()),
      () => now,
    );
    for (let i = 0; i < 3; i++) {
      prefetcher.request(index(ended), false);
      await later();
    }
    expect(calls).toBe(1);
    prefetcher.retry();
    prefetcher.request(index(ended), false);
    expect(calls).toBe(2);
  });

  test("leaves large matches to the server", () => {
    expect(fitsMemory(index(ended, false, 100))).toBe(true);
    expect(fitsMemory(index(ended, false, PREFETCH_BYTES))).toBe(false);
  });
});

describe("FrameMeter", () => {
  const rate = (meter: FrameMeter, interval: number) => {
    for (let i = 0; i < 40; i++) meter.add(interval);
    return meter.add(interval);
  };

  test("reports slow drawing only, and until it is clearly faster", () => {
    const meter = new FrameMeter();
    expect(rate(meter, 17)).toBe(0);
    expect(rateText(rate(meter, 166))).toBe("Drawing at 6 fps, frames are skipped");
    expect(rate(meter, 62)).toBeGreaterThan(0);
    expect(rate(meter, 50)).toBe(0);
    for (const interval of [16, 16, 16, 3000, 16, 16, 16, 2000]) expect(meter.add(interval)).toBe(0);
    rate(meter, 300);
    expect([meter.reset(), meter.add(10)]).toEqual([0, 0]);
  });

  test("is in words below one picture a second too", () => {
    expect([rateText(0), rateText(0.4)]).toEqual(["", "Drawing at less than 1 fps, frames are skipped"]);
  });
});
