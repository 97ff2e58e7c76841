// Asynchronous work: loads lists and matches from the server or a file, and keeps them current with live notices.
// Results enter the state through control.ts; results of outdated requests are dropped.

import { type Api, LiveChannel } from "./client";
import * as control from "./control";
import { mergeFirstPage, appendPage } from "./data/matches";
import { Prefetcher } from "./data/prefetch";
import { ApiError } from "./data/request";
import { FileSource, type OpenedMatch, type ReplaySource, sourceOf } from "./data/source";
import { BEHIND, ChunkStore, chunkAt } from "./data/store";
import { KillFacts } from "./data/kill_facts";
import { MatchScan } from "./data/match_scan";
import { ObservationStore } from "./data/observations";
import { WinCurve } from "./data/winprob";
import { teamAxis } from "./director";
import { errorText, teamName } from "./text";
import { makePoses } from "./interpolate";
import type { Notice } from "./protocol.gen";
import { type Route, formatRoute, parseRoute } from "./routes";
import type { MatchState, ViewerState } from "./state";

const NO_MAP = "Cannot load the map";
const NO_SERVER = "a file alone has no observations; put it into a run's replays and open it with `echelon serve`";
const OPENED = "opened"; // run of files that were added to a page
const PAGE_SIZE = 60; // matches per page
const MAX_REFRESH = 200; // most matches of a refresh: the server's limit per request
const LEAGUE_POLL_MS = 5000;
const NOT_FOUND = 404;
const MERGE_DELAY_MS = 400; // delay that merges notices into one request

export function makeMatch(id: string, source: ReplaySource, opened: OpenedMatch, title: string): MatchState {
  const { header, index, run, damage, file = "" } = opened;
  const kills = new KillFacts((tick) => void read(chunkAt(match.index.chunks, tick)).catch(() => null));
  const read = async (number: number) => {
    const chunk = await source.chunk(number);
    kills.add(chunk);
    return chunk;
  };
  const store = new ChunkStore(read);
  const match: MatchState = {
    id,
    run,
    file,
    source,
    damage,
    prefetcher: new Prefetcher((number) => source.prefetch(number)),
    header,
    index,
    store,
    markers: [],
    deaths: new Float64Array(header.mechs),
    axis: null,
    awaitsAxis: false,
    scenery: null,
    mapless: false,
    title: title || `${teamName(header, 0)} against ${teamName(header, 1)}`,
    chunk: null,
    chunkNumber: 0,
    poses: makePoses(header.mechs),
    shown: new Float32Array(header.mechs).fill(1),
    kills,
    scan: new MatchScan(read, header),
    observed: new ObservationStore((mech) => source.observations?.(mech) ?? Promise.reject(new Error(NO_SERVER))),
    win: WinCurve.of(index.win),
    moments: index.moments,
  };
  control.updateIndex(match, index);
  return match;
}

export class Session {
  private openRequest = 0; // number of the latest request to open something
  private openingId = ""; // id of the match being opened, "" for none
  private listRequest = 0; // number of the latest request of the list's first page
  private paging = false; // whether a further page is being loaded
  private listFailed = false; // whether the shown problem is the list's
  private awaitedRun = ""; // run whose newest match is openingId while none is open
  private timers = new Map<string, number>();
  private channel: LiveChannel | null = null;
  private unopened: (() => void) | null = null; // opens again what failed to open while the server was lost
  /** Called when the server responds again. */
  onRecovery: () => void = () => undefined;
  private leagueFailed = false; // whether the shown problem is the league's

  /** `write` replaces the address. */
  constructor(
    private readonly state: ViewerState,
    private readonly api: Api,
    private readonly write: (hash: string) => void,
  ) {}

