// The connection to a play session: msgpack messages over a WebSocket. A lost connection is opened again for as long as
// the seat is reserved; the owner takes the seat with its key.

import { decode, encode } from "@msgpack/msgpack";
import { retryDelay } from "../data/retry";
import { PLAY_SEAT_HOLD_S, PLAY_VERSION, type PlayMessage, type PlayRequest } from "../protocol.gen";

const RETRY_MS = [300, 700, 1500, 3000, 5000]; // delays before reconnecting
const NAME = "human";
const SILENCE_MS = 10_000; // longest silence of a session, which answers pings at once; then the connection is lost
const PING_MS = 3000; // time between pings
/** Why the server closes a connection for good, in one line. */
const ENDS: Record<number, string> = {
  1001: "The play session has ended.",
  4401: "The token fits no play session that runs now; open the address that the server printed last.",
  4409: "As many people as can fly on this server; try again when one has left.",
  4404: "This server has no play session; start it with `echelon play` or `echelon serve --play`.",
};

export interface SocketEvents {
  message(message: PlayMessage): void;
  /** The connection was lost; it is opened again. */
  lost(): void;
  /** The connection was closed for good, with the reason in one line. */
  closed(reason: string): void;
}

/** Return a message of a session, null for anything else. */
export function parseMessage(data: unknown): PlayMessage | null {
  if (!(data instanceof ArrayBuffer)) return null;
  try {
    const value = decode(new Uint8Array(data)) as PlayMessage | null;
    return value !== null && typeof value === "object" && typeof value.t === "string" ? value : null;
  } catch {
    return null;
  }
}

export class PlaySocket {
  private socket: WebSocket | null = null;
  private failures = 0;
  private lostAt = 0; // time of the loss [ms], 0 while connected
  private timer = 0;
  private askedAt = 0; // time of the first ping since the last message [ms], 0 none
  private done = false;
  private readonly pings = window.setInterval(() => this.ping(), PING_MS);

  constructor(
    private readonly url: string,
    private readonly token: string,
    private readonly events: SocketEvents,
  ) {
    this.connect();
  }

  private connect(): void {
    const socket = new WebSocket(this.url);
    socket.binaryType = "arraybuffer";
    this.socket = socket;
    socket.onopen = () => this.send({ t: "hello", version: PLAY_VERSION, token: this.token, name: NAME });
    socket.onmessage = ({ data }) => {
      this.askedAt = 0;
      const message = parseMessage(data);
      if (!message || this.done) return;
      this.failures = this.lostAt = 0;
      this.events.message(message);
    };
    socket.onclose = ({ code }) => this.handleClose(code);
  }

  /** Ask for a sign of life; a tunnel that hangs closes nothing, so silence counts as a loss. */
  private ping(): void {
    if (!this.send({ t: "ping", n: 0 })) return;
    this.askedAt ||= performance.now();
    if (performance.now() - this.askedAt < SILENCE_MS) return;
    this.askedAt = 0;
    if (this.socket) this.socket.onmessage = this.socket.onclose = null;
    this.socket?.close();
    this.handleClose(0);
  }

  private handleClose(code: number): void {
    if (this.done) return;
    const now = performance.now();
    const first = this.lostAt === 0;
    if (first) this.lostAt = now;
    const reason =
      ENDS[code] ?? (now - this.lostAt > PLAY_SEAT_HOLD_S * 1000 ? "The play session does not respond." : "");
    if (reason !== "") {
      this.close();
      this.events.closed(reason);
      return;
    }
    if (first) this.events.lost();
    this.timer = window.setTimeout(() => this.connect(), retryDelay(++this.failures, RETRY_MS));
  }

  /** Send a message; returns false while there is no connection. */
  send(request: PlayRequest): boolean {
    if (this.socket?.readyState !== WebSocket.OPEN) return false;
    this.socket.send(encode(request, { ignoreUndefined: true }));
    return true;
  }

  close(): void {
    this.done = true;
    window.clearTimeout(this.timer);
    window.clearInterval(this.pings);
    this.socket?.close();
  }
}
