// The legend of the ground overlay: what it shows, its colours with their values, and the choice of teams.

import {
  BAND,
  HEAT_SIDES,
  type HeatSide,
  NO_PATH,
  distanceColour,
  distanceScale,
  gradient,
  heatColour,
  heatMaximum,
  scaleText,
  teamColour,
  valueAt,
} from "../data/heat";
import { TEAMS } from "../palette";
import type { Layer, MatchState, ViewerState } from "../state";
import { el, setText, textButton } from "./dom";

const LAYERS: Record<Exclude<Layer, "none">, { title: string; unit: string }> = {
  presence: { title: "Time spent within 1 voxel", unit: "s" },
  damage: { title: "Damage taken within 1 voxel", unit: "hp" },
  ways: { title: `Distance to zone (${BAND}-voxel bands)`, unit: "vox" },
};
const SIDE_LABELS: Record<HeatSide, string> = { teams: "By team", both: "Sum", blue: "Blue", red: "Red" };
const TICKS = [0, 0.5, 1]; // positions on the scale that are named

/** Return the ramps of the overlay with their names; one without a name is the whole scale up to `most`. */
function rampsOf(layer: Layer, side: HeatSide, most: number): [name: string, css: string][] {
  if (layer === "ways") return [["", gradient((place) => distanceColour(most, place * most), most / BAND)]];
  if (side !== "teams") return [["", gradient(heatColour)]];
  return [
    [TEAMS[0].label, gradient((place) => teamColour(0, place))],
    ["equal", gradient((place) => teamColour(0.5, place))],
    [TEAMS[1].label, gradient((place) => teamColour(1, place))],
  ];
}

export class LayerLegend {
  private readonly title = el("span", { class: "layer-title" });
  private readonly ramps = el("div", { class: "layer-ramps" });
  private readonly ticks = el(
    "div",
    { class: "layer-ticks tiny" },
    TICKS.map(() => el("span")),
  );
  private readonly missing = el("span", { class: "layer-missing tiny", text: "no path" });
  private readonly sides: readonly HTMLElement[];
  private readonly choice: HTMLElement;
  readonly root: HTMLElement;
  private drawn = "";

  constructor(state: ViewerState) {
    this.sides = HEAT_SIDES.map((side) =>
      textButton(SIDE_LABELS[side], () => (state.heatSide = side), "layer-side small"),
    );
    const group = { class: "layer-sides", attributes: { role: "group" }, aria: { label: "Teams" } };
    this.choice = el("div", group, this.sides);
    this.missing.style.setProperty("--swatch", `rgb(${NO_PATH.slice(0, 3).join(" ")})`);
    this.root = el("section", { class: "layer-legend panel", aria: { label: "Ground overlay" } }, [
      el("header", {}, [this.title, this.choice]),
      el("div", { class: "layer-scale" }, [this.ramps, this.ticks]),
      this.missing,
    ]);
  }

  update({ layer, heatSide, fog }: ViewerState, match: MatchState): void {
    this.root.hidden = layer === "none" || fog !== "none";
    if (layer === "none" || this.root.hidden) return;
    const { scan } = match;
    const heat = layer !== "ways";
    const share = heat ? scan.gridShare(match.index.chunks.length) : 1;
    const key = [match.id, layer, heatSide, scan.version, share, TEAMS[0].css].join(" ");
    if (key === this.drawn) return;
    this.drawn = key;
    const { world, zone } = match.header;
    const grids = layer === "presence" ? scan.presence : scan.damage;
    const most = heat ? heatMaximum(grids, heatSide) : distanceScale(world.size, zone);
    const { title, unit } = LAYERS[layer];
    setText(this.title, `${title}${share < 1 ? ` (${Math.floor(share * 100)} % read)` : ""}`);
    this.choice.hidden = !heat;
    this.missing.hidden = heat;
    this.sides.forEach((each, k) => each.setAttribute("aria-pressed", String(HEAT_SIDES[k] === heatSide)));
    this.ramps.replaceChildren(
      ...rampsOf(layer, heatSide, most).flatMap(([name, css]) => {
        const ramp = el("i", { class: "layer-ramp" });
        ramp.style.background = css;
        return name === "" ? [ramp] : [el("span", { text: name }), ramp];
      }),
    );
    this.ramps.classList.toggle("named", heat && heatSide === "teams");
    TICKS.forEach((place, k) => {
      const value = heat ? valueAt(most, place) : most * place;
      setText(this.ticks.children[k], `${scaleText(value)}${k === TICKS.length - 1 ? ` ${unit}` : ""}`);
    });
  }
}
