// What the panels say: mechs by name, events in a sentence, results in words. Pure.

import { emissionOf } from "../data/sensing";
import { REACHES, WEAPONS } from "../palette";
import { EventKind, type Header, MechFlag, type Outcome, WEAPON_NAMES, type WeaponName } from "../protocol.gen";
import type { ViewerState } from "../state";
import type { Marker } from "../timeline";

/** Name of a mech, e.g. "B1"; what has none is a hazard. */
export function mechName(header: Header, mech: number): string {
  return header.roster[mech]?.name ?? "hazard";
}

const SIDES = ["Blue", "Red"];

/** Name of a team: what its header says, else its colour. */
export function teamName(header: Header, team: number): string {
  return header.teams[team]?.name || SIDES[team];
}

/** Name of a team where it stands alone: with its colour, if both teams have the same name. */
export function sideName(header: Header, team: number): string {
  const name = teamName(header, team);
  return name === teamName(header, 1 - team) ? `${SIDES[team]} (${name})` : name;
}

/** What a run is called without the time at which it began, which is all that would fit of it otherwise. */
export function runLabel(run: string): string {
  return run.replace(/^\d{8}-\d{6}-(?=.)/, "");
}

/** Class of a mech, e.g. "heavy". */
export function className(header: Header, mech: number): string {
  return header.chassis[header.roster[mech]?.chassis]?.name ?? "";
}

/** Label of a weapon, by its index. */
export function weaponLabel(header: Header, weapon: number): string {
  const name = header.weapons[weapon]?.name as WeaponName;
  return WEAPON_NAMES.includes(name) ? WEAPONS[name].label : "";
}

/** A marked event in a sentence, e.g. "R2 destroyed B5". */
export function markerText(header: Header, marker: Marker): string {
  const [who, whom] = [mechName(header, marker.who), mechName(header, marker.whom)];
  switch (marker.kind) {
    case EventKind.KILL:
      return marker.who < 0 ? `${whom} was destroyed by a hazard` : `${who} destroyed ${whom}`;
    case EventKind.FALL:
      return `${who} was knocked down`;
    case EventKind.SHUTDOWN:
      return `${who} overheated`;
    default:
      return "";
  }
}

/** States of the living, the gravest first. */
const STATES: readonly [MechFlag, string][] = [
  [MechFlag.FALLEN, "down"], [MechFlag.SHUTDOWN, "shut down"], [MechFlag.LEGGED, "legged"], [MechFlag.SUPPRESSED, "suppressed"],
  [MechFlag.PAINTED, "painted"], [MechFlag.VENT, "venting"],
];

/** The gravest of a mech's states and what it emits, as words. */
function stateWords(flags: number): string[] {
  if (!(flags & MechFlag.ALIVE)) return ["destroyed"];
  const grave = STATES.find(([flag]) => flags & flag)?.[1];
  const emits = emissionOf(flags);
  return [...(grave ? [grave] : []), ...(emits ? [REACHES[emits].label] : [])];
}

/** What state a mech is in, in a word. */
export function stateText(flags: number): string {
  return stateWords(flags)[0] ?? "";
}

/** The same, what it emits, and whether it stands in smoke; a wreck in smoke is but a wreck. */
export function conditionText(flags: number, hidden: boolean): string {
  return [...stateWords(flags), ...(hidden && flags & MechFlag.ALIVE ? ["in smoke"] : [])].join(" · ");
}

/** What went wrong, as a sentence begins. */
export function errorText(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** What is wrong: with what was asked for, else with the chunk under the cursor; "" for nothing. */
export function problemText({ problem, match }: ViewerState): string {
  const lost = match?.store.failure(match.chunkNumber);
  return problem === "" && lost ? `Chunk ${match?.chunkNumber} cannot be shown: ${errorText(lost)}` : problem;
}

/** How a match ended, in a word or two. */
export const ENDS: Record<string, string> = { zone_control: "zone held", elimination: "elimination", time_up: "time up", "": "" };

const REASONS: Record<string, string> = {
  zone_control: "by holding the zone",
  elimination: "by elimination",
  time_up: "on time",
};

/** A result in words: a headline and how it came about. */
export function outcomeText(header: Header, outcome: Outcome): { headline: string; reason: string } {
  const reason = REASONS[outcome.reason] ?? "";
  if (outcome.winner === 0 || outcome.winner === 1) return { headline: `${sideName(header, outcome.winner)} wins`, reason };
  return { headline: outcome.winner === 2 ? "Draw" : "Undecided", reason: outcome.winner === 2 ? reason : "" };
}
