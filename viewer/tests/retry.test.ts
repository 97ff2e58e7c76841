// What could not be fetched, and how it comes after all.

import { describe, expect, test } from "vitest";
import { ChunkStore } from "../src/data/store";
import { Sweep } from "../src/data/sweep";
import { problemText } from "../src/hud/words";
import { sweptOf } from "../src/session";
import type { ViewerState } from "../src/state";
import { smallReplay } from "./fixtures";

describe("a chunk that could not be had", () => {
  const { chunks } = smallReplay();
  const settle = () => new Promise((resolve) => setTimeout(resolve));

  test("is tried again after a while, longer each time, and what was wrong is over once it is here", async () => {
    let [now, broken, asked] = [0, true, 0];
    const store = new ChunkStore(() => (asked++, broken ? Promise.reject(new Error("lost")) : Promise.resolve(chunks[0])), undefined, () => now);
    const tries = async (until: number) => {
      for (; now < until; now += 100) {
        store.want(0, 1, 1);
        await settle();
      }
      return asked;
    };
    const state = { problem: "", match: { store, chunkNumber: 0 } } as ViewerState;
    expect(await tries(1000)).toBe(1);
    expect(problemText(state)).toBe("Chunk 0 cannot be shown: Lost");
    expect(await tries(2900)).toBe(2);
    expect(await tries(3100)).toBe(3);
    broken = false;
    expect(await tries(7000)).toBe(3);
    await tries(7200);
    expect([store.get(0), problemText(state)]).toEqual([chunks[0], ""]);
  });

  test("is tried again at once when the channel is back", async () => {
    let broken = true;
    const store = new ChunkStore(() => (broken ? Promise.reject(new Error("lost")) : Promise.resolve(chunks[0])), undefined, () => 0);
    store.want(0, 1, 1);
    await settle();
    broken = false;
    store.want(0, 1, 1);
    await settle();
    expect(store.get(0)).toBeUndefined();
    store.retry();
    store.want(0, 1, 1);
    await settle();
    expect(store.get(0)).toBe(chunks[0]);
  });

  test("does not end the reading of the whole match", async () => {
    const { header } = smallReplay();
    let [now, broken] = [0, true];
    const fetch = (number: number) => (number === 1 && broken ? Promise.reject(new Error("lost")) : Promise.resolve(chunks[number]));
    const sweep = new Sweep(fetch, sweptOf(header), () => now);
    sweep.want(chunks.length, true, -1);
    await settle();
    broken = false;
    sweep.want(chunks.length, true, -1);
    await settle();
    const read = sweep.version;
    now = 1001;
    sweep.want(chunks.length, true, -1);
    await settle();
    expect([sweep.version > read, sweep.version]).toEqual([true, chunks.length]);
  });
});
