// Session: refreshing the match list, following the newest match, the league and promise cache.

import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { type Api, LiveChannel } from "../src/client";
import { PromiseCache } from "../src/data/promise_cache";
import { mergeFirstPage } from "../src/data/matches";
import { ageText, countText, emptyText } from "../src/hud/match_list";
import type { MatchSummary } from "../src/protocol.gen";
import { Session } from "../src/session";
import { type ViewerState, defaults } from "../src/state";
import type { Answer, Request } from "../src/workers/link";
import { emptyIndex, smallReplay } from "./fixtures";

const CAP = 200; // the server's page limit
const PLACE = { seconds: null, mech: null, camera: null };

const summary = (number: number, more: Partial<MatchSummary> = {}) =>
  ({ id: number.toString(16).padStart(16, "0"), run: "r", created: number, live: false, ...more }) as MatchSummary;
const summaries = (from: number, to: number) => Array.from({ length: from - to + 1 }, (_, i) => summary(from - i));
const numbers = (matches: readonly MatchSummary[]) => matches.map((match) => match.created);

/** Return a session on a fake server with a number of matches; slow responses wait until `release` is called. */
function served(count: number) {
  const all = summaries(count, 1);
  const { header } = smallReplay();
  const waiting: (() => void)[] = [];
  const server = { all, slow: false, release: () => waiting.splice(0).forEach((go) => go()) };
  const api = {
    matches: async (run: string, limit: number, offset: number) => {
      const fit = server.all.filter((match) => run === "" || match.run === run);
      const page = { total: fit.length, matches: fit.slice(offset, offset + Math.min(CAP, limit)) };
      if (server.slow) await new Promise<void>((go) => waiting.push(go));
      return page;
    },
    runs: async () => ({ runs: [{ id: "r", matches: server.all.length }] }),
    match: async (id: string) => ({ summary: server.all.find((match) => match.id === id), header }),
    index: async () => emptyIndex([{ tick0: 0, tick1: 40 }]),
    worldUrl: () => "world",
    chunkUrl: () => "chunk",
    served: true,
    fileOf: () => null,
    health: async () => ({ alive: true, refusal: "" }),
    league: async () => ({ standings: [], unfinished: [] }),
  } as unknown as Api;
  const state = defaults();
  return { server, state, session: new Session(state, api, () => undefined) };
}

/** Load all pages. */
async function loadAll(session: Session, state: ViewerState): Promise<void> {
  await session.reload();
  while (state.list.matches.length < state.list.total) await session.loadMore();
}

describe("match list longer than a page", () => {
  test("keeps its length when the first page is reloaded", async () => {
    const { server, state, session } = served(500);
    await loadAll(session, state);
    server.all.unshift(...summaries(503, 501));
    await session.reload();
    expect(numbers(state.list.matches)).toEqual(numbers(summaries(503, 1)));
    const before = state.list.matches;
    await session.reload();
    expect(state.list.matches).toBe(before);
  });

  test("loses no page in a reload and repeats no match", async () => {
    const { server, state, session } = served(300);
    await session.reload();
    server.slow = true;
    const more = session.loadMore();
    server.slow = false;
    server.all.unshift(...summaries(305, 301));
    await session.reload();
    server.release();
    await more;
    expect(numbers(state.list.matches)).toEqual(numbers(summaries(305, 181)));
    await loadAll(session, state);
    expect(numbers(state.list.matches)).toEqual(numbers(summaries(305, 1)));
  });

  test("drops deleted matches and moves ended live matches", () => {
    const known = [summary(9, { live: true }), ...summaries(12, 10), ...summaries(8, 1)];
    const first = { matches: summaries(12, 8), total: 12 };
    expect(numbers(mergeFirstPage(known, first))).toEqual(numbers(summaries(12, 1)));
    expect(numbers(mergeFirstPage(summaries(12, 1), { matches: summaries(12, 8), total: 11 }))).toEqual(
      numbers(summaries(12, 8)),
    );
    expect(numbers(mergeFirstPage(known, { matches: summaries(3, 1), total: 3 }))).toEqual([3, 2, 1]);
  });

  test("reports the matches covered by a search", () => {
    const list = { ...defaults().list, matches: summaries(230, 171), total: 230, text: "anvil", loading: false };
    expect(countText(list, 0)).toBe("0 of 60 loaded, 230 in total");
    expect(emptyText(list)).toContain("None of the 60 loaded matches");
    expect(countText({ ...list, text: "" }, 60)).toBe("60 of 230");
    const whole = { ...list, matches: summaries(230, 1) };
    expect([countText(whole, 3), emptyText(whole)]).toEqual(["3 of 230", "No match fits the filter."]);
    expect(ageText(90)).toBe("1 min ago");
  });
});

