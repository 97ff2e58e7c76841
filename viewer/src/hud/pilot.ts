// The curves of the selected mech over the whole match, linked with the cursor: its condition, and where the match was
// recorded with policy columns what its pilot expected, what it was paid term by term, and what it does right now.

import uPlot from "uplot";
import * as control from "../control";
import type { PilotCurves } from "../data/sweep";
import { frameAt } from "../interpolate";
import type { MatchState, ViewerState } from "../state";
import { chartAxes, jumpOnClick } from "./curves";
import { ICONS, button, el, icon, setText } from "./dom";
import { mechName } from "./words";

const COLOURS = ["#6bb8ff", "#ffc65c", "#ff8a62", "#9fe6c0", "#d59bff", "#ff5d6c", "#c9d4df", "#7fd8e8"];
const HEIGHT = 118; // of a chart [CSS px]
const FRESH_MS = 300; // how often growing curves are drawn again
const NEGLIGIBLE = 1e-3; // a reward term that never leaves this is not drawn

/** One chart: its title, the names of its lines, and where their values are. */
interface Row {
  title: string;
  names: (match: MatchState) => string[];
  values: (curves: PilotCurves) => number[][];
}

const ROWS: readonly Row[] = [
  { title: "Condition, as shares", names: () => ["body", "heat", "stability"], values: (curves) => [curves.hp, curves.heat, curves.stability] },
  { title: "What the pilot expects, and what it has been paid", names: () => ["value", "paid so far"], values: (curves) => [curves.value, curves.gained] },
  { title: "Paid so far, by reward term", names: (match) => match.header.insight?.terms ?? [], values: (curves) => curves.terms },
];

/** One chart on the page. */
class PilotChart {
  readonly root = el("div", { class: "chart" });
  private plot: uPlot | null = null;
  private shown = "";

  constructor(private readonly row: Row, private readonly jump: (seconds: number) => void) {
    this.root.setAttribute("aria-label", row.title);
    new ResizeObserver(() => this.plot?.setSize(this.size)).observe(this.root);
  }

  /** Draw the curves. */
  draw(match: MatchState, curves: PilotCurves): void {
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
        title: this.row.title, ...this.size, padding: [6, 10, 0, 0],
        series: [{ label: "time", value: (_, value) => (value === null ? "" : `${value.toFixed(1)} s`) }, ...names.map((label, k) => ({
          label: label.replace(/_/g, " "), stroke: COLOURS[k % COLOURS.length], width: 1.4, points: { show: false },
          value: (_: uPlot, value: number | null) => (value === null ? "" : value.toFixed(2)),
        }))],
        axes: chartAxes(), scales: { x: { time: false } }, legend: { live: true },
        cursor: { y: false, points: { size: 5 }, drag: { x: false, y: false }, sync: { key: "match" } },
      },
      [[], ...names.map(() => [])],
      this.root,
    );
    jumpOnClick(plot, this.jump);
    this.plot = plot;
  }
}

/** The panel. */
export class PilotPanel {
  private readonly title = el("h2");
  private readonly note = el("p", { class: "pilot-note" });
  private readonly actions = el("div", { class: "acts", aria: { label: "What it does" } });
  private readonly charts: PilotChart[];
  private bars: { name: string; fill: HTMLElement }[] = [];
  private barsOf: unknown = null;
  private drawn = { at: 0, version: -1, mech: -1 };
  readonly root: HTMLElement;

  constructor(private readonly state: ViewerState) {
    const jump = (seconds: number) => {
      if (state.match) control.seek(state, seconds * state.match.header.tick_hz);
    };
    this.charts = ROWS.map((row) => new PilotChart(row, jump));
    this.root = el("section", { class: "overlay panel pilot", attributes: { role: "dialog" }, aria: { label: "Curves of the mech" } }, [
      el("header", {}, [this.title, button("Close (U)", icon(ICONS.close), () => (state.showPilot = false))]),
      el("div", { class: "overlay-body" }, [this.actions, ...this.charts.map((chart) => chart.root), this.note]),
    ]);
  }

  update(match: MatchState): void {
    const { state } = this;
    this.root.hidden = !state.showPilot || state.selected < 0;
    if (this.root.hidden) return;
    setText(this.title, `${mechName(match.header, state.selected)} over time`);
    const { curves, version } = match.sweep;
    const now = performance.now();
    const fresh = version !== this.drawn.version || state.selected !== this.drawn.mech;
    if (curves?.mech === state.selected && fresh && now - this.drawn.at > FRESH_MS) {
      this.drawn = { at: now, version, mech: state.selected };
      for (const chart of this.charts) chart.draw(match, curves);
    }
    for (const chart of this.charts) chart.point(state.tick / match.header.tick_hz);
    setText(this.note, this.words(match));
    this.showActions(match);
  }

  private words(match: MatchState): string {
    if (!match.header.insight) return "This match was recorded without what its pilots saw, did and were paid; `echelon sim --record N --insight` and evaluations record it.";
    return match.header.insight.estimates ? "" : "Scripted pilots expect nothing: there is no value to show.";
  }

  /** What the pilot does now: a bar for each control, from its middle. */
  private showActions(match: MatchState): void {
    const { insight } = match.header;
    this.actions.hidden = !insight || !match.chunk?.insight;
    if (!insight || !match.chunk?.insight) return;
    if (this.barsOf !== match) {
      this.barsOf = match;
      this.bars = insight.actions.filter((name) => !/^(target|sort|message|hostile)/.test(name)).map((name) => ({ name, fill: el("i") }));
      this.actions.replaceChildren(...this.bars.map(({ name, fill }) => el("div", { class: "act", title: name }, [el("span", { text: name.replace(/_/g, " ") }), el("div", {}, [fill])])));
    }
    const at = (frameAt(match.chunk, this.state.tick).next * match.chunk.mechs + this.state.selected) * insight.actions.length;
    this.bars.forEach(({ fill }, k) => {
      const value = match.chunk?.insight?.action[at + k] ?? 0;
      fill.style.left = `${50 + Math.min(0, value) * 50}%`;
      fill.style.width = `${Math.abs(value) * 50}%`;
    });
  }
}

