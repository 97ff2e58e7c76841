// Settings that the browser remembers between visits. Unknown or invalid values are ignored.

import { TEAM_COLOURS, TEAMS, useTeamColours } from "./palette";
import { parseTier } from "./quality";
import { SMOKE, type ViewerState, defaults } from "./state";
import { parseFields, recall, remember } from "./storage";

export const HUD_SCALES = [0.75, 1, 1.25, 1.5, 1.75, 2] as const;
/** Event of the window: the team colours have changed. */
export const RECOLOURED = "recoloured";
const LEAST_WIDTH = 1280; // of the page in units of the enlarged panels, so that they have room [CSS px]

const SWITCHES = ["sound", "showMap", "showBars", "showLinks", "showCutaways", "showNumbers", "showSpoilers"] as const;
export type SwitchName = (typeof SWITCHES)[number];

const isSwitch = (value: unknown): boolean => typeof value === "boolean";

/** Every setting, with whether a stored value is valid. */
const VALID = {
  quality: (value: unknown) => value === null || (typeof value === "string" && parseTier(value) !== null),
  volume: (value: unknown) => typeof value === "number" && value >= 0 && value <= 1,
  hudScale: (value: unknown) => HUD_SCALES.some((scale) => scale === value),
  smoke: (value: unknown) => typeof value === "string" && Object.hasOwn(SMOKE, value),
  teamColours: (value: unknown) => typeof value === "string" && Object.hasOwn(TEAM_COLOURS, value),
  ...(Object.fromEntries(SWITCHES.map((name) => [name, isSwitch])) as Record<SwitchName, typeof isSwitch>),
};

export type Settings = Pick<ViewerState, keyof typeof VALID>;
const NAMES = Object.keys(VALID) as (keyof Settings)[];

export function parseSettings(text: string | null | undefined): Partial<Settings> {
  const stored = parseFields(text);
  const valid = NAMES.filter((name) => name in stored && VALID[name](stored[name]));
  return Object.fromEntries(valid.map((name) => [name, stored[name]]));
}

export function settingsText(state: Settings): string {
  return JSON.stringify(state, NAMES);
}

export function resetSettings(state: ViewerState): void {
  Object.assign(state, parseSettings(settingsText(defaults())));
}

/** Return the scale of panels in a window: the chosen one, less where the window has no room for it. */
export function shownScale({ hudScale }: Settings, width: number): number {
  return Math.min(hudScale, Math.max(1, width / LEAST_WIDTH));
}

/** Keeps the settings of a state in the browser's storage, and gives the page its colours and the size of panels. */
export class SettingsStore {
  private written = "";

  restore(state: ViewerState): void {
    Object.assign(state, parseSettings(recall("settings")));
    this.written = settingsText(state);
  }

  /** Apply the settings to the page, and remember changed ones. */
  update(state: ViewerState): void {
    const { style } = document.documentElement;
    style.setProperty("--hud-scale", String(shownScale(state, window.innerWidth)));
    if (TEAMS[0].css !== TEAM_COLOURS[state.teamColours][0].css) {
      useTeamColours(state.teamColours, (name, css) => style.setProperty(name, css));
      window.dispatchEvent(new Event(RECOLOURED));
    }
    const text = settingsText(state);
    if (text === this.written) return;
    this.written = text;
    remember("settings", text);
  }
}
