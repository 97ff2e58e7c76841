// Charts of the whole match, drawn with uPlot from the index, so that they are complete before the chunks are loaded.

import uPlot from "uplot";
import { TEAMS } from "../palette";
import { RECOLOURED } from "../settings";
import type { IndexView, Outcome, Series } from "../protocol.gen";
import { el } from "./dom";

export type CurveName = "score" | "hp" | "alive" | "damage";

const FONT = '11px "Inter Variable", system-ui, sans-serif';
const INK = "#a9b6c4";
/** Space around a chart: above its axes, and on the right for half of the last label [CSS px]. */
export const CHART_PADDING: uPlot.Padding = [6, 18, 0, 0];
/** What a finished match ends with, for the last point of its curves. */
export type Final = Pick<Outcome, "score" | "alive" | "hp"> | null;

const GRID = { stroke: "rgba(160, 180, 200, 0.12)", width: 1 };

/** Return seconds and the values of both teams up to the last frame at `end` [s]; damage is cumulative. */
export function curveValues(
  series: Series,
  name: CurveName,
  end: number,
  final: Final,
): [seconds: number[], blue: number[], red: number[]] {
  const sum = (list: readonly number[]) => {
    let total = 0;
    return list.map((value) => (total += value));
  };
  const { second } = series;
  const late = second.length > 0 && end > second[second.length - 1];
  const lines = series[name].map((list, team) => {
    const line = name === "damage" ? sum(list) : list;
    // series have whole seconds: the rest is known from the result, else taken from the last second
    const last = name !== "damage" && final ? final[name][team] : line[line.length - 1];
    return late ? [...line, last] : line;
  });
  return [late ? [...second, end] : second, lines[0], lines[1]];
}

export function chartAxes(): uPlot.Axis[] {
  const axis = { stroke: INK, font: FONT, grid: GRID, ticks: { show: false }, size: 34 };
  return [
    {
      ...axis,
      size: 22,
      values: (_, ticks) => ticks.map((s) => `${Math.floor(s / 60)}:${String(Math.floor(s % 60)).padStart(2, "0")}`),
    },
    axis,
  ];
}

/**
 * Seek to the second under the pointer when a chart is clicked. The chart's own cursor follows the match and may have
 * moved.
 */
export function jumpOnClick(plot: uPlot, onJump: (seconds: number) => void): void {
  plot.over.addEventListener("click", (event) =>
    onJump(plot.posToVal(event.clientX - plot.over.getBoundingClientRect().left, "x")),
  );
}

const RED_DASH = [6, 3]; // distinguishes the teams' lines without colour

function lines(style: Partial<uPlot.Series>, filled = false): uPlot.Series[] {
  return TEAMS.map((team, t) => ({
    label: team.label,
    stroke: () => team.css,
    width: 1.5,
    fill: filled ? () => `${team.css}26` : undefined,
    points: { show: false },
    dash: t === 1 ? RED_DASH : undefined,
    ...style,
  }));
}

export function backdropKey(): HTMLElement {
  return el("div", { class: "backdrop-key tiny", aria: { hidden: "true" } }, [el("span", { text: "score" })]);
}

const HEADROOM = 1.08; // height of those curves over their largest value

/** Create the curves of the score behind the scrub bar, without axes; returns their update function. */
export function makeBackdrop(host: HTMLElement): (series: Series, seconds: number, final: Final) => void {
  const plot = new uPlot(
    {
      width: 100,
      height: 40,
      padding: [2, 0, 0, 0],
      legend: { show: false },
      cursor: { show: false },
      axes: [{ show: false }, { show: false }],
      series: [{}, ...lines({ width: 1 }, true)],
      scales: {
        x: { time: false },
        y: { range: (_: uPlot, _low: number, high: number): [number, number] => [0, Math.max(1, high) * HEADROOM] },
      },
    },
    [[], [], []],
    host,
  );
  window.addEventListener(RECOLOURED, () => plot.redraw());
  new ResizeObserver(() =>
    plot.setSize({ width: Math.max(10, host.clientWidth), height: Math.max(10, host.clientHeight) }),
  ).observe(host);
  return (series, seconds, final) => {
    plot.setData(curveValues(series, "score", seconds, final), false);
    plot.setScale("x", { min: 0, max: Math.max(1, seconds) });
  };
}

/** A chart of one pair of curves; a click seeks to that second. */
export class Chart {
  private readonly plot: uPlot;
  private drawn: [Series | null, number] = [null, 0];

  constructor(
    readonly name: CurveName,
    title: string,
    host: HTMLElement,
    onJump: (seconds: number) => void,
  ) {
    this.plot = new uPlot(
      {
        title,
        width: 300,
        height: 120,
        legend: { show: false },
        series: [{}, ...lines({})],
        padding: CHART_PADDING,
        axes: chartAxes(),
        scales: { x: { time: false } },
        cursor: { y: false, points: { size: 5 }, drag: { x: false, y: false }, sync: { key: "match" } },
      },
      [[], [], []],
      host,
    );
    jumpOnClick(this.plot, onJump);
    window.addEventListener(RECOLOURED, () => this.plot.redraw());
    new ResizeObserver(() => this.plot.setSize({ width: Math.max(160, host.clientWidth), height: 128 })).observe(host);
  }

  /** Draw the curves up to the last frame at `end` [s], with the cursor at a second. */
  update({ series, outcome }: IndexView, end: number, seconds: number): void {
    if (this.drawn[0] !== series || this.drawn[1] !== end) {
      this.drawn = [series, end];
      this.plot.setData(curveValues(series, this.name, end, outcome));
    }
    this.plot.setCursor({ left: this.plot.valToPos(seconds, "x"), top: 10 }, false);
  }
}
