// A play session in the page: what stays on the screen when a request fails, and why a connection was closed.

import { decode, encode } from "@msgpack/msgpack";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { PlaySession } from "../src/play/session";
import type { PlayRequest } from "../src/protocol.gen";
import type { MatchState, ViewerState } from "../src/state";

/** A socket that a test answers. */
class TestSocket {
  static readonly OPEN = 1;
  static last: TestSocket;
  readonly readyState = TestSocket.OPEN;
  readonly sent: PlayRequest[] = [];
  onopen: () => void = () => {};
  onmessage: (event: { data: ArrayBuffer }) => void = () => {};
  onclose: (event: { code: number }) => void = () => {};

  constructor() {
    TestSocket.last = this;
  }

  send(data: Uint8Array): void {
    this.sent.push(decode(data) as PlayRequest);
  }

  close(): void {}

  answer(message: object): void {
    this.onmessage({ data: encode(message).slice().buffer as ArrayBuffer });
  }
}

const STATE = { t: "state", phase: "ended", paused: false, speed: 1, seats: [], clients: 1, tick: 0, note: "" };
const ENDED = { t: "ended", winner: "blue", reason: "zone_control", tick: 40, source: {}, figures: {} };

function connected(state = { problem: "" } as ViewerState): PlaySession {
  const session = new PlaySession(state, "ws://host/play");
  session.connect("token", false);
  TestSocket.last.answer({ t: "welcome", levels: [], policies: [], parameters: [] });
  return session;
}

beforeEach(() => {
  vi.stubGlobal("WebSocket", TestSocket);
  vi.stubGlobal("window", globalThis);
});
afterEach(() => vi.unstubAllGlobals());

describe("a play session", () => {
  test("reports on the page why it has no match", () => {
    const state = { problem: "" } as ViewerState;
    connected(state);
    TestSocket.last.answer({ ...STATE, phase: "idle", note: "" });
    expect(state.problem).toBe("");
    const note = "the match cannot be played: class 'scout' has no mech in team blue";
    TestSocket.last.answer({ ...STATE, phase: "idle", note });
    expect(state.problem).toBe("The match cannot be played: class 'scout' has no mech in team blue");
    state.problem = "";
    TestSocket.last.answer({ ...STATE, phase: "idle", note, clients: 2 });
    expect(state.problem).toBe("");
  });

  test("says why a search for mistakes has no result", () => {
    const session = connected();
    session.findMistakes({ id: "m", run: "r", file: "f" } as MatchState);
    TestSocket.last.answer({ t: "welcome", session: "another" });
    expect(session.coach?.problem).toMatch(/lost before the result/);
  });

  test("keeps how the match ended until another one begins", () => {
    const session = connected();
    const late = { t: "error", code: "seat", text: "you have no seat", re: "input", id: -1 };
    for (const message of [ENDED, STATE, late]) TestSocket.last.answer(message);
    expect(session.problem).toBe("");
    session.restart();
    expect(TestSocket.last.sent.at(-1)).toMatchObject({ t: "start", tick: 0 });
    expect([session.ended?.winner, session.progress]).toEqual(["blue", "Preparing the match"]);
    TestSocket.last.answer({ t: "error", code: "match", text: "no policy", re: "start", id: -1 });
    expect([session.ended?.winner, session.progress, session.problem]).toEqual(["blue", "", "no policy"]);
  });

  test("plays a match that was taken over again from its moment", () => {
    const session = connected();
    const header = { parent: { file: "seen.ecr", tick: 400 } };
    session.live = { match: { header } } as unknown as PlaySession["live"];
    session.restart();
    expect(TestSocket.last.sent.at(-1)).toMatchObject({ t: "start", source: {}, tick: 400 });
  });

  test("takes a connection that hangs for a lost one, and opens another", () => {
    vi.useFakeTimers({ toFake: ["setInterval", "setTimeout", "clearInterval", "clearTimeout", "performance"] });
    connected();
    const hanging = TestSocket.last;
    hanging.onopen();
    vi.advanceTimersByTime(9500);
    hanging.answer({ t: "pong" });
    vi.advanceTimersByTime(9500);
    expect([TestSocket.last === hanging, hanging.sent.filter(({ t }) => t === "ping").length]).toEqual([true, 6]);
    vi.advanceTimersByTime(9000);
    expect(TestSocket.last).not.toBe(hanging);
    vi.useRealTimers();
  });

  test("pauses behind a dialog for one pilot only, and leaves a pause of the pilot alone", () => {
    const session = connected();
    const sent = () => TestSocket.last.sent.flatMap((each) => (each.t === "pace" ? [each.paused] : []));
    const now = (paused: boolean, pilots = 1) =>
      TestSocket.last.answer({ ...STATE, phase: "playing", paused, seats: Array(pilots).fill({}) });
    now(false);
    for (const isOpen of [false, true, true]) expect(session.waitFor(isOpen)).toBe(false);
    now(true);
    session.waitFor(true);
    session.waitFor(false);
    expect(sent()).toEqual([true, false]);
    now(true); // by the pilot
    for (const isOpen of [true, false]) session.waitFor(isOpen);
    now(false, 2);
    expect([session.waitFor(true), session.waitFor(false)]).toEqual([true, false]);
    expect(sent()).toEqual([true, false]);
  });
});
