// Sources of replays: the server's API or a local file. Both have the same interface and decode in a worker of their
// own.

import type { Header, IndexView } from "../protocol.gen";
import { WorkerLink } from "../workers/link";
import type { DecodeCalls } from "../workers/messages";
import { Api } from "../client";
import type { Scenery } from "./appearance";
import type { Chunk } from "./replay";

/** A source of one match. */
export interface ReplaySource {
  /** Return header, index so far, and the run of the match, "" for none. */
  open(): Promise<{ header: Header; index: IndexView; run: string }>;
  /** Return the current index; that of a file never changes. */
  refresh(): Promise<IndexView>;
  chunk(number: number): Promise<Chunk>;
  scenery(): Promise<Scenery>;
  close(): void;
}

/** Start a decoding worker. */
export function decodeWorker(): WorkerLink<DecodeCalls> {
  return new WorkerLink<DecodeCalls>(
    new Worker(new URL("../workers/decode.worker.ts", import.meta.url), { type: "module" }),
  );
}

/** A match of the server's catalogue. */
export class ServerSource implements ReplaySource {
  private readonly worker = decodeWorker();
  private header: Header | null = null;
  private version = "";

  constructor(
    private readonly api: Api,
    private readonly id: string,
  ) {}

  async open(): Promise<{ header: Header; index: IndexView; run: string }> {
    const [match, index] = await Promise.all([this.api.match(this.id), this.api.index(this.id)]);
    this.header = match.header;
    this.version = match.summary.version;
    await this.worker.request("setHeader", { header: match.header });
    return { header: match.header, index, run: match.summary.run };
  }

  refresh(): Promise<IndexView> {
    return this.api.index(this.id);
  }

  async chunk(number: number): Promise<Chunk> {
    const bytes = await this.api.chunk(this.id, this.version, number);
    return this.worker.request("record", { bytes }, [bytes]);
  }

  async scenery(): Promise<Scenery> {
    if (this.header === null) throw new Error("the match is not open");
    const { world, materials } = this.header;
    const bytes = await this.api.world(world.sha256);
    return this.worker.request("world", { bytes, size: world.size, materials }, [bytes]);
  }

  close(): void {
    this.worker.close();
  }
}

/** A replay file opened by the user. */
export class FileSource implements ReplaySource {
  private readonly worker = decodeWorker();
  private index: IndexView | null = null;
  private header: Header | null = null;

  constructor(
    private readonly file: File,
    private readonly api: Api,
  ) {}

  async open(): Promise<{ header: Header; index: IndexView; run: string }> {
    const bytes = await this.file.arrayBuffer();
    const opened = await this.worker.request("openFile", { bytes }, [bytes]);
    if (opened.ticks.length === 0) throw new Error("the replay is truncated within its first chunk");
    const { series, markers, outcome } = opened.index;
    this.index = { live: false, chunks: opened.ticks.map(([from, to]) => [from, to, 0]), series, markers, outcome };
    this.header = opened.header;
    return { header: opened.header, index: this.index, run: "" };
  }

  async refresh(): Promise<IndexView> {
    if (this.index === null) throw new Error("the file is not open");
    return this.index;
  }

  chunk(number: number): Promise<Chunk> {
    return this.worker.request("fileChunk", { number });
  }

  async scenery(): Promise<Scenery> {
    try {
      return await this.worker.request("fileWorld", null);
    } catch (error) {
      // files in run folders do not embed their world; the server may have it
      if (this.header === null) throw error;
      const { world, materials } = this.header;
      const bytes = await this.api.world(world.sha256).catch(() => Promise.reject(error));
      return this.worker.request("world", { bytes, size: world.size, materials }, [bytes]);
    }
  }

  close(): void {
    this.worker.close();
  }
}
