// The application: the address selects the page; keys, pointers, files and live notices change the state through
// control.ts; one loop renders the state once per frame.

import { Api } from "./client";
import * as control from "./control";
import { embeddedReplay, embeddedStart, isFramed, useEmbeddedWorkers } from "./data/embedded";
import { GameApi, gamePage } from "./data/game_page";
import type { Span } from "./data/reel";
import { el } from "./hud/dom";
import { Hud } from "./hud/hud";
import { LeaguePage } from "./hud/league_page";
import { MatchList } from "./hud/match_list";
import { ProblemBanner } from "./hud/problem_banner";
import { toggleFullscreen } from "./hud/settings_panel";
import { Thumbnails } from "./hud/thumbnails";
import { Tooltip } from "./hud/tooltip";
import { HeldKeys, bindKeys, bindPointer, keyTable } from "./input";
import { Play } from "./play/play";
import { Watch, verify } from "./play/watch";
import { FrameMeter, type TierName, parseTier } from "./quality";
import { formatRoute, parseRoute } from "./routes";
import { Screen } from "./screen";
import { Session } from "./session";
import { SettingsStore } from "./settings";
import { SharePanel } from "./share/panel";
import { FilmMaker, type FilmShape } from "./share/reel_maker";
import { Soundscape } from "./sound/soundscape";
import { defaults, inCatalogue } from "./state";
import { lostText, problemText } from "./text";

const ROUTE_MS = 1000; // update interval of the address
const SLOWEST_FRAME_S = 2; // most time per frame; a slower page is in slow motion

/** The pages and the state that they show. */
export class App {
  private readonly state = defaults();
  private readonly page = gamePage(); // a board has no game
  private readonly game = this.page && Object.keys(this.page.games).length > 0 ? this.page : null;
  private readonly api = this.page ? new GameApi(this.page) : new Api();
  private readonly options = new URLSearchParams(location.search);
  private readonly named: TierName | null; // the address names a graphics tier for this visit only
  private readonly remembered: TierName | null;
  private readonly embedded = embeddedReplay();
  private readonly framed = isFramed();
  private readonly settings = new SettingsStore();
  private readonly canvas = el("canvas", {
    class: "picture",
    attributes: { tabindex: "0" },
    aria: { label: "3D view of the match; the table of all mechs (M) lists the same as text" },
  });
  private readonly screen: Screen;
  private readonly session: Session;
  private readonly soundscape = new Soundscape();
  private readonly problem = new ProblemBanner();
  private readonly thumbnails: Thumbnails;
  private readonly share: SharePanel;
  private readonly hud: Hud;
  private readonly play: Play;
  private readonly list: MatchList;
  private readonly league = new LeaguePage();
  private readonly matchPage: HTMLElement;
  private readonly held = new HeldKeys();
  private readonly meter = new FrameMeter();
  private currentHash = location.hash; // the address last followed or written
  private returnHash = ""; // address of the page from which a match was opened
  private lastFrameMs = performance.now();
  private addressAt = 0;
  private listAt = 0; // scroll position of the list [CSS px]

