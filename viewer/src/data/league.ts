// Filters and pages of league matches. Pure.

import type { LeagueMatch } from "../protocol.gen";

/** Result of a match for the selected entry, or by side without one. */
export type OutcomeFilter = "won" | "lost" | "blue" | "red" | "draw" | "void";

/** Filter of league matches. */
export interface LeagueFilter {
  entry: string; // id of an entry, "" for all
  against: string; // id of its opponent, "" for any
  outcome: OutcomeFilter | ""; // result, "" for any
}

export const ALL_MATCHES: LeagueFilter = { entry: "", against: "", outcome: "" };

/** Return the outcomes that a filter can select, with their labels. */
export function outcomeOptions(entry: string): readonly (readonly [OutcomeFilter, string])[] {
  const sides =
    entry === ""
      ? ([
          ["blue", "Blue won"],
          ["red", "Red won"],
        ] as const)
      : ([
          ["won", "Won"],
          ["lost", "Lost"],
        ] as const);
  return [...sides, ["draw", "Drawn"], ["void", "Not played"]];
}

/** Return a consistent filter: without an entry there is no opponent, and the outcome fits the entry or the sides. */
export function normalizeFilter({ entry, against, outcome }: LeagueFilter): LeagueFilter {
  const known = outcomeOptions(entry).some(([name]) => name === outcome);
  return { entry, against: entry === "" ? "" : against, outcome: known ? outcome : "" };
}

/** Return whether two filters are equal. */
export function sameFilter(one: LeagueFilter, other: LeagueFilter): boolean {
  return one.entry === other.entry && one.against === other.against && one.outcome === other.outcome;
}

/**
 * Merge the newest matches, at most `limit`, into the known list: they come first, older known ones follow. Returns the
 * same list if nothing changed.
 */
export function mergeNewest(
  known: readonly LeagueMatch[],
  newest: readonly LeagueMatch[],
  limit: number,
): readonly LeagueMatch[] {
  const whole = newest.length < limit;
  if (
    (!whole || known.length === newest.length) &&
    JSON.stringify(known.slice(0, newest.length)) === JSON.stringify(newest)
  )
    return known;
  if (whole) return newest;
  const last = newest[newest.length - 1].id;
  return [...newest, ...known.filter((match) => match.id < last)];
}
