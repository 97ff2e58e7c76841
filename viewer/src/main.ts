// Entry point of the viewer: the address selects the page; keys, pointers, files and live notices change the state
// through control.ts; one loop renders the state once per frame.

import "uplot/dist/uPlot.min.css";
import "./style/fonts.css";
import "./style/base.css";
import "./style/list.css";
import "./style/league.css";
import "./style/match.css";
import "./style/roster.css";
import "./style/player.css";
import "./style/narrow.css";
import "./style/win.css";
import "./style/insight.css";
import "./style/guide.css";
import "./style/phone.css";
import "./style/landscape.css";
import "./style/compare.css";
import "./style/play.css";
import "./style/branches.css";
import { Api } from "./client";
import type { Span } from "./data/reel";
import { ComparePage } from "./compare/page";
import { CompareSession } from "./compare/session";
import * as control from "./control";
import { el } from "./hud/dom";
import { Hud } from "./hud/hud";
import { LeaguePage } from "./hud/league_page";
import { MatchList } from "./hud/match_list";
import { ProblemBanner } from "./hud/problem_banner";
import { toggleFullscreen } from "./hud/settings_panel";
import { Thumbnails } from "./hud/thumbnails";
import { Tooltip } from "./hud/tooltip";
import { lostText, problemText } from "./hud/text";
import { HeldKeys, bindKeys, bindPointer, keyTable } from "./input";
import { Play } from "./play/play";
import { FrameMeter } from "./render/frame_meter";
import { parseTier } from "./render/quality";
import { compareHash, formatRoute, leagueHash, parseRoute } from "./routes";
import { Session } from "./session";
import { embeddedReplay, embeddedStart, isFramed, useEmbeddedWorkers } from "./share/embedded";
import { defaults, inCatalogue } from "./state";
import { Screen } from "./screen";
import { SettingsStore } from "./settings";
import { Soundscape } from "./sound/soundscape";
import { FilmMaker, type FilmShape } from "./share/reel_maker";

const ROUTE_MS = 1000; // update interval of the address
const SLOWEST_FRAME_S = 2; // most time per frame; a slower page is in slow motion

const state = defaults();
const api = new Api();
const app = document.getElementById("app") ?? document.body;
const canvas = el("canvas", {
  class: "picture",
  attributes: { tabindex: "0" },
  aria: { label: "3D view of the match; the table of all mechs (M) lists the same as text" },
});
const overlay = el("canvas", { class: "picture-overlay", aria: { hidden: "true" } });
const problem = new ProblemBanner();
const options = new URLSearchParams(location.search);
const settings = new SettingsStore();
settings.restore(state);
const { quality: remembered } = state;
const named = parseTier(options.get("quality")); // the address names a graphics tier for this visit only
const quality = () => (state.quality === remembered ? (named ?? remembered) : state.quality);
const screen = new Screen(canvas, overlay, quality(), options.has("check"));
const soundscape = new Soundscape();
const session = new Session(state, api, (hash) => writeAddress(hash));

