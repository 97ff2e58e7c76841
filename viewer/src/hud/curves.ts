// Curves of the whole match, drawn with uPlot from the index, so that they are there before the chunks are.

import uPlot from "uplot";
import { TEAMS } from "../palette";
import type { Series } from "../protocol.gen";
import { el } from "./dom";

/** Which pair of curves. */
export type CurveName = "score" | "hp" | "alive" | "damage";

const FONT = '11px "Inter Variable", system-ui, sans-serif';
const INK = "#a9b6c4";
const NOTHING: Series = { second: [], score: [[], []], alive: [[], []], hp: [[], []], damage: [[], []] };
const GRID = { stroke: "rgba(160, 180, 200, 0.12)", width: 1 };

/** Values of a pair of curves; damage adds up over time. */
function values(series: Series, name: CurveName): [number[], number[], number[]] {
  const sum = (list: readonly number[]) => {
    let total = 0;
    return list.map((value) => (total += value));
  };
  const [blue, red] = series[name];
  return name === "damage" ? [series.second, sum(blue), sum(red)] : [series.second, blue, red];
}

/** Axes of a chart: seconds as a clock, values. */
export function chartAxes(): uPlot.Axis[] {
  const axis = { stroke: INK, font: FONT, grid: GRID, ticks: { show: false }, size: 34 };
  return [{ ...axis, size: 22, values: (_, ticks) => ticks.map((s) => `${Math.floor(s / 60)}:${String(Math.floor(s % 60)).padStart(2, "0")}`) }, axis];
}

/** Let a click on a chart jump to the second under the pointer. The chart's own cursor is led by the match and may have moved on. */
export function jumpOnClick(plot: uPlot, onJump: (seconds: number) => void): void {
  plot.over.addEventListener("click", (event) => onJump(plot.posToVal(event.clientX - plot.over.getBoundingClientRect().left, "x")));
}

const RED_DASH = [6, 3]; // tells the teams' lines apart without their colours

/** A line for each team. */
function lines(look: Partial<uPlot.Series>, filled = false): uPlot.Series[] {
  return TEAMS.map((team, t) => ({
    label: team.label, stroke: team.css, width: 1.5, fill: filled ? `${team.css}26` : undefined, points: { show: false }, dash: t === 1 ? RED_DASH : undefined, ...look,
  }));
}

/** The pairs of curves behind the scrub bar, each on a scale of its own. */
export const BACKDROP = [{ name: "score", label: "score" }, { name: "alive", label: "standing" }] as const;

/** Values of the curves behind the scrub bar: seconds, then the teams' of each pair. */
export function backdropData(series: Series): number[][] {
  return [series.second, ...BACKDROP.flatMap(({ name }) => series[name])];
}

/** Curves behind the scrub bar: no axes, but a key that says which are which. */
export function makeBackdrop(host: HTMLElement): (series: Series, seconds: number) => void {
  const upTo = (room: number) => ({ range: (_: uPlot, _low: number, high: number): [number, number] => [0, Math.max(1, high) * room] });
  const plot = new uPlot(
    {
      width: 100, height: 40, padding: [2, 0, 0, 0], legend: { show: false }, cursor: { show: false }, axes: [{ show: false }, { show: false }],
      // how many stand changes by steps
      series: [{}, ...lines({ scale: "score" }, true), ...lines({ scale: "alive", width: 1, paths: uPlot.paths.stepped?.({ align: 1 }) })],
      scales: { x: { time: false }, score: upTo(1.08), alive: upTo(1.2) },
    },
    backdropData(NOTHING) as uPlot.AlignedData,
    host,
  );
  host.append(el("div", { class: "backdrop-key" }, BACKDROP.map(({ name, label }) => el("span", { class: `key-${name}`, text: label }))));
  new ResizeObserver(() => plot.setSize({ width: Math.max(10, host.clientWidth), height: Math.max(10, host.clientHeight) })).observe(host);
  return (series, seconds) => {
    plot.setData(backdropData(series) as uPlot.AlignedData, false);
    plot.setScale("x", { min: 0, max: Math.max(1, seconds) });
  };
}

/** A labelled chart whose click jumps to that second. */
export class Chart {
  private readonly plot: uPlot;

  constructor(readonly name: CurveName, title: string, host: HTMLElement, onJump: (seconds: number) => void) {
    this.plot = new uPlot(
      {
        title, width: 300, height: 120, legend: { show: false }, series: [{}, ...lines({})], padding: [6, 10, 0, 0],
        axes: chartAxes(),
        scales: { x: { time: false } },
        cursor: { y: false, points: { size: 5 }, drag: { x: false, y: false }, sync: { key: "match" } },
      },
      [[], [], []],
      host,
    );
    jumpOnClick(this.plot, onJump);
    new ResizeObserver(() => this.plot.setSize({ width: Math.max(160, host.clientWidth), height: 128 })).observe(host);
  }

  /** Show the curves, and the cursor at a second. */
  update(series: Series, seconds: number): void {
    const data = values(series, this.name);
    if (this.plot.data[0] !== data[0] || this.plot.data[1].length !== data[1].length) this.plot.setData(data);
    this.plot.setCursor({ left: this.plot.valToPos(seconds, "x"), top: 10 }, false);
  }
}
