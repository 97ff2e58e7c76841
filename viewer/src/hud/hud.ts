// The panels around the picture: builds them once, opens them for a match, and brings them to the state once per frame;
// what does not need every frame is done a few times a second.

import * as control from "../control";
import type { KeyRow } from "../input";
import type { CameraMode, MatchState, ViewerState } from "../state";
import { ICONS, button, el, icon, setText } from "./dom";
import { Feed } from "./feed";
import { Inspector } from "./inspector";
import { knowsSight } from "../data/knowledge";
import { Minimap } from "./minimap";
import { Banner, ChartPanel, HelpPanel, TablePanel } from "./panels";
import { PilotPanel } from "./pilot";
import { Roster } from "./roster";
import { ScoreBar } from "./score";
import { type Addresses, SharePanel, type Shown } from "./share";
import { TimelineBar } from "./timeline_bar";
import { mechName, sideName } from "./words";

const LAYER_WORDS = { presence: "Where mechs spent their time", damage: "Where mechs were hurt", ways: "Ways to the zone, a band every five voxels" } as const;
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
  private readonly pilot: PilotPanel;
  private readonly minimap: Minimap;
  readonly share: SharePanel;
  private readonly fog: HTMLButtonElement;
  private readonly layer: HTMLButtonElement;
  private readonly links: HTMLButtonElement;
  private readonly mode = el("div", { class: "mode", attributes: { role: "status" } });
  private readonly loading = el("div", { class: "loading", attributes: { role: "status" } }, [el("i"), el("span", { text: "Loading the match" })]);
  private readonly cameras: Record<CameraMode, HTMLButtonElement>;
  private readonly title = el("div", { class: "match-title" });
  private slowAt = 0;
  private shown: MatchState | null = null;

  constructor(private readonly state: ViewerState, table: readonly KeyRow[], toList: () => void, quality: () => string, shown: Shown, addresses: Addresses) {
    this.rosters = [new Roster(0, state), new Roster(1, state)];
    this.timeline = new TimelineBar(state);
    this.help = new HelpPanel(state, table, quality);
    this.charts = new ChartPanel(state);
    this.table = new TablePanel(state);
    const camera = (label: string, path: string, mode: CameraMode) => button(label, icon(path), () => control.setCameraMode(state, mode));
    this.cameras = {
      orbit: camera("Circle the map (O)", ICONS.orbit, "orbit"),
      follow: camera("Follow a mech (F)", ICONS.follow, "follow"),
      first: camera("See with its eyes (V)", ICONS.first, "first"),
      top: camera("Look straight down (T)", ICONS.top, "top"),
      free: camera("Fly freely (E)", ICONS.free, "free"),
      director: camera("Go where the fight is (Y)", ICONS.director, "director"),
    };
    this.pilot = new PilotPanel(state);
    this.minimap = new Minimap(state);
    this.share = new SharePanel(state, shown, addresses);
    this.fog = button("Fog of war (G)", icon(ICONS.fog), () => control.cycleFog(state));
    this.layer = button("On the ground (H)", icon(ICONS.layer), () => control.cycleLayer(state));
    this.links = button("Lines between mechs, and how far radar and ECM reach (X)", icon(ICONS.links), () => (state.showLinks = !state.showLinks));
    this.timeline.views.append(...Object.values(this.cameras), el("hr"), this.fog, this.layer, this.links);
    const tools = el("nav", { class: "tools", aria: { label: "View" } }, [
      button("Curves of the mech (U)", icon(ICONS.pilot), () => { control.pickAny(state); state.showPilot = !state.showPilot; }),
      button("Curves (C)", icon(ICONS.chart), () => (state.showChart = !state.showChart)),
      button("Table of all mechs (M)", icon(ICONS.table), () => (state.showTable = !state.showTable)),
      button("Small map (I)", icon(ICONS.map), () => (state.showMap = !state.showMap)),
      button("Share (Q)", icon(ICONS.share), () => (state.showShare = !state.showShare)),
      button("Keys (?)", icon(ICONS.help), () => (state.showHelp = !state.showHelp)),
    ]);
    this.root = el("div", { class: "hud" }, [
      el("div", { class: "corner" }, [button("All matches (Esc)", icon(ICONS.back), toList, "button back"), this.title]),
      tools, this.score.root, el("div", { class: "side left" }, [this.rosters[0].root, this.feed.root]),
      el("div", { class: "side right" }, [this.rosters[1].root, el("div", { class: "stack" }, [this.inspector.root, this.minimap.root])]), this.banner.root,
      this.timeline.root, this.charts.root, this.table.root, this.pilot.root, this.share.root, this.help.root, this.mode, this.loading, this.feed.spoken,
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
    this.score.update(this.state, match);
    this.feed.update(this.state, match);
    this.inspector.update(this.state, match);
    // before its first moment is here nothing is known of a mech but its name and class
    if (!Number.isNaN(match.poses.tick)) for (const roster of this.rosters) roster.update(match);
  }

  /** No match is shown any more. */
  leave(): void {
    this.share.leave();
  }

  /** Say what the picture is cut down to and what lies over the ground. */
  private showModes(match: MatchState): void {
    const { fog, layer, selected, showLinks } = this.state;
    const { header } = match;
    const words = [];
    if (fog !== "none") words.push(fog === "mech" ? `What ${mechName(header, selected)} knows` : `What ${sideName(header, fog === "blue" ? 0 : 1)} knows`);
    if (fog !== "none" && !knowsSight(match)) words.push("this replay does not say who was seen");
    if (layer !== "none") words.push(LAYER_WORDS[layer]);
    setText(this.mode, words.join(" · "));
    this.mode.hidden = words.length === 0;
    for (const [choice, on] of [[this.fog, fog !== "none"], [this.layer, layer !== "none"], [this.links, showLinks]] as const) {
      if (choice.getAttribute("aria-pressed") !== String(on)) choice.setAttribute("aria-pressed", String(on));
    }
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
