// The settings dialog: graphics, sound with its volume, what the match page shows, fullscreen.

import { TIERS, TIER_NAMES, parseTier } from "../quality";
import type { ViewerState } from "../state";
import { checkbox, dialog, el, field, option, setText, textButton } from "./dom";

const AUTO = "auto"; // value of the automatic tier

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
  private readonly switches: readonly [
    HTMLInputElement,
    "sound" | "showMap" | "showBars" | "showLinks" | "showCutaways",
  ][];

  /** `quality` returns the current graphics tier as text. */
  constructor(
    private readonly state: ViewerState,
    private readonly quality: () => string,
  ) {
    this.switches = (["sound", "showMap", "showBars", "showLinks", "showCutaways"] as const).map((name) => [
      checkbox(),
      name,
    ]);
    for (const [input, name] of this.switches) input.addEventListener("change", () => (state[name] = input.checked));
    const [sound, map, plates, links, cutaways] = this.switches.map(([input]) => input);
    this.graphics.addEventListener("change", () => (state.quality = parseTier(this.graphics.value)));
    this.volume.addEventListener("input", () => (state.volume = Number(this.volume.value)));
    this.screen.hidden = !canFillScreen();
    this.root = dialog("settings", "Settings", () => (state.showSettings = false), [
      field("Graphics", this.graphics, this.current),
      field("Sound", sound),
      field("Volume", this.volume),
      field("Minimap (I)", map),
      field("Nameplates (B)", plates),
      field("Sensor and targeting lines (X)", links),
      field("Cut away walls that hide a fight", cutaways),
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
    for (const [input, name] of this.switches) input.checked = state[name];
    setText(this.screen, document.fullscreenElement ? "Leave fullscreen (\\)" : "Fullscreen (\\)");
  }
}