  constructor(root: HTMLElement) {
    const { state, api, canvas, embedded, framed, game } = this;
    document.documentElement.classList.toggle("embedded", embedded !== null);
    document.documentElement.classList.toggle("framed", framed);
    document.documentElement.classList.toggle("unserved", !api.served);
    useEmbeddedWorkers();
    this.settings.restore(state);
    if (this.options.has("spoilers")) state.showSpoilers = this.options.get("spoilers") !== "0";
    this.remembered = state.quality;
    this.named = parseTier(this.options.get("quality"));
    const overlay = el("canvas", { class: "picture-overlay", aria: { hidden: "true" } });
    const screen = new Screen(canvas, overlay, this.quality, this.options.has("check"));
    this.screen = screen;
    this.session = new Session(state, api, (hash) => this.writeAddress(hash));
    const showList = () => this.showList();
    const watch = game && new Watch(state, api, game, this.session);
    const play = new Play(state, api, screen, (hash) => (location.hash = hash), showList, watch);
    this.play = play;
    this.share = new SharePanel(
      state,
      { picture: () => screen.picture(state), tier: () => screen.cost().tier },
      {
        file: (id) => api.fileUrl(id),
        moment: () => (this.updateAddress(), location.href),
        verify: game ? (match) => verify(game, api, match) : undefined,
      },
    );
    const keys = keyTable({
      showList,
      savePicture: () => void this.share.savePicture(),
      toggleFullscreen,
      takeOver: () => play.openTakeOver(),
      whatIf: () => play.openWhatIf(),
      closeDialogs: () => play.closeDialogs(),
    });
    play.session.onCoached = (id) => state.match?.id === id && void this.session.refresh(state.match);
    const showNext = () => void this.showNext();
    this.hud = new Hud(state, keys, showList, () => screen.quality(), this.share, play.coach, showNext);
    if (!embedded && !framed) this.hud.addTools(play.tools);
    this.thumbnails = new Thumbnails(api);
    this.session.onRecovery = () => this.thumbnails.retry();
    this.list = new MatchList(
      {
        openFile: (file) => this.openFile(file),
        filter: (run, text) => void this.session.filter(run, text),
        more: () => void this.session.loadMore(),
        showResults: (on) => (state.showSpoilers = on),
      },
      this.thumbnails,
      play.startForm.root,
    );
    this.matchPage = el("main", { class: "match-page" }, [canvas, overlay, this.hud.root, play.root]);
    root.append(this.list.root, this.league.root, this.matchPage, this.problem.root, new Tooltip().root);
    bindKeys(state, keys, this.held);
    bindPointer(canvas, state, {
      pick: (x, y, event, twice) => {
        if (state.flying) return play.command.pick(x, y, event, twice);
        const mech = screen.pick(x, y);
        if (mech >= 0 || !twice) control.select(state, mech, twice && mech >= 0);
      },
      drawBox: (box, event, done) => play.command.drawBox(box, event, done),
    });
    this.bindWindow();
  }

  /** Open what the address or the page names, and render from then on. */
  start(): void {
    if (this.embedded) {
      void this.session.openPage(this.embedded, parseRoute(location.hash || embeddedStart()));
      this.screen.prepare();
    } else {
      this.play.start();
      this.session.start();
      this.followAddress();
    }
    requestAnimationFrame((now) => this.frame(now));
  }

  /**
   * For tests and the browser console: state, control functions, cost of the last frame, completeness of the picture
   * and what it waits for, a promise that resolves when it is at rest, an immediate redraw, and films.
   */
  get handle(): object {
    const { state, screen } = this;
    return {
      state,
      control,
      cost: () => screen.cost(),
      complete: () => screen.complete,
      missing: () => screen.missing(),
      settled: () => screen.settled(),
      redraw: () => screen.redraw(state),
      sounds: () => this.soundscape.started,
      play: this.play.session,
      film: (shape: FilmShape, part: readonly Span[] | number) =>
        state.match && new FilmMaker(state.match, shape, part, screen.cost().tier),
    };
  }

  /** The requested graphics tier: of the settings if changed there, else of the address or of the last visit. */
  private get quality(): TierName | null {
    const { quality } = this.state;
    return quality === this.remembered ? (this.named ?? quality) : quality;
  }

  private showList(): void {
    if (this.embedded) return;
    // a match that was flown from the list has the list's address
    if (location.hash === this.returnHash) this.followAddress();
    else location.hash = this.returnHash;
  }

  /** Open the match that the list has below the open one, the first after the last. */
  private async showNext(): Promise<void> {
    if (this.play.watching?.next()) return;
    const id = await this.session.nextMatch();
    if (id !== null) location.hash = `#match=${id}`;
  }

  private openFile(file: File | undefined): void {
    if (file) void this.session.openFile(file);
  }

  private bindWindow(): void {
    window.addEventListener("hashchange", () => this.followAddress());
    window.addEventListener("click", (event) => {
      // a link to the current address fires no event, e.g. to retry a match that failed to open
      const link = event.target instanceof Element ? event.target.closest("a") : null;
      const here = !event.ctrlKey && !event.metaKey && !event.shiftKey;
      if (link && here && link.hash !== "" && link.hash === location.hash) this.followAddress();
    });
    for (const name of ["dragover", "drop"] as const) {
      window.addEventListener(name, (event) => {
        event.preventDefault();
        document.body.classList.toggle("dragging", name === "dragover");
        if (name === "drop") this.openFile(event.dataTransfer?.files[0]);
      });
    }
    window.addEventListener("dragleave", () => document.body.classList.remove("dragging"));
    document.addEventListener("visibilitychange", () => (this.lastFrameMs = performance.now()));
  }

