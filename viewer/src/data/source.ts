// Sources of replays: the server's API or a local file. Both have the same interface and decode in a worker of their
// own.

import type { Header, IndexView } from "../protocol.gen";
import { WorkerLink } from "../workers/link";
import type { DecodeCalls } from "../workers/messages";
import type { Api, NamedFile } from "../client";
import type { Scenery } from "./appearance";
import { type FileDamage, UNDAMAGED } from "./damage";
import { type Observations, unpackObservations } from "./observations";
import { fitsMemory } from "./prefetch";
import type { Chunk } from "./replay";
import { requestBytes } from "./request";

export interface OpenedMatch {
  header: Header;
  index: IndexView; // as far as recorded
  run: string; // "" for none
  file?: string; // name of its file in the run
  damage: FileDamage; // what of the file cannot be read
}

export interface ReplaySource {
  open(): Promise<OpenedMatch>;
  /** Return the current index; that of a file never changes. */
  refresh(): Promise<IndexView>;
  chunk(number: number): Promise<Chunk>;
  /** Fetch a chunk and keep its bytes, so that the server is not needed for it. */
  prefetch(number: number): Promise<unknown>;
  scenery(): Promise<Scenery>;
  /** Bytes of the map and of chunks that have arrived, and that were announced; absent for files. */
  readonly received?: { bytes: number; total: number };
  /** Fetch what the policy of a mech observed; absent where no server has the file. */
  observations?(mech: number): Promise<Observations>;
  close(): void;
}

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
  private keeps = false; // whether the bytes of chunks are kept

  constructor(
    private readonly api: Api,
    private readonly id: string,
  ) {}

  async open(): Promise<OpenedMatch> {
    const [match, index] = await Promise.all([this.api.match(this.id), this.api.index(this.id)]);
    this.header = match.header;
    this.version = match.summary.version;
    await this.worker.request("setHeader", { header: match.header });
    this.keeps = fitsMemory(index);
    const { run, file, complete } = match.summary;
    return { header: match.header, index, run, file, damage: { ...UNDAMAGED, complete: complete || index.live } };
  }

  get received() {
    return this.worker.received;
  }

  async refresh(): Promise<IndexView> {
    const index = await this.api.index(this.id);
    this.keeps = fitsMemory(index);
    return index;
  }

  chunk(number: number): Promise<Chunk> {
    return this.worker.request("record", { url: this.chunkUrl(number), keep: this.keeps });
  }

  prefetch(number: number): Promise<unknown> {
    return this.worker.request("prefetch", { url: this.chunkUrl(number) });
  }

  private chunkUrl(number: number): string {
    return this.api.chunkUrl(this.id, this.version, number);
  }

  async scenery(): Promise<Scenery> {
    if (this.header === null) throw new Error("the match is not open");
    const { world, materials } = this.header;
    return this.worker.request("world", { url: this.api.worldUrl(world.sha256), size: world.size, materials });
  }

  async observations(mech: number): Promise<Observations> {
    return unpackObservations(await requestBytes(this.api.observationsUrl(this.id, mech)));
  }

  close(): void {
    this.worker.close();
  }
}

export class FileSource implements ReplaySource {
  private readonly worker = decodeWorker();
  private index: IndexView | null = null;
  private header: Header | null = null;

  constructor(
    private readonly replay: NamedFile,
    private readonly api: Api,
  ) {}

  async open(): Promise<OpenedMatch> {
    const bytes = await this.replay.arrayBuffer();
    const opened = await this.worker.request("openFile", { bytes }, [bytes]);
    if (opened.ticks.length === 0) throw new Error("the replay is truncated within its first chunk");
    this.index = { live: false, chunks: opened.ticks.map(([from, to]) => [from, to, 0]), ...opened.index };
    this.header = opened.header;
    return {
      header: opened.header,
      index: this.index,
      run: this.replay.run ?? "",
      file: this.replay.name,
      damage: opened.damage,
    };
  }

  async refresh(): Promise<IndexView> {
    if (this.index === null) throw new Error("the file is not open");
    return this.index;
  }

  chunk(number: number): Promise<Chunk> {
    return this.worker.request("fileChunk", { number });
  }

  async prefetch(): Promise<unknown> {
    return null;
  }

  async scenery(): Promise<Scenery> {
    try {
      return await this.worker.request("fileWorld", null);
    } catch (error) {
      // files in run folders do not embed their world; the server may have it
      if (this.header === null) throw error;
      const { world, materials } = this.header;
      const stored = { url: this.api.worldUrl(world.sha256), size: world.size, materials };
      return this.worker.request("world", stored).catch(() => Promise.reject(error));
    }
  }

  close(): void {
    this.worker.close();
  }
}

/** Return the source of a match: its file where a page carries it, else the server. */
export function sourceOf(api: Api, id: string): FileSource | ServerSource {
  const file = api.fileOf(id);
  return file ? new FileSource(file, api) : new ServerSource(api, id);
}
