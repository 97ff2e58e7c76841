// Retries of failed chunk requests.

import { describe, expect, test } from "vitest";
import { ChunkStore } from "../src/data/store";
import { MatchScan } from "../src/data/match_scan";
import { problemText } from "../src/text";
import { scanContext } from "../src/session";
import type { ViewerState } from "../src/state";
import { smallReplay } from "./fixtures";

describe("a failed chunk request", () => {
  const { chunks } = smallReplay();
  const settle = () => new Promise((resolve) => setTimeout(resolve));

  test("is retried with growing delays, and clears its problem on success", async () => {
    let [now, broken, asked] = [0, true, 0];
    const store = new ChunkStore(
      () => (asked++, broken ? Promise.reject(new Error("lost")) : Promise.resolve(chunks[0])),
      undefined,
      () => now,
    );
    const tries = async (until: number) => {
      for (; now < until; now += 100) {
        store.request(0, 1, 1);
        await settle();
      }
      return asked;
    };
    const match = { store, chunkNumber: 0, index: { chunks: [[0, 40, 0]] }, header: { tick_hz: 20 } };
    const state = { problem: "", match } as unknown as ViewerState;
    expect(await tries(1000)).toBe(1);
    expect(problemText(state)).toBe("Cannot load 0:00–0:02: Lost");
    expect(await tries(2900)).toBe(2);
    expect(await tries(3100)).toBe(3);
    broken = false;
    expect(await tries(7000)).toBe(3);
    await tries(7200);
    expect([store.get(0), problemText(state)]).toEqual([chunks[0], ""]);
  });

  test("is retried at once after retry()", async () => {
    let broken = true;
    const store = new ChunkStore(
      () => (broken ? Promise.reject(new Error("lost")) : Promise.resolve(chunks[0])),
      undefined,
      () => 0,
    );
    store.request(0, 1, 1);
    await settle();
    broken = false;
    store.request(0, 1, 1);
    await settle();
    expect(store.get(0)).toBeUndefined();
    store.retry();
    store.request(0, 1, 1);
    await settle();
    expect(store.get(0)).toBe(chunks[0]);
  });

  test("does not end a match scan", async () => {
    const { header } = smallReplay();
    let [now, broken] = [0, true];
    const fetch = (number: number) =>
      number === 1 && broken ? Promise.reject(new Error("lost")) : Promise.resolve(chunks[number]);
    const scan = new MatchScan(fetch, scanContext(header), () => now);
    scan.request(chunks.length, true, -1);
    await settle();
    broken = false;
    scan.request(chunks.length, true, -1);
    await settle();
    const read = scan.version;
    now = 1001;
    scan.request(chunks.length, true, -1);
    await settle();
    expect([scan.version > read, scan.version]).toEqual([true, chunks.length]);
  });
});
