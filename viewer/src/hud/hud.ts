// The panels around the picture: builds them once, opens them for a match, and brings them to the state once per frame;
// what does not need every frame is done a few times a second.

import * as control from "../control";
import type { KeyRow } from "../input";
import type { CameraMode, MatchState, ViewerState } from "../state";
import { ICONS, button, el, icon } from "./dom";
import { Feed } from "./feed";
import { Inspector } from "./inspector";
import { Banner, ChartPanel, HelpPanel, TablePanel } from "./panels";
import { Roster } from "./roster";
import { ScoreBar } from "./score";
import { TimelineBar } from "./timeline_bar";

const SLOW_MS = 90; // how often panels that need not be smooth are brought up to date

/** All panels of a match. */
export class Hud {
  readonly root: HTMLElement;
  private readonly score = new ScoreBar();
  private readonly rosters: Roster[];
  private readonly feed = new Feed();
  private readonly inspector = new Inspector();
  private readonly timeline: TimelineBar;
  private readonly help: HelpPanel;
  private readonly charts: ChartPanel;
  private readonly table: TablePanel;
  private readonly banner = new Banner();
  private readonly loading = el("div", { class: "loading", attributes: { role: "status" } }, [el("i"), el("span", { text: "Loading the match" })]);
  private readonly cameras: Record<CameraMode, HTMLButtonElement>;
  private readonly title = el("div", { class: "match-title" });
  private slowAt = 0;
  private shown: MatchState | null = null;

  constructor(private readonly state: ViewerState, table: readonly KeyRow[], toList: () => void, quality: () => string) {
    this.rosters = [new Roster(0, state), new Roster(1, state)];
    this.timeline = new TimelineBar(state);
    this.help = new HelpPanel(state, table, quality);
    this.charts = new ChartPanel(state);
    this.table = new TablePanel(state);
    const camera = (label: string, path: string, mode: CameraMode) => button(label, icon(path), () => control.setCameraMode(state, mode));
    this.cameras = {
      orbit: camera("Circle the map (O)", ICONS.orbit, "orbit"),
      follow: camera("Follow a mech (F)", ICONS.follow, "follow"),
      top: camera("Look straight down (T)", ICONS.top, "top"),
    };
    const tools = el("nav", { class: "tools", aria: { label: "View" } }, [
      ...Object.values(this.cameras), el("hr"),
      button("Curves (C)", icon(ICONS.chart), () => (state.showChart = !state.showChart)),
      button("Table of all mechs (M)", icon(ICONS.table), () => (state.showTable = !state.showTable)),
      button("Keys (?)", icon(ICONS.help), () => (state.showHelp = !state.showHelp)),
    ]);
    this.root = el("div", { class: "hud" }, [
      el("div", { class: "corner" }, [button("All matches (Esc)", icon(ICONS.back), toList, "button back"), this.title]),
      tools, this.score.root, el("div", { class: "side left" }, [this.rosters[0].root, this.feed.root]),
      el("div", { class: "side right" }, [this.rosters[1].root, this.inspector.root]), this.banner.root,
      this.timeline.root, this.charts.root, this.table.root, this.help.root, this.loading, this.feed.spoken,
    ]);
  }

  /** Bring everything to the state; `ready` is whether the picture is complete. */
  update(match: MatchState, ready: boolean): void {
    if (this.shown !== match) this.open(match);
    this.timeline.update(match);
    this.loading.hidden = ready;
    for (const [mode, choice] of Object.entries(this.cameras)) {
      const chosen = String(this.state.camera.mode === mode);
      if (choice.getAttribute("aria-pressed") !== chosen) choice.setAttribute("aria-pressed", chosen);
    }
    this.help.update();
    this.charts.update(match);
    this.table.update(match);
    this.banner.update(this.state, match);
    const now = performance.now();
    if (now - this.slowAt < SLOW_MS) return;
    this.slowAt = now;
    this.score.update(this.state, match);
    for (const roster of this.rosters) roster.update(match);
    this.feed.update(this.state, match);
    this.inspector.update(this.state, match);
  }

  private open(match: MatchState): void {
    this.shown = match;
    this.slowAt = 0;
    this.title.textContent = match.title;
    this.score.open(match);
    for (const roster of this.rosters) roster.open(match);
    this.inspector.open(match);
    this.timeline.open();
  }
}
