// The matches of the league: who is chosen, and a list that loads further down as one comes there. Rows that have not
// changed stay the elements they are, so that a long list costs what is new in it.

import { type BoutOutcome, type LeagueChoice, outcomesFor, sameChoice } from "../data/league";
import type { LeagueMatch, Standing } from "../protocol.gen";
import { leagueHash } from "../routes";
import type { LeagueState } from "../state";
import { clockText } from "../timeline";
import { el, setText } from "./dom";
import { ENDS } from "./words";

/** What the list can ask for. */
export interface BoutActions {
  more(): void;
  choose(choice: LeagueChoice): void;
}

/** How a match ended, in words. */
export function endText(match: LeagueMatch): string {
  if (match.state !== "played") return match.note || match.state;
  const length = match.seconds === null ? "" : `, ${clockText(match.seconds)}`;
  return `${ENDS[match.reason] ?? match.reason.replaceAll("_", " ")}${length}`;
}

/** Make a list's children those wanted, in their order, touching only those that come and go; the focus stays where it is. */
export function replaceChanged(list: Element, wanted: readonly Element[]): void {
  const held = document.activeElement;
  const kept = new Set(wanted);
  for (const child of [...list.children]) if (!kept.has(child)) child.remove();
  let at = list.firstElementChild;
  for (const child of wanted) {
    if (child === at) at = at.nextElementSibling;
    else list.insertBefore(child, at);
  }
  // an element that is moved loses it
  if (held instanceof HTMLElement && held !== document.activeElement && list.contains(held)) held.focus({ preventScroll: true });
}

/** A match in the list, as it is drawn for the chosen entry. */
interface Row {
  match: LeagueMatch;
  entry: string;
  row: HTMLElement;
}

/** The list and what is chosen of it. */
export class BoutList {
  private readonly title = el("h3");
  private readonly count = el("span", { class: "list-count" });
  private readonly all = el("a", { class: "all", text: "all matches", attributes: { href: leagueHash({}) } });
  private readonly entry = el("select", { aria: { label: "Pilot" } });
  private readonly against = el("select", { aria: { label: "Against" } });
  private readonly outcome = el("select", { aria: { label: "Outcome" } });
  private readonly list = el("ul", { class: "bouts" });
  private readonly none = el("p", { class: "small", text: "No match of the league fits." });
  private readonly more = el("button", { class: "button more", text: "Show more", attributes: { type: "button" } });
  readonly root: HTMLElement;
  private rows = new Map<number, Row>();
  private drawn: readonly LeagueMatch[] | null = null;
  private choice: LeagueChoice | null = null; // what is shown

  constructor(actions: BoutActions) {
    this.more.addEventListener("click", () => actions.more());
    for (const select of [this.entry, this.against, this.outcome]) {
      select.addEventListener("change", () =>
        actions.choose({ entry: this.entry.value, against: this.against.value, outcome: this.outcome.value as BoutOutcome | "" }));
    }
    this.root = el("section", { class: "league-matches", aria: { label: "Matches of the league" } }, [
      el("header", {}, [this.title, this.count, this.all, el("div", { class: "bout-filters" }, [this.entry, this.against, this.outcome])]),
      this.list, this.none, this.more,
    ]);
    // who comes to the end of the list sees it go on
    const near = new IntersectionObserver((seen) => seen.some((one) => one.isIntersecting) && actions.more());
    this.watchEnd = () => {
      near.disconnect();
      near.observe(this.more);
    };
  }

  private readonly watchEnd: () => void;

