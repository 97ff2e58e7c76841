// The panels around the picture: created once, opened for a match, and updated once per frame; slower updates run a few
// times a second.

import * as control from "../control";
import type { KeyRow } from "../input";
import type { CameraMode, MatchState, ViewerState } from "../state";
import { ICONS, button, el, icon, setText } from "./dom";
import { Feed } from "./feed";
import { Inspector } from "./inspector";
import { recordsVisibility } from "../data/fog_of_war";
import { Minimap } from "./minimap";
import { Banner, ChartPanel, HelpPanel, TablePanel } from "./panels";
import { MechAnalysisPanel } from "./mech_charts";
import { Roster } from "./roster";
import { ScoreBar } from "./score";
import { type Addresses, SharePanel, type ViewCapture } from "./share";
import { TimelineBar } from "./timeline_bar";
import { mechName, sideName } from "./text";
import { WelcomeCard } from "./welcome";

const LAYER_LABELS = {
  presence: "Presence (time spent)",
  damage: "Damage taken",
  ways: "Distance to zone (5-voxel bands)",
} as const;
const SLOW_MS = 90; // update interval of panels that need not be smooth

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
  private readonly welcome = new WelcomeCard();
  private readonly pilot: MechAnalysisPanel;
  private readonly minimap: Minimap;
  readonly share: SharePanel;
  private readonly fog: HTMLButtonElement;
  private readonly layer: HTMLButtonElement;
  private readonly links: HTMLButtonElement;
  private readonly mode = el("div", { class: "mode", attributes: { role: "status" } });
  private readonly loading = el("div", { class: "loading", attributes: { role: "status" } }, [
    el("i"),
    el("span", { text: "Loading match" }),
  ]);
  private readonly cameras: Record<CameraMode, HTMLButtonElement>;
  private readonly title = el("div", { class: "match-title" });
  private slowAt = 0;
  private shown: MatchState | null = null;

  constructor(
    private readonly state: ViewerState,
    table: readonly KeyRow[],
    showList: () => void,
    quality: () => string,
    shown: ViewCapture,
    addresses: Addresses,
  ) {
    this.rosters = [new Roster(0, state), new Roster(1, state)];
    this.timeline = new TimelineBar(state);
    this.help = new HelpPanel(state, table, quality);
    this.charts = new ChartPanel(state);
    this.table = new TablePanel(state);
    const camera = (label: string, short: string, path: string, mode: CameraMode) => {
      const content = el("span", { class: "labelled" }, [
        icon(path),
        el("span", { class: "button-label", text: short }),
      ]);
      return button(label, content, () => control.setCameraMode(state, mode));
    };
    this.cameras = {
      director: camera("Director: shows the fights by itself (Y)", "Director", ICONS.director, "director"),
      orbit: camera("Orbit (O)", "Orbit", ICONS.orbit, "orbit"),
      follow: camera("Follow mech (F)", "Follow", ICONS.follow, "follow"),
      first: camera("First person (V)", "First person", ICONS.first, "first"),
      top: camera("Top-down (T)", "Top-down", ICONS.top, "top"),
      free: camera("Free camera (E)", "Free", ICONS.free, "free"),
    };
    this.pilot = new MechAnalysisPanel(state);
    this.minimap = new Minimap(state);
    this.share = new SharePanel(state, shown, addresses);
    this.fog = button("Fog of war (G)", icon(ICONS.fog), () => control.cycleFog(state));
    this.layer = button("Ground overlay (H)", icon(ICONS.layer), () => control.cycleLayer(state));
    this.links = button(
      "Sensor and targeting lines (X)",
      icon(ICONS.links),
      () => (state.showLinks = !state.showLinks),
    );
    this.timeline.views.append(...Object.values(this.cameras), el("hr"), this.fog, this.layer, this.links);
    const tools = el("nav", { class: "tools", aria: { label: "View" } }, [
      button("Mech analysis (U)", icon(ICONS.pilot), () => {
        control.selectAny(state);
        state.showPilot = !state.showPilot;
      }),
      button("Match charts (C)", icon(ICONS.chart), () => (state.showChart = !state.showChart)),
      button("Table of all mechs (M)", icon(ICONS.table), () => (state.showTable = !state.showTable)),
      button("Minimap (I)", icon(ICONS.map), () => (state.showMap = !state.showMap)),
      button("Share (Q)", icon(ICONS.share), () => (state.showShare = !state.showShare)),
      button("Shortcuts (?)", icon(ICONS.help), () => (state.showHelp = !state.showHelp)),
    ]);
    this.root = el("div", { class: "hud" }, [
      el("div", { class: "corner" }, [
        button("All matches (Esc)", icon(ICONS.back), showList, "button back"),
        this.title,
      ]),
      tools,
      this.score.root,
      el("div", { class: "side left" }, [this.rosters[0].root, this.feed.root]),
      el("div", { class: "side right" }, [
        this.rosters[1].root,
        el("div", { class: "stack" }, [this.inspector.root, this.minimap.root]),
      ]),
      this.mode,
      this.welcome.root,
      this.banner.root,
      this.timeline.root,
      this.charts.root,
      this.table.root,
      this.pilot.root,
      this.share.root,
      this.help.root,
      this.loading,
      this.feed.announcements,
    ]);
  }

  /** Update all panels; `ready` tells whether the picture is complete. */
  update(match: MatchState, ready: boolean): void {
    if (this.shown !== match) this.open(match);
    this.timeline.update(match);
    this.loading.hidden = ready;
    for (const [mode, choice] of Object.entries(this.cameras)) {
      const chosen = String(this.state.camera.mode === mode);
      if (choice.getAttribute("aria-pressed") !== chosen) choice.setAttribute("aria-pressed", chosen);
    }
    this.minimap.update(match);
    this.pilot.update(match);
    this.share.update(match);
    this.showModes(match);
    this.help.update();
    this.charts.update(match);
    this.table.update(match);
    this.banner.update(this.state, match);
    const now = performance.now();
    if (now - this.slowAt < SLOW_MS) return;
    this.slowAt = now;
    this.measure();
    this.score.update(this.state, match);
    this.feed.update(this.state, match);
    this.inspector.update(this.state, match);
    // before the first chunk has arrived, only name and class of a mech are known
    if (!Number.isNaN(match.poses.tick)) for (const roster of this.rosters) roster.update(match);
  }

  /** Measure which edges of the picture the panels cover. */
  private measure(): void {
    const [width, height] = this.state.window;
    const [score, player, card] = [this.score.root, this.timeline.root, this.welcome.root].map((root) =>
      root.getBoundingClientRect(),
    );
    const [left, right] = this.rosters.map(({ root }) => root.getBoundingClientRect());
    const insets = {
      left: left.width > 0 ? left.right : 0,
      top: Math.max(0, score.bottom),
      right: right.width > 0 ? width - right.left : 0,
      bottom: Math.max(0, height - Math.min(player.top, card.width > width / 2 ? card.top : height)),
    };
    // panels above the player end there, whatever its height
    this.root.style.setProperty("--player", `${Math.max(0, height - player.top) + 10}px`);
    const changed = (Object.keys(insets) as (keyof typeof insets)[]).some(
      (edge) => insets[edge] !== this.state.insets[edge],
    );
    if (changed) control.setInsets(this.state, insets);
  }

  /** The match was closed. */
  leave(): void {
    this.share.leave();
  }

  /** Update the banner that names fog of war and ground overlay. */
  private showModes(match: MatchState): void {
    const { fog, layer, selected, showLinks } = this.state;
    const { header } = match;
    const labels = [];
    if (fog !== "none")
      labels.push(
        `Fog of war: ${fog === "mech" ? mechName(header, selected) : sideName(header, fog === "blue" ? 0 : 1)}`,
      );
    if (fog !== "none" && !recordsVisibility(match)) labels.push("this replay records no visibility");
    if (layer !== "none") labels.push(LAYER_LABELS[layer]);
    setText(this.mode, labels.join(" · "));
    this.mode.hidden = labels.length === 0;
    for (const [choice, on] of [
      [this.fog, fog !== "none"],
      [this.layer, layer !== "none"],
      [this.links, showLinks],
    ] as const) {
      if (choice.getAttribute("aria-pressed") !== String(on)) choice.setAttribute("aria-pressed", String(on));
    }
  }

  private open(match: MatchState): void {
    this.shown = match;
    this.slowAt = 0;
    this.title.textContent = match.title;
    this.score.open(match);
    this.welcome.open(match);
    for (const roster of this.rosters) roster.open(match);
    this.inspector.open(match);
    this.timeline.open();
  }
}
