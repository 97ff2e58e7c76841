// What takes time: loading lists and matches from the server or a file, and keeping them fresh by live notices. Each
// answer goes into the state through control.ts; an answer that comes after its question has been overtaken is dropped.

import { type Api, LiveChannel } from "./client";
import * as control from "./control";
import type { LeagueChoice } from "./data/league";
import { FileSource, type ReplaySource, ServerSource } from "./data/source";
import { ChunkStore } from "./data/store";
import { Sweep, type Swept } from "./data/sweep";
import { teamName } from "./hud/words";
import { makePoses } from "./interpolate";
import { LeagueSession } from "./league";
import type { Header, IndexView, Notice } from "./protocol.gen";
import { type Route, formatRoute } from "./routes";
import type { MatchState, ViewerState } from "./state";

const PAGE = 60; // matches per request
const FRESH_MS = 400; // notices nearer together than this are answered by one request

/** What reading a whole match must know of it. */
export function sweptOf(header: Header): Swept {
  return {
    size: header.world.size, tickHz: header.tick_hz, terms: header.insight?.terms.length ?? 0,
    spec: (mech) => header.chassis[header.roster[mech].chassis] ?? { hp: 100, heat_cap: 100 },
  };
}

/** The replay that this page holds itself, in a page that was exported to open without a server. */
export function embeddedReplay(): File | null {
  const holder = document.getElementById("echelon-replay");
  if (!holder) return null;
  const text = atob((holder.textContent ?? "").trim());
  const bytes = Uint8Array.from(text, (letter) => letter.charCodeAt(0));
  return new File([bytes], holder.dataset.name ?? "replay.ecr");
}

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

  readonly league: LeagueSession;

  constructor(private readonly state: ViewerState, private readonly api: Api) {
    this.league = new LeagueSession(state, api);
  }

  private newestOf = ""; // run whose newest match is waited for while none is open

  /** Load the list, and listen. */
  start(): void {
    void this.reload();
    new LiveChannel(
      this.api.liveUrl(),
      (notice) => this.take(notice),
      () => this.poll(),
      (connected) => (this.state.connected = connected),
    );
    this.league.start();
  }

  /** Open a match of the catalogue at a place in it. */
  async open(id: string, route: Route): Promise<void> {
    const source = new ServerSource(this.api, id);
    if (!(await this.watch(id, source))) return;
    this.goTo(route);
  }

  /** Go to a place in the match that is open. */
  goTo(route: Route): void {
    const { state } = this;
    if (!state.match) return;
    if (route.seconds !== null) {
      state.following = false;
      control.seek(state, route.seconds * state.match.header.tick_hz);
    }
    if (route.mech !== null) control.select(state, route.mech, false);
    if (route.camera !== null) control.setCameraMode(state, route.camera);
    if (route.view && (state.camera.mode === "orbit" || state.camera.mode === "free")) {
      const [x, y, z, azimuth, elevation, distance] = route.view;
      Object.assign(state.camera, { target: [x, y, z], azimuth, elevation, distance });
    }
    if (route.fog && (route.fog !== "mech" || state.selected >= 0)) state.fog = route.fog;
    if (route.layer) state.layer = route.layer;
    const hz = state.match.header.tick_hz;
    if (route.loop) control.setLoop(state, route.loop[0] * hz, route.loop[1] * hz);
    state.followNewest = route.newest !== undefined;
  }

  /** Open the newest match of a run, "" for any, and go on to each newer one; where there is none yet, wait for it. */
  async openNewest(run: string): Promise<void> {
    this.state.followNewest = true;
    this.newestOf = run;
    const page = await this.api.matches(run, PAGE, 0).catch(() => null);
    const newest = page?.matches.reduce((a, b) => (b.created > a.created ? b : a), page.matches[0]);
    if (!newest || this.state.match?.id === newest.id) return;
    // what is being played is watched to its end
    const { match } = this.state;
    if (match?.index.live && !newest.live) return;
    const fields = { seconds: null, mech: null, camera: match ? this.state.camera.mode : null, newest: run };
    history.replaceState(null, "", formatRoute({ match: newest.id, ...fields }));
    await this.open(newest.id, { match: newest.id, ...fields });
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

  /** Go to the league, with those of its matches that are chosen. */
  async openLeague(choice: LeagueChoice): Promise<void> {
    const { state } = this;
    this.opening++;
    control.closeMatch(state);
    state.page = "league";
    await this.league.choose(choice);
  }

  private async watch(id: string, source: ReplaySource, title = ""): Promise<boolean> {
    const wish = ++this.opening;
    const { state } = this;
    const from = state.page === "league" ? "league" : "list";
    state.problem = "";
    state.page = "match";
    try {
      const opened = await source.open();
      if (wish !== this.opening) return source.close(), false;
      state.match?.sweep.rest();
      state.match?.source.close();
      control.openMatch(state, this.makeMatch(id, source, opened, title));
      void this.loadWorld(source);
      return true;
    } catch (error) {
      source.close();
      if (wish !== this.opening) return false;
      if (!state.match) state.page = from;
      state.problem = `Cannot open ${title || "the match"}: ${message(error)}`;
      return false;
    }
  }

  private makeMatch(id: string, source: ReplaySource, opened: { header: Header; index: IndexView; run: string }, title: string): MatchState {
    const { header, index, run } = opened;
    const store = new ChunkStore(
      (number) => source.chunk(number),
      (number, error) => {
        if (error && this.state.match?.source === source) this.state.problem = `Chunk ${number} cannot be shown: ${message(error)}`;
      },
    );
    const match: MatchState = {
      id, run, source, header, index, store, markers: [], deaths: new Float64Array(header.mechs), world: null, scenery: null,
      title: title || `${teamName(header, 0)} against ${teamName(header, 1)}`, chunk: null, chunkNumber: 0, poses: makePoses(header.mechs),
      shown: new Float32Array(header.mechs).fill(1), sweep: new Sweep((number) => source.chunk(number), sweptOf(header)),
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
    if (notice.type === "match" && this.state.followNewest) this.soon("newest", () => this.openNewest(match?.run ?? this.newestOf));
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
    match.sweep.retry();
    control.updateIndex(match, index);
    if (!index.live) this.state.following = false;
  }
}