describe("openNewest", () => {
  beforeEach(() => {
    vi.useFakeTimers();
    vi.stubGlobal("window", globalThis);
    vi.stubGlobal(
      "Worker",
      class {
        onmessage: (message: { data: Answer }) => void = () => undefined;
        postMessage({ number, call }: Request) {
          if (call !== "setHeader") return; // chunks and worlds never arrive
          queueMicrotask(() => this.onmessage({ data: { number, value: null } }));
        }
        terminate() {}
      },
    );
  });
  afterEach(() => {
    vi.useRealTimers();
    vi.unstubAllGlobals();
  });

  test("is repeated by polling while the channel is closed", async () => {
    const { server, state, session } = served(3);
    await session.openNewest("r");
    expect(state.match?.id).toBe(summary(3).id);
    server.all.unshift(summary(4));
    session["poll"]();
    await vi.runAllTimersAsync();
    expect(state.match?.id).toBe(summary(4).id);
  });

  test("does not reopen a match that is still opening", async () => {
    const { state, session } = served(3);
    const asked = vi.spyOn(session["api"], "index").mockReturnValue(new Promise(() => undefined));
    void session.openNewest("r");
    await vi.runAllTimersAsync();
    session["poll"]();
    await vi.runAllTimersAsync();
    expect([asked.mock.calls.length, state.page]).toEqual([1, "match"]);
  });

  test("is repeated after a reconnection, with failed requests retried", async () => {
    const { server, state, session } = served(3);
    session["setConnected"](true);
    await session.openNewest("r");
    const [chunks, whole] = [vi.spyOn(state.match!.store, "retry"), vi.spyOn(state.match!.scan, "retry")];
    session["setConnected"](true);
    session["setConnected"](false);
    expect(chunks).not.toHaveBeenCalled();
    server.all.unshift(summary(4));
    session["setConnected"](true);
    await vi.runAllTimersAsync();
    expect([chunks.mock.calls.length, whole.mock.calls.length, state.match?.id]).toEqual([1, 1, summary(4).id]);
  });

  test("has no effect after the user has left", async () => {
    for (const leave of [(session: Session) => session.leave(), (session: Session) => void session.openLeague()]) {
      const { server, state, session } = served(3);
      await session.openNewest("r");
      server.slow = true;
      const late = session.openNewest("r");
      server.all.unshift(summary(4));
      leave(session);
      server.slow = false;
      server.release();
      await late;
      session["handleNotice"]({ type: "match", id: "x", chunks: 0, tick1: 0 });
      await vi.runAllTimersAsync();
      expect([state.match, state.followNewest]).toEqual([null, false]);
    }
  });

  test("does not replace a match opened meanwhile", async () => {
    const { server, state, session } = served(3);
    server.slow = true;
    const late = session.openNewest("r");
    await session.open(summary(1).id, { match: summary(1).id, ...PLACE });
    server.release();
    await late;
    expect([state.match?.id, state.followNewest]).toEqual([summary(1).id, false]);
  });
});

test("a live channel that falls silent counts as lost and is opened again", () => {
  vi.useFakeTimers();
  vi.stubGlobal("window", globalThis);
  const sockets: { onopen?: () => void; onmessage?: (event: object) => void; close: () => void }[] = [];
  vi.stubGlobal("WebSocket", function (this: (typeof sockets)[number]) {
    this.close = () => undefined;
    sockets.push(this);
  });
  const connected: boolean[] = [];
  const channel = new LiveChannel(
    "ws://host/live",
    () => undefined,
    () => undefined,
    (is) => connected.push(is),
  );
  sockets[0].onopen?.();
  for (let beat = 0; beat < 3; beat++) {
    vi.advanceTimersByTime(20_000);
    sockets[0].onmessage?.({ data: "{}" });
  }
  expect([connected, sockets.length]).toEqual([[true], 1]);
  vi.advanceTimersByTime(62_000);
  expect([connected, sockets.length, channel.retrySeconds]).toEqual([[true, false], 2, 0]);
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

describe("PromiseCache", () => {
  test("keeps the most recently used results and no failures", async () => {
    const cache = new PromiseCache<number>(2);
    const asked: string[] = [];
    const get = (name: string, answer: () => Promise<number>) => cache.get(name, () => (asked.push(name), answer()));
    const fine = () => Promise.resolve(1);
    await get("a", fine);
    await get("b", fine);
    await get("a", fine);
    await get("c", fine);
    await get("a", fine);
    await get("b", fine);
    expect(asked.join("")).toBe("abcb");
    await expect(get("d", () => Promise.reject(new Error("lost")))).rejects.toThrow("lost");
    expect(await get("d", fine)).toBe(1);
  });
});

test("the league shows an error, keeps its standings, and clears the error after success", async () => {
  const { state, session } = served(1);
  const view = { standings: [], unfinished: [] };
  const league = vi.fn(async () => view);
  Object.assign(session["api"], { league });
  await session.openLeague();
  league.mockRejectedValueOnce(new Error("gone"));
  await session["loadLeague"]();
  expect([state.problem, state.league.view]).toEqual(["Gone", view]);
  await session["loadLeague"]();
  expect(state.problem).toBe("");
});
