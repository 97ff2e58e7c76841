// The legend of the ground overlay: what it shows, its colours with their values, and the choice of teams.

import * as heatMaps from "../data/heat";
import { TEAMS } from "../palette";
import type { Layer, MatchState, ViewerState } from "../state";
import { el, setText, textButton } from "./dom";

const LAYERS: Record<Exclude<Layer, "none">, { title: string; unit: string }> = {
  presence: { title: "Time spent within 1 voxel", unit: "s" },
  damage: { title: "Damage taken within 1 voxel", unit: "hp" },
  ways: { title: `Distance to zone (${heatMaps.BAND}-voxel bands)`, unit: "vox" },
};
const SIDE_LABELS: Record<heatMaps.HeatSide, string> = { teams: "By team", both: "Sum", blue: "Blue", red: "Red" };
const TICKS = [0, 0.5, 1]; // positions on the scale that are named

/** Return the ramps of the overlay with their names; one without a name is the whole scale up to `most`. */
function rampsOf(layer: Layer, side: heatMaps.HeatSide, most: number): [name: string, css: string][] {
  if (layer === "ways")
    return [["", heatMaps.gradient((place) => heatMaps.distanceColour(most, place * most), most / heatMaps.BAND)]];
  if (side !== "teams") return [["", heatMaps.gradient(heatMaps.heatColour)]];
  return [
    [TEAMS[0].label, heatMaps.gradient((place) => heatMaps.teamColour(0, place))],
    ["equal", heatMaps.gradient((place) => heatMaps.teamColour(0.5, place))],
    [TEAMS[1].label, heatMaps.gradient((place) => heatMaps.teamColour(1, place))],
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
    this.sides = heatMaps.HEAT_SIDES.map((side) =>
      textButton(SIDE_LABELS[side], () => (state.heatSide = side), "layer-side small"),
    );
    const group = { class: "layer-sides", attributes: { role: "group" }, aria: { label: "Teams" } };
    this.choice = el("div", group, this.sides);
    this.missing.style.setProperty("--swatch", `rgb(${heatMaps.NO_PATH.slice(0, 3).join(" ")})`);
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
    const most = heat ? heatMaps.heatMaximum(grids, heatSide) : heatMaps.distanceScale(world.size, zone);
    const { title, unit } = LAYERS[layer];
    setText(this.title, `${title}${share < 1 ? ` (${Math.floor(share * 100)} % read)` : ""}`);
    this.choice.hidden = !heat;
    this.missing.hidden = heat;
    this.sides.forEach((each, k) => each.setAttribute("aria-pressed", String(heatMaps.HEAT_SIDES[k] === heatSide)));
    this.ramps.replaceChildren(
      ...rampsOf(layer, heatSide, most).flatMap(([name, css]) => {
        const ramp = el("i", { class: "layer-ramp" });
        ramp.style.background = css;
        return name === "" ? [ramp] : [el("span", { text: name }), ramp];
      }),
    );
    this.ramps.classList.toggle("named", heat && heatSide === "teams");
    TICKS.forEach((place, k) => {
      const value = heat ? heatMaps.valueAt(most, place) : most * place;
      setText(this.ticks.children[k], `${heatMaps.scaleText(value)}${k === TICKS.length - 1 ? ` ${unit}` : ""}`);
    });
  }
}
