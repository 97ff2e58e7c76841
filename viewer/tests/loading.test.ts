// What a match that is being loaded shows: the bytes that have arrived, and what it waits for.

import { afterEach, expect, test, vi } from "vitest";
import { ApiError, received, requestBytes } from "../src/data/request";
import { WorkerLink } from "../src/workers/link";
import type { MeshCalls } from "../src/workers/messages";
import { loadingText } from "../src/text";
import type { MatchState } from "../src/state";

afterEach(() => vi.unstubAllGlobals());

function answer(parts: readonly number[], announced: number, breaks = false): void {
  const body = new ReadableStream<Uint8Array>({
    start: (stream) => {
      for (const length of parts) stream.enqueue(new Uint8Array(length).fill(length));
      if (breaks) stream.error(new Error("reset"));
      else stream.close();
    },
  });
  vi.stubGlobal("fetch", async () => new Response(body, { headers: { "content-length": String(announced) } }));
}

test("the bytes of a body are counted part by part, of those announced", async () => {
  const before = { ...received };
  const seen: [number, number][] = [];
  received.report = () => void seen.push([received.bytes - before.bytes, received.total - before.total]);
  answer([2, 3], 5);
  expect([...(await requestBytes("x"))]).toEqual([2, 2, 3, 3, 3]);
  expect(seen).toEqual([
    [2, 5],
    [5, 5],
  ]);
  answer([2], 9, true);
  await expect(requestBytes("x")).rejects.toEqual(new ApiError(0, "The connection to the server was interrupted."));
});

test("a worker that cannot start answers no call, also none after its failure", async () => {
  const worker = { postMessage: () => undefined } as unknown as Worker;
  const link = new WorkerLink<MeshCalls>(worker);
  const call = () => link.request("ground", { soil: new Uint8Array(), size: [1, 1, 1] });
  const before = call();
  worker.onerror?.({ message: "" } as ErrorEvent);
  await expect(before).rejects.toThrow("cannot start a worker");
  await expect(call()).rejects.toThrow("cannot start a worker");
});

test("a loading match names the share that has arrived, and what else it waits for", () => {
  const text = (match: object, loaded: number[] = []) =>
    loadingText({
      ...{ chunk: null, chunkNumber: 0, scenery: null, source: { received: { bytes: 0, total: 0 } } },
      ...{ store: { failure: () => undefined, loaded: () => loaded } },
      ...match,
    } as unknown as MatchState);
  const source = { received: { bytes: 30_600, total: 45_200 } };
  expect(text({})).toBe("Loading match");
  expect(text({ source })).toBe("Loading match: 67 % of 46 kB");
  expect(text({ source: {} }), "a file").toBe("Loading match");
  expect(text({ source, scenery: {}, chunk: {} }, [0])).toBe("Drawing the match");
  expect(text({ source, scenery: {} }, [0]), "a later moment").toBe("Loading match");
  expect(text({ store: { failure: () => new ApiError(0, "lost") } })).toBe("Waiting for the server");
  expect(text({ store: { failure: () => new ApiError(422, "damaged") } })).toBe("This moment is damaged");
});
