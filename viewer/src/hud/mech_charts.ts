// Charts of the selected mech over the whole match, synchronised with the cursor: health, heat and stability; and, with
// policy columns, predicted value, rewards by term, and the current actions.

import uPlot from "uplot";
import * as control from "../control";
import type { MechCurves } from "../data/match_scan";
import { controlLabel, controlText, isSwitch, suiteOf } from "../data/choices";
import { frameAt } from "../interpolate";
import type { MatchState, ViewerState } from "../state";
import { CHART_PADDING, chartAxes, jumpOnClick } from "./charts";
import { ChoicesView } from "./choices_view";
import { dialog, el, setText } from "./dom";
import { mechName } from "../text";

// none is the colour of a team
export const COLOURS = ["#9fe6c0", "#ffd166", "#d59bff", "#f4a6d7", "#b7d968", "#e9eff6", "#5fc9b5", "#a9957a"];
const HEIGHT = 118; // height of a chart [CSS px]
const FRESH_MS = 300; // update interval of growing curves
const NO_CONTROL = /^(target|sort|message|hostile)/; // actions that control no part of the mech
const NEGLIGIBLE = 1e-3; // curves that never exceed this are not drawn

interface Row {
  title: string;
  names: (match: MatchState) => string[];
  values: (curves: MechCurves) => number[][];
  text: (value: number) => string; // a value in the legend
}

const percent = (shares: number[]): number[] => shares.map((share) => 100 * share);

const ROWS: readonly Row[] = [
  {
    title: "Health, heat, stability (%)",
    names: () => ["health", "heat", "stability"],
    values: (curves) => [curves.hp, curves.heat, curves.stability].map(percent),
    text: (value) => `${value.toFixed(0)} %`,
  },
  {
    title: "Predicted value and reward so far",
    names: () => ["predicted value", "reward so far"],
    values: (curves) => [curves.value, curves.gained],
    text: (value) => value.toFixed(2),
  },
  {
    title: "Cumulative reward by term",
    names: (match) => match.header.insight?.terms ?? [],
    values: (curves) => curves.terms,
    text: (value) => value.toFixed(2),
  },
];

class MechChart {
  readonly root = el("div", { class: "chart" });
  private plot: uPlot | null = null;
  private shown = "";
  hovered = false; // whether the pointer is over it

  constructor(
    private readonly row: Row,
    private readonly jump: (seconds: number) => void,
  ) {
    this.root.setAttribute("aria-label", row.title);
    for (const [name, inside] of [
      ["pointerenter", true],
      ["pointerleave", false],
    ] as const)
      this.root.addEventListener(name, () => (this.hovered = inside));
    new ResizeObserver(() => this.plot?.setSize(this.size)).observe(this.root);
  }

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
        padding: CHART_PADDING,
        series: [
          { label: "time", value: (_, value) => (value === null ? "" : `${value.toFixed(1)} s`) },
          ...names.map((label, k) => ({
            label: label.replace(/_/g, " "),
            stroke: COLOURS[k % COLOURS.length],
            width: 1.4,
            points: { show: false },
            value: (_: uPlot, value: number | null) => (value === null ? "" : this.row.text(value)),
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

export class MechAnalysisPanel {
  private readonly title = el("h2");
  private readonly note = el("p", { class: "pilot-note small" });
  private readonly actions = el("div", { class: "acts", aria: { label: "Current actions" } });
  private readonly charts: MechChart[];
  private readonly choices = new ChoicesView();
  private bars: { name: string; fill: HTMLElement; value: HTMLElement; root: HTMLElement; index: number }[] = [];
  private barsOf = "";
  private drawn = { at: 0, version: -1, mech: -1 };
  readonly root: HTMLElement;

  constructor(private readonly state: ViewerState) {
    const jump = (seconds: number) => {
      if (state.match) control.seek(state, seconds * state.match.header.tick_hz);
    };
    this.charts = ROWS.map((row) => new MechChart(row, jump));
    const parts = [this.actions, this.choices.root, ...this.charts.map((chart) => chart.root), this.note];
    this.root = dialog("pilot", "Mech analysis", () => (state.showPilot = false), parts, this.title);
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
    // under the pointer the legend shows the values there, otherwise those at the cursor
    if (!this.charts.some(({ hovered }) => hovered))
      for (const chart of this.charts) chart.point(state.tick / match.header.tick_hz);
    this.choices.update(match, state.tick, state.selected);
    setText(this.note, this.noteText(match));
    this.showActions(match);
  }

  private noteText(match: MatchState): string {
    if (!match.header.insight)
      return "This match has no policy data (values, rewards, actions); `echelon sim --insight` records it.";
    return match.header.insight.estimates ? "" : "Scripted pilots predict no value.";
  }

  private showActions(match: MatchState): void {
    const { insight } = match.header;
    this.actions.hidden = !insight || !match.chunk?.insight;
    if (!insight || !match.chunk?.insight) return;
    const suite = suiteOf(match.header, this.state.selected);
    const key = `${match.id} ${match.header.roster[this.state.selected].chassis}`;
    if (this.barsOf !== key) {
      this.barsOf = key;
      this.bars = insight.actions.flatMap((name, index) => {
        const label = NO_CONTROL.test(name) ? "" : controlLabel(suite, name);
        if (label === "") return [];
        const [fill, value] = [el("i"), el("b")];
        const root = el("div", { class: isSwitch(name) ? "act switch" : "act" }, [
          el("span", { class: "tiny" }, [el("span", { text: label }), value]),
          el("div", {}, [fill]),
        ]);
        return [{ name, fill, value, root, index }];
      });
      this.actions.replaceChildren(...this.bars.map(({ root }) => root));
    }
    const at =
      (frameAt(match.chunk, this.state.tick).next * match.chunk.mechs + this.state.selected) * insight.actions.length;
    for (const { name, fill, value, root, index } of this.bars) {
      const now = match.chunk.insight.action[at + index] ?? 0;
      setText(value, controlText(suite, name, now));
      const held = isSwitch(name) ? ", on above 0" : "";
      root.dataset.tip = `${name.replace(/_/g, " ")}: ${now.toFixed(2)} of −1 to 1${held}`;
      root.classList.toggle("on", isSwitch(name) && now > 0);
      const width = isSwitch(name) ? Number(now > 0) : Math.abs(now) / 2;
      fill.style.left = isSwitch(name) ? "0" : `${50 + Math.min(0, now) * 50}%`;
      fill.style.width = `${width * 100}%`;
    }
  }
}
