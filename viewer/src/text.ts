// Texts of the panels: names of mechs and teams, events, states, results and errors. Pure.

import type { KillFact } from "./data/kill_facts";
import { emissionOf } from "./data/sensor_ranges";
import { isDamage } from "./data/store";
import { type WinPoint, causesOf } from "./data/winprob";
import { RANGE_STYLES } from "./palette";
import { EventKind, type Header, type MatchSummary, MechFlag, type WeaponEntry } from "./protocol.gen";
import { type Commanded, type MatchState, type ViewerState, inCatalogue } from "./state";
import { type Marker, clockText } from "./timeline";

/** Return the name of a mech, e.g. "B1"; -1 is a hazard. */
export function mechName(header: Header, mech: number): string {
  return header.roster[mech]?.name ?? "hazard";
}

export const SIDES = ["Blue", "Red"] as const;
const LEVEL_PREFIX = "heuristic:"; // of scripted levels in files
const HUMAN = "human"; // name of the pilots of seats
export const LOADING = "Loading match";
const JOINT = " and "; // between the names of a team's pilots

/** Return the name of a team from the header, "bot: medium" for a scripted level, else its colour. */
export function teamName({ teams, run }: Header, team: number): string {
  const { name = "", level = "" } = teams[team] ?? {};
  return nameOf(
    level
      ? name
      : name
          .split(JOINT)
          .map((pilot) => policyName(pilot, run))
          .join(JOINT),
    level,
    team,
  );
}

/** Return the one name of a policy (`policy_name` of echelon/runs.py): "update 345 of stormy-marten". */
export function policyName(name: string, run = ""): string {
  const [, league, update] = /^([\w-]+) u(\d+)$/.exec(name) ?? [];
  if (league) return `update ${update} of ${runLabel(league)}`;
  return run && /^update \d+$/.test(name) ? `${name} of ${runLabel(run)}` : runLabel(name);
}

/** Return the name of a team; one with a level names its humans too. */
function nameOf(name: string, level: string, team: number): string {
  const pilots = name.split(JOINT);
  if (!level) return name ? entryName(name, name) : SIDES[team];
  if (!pilots.includes(HUMAN)) return botName(level);
  return pilots.map((pilot) => (pilot === HUMAN ? HUMAN : botName(pilot))).join(JOINT);
}

function botName(level: string): string {
  return `bot: ${level.replace(LEVEL_PREFIX, "")}`;
}

/** Return the name of a league entry; scripted levels are named as such. */
export function entryName(id: string, name: string): string {
  return id.startsWith(LEVEL_PREFIX) ? botName(name) : name;
}

export function sideNames({ blue, red, levels = ["", ""] }: MatchSummary): [string, string] {
  const [first, second] = [blue, red].map((name, side) => nameOf(name, levels[side], side));
  return [first, second];
}

export const isHuman = (name: string) => /\bhuman\b/.test(name);

/** Whether a human flew a mech: one without a pilot's name in a team that has a human. */
export const isHumanMech = ({ pilots, roster, teams }: Header, mech: number) =>
  pilots?.names?.[mech] === "" && isHuman(teams[roster[mech].team].name);

/** Return the range of a weapon, e.g. " 30 vox", "" for one without. */
export const rangeText = (weapon?: WeaponEntry) => (weapon?.range ? ` ${Math.round(weapon.range)} vox` : "");

/** Return the name of a team, with its colour if both teams have the same name. */
export function sideName(header: Header, team: number): string {
  const name = teamName(header, team);
  return name === teamName(header, 1 - team) ? `${SIDES[team]} (${name})` : name;
}

/** Return a name as two narrow lines hold it: of a long one the beginning and the end. */
export function shortName(name: string): string {
  return name.length > 26 ? `${name.slice(0, 14)}…${name.slice(-11)}` : name;
}

/** Return the last two words of a run's id, as `short_run_id` of echelon/runs.py. */
export function runLabel(run: string): string {
  const words = run.split("-");
  return words.length >= 4 && /^\d+$/.test(words[0]) ? words.slice(-2).join("-") : run;
}

export function className(header: Header, mech: number): string {
  return header.chassis[header.roster[mech]?.chassis]?.name ?? "";
}

export function markerText(header: Header, marker: Marker): string {
  const [actor, target] = [mechName(header, marker.actor), mechName(header, marker.target)];
  switch (marker.kind) {
    case EventKind.KILL:
      return marker.actor < 0 ? `${target} was destroyed by a hazard` : `${actor} destroyed ${target}`;
    case EventKind.FALL:
      return `${actor} was knocked down`;
    case EventKind.SHUTDOWN:
      return `${actor} overheated`;
    default:
      return "";
  }
}

