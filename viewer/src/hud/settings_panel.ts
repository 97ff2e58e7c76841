// The settings dialog: graphics, sound with its volume, what the match page shows, fullscreen.

import { TIERS, TIER_NAMES, parseTier } from "../quality";
import type { ViewerState } from "../state";
import { ICONS, button, el, icon, setText } from "./dom";

const AUTO = "auto"; // value of the automatic tier

export const canFillScreen = (): boolean => document.fullscreenEnabled === true;

export function toggleFullscreen(): void {
  if (document.fullscreenElement) void document.exitFullscreen();
  else if (canFillScreen()) void document.documentElement.requestFullscreen().catch(() => undefined);
}

export class SettingsPanel {
  readonly root: HTMLElement;
  private readonly graphics = el("select", { attributes: { id: "setting-graphics" } }, [
    el("option", { text: "Automatic", attributes: { value: AUTO } }),
    ...TIER_NAMES.map((name) => el("option", { text: TIERS[name].label, attributes: { value: name } })),
  ]);
  private readonly current = el("span", { class: "setting-note" });
  private readonly volume = el("input", {
    aria: { label: "Volume" },
    attributes: { type: "range", min: "0", max: "1", step: "0.05" },
  });
  private readonly screen = el("button", {
    class: "button",
    attributes: { type: "button" },
    onclick: toggleFullscreen,
  });
  private readonly switches: readonly [HTMLInputElement, "sound" | "showMap" | "showBars" | "showLinks"][];

  /** `quality` returns the current graphics tier as text. */
  constructor(
    private readonly state: ViewerState,
    private readonly quality: () => string,
  ) {
    const box = () => el("input", { attributes: { type: "checkbox" } });
    this.switches = (["sound", "showMap", "showBars", "showLinks"] as const).map((name) => [box(), name]);
    for (const [input, name] of this.switches) input.addEventListener("change", () => (state[name] = input.checked));
    const row = (label: string, ...controls: HTMLElement[]) =>
      el("label", { class: "setting" }, [el("span", { text: label }), ...controls]);
    const [sound, map, plates, links] = this.switches.map(([input]) => input);
    this.graphics.addEventListener("change", () => (state.quality = parseTier(this.graphics.value)));
    this.volume.addEventListener("input", () => (state.volume = Number(this.volume.value)));
    this.screen.hidden = !canFillScreen();
    const properties = { class: "overlay panel settings", attributes: { role: "dialog" }, aria: { label: "Settings" } };
    this.root = el("section", properties, [
      el("header", {}, [
        el("h2", { text: "Settings" }),
        button("Close (Esc)", icon(ICONS.close), () => (state.showSettings = false)),
      ]),
      el("div", { class: "overlay-body" }, [
        row("Graphics", this.graphics, this.current),
        row("Sound", sound),
        row("Volume", this.volume),
        row("Minimap (I)", map),
        row("Nameplates (B)", plates),
        row("Sensor and targeting lines (X)", links),
        this.screen,
      ]),
    ]);
    this.root.hidden = true;
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
