// The paged list of matches: live ones first, then newest first, by run. Pure.

import type { MatchSummary } from "../protocol.gen";

export const TICK_HZ = 20; // tick rate of summaries, which do not carry it

/** Return the matches of each run in the order of the list, branches below their parent by the tick of leaving it. */
export function byRun(matches: readonly MatchSummary[]): [run: string, matches: MatchSummary[]][] {
  const runs = new Map<string, Set<MatchSummary>>(matches.map(({ run }) => [run, new Set()]));
  const ids = new Set(matches.map(({ id }) => id));
  const branches = matches.filter(({ parent }) => parent && ids.has(parent.match));
  branches.sort((a, b) => a.parent!.tick - b.parent!.tick || a.created - b.created || a.file.localeCompare(b.file));
  const added = new Set<MatchSummary>();
  const add = (match: MatchSummary, run: string) => {
    if (added.has(match)) return;
    added.add(match);
    runs.get(run)?.add(match);
    for (const branch of branches) if (branch.parent?.match === match.id) add(branch, run);
  };
  for (const match of matches) if (!branches.includes(match)) add(match, match.run);
  for (const match of branches) add(match, match.run); // those that name each other
  return [...runs].map(([run, found]): [string, MatchSummary[]] => [run, [...found]]).filter(([, found]) => found[0]);
}

const CLOSE = 0.5; // largest margin of a close match

/** Return by how much a match was won: the lead in mechs alive and in points, each as a share of the most. */
function margin({ score: [s, t], alive: [m, n], mechs }: MatchSummary): number {
  return Math.abs(m - n) / mechs + Math.abs(s - t) / Math.max(1, s, t);
}

/** Return the match that was won by least, of equal ones the first; none where even that was not close. */
export function closest(matches: readonly MatchSummary[]): MatchSummary | undefined {
  return matches.filter((match) => margin(match) < CLOSE).sort((a, b) => margin(a) - margin(b))[0];
}

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