  update({ choice, bouts, total, ended }: LeagueState, standings: readonly Standing[]): void {
    const name = (id: string) => standings.find((row) => row.id === id)?.name ?? nameIn(bouts, id) ?? id;
    const turned = this.choice !== null && !sameChoice(this.choice, choice);
    if (bouts !== this.drawn || turned || this.choice === null) {
      this.show(bouts, choice.entry);
      this.watchEnd();
    }
    this.offer(choice, standings, name);
    const title = choice.entry === "" ? "Matches" : choice.against === "" ? `Matches of ${name(choice.entry)}` : `${name(choice.entry)} against ${name(choice.against)}`;
    setText(this.title, title);
    this.title.title = title;
    setText(this.count, total === null ? "looking…" : total === 0 ? "none" : `${bouts.length} of ${total}`);
    this.all.hidden = leagueHash(choice) === leagueHash({});
    this.more.hidden = ended || bouts.length === 0;
    this.none.hidden = total !== 0;
    // on narrow pages what was chosen in a table lies far below it
    if (turned && !this.root.contains(document.activeElement) && this.root.getBoundingClientRect().top > innerHeight * 0.7) this.root.scrollIntoView();
    if (turned) this.root.scrollTop = 0;
    [this.drawn, this.choice] = [bouts, choice];
  }

  private show(bouts: readonly LeagueMatch[], entry: string): void {
    const rows = new Map<number, Row>();
    for (const match of bouts) {
      const known = this.rows.get(match.id);
      const kept = known?.entry === entry && (known.match === match || JSON.stringify(known.match) === JSON.stringify(match));
      rows.set(match.id, { match, entry, row: kept ? known.row : bout(match, entry) });
    }
    this.rows = rows;
    replaceChanged(this.list, [...rows.values()].map(({ row }) => row));
  }

  /** What there is to choose from; the entry that is chosen is among it even if it has left the standings. */
  private offer({ entry, against, outcome }: LeagueChoice, standings: readonly Standing[], name: (id: string) => string): void {
    const known = standings.map((row) => [row.id, row.name] as const);
    const among = (chosen: string) => (chosen === "" || known.some(([id]) => id === chosen) ? known : [...known, [chosen, name(chosen)] as const]);
    fill(this.entry, "All pilots", among(entry), entry);
    fill(this.against, "Against anybody", among(against).filter(([id]) => id !== entry), against);
    fill(this.outcome, "Any outcome", outcomesFor(entry), outcome);
    this.against.hidden = entry === "";
  }
}

function nameIn(bouts: readonly LeagueMatch[], id: string): string | undefined {
  const one = bouts.find((match) => match.blue === id || match.red === id);
  return one && (one.blue === id ? one.blue_name : one.red_name);
}

/** Make the options of a menu those wanted, after one for all. */
export function fill(select: HTMLSelectElement, none: string, options: readonly (readonly [string, string])[], chosen: string): void {
  const wanted = [["", none] as const, ...options];
  const said = JSON.stringify(wanted);
  if (select.dataset.options !== said) {
    select.replaceChildren(...wanted.map(([value, text]) => el("option", { text, attributes: { value } })));
    select.dataset.options = said;
  }
  if (select.value !== chosen) select.value = chosen;
}

function bout(match: LeagueMatch, entry: string): HTMLElement {
  const side = (team: "blue" | "red") =>
    el("span", { class: `card-team ${team}${match.winner === team ? " won" : ""}` }, [
      el("i", { class: "team-sign" }),
      el("a", {
        class: `card-name${match[team] === entry ? " own" : ""}`, text: match[`${team}_name`], title: match[team], attributes: { href: leagueHash({ entry: match[team] }) },
      }),
      el("b", { text: match[`score_${team}`]?.toFixed(1) ?? "", title: "zone score" }),
    ]);
  const end = match.winner === "draw" ? `draw, ${endText(match)}` : endText(match);
  return el("li", { class: "bout" }, [
    el("div", { class: "card-teams" }, [side("blue"), side("red")]),
    el("div", { class: "bout-facts" }, [
      match.match !== ""
        ? el("a", { class: "button watch", text: "Watch", attributes: { href: `#match=${match.match}` }, aria: { label: `Watch ${match.blue_name} against ${match.red_name}` } })
        : el("span", { class: "small", text: "not recorded" }),
      el("span", { class: "small", text: `${end} · seed ${match.seed}` }),
    ]),
  ]);
}
