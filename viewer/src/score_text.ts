// The score in words: the goal, who holds the zone and how long until that wins, points, living mechs, and the result.
// One rounding of points everywhere. Pure.

import { frameAt, scoreAt } from "./interpolate";
import type { Chunk } from "./data/replay";
import { type Header, MechFlag, type Outcome } from "./protocol.gen";
import type { MatchState } from "./state";
import { clockText, pointsText } from "./timeline";
import { SIDES, endingText } from "./text";

/** Who is in the zone: no mech, one team, or both. */
export type Hold = "none" | "blue" | "red" | "both";

const HOLDS: readonly Hold[] = ["none", "blue", "red", "both"];
const PER_SECOND = 1; // points of a team that is alone in the zone

/** Return the zone points that win. */
export const limitText = ({ score_to_win }: Header): string => Number(score_to_win.toFixed(1)).toString();

/** Return how a match is won, and how the zone gives points, as `zone_ticks` of the simulator counts them. */
export function goalText(header: Header): string {
  const contested = `in a contested zone each gains ${Number(header.config.contested_floor ?? 0.25)}`;
  const zone = `A team alone in the zone gains a point a second; ${contested}, the one with more tonnage up to 1.`;
  return `${goalLine(header)} ${zone}`;
}

export const goalLine = (header: Header) =>
  `First to ${limitText(header)} zone points or last team alive; most points at ${clockText(header.duration_s)}.`;

/** Return the time of a match, and its limits. */
export function clockLine(header: Header, tick: number, hasLimits: boolean): string {
  const limits = ` / ${clockText(header.duration_s)} · first to ${limitText(header)}`;
  return `${clockText(tick / header.tick_hz)}${hasLimits ? limits : ""}`;
}

export function holdAt(chunk: Chunk, tick: number): Hold {
  const { frame } = frameAt(chunk, tick);
  return HOLDS[(chunk.tonnage[frame * 2] > 0 ? 1 : 0) + (chunk.tonnage[frame * 2 + 1] > 0 ? 2 : 0)];
}

export function isOver({ index: { outcome, live, chunks } }: Pick<MatchState, "index">, tick: number): boolean {
  return outcome !== null && !live && outcome.winner >= 0 && tick >= (chunks.at(-1)?.[1] ?? 0) - 1;
}

/** Return who holds the zone, and in how many seconds that wins if the match is not over and there is time for it. */
export function zoneText(header: Header, chunk: Chunk, tick: number, over = false): string {
  const hold = holdAt(chunk, tick);
  if (hold === "none") return "Zone empty";
  if (hold === "both") return "Zone contested";
  const team = hold === "blue" ? 0 : 1;
  const seconds = (header.score_to_win - scoreAt(chunk, tick)[team]) / PER_SECOND;
  const left = header.duration_s - tick / header.tick_hz;
  const wins = !over && seconds > 0.05 && seconds <= left;
  return `${SIDES[team]} holds the zone${wins ? `: wins in ${Math.ceil(seconds - 0.05)} s` : ""}`;
}

/** Return how many mechs of each team live at the cursor. */
export function aliveCounts({ header, poses }: Pick<MatchState, "header" | "poses">): [number, number] {
  const counts: [number, number] = [0, 0];
  header.roster.forEach(({ team, present }, m) => {
    if (present && poses.flags[m] & MechFlag.ALIVE) counts[team]++;
  });
  return counts;
}

export function aliveText(alive: number, all: number): string {
  return all > 10 ? `${alive}/${all} alive` : `${alive} alive`;
}

const UNDECIDED = "Undecided";

export function outcomeText({ winner, reason }: Outcome): string {
  const text = winnerText(winner);
  return reason !== "" && text !== UNDECIDED ? `${text}: ${endingText(reason)}` : text;
}

export function winnerText(winner: number): string {
  return winner === 2 ? "Draw" : SIDES[winner] ? `${SIDES[winner]} wins` : UNDECIDED;
}

/** Return a result as headline and explanation, e.g. "Red wins: elimination at 0:34" and "zone 5.4 to 9.8, …". */
export function resultText({ tick_hz }: Header, outcome: Outcome): { headline: string; details: string } {
  const { winner, reason, ticks, score, alive, hp } = outcome;
  const byHealth = reason === "time_up" && SIDES[winner] !== undefined && pointsText(score[0]) === pointsText(score[1]);
  const parts = [
    `zone ${pointsText(score[0])} to ${pointsText(score[1])}`,
    ...(byHealth ? [`health ${Math.round(hp[0])} to ${Math.round(hp[1])}`] : []),
    `${alive[0]} to ${alive[1]} alive`,
  ];
  return { headline: `${outcomeText(outcome)} at ${clockText(ticks / tick_hz)}`, details: parts.join(", ") };
}