  start(): void {
    this.api.onAdded = () => void this.reload();
    if (!this.api.served) return;
    this.channel = new LiveChannel(
      this.api.liveUrl(),
      (notice) => this.handleNotice(notice),
      () => {
        void this.probe();
        this.poll();
      },
      (connected) => this.setConnected(connected),
    );
    window.setInterval(
      () => !document.hidden && this.state.page === "league" && void this.loadLeague(),
      LEAGUE_POLL_MS,
    );
  }

  get retrySeconds(): number {
    return this.channel?.retrySeconds ?? 0;
  }

  retry(): void {
    this.channel?.retry();
    void this.probe();
  }

  /** Open a match of the catalogue at the moment of a route. */
  async open(id: string, route: Route): Promise<void> {
    const source = sourceOf(this.api, id);
    this.state.followNewest = route.newest !== undefined;
    this.awaitedRun = route.newest ?? "";
    if (await this.openSource(id, source)) return this.goTo(route);
    if (this.state.lost) this.unopened = () => void this.open(id, route);
  }

  /** Apply a route to the open match; parameters that it does not name get their defaults. */
  goTo(route: Route): void {
    const { state } = this;
    if (!state.match) return;
    control.resetView(state);
    if (route.seconds !== null) {
      state.following = false;
      control.seek(state, route.seconds * state.match.header.tick_hz);
      state.playing = false; // a link to a moment shows that moment
    }
    if (route.mech !== null) control.select(state, route.mech, false);
    // addresses name every camera but orbit, which has a view
    const camera = route.camera ?? (route.view ? "orbit" : null);
    if (camera !== null) control.setCameraMode(state, camera);
    if (route.view && (state.camera.mode === "orbit" || state.camera.mode === "free")) {
      const [x, y, z, azimuth, elevation, distance] = route.view;
      Object.assign(state.camera, { target: [x, y, z], azimuth, elevation, distance });
    }
    if (route.fog && (route.fog !== "mech" || state.selected >= 0)) state.fog = route.fog;
    if (route.layer) state.layer = route.layer;
    const hz = state.match.header.tick_hz;
    if (route.loop) control.setLoop(state, route.loop[0] * hz, route.loop[1] * hz);
    void this.loadAxis(state.match);
    state.followNewest = route.newest !== undefined;
  }

  /** Open the newest match of a run ("" for any) and follow newer ones; wait if there is none yet. */
  async openNewest(run: string): Promise<void> {
    this.state.followNewest = true;
    this.awaitedRun = run;
    if (this.state.page === "list") void this.reload();
    const request = this.openRequest;
    const page = await this.api.matches(run, PAGE_SIZE, 0).catch(() => null);
    // the user has navigated elsewhere meanwhile
    if (request !== this.openRequest || !this.state.followNewest) return;
    const newest = page?.matches.reduce((a, b) => (b.created > a.created ? b : a), page.matches[0]);
    if (!newest || newest.id === this.openingId || newest.id === this.state.match?.id) return;
    // a live match is not left for a finished one
    const { match } = this.state;
    if (match?.index.live && !newest.live) return;
    const fields = { seconds: null, mech: null, camera: match ? this.state.camera.mode : null, newest: run };
    this.write(formatRoute({ match: newest.id, ...fields }));
    await this.open(newest.id, { match: newest.id, ...fields });
  }

  async openFile(file: File): Promise<void> {
    this.state.followNewest = false;
    // what cannot be read is opened as a file, which tells why
    const id = await this.api.add(OPENED, file).catch(() => null);
    if (id !== null) return (this.write(`#match=${id}`), this.open(id, parseRoute("")));
    if (await this.openSource("file", new FileSource(file, this.api), file.name)) this.write("#file");
  }

  /** Open what the page records; returns whether it is open. */
  async show(source: ReplaySource): Promise<boolean> {
    return (await this.openSource("file", source)) && (this.write("#file"), true);
  }

  async openPage(file: File, route: Route): Promise<void> {
    if (await this.openSource("page", new FileSource(file, this.api))) this.goTo(route);
  }

  leave(): void {
    this.close();
    void this.reload();
  }

