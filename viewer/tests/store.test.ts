// Pending chunks of the store.

import { expect, test } from "vitest";
import { ChunkStore } from "../src/data/store";
import { smallReplay } from "./fixtures";

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
  expect([7, 30, -1].map((number) => store.isPending(number))).toEqual([false, false, false]);
  answers.get(10)?.take();
  answers.get(9)?.refuse();
  await new Promise((resolve) => setTimeout(resolve));
  expect([10, 9, 8].map((number) => store.isPending(number))).toEqual([false, false, true]);
});

test("large chunks are dropped down to the current one and its neighbours", async () => {
  const { chunks } = smallReplay();
  const fetched: number[] = [];
  const store = new ChunkStore((number) => {
    fetched.push(number);
    return Promise.resolve({ ...chunks[0], bytes: 50 });
  }, 100);
  const settled = () => new Promise((resolve) => setTimeout(resolve));
  for (let here = 0; here < 20; here++) {
    for (let round = 0; round < 6; round++) {
      store.request(here, 40, 1);
      await settled();
    }
    expect(store.get(here)).toBeDefined();
    expect(store.loaded().length).toBeLessThanOrEqual(4);
  }
  expect(fetched.length, "what was dropped is not fetched again and again").toBeLessThan(50);
});

test("ChunkStore requests only the chunks of the first picture before it is drawn", () => {
  const requested: number[] = [];
  const store = new ChunkStore((number) => (requested.push(number), new Promise(() => undefined)));
  store.request(5, 20, 1, true);
  store.request(5, 20, 1, true);
  expect(requested).toEqual([5, 4, 3]);
});
