// What takes time: loading lists and matches from the server or a file, and keeping them fresh by live notices. Each
// answer goes into the state through control.ts; an answer that comes after its question has been overtaken is dropped.

import { type Api, LiveChannel } from "./client";
import * as control from "./control";
import type { LeagueChoice } from "./data/league";
import { withFirst, withNext } from "./data/matches";
import { FileSource, type ReplaySource, ServerSource } from "./data/source";
import { ChunkStore } from "./data/store";
import { Sweep, type Swept } from "./data/sweep";
import { errorText, teamName } from "./hud/words";
import { makePoses } from "./interpolate";
import { LeagueSession } from "./league";
import type { Header, IndexView, Notice } from "./protocol.gen";
import { type Route, formatRoute } from "./routes";
import type { MatchState, ViewerState } from "./state";

const PAGE = 60; // matches that are asked for at first, and further down
const MOST = 200; // that are asked for again at once: as many as the server gives
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

/** Loads what the state shows. */
export class Session {
  private opening = 0; // number of the newest wish to open something
  private awaited = ""; // id of the match that is being opened, "" for none
  private listing = 0; // number of the newest request for the first page of the list
  private paging = false; // whether a further page is on its way
  private listFailed = false; // whether the problem shown is the list's
  private newestOf = ""; // run whose newest match is waited for while none is open
  private timers = new Map<string, number>();

  readonly league: LeagueSession;

  /** `write` lets the address say where we are. */
  constructor(private readonly state: ViewerState, private readonly api: Api, private readonly write: (hash: string) => void) {
    this.league = new LeagueSession(state, api);
  }

  /** Load the list, and listen. */
  start(): void {
    void this.reload();
    new LiveChannel(
      this.api.liveUrl(),
      (notice) => this.take(notice),
      () => this.poll(),
      (connected) => this.turn(connected),
    );
    this.league.start();
  }

  /** Open a match of the catalogue at a place in it. */
  async open(id: string, route: Route): Promise<void> {
    const source = new ServerSource(this.api, id);
    this.state.followNewest = route.newest !== undefined;
    this.newestOf = route.newest ?? "";
    if (!(await this.watch(id, source))) return;
    this.goTo(route);
  }

  /** Go to a place in the match that is open; what the place does not name is as at first. */
  goTo(route: Route): void {
    const { state } = this;
    if (!state.match) return;
    control.resetView(state);
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
    const wish = this.opening;
    const page = await this.api.matches(run, PAGE, 0).catch(() => null);
    // who has gone elsewhere meanwhile stays there
    if (wish !== this.opening || !this.state.followNewest) return;
    const newest = page?.matches.reduce((a, b) => (b.created > a.created ? b : a), page.matches[0]);
    if (!newest || newest.id === this.awaited || newest.id === this.state.match?.id) return;
    // what is being played is watched to its end
    const { match } = this.state;
    if (match?.index.live && !newest.live) return;
    const fields = { seconds: null, mech: null, camera: match ? this.state.camera.mode : null, newest: run };
    this.write(formatRoute({ match: newest.id, ...fields }));
    await this.open(newest.id, { match: newest.id, ...fields });
  }

  /** Open a file of the user's. */
  async openFile(file: File): Promise<void> {
    this.state.followNewest = false;
    if (await this.watch("file", new FileSource(file, this.api), file.name)) this.write("#file");
  }

  /** Open the replay that the page itself holds at a place in it. */
  async openPage(file: File, route: Route): Promise<void> {
    if (await this.watch("page", new FileSource(file, this.api), file.name)) this.goTo(route);
  }

  /** Leave for the list. */
  leave(): void {
    this.close();
    void this.reload();
  }

  /** Go to the league, with those of its matches that are chosen. */
  async openLeague(choice: LeagueChoice): Promise<void> {
    this.close();
    this.state.page = "league";
    await this.league.choose(choice);
  }

  /** Close what is open or about to be, and wait for no newer match. */
  private close(): void {
    this.opening++;
    this.awaited = "";
    this.newestOf = "";
    this.state.followNewest = false;
    control.closeMatch(this.state);
  }

  private async watch(id: string, source: ReplaySource, title = ""): Promise<boolean> {
    const wish = ++this.opening;
    const { state } = this;
    const from = state.page === "league" ? "league" : "list";
    state.problem = "";
    state.page = "match";
    this.awaited = id;
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
      state.problem = `Cannot open ${title || "the match"}: ${errorText(error)}`;
      return false;
    } finally {
      if (wish === this.opening) this.awaited = "";
    }
  }

  private makeMatch(id: string, source: ReplaySource, opened: { header: Header; index: IndexView; run: string }, title: string): MatchState {
    const { header, index, run } = opened;
    const store = new ChunkStore((number) => source.chunk(number));
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
      if (this.state.match?.source === source) this.state.problem = `The map cannot be shown: ${errorText(error)}`;
    }
  }

  /** Load the first page of the list anew; what is known below it stays. */
  async reload(): Promise<void> {
    const { list } = this.state;
    const request = ++this.listing;
    try {
      const limit = Math.min(MOST, Math.max(PAGE, list.matches.length));
      const [page, { runs }] = await Promise.all([this.api.matches(list.run, limit, 0), this.api.runs()]);
      if (request !== this.listing) return;
      Object.assign(list, { matches: withFirst(list.matches, page), total: page.total, runs, loading: false });
      if (this.listFailed) this.state.problem = "";
      this.listFailed = false;
    } catch (error) {
      if (request !== this.listing) return;
      list.loading = false;
      this.listFailed = this.state.page === "list";
      if (this.listFailed) this.state.problem = errorText(error);
    }
  }

  /** Load the next page of the list. */
  async loadMore(): Promise<void> {
    const { list } = this.state;
    const { run } = list;
    if (this.paging) return;
    this.paging = true;
    const page = await this.api.matches(run, PAGE, list.matches.length).catch(() => null);
    this.paging = false;
    if (page && run === list.run) Object.assign(list, { matches: withNext(list.matches, page), total: page.total });
  }

  /** Narrow the list to a run and to words. */
  async filter(run: string, text: string): Promise<void> {
    const { list } = this.state;
    list.text = text;
    if (run === list.run) return;
    Object.assign(list, { run, matches: [], total: 0, loading: true });
    await this.reload();
  }

  private take(notice: Notice): void {
    const { match, page } = this.state;
    if (notice.type === "match") this.soon("newest", () => this.lookForNewer());
    if (match?.id === notice.id) this.soon("match", () => this.refresh(match));
    if (page === "list" || notice.type !== "chunk") this.soon("list", () => this.reload());
  }

  private poll(): void {
    const { match } = this.state;
    this.soon("newest", () => this.lookForNewer());
    if (match?.index.live) this.soon("match", () => this.refresh(match));
    if (this.state.page === "list") this.soon("list", () => this.reload());
  }

  /** The channel is there or gone: what was missed meanwhile is asked for. */
  private turn(connected: boolean): void {
    const { state } = this;
    const back = connected && !state.connected;
    state.connected = connected;
    if (!back) return;
    state.match?.store.retry();
    state.match?.sweep.retry();
    this.poll();
  }

  /** Go on to a newer match, if that is wished. */
  private async lookForNewer(): Promise<void> {
    const { match, followNewest } = this.state;
    if (followNewest) await this.openNewest(match?.run ?? this.newestOf);
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