const embedded = embeddedReplay();
const framed = isFramed();
document.documentElement.classList.toggle("embedded", embedded !== null);
document.documentElement.classList.toggle("framed", framed);
useEmbeddedWorkers();
let known = location.hash; // the address last followed or written
let left = ""; // address of the page from which a match was opened
const showList = () => {
  if (embedded) return;
  // a match that was flown from the list has the list's address
  if (location.hash === left) followAddress();
  else location.hash = left;
};
const play = new Play(state, api, (hash) => (location.hash = hash), showList);
const keys = keyTable({
  showList,
  savePicture: () => void hud.share.savePicture(),
  toggleFullscreen,
  takeOver: () => play.openTakeOver(),
  whatIf: () => play.openWhatIf(),
  closeDialogs: () => play.closeDialogs(),
});
const shown = { picture: () => screen.picture(state), stream: () => screen.stream(), tier: () => screen.cost().tier };
const addresses = {
  file: (id: string) => api.fileUrl(id),
  moment: () => (updateAddress(), location.href),
  asset: (path: string) => api.asset(path),
};
const hud: Hud = new Hud(state, keys, showList, () => screen.quality(), shown, addresses);
if (!embedded && !framed) hud.addTools(play.tools);
const compare = new ComparePage({ close: () => (location.hash = left) }, parseTier(options.get("quality")));
const compareSession = new CompareSession(state, api, compare);
const openFiles = (files: readonly File[]) => {
  if (files.length === 0) return;
  compareSession.close();
  if (files.length === 1) return void session.openFile(files[0]);
  session.leave();
  void compareSession.openFiles([files[0], files[1]]);
  writeAddress("#files");
};
const thumbnails = new Thumbnails(api);
const list = new MatchList(
  {
    openFiles,
    filter: (run, text) => void session.filter(run, text),
    more: () => void session.loadMore(),
  },
  thumbnails,
);
const matchPage = el("main", { class: "match-page" }, [canvas, overlay, hud.root, play.root]);
const league = new LeaguePage({
  more: () => void session.league.more(),
  setFilter: (filter) => (location.hash = leagueHash(filter)),
});
app.append(list.root, league.root, matchPage, compare.root, problem.root, new Tooltip().root);

const held = new HeldKeys();
bindKeys(state, keys, held);
bindPointer(canvas, state, (x, y, twice) => {
  const mech = screen.pick(x, y);
  if (mech >= 0 || !twice) control.select(state, mech, twice && mech >= 0);
});

/** Open what the address names. Addresses written by the viewer itself do not trigger this. */
function followAddress(): void {
  const route = parseRoute(location.hash);
  known = location.hash;
  if (!route.compare && !embedded) compareSession.close();
  if (embedded) {
    if (state.match?.id === "page") session.goTo(route);
  } else if (route.compare) {
    session.leave();
    state.list.comparing = null;
    void compareSession.openMatches(route.compare, route.seconds);
  } else if (route.match === null && route.newest !== undefined) {
    void session.openNewest(route.newest);
  } else if (route.match === null && route.league !== undefined) {
    left = location.hash;
    void session.openLeague(route.league);
  } else if (route.match === null) {
    // a local file has no address: only an empty address closes it
    left = "";
    if (state.match?.id !== "file" || location.hash === "") session.leave();
  } else if (state.match?.id !== route.match) {
    void session.open(route.match, route);
    screen.prepare();
  } else {
    session.goTo(route);
  }
}
window.addEventListener("hashchange", followAddress);
window.addEventListener("click", (event) => {
  // a link to the current address fires no event, e.g. to retry a match that failed to open
  const link = event.target instanceof Element ? event.target.closest("a") : null;
  const here = !event.ctrlKey && !event.metaKey && !event.shiftKey;
  if (link && here && link.hash !== "" && link.hash === location.hash) followAddress();
});

for (const name of ["dragover", "drop"] as const) {
  window.addEventListener(name, (event) => {
    event.preventDefault();
    document.body.classList.toggle("dragging", name === "dragover");
    // a page with a replay of its own opens one file; two are compared on pages that have addresses
    if (name === "drop") openFiles([...(event.dataTransfer?.files ?? [])].slice(0, embedded ? 1 : 2));
  });
}
window.addEventListener("dragleave", () => document.body.classList.remove("dragging"));

let before = performance.now();
let addressAt = 0;
const meter = new FrameMeter();
document.addEventListener("visibilitychange", () => (before = performance.now()));

session.onRecovery = () => thumbnails.retry();
const retry = () => session.retry();

