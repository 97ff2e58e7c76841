// The settings dialog: graphics, team colours, size of panels, what the match page shows, sound, fullscreen.

import { TIERS, TIER_NAMES, parseTier } from "../quality";
import type { TeamColoursName } from "../palette";
import { HUD_SCALES, type SwitchName, resetSettings, shownScale } from "../settings";
import type { Smoke, ViewerState } from "../state";
import { checkbox, dialog, el, field, option, setText, textButton } from "./dom";

const AUTO = "auto"; // value of the automatic tier
const SMOKE_LABELS: Record<Smoke, string> = { on: "On", thin: "Thin", off: "Off" };
const COLOUR_LABELS: Record<TeamColoursName, string> = {
  standard: "Blue and vermilion",
  safe: "Blue and amber (colour-blind safe)",
  contrast: "Cyan and scarlet (high contrast)",
};
const SWITCHES: readonly (readonly [SwitchName, string])[] = [
  ["showMap", "Minimap (I)"],
  ["showBars", "Nameplates (B)"],
  ["showNumbers", "Damage numbers"],
  ["showLinks", "Sensor and targeting lines (X)"],
  ["showCutaways", "Cut away walls that hide a fight"],
  ["showSpoilers", "Results, heat maps, events ahead of the cursor"],
  ["sound", "Sound"],
];

function choice<T extends string>(labels: Record<T, string>, act: (value: T) => void): HTMLSelectElement {
  const values = Object.keys(labels) as T[];
  const select = el(
    "select",
    {},
    values.map((value) => option(value, labels[value])),
  );
  select.addEventListener("change", () => act(select.value as T));
  return select;
}

export const canFillScreen = (): boolean => document.fullscreenEnabled === true;

export function toggleFullscreen(): void {
  if (document.fullscreenElement) void document.exitFullscreen();
  else if (canFillScreen()) void document.documentElement.requestFullscreen().catch(() => undefined);
}

export class SettingsPanel {
  readonly root: HTMLElement;
  private readonly graphics = el("select", { attributes: { id: "setting-graphics" } }, [
    option(AUTO, "Automatic"),
    ...TIER_NAMES.map((name) => option(name, TIERS[name].label)),
  ]);
  private readonly current = el("span", { class: "small" });
  private readonly volume = el("input", {
    aria: { label: "Volume" },
    attributes: { type: "range", min: "0", max: "1", step: "0.05" },
  });
  private readonly screen = textButton("", toggleFullscreen, "button framed");
  private readonly smoke = choice(SMOKE_LABELS, (value) => (this.state.smoke = value));
  private readonly colours = choice(COLOUR_LABELS, (value) => (this.state.teamColours = value));
  private readonly scale = choice(
    Object.fromEntries(HUD_SCALES.map((scale) => [`x${scale}`, `${scale * 100} %`])),
    (value) => (this.state.hudScale = Number(value.slice(1))),
  );
  private readonly room = el("span", { class: "small" });
  private readonly switches = SWITCHES.map(([name, label]) => ({ name, label, input: checkbox() }));

  /** `quality` returns the current graphics tier as text. */
  constructor(
    private readonly state: ViewerState,
    private readonly quality: () => string,
  ) {
    for (const { input, name } of this.switches) input.addEventListener("change", () => (state[name] = input.checked));
    this.graphics.addEventListener("change", () => (state.quality = parseTier(this.graphics.value)));
    this.volume.addEventListener("input", () => (state.volume = Number(this.volume.value)));
    this.screen.hidden = !canFillScreen();
    this.root = dialog("settings", "Settings", () => (state.showSettings = false), [
      field("Graphics", this.graphics, this.current),
      field("Smoke", this.smoke),
      field("Team colours", this.colours),
      field("Size of panels", this.scale, this.room),
      ...this.switches.map(({ label, input }) => field(label, input)),
      field("Volume", this.volume),
      textButton("Reset to defaults", () => resetSettings(state), "button framed"),
      this.screen,
    ]);
  }

  update(): void {
    const { state } = this;
    this.root.hidden = !state.showSettings;
    if (this.root.hidden) return;
    this.graphics.value = state.quality ?? AUTO;
    setText(this.current, this.quality());
    this.volume.value = String(state.volume);
    this.volume.disabled = !state.sound;
    for (const { input, name } of this.switches) input.checked = state[name];
    this.smoke.value = state.smoke;
    this.colours.value = state.teamColours;
    this.scale.value = `x${state.hudScale}`;
    const shown = shownScale(state, window.innerWidth);
    setText(this.room, shown < state.hudScale ? `${Math.round(shown * 100)} % fits this window` : "");
    setText(this.screen, document.fullscreenElement ? "Leave fullscreen (\\)" : "Fullscreen (\\)");
  }
}
