// Settings that the browser remembers between visits. Unknown or invalid values are ignored.

import { type TierName, parseTier } from "./quality";
import type { ViewerState } from "./state";
import { parseFields, recall, remember } from "./storage";

export interface Settings {
  quality: TierName | null; // graphics tier, null for automatic
  sound: boolean;
  volume: number; // 0 to 1
  showMap: boolean;
  showBars: boolean;
  showLinks: boolean;
  showCutaways: boolean;
}

const SWITCHES = ["sound", "showMap", "showBars", "showLinks", "showCutaways"] as const;

export function parseSettings(text: string | null | undefined): Partial<Settings> {
  const { quality, volume, ...rest } = parseFields(text);
  const settings: Partial<Settings> = {};
  if (typeof quality === "string") settings.quality = parseTier(quality);
  if (typeof volume === "number" && volume >= 0 && volume <= 1) settings.volume = volume;
  for (const name of SWITCHES) if (typeof rest[name] === "boolean") settings[name] = rest[name];
  return settings;
}

export function settingsText(state: Settings): string {
  const { quality, sound, volume, showMap, showBars, showLinks, showCutaways } = state;
  return JSON.stringify({ quality, sound, volume, showMap, showBars, showLinks, showCutaways });
}

/** Keeps the settings of a state in the browser's storage. */
export class SettingsStore {
  private written = "";

  restore(state: ViewerState): void {
    Object.assign(state, parseSettings(recall("settings")));
    this.written = settingsText(state);
  }

  save(state: ViewerState): void {
    const text = settingsText(state);
    if (text === this.written) return;
    this.written = text;
    remember("settings", text);
  }
}