  async openLeague(): Promise<void> {
    this.close();
    this.state.page = "league";
    await this.loadLeague();
  }

  private async loadLeague(): Promise<void> {
    const { state } = this;
    let problem = "";
    const view = await this.api.league().catch((error) => {
      if (!(error instanceof ApiError && error.status === NOT_FOUND)) problem = errorText(error);
      return null;
    });
    if (state.page !== "league") return;
    if (problem !== "" || this.leagueFailed) state.problem = problem;
    this.leagueFailed = problem !== "";
    if (problem === "") state.league = { view, loading: false };
  }

  /** Close the current match, cancel the opening of another, and stop following the newest. */
  private close(): void {
    this.openRequest++;
    this.openingId = "";
    this.awaitedRun = "";
    this.state.followNewest = false;
    control.closeMatch(this.state);
  }

  private async openSource(id: string, source: ReplaySource, title = ""): Promise<boolean> {
    const request = ++this.openRequest;
    this.unopened = null;
    const { state } = this;
    const from = state.page === "league" ? "league" : "list";
    state.problem = "";
    state.page = "match";
    this.openingId = id;
    try {
      const opened = await source.open();
      if (request !== this.openRequest) return (source.close(), false);
      state.match?.scan.stop();
      state.match?.source.close();
      state.awaitsPicture = true;
      control.openMatch(state, makeMatch(id, source, opened, state.showSpoilers ? title : ""));
      // with reduced motion a match waits for the user
      const still = globalThis.matchMedia?.("(prefers-reduced-motion: reduce)").matches ?? false;
      if (still) state.playing = state.following = false;
      void this.loadWorld(source);
      return true;
    } catch (error) {
      source.close();
      if (request !== this.openRequest) return false;
      if (!state.match) state.page = from;
      if (state.page === "list") void this.reload();
      state.problem = `Cannot open ${title || "the match"}: ${errorText(error)}`;
      if (error instanceof ApiError && error.status === 0 && id !== "file") void this.findOutWhetherLost();
      return false;
    } finally {
      if (request === this.openRequest) this.openingId = "";
    }
  }

  /** Read from the first chunk where the teams start, if the cursor is far from it. */
  private async loadAxis(match: MatchState): Promise<void> {
    const { source, index, header } = match;
    if (index.chunks.length === 0 || chunkAt(index.chunks, this.state.tick) <= BEHIND) return;
    match.awaitsAxis = true;
    const chunk = await source.chunk(0).catch(() => null);
    match.awaitsAxis = false;
    if (chunk) match.axis = teamAxis(header, chunk);
  }

  private async loadWorld(source: ReplaySource): Promise<void> {
    const opened = () => (this.state.match?.source === source ? this.state.match : null);
    try {
      const scenery = await source.scenery();
      const match = opened();
      if (!match) return;
      Object.assign(match, { scenery, mapless: false });
      if (this.state.problem.startsWith(NO_MAP)) this.state.problem = "";
    } catch (error) {
      const match = opened();
      if (!match) return;
      match.mapless = true;
      this.state.problem = `${NO_MAP} of ${match.title}: ${errorText(error)}`;
    }
  }

  /** Reload the first page of the list; known matches below it are kept. */
  async reload(): Promise<void> {
    const { list } = this.state;
    const request = ++this.listRequest;
    try {
      const limit = Math.min(MAX_REFRESH, Math.max(PAGE_SIZE, list.matches.length));
      const [page, { runs }] = await Promise.all([this.api.matches(list.run, limit, 0), this.api.runs()]);
      if (request !== this.listRequest) return;
      Object.assign(list, { matches: mergeFirstPage(list.matches, page), total: page.total, runs, loading: false });
      if (this.listFailed) this.state.problem = "";
      this.listFailed = false;
    } catch (error) {
      if (request !== this.listRequest) return;
      list.loading = false;
      this.listFailed = this.state.page === "list";
      if (this.listFailed) this.state.problem = errorText(error);
    }
  }

