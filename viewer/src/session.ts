// What takes time: loading lists and matches from the server or a file, and keeping them fresh by live notices. Each
// answer goes into the state through control.ts; an answer that comes after its question has been overtaken is dropped.

import { type Api, LiveChannel } from "./client";
import * as control from "./control";
import { FileSource, type ReplaySource, ServerSource } from "./data/source";
import { ChunkStore } from "./data/store";
import { teamName } from "./hud/words";
import { makePoses } from "./interpolate";
import type { Header, IndexView, Notice } from "./protocol.gen";
import type { Route } from "./routes";
import type { MatchState, ViewerState } from "./state";

const PAGE = 60; // matches per request
const FRESH_MS = 400; // notices nearer together than this are answered by one request

function message(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** Loads what the state shows. */
export class Session {
  private opening = 0; // number of the newest wish to open something
  private listing = 0; // number of the newest request for the list
  private listFailed = false; // whether the problem shown is the list's
  private timers = new Map<string, number>();

  constructor(private readonly state: ViewerState, private readonly api: Api) {}

  /** Load the list, and listen. */
  start(): void {
    void this.reload();
    new LiveChannel(
      this.api.liveUrl(),
      (notice) => this.take(notice),
      () => this.poll(),
      (connected) => (this.state.connected = connected),
    );
  }

  /** Open a match of the catalogue at a place in it. */
  async open(id: string, route: Route): Promise<void> {
    const source = new ServerSource(this.api, id);
    if (!(await this.watch(id, source))) return;
    const { state } = this;
    if (!state.match) return;
    if (route.seconds !== null) {
      state.following = false;
      control.seek(state, route.seconds * state.match.header.tick_hz);
    }
    if (route.mech !== null) control.select(state, route.mech, false);
    if (route.camera !== null) control.setCameraMode(state, route.camera);
  }

  /** Open a file of the user's. */
  async openFile(file: File): Promise<void> {
    if (await this.watch("file", new FileSource(file, this.api), file.name)) history.replaceState(null, "", "#file");
  }

  /** Leave for the list. */
  leave(): void {
    this.opening++;
    control.closeMatch(this.state);
    void this.reload();
  }

  private async watch(id: string, source: ReplaySource, title = ""): Promise<boolean> {
    const wish = ++this.opening;
    const { state } = this;
    state.problem = "";
    state.page = "match";
    try {
      const opened = await source.open();
      if (wish !== this.opening) return source.close(), false;
      state.match?.source.close();
      control.openMatch(state, this.makeMatch(id, source, opened, title));
      void this.loadWorld(source);
      return true;
    } catch (error) {
      source.close();
      if (wish !== this.opening) return false;
      if (!state.match) state.page = "list";
      state.problem = `Cannot open ${title || "the match"}: ${message(error)}`;
      return false;
    }
  }

  private makeMatch(id: string, source: ReplaySource, opened: { header: Header; index: IndexView }, title: string): MatchState {
    const { header, index } = opened;
    const store = new ChunkStore(
      (number) => source.chunk(number),
      (number, error) => {
        if (error && this.state.match?.source === source) this.state.problem = `Chunk ${number} cannot be shown: ${message(error)}`;
      },
    );
    const match: MatchState = {
      id, source, header, index, store, markers: [], deaths: new Float64Array(header.mechs), world: null, scenery: null,
      title: title || `${teamName(header, 0)} against ${teamName(header, 1)}`, chunk: null, chunkNumber: 0, poses: makePoses(header.mechs),
    };
    control.updateIndex(match, index);
    return match;
  }

  private async loadWorld(source: ReplaySource): Promise<void> {
    try {
      const { world, scenery } = await source.world();
      const { match } = this.state;
      if (match?.source === source) Object.assign(match, { world, scenery });
    } catch (error) {
      if (this.state.match?.source === source) this.state.problem = `The map cannot be shown: ${message(error)}`;
    }
  }

  /** Load the first page of the list anew. */
  async reload(): Promise<void> {
    const { list } = this.state;
    const request = ++this.listing;
    try {
      const [page, { runs }] = await Promise.all([this.api.matches(list.run, Math.max(PAGE, list.matches.length), 0), this.api.runs()]);
      if (request !== this.listing) return;
      Object.assign(list, { matches: page.matches, total: page.total, runs, loading: false });
      if (this.listFailed) this.state.problem = "";
      this.listFailed = false;
    } catch (error) {
      if (request !== this.listing) return;
      list.loading = false;
      this.listFailed = this.state.page === "list";
      if (this.listFailed) this.state.problem = message(error);
    }
  }

  /** Load the next page of the list. */
  async loadMore(): Promise<void> {
    const { list } = this.state;
    const request = ++this.listing;
    const page = await this.api.matches(list.run, PAGE, list.matches.length).catch(() => null);
    if (page && request === this.listing) Object.assign(list, { matches: [...list.matches, ...page.matches], total: page.total });
  }

  /** Narrow the list to a run and to words. */
  async filter(run: string, text: string): Promise<void> {
    const { list } = this.state;
    list.text = text;
    if (run === list.run) return;
    Object.assign(list, { run, matches: [], loading: true });
    await this.reload();
  }

  private take(notice: Notice): void {
    const { match, page } = this.state;
    if (match?.id === notice.id) this.soon("match", () => this.refresh(match));
    if (page === "list" || notice.type !== "chunk") this.soon("list", () => this.reload());
  }

  private poll(): void {
    const { match } = this.state;
    if (match?.index.live) this.soon("match", () => this.refresh(match));
    if (this.state.page === "list") this.soon("list", () => this.reload());
  }

  /** Do something soon, once for many wishes. */
  private soon(name: string, act: () => Promise<void>): void {
    if (this.timers.has(name)) return;
    const run = () => {
      this.timers.delete(name);
      void act();
    };
    this.timers.set(name, window.setTimeout(run, FRESH_MS));
  }

  private async refresh(match: MatchState): Promise<void> {
    const index = await match.source.refresh().catch(() => null);
    if (!index || this.state.match !== match) return;
    match.store.retry();
    control.updateIndex(match, index);
    if (!index.live) this.state.following = false;
  }
}
