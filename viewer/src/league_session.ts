// Loads the league page: polls standings and newest matches, and loads further pages of matches on request. Responses
// to outdated requests are dropped.

import type { Api } from "./client";
import { ApiError } from "./data/request";
import { type LeagueFilter, sameFilter, normalizeFilter, mergeNewest } from "./data/league";
import type { ViewerState } from "./state";

const PAGE = 100; // matches of the first request
const MOST = 200; // most matches per request, both of further pages and of a refresh of the newest
const POLL_MS = 5000;
const NOT_FOUND = 404;

/** Loads the league page. */
export class LeagueSession {
  private requests = 0; // number of the latest request
  private paging = false; // whether a further page is being loaded
  private failed = false; // whether the shown problem is the league's

  constructor(
    private readonly state: ViewerState,
    private readonly api: Api,
  ) {}

  /** Poll while the page is open. */
  start(): void {
    window.setInterval(() => !document.hidden && this.state.page === "league" && void this.load(), POLL_MS);
  }

  /** Set the filter of matches and load them. */
  async setFilter(filter: LeagueFilter): Promise<void> {
    const { league } = this.state;
    const normalized = normalizeFilter(filter);
    if (!sameFilter(normalized, league.filter))
      Object.assign(league, { filter: normalized, matches: [], total: null, ended: false });
    await this.load();
  }

  /** Load the next page of matches. */
  async more(): Promise<void> {
    const { league } = this.state;
    const { filter, matches } = league;
    if (this.paging || league.ended || matches.length === 0) return;
    this.paging = true;
    const page = await this.api.leagueMatches(filter, MOST, matches[matches.length - 1].id).catch(() => null);
    this.paging = false;
    if (!page || !sameFilter(filter, league.filter)) return;
    const last = league.matches[league.matches.length - 1]?.id ?? 0;
    const below = page.matches.filter((match) => match.id < last);
    Object.assign(league, {
      matches: [...league.matches, ...below],
      total: page.total,
      ended: page.matches.length < MOST,
    });
  }

  private async load(): Promise<void> {
    const { state } = this;
    const { league } = state;
    const request = ++this.requests;
    const limit = Math.min(MOST, Math.max(PAGE, league.matches.length));
    let loaded: Awaited<ReturnType<LeagueSession["fetch"]>> | null = null;
    let problem = "";
    try {
      loaded = await this.fetch(limit);
    } catch (error) {
      if (!(error instanceof ApiError && error.status === NOT_FOUND))
        problem = error instanceof Error ? error.message : String(error);
    }
    if (request !== this.requests || state.page !== "league") return;
    league.loading = false;
    if (problem !== "" || this.failed) state.problem = problem;
    this.failed = problem !== "";
    if (problem !== "") return;
    if (!loaded) Object.assign(league, { view: null, pairs: null, matches: [], total: null });
    if (!loaded) return;
    const { view, pairs, page } = loaded;
    if (page.matches.length < limit) league.ended = true;
    // unchanged parts stay the same objects, so that they are not rendered again
    Object.assign(league, {
      view: same(league.view, view),
      pairs: same(league.pairs, pairs),
      matches: mergeNewest(league.matches, page.matches, limit),
      total: page.total,
    });
  }

  private async fetch(limit: number) {
    const { filter } = this.state.league;
    const [view, pairs, page] = await Promise.all([
      this.api.league(),
      this.api.leaguePairs(),
      this.api.leagueMatches(filter, limit),
    ]);
    return { view, pairs, page };
  }
}

function same<T>(before: T, now: T): T {
  return JSON.stringify(before) === JSON.stringify(now) ? before : now;
}
