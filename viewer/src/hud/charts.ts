// Charts of the whole match, drawn with uPlot from the index, so that they are complete before the chunks are loaded.

import uPlot from "uplot";
import { TEAMS } from "../palette";
import { RECOLOURED } from "../settings";
import type { Outcome, Series } from "../protocol.gen";
import { el } from "./dom";

export type CurveName = "score" | "hp" | "alive" | "damage";

const FONT = '11px "Inter Variable", system-ui, sans-serif';
const INK = "#a9b6c4";
/** Space around a chart: above its axes, and on the right for half of the last label [CSS px]. */
const CHART_PADDING: uPlot.Padding = [6, 18, 0, 0];
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

function chartAxes(): uPlot.Axis[] {
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

const RED_DASH = [6, 3]; // distinguishes the teams' lines without colour

export function teamLines(style: Partial<uPlot.Series>, filled = false): uPlot.Series[] {
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
      series: [{}, ...teamLines({ width: 1 }, true)],
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

// none is the colour of a team
export const COLOURS = ["#9fe6c0", "#ffd166", "#d59bff", "#f4a6d7", "#b7d968", "#e9eff6", "#5fc9b5", "#a9957a"];
export type Line = readonly [name: string, values: ArrayLike<number>];

/** A chart over the whole match: a click seeks, and its legend shows the values at the cursor or pointer. */
export class Chart {
  readonly root: HTMLElement;
  private plot: uPlot | null = null;
  shown = ""; // names of its lines; the chart is rebuilt where they change, and for ""
  private hovered = false; // whether the pointer is over it
  private exact: readonly number[] = []; // what its legend shows at the cursor, in place of the nearest sample

  constructor(
    private readonly title: string,
    private readonly height: number, // [CSS px]
    private readonly jump: (seconds: number) => void,
    private readonly styles: readonly uPlot.Series[] = COLOURS.map((stroke) => ({ stroke, width: 1.4 })),
  ) {
    this.root = el("div", { class: "chart", aria: { label: title } });
    this.root.addEventListener("pointerenter", () => (this.hovered = true));
    this.root.addEventListener("pointerleave", () => (this.hovered = false));
    new ResizeObserver(() => this.plot?.setSize(this.size)).observe(this.root);
  }

  /** Draw lines over their times, with the whole match across; none leaves no chart. */
  draw(seconds: ArrayLike<number>, lines: readonly Line[], end: number): void {
    this.root.hidden = lines.length === 0;
    if (lines.length === 0) return;
    const names = lines.map(([name]) => name);
    if (this.shown !== names.join()) this.build(names);
    this.shown = names.join();
    this.plot?.setData([seconds, ...lines.map(([, values]) => values)] as uPlot.AlignedData);
    this.plot?.setScale("x", { min: 0, max: Math.max(1, end) });
  }

  /** Set the cursor to a second, unless the pointer is over the chart; `exact` has the second and the values there. */
  point(seconds: number, exact: readonly number[] = []): void {
    this.exact = this.hovered ? [] : exact;
    if (this.hovered || !this.plot) return;
    this.plot.setCursor({ left: this.plot.valToPos(seconds, "x"), top: 10 }, false);
    const { idx } = this.plot.cursor;
    if (exact.length > 0 && typeof idx === "number") this.plot.setLegend({ idx }, false);
  }

  private get size(): { width: number; height: number } {
    return { width: Math.max(160, this.root.clientWidth), height: this.height };
  }

  private build(names: readonly string[]): void {
    this.plot?.destroy();
    const plot = new uPlot(
      {
        title: this.title,
        ...this.size,
        padding: CHART_PADDING,
        series: [
          { label: "time", value: (_, value) => (value === null ? "" : `${(this.exact[0] ?? value).toFixed(1)} s`) },
          ...names.map((label, k) => ({
            ...this.styles[k % this.styles.length],
            label: label.replace(/_/g, " "),
            points: { show: false },
            value: (_: uPlot, value: number | null) =>
              value === null ? "" : String(Number((this.exact[k + 1] ?? value).toFixed(3))),
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
    // the chart's own cursor follows the match and may have moved
    plot.over.addEventListener("click", (event) =>
      this.jump(plot.posToVal(event.clientX - plot.over.getBoundingClientRect().left, "x")),
    );
    this.plot = plot;
  }
}
