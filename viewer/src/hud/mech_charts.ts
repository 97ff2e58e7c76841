// Charts of the selected mech over the whole match, synchronised with the cursor: health, heat and stability; and, with
// policy columns, predicted value, rewards by term, and the current actions.

import uPlot from "uplot";
import * as control from "../control";
import type { MechCurves } from "../data/match_scan";
import { frameAt } from "../interpolate";
import type { MatchState, ViewerState } from "../state";
import { chartAxes, jumpOnClick } from "./charts";
import { ICONS, button, el, icon, setText } from "./dom";
import { mechName } from "./text";

const COLOURS = ["#6bb8ff", "#ffc65c", "#ff8a62", "#9fe6c0", "#d59bff", "#ff5d6c", "#c9d4df", "#7fd8e8"];
const HEIGHT = 118; // height of a chart [CSS px]
const FRESH_MS = 300; // update interval of growing curves
const NEGLIGIBLE = 1e-3; // curves that never exceed this are not drawn

/** One chart: its title, and names and values of its lines. */
interface Row {
  title: string;
  names: (match: MatchState) => string[];
  values: (curves: MechCurves) => number[][];
}

const percent = (shares: number[]): number[] => shares.map((share) => 100 * share);

const ROWS: readonly Row[] = [
  {
    title: "Health, heat, stability (%)",
    names: () => ["health", "heat", "stability"],
    values: (curves) => [curves.hp, curves.heat, curves.stability].map(percent),
  },
  {
    title: "Predicted value and reward so far",
    names: () => ["predicted value", "reward so far"],
    values: (curves) => [curves.value, curves.gained],
  },
  {
    title: "Cumulative reward by term",
    names: (match) => match.header.insight?.terms ?? [],
    values: (curves) => curves.terms,
  },
];

/** One chart of the panel. */
class MechChart {
  readonly root = el("div", { class: "chart" });
  private plot: uPlot | null = null;
  private shown = "";

  constructor(
    private readonly row: Row,
    private readonly jump: (seconds: number) => void,
  ) {
    this.root.setAttribute("aria-label", row.title);
    new ResizeObserver(() => this.plot?.setSize(this.size)).observe(this.root);
  }

  /** Draw the curves. */
  draw(match: MatchState, curves: MechCurves): void {
    const all = this.row.values(curves);
    const keep = all.map((line) => line.length > 0 && line.some((value) => Math.abs(value) > NEGLIGIBLE));
    const names = this.row.names(match).filter((_, k) => keep[k]);
    const lines = all.filter((_, k) => keep[k]);
    this.root.hidden = lines.length === 0;
    if (lines.length === 0) return;
    if (this.shown !== names.join()) this.build(names);
    this.shown = names.join();
    this.plot?.setData([curves.seconds, ...lines]);
    this.plot?.setScale("x", { min: 0, max: Math.max(1, control.lastTick(match) / match.header.tick_hz) });
  }

  /** Move the cursor to a second. */
  point(seconds: number): void {
    if (this.plot) this.plot.setCursor({ left: this.plot.valToPos(seconds, "x"), top: 10 }, false);
  }

  private get size(): { width: number; height: number } {
    return { width: Math.max(200, this.root.clientWidth), height: HEIGHT };
  }

  private build(names: readonly string[]): void {
    this.plot?.destroy();
    const plot = new uPlot(
      {
        title: this.row.title,
        ...this.size,
        padding: [6, 10, 0, 0],
        series: [
          { label: "time", value: (_, value) => (value === null ? "" : `${value.toFixed(1)} s`) },
          ...names.map((label, k) => ({
            label: label.replace(/_/g, " "),
            stroke: COLOURS[k % COLOURS.length],
            width: 1.4,
            points: { show: false },
            value: (_: uPlot, value: number | null) => (value === null ? "" : value.toFixed(2)),
          })),
        ],
        axes: chartAxes(),
        scales: { x: { time: false } },
        legend: { live: true },
        cursor: { y: false, points: { size: 5 }, drag: { x: false, y: false }, sync: { key: "match" } },
      },
      [[], ...names.map(() => [])],
      this.root,
    );
    jumpOnClick(plot, this.jump);
    this.plot = plot;
  }
}

/** The panel of mech charts. */
export class MechAnalysisPanel {
  private readonly title = el("h2");
  private readonly note = el("p", { class: "pilot-note" });
  private readonly actions = el("div", { class: "acts", aria: { label: "Current actions" } });
  private readonly charts: MechChart[];
  private bars: { name: string; fill: HTMLElement }[] = [];
  private barsOf: unknown = null;
  private drawn = { at: 0, version: -1, mech: -1 };
  readonly root: HTMLElement;

  constructor(private readonly state: ViewerState) {
    const jump = (seconds: number) => {
      if (state.match) control.seek(state, seconds * state.match.header.tick_hz);
    };
    this.charts = ROWS.map((row) => new MechChart(row, jump));
    this.root = el(
      "section",
      { class: "overlay panel pilot", attributes: { role: "dialog" }, aria: { label: "Mech analysis" } },
      [
        el("header", {}, [this.title, button("Close (U)", icon(ICONS.close), () => (state.showPilot = false))]),
        el("div", { class: "overlay-body" }, [this.actions, ...this.charts.map((chart) => chart.root), this.note]),
      ],
    );
  }

  update(match: MatchState): void {
    const { state } = this;
    this.root.hidden = !state.showPilot || state.selected < 0;
    if (this.root.hidden) return;
    setText(this.title, `Mech analysis: ${mechName(match.header, state.selected)}`);
    const { curves, version } = match.scan;
    const now = performance.now();
    const fresh = version !== this.drawn.version || state.selected !== this.drawn.mech;
    if (curves?.mech === state.selected && fresh && now - this.drawn.at > FRESH_MS) {
      this.drawn = { at: now, version, mech: state.selected };
      for (const chart of this.charts) chart.draw(match, curves);
    }
    for (const chart of this.charts) chart.point(state.tick / match.header.tick_hz);
    setText(this.note, this.noteText(match));
    this.showActions(match);
  }

  private noteText(match: MatchState): string {
    if (!match.header.insight)
      return "This match has no policy data (values, rewards, actions); `echelon sim --insight` records it.";
    return match.header.insight.estimates ? "" : "Scripted pilots predict no value.";
  }

  /** Show the current actions: a bar per control, from its centre. */
  private showActions(match: MatchState): void {
    const { insight } = match.header;
    this.actions.hidden = !insight || !match.chunk?.insight;
    if (!insight || !match.chunk?.insight) return;
    if (this.barsOf !== match) {
      this.barsOf = match;
      this.bars = insight.actions
        .filter((name) => !/^(target|sort|message|hostile)/.test(name))
        .map((name) => ({ name, fill: el("i") }));
      this.actions.replaceChildren(
        ...this.bars.map(({ name, fill }) =>
          el("div", { class: "act", title: name }, [
            el("span", { text: name.replace(/_/g, " ") }),
            el("div", {}, [fill]),
          ]),
        ),
      );
    }
    const at =
      (frameAt(match.chunk, this.state.tick).next * match.chunk.mechs + this.state.selected) * insight.actions.length;
    this.bars.forEach(({ fill }, k) => {
      const value = match.chunk?.insight?.action[at + k] ?? 0;
      fill.style.left = `${50 + Math.min(0, value) * 50}%`;
      fill.style.width = `${Math.abs(value) * 50}%`;
    });
  }
}
