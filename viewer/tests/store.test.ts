// The store of chunks: what it requests, keeps, drops and requests again.

import { describe, expect, test } from "vitest";
import { ChunkStore, chunkAt, prefetchOrder } from "../src/data/store";
import type { ViewerState } from "../src/state";
import { problemText } from "../src/text";
import { later, smallReplay } from "./fixtures";

test("isPending is true for requested chunks until they arrive or fail", async () => {
  const { chunks } = smallReplay();
  const answers = new Map<number, { take(): void; refuse(): void }>();
  const store = new ChunkStore(
    (number) =>
      new Promise((resolve, reject) => {
        answers.set(number, {
          take: () => resolve(chunks[number % chunks.length]),
          refuse: () => reject(new Error("gone")),
        });
      }),
  );
  store.request(10, 40, 1);
  expect([10, 9, 8].map((number) => store.isPending(number))).toEqual([true, true, true]);
  expect([5, 30, -1].map((number) => store.isPending(number))).toEqual([false, false, false]);
  answers.get(10)?.take();
  answers.get(9)?.refuse();
  await later();
  expect([10, 9, 8].map((number) => store.isPending(number))).toEqual([false, false, true]);
});

test("large chunks are dropped down to the current one and its neighbours", async () => {
  const { chunks } = smallReplay();
  const fetched: number[] = [];
  const store = new ChunkStore((number) => {
    fetched.push(number);
    return Promise.resolve({ ...chunks[0], bytes: 50 });
  }, 100);
  for (let here = 0; here < 20; here++) {
    for (let round = 0; round < 6; round++) {
      store.request(here, 40, 1);
      await later();
    }
    expect(store.get(here)).toBeDefined();
    expect(store.loaded().length).toBeLessThanOrEqual(4);
  }
  expect([store.get(19) !== undefined, store.get(0)]).toEqual([true, undefined]);
  expect(fetched.length, "what was dropped is not fetched again and again").toBeLessThan(50);
});

test("ChunkStore requests only the chunks of the first picture before it is drawn", () => {
  const requested: number[] = [];
  const store = new ChunkStore((number) => (requested.push(number), new Promise(() => undefined)));
  store.request(5, 20, 1, true);
  store.request(5, 20, 1, true);
  expect(requested).toEqual([5, 4, 3]);
});

test("prefetches the current chunk, then alternates ahead and behind", () => {
  expect(prefetchOrder(5, 20, 1)).toEqual([5, 6, 4, 7, 3, 8, 2, 9, 1]);
  expect(prefetchOrder(5, 20, -1)).toEqual([5, 4, 6, 3, 7, 2, 8, 1, 9]);
  expect(prefetchOrder(0, 2, 1)).toEqual([0, 1]);
});

test("chunkAt finds chunks by tick", () => {
  const ticks = [
    [0, 40],
    [40, 80],
    [80, 95],
  ];
  expect([0, 40, 41, 95, 500].map((tick) => chunkAt(ticks, tick))).toEqual([0, 0, 1, 2, 2]);
});

describe("a failed chunk request", () => {
  const { chunks } = smallReplay();

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
        await later();
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
    await later();
    broken = false;
    store.request(0, 1, 1);
    await later();
    expect(store.get(0)).toBeUndefined();
    store.retry();
    store.request(0, 1, 1);
    await later();
    expect(store.get(0)).toBe(chunks[0]);
  });
});