/** Return what a mech was destroyed with, e.g. "missile 62" or "laser 40, rear"; "" if unknown. */
export function killText({ weapons }: Header, fact: KillFact | null): string {
  const weapon = fact ? (weapons[fact.weapon]?.name ?? "") : "";
  if (!fact || weapon === "") return "";
  return `${weapon} ${Math.round(fact.damage)}${fact.rear ? ", rear" : ""}`;
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

export function conditionText(flags: number, hidden: boolean): string {
  return [...stateWords(flags), ...(hidden && flags & MechFlag.ALIVE ? ["in smoke"] : [])].join(" · ");
}

/** Return an error's message with a capital first letter. */
export function errorText(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** Return the current problem: of the last request, else of the chunk at the cursor; "" for none. */
export function problemText({ problem, match, lost }: ViewerState): string {
  const error = match?.store.failure(match.chunkNumber);
  // damage is named as long as the match is open, a lost server by its own message
  if (problem !== "" || !match || !error || isDamage(error) || lost) return problem;
  const [from, to] = match.index.chunks[match.chunkNumber].map((tick) => clockText(tick / match.header.tick_hz));
  return `Cannot load ${from}–${to}: ${errorText(error)}`;
}

/** Return what an incomplete picture waits for, with how much of it has arrived. */
export function loadingText({ chunk, chunkNumber, store, source, scenery }: MatchState): string {
  const failure = chunk ? undefined : store.failure(chunkNumber);
  if (failure) return isDamage(failure) ? "This moment is damaged" : "Waiting for the server";
  const { bytes, total } = source.received ?? { bytes: 0, total: 0 };
  if (scenery && store.loaded().length > 0) return chunk ? "Drawing the match" : LOADING;
  return total > 0 ? `${LOADING}: ${Math.floor((100 * bytes) / total)} % of ${Math.ceil(total / 1000)} kB` : LOADING;
}

/** Return what the loss of the server means for what is shown, "" while it responds. */
export function lostText({ lost, match, interrupted }: ViewerState): string {
  if (!lost || (match && !inCatalogue(match))) return "";
  if (interrupted) return "The server does not respond; playback has stopped.";
  if (match?.index.live) return "The server does not respond; the match may have gone on.";
  return match ? "The server does not respond; what has been loaded plays on." : "The server does not respond.";
}

/** Return how a match ended, in the words of `ending_text` of echelon/replay/match_text.py; "" for no end. */
export function endingText(reason: string): string {
  return reason === "zone_control" ? "zone held" : reason.replaceAll("_", " ");
}

/** Return a probability as text; 0 and 100 only if it is certain. */
export function percentText(p: number): string {
  return `${wholePercent(p)} %`;
}

function wholePercent(p: number): number {
  const percent = Math.round(Math.round(p * 1e5) / 1e3); // the server rounds to 5 digits, a file has more
  return p > 0 && p < 1 ? Math.max(1, Math.min(99, percent)) : percent;
}

/** Return the win probability of a team as text, from blue's; those of both teams add up to 100 %. */
export function chanceText(blue: number, team: number): string {
  return `${team === 0 ? wholePercent(blue) : 100 - wholePercent(blue)} %`;
}

export const MOST_CAUSES = 3;

/** Return a quantity of the win probability in words; "zone control" would be taken for the ending "zone held". */
export function groupText(group: string): string {
  return group === "zone control" ? "mechs in the zone" : group;
}

/** Return what moved blue's win probability from one point to another, e.g. "hit points +12 %, painted −3 %". */
export function causeText(from: WinPoint, to: WinPoint): string {
  return causesOf(from, to)
    .slice(0, MOST_CAUSES)
    .map(({ group, share }) => `${groupText(group)} ${share > 0 ? "+" : "−"}${Math.round(Math.abs(share) * 100)} %`)
    .join(", ");
}

/** Return the order that mechs have in common, "mixed" for several; both parts are "" for none. */
export function commonOrder(
  commanded: Commanded | undefined,
  mechs: readonly number[],
): { sign: string; text: string } {
  const found = mechs.map((mech) => commanded?.orders[mech] ?? { sign: "", text: "" });
  const [first = { sign: "", text: "" }] = found;
  return found.every(({ text }) => text === first.text) ? first : { sign: "≠", text: "mixed" };
}
