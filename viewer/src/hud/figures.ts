// The figures of a mech as panels write them. Of a mech that the fog of war hides nothing is said but what the roster
// tells: its name, class and team. Pure.

import { inSmoke } from "../data/clouds";
import { isShown } from "../data/knowledge";
import { radarOf } from "../data/sensing";
import { frameAt } from "../interpolate";
import { MechFlag } from "../protocol.gen";
import type { MatchState } from "../state";
import { className, conditionText, mechName, sideName } from "./words";

const NOT_SEEN = "not seen";
const NOTHING = "–"; // of what is not known, or has no meaning any more
const STEADY = 100; // stability of a mech that stands firm
const LONGEST_TICKS = 80; // a timer at this much is drawn empty

export const GAUGES = ["Body", "Legs", "Heat", "Stability"] as const;

/** One gauge: how much of how much. */
export interface Figure {
  text: string;
  share: number;
}

/** The gauges of a mech, in order of GAUGES. */
export function figuresOf(match: MatchState, mech: number): Figure[] {
  const { header, poses } = match;
  const spec = header.chassis[header.roster[mech].chassis];
  const values = [
    [poses.hp[mech], spec?.hp], [poses.legHp[mech], spec?.leg_hp], [poses.heat[mech], spec?.heat_cap], [poses.stability[mech], STEADY],
  ] as const;
  const told = isShown(match, mech) && (poses.flags[mech] & MechFlag.ALIVE) !== 0;
  return values.map(([value, most]) => {
    const now = Math.max(0, value);
    return told ? { text: `${Math.round(now)} / ${Math.round(most ?? 0)}`, share: now / (most || 1) } : { text: NOTHING, share: 0 };
  });
}

/** A mech's row of the table: name, class, team, state, gauges, place. */
export function rowOf(match: MatchState, mech: number): string[] {
  const { header, poses } = match;
  const seen = isShown(match, mech);
  return [
    mechName(header, mech), className(header, mech), sideName(header, header.roster[mech].team),
    seen ? conditionText(poses.flags[mech], false) || "ready" : NOT_SEEN,
    ...figuresOf(match, mech).map(({ text }) => text),
    seen ? [poses.x, poses.y, poses.z].map((axis) => axis[mech].toFixed(0)).join(", ") : NOTHING,
  ];
}

/** What is said of the selected mech beside its gauges. */
export interface Report {
  state: string;
  timers: number[]; // how ready each of its weapons is, 1 fully; empty until the moment's chunk is here
  facts: string; // how fast it is, where, how far its radar sees, what it aims at
}

/** The report on a mech at a tick. */
export function reportOf(match: MatchState, mech: number, tick: number): Report {
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
  if (focus >= 0) facts.push(`aims at ${mechName(header, focus)}`);
  const count = header.cooldowns.length;
  const timers = Array.from(chunk.cooldown.subarray(at * count, (at + 1) * count), (left) => 1 - left / LONGEST_TICKS);
  return { state, timers, facts: facts.join(" · ") };
}
