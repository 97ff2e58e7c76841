// Values of a mech as panels show them. For a mech hidden by the fog of war, only name, class and team of the roster
// are given. Pure.

import { inSmoke } from "../data/clouds";
import { isShown } from "../data/fog_of_war";
import { radarOf } from "../data/sensor_ranges";
import { frameAt } from "../interpolate";
import { MechFlag } from "../protocol.gen";
import type { MatchState } from "../state";
import { conditionText, mechName } from "../text";

const NOT_SEEN = "not seen";
export const NOTHING = "–"; // unknown or meaningless value
const MAX_STABILITY = 100;
const LONGEST_TICKS = 80; // cooldown that is drawn as an empty bar [ticks]

export const GAUGES = ["Health", "Legs", "Heat", "Stability"] as const;

export interface GaugeValue {
  text: string;
  share: number;
}

export function gaugesOf(match: MatchState, mech: number): GaugeValue[] {
  const { header, poses } = match;
  const spec = header.chassis[header.roster[mech].chassis];
  const values = [
    [poses.hp[mech], spec?.hp],
    [poses.legHp[mech], spec?.leg_hp],
    [poses.heat[mech], spec?.heat_cap],
    [poses.stability[mech], MAX_STABILITY],
  ] as const;
  const visible = isShown(match, mech) && (poses.flags[mech] & MechFlag.ALIVE) !== 0;
  return values.map(([value, most]) => {
    const now = Math.max(0, value);
    return visible
      ? { text: `${Math.round(now)} / ${Math.round(most ?? 0)}`, share: now / (most || 1) }
      : { text: NOTHING, share: 0 };
  });
}

/** Return the state of a mech as the scoreboard lists it. */
export function stateOf(match: MatchState, mech: number): string {
  return isShown(match, mech) ? conditionText(match.poses.flags[mech], false) || "ready" : NOT_SEEN;
}

export interface MechReport {
  state: string;
  timers: number[]; // readiness of each weapon, 1 when ready; empty until the chunk has arrived
  facts: string; // speed, position, radar range and target
}

export function mechReport(match: MatchState, mech: number, tick: number): MechReport {
  const { header, poses, chunk } = match;
  if (!isShown(match, mech)) return { state: NOT_SEEN, timers: header.cooldowns.map(() => 0), facts: "" };
  const hidden = chunk !== null && inSmoke(chunk, header, tick, poses.x[mech], poses.y[mech], poses.z[mech]);
  const state = conditionText(poses.flags[mech], hidden);
  const radar = radarOf(header, poses, mech);
  const facts = [`${poses.speed[mech].toFixed(1)} vox/s`, `${poses.x[mech].toFixed(0)}, ${poses.y[mech].toFixed(0)}`];
  if (radar !== null) facts.push(`radar ${radar.toFixed(0)} vox`);
  if (!chunk) return { state, timers: [], facts: facts.join(" · ") };
  const at = frameAt(chunk, tick).frame * chunk.mechs + mech;
  const focus = chunk.mech.focus[at];
  if (focus >= 0) facts.push(`target ${mechName(header, focus)}`);
  const count = header.cooldowns.length;
  const timers = Array.from(chunk.cooldown.subarray(at * count, (at + 1) * count), (left) => 1 - left / LONGEST_TICKS);
  return { state, timers, facts: facts.join(" · ") };
}
