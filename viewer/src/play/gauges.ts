// What the cockpit shows of the mech, in numbers and words. Pure.

import type { ContactRow, LiveMatch, Senses } from "./live_match";
import {
  CHASSIS_NAMES,
  type ChassisName,
  type Header,
  MechFlag,
  PLAY_HOLDS,
  type PlaySessionState,
  SUITES,
} from "../protocol.gen";
import type { Command } from "./bindings";
import { endingText, errorText, mechName } from "../text";

const MAX_STABILITY = 100;

export interface Gauge {
  readonly name: "Hull" | "Legs" | "Heat" | "Stability";
  readonly text: string;
  readonly share: number;
  readonly grave: boolean; // whether it needs attention
}

/** Return the class of a mech, null while it is unknown. */
export function chassisOf(header: Header, mech: number): ChassisName | null {
  const name = header.chassis[header.roster[mech]?.chassis]?.name;
  return CHASSIS_NAMES.find((known) => known === name) ?? null;
}

export function gauges({ match, pilot }: LiveMatch): Gauge[] {
  const { header, poses } = match;
  const spec = header.chassis[header.roster[pilot].chassis];
  const bar = (name: Gauge["name"], value: number, most: number, isGrave: (share: number) => boolean): Gauge => {
    const share = Math.max(0, value) / (most || 1);
    return { name, text: `${Math.round(Math.max(0, value))}`, share, grave: isGrave(share) };
  };
  return [
    bar("Hull", poses.hp[pilot], spec?.hp ?? 1, (share) => share < 0.3),
    bar("Legs", poses.legHp[pilot], spec?.leg_hp ?? 1, (share) => share < 0.3),
    bar("Heat", poses.heat[pilot], spec?.heat_cap ?? 1, (share) => share > 0.75),
    bar("Stability", poses.stability[pilot], MAX_STABILITY, (share) => share < 0.35),
  ];
}

export interface WeaponTile {
  readonly name: string;
  readonly trigger: Command | null; // null for weapons that fire by themselves
  readonly left: number; // time until it is ready [s]
  readonly share: number; // readiness, 1 when ready
}

const AMS_S = 1; // cooldown that is drawn as an empty bar [s]

/** Return the weapons of a mech with their cooldowns `ticks` by timer. */
export function weapons(header: Header, mech: number, ticks: ArrayLike<number>): WeaponTile[] {
  const name = chassisOf(header, mech);
  if (!name) return [];
  const { carries, ams, ewar } = SUITES[name];
  const timer = (of: string) => Math.max(0, ticks[header.cooldowns.indexOf(of)] ?? 0) / header.tick_hz;
  const found = carries.map(({ weapon, trigger, timer: of }): WeaponTile => {
    const whole = header.weapons.find((spec) => spec.name === weapon)?.cooldown_s || AMS_S;
    const left = timer(of);
    return { name: weapon, trigger: trigger as Command, left, share: 1 - Math.min(1, left / whole) };
  });
  if (ewar) found.push({ name: "ECM", trigger: "secondary", left: 0, share: 1 });
  if (ewar) found.push({ name: "ECCM", trigger: "eccm", left: 0, share: 1 });
  if (ams) found.push({ name: "AMS", trigger: null, left: timer("ams"), share: 1 - Math.min(1, timer("ams") / AMS_S) });
  return found;
}

const FREE = ["ballistic", "linear"]; // guidance of rounds that need no lock
const SHORT_S = 0.3; // rest of a cooldown that is no reason to show [s]

/** Return why held triggers do nothing, e.g. "laser: out of arc"; a weapon that is about to fire again has no line.
 * Rounds that fly without a lock are fired at any range. */
export function holdLines(
  tiles: readonly WeaponTile[],
  live: LiveMatch,
  isHeld: (trigger: Command) => boolean,
): string[] {
  const { header, pilot } = live.match;
  const nearest = pilot?.contacts.find(({ target }) => target) ?? pilot?.contacts[0];
  return tiles.flatMap(({ name, trigger, left }) => {
    const at = header.weapons.findIndex((weapon) => weapon.name === name);
    if (!trigger || !isHeld(trigger)) return [];
    const { range, damage, guidance } = header.weapons[at] ?? {};
    const isFree = damage > 0 && FREE.includes(guidance);
    const short = isFree && nearest && nearest.range > range ? `falls short, reaches ${Math.round(range)} vox` : "";
    const hold = PLAY_HOLDS[live.holds[at] ?? 0];
    const reason = short && (hold === "" || hold === "reloading") ? short : hold;
    return !reason || (reason === "reloading" && left < SHORT_S) ? [] : [`${name}: ${reason}`];
  });
}

const EDGE_VOX = 4; // distance from the map's edge at which a pilot is warned

