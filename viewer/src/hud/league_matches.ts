// List of league matches with its filters; loads further pages while scrolling. Unchanged rows keep their elements, so
// that updating a long list costs only its changes.

import { type OutcomeFilter, type LeagueFilter, outcomeOptions, sameFilter } from "../data/league";
import type { LeagueMatch, Standing } from "../protocol.gen";
import { leagueHash } from "../routes";
import type { LeagueState } from "../state";
import { clockText, pointsText } from "../timeline";
import { el, setText } from "./dom";
import { END_LABELS, entryName } from "../text";

const pointsOf = (points: number | null | undefined) => (typeof points === "number" ? pointsText(points) : "");

/** Actions of the list. */
export interface LeagueMatchActions {
  more(): void;
  setFilter(filter: LeagueFilter): void;
}

/** Return how a match ended, e.g. "elimination, 1:12". */
export function matchEndText(match: LeagueMatch): string {
  if (match.state === "void") return match.note || match.state;
  const length = match.seconds === null ? "" : `, ${clockText(match.seconds)}`;
  return `${END_LABELS[match.reason] ?? match.reason.replaceAll("_", " ")}${length}`;
}

/** Update a list's children to the given elements in order, touching only changes; the focus is kept. */
export function replaceChanged(list: Element, elements: readonly Element[]): void {
  const focused = document.activeElement;
  const current = new Set(elements);
  for (const child of [...list.children]) if (!current.has(child)) child.remove();
  let at = list.firstElementChild;
  for (const child of elements) {
    if (child === at) at = at.nextElementSibling;
    else list.insertBefore(child, at);
  }
  // moving an element removes its focus
  if (focused instanceof HTMLElement && focused !== document.activeElement && list.contains(focused))
    focused.focus({ preventScroll: true });
}

/** A rendered match and the selected entry it was rendered for. */
interface Row {
  match: LeagueMatch;
  entry: string;
  row: HTMLElement;
}

/** The list and its filters. */
export class LeagueMatchList {
  private readonly title = el("h3");
  private readonly count = el("span", { class: "list-count" });
  private readonly all = el("a", { class: "all", text: "all matches", attributes: { href: leagueHash({}) } });
  private readonly entry = el("select", { aria: { label: "Pilot" } });
  private readonly against = el("select", { aria: { label: "Against" } });
  private readonly outcome = el("select", { aria: { label: "Outcome" } });
  private readonly list = el("ul", { class: "match-rows" });
  private readonly none = el("p", { class: "small", text: "No league match fits the filter." });
  private readonly more = el("button", { class: "button more", text: "Show more", attributes: { type: "button" } });
  readonly root: HTMLElement;
  private rows = new Map<number, Row>();
  private drawn: readonly LeagueMatch[] | null = null;
  private filter: LeagueFilter | null = null; // filter of the rendered list

  constructor(actions: LeagueMatchActions) {
    this.more.addEventListener("click", () => actions.more());
    for (const select of [this.entry, this.against, this.outcome]) {
      select.addEventListener("change", () =>
        actions.setFilter({
          entry: this.entry.value,
          against: this.against.value,
          outcome: this.outcome.value as OutcomeFilter | "",
        }),
      );
    }
    this.root = el("section", { class: "league-matches", aria: { label: "Matches of the league" } }, [
      el("header", {}, [
        this.title,
        this.count,
        this.all,
        el("div", { class: "match-filters" }, [this.entry, this.against, this.outcome]),
      ]),
      this.list,
      this.none,
      this.more,
    ]);
    // load the next page when the end of the list comes into view
    const near = new IntersectionObserver((seen) => seen.some((one) => one.isIntersecting) && actions.more());
    this.watchEnd = () => {
      near.disconnect();
      near.observe(this.more);
    };
  }

  private readonly watchEnd: () => void;

