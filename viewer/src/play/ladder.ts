// The ladder of opponents, weakest first, and how far this browser's pilot has climbed it.

import { recall, remember } from "../storage";

export const LADDER = ["trivial", "easy", "medium", "hard", "expert", "champion"] as const;
/** Team mates with which the first opponents are easier to beat than the last (measured: docs/play.md). */
const MATES: Record<(typeof LADDER)[number], string> = {
  trivial: "easy",
  easy: "easy",
  medium: "medium",
  hard: "medium",
  expert: "hard",
  champion: "expert",
};

/** Return the pilots of the team mates against an opponent, "" for the opponent's own. */
export function matesAgainst(opponent: string): string {
  return MATES[opponent as keyof typeof MATES] ?? "";
}

/** Return the number of opponents in a row from the first that were beaten. */
export function climbed(): number {
  const found = Number(recall("ladder"));
  return Number.isInteger(found) && found > 0 ? Math.min(found, LADDER.length) : 0;
}

/** Remember a match against an opponent that was won. */
export function climb(opponent: string): void {
  const rung = LADDER.findIndex((name) => name === opponent) + 1;
  if (rung > climbed()) remember("ladder", String(rung));
}

/** Return the opponent after a match: the next one of the ladder after a win, else null. */
export function nextOpponent(opponent: string, won: boolean): string | null {
  const rung = LADDER.findIndex((name) => name === opponent);
  return won && rung >= 0 ? (LADDER[rung + 1] ?? null) : null;
}
