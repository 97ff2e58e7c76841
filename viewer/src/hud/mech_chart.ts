// A chart of values of one mech over the whole match, synchronised with the cursor.

import uPlot from "uplot";
import { CHART_PADDING, chartAxes, jumpOnClick } from "./charts";
import { el } from "./dom";

// none is the colour of a team
export const COLOURS = ["#9fe6c0", "#ffd166", "#d59bff", "#f4a6d7", "#b7d968", "#e9eff6", "#5fc9b5", "#a9957a"];
const HEIGHT = 118; // height of a chart [CSS px]

/** A chart of a mech over the match: a click seeks, and its legend shows the values at the cursor or pointer. */
export class MechChart {
  readonly root = el("div", { class: "chart" });
  private plot: uPlot | null = null;
  private shown = "";
  hovered = false; // whether the pointer is over it

  constructor(
    readonly title: string,
    private readonly text: (value: number) => string, // a value in the legend
    private readonly jump: (seconds: number) => void,
    private readonly height = HEIGHT, // [CSS px]
  ) {
    this.root.setAttribute("aria-label", title);
    for (const [name, inside] of [
      ["pointerenter", true],
      ["pointerleave", false],
    ] as const)
      this.root.addEventListener(name, () => (this.hovered = inside));
    new ResizeObserver(() => this.plot?.setSize(this.size)).observe(this.root);
  }

  /** Draw named lines over their times, with the whole match across; none leaves no chart. */
  draw(seconds: ArrayLike<number>, lines: readonly (readonly [string, ArrayLike<number>])[], end: number): void {
    this.root.hidden = lines.length === 0;
    if (lines.length === 0) return;
    const names = lines.map(([name]) => name);
    if (this.shown !== names.join()) this.build(names);
    this.shown = names.join();
    this.plot?.setData([seconds, ...lines.map(([, values]) => values)] as uPlot.AlignedData);
    this.plot?.setScale("x", { min: 0, max: Math.max(1, end) });
  }

  point(seconds: number): void {
    if (this.plot) this.plot.setCursor({ left: this.plot.valToPos(seconds, "x"), top: 10 }, false);
  }

  private get size(): { width: number; height: number } {
    return { width: Math.max(200, this.root.clientWidth), height: this.height };
  }

  private build(names: readonly string[]): void {
    this.plot?.destroy();
    const plot = new uPlot(
      {
        title: this.title,
        ...this.size,
        padding: CHART_PADDING,
        series: [
          { label: "time", value: (_, value) => (value === null ? "" : `${value.toFixed(1)} s`) },
          ...names.map((label, k) => ({
            label: label.replace(/_/g, " "),
            stroke: COLOURS[k % COLOURS.length],
            width: 1.4,
            points: { show: false },
            value: (_: uPlot, value: number | null) => (value === null ? "" : this.text(value)),
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
