// Client of the server: the read-only API, and the live channel of notices about changed matches. While the channel is
// closed, the owner is asked to poll instead.

import type { LeagueFilter } from "./data/league";
import type { Moment } from "./data/moments";
import { retryDelay } from "./data/retry";
import type { LeagueMatchPage, Header, IndexView, LeagueView, MatchSummary, Notice, PairsView } from "./protocol.gen";

const RETRY_MS = [500, 1000, 2000, 5000, 10000]; // delays before reconnecting the channel
const POLL_MS = 2000; // poll interval while the channel is closed

/** A failed request; the message is shown to the user. Status 0 means that the server did not respond. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    detail: string,
  ) {
    super(detail);
  }
}

/** The server's read-only API. */
export class Api {
  constructor(private readonly base: string = new URL("api/v1", document.baseURI).href) {}

  matches(run: string, limit: number, offset: number): Promise<{ total: number; matches: MatchSummary[] }> {
    const query = new URLSearchParams({ limit: String(limit), offset: String(offset) });
    if (run !== "") query.set("run", run);
    return this.json(`matches?${query}`);
  }

  runs(): Promise<{ runs: { id: string; matches: number }[] }> {
    return this.json("runs");
  }

  match(id: string): Promise<{ summary: MatchSummary; header: Header }> {
    return this.json(`matches/${encodeURIComponent(id)}`);
  }

  index(id: string): Promise<IndexView> {
    return this.json(`matches/${encodeURIComponent(id)}/index`);
  }

  /** Turning points of a match. */
  moments(id: string): Promise<{ moments: Moment[] }> {
    return this.json(`matches/${encodeURIComponent(id)}/moments`);
  }

  /** Bytes of a chunk of one version of a match; immutable. */
  chunk(id: string, version: string, number: number): Promise<ArrayBuffer> {
    return this.bytes(`matches/${encodeURIComponent(id)}/chunks/${number}?v=${encodeURIComponent(version)}`);
  }

  world(sha256: string): Promise<ArrayBuffer> {
    return this.bytes(`worlds/${encodeURIComponent(sha256)}`);
  }

  /** Standings and unfinished rounds, without matches. */
  league(): Promise<LeagueView> {
    return this.json("league?limit=0");
  }

  /** A page of matches that pass a filter, newest first, optionally below a match id. */
  leagueMatches(choice: LeagueFilter, limit: number, before?: number): Promise<LeagueMatchPage> {
    const query = new URLSearchParams({ limit: String(limit) });
    for (const [name, value] of Object.entries(choice)) if (value !== "") query.set(name, value);
    if (before !== undefined) query.set("before", String(before));
    return this.json(`league/matches?${query}`);
  }

  /** Head-to-head results of all pairs of entries. */
  leaguePairs(): Promise<PairsView> {
    return this.json("league/pairs");
  }

  /** URL of a match's replay file with its world embedded, for download. */
  fileUrl(id: string): string {
    return `${this.base}/matches/${encodeURIComponent(id)}/file?world=1`;
  }

  /** URL of the live channel. */
  liveUrl(): string {
    return `${this.base.replace(/^http/, "ws")}/live`;
  }

  private async get(path: string): Promise<Response> {
    let response: Response;
    try {
      response = await fetch(`${this.base}/${path}`);
    } catch {
      throw new ApiError(0, "The server does not respond. Is `echelon serve` still running?");
    }
    if (response.ok) return response;
    const problem = (await response.json().catch(() => ({}))) as { detail?: string; title?: string };
    throw new ApiError(
      response.status,
      problem.detail ?? problem.title ?? `The server returned status ${response.status}.`,
    );
  }

  private async json<T>(path: string): Promise<T> {
    return (await (await this.get(path)).json()) as T;
  }

  private async bytes(path: string): Promise<ArrayBuffer> {
    return (await this.get(path)).arrayBuffer();
  }
}

/** Return whether a parsed message is a valid notice. */
export function isNotice(value: unknown): value is Notice {
  if (value === null || typeof value !== "object") return false;
  const { type, id } = value as Record<string, unknown>;
  return (type === "match" || type === "chunk" || type === "ended") && typeof id === "string";
}

/** The live channel: reconnects with increasing delays until it is closed. */
export class LiveChannel {
  private socket: WebSocket | null = null;
  private failures = 0;
  private timer = 0;
  private closed = false;

  constructor(
    private readonly url: string,
    private readonly onNotice: (notice: Notice) => void,
    private readonly onPoll: () => void, // called at intervals while the channel is closed
    private readonly onConnected: (connected: boolean) => void,
  ) {
    this.connect();
  }

  private connect(): void {
    if (this.closed) return;
    const socket = new WebSocket(this.url);
    this.socket = socket;
    socket.onopen = () => {
      this.failures = 0;
      this.onConnected(true);
    };
    socket.onmessage = ({ data }) => {
      const notice: unknown = typeof data === "string" ? parse(data) : null;
      if (isNotice(notice)) this.onNotice(notice);
    };
    socket.onclose = () => this.pollUntilReconnect();
  }

  /** Poll until the next attempt to connect. */
  private pollUntilReconnect(): void {
    if (this.closed) return;
    this.onConnected(false);
    const delay = retryDelay(++this.failures, RETRY_MS);
    const until = performance.now() + delay;
    const poll = () => {
      this.onPoll();
      if (performance.now() >= until) this.connect();
      else this.timer = window.setTimeout(poll, Math.min(POLL_MS, until - performance.now()));
    };
    this.timer = window.setTimeout(poll, Math.min(POLL_MS, delay));
  }

  close(): void {
    this.closed = true;
    window.clearTimeout(this.timer);
    this.socket?.close();
  }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