/** Render one frame. */
function frame(now: number): void {
  requestAnimationFrame(frame);
  const interval = Math.max(0, now - before);
  const elapsed = Math.min(SLOWEST_FRAME_S, interval / 1000);
  before = now;
  const lost = lostText(state);
  const message = lost || problemText(state);
  // playback waits until the first picture is complete
  const runs = screen.ready || screen.problem !== "" || message !== "";
  if (state.flying) play.fly(now, elapsed);
  else control.tickClock(state, runs ? elapsed : 0);
  state.slowRate = runs && state.match && state.playing ? meter.add(interval) : meter.reset();
  held.advance(state, elapsed);
  const onMatch = state.page === "match";
  if (onMatch) state.window = [canvas.clientWidth, canvas.clientHeight];
  list.root.hidden = state.page !== "list";
  league.root.hidden = state.page !== "league";
  matchPage.hidden = !onMatch;
  compare.root.hidden = state.page !== "compare";
  const pictureProblem = compare.root.hidden ? screen.problem : compare.problem;
  problem.update(message || pictureProblem, lost ? retry : null, session.retrySeconds);
  if (!compare.root.hidden) compare.update(elapsed);
  if (!list.root.hidden) list.update(state);
  if (!league.root.hidden) league.update(state.league);
  screen.setQuality(quality());
  screen.draw(state, elapsed);
  const drawn = screen.hasDrawn(state.match) || screen.problem !== "" || message !== "";
  if (state.awaitsPicture && (drawn || (state.match && control.isBlank(state.match)))) session.endFirstPicture();
  soundscape.update(state);
  settings.save(state);
  hud.root.hidden = state.flying;
  if (state.match && !state.flying) hud.update(state.match, screen.ready);
  else hud.leave();
  play.update(now, drawn);
  document.title = state.match
    ? `${state.match.title} · Echelon`
    : onMatch || state.page === "list"
      ? "Echelon"
      : "League · Echelon";
  if (now - addressAt > ROUTE_MS) {
    addressAt = now;
    updateAddress();
  }
}

/** Replace the address without following it. */
function writeAddress(hash: string): void {
  history.replaceState(null, "", hash);
  known = location.hash;
}

/** Update the address to the current moment, except for local files and while another page is being opened. */
function updateAddress(): void {
  const { match } = state;
  const { compare: pair } = parseRoute(known);
  if (state.page === "compare" && pair && location.hash === known && compare.panes)
    return writeAddress(compareHash(pair, compare.seconds));
  if (!match || match.id === "file" || state.flying || framed || location.hash !== known) return;
  const hz = match.header.tick_hz;
  const { camera, fog, layer, loop } = state;
  const seconds = state.following ? null : state.tick / hz;
  const placed = camera.mode === "orbit" || camera.mode === "free";
  const hash = formatRoute({
    match: inCatalogue(match) ? match.id : null,
    seconds,
    mech: state.selected,
    camera: camera.mode,
    fog,
    layer,
    view: placed ? [...camera.target, camera.azimuth, camera.elevation, camera.distance] : undefined,
    loop: loop ? [loop[0] / hz, loop[1] / hz] : undefined,
    newest: state.followNewest ? match.run : undefined,
  });
  if (hash !== location.hash) writeAddress(hash);
}

// for tests and the browser console: state, control functions, cost of the last frame, completeness of the picture and
// what it waits for, a promise that resolves when it is at rest, an immediate redraw, and films frame by frame
Object.assign(window, {
  echelon: {
    state,
    compare,
    control,
    cost: () => screen.cost(),
    complete: () => screen.complete,
    missing: () => screen.missing(),
    settled: () => screen.settled(),
    redraw: () => screen.redraw(state),
    sounds: () => soundscape.started,
    play: play.session,
    film: (shape: FilmShape, spans: Span[]) =>
      state.match && new FilmMaker(state.match, state.match.moments, spans, shape, screen.cost().tier),
  },
});
if (embedded) {
  void session.openPage(embedded, parseRoute(location.hash || embeddedStart()));
  screen.prepare();
} else {
  play.start();
  session.start();
  const [a, b] = [options.get("a"), options.get("b")];
  if (a && b && location.hash === "") writeAddress(compareHash([a, b]));
  followAddress();
}
requestAnimationFrame(frame);
