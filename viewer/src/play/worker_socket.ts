// The connection to a play session in a worker of the page, for pages without a server: the counterpart of PlaySocket.

import type { Api } from "../client";
import type { GamePage } from "../data/game_page";
import type { FromSession, ToSession } from "../game/session.worker";
import { PLAY_VERSION, type PlayRequest, type PlaySource } from "../protocol.gen";
import type { SocketEvents } from "./socket";

export class WorkerSocket {
  private readonly worker = new Worker(new URL("../game/session.worker.ts", import.meta.url), { type: "module" });
  private opened = false;

  constructor(
    page: GamePage,
    private readonly api: Api,
    private readonly events: SocketEvents,
    game: string,
  ) {
    this.worker.onmessage = ({ data }: MessageEvent<FromSession>) => this.receive(data);
    this.worker.onerror = ({ message }) => this.fail(message || "the play session cannot start");
    this.post({ open: page, game });
  }

  private receive(data: FromSession): void {
    if ("failed" in data) return this.fail(data.failed);
    if ("source" in data) {
      const { run = "", file = "" } = data.source;
      return void this.api.add(run, new File([data.data.slice()], file));
    }
    if ("opened" in data) {
      this.opened = true;
      return void this.send({ t: "hello", version: PLAY_VERSION });
    }
    this.events.message(data.message);
    if (data.message.t === "frame") this.post("next");
  }

  private fail(reason: string): void {
    this.close();
    this.events.closed(`The play session cannot go on: ${reason}`);
  }

  private post(message: ToSession): void {
    this.worker.postMessage(message);
  }

  /** Send a message, with the recording that it names; returns false while the session does not answer. */
  send(request: PlayRequest): boolean {
    if (!this.opened) return false;
    const source = "source" in request ? request.source : undefined;
    void this.recording(source).then((data) => this.post({ request, data }));
    return true;
  }

  private async recording(source: PlaySource = {}): Promise<Uint8Array | null> {
    if (!source.file) return null;
    const { matches } = await this.api.matches("", Infinity, 0);
    const found = matches.find(({ run, file }) => run === (source.run ?? "") && file === source.file);
    const file = found ? this.api.fileOf(found.id) : null;
    return file && new Uint8Array(await file.arrayBuffer());
  }

  close(): void {
    this.opened = false;
    this.worker.terminate();
  }
}
