// The panels around the picture: created once, opened for a match, and updated once per frame; slower updates run a few
// times a second.

import * as control from "../control";
import type { KeyRow } from "../input";
import type { CameraMode, MatchState, ViewerState } from "../state";
import { isDamage } from "../data/store";
import { ICONS, button, el, icon, setText, wordButton } from "./dom";
import { Dialogs } from "./dialogs";
import { EndCard } from "./end_card";
import { Feed } from "./feed";
import { Inspector } from "./inspector";
import { recordsVisibility } from "../data/fog_of_war";
import { type Knowledge, knowledgeOf } from "../data/perception";
import { LayerLegend } from "./layer_legend";
import { Minimap } from "./minimap";
import { ChartPanel, HelpPanel, type Panel } from "./panels";
import { MechAnalysisPanel } from "./mech_analysis";
import { Roster } from "./roster";
import { ScoreBar } from "./score";
import { Scoreboard } from "./scoreboard";
import { followTopRow } from "./top_row";
import { SettingsPanel, canFillScreen, toggleFullscreen } from "./settings_panel";
import { TimelineBar } from "./timeline_bar";
import { LOADING, loadingText, mechName, sideName } from "../text";
import { WelcomeCard } from "./welcome";

/** Whose knowledge the first-person view shows, by what the replay records. */
const KNOWLEDGE: Record<Knowledge, string> = {
  pilot: "perceives",
  team: "and its team perceive (no policy data)",
  none: "could perceive (no sensor data)",
};
const SLOW_MS = 90; // update interval of panels that need not be smooth
const COVERING = ".notes > *, .win-caption.shown"; // what lies over the free part of the picture

export class Hud {
  readonly root: HTMLElement;
  private readonly score = new ScoreBar();
  private readonly rosters: Roster[];
  private readonly feed = new Feed();
  private readonly inspector = new Inspector();
  private readonly timeline: TimelineBar;
  private readonly help: HelpPanel;
  private readonly charts: ChartPanel;
  private readonly table: Scoreboard;
  private readonly end: EndCard;
  private readonly welcome: WelcomeCard;
  private readonly pilot: MechAnalysisPanel;
  private readonly minimap: Minimap;
  private readonly fog: HTMLButtonElement;
  private readonly layer: HTMLButtonElement;
  private readonly links: HTMLButtonElement;
  private readonly mode = el("div", { class: "mode", attributes: { role: "status" } });
  private readonly layerLegend: LayerLegend;
  private readonly loadingText = el("span", { text: LOADING });
  private readonly loading = el("div", { class: "loading", attributes: { role: "status" } }, [
    el("i"),
    this.loadingText,
  ]);
  private readonly cameras: Record<CameraMode, HTMLButtonElement>;
  private readonly title = el("div", { class: "match-title" });
  private readonly settings: SettingsPanel;
  private readonly dialogs: Dialogs;
  private readonly tools = el("nav", { class: "tools", aria: { label: "View" } });
  private slowAt = 0;
  private shown: MatchState | null = null;