  update({ filter, matches, total, ended }: LeagueState, standings: readonly Standing[]): void {
    const name = (id: string) => {
      const listed = standings.find((row) => row.id === id);
      return listed ? entryName(id, listed.name) : (nameIn(matches, id) ?? id);
    };
    const changed = this.filter !== null && !sameFilter(this.filter, filter);
    if (matches !== this.drawn || changed || this.filter === null) {
      this.show(matches, filter.entry);
      this.watchEnd();
    }
    this.fillMenus(filter, standings, name);
    const title =
      filter.entry === ""
        ? "Matches"
        : filter.against === ""
          ? `Matches of ${name(filter.entry)}`
          : `${name(filter.entry)} against ${name(filter.against)}`;
    setText(this.title, title);
    this.title.title = title;
    setText(this.count, total === null ? "loading…" : total === 0 ? "none" : `${matches.length} of ${total}`);
    this.all.hidden = leagueHash(filter) === leagueHash({});
    this.more.hidden = ended || matches.length === 0;
    this.none.hidden = total !== 0;
    // on narrow pages the list is far below the table that selects its filter
    if (
      changed &&
      !this.root.contains(document.activeElement) &&
      this.root.getBoundingClientRect().top > innerHeight * 0.7
    )
      this.root.scrollIntoView();
    if (changed) this.root.scrollTop = 0;
    [this.drawn, this.filter] = [matches, filter];
  }

  private show(matches: readonly LeagueMatch[], entry: string): void {
    const rows = new Map<number, Row>();
    for (const match of matches) {
      const known = this.rows.get(match.id);
      const unchanged =
        known?.entry === entry && (known.match === match || JSON.stringify(known.match) === JSON.stringify(match));
      rows.set(match.id, { match, entry, row: unchanged ? known.row : matchRow(match, entry) });
    }
    this.rows = rows;
    replaceChanged(
      this.list,
      [...rows.values()].map(({ row }) => row),
    );
  }

  /** Fill the filter menus; a selected entry is listed even if it has left the standings. */
  private fillMenus(
    { entry, against, outcome }: LeagueFilter,
    standings: readonly Standing[],
    name: (id: string) => string,
  ): void {
    const known = standings.map((row) => [row.id, entryName(row.id, row.name)] as const);
    const withSelected = (chosen: string) =>
      chosen === "" || known.some(([id]) => id === chosen) ? known : [...known, [chosen, name(chosen)] as const];
    fill(this.entry, "All pilots", withSelected(entry), entry);
    fill(
      this.against,
      "Any opponent",
      withSelected(against).filter(([id]) => id !== entry),
      against,
    );
    fill(this.outcome, "Any outcome", outcomeOptions(entry), outcome);
    this.against.hidden = entry === "";
  }
}

function nameIn(matches: readonly LeagueMatch[], id: string): string | undefined {
  const one = matches.find((match) => match.blue === id || match.red === id);
  return one && entryName(id, one.blue === id ? one.blue_name : one.red_name);
}

/** Update the options of a menu, after one for no filter. */
export function fill(
  select: HTMLSelectElement,
  none: string,
  options: readonly (readonly [string, string])[],
  chosen: string,
): void {
  const elements = [["", none] as const, ...options];
  const key = JSON.stringify(elements);
  if (select.dataset.options !== key) {
    select.replaceChildren(...elements.map(([value, text]) => el("option", { text, attributes: { value } })));
    select.dataset.options = key;
  }
  if (select.value !== chosen) select.value = chosen;
}

function matchRow(match: LeagueMatch, entry: string): HTMLElement {
  const nameOf = (team: "blue" | "red") => entryName(match[team], match[`${team}_name`]);
  const side = (team: "blue" | "red") =>
    el("span", { class: `card-team ${team}${match.winner === team ? " won" : ""}` }, [
      el("i", { class: "team-sign" }),
      el("a", {
        class: `card-name${match[team] === entry ? " own" : ""}`,
        text: nameOf(team),
        title: match[team],
        attributes: { href: leagueHash({ entry: match[team] }) },
      }),
      el("b", { text: pointsOf(match[`score_${team}`]), title: "zone points" }),
    ]);
  const end = match.winner === "draw" ? `draw, ${matchEndText(match)}` : matchEndText(match);
  return el("li", { class: "match-row" }, [
    el("div", { class: "card-teams" }, [side("blue"), side("red")]),
    el("div", { class: "match-facts" }, [
      match.match !== ""
        ? el("a", {
            class: "button watch",
            text: "Watch",
            attributes: { href: `#match=${match.match}` },
            aria: { label: `Watch ${nameOf("blue")} against ${nameOf("red")}` },
          })
        : el("span", { class: "small", text: "not recorded" }),
      el("span", { class: "small", text: `${end} · seed ${match.seed}` }),
    ]),
  ]);
}
