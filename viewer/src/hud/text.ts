// Texts of the panels: names of mechs and teams, events, states, results and errors. Pure.

import { emissionOf } from "../data/sensor_ranges";
import { RANGE_STYLES } from "../palette";
import { EventKind, type Header, MechFlag } from "../protocol.gen";
import type { ViewerState } from "../state";
import { type Marker, clockText } from "../timeline";

/** Return the name of a mech, e.g. "B1"; -1 is a hazard. */
export function mechName(header: Header, mech: number): string {
  return header.roster[mech]?.name ?? "hazard";
}

export const SIDES = ["Blue", "Red"] as const;
const LEVEL_PREFIX = "heuristic:"; // of scripted levels in files

/** Return the name of a team from the header, "bot: medium" for a scripted level, else its colour. */
export function teamName({ teams }: Header, team: number): string {
  const { name = "", level = "" } = teams[team] ?? {};
  return level ? `bot: ${level.replace(LEVEL_PREFIX, "")}` : name || SIDES[team];
}

/** Return the name of a team, with its colour if both teams have the same name. */
export function sideName(header: Header, team: number): string {
  const name = teamName(header, team);
  return name === teamName(header, 1 - team) ? `${SIDES[team]} (${name})` : name;
}

/** Return the name of a run without its leading timestamp, to save space. */
export function runLabel(run: string): string {
  return run.replace(/^\d{8}-\d{6}-(?=.)/, "");
}

/** Return the class of a mech, e.g. "heavy". */
export function className(header: Header, mech: number): string {
  return header.chassis[header.roster[mech]?.chassis]?.name ?? "";
}

/** Return a marked event as a sentence, e.g. "R2 destroyed B5". */
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

/** States of living mechs, most severe first. */
const STATES: readonly [MechFlag, string][] = [
  [MechFlag.FALLEN, "down"],
  [MechFlag.SHUTDOWN, "shut down"],
  [MechFlag.LEGGED, "leg destroyed"],
  [MechFlag.SUPPRESSED, "suppressed"],
  [MechFlag.PAINTED, "painted"],
  [MechFlag.VENT, "venting"],
];

/** Return the most severe state of a mech and what it emits. */
function stateWords(flags: number): string[] {
  if (!(flags & MechFlag.ALIVE)) return ["destroyed"];
  const grave = STATES.find(([flag]) => flags & flag)?.[1];
  const emits = emissionOf(flags);
  return [...(grave ? [grave] : []), ...(emits ? [RANGE_STYLES[emits].label] : [])];
}

/** Return the most important state of a mech, "" for none. */
export function stateText(flags: number): string {
  return stateWords(flags)[0] ?? "";
}

/** Return all states of a mech, with "in smoke" for a living one that is hidden in smoke. */
export function conditionText(flags: number, hidden: boolean): string {
  return [...stateWords(flags), ...(hidden && flags & MechFlag.ALIVE ? ["in smoke"] : [])].join(" · ");
}

/** Return an error's message with a capital first letter. */
export function errorText(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** Return the current problem: of the last request, else of the chunk at the cursor; "" for none. */
export function problemText({ problem, match }: ViewerState): string {
  const error = match?.store.failure(match.chunkNumber);
  if (problem !== "" || !match || !error) return problem;
  const [from, to] = match.index.chunks[match.chunkNumber].map((tick) => clockText(tick / match.header.tick_hz));
  return `Cannot load ${from}–${to}: ${errorText(error)}`;
}

/** Short texts of how matches end. */
export const END_LABELS: Record<string, string> = {
  zone_control: "zone held",
  elimination: "elimination",
  time_up: "time up",
  "": "",
};
