// Keeps what the page of the league shows: asked for anew from time to time, because what is rated gives no notice, and
// further matches a page at a time. An answer to a question that has been overtaken is dropped.

import { type Api, ApiError } from "./client";
import { type LeagueChoice, sameChoice, sensible, withNewest } from "./data/league";
import type { ViewerState } from "./state";

const PAGE = 100; // matches that are asked for at first
const MOST = 200; // that are asked for at once further down, and of the newest again: what was played since lies among them
const AGAIN_MS = 5000; // how often
const NOT_FOUND = 404;

/** Loads the league. */
export class LeagueSession {
  private asking = 0; // number of the newest question
  private paging = false; // whether a further page is on its way
  private failed = false; // whether the problem shown is the league's

  constructor(private readonly state: ViewerState, private readonly api: Api) {}

  /** Ask again from time to time while the page is open. */
  start(): void {
    window.setInterval(() => !document.hidden && this.state.page === "league" && void this.load(), AGAIN_MS);
  }

  /** Show the matches that are chosen. */
  async choose(choice: LeagueChoice): Promise<void> {
    const { league } = this.state;
    const wanted = sensible(choice);
    if (!sameChoice(wanted, league.choice)) Object.assign(league, { choice: wanted, bouts: [], total: null, ended: false });
    await this.load();
  }

  /** Load the matches below those that are known. */
  async more(): Promise<void> {
    const { league } = this.state;
    const { choice, bouts } = league;
    if (this.paging || league.ended || bouts.length === 0) return;
    this.paging = true;
    const page = await this.api.leagueMatches(choice, MOST, bouts[bouts.length - 1].id).catch(() => null);
    this.paging = false;
    if (!page || !sameChoice(choice, league.choice)) return;
    const last = league.bouts[league.bouts.length - 1]?.id ?? 0;
    const below = page.matches.filter((match) => match.id < last);
    Object.assign(league, { bouts: [...league.bouts, ...below], total: page.total, ended: page.matches.length < MOST });
  }

  private async load(): Promise<void> {
    const { state } = this;
    const { league } = state;
    const request = ++this.asking;
    const limit = Math.min(MOST, Math.max(PAGE, league.bouts.length));
    let found: Awaited<ReturnType<LeagueSession["ask"]>> | null = null;
    let problem = "";
    try {
      found = await this.ask(limit);
    } catch (error) {
      if (!(error instanceof ApiError && error.status === NOT_FOUND)) problem = error instanceof Error ? error.message : String(error);
    }
    if (request !== this.asking || state.page !== "league") return;
    league.loading = false;
    if (problem !== "" || this.failed) state.problem = problem;
    this.failed = problem !== "";
    if (problem !== "") return;
    if (!found) Object.assign(league, { view: null, pairs: null, bouts: [], total: null });
    if (!found) return;
    const { view, pairs, page } = found;
    if (page.matches.length < limit) league.ended = true;
    // what has not changed stays the same object, so that nothing is drawn anew
    Object.assign(league, {
      view: same(league.view, view), pairs: same(league.pairs, pairs),
      bouts: withNewest(league.bouts, page.matches, limit), total: page.total,
    });
  }

  private async ask(limit: number) {
    const { choice } = this.state.league;
    const [view, pairs, page] = await Promise.all([this.api.league(), this.api.leaguePairs(), this.api.leagueMatches(choice, limit)]);
    return { view, pairs, page };
  }
}

function same<T>(before: T, now: T): T {
  return JSON.stringify(before) === JSON.stringify(now) ? before : now;
}
