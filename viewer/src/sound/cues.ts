// What of a match is heard: one table of synthesised voices, and the cues of the events between two ticks as heard from
// the camera. Pure, without Web Audio.

import { type EventRows, firstAfter } from "../data/replay";
import { EventKind, type Header, type WeaponName } from "../protocol.gen";
import type { CameraState } from "../state";

/** A short synthesised sound; frequency and loudness fall exponentially. */
export interface Voice {
  readonly wave: OscillatorType | "noise"; // noise passes a low-pass filter of the frequencies
  readonly from: number; // frequency at its start [Hz]
  readonly to: number; // and at its end [Hz]
  readonly seconds: number;
  readonly gain: number; // loudness beside the camera, 0 to 1
}

export type VoiceName = WeaponName | "hit" | "burst" | "wreck" | "fall" | "shutdown" | "defence";

export const VOICES: Record<VoiceName, Voice> = {
  laser: { wave: "sawtooth", from: 1800, to: 380, seconds: 0.16, gain: 0.1 },
  flamer: { wave: "noise", from: 900, to: 300, seconds: 0.3, gain: 0.12 },
  missile: { wave: "noise", from: 2600, to: 500, seconds: 0.55, gain: 0.2 },
  gauss: { wave: "square", from: 220, to: 50, seconds: 0.28, gain: 0.22 },
  autocannon: { wave: "noise", from: 1500, to: 250, seconds: 0.12, gain: 0.24 },
  painter: { wave: "sine", from: 2200, to: 2600, seconds: 0.07, gain: 0.04 },
  smoke: { wave: "noise", from: 500, to: 200, seconds: 0.5, gain: 0.12 },
  hit: { wave: "noise", from: 3200, to: 700, seconds: 0.09, gain: 0.14 },
  burst: { wave: "noise", from: 700, to: 60, seconds: 0.7, gain: 0.35 },
  wreck: { wave: "noise", from: 420, to: 30, seconds: 1.8, gain: 0.7 },
  fall: { wave: "sine", from: 110, to: 32, seconds: 0.4, gain: 0.4 },
  shutdown: { wave: "triangle", from: 420, to: 40, seconds: 0.9, gain: 0.16 },
  defence: { wave: "square", from: 1400, to: 900, seconds: 0.06, gain: 0.08 },
};

/** A voice as heard at the camera. */
export interface Cue {
  readonly voice: VoiceName;
  readonly gain: number;
  readonly pan: number; // from -1, left, to 1, right
}

/** When a weapon is heard: as its rounds are launched, or as its beam hits. */
const HEARD: Record<WeaponName, "launch" | "hit"> = {
  laser: "hit",
  flamer: "hit",
  missile: "launch",
  gauss: "launch",
  autocannon: "launch",
  painter: "launch",
  smoke: "launch",
};
/** Voices of events; of those with a weapon, `weapon` is its name. */
const EVENT_VOICES: Partial<Record<EventKind, (weapon: WeaponName) => VoiceName>> = {
  [EventKind.LAUNCH]: (weapon) => weapon,
  [EventKind.HIT]: (weapon) => (HEARD[weapon] === "hit" ? weapon : "hit"),
  [EventKind.IMPACT]: () => "burst",
  [EventKind.KILL]: () => "wreck",
  [EventKind.FALL]: () => "fall",
  [EventKind.SHUTDOWN]: () => "shutdown",
  [EventKind.AMS]: () => "defence",
};
const NEAR = 30; // distance at which a sound has half its loudness [vox]
const FAINTEST = 0.004; // gain below which nothing is heard
const MOST = 6; // cues at once

/** Return position [vox] and azimuth of the direction to the right of a camera. */
function earsOf({ mode, target, azimuth, elevation, distance }: CameraState): { at: number[]; right: number } {
  const inside = mode === "free" || mode === "first";
  const flat = inside ? 0 : Math.cos(elevation) * distance;
  const up = inside ? 0 : Math.sin(elevation) * distance;
  const at = [target[0] + Math.cos(azimuth) * flat, target[1] + Math.sin(azimuth) * flat, target[2] + up];
  return { at, right: azimuth + (inside ? -Math.PI / 2 : Math.PI / 2) };
}

/** Return the loudest cues of the events after one tick and up to another. */
export function cuesBetween(
  events: EventRows,
  header: Pick<Header, "weapons">,
  from: number,
  to: number,
  camera: CameraState,
): Cue[] {
  const { at, right } = earsOf(camera);
  const cues: Cue[] = [];
  for (let i = firstAfter(events.tick, from); i < events.count && events.tick[i] <= to; i++) {
    const voice = EVENT_VOICES[events.kind[i] as EventKind]?.(header.weapons[events.weapon[i]]?.name as WeaponName);
    if (voice === undefined || !(voice in VOICES)) continue; // a weapon of another version
    const away = [events.x[i] - at[0], events.y[i] - at[1], events.z[i] - at[2]];
    const distance = Math.hypot(...away);
    const gain = VOICES[voice].gain / (1 + (distance / NEAR) ** 2);
    const side = distance > 0 ? (away[0] * Math.cos(right) + away[1] * Math.sin(right)) / distance : 0;
    if (gain >= FAINTEST) cues.push({ voice, gain, pan: side });
  }
  return cues.sort((a, b) => b.gain - a.gain).slice(0, MOST);
}
