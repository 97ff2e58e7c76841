// The league as the server tells it beyond its standings: pages of matches and who beats whom; which of these are asked
// for; and how pages become one list. Pure.

import type { LeagueMatch } from "../protocol.gen";

/** How a match ended, for the chosen entry, or for its sides where none is chosen. */
export type BoutOutcome = "won" | "lost" | "blue" | "red" | "draw" | "void";

/** Which matches of the league are shown. */
export interface LeagueChoice {
  entry: string; // whose, "" for all
  against: string; // only those of the entry against this one, "" for any
  outcome: BoutOutcome | ""; // only those that ended so, "" for any
}

export const EVERY_BOUT: LeagueChoice = { entry: "", against: "", outcome: "" };

/** The outcomes that there are to choose from, with their words. */
export function outcomesFor(entry: string): readonly (readonly [BoutOutcome, string])[] {
  const sides = entry === "" ? ([["blue", "Blue won"], ["red", "Red won"]] as const) : ([["won", "Won"], ["lost", "Lost"]] as const);
  return [...sides, ["draw", "Drawn"], ["void", "Not played"]];
}

/** A choice that makes sense: nobody is against nobody, and outcomes are those of an entry or of the sides. */
export function sensible({ entry, against, outcome }: LeagueChoice): LeagueChoice {
  const known = outcomesFor(entry).some(([name]) => name === outcome);
  return { entry, against: entry === "" ? "" : against, outcome: known ? outcome : "" };
}

/** Whether two choices are the same. */
export function sameChoice(one: LeagueChoice, other: LeagueChoice): boolean {
  return one.entry === other.entry && one.against === other.against && one.outcome === other.outcome;
}

/**
 * What is known once the newest matches, at most `limit`, have been asked for again: they come first, and below them
 * stays what was known. Where nothing has changed it is the same list.
 */
export function withNewest(known: readonly LeagueMatch[], newest: readonly LeagueMatch[], limit: number): readonly LeagueMatch[] {
  const whole = newest.length < limit;
  if ((!whole || known.length === newest.length) && JSON.stringify(known.slice(0, newest.length)) === JSON.stringify(newest)) return known;
  if (whole) return newest;
  const last = newest[newest.length - 1].id;
  return [...newest, ...known.filter((match) => match.id < last)];
}