/** Whether a mech at the edge of the map faces it. */
export function walksOut({ header, poses }: LiveMatch["match"], mech: number): boolean {
  const faces = (at: number, ahead: number, size: number) =>
    (ahead > 0 ? size - at : at) < EDGE_VOX && Math.abs(ahead) > 0.5;
  const [width, depth] = header.world.size;
  const yaw = poses.yaw[mech];
  return faces(poses.x[mech], Math.cos(yaw), width) || faces(poses.y[mech], Math.sin(yaw), depth);
}

const ON = 0.5; // from which a sense counts as on
const JAMMED = 0.05;
const STATES: readonly [MechFlag, string][] = [
  [MechFlag.FALLEN, "Knocked down"],
  [MechFlag.SHUTDOWN, "Overheated: shut down"],
  [MechFlag.LEGGED, "Legs destroyed"],
  [MechFlag.PAINTED, "Painted"],
  [MechFlag.VENT, "Venting"],
];

/** Return what the pilot is warned of, the most urgent first. */
export function warnings(flags: number, senses: Senses): string[] {
  const found = STATES.filter(([flag]) => flags & flag).map(([, text]) => text);
  if (senses.missile_inbound > 0) found.unshift("Missile inbound");
  if (senses.jam > JAMMED) found.push(`Jammed ${(100 * senses.jam).toFixed(0)} %`);
  if (senses.suppressed > ON || flags & MechFlag.SUPPRESSED) found.push("Suppressed");
  if (senses.under_fire > ON) found.push("Under fire");
  else if (senses.targeted > ON) found.push("Targeted");
  return found;
}

export function readings(header: Header, contact: ContactRow, range: number): [string, string][] {
  const share = (value: number) => (value < 0 ? "unknown" : `${(100 * value).toFixed(0)} %`);
  return [
    ["Class", chassisOf(header, contact.mech) ?? "unknown"],
    ["Range", `${range.toFixed(0)} vox`],
    ["Hull", share(contact.hull)],
    ["Heat", share(contact.heat)],
    ["Stability", share(contact.stability)],
    ["Certainty", share(contact.certainty)],
    ["Seen", contact.age < 0.1 ? "now" : `${contact.age.toFixed(1)} s ago`],
  ];
}

/** Return the direction of the last hit on the picture, clockwise from ahead [rad], null for none. */
export function hitDirection({ hit_ahead: ahead, hit_left: left }: Senses): number | null {
  return ahead === 0 && left === 0 ? null : Math.atan2(-left, ahead);
}

/** Return the direction of a point from the mech, clockwise from ahead [rad], and its distance [vox]. */
export function bearing({ match, pilot }: LiveMatch, x: number, y: number): { angle: number; distance: number } {
  const { poses } = match;
  const [dx, dy] = [x - poses.x[pilot], y - poses.y[pilot]];
  const angle = poses.yaw[pilot] - Math.atan2(dy, dx);
  return { angle: Math.atan2(Math.sin(angle), Math.cos(angle)), distance: Math.hypot(dx, dy) };
}

/** Return a result in words for the pilot of a team, e.g. "You won: zone held". */
export function resultLine(winner: string, reason: string, team: number): string {
  if (winner === "") return "The match was left";
  const result = winner === "draw" ? "Draw" : winner === SIDES[team] ? "You won" : "You lost";
  return `${result}: ${endingText(reason)}`;
}

export const SIDES = ["blue", "red"] as const;

/** Return the pilot's figures as rows, none without a recording. */
export function figureRows(figures: Record<string, number>): [string, string][] {
  const { kills, assists, damage, taken, shots, hits, zone_s: zone } = figures;
  if (kills === undefined) return [];
  const accuracy = shots > 0 ? `${Math.round((100 * hits) / shots)} % of ${shots} shots` : "no shots";
  return [
    ["Kills", `${kills}`],
    ["Assists", `${assists}`],
    ["Damage", `${Math.round(damage)}`],
    ["Damage taken", `${Math.round(taken)}`],
    ["Accuracy", accuracy],
    ["Time in the zone", `${Math.round(zone)} s`],
  ];
}

/** Return the name of a mech, "unknown" for one that the pilot does not know of. */
export function knownName(header: Header, mech: number): string {
  return mech < 0 ? "unknown" : mechName(header, mech);
}

export interface Halt {
  readonly title: string;
  readonly text: string;
}

/** Return what a match waits for, before its clock runs; null for one that runs. */
export function waitLine({ note, seats, phase }: PlaySessionState, count: number): Halt | null {
  if (note === "" || phase !== "playing") return null;
  const taken = seats.length;
  if (taken >= count) return { title: errorText(note), text: "" };
  const title = count - taken === 1 ? "Waiting for the other pilot" : `Waiting for ${count - taken} pilots`;
  return { title, text: `${taken} of ${count} seats are taken; the match begins when all are.` };
}
