// Charts of the whole match, drawn with uPlot from the index, so that they are complete before the chunks are loaded.

import uPlot from "uplot";
import { TEAMS } from "../palette";
import type { Series } from "../protocol.gen";
import { el } from "./dom";

/** Name of a pair of curves, one per team. */
export type CurveName = "score" | "hp" | "alive" | "damage";

const FONT = '11px "Inter Variable", system-ui, sans-serif';
const INK = "#a9b6c4";
const EMPTY_SERIES: Series = { second: [], score: [[], []], alive: [[], []], hp: [[], []], damage: [[], []] };
const GRID = { stroke: "rgba(160, 180, 200, 0.12)", width: 1 };

/** Return seconds and the values of both teams; damage is cumulative. */
function values(series: Series, name: CurveName): [number[], number[], number[]] {
  const sum = (list: readonly number[]) => {
    let total = 0;
    return list.map((value) => (total += value));
  };
  const [blue, red] = series[name];
  return name === "damage" ? [series.second, sum(blue), sum(red)] : [series.second, blue, red];
}

/** Return the axes of a chart: time as m:ss, and values. */
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

/** Return the line style of each team. */
function lines(style: Partial<uPlot.Series>, filled = false): uPlot.Series[] {
  return TEAMS.map((team, t) => ({
    label: team.label,
    stroke: team.css,
    width: 1.5,
    fill: filled ? `${team.css}26` : undefined,
    points: { show: false },
    dash: t === 1 ? RED_DASH : undefined,
    ...style,
  }));
}

/** The pairs of curves behind the scrub bar, each with its own scale. */
export const BACKDROP = [
  { name: "score", label: "score" },
  { name: "alive", label: "alive" },
] as const;

/** Return the data behind the scrub bar: seconds, then both teams' values of each pair. */
export function backdropData(series: Series): number[][] {
  return [series.second, ...BACKDROP.flatMap(({ name }) => series[name])];
}

/** Create the curves behind the scrub bar, without axes but with a legend; returns their update function. */
export function makeBackdrop(host: HTMLElement): (series: Series, seconds: number) => void {
  const upTo = (headroom: number) => ({
    range: (_: uPlot, _low: number, high: number): [number, number] => [0, Math.max(1, high) * headroom],
  });
  const plot = new uPlot(
    {
      width: 100,
      height: 40,
      padding: [2, 0, 0, 0],
      legend: { show: false },
      cursor: { show: false },
      axes: [{ show: false }, { show: false }],
      // the number of living mechs changes in steps
      series: [
        {},
        ...lines({ scale: "score" }, true),
        ...lines({ scale: "alive", width: 1, paths: uPlot.paths.stepped?.({ align: 1 }) }),
      ],
      scales: { x: { time: false }, score: upTo(1.08), alive: upTo(1.2) },
    },
    backdropData(EMPTY_SERIES) as uPlot.AlignedData,
    host,
  );
  host.append(
    el(
      "div",
      { class: "backdrop-key" },
      BACKDROP.map(({ name, label }) => el("span", { class: `key-${name}`, text: label })),
    ),
  );
  new ResizeObserver(() =>
    plot.setSize({ width: Math.max(10, host.clientWidth), height: Math.max(10, host.clientHeight) }),
  ).observe(host);
  return (series, seconds) => {
    plot.setData(backdropData(series) as uPlot.AlignedData, false);
    plot.setScale("x", { min: 0, max: Math.max(1, seconds) });
  };
}

/** A chart of one pair of curves; a click seeks to that second. */
export class Chart {
  private readonly plot: uPlot;

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
        padding: [6, 10, 0, 0],
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

  /** Draw the curves, with the cursor at a second. */
  update(series: Series, seconds: number): void {
    const data = values(series, this.name);
    if (this.plot.data[0] !== data[0] || this.plot.data[1].length !== data[1].length) this.plot.setData(data);
    this.plot.setCursor({ left: this.plot.valToPos(seconds, "x"), top: 10 }, false);
  }
}
