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
import { Api } from "./client";
import * as control from "./control";
import { el } from "./hud/dom";
import { Hud } from "./hud/hud";
import { LeaguePage } from "./hud/league_page";
import { MatchList } from "./hud/match_list";
import { ProblemBanner } from "./hud/problem_banner";
import { Thumbnails } from "./hud/thumbnails";
import { Tooltip } from "./hud/tooltip";
import { problemText } from "./hud/text";
import { bindKeys, bindPointer, keyTable } from "./input";
import { parseTier } from "./render/quality";
import { formatRoute, leagueHash, parseRoute } from "./routes";
import { Session, embeddedReplay } from "./session";
import { defaults, inCatalogue } from "./state";
import { Screen } from "./screen";

const ROUTE_MS = 1000; // update interval of the address
const SLOWEST_FRAME_S = 0.1; // most match time per frame

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
const screen = new Screen(canvas, overlay, parseTier(options.get("quality")), options.has("check"));
const session = new Session(state, api, (hash) => writeAddress(hash));

const embedded = embeddedReplay();
document.documentElement.classList.toggle("embedded", embedded !== null);
let known = location.hash; // the address last followed or written
let left = ""; // address of the page from which a match was opened
const showList = () => {
  if (!embedded) location.hash = left;
};
const keys = keyTable({ showList, savePicture: () => void hud.share.savePicture() });
const shown = { picture: () => screen.picture(state), stream: () => screen.stream() };
const addresses = { file: (id: string) => api.fileUrl(id), moment: () => (updateAddress(), location.href) };
const hud: Hud = new Hud(state, keys, showList, () => screen.quality(), shown, addresses);
const list = new MatchList(
  {
    openFile: (file) => void session.openFile(file),
    filter: (run, text) => void session.filter(run, text),
    more: () => void session.loadMore(),
  },
  new Thumbnails(api),
);
const matchPage = el("main", { class: "match-page" }, [canvas, overlay, hud.root]);
const league = new LeaguePage({
  more: () => void session.league.more(),
  setFilter: (filter) => (location.hash = leagueHash(filter)),
});
app.append(list.root, league.root, matchPage, problem.root, new Tooltip().root);

bindKeys(state, keys, () => undefined);
bindPointer(canvas, state, (x, y, twice) => {
  const mech = screen.pick(x, y);
  if (mech >= 0 || !twice) control.select(state, mech, twice && mech >= 0);
});

/** Open what the address names. Addresses written by the viewer itself do not trigger this. */
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
    const file = name === "drop" ? event.dataTransfer?.files[0] : undefined;
    if (file) void session.openFile(file);
  });
}
window.addEventListener("dragleave", () => document.body.classList.remove("dragging"));

let before = performance.now();
let addressAt = 0;

/** Render one frame. */
function frame(now: number): void {
  requestAnimationFrame(frame);
  const elapsed = Math.min(SLOWEST_FRAME_S, Math.max(0, (now - before) / 1000));
  before = now;
  const message = problemText(state);
  // playback waits until the first picture is complete
  control.tickClock(state, screen.ready || screen.problem !== "" || message !== "" ? elapsed : 0);
  const onMatch = state.page === "match";
  if (onMatch) state.window = [canvas.clientWidth, canvas.clientHeight];
  list.root.hidden = state.page !== "list";
  league.root.hidden = state.page !== "league";
  matchPage.hidden = !onMatch;
  problem.update(message || screen.problem);
  if (!list.root.hidden) list.update(state);
  if (!league.root.hidden) league.update(state.league);
  screen.draw(state, elapsed);
  if (state.match) hud.update(state.match, screen.ready);
  else hud.leave();
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
  if (!match || match.id === "file" || location.hash !== known) return;
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

// for tests and the browser console: state, control functions, cost of the last frame, completeness of the picture, a
// promise that resolves when it is at rest, and an immediate redraw
Object.assign(window, {
  echelon: {
    state,
    control,
    cost: () => screen.cost(),
    complete: () => screen.complete,
    settled: () => screen.settled(),
    redraw: () => screen.redraw(state),
  },
});
if (embedded) {
  void session.openPage(embedded, parseRoute(location.hash));
  screen.prepare();
} else {
  session.start();
  followAddress();
}
requestAnimationFrame(frame);