  async loadMore(): Promise<void> {
    const { list } = this.state;
    const { run } = list;
    if (this.paging) return;
    this.paging = true;
    const page = await this.api.matches(run, PAGE_SIZE, list.matches.length).catch(() => null);
    this.paging = false;
    if (page && run === list.run) Object.assign(list, { matches: appendPage(list.matches, page), total: page.total });
  }

  async filter(run: string, text: string): Promise<void> {
    const { list } = this.state;
    list.text = text;
    if (run === list.run) return;
    Object.assign(list, { run, matches: [], total: 0, loading: true });
    await this.reload();
  }

  private handleNotice(notice: Notice): void {
    const { match, page } = this.state;
    if (notice.type === "match") this.schedule("newest", () => this.checkForNewer());
    if (match?.id === notice.id) this.schedule("match", () => this.refresh(match));
    if (page === "list" || notice.type !== "chunk") this.schedule("list", () => this.reload());
  }

  private poll(): void {
    const { match } = this.state;
    this.schedule("newest", () => this.checkForNewer());
    if (match?.index.live) this.schedule("match", () => this.refresh(match));
    if (this.state.page === "list") this.schedule("list", () => this.reload());
  }

  /** The live channel opened or closed; after a reconnection everything is refreshed. */
  private setConnected(connected: boolean): void {
    const { state } = this;
    const reconnected = connected && !state.connected;
    state.connected = connected;
    if (!reconnected) return;
    if (state.lost) this.setLost(false);
    else this.retryRequests();
    this.poll();
  }

  /** Find out whether the server responds while the channel is closed. */
  private async probe(): Promise<void> {
    const { alive, refusal } = await this.api.health();
    if (this.state.connected) return;
    this.setLost(!alive);
    if (refusal !== "") this.state.problem = `No live updates: ${refusal.charAt(0).toLowerCase()}${refusal.slice(1)}`;
  }

  /** Find out whether a request failed because the server is lost, or alone. */
  private async findOutWhetherLost(): Promise<void> {
    this.setLost(!(await this.api.health()).alive);
  }

  private setLost(lost: boolean): void {
    const recovered = this.state.lost && !lost;
    this.state.lost = lost;
    if (!recovered) return;
    this.retryRequests();
    this.unopened?.();
    this.onRecovery();
  }

  private retryRequests(): void {
    const { match } = this.state;
    if (!match) return;
    for (const part of [match.store, match.scan, match.prefetcher]) part.retry();
    if (match.scenery === null) void this.loadWorld(match.source);
  }

  private async checkForNewer(): Promise<void> {
    const { match, followNewest } = this.state;
    if (followNewest) await this.openNewest(match?.run ?? this.awaitedRun);
  }

  /** Run an action after a delay, once for several requests. */
  private schedule(name: string, act: () => Promise<void>): void {
    if (this.timers.has(name)) return;
    const run = () => {
      this.timers.delete(name);
      void act();
    };
    this.timers.set(name, window.setTimeout(run, MERGE_DELAY_MS));
  }

  /** Return the match that follows the open one in the list of its run, the first after the last; null without any. */
  async nextMatch(): Promise<string | null> {
    const { match } = this.state;
    const page = match && (await this.api.matches(match.run, MAX_REFRESH, 0).catch(() => null));
    const all = page?.matches.filter(({ id, parent }) => id === match?.id || !parent) ?? [];
    const at = all.findIndex(({ id }) => id === match?.id);
    return all.length > 1 ? all[(at + 1) % all.length].id : null;
  }

  async refresh(match: MatchState): Promise<void> {
    const index = await match.source.refresh().catch(() => null);
    if (!index || this.state.match !== match) return;
    match.store.retry();
    match.scan.retry();
    control.updateIndex(match, index);
    if (!index.live) this.state.following = false;
  }
}
