// The page of matches: live ones first, then the newest; a filter by run and by words; a card each with its map, its
// teams and its result; and a place to drop a file.

import type { MatchSummary } from "../protocol.gen";
import type { ListState, ViewerState } from "../state";
import { clockText } from "../timeline";
import { fill, replaceChanged } from "./bouts";
import { ICONS, el, icon, setText } from "./dom";
import { brand, pageLinks } from "./masthead";
import type { Thumbnails } from "./thumbnails";
import { ENDS, runLabel } from "./words";

const TICK_HZ = 20; // of the summaries' ticks, where a match is not open to say so

/** What the list can ask for. */
export interface ListActions {
  openFile(file: File): void;
  filter(run: string, text: string): void;
  more(): void;
}

/** How long ago, in words. */
export function agoText(seconds: number): string {
  if (seconds < 60) return "just now";
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ago`;
  return `${Math.floor(seconds / 86400)} d ago`;
}

/** Whether a match fits the words of the filter: each must occur somewhere in it. */
export function fits(match: MatchSummary, text: string): boolean {
  const words = text.toLowerCase().split(/\s+/).filter((word) => word !== "");
  const all = `${match.run} ${match.file} ${match.blue} ${match.red} ${match.seed} ${match.id} ${match.reason.replace("_", " ")} ${match.live ? "live" : ""}`.toLowerCase();
  return words.every((word) => all.includes(word));
}

/** How many matches are shown, in words; a search looks through those that are loaded. */
export function countText({ matches, total, text }: ListState, shown: number): string {
  if (total === 0) return "";
  if (text.trim() === "" || matches.length >= total) return `${shown} of ${total}`;
  return `${shown} of the ${matches.length} loaded, ${total} in all`;
}

/** Why there is no match to be seen, in words. */
export function emptyText({ matches, total, loading }: ListState): string {
  if (loading) return "Looking for matches…";
  if (matches.length < total) return `None of the ${matches.length} matches loaded fits the search; “Show more” looks further.`;
  if (total > 0) return "No match fits the filter.";
  return "No matches yet. A training run records its evaluation matches; the first appear within minutes of `echelon train`.";
}

/** A match's card: made once and brought up to date in place, so that it keeps its picture and the focus. */
class Card {
  private readonly canvas = el("canvas", { class: "map", aria: { hidden: "true" } });
  private readonly badge = el("span");
  private readonly time = el("span", { class: "badge time" });
  private readonly facts = el("span");
  private readonly teams: readonly { row: HTMLElement; alive: HTMLElement; score: HTMLElement }[];
  private readonly link: HTMLAnchorElement;
  readonly root: HTMLElement;
  private shown: MatchSummary | null = null;

  constructor({ id, run, file, blue, red }: MatchSummary, private readonly thumbnails: Thumbnails) {
    this.teams = [["blue", blue], ["red", red]].map(([side, name]) => {
      const [alive, score] = [el("span", { class: "card-alive", title: "still standing" }), el("b", { title: "zone score" })];
      const row = el("div", { class: `card-team ${side}` }, [
        el("i", { class: "team-sign" }), el("span", { class: "card-name", text: name || side, title: name }), alive, score,
      ]);
      return { row, alive, score };
    });
    this.link = el("a", { class: "card", attributes: { href: `#match=${id}` } }, [
      el("div", { class: "card-map" }, [this.canvas, this.badge, this.time]),
      el("div", { class: "card-teams" }, this.teams.map(({ row }) => row)),
      el("div", { class: "card-facts" }, [el("span", { class: "card-run", text: runLabel(run) || file, title: run || file }), this.facts]),
    ]);
    this.root = el("li", {}, [this.link]);
    thumbnails.watch(this.canvas, id);
  }

  update(match: MatchSummary): void {
    setText(this.facts, `${match.mechs} mechs · seed ${match.seed} · ${agoText(Date.now() / 1000 - match.created)}`);
    if (JSON.stringify(match) === JSON.stringify(this.shown)) return;
    this.shown = match;
    // news of a match are an occasion to ask again for a picture that could not be had
    if (this.canvas.classList.contains("missing")) this.thumbnails.watch(this.canvas, match.id);
    this.teams.forEach(({ row, alive, score }, team) => {
      row.classList.toggle("won", match.winner === team);
      setText(alive, `${match.alive?.[team] ?? 0}`);
      setText(score, (match.score?.[team] ?? 0).toFixed(1));
    });
    const result = match.live ? "live" : !match.complete ? "cut short" : match.winner === 2 ? "draw" : ENDS[match.reason] ?? match.reason;
    const length = clockText(match.ticks / TICK_HZ);
    this.link.classList.toggle("live", match.live);
    this.link.setAttribute("aria-label", `${match.blue} against ${match.red}, ${result}, ${length}, run ${match.run}`);
    this.badge.className = `badge ${match.live ? "live" : match.winner === 0 ? "blue" : match.winner === 1 ? "red" : ""}`;
    setText(this.badge, result);
    setText(this.time, length);
  }
}

