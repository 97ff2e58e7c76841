// Starts the viewer: the address chooses between the list and a match; keys, pointers, files and live notices change the
// state through control.ts; and one loop draws the state once per frame.

import "uplot/dist/uPlot.min.css";
import "./style/fonts.css";
import "./style/base.css";
import "./style/list.css";
import "./style/league.css";
import "./style/match.css";
import "./style/insight.css";
import { Api } from "./client";
import * as control from "./control";
import { el } from "./hud/dom";
import { Hud } from "./hud/hud";
import { LeaguePage } from "./hud/league_page";
import { MatchList } from "./hud/match_list";
import { ProblemBanner } from "./hud/problem";
import { Thumbnails } from "./hud/thumbnails";
import { problemText } from "./hud/words";
import { bindKeys, bindPointer, keyTable } from "./input";
import { wishedTier } from "./render/quality";
import { formatRoute, leagueHash, parseRoute } from "./routes";
import { Session, embeddedReplay } from "./session";
import { defaults, inCatalogue } from "./state";
import { Screen } from "./screen";

const ROUTE_MS = 1000; // how often the address follows the cursor
const SLOWEST_FRAME_S = 0.1; // a frame that took longer moves the match no further than this

const state = defaults();
const api = new Api();
const app = document.getElementById("app") ?? document.body;
const canvas = el("canvas", { class: "picture", attributes: { tabindex: "0" }, aria: { label: "The match in 3D; the table of all mechs (M) says the same in words" } });
const problem = new ProblemBanner();
const wishes = new URLSearchParams(location.search);
const screen = new Screen(canvas, wishedTier(wishes.get("quality")), wishes.has("check"));
const session = new Session(state, api, (hash) => writeAddress(hash));

const embedded = embeddedReplay();
document.documentElement.classList.toggle("embedded", embedded !== null);
let known = location.hash; // the address as it was followed or written last
let left = ""; // address of the page that a match was opened from
const toList = () => {
  if (!embedded) location.hash = left;
};
const keys = keyTable({ toList, savePicture: () => void hud.share.savePicture() });
const shown = { picture: () => screen.picture(state), stream: () => screen.stream() };
const addresses = { file: (id: string) => api.fileUrl(id), moment: () => (keepAddress(), location.href) };
const hud: Hud = new Hud(state, keys, toList, () => screen.quality(), shown, addresses);
const list = new MatchList(
  {
    openFile: (file) => void session.openFile(file),
    filter: (run, text) => void session.filter(run, text),
    more: () => void session.loadMore(),
  },
  new Thumbnails(api),
);
const matchPage = el("main", { class: "match-page" }, [canvas, hud.root]);
const league = new LeaguePage({ more: () => void session.league.more(), choose: (choice) => (location.hash = leagueHash(choice)) });
app.append(list.root, league.root, matchPage, problem.root);

bindKeys(state, keys, () => undefined);
bindPointer(canvas, state, (x, y, twice) => {
  const mech = screen.pick(x, y);
  if (mech >= 0 || !twice) control.select(state, mech, twice && mech >= 0);
});

/** Go where the address says; what keepAddress writes into it is no news and does not come here. */
function followAddress(): void {
  const route = parseRoute(location.hash);
  known = location.hash;
  if (embedded) {
    if (state.match?.id === "page") session.goTo(route);
  } else if (route.match === null && route.newest !== undefined) {
    void session.openNewest(route.newest);
  } else if (route.match === null && route.league !== undefined) {
    left = location.hash;
    void session.openLeague(route.league);
  } else if (route.match === null) {
    // a file has no address, so that only leaving for the list by hand closes it
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
  // a link to where the address already is changes nothing in it, such as that to a match that could not be opened
  const link = event.target instanceof Element ? event.target.closest("a") : null;
  const here = !event.ctrlKey && !event.metaKey && !event.shiftKey;
  if (link && here && link.hash !== "" && link.hash === location.hash) followAddress();
});

for (const name of ["dragover", "drop"] as const) {
  window.addEventListener(name, (event) => {
    event.preventDefault();
    document.body.classList.toggle("dragging", name === "dragover");
    const file = name === "drop" ? event.dataTransfer?.files[0] : undefined;
    if (file) void session.openFile(file);
  });
}
window.addEventListener("dragleave", () => document.body.classList.remove("dragging"));

let before = performance.now();
let addressAt = 0;

/** Draw one frame. */
function frame(now: number): void {
  requestAnimationFrame(frame);
  const elapsed = Math.min(SLOWEST_FRAME_S, Math.max(0, (now - before) / 1000));
  before = now;
  const wrong = problemText(state);
  // a match does not run away from who cannot see it yet
  control.tickClock(state, screen.ready || screen.problem !== "" || wrong !== "" ? elapsed : 0);
  const onMatch = state.page === "match";
  if (onMatch) state.window = [canvas.clientWidth, canvas.clientHeight];
  list.root.hidden = state.page !== "list";
  league.root.hidden = state.page !== "league";
  matchPage.hidden = !onMatch;
  problem.update(wrong || screen.problem);
  if (!list.root.hidden) list.update(state);
  if (!league.root.hidden) league.update(state.league);
  screen.draw(state, elapsed);
  if (state.match) hud.update(state.match, screen.ready);
  else hud.leave();
  document.title = state.match ? `${state.match.title} · Echelon` : onMatch || state.page === "list" ? "Echelon" : "League · Echelon";
  if (now - addressAt > ROUTE_MS) {
    addressAt = now;
    keepAddress();
  }
}

/** Change the address without going there. */
function writeAddress(hash: string): void {
  history.replaceState(null, "", hash);
  known = location.hash;
}

/** Let the address say where in the match we are; a file of the user's has none, and who is about to leave is let go. */
function keepAddress(): void {
  const { match } = state;
  if (!match || match.id === "file" || location.hash !== known) return;
  const hz = match.header.tick_hz;
  const { camera, fog, layer, loop } = state;
  const seconds = state.following ? null : state.tick / hz;
  const placed = camera.mode === "orbit" || camera.mode === "free";
  const hash = formatRoute({
    match: inCatalogue(match) ? match.id : null, seconds, mech: state.selected, camera: camera.mode, fog, layer,
    view: placed ? [...camera.target, camera.azimuth, camera.elevation, camera.distance] : undefined,
    loop: loop ? [loop[0] / hz, loop[1] / hz] : undefined, newest: state.followNewest ? match.run : undefined,
  });
  if (hash !== location.hash) writeAddress(hash);
}

// for tests and for the curious: the state, what the last frame cost, whether the whole moment is on the screen, when it
// has come to rest there, and a way to have it drawn at once
Object.assign(window, {
  echelon: { state, control, cost: () => screen.cost(), complete: () => screen.complete, settled: () => screen.settled(), redraw: () => screen.redraw(state) },
});
if (embedded) {
  void session.openPage(embedded, parseRoute(location.hash));
  screen.prepare();
} else {
  session.start();
  followAddress();
}
requestAnimationFrame(frame);
