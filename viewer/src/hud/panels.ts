// Panels that open over a match: shortcuts with the legend of symbols, and match charts.

import * as control from "../control";
import type { KeyRow } from "../input";
import { keyLabel } from "../keys";
import type { MatchState, ViewerState } from "../state";
import { TIER_NAMES } from "../quality";
import { CHASSIS, TEAMS } from "../palette";
import { CHASSIS_NAMES } from "../protocol.gen";
import { RECOLOURED } from "../settings";
import { mayShow, seenIndex } from "../spoilers";
import { Chart, curveValues, teamLines } from "./charts";
import { dialog, el, icon, setText } from "./dom";

export interface Panel {
  readonly root: HTMLElement;
  update(match: MatchState): void;
  leave(): void;
}

/** Symbols in the picture, on the rosters and on the timeline. */
const SYMBOLS: readonly (readonly [string, string])[] = [
  ["sign blue", "Blue mech, points ahead"],
  ["sign red", "Red mech, points ahead"],
  ["hatch blue", "Mech behind a wall"],
  ["bar health blue", "Health"],
  ["bar heat", "Heat"],
  ["bar stability", "Stability"],
  ["cross", "Painted: easier to hit"],
  ["line target", "Selected mech's target"],
  ["line contact", "Contact it knows of"],
  ["line watched", "Hostile that has detected it"],
  ["line front", "Front line of a large battle"],
  ["ring", "Its radar range"],
  ["bubble ecm", "ECM: jams hostile sensors"],
  ["bubble eccm", "ECCM: counters jamming"],
  ["number", "Damage; orange is critical"],
  ["moment", "Turning point, in the colour of who acts or gains"],
  ["moment decisive", "The decisive moment"],
];

function legend(): HTMLElement {
  const row = (symbol: Node, text: string) => [el("dt", {}, [symbol]), el("dd", { text })];
  return el("div", { class: "key-group legend" }, [
    el("h3", { text: "Legend" }),
    el("dl", {}, [
      ...SYMBOLS.flatMap(([kind, text]) =>
        row(el("i", { class: `legend-${kind}`, text: kind === "number" ? "26" : "" }), text),
      ),
      ...CHASSIS_NAMES.flatMap((name) => row(icon(CHASSIS[name].icon), `${CHASSIS[name].label} mech`)),
    ]),
  ]);
}

export class HelpPanel {
  readonly root: HTMLElement;

  private readonly graphics = el("p", { class: "key-note soft" });
  private readonly live = el("p", { class: "key-note", text: "The match is live: it goes on while this is open." });
  private readonly keys: (readonly [HTMLElement, string])[] = []; // keys, and their names on this keyboard
  private paused: MatchState | null = null; // the match that goes on when the help closes

  /** `quality` returns the current graphics tier as text. */
  constructor(
    private readonly state: ViewerState,
    table: readonly KeyRow[],
    private readonly quality: () => string,
  ) {
    const keysOf = ({ shown }: KeyRow) => shown.split("  ").map((name) => this.key(name));
    const groups = (["Time", "Camera", "Mechs", "View"] as const).map((group) => {
      const rows = table.filter((row) => row.group === group);
      const entries = rows.flatMap((row) => [el("dt", {}, keysOf(row)), el("dd", { text: row.label })]);
      return el("div", { class: "key-group" }, [el("h3", { text: group }), el("dl", {}, entries)]);
    });
    const mouse = "Mouse: drag rotates, right or Shift drag pans, wheel zooms, click selects, double-click follows.";
    const parts = [this.live, legend(), ...groups, el("p", { class: "key-note soft", text: mouse }), this.graphics];
    this.root = dialog("help", "Shortcuts and legend", () => (state.showHelp = false), parts);
  }

  private key(name: string): HTMLElement {
    const shown = el("kbd", { text: name });
    this.keys.push([shown, name]);
    return shown;
  }

  /** Show or hide the help; a recorded match pauses while it is open. */
  update(match: MatchState): void {
    const { state } = this;
    if (this.root.hidden === state.showHelp) {
      if (!state.showHelp && this.paused === match) state.playing = true;
      this.paused = state.showHelp && state.playing && !match.index.live ? match : null;
      if (this.paused) state.playing = false;
    }
    this.root.hidden = !state.showHelp;
    if (this.root.hidden) return;
    for (const [shown, name] of this.keys) setText(shown, keyLabel(name));
    this.live.hidden = !match.index.live;
    setText(
      this.graphics,
      `Graphics: ${this.quality()}. Settings (/) change it, or ?quality= in the address: ${TIER_NAMES.join(", ")}.`,
    );
  }
}

const CHARTS = [
  ["score", "Zone points"],
  ["hp", "Hit points"],
  ["damage", "Damage dealt"],
  ["alive", "Alive"],
] as const;

const HEIGHT = 106; // height of a chart [CSS px]

export class ChartPanel {
  readonly root: HTMLElement;
  private readonly charts: readonly Chart[];
  private drawn: readonly unknown[] = [];

  constructor(private readonly state: ViewerState) {
    const jump = (seconds: number) => control.seek(state, seconds * (state.match?.header.tick_hz ?? 0));
    this.charts = CHARTS.map(([, title]) => new Chart(title, HEIGHT, jump, teamLines({})));
    window.addEventListener(RECOLOURED, () => {
      for (const chart of this.charts) chart.shown = "";
      this.drawn = [];
    });
    const parts = this.charts.map(({ root }) => root);
    this.root = dialog("charts", "Match charts", () => (state.showChart = false), parts);
  }

  update(match: MatchState): void {
    this.root.hidden = !this.state.showChart;
    if (this.root.hidden) return;
    const all = mayShow(this.state);
    const [hz, last] = [match.header.tick_hz, all ? control.lastTick(match) : this.state.tick];
    if (this.drawn[0] !== match.index.series || this.drawn[1] !== last) {
      this.drawn = [match.index.series, last];
      const { series, outcome } = all ? match.index : seenIndex(match.index, last / hz);
      this.charts.forEach((chart, k) => {
        const [seconds, blue, red] = curveValues(series, CHARTS[k][0], last / hz, outcome);
        chart.draw(
          seconds,
          [
            [TEAMS[0].label, blue],
            [TEAMS[1].label, red],
          ],
          last / hz,
        );
      });
    }
    const second = this.state.tick / hz;
    const damage = match.scan.figures.at(match, this.state.tick)?.damage;
    const sumsOf = (values: Float64Array) =>
      [0, 1].map((team) => match.header.roster.reduce((sum, each, m) => sum + (each.team === team ? values[m] : 0), 0));
    const dealt = damage && [second, ...sumsOf(damage)];
    this.charts.forEach((chart, k) => chart.point(second, CHARTS[k][0] === "damage" ? dealt : undefined));
  }
}