  constructor(
    private readonly state: ViewerState,
    table: readonly KeyRow[],
    showList: () => void,
    quality: () => string,
    private readonly share: Panel,
    private readonly coach: Panel,
    showNext: () => void,
  ) {
    this.rosters = [new Roster(0, state), new Roster(1, state)];
    this.timeline = new TimelineBar(state);
    this.settings = new SettingsPanel(state, quality);
    this.help = new HelpPanel(state, table, quality);
    this.charts = new ChartPanel(state);
    this.table = new Scoreboard(state);
    this.end = new EndCard(state, coach, showNext);
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
      first: camera("First person (V)", "Cockpit", ICONS.first, "first"),
      top: camera("Top-down (T)", "Top", ICONS.top, "top"),
      free: camera("Free camera (E)", "Free", ICONS.free, "free"),
    };
    this.pilot = new MechAnalysisPanel(state);
    this.minimap = new Minimap(state);
    this.welcome = new WelcomeCard(state);
    this.layerLegend = new LayerLegend(state);
    this.fog = wordButton("Fog", "Fog of war (G)", ICONS.fog, () => control.cycleFog(state));
    this.layer = wordButton("Ground", "Ground overlay (H)", ICONS.layer, () => control.cycleLayer(state));
    this.links = wordButton("Lines", "Sensor and targeting lines (X)", ICONS.links, () =>
      control.toggle(state, "showLinks"),
    );
    this.timeline.views.append(...Object.values(this.cameras), el("hr"), this.fog, this.layer, this.links);
    const { tools } = this;
    tools.append(
      wordButton("Mech", "Mech analysis (U)", ICONS.pilot, () => {
        control.selectAny(state);
        control.toggle(state, "showPilot");
      }),
      wordButton("Charts", "Match charts (C)", ICONS.chart, () => control.toggle(state, "showChart")),
      wordButton("Scores", "Scoreboard: all mechs (M)", ICONS.table, () => control.toggle(state, "showTable")),
      wordButton("Map", "Minimap (I)", ICONS.map, () => control.toggle(state, "showMap")),
      wordButton("Share", "Share (Q)", ICONS.share, () => control.toggle(state, "showShare")),
      wordButton("Setup", "Settings (/)", ICONS.settings, () => control.toggle(state, "showSettings")),
      wordButton("Help", "Shortcuts (?)", ICONS.help, () => control.toggle(state, "showHelp")),
    );
    const fill = wordButton("Full", "Fullscreen (\\)", ICONS.fullscreen, toggleFullscreen);
    fill.hidden = !canFillScreen();
    tools.append(fill);
    const corner = el("div", { class: "corner" }, [
      button("All matches (Esc)", icon(ICONS.back), showList, "button framed back"),
      this.title,
    ]);
    this.root = el("div", { class: "hud empty" }, [
      corner,
      tools,
      this.score.root,
      el("div", { class: "side left" }, [this.rosters[0].root, this.feed.root]),
      el("div", { class: "side right" }, [
        this.rosters[1].root,
        el("div", { class: "stack" }, [this.inspector.root, this.minimap.root, this.welcome.root]),
      ]),
      el("div", { class: "notes" }, [this.score.notice, this.mode, this.layerLegend.root]),
      this.timeline.root,
      this.charts.root,
      this.table.root,
      this.pilot.root,
      this.share.root,
      this.end.root,
      this.settings.root,
      this.help.root,
      this.loading,
      this.feed.announcements,
    ]);
    this.dialogs = new Dialogs(this.root);
    followTopRow(this.root, corner, tools);
  }

  /** Add buttons in front of those of the view. */
  addTools(buttons: readonly HTMLElement[]): void {
    this.tools.prepend(...buttons, el("hr"));
  }

  update(match: MatchState, ready: boolean): void {
    if (this.shown !== match) this.open(match);
    this.timeline.update(match);
    this.loading.hidden = ready;
    const waits = control.isBlank(match);
    this.root.classList.toggle("blank", waits);
    const damaged = waits && isDamage(match.store.failure(match.chunkNumber));
    this.loading.classList.toggle("still", damaged);
    setText(this.loadingText, loadingText(match));
    for (const [mode, choice] of Object.entries(this.cameras)) {
      const chosen = String(this.state.camera.mode === mode);
      if (choice.getAttribute("aria-pressed") !== chosen) choice.setAttribute("aria-pressed", chosen);
    }
    this.minimap.update(match);
    this.pilot.update(match);
    this.share.update(match);
    this.showModes(match);
    this.settings.update();
    this.help.update(match);
    this.charts.update(match);
    this.table.update(match);
    this.end.update(match);
    this.dialogs.update();
    const now = performance.now();
    if (now - this.slowAt < SLOW_MS) return;
    this.slowAt = now;
    this.measure();
    this.score.update(this.state, match);
    this.welcome.update(match);
    this.feed.update(this.state, match);
    this.inspector.update(this.state, match);
    for (const roster of this.rosters) roster.update(match);
    if (match.chunk || control.isBlank(match)) this.root.classList.remove("empty");
  }

  /** Measure which edges of the picture the panels cover, and which boxes captions cover. */
  private measure(): void {
    const [width, height] = this.state.window;
    const [score, player, card] = [this.score.root, this.timeline.root, this.welcome.root].map((root) =>
      root.getBoundingClientRect(),
    );
    const [left, right] = this.rosters.map(({ root }) => root.getBoundingClientRect());
    const strip = left.width > width / 2; // on phones in portrait the rosters are strips below the score
    const covers = (box: DOMRect) => (box.width > width / 2 ? box.top : height);
    const beside = card.width > 0 && card.width <= width / 2 ? card.left : width;
    const sheet = this.inspector.root.getBoundingClientRect();
    const insets = {
      left: left.width > 0 && !strip ? left.right : 0,
      top: Math.max(0, score.bottom, strip ? right.bottom : 0, this.layerLegend.root.getBoundingClientRect().bottom),
      right: right.width > 0 && !strip ? width - Math.min(right.left, beside) : 0,
      bottom: Math.max(0, height - Math.min(player.top, covers(card), covers(sheet))),
    };
    document.documentElement.style.setProperty("--score", `${Math.max(0, score.bottom)}px`);
    this.root.style.setProperty("--sheet", `${covers(sheet) < height ? sheet.height + 8 : 0}px`);
    // panels above the player end there, whatever its height
    this.root.style.setProperty("--player", `${Math.max(0, height - player.top) + 10}px`);
    const changed = (Object.keys(insets) as (keyof typeof insets)[]).some(
      (edge) => insets[edge] !== this.state.insets[edge],
    );
    if (changed) control.setInsets(this.state, insets);
    // while the moment's chunk is loading the picture is that of the moment before
    if (this.state.match?.chunk === null) return;
    const covered = [...this.root.querySelectorAll(COVERING)]
      .map((element) => element.getBoundingClientRect())
      .filter((box) => box.width > 0)
      .map(({ left, top, right, bottom }) => ({ left, top, right, bottom }));
    if (JSON.stringify(covered) !== JSON.stringify(this.state.covered)) this.state.covered = covered;
  }

  leave(): void {
    this.root.classList.add("empty");
    this.loading.hidden = false; // a match that is being opened
    setText(this.loadingText, LOADING);
    this.share.leave();
    this.coach.leave();
  }

  private showModes(match: MatchState): void {
    const { camera, fog, layer, selected, showLinks } = this.state;
    const { header } = match;
    const labels = [];
    if (camera.mode === "first" && selected >= 0)
      labels.push(`First person: what ${mechName(header, selected)} ${KNOWLEDGE[knowledgeOf(match)]}`);
    if (fog !== "none")
      labels.push(
        `Fog of war: ${fog === "mech" ? mechName(header, selected) : sideName(header, fog === "blue" ? 0 : 1)}`,
      );
    if (fog !== "none" && !recordsVisibility(match)) labels.push("this replay records no visibility");
    if (fog !== "none" && layer !== "none") labels.push("it hides the ground overlay");
    this.layerLegend.update(this.state, match);
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
    this.root.classList.add("empty");
    this.shown = match;
    this.slowAt = 0;
    this.feed.announcements.replaceChildren();
    this.title.textContent = match.title;
    this.score.open(match);
    this.welcome.open(match);
    for (const roster of this.rosters) roster.open(match);
    this.inspector.open(match);
    this.timeline.open();
  }
}
