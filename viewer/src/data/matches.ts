// The list of matches as the server pages through it: live ones first, then the newest. Pure.

import type { MatchSummary } from "../protocol.gen";

/** A page of the list, and how many matches there are. */
export interface MatchPage {
  matches: readonly MatchSummary[];
  total: number;
}

/** Whether one match stands below another in the list. */
function below(one: MatchSummary, other: MatchSummary): boolean {
  if (one.live !== other.live) return other.live;
  return one.created === other.created ? one.id > other.id : one.created < other.created;
}

/**
 * What is known once the first page has been asked for again: it comes first, and below it stays what was known. A match
 * that was live and is not on the page any more has ended meanwhile. Where nothing has changed it is the same list.
 */
export function withFirst(known: readonly MatchSummary[], { matches, total }: MatchPage): readonly MatchSummary[] {
  const last = matches.at(-1);
  const told = new Set(matches.map((match) => match.id));
  const rest = last && matches.length < total ? known.filter((match) => !told.has(match.id) && below({ ...match, live: false }, last)) : [];
  // where more would be known than there are, some of those below are gone, and nobody says which
  const all = matches.length + rest.length > total ? matches : [...matches, ...rest];
  return all.length === known.length && JSON.stringify(known.slice(0, matches.length)) === JSON.stringify(matches) ? known : all;
}

/** What is known with a further page; what has begun since the pages before it were asked for has shifted it. */
export function withNext(known: readonly MatchSummary[], { matches }: MatchPage): readonly MatchSummary[] {
  const told = new Set(known.map((match) => match.id));
  return [...known, ...matches.filter((match) => !told.has(match.id))];
}
