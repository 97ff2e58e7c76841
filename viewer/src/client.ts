// Client of the server: the read-only API, and the live channel of notices about changed matches. While the channel is
// closed, the owner is asked to poll instead.

import { ApiError, request } from "./data/request";
import { retryDelay } from "./data/retry";
import type { Header, IndexView, LeagueView, MatchSummary, Notice } from "./protocol.gen";

const RETRY_MS = [500, 1000, 2000, 5000, 10000]; // delays before reconnecting the channel
const POLL_MS = 2000; // poll interval while the channel is closed
const SILENCE_MS = 60_000; // longest silence of the channel: the server sends something every 20 s
const HEALTH_MS = 10_000; // longest wait for the answer whether the server responds

/** A replay whose bytes are read when they are needed. */
export interface NamedFile {
  readonly name: string;
  readonly run?: string; // under which a page lists it
  arrayBuffer(): Promise<ArrayBuffer>;
}

export class Api {
  readonly served: boolean = true; // whether a server answers
  onAdded: () => void = () => undefined; // called when a match was added to those of a page

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

  /** URL of a chunk of one version of a match; immutable. */
  chunkUrl(id: string, version: string, number: number): string {
    return `${this.base}/matches/${encodeURIComponent(id)}/chunks/${number}?v=${encodeURIComponent(version)}`;
  }

  observationsUrl(id: string, mech: number): string {
    return `${this.base}/matches/${encodeURIComponent(id)}/observations/${mech}`;
  }

  worldUrl(sha256: string): string {
    return `${this.base}/worlds/${encodeURIComponent(sha256)}`;
  }

  league(): Promise<LeagueView> {
    return this.json("league");
  }

  /** Return the file of a match that a page carries, null for one of a server. */
  fileOf(_id: string): NamedFile | null {
    return null;
  }

  /** Add a replay to the matches of a page, and to those of the next visit; return its id, null where a server is. */
  async add(_run: string, _file: File, _isKept = true): Promise<string | null> {
    return null;
  }

  /** URL of a match's replay file with its world embedded, for download. */
  fileUrl(id: string): string {
    return `${this.base}/matches/${encodeURIComponent(id)}/file?world=1`;
  }

  liveUrl(): string {
    return `${this.base.replace(/^http/, "ws")}/live`;
  }

  playUrl(): string {
    return `${this.base.replace(/^http/, "ws")}/play`;
  }

  /** Return whether the server responds, and why it refuses WebSockets of this page, "" if it does not. */
  health(): Promise<{ alive: boolean; refusal: string }> {
    const query = new URLSearchParams({ origin: location.origin });
    return this.json<{ refusal?: string }>(`healthz?${query}`, AbortSignal.timeout(HEALTH_MS)).then(
      ({ refusal = "" }) => ({ alive: true, refusal }),
      (error) => ({ alive: error instanceof ApiError && error.status > 0, refusal: "" }),
    );
  }

  private async json<T>(path: string, signal?: AbortSignal): Promise<T> {
    return (await (await request(`${this.base}/${path}`, signal)).json()) as T;
  }
}

/** Return whether a parsed message is a valid notice. */
export function isNotice(value: unknown): value is Notice {
  if (value === null || typeof value !== "object") return false;
  const { type, id } = value as Record<string, unknown>;
  return (type === "match" || type === "chunk" || type === "ended") && typeof id === "string";
}

/** The live channel: reconnects with increasing delays. */
export class LiveChannel {
  private failures = 0;
  private timer = 0;
  private attemptAt = 0; // time of the next attempt to connect [ms of performance.now], 0 while connected

  constructor(
    private readonly url: string,
    private readonly onNotice: (notice: Notice) => void,
    private readonly onPoll: () => void, // called at intervals while the channel is closed
    private readonly onConnected: (connected: boolean) => void,
  ) {
    this.connect();
  }

  private connect(): void {
    const socket = new WebSocket(this.url);
    const end = () => {
      window.clearTimeout(silence);
      socket.onopen = socket.onmessage = socket.onclose = null;
      socket.close();
      this.pollUntilReconnect();
    };
    // a dead tunnel, as after a night of sleep, keeps its sockets open
    let silence = window.setTimeout(end, SILENCE_MS);
    socket.onopen = () => {
      this.failures = 0;
      this.attemptAt = 0;
      this.onConnected(true);
    };
    socket.onmessage = ({ data }) => {
      window.clearTimeout(silence);
      silence = window.setTimeout(end, SILENCE_MS);
      const notice: unknown = typeof data === "string" ? parse(data) : null;
      if (isNotice(notice)) this.onNotice(notice);
    };
    socket.onclose = end;
  }

  /** Poll until the next attempt to connect. */
  private pollUntilReconnect(): void {
    this.onConnected(false);
    const delay = retryDelay(++this.failures, RETRY_MS);
    const until = (this.attemptAt = performance.now() + delay);
    const poll = () => {
      this.onPoll();
      if (performance.now() >= until) this.connect();
      else this.timer = window.setTimeout(poll, Math.min(POLL_MS, until - performance.now()));
    };
    this.timer = window.setTimeout(poll, Math.min(POLL_MS, delay));
  }

  /** Seconds until the next attempt to connect, 0 while connected or connecting. */
  get retrySeconds(): number {
    return Math.max(0, this.attemptAt - performance.now()) / 1000;
  }

  /** Try to connect at once, if the channel waits for its next attempt. */
  retry(): void {
    if (this.retrySeconds === 0) return;
    window.clearTimeout(this.timer);
    this.attemptAt = 0;
    this.connect();
  }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