/** The page. */
export class MatchList {
  private readonly grid = el("ul", { class: "cards" });
  private readonly count = el("span", { class: "list-count" });
  private readonly empty = el("div", { class: "list-empty" });
  private readonly run = el("select", { aria: { label: "Run" } });
  private readonly text = el("input", { aria: { label: "Search matches" }, attributes: { type: "search", placeholder: "Search run, pilot, seed, result" } });
  private readonly more = el("button", { class: "button more", text: "Show more", attributes: { type: "button" } });
  readonly root: HTMLElement;
  private cards = new Map<string, Card>(); // of all matches that are loaded
  private drawn: readonly unknown[] = []; // what the page was drawn from
  private runs: ListState["runs"] | null = null; // that the menu offers

  constructor(actions: ListActions, private readonly thumbnails: Thumbnails) {
    const pick = el("input", { class: "unseen", aria: { label: "Open a replay file" }, attributes: { type: "file", accept: ".ecr", tabindex: "-1" } });
    pick.addEventListener("change", () => pick.files?.[0] && actions.openFile(pick.files[0]));
    const drop = el("button", { class: "drop", attributes: { type: "button" }, onclick: () => pick.click() }, [
      icon(ICONS.file), el("span", {}, ["Open a replay file", el("small", { text: "or drop an .ecr anywhere" })]),
    ]);
    for (const input of [this.run, this.text]) input.addEventListener("input", () => actions.filter(this.run.value, this.text.value));
    this.more.addEventListener("click", () => actions.more());
    this.root = el("main", { class: "list-page" }, [
      el("header", { class: "hero" }, [
        brand("Pack against pack. Watch what the pilots learned."),
        drop, pick,
      ]),
      el("div", { class: "filters" }, [
        pageLinks("list"), this.count,
        el("label", { class: "search" }, [icon(ICONS.search), this.text]), this.run,
      ]),
      this.grid, this.empty, this.more,
    ]);
  }

  update({ list }: ViewerState): void {
    this.showRuns(list);
    const minute = Math.floor(Date.now() / 60_000); // cards say how long ago they began
    const drawn = [list.matches, list.total, list.text, list.loading, minute];
    if (drawn.every((part, i) => part === this.drawn[i])) return;
    this.drawn = drawn;
    const shown = list.matches.filter((match) => fits(match, list.text));
    setText(this.count, countText(list, shown.length));
    this.more.hidden = list.matches.length >= list.total;
    this.empty.hidden = shown.length > 0;
    setText(this.empty, emptyText(list));
    this.show(list.matches, shown);
  }

  private showRuns({ runs, run }: ListState): void {
    if (runs === this.runs) return;
    this.runs = runs;
    const known = runs.map(({ id, matches }) => [id, `${id} (${matches})`] as const);
    fill(this.run, "All runs", run === "" || runs.some(({ id }) => id === run) ? known : [...known, [run, run]], run);
    this.run.hidden = runs.length < 2 && run === "";
  }

  /** Bring the cards to the matches; one that the search leaves out keeps its picture for when it fits again. */
  private show(matches: readonly MatchSummary[], shown: readonly MatchSummary[]): void {
    const cards = new Map<string, Card>();
    for (const match of matches) {
      const card = this.cards.get(match.id) ?? new Card(match, this.thumbnails);
      card.update(match);
      cards.set(match.id, card);
    }
    this.cards = cards;
    replaceChanged(this.grid, shown.flatMap((match) => cards.get(match.id)?.root ?? []));
  }
}
