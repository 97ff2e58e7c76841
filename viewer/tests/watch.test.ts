// Watched matches: shown as they are recorded, kept when whole, followed by another, and given up when they are left.

import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { Api } from "../src/client";
import type { GamePage } from "../src/data/game_page";
import { Simulator } from "../src/game/simulator";
import { Watch, verify } from "../src/play/watch";
import type { Session } from "../src/session";
import { type MatchState, type ViewerState, defaults } from "../src/state";

const page = { games: { "5v5": {}, "10v10": {} }, policy: { name: "champion" } } as unknown as GamePage;
const ended = { outcome: { winner: 0 }, live: false, chunks: [[0, 40, 0]] };

class FakeWorker {
  static made: FakeWorker[] = [];
  posted: Record<string, unknown>[] = [];
  closed = false;
  onmessage: (event: { data: unknown }) => unknown = () => undefined;
  constructor() {
    FakeWorker.made.push(this);
  }
  postMessage = (message: Record<string, unknown>) => void this.posted.push(message);
  terminate = () => void (this.closed = true);
  say = (data: unknown) => this.onmessage({ data });
}

let state: ViewerState;
let watch: Watch;
const [added, refreshed]: [string[], number[]] = [[], []];

beforeEach(() => {
  vi.stubGlobal("Worker", FakeWorker);
  FakeWorker.made = [];
  added.length = refreshed.length = 0;
  state = defaults();
  const session = {
    show: async () => {
      state.match = { id: "file", index: ended } as unknown as MatchState;
      return true;
    },
    refresh: async () => void refreshed.push(1),
  } as unknown as Session;
  const add = async (_: string, { name }: File) => `added-${added.push(name)}`;
  watch = new Watch(
    state,
    { add, fileOf: () => ({ arrayBuffer: async () => new ArrayBuffer(1) }) } as unknown as Api,
    page,
    session,
  );
});
afterEach(() => vi.unstubAllGlobals());

test("a match is shown with its first part, kept with its last, and another follows its end", async () => {
  watch.begin("5v5", "hard");
  const [worker] = FakeWorker.made;
  expect(worker.posted).toMatchObject([{ game: "5v5" }, { opponent: "hard" }]);
  await worker.say({ watched: new Uint8Array(2), over: false });
  expect([state.match?.id, watch.waits, refreshed.length]).toEqual(["file", false, 0]);
  await worker.say({ watched: new Uint8Array(3), over: true });
  expect([state.match?.id, refreshed.length, added]).toEqual(["added-1", 1, ["champion-against-hard.ecr"]]);
  Object.assign(state, { tick: 40, playing: false });
  watch.update(1000);
  watch.update(2000);
  expect(worker.posted).toHaveLength(2);
  watch.update(10_000);
  expect([worker.posted.length, watch.waits]).toEqual([3, true]);
  expect(worker.posted[2].seed).not.toBe(worker.posted[1].seed);
});

test("a match that is left ends its worker, and an awaited one does not replace what was opened", async () => {
  watch.begin("5v5", "hard");
  await FakeWorker.made[0].say({ watched: new Uint8Array(2), over: false });
  state.match = null;
  watch.update(0);
  expect([FakeWorker.made[0].closed, watch.next()]).toEqual([true, false]);
  watch.begin("5v5", "easy");
  const other = (state.match = { id: "recorded-0" } as MatchState);
  const worker = FakeWorker.made.at(-1)!; // behind the one that decodes the first match
  await worker.say({ watched: new Uint8Array(2), over: false });
  expect([state.match, worker.closed]).toEqual([other, true]);
});

test("the start form shows why no game can be played", async () => {
  watch.begin("5v5", "hard");
  await FakeWorker.made[0].say({ failed: "no SIMD" });
  expect([watch.problem, watch.waits]).toEqual(["No match can be played: no SIMD", false]);
  vi.stubGlobal("WebAssembly", { validate: () => false });
  await expect(Simulator.load(new Uint8Array(), {} as never)).rejects.toThrow(
    "no WebAssembly with SIMD, expected Chrome",
  );
  const instantiate = () => Promise.reject(new RangeError("Out of memory"));
  vi.stubGlobal("WebAssembly", { validate: () => true, instantiate });
  await expect(Simulator.load(new Uint8Array(), {} as never)).rejects.toThrow("too little memory");
});

test("a match is verified by the game of its size, and one that differs is not", async () => {
  const verified = () => verify(
    page,
    { fileOf: () => ({ arrayBuffer: async () => new ArrayBuffer(1) }) } as unknown as Api,
    { ...{ id: "recorded-0", file: "a.ecr", header: { mechs: 20 } } } as unknown as MatchState,
  );
  const told = verified();
  await vi.waitFor(() => expect(FakeWorker.made[0]?.posted).toHaveLength(2));
  FakeWorker.made[0].say({ verdict: "ok (strict)", isEqual: true });
  expect([await told, FakeWorker.made[0].posted[0].game, FakeWorker.made[0].closed]).toEqual([
    "ok (strict)",
    "10v10",
    true,
  ]);
  const refused = expect(verified()).rejects.toThrow("Not verified: differs");
  await vi.waitFor(() => expect(FakeWorker.made[1]?.posted).toHaveLength(2));
  FakeWorker.made[1].say({ verdict: "differs (strict): chunk 3", isEqual: false });
  await refused;
});