  /** Open what the address names. Addresses written by the viewer itself do not trigger this. */
  private followAddress(): void {
    const { state, session } = this;
    const route = parseRoute(location.hash);
    this.currentHash = location.hash;
    if (this.embedded) {
      if (state.match?.id === "page") session.goTo(route);
    } else if (route.match === null && route.newest !== undefined) {
      void session.openNewest(route.newest);
    } else if (route.match === null && route.league) {
      this.returnHash = location.hash;
      void session.openLeague();
    } else if (route.match === null) {
      // a local file has no address: only an empty address closes it
      this.returnHash = "";
      if (state.match?.id !== "file" || location.hash === "") session.leave();
    } else if (state.match?.id !== route.match) {
      void session.open(route.match, route);
      this.screen.prepare();
    } else {
      session.goTo(route);
    }
  }

  private frame(now: number): void {
    requestAnimationFrame((next) => this.frame(next));
    const { state, screen, list, league, hud, play, session } = this;
    const interval = Math.max(0, now - this.lastFrameMs);
    const elapsed = Math.min(SLOWEST_FRAME_S, interval / 1000);
    this.lastFrameMs = now;
    const lost = lostText(state);
    const message = lost || problemText(state);
    // playback waits until the first picture is complete
    const runs = screen.ready || screen.problem !== "" || message !== "";
    if (state.flying) play.fly(now, elapsed);
    else control.tickClock(state, runs ? elapsed : 0);
    state.slowRate = runs && state.match && state.playing ? this.meter.add(interval) : this.meter.reset();
    this.held.advance(state, elapsed);
    if (state.page === "match" && this.canvas.clientWidth > 0)
      state.window = [this.canvas.clientWidth, this.canvas.clientHeight];
    const isListed = state.page === "list";
    const turned = isListed === list.root.hidden;
    if (turned && !isListed) this.listAt = window.scrollY;
    list.root.hidden = !isListed;
    league.root.hidden = state.page !== "league";
    this.matchPage.hidden = state.page !== "match";
    this.problem.update(message || screen.problem, lost ? () => session.retry() : null, session.retrySeconds);
    if (!list.root.hidden) list.update(state);
    if (turned && isListed) window.scrollTo(0, this.listAt);
    if (!league.root.hidden) league.update(state.league);
    screen.setQuality(this.quality);
    screen.draw(state, elapsed);
    const drawn = screen.hasDrawn(state.match) || screen.problem !== "" || message !== "";
    if (state.awaitsPicture && (drawn || (state.match && control.isBlank(state.match)))) state.awaitsPicture = false;
    this.soundscape.update(state);
    this.settings.update(state);
    hud.root.hidden = state.flying;
    if (state.match && !state.flying) hud.update(state.match, screen.ready);
    else hud.leave();
    play.update(now, drawn);
    document.title = this.title;
    if (now - this.addressAt > ROUTE_MS) {
      this.addressAt = now;
      this.updateAddress();
    }
  }

  private get title(): string {
    const { match, page } = this.state;
    if (match) return `${match.title} · Echelon`;
    return page === "match" || page === "list" ? "Echelon" : "League · Echelon";
  }

  /** Replace the address without following it. */
  private writeAddress(hash: string): void {
    history.replaceState(null, "", hash);
    this.currentHash = location.hash;
  }

  /** Update the address to the current moment, except for local files and while another page is being opened. */
  private updateAddress(): void {
    const { state, currentHash } = this;
    const { match, camera, fog, layer, loop } = state;
    if (!match || match.id === "file" || state.flying || this.framed || location.hash !== currentHash) return;
    const hz = match.header.tick_hz;
    const placed = camera.mode === "orbit" || camera.mode === "free";
    const hash = formatRoute({
      match: inCatalogue(match) ? match.id : null,
      seconds: state.following ? null : state.tick / hz,
      mech: state.selected,
      camera: camera.mode,
      fog,
      layer,
      view: placed ? [...camera.target, camera.azimuth, camera.elevation, camera.distance] : undefined,
      loop: loop ? [loop[0] / hz, loop[1] / hz] : undefined,
      newest: state.followNewest ? match.run : undefined,
    });
    if (hash !== location.hash) this.writeAddress(hash);
  }
}
