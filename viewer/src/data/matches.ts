// The paged list of matches: live ones first, then newest first. Pure.

import type { MatchSummary } from "../protocol.gen";

export interface MatchPage {
  matches: readonly MatchSummary[];
  total: number;
}

function below(one: MatchSummary, other: MatchSummary): boolean {
  if (one.live !== other.live) return other.live;
  return one.created === other.created ? one.id > other.id : one.created < other.created;
}

/**
 * Merge a refreshed first page into the known list: it comes first, known matches below it follow. A live match missing
 * from the page has ended. Returns the same list if nothing changed.
 */
export function mergeFirstPage(known: readonly MatchSummary[], { matches, total }: MatchPage): readonly MatchSummary[] {
  const last = matches.at(-1);
  const listed = new Set(matches.map((match) => match.id));
  const rest =
    last && matches.length < total
      ? known.filter((match) => !listed.has(match.id) && below({ ...match, live: false }, last))
      : [];
  // with more matches than the total, unknown ones below the page were deleted: drop them all
  const all = matches.length + rest.length > total ? matches : [...matches, ...rest];
  return all.length === known.length && JSON.stringify(known.slice(0, matches.length)) === JSON.stringify(matches)
    ? known
    : all;
}

/** Append a further page; matches that new ones have shifted onto it are not repeated. */
export function appendPage(known: readonly MatchSummary[], { matches }: MatchPage): readonly MatchSummary[] {
  const listed = new Set(known.map((match) => match.id));
  return [...known, ...matches.filter((match) => !listed.has(match.id))];
}
