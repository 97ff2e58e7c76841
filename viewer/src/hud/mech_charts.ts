// The analysis of the selected mech: any of its values and of its policy's observation, as rows and as charts; health,
// heat and stability; and, with policy columns, predicted value, rewards by term, and the current actions.

import * as control from "../control";
import type { MechCurves } from "../data/mech_series";
import { controlLabel, controlText, isSwitch, suiteOf } from "../data/choices";
import { frameAt } from "../interpolate";
import type { MatchState, ViewerState } from "../state";
import { ChoicesView } from "./choices_view";
import { dialog, el, setText } from "./dom";
import { MechChart } from "./mech_chart";
import { SeriesList } from "./series_list";
import { mechName } from "../text";

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

/** Return the lines of a chart with their names, without those that never leave 0. */
function linesOf(row: Row, match: MatchState, curves: MechCurves): [string, number[]][] {
  const lines = row.values(curves).map((line, k): [string, number[]] => [row.names(match)[k], line]);
  return lines.filter(([, line]) => line.some((value) => Math.abs(value) > NEGLIGIBLE));
}

export class MechAnalysisPanel {
  private readonly title = el("h2");
  private readonly note = el("p", { class: "pilot-note small" });
  private readonly actions = el("div", { class: "acts", aria: { label: "Current actions" } });
  private readonly charts: MechChart[];
  private readonly series: SeriesList;
  private readonly choices = new ChoicesView();
  private bars: { name: string; fill: HTMLElement; value: HTMLElement; root: HTMLElement; index: number }[] = [];
  private barsOf = "";
  private drawn = { at: 0, version: -1, mech: -1 };
  readonly root: HTMLElement;

  constructor(private readonly state: ViewerState) {
    const jump = (seconds: number) => {
      if (state.match) control.seek(state, seconds * state.match.header.tick_hz);
    };
    this.charts = ROWS.map(({ title, text }) => new MechChart(title, text, jump));
    this.series = new SeriesList(jump);
    const charts = this.charts.map((chart) => chart.root);
    const parts = [this.series.root, this.actions, this.choices.root, ...charts, this.note];
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
      const end = control.lastTick(match) / match.header.tick_hz;
      this.charts.forEach((chart, k) => chart.draw(curves.seconds, linesOf(ROWS[k], match, curves), end));
    }
    this.series.update(match, state.selected, state.tick);
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
