// The connection to a play session in a worker: its first messages, recordings in both directions, and its end.

import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { Api } from "../src/client";
import type { GamePage } from "../src/data/game_page";
import type { PlayMessage } from "../src/protocol.gen";
import { WorkerSocket } from "../src/play/worker_socket";

class TestWorker {
  static last: TestWorker;
  readonly sent: unknown[] = [];
  ended = false;
  onmessage: (event: { data: unknown }) => void = () => {};
  onerror: (event: { message: string }) => void = () => {};

  constructor() {
    TestWorker.last = this;
  }

  postMessage(message: unknown): void {
    this.sent.push(message);
  }

  terminate(): void {
    this.ended = true;
  }
}

const PAGE = { games: { "5v5": {} } } as unknown as GamePage;
const added: [string, File][] = [];
const api = {
  matches: async () => ({ matches: [{ id: "m", run: "", file: "seen.ecr" }] }),
  fileOf: (id: string) => (id === "m" ? { arrayBuffer: async () => Uint8Array.of(1, 2).buffer } : null),
  add: async (run: string, file: File) => added.push([run, file]),
} as unknown as Api;
const received: PlayMessage[] = [];
const reasons: string[] = [];

function opened(): [WorkerSocket, TestWorker] {
  const events = {
    message: (message: PlayMessage) => void received.push(message),
    lost: () => undefined,
    closed: (reason: string) => void reasons.push(reason),
  };
  const socket = new WorkerSocket(PAGE, api, events, "5v5");
  return [socket, TestWorker.last];
}

beforeEach(() => vi.stubGlobal("Worker", TestWorker));
afterEach(() => {
  vi.unstubAllGlobals();
  for (const list of [added, received, reasons]) list.length = 0;
});

test("opens a game, says hello, and asks for a frame after each", async () => {
  const [socket, worker] = opened();
  expect(worker.sent).toEqual([{ open: PAGE, game: "5v5" }]);
  expect(socket.send({ t: "leave" })).toBe(false);
  worker.onmessage({ data: { opened: true } });
  await vi.waitFor(() => expect(worker.sent[1]).toMatchObject({ request: { t: "hello" }, data: null }));
  worker.onmessage({ data: { message: { t: "frame" } } });
  expect(received).toEqual([{ t: "frame" }]);
  expect(worker.sent[2]).toBe("next");
});

test("sends recordings that a request names, and keeps those of the session", async () => {
  const [socket, worker] = opened();
  worker.onmessage({ data: { opened: true } });
  expect(socket.send({ t: "what_if", id: 1, source: { run: "", file: "seen.ecr" }, tick: 5 })).toBe(true);
  await vi.waitFor(() => expect(worker.sent[2]).toMatchObject({ data: Uint8Array.of(1, 2) }));
  worker.onmessage({ data: { source: { run: "page", file: "played-001.ecr" }, data: Uint8Array.of(3) } });
  expect(added.map(([run, { name, size }]) => [run, name, size])).toEqual([["page", "played-001.ecr", 1]]);
});

test("tells why the session cannot go on", () => {
  const [socket, worker] = opened();
  worker.onmessage({ data: { failed: "module is damaged" } });
  expect(reasons).toEqual(["The play session cannot go on: module is damaged"]);
  expect([worker.ended, socket.send({ t: "leave" })]).toEqual([true, false]);
});
