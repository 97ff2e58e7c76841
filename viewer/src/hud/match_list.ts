// The match list: live matches first, then newest; a filter by run and text; a card per match with map, teams and
// result; and a button to open a file.

import type { MatchSummary } from "../protocol.gen";
import type { ListState, ViewerState } from "../state";
import { mayShow } from "../spoilers";
import { clockText, pointsText } from "../timeline";
import { ICONS, el, fill, icon, replaceChanged, setText, textButton } from "./dom";
import { brand, pageLinks } from "./page_header";
import { BranchTree } from "./branch_tree";
import type { Thumbnails } from "./thumbnails";
import { endingText, runLabel, sideNames } from "../text";

const TICK_HZ = 20; // tick rate of summaries, which do not carry it

export interface ListActions {
  openFile(file: File | undefined): void;
  filter(run: string, text: string): void;
  more(): void;
}

export function ageText(seconds: number): string {
  if (seconds < 60) return "just now";
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ago`;
  return `${Math.floor(seconds / 86400)} d ago`;
}

export function fits(match: MatchSummary, text: string): boolean {
  const words = text
    .toLowerCase()
    .split(/\s+/)
    .filter((word) => word !== "");
  const { run, file, blue, red, seed, id, reason, live } = match;
  const fields = [run, file, blue, red, ...sideNames(match), seed, id, endingText(reason), live ? "live" : ""];
  const all = fields.join(" ").toLowerCase();
  return words.every((word) => all.includes(word));
}

/** Return the number of matches shown; a search covers only loaded matches. */
export function countText({ matches, total, text }: ListState, shown: number): string {
  if (total === 0) return "";
  if (text.trim() === "" || matches.length >= total) return `${shown} of ${total}`;
  return `${shown} of ${matches.length} loaded, ${total} in total`;
}

export function emptyText({ matches, total, loading }: ListState): string {
  if (loading) return "Loading matches…";
  if (matches.length < total)
    return `None of the ${matches.length} loaded matches fits the search; “Show more” loads further ones.`;
  if (total > 0) return "No match fits the filter.";
  return "No matches yet. Training runs record evaluation matches, the first within minutes of `echelon train`.";
}

/** A match's card: created once and updated in place, so that it keeps its picture and the focus. */
class Card {
  private readonly canvas = el("canvas", { class: "map", aria: { hidden: "true" } });
  private readonly badge = el("span");
  private readonly time = el("span", { class: "badge time" });
  private readonly facts = el("span");
  private readonly moment = el("p", { class: "card-moment small" });
  private readonly teams: readonly { row: HTMLElement; alive: HTMLElement; score: HTMLElement }[];
  private readonly link: HTMLAnchorElement;
  readonly root: HTMLElement;
  private shown = "";

  constructor(
    match: MatchSummary,
    private readonly thumbnails: Thumbnails,
  ) {
    const { id, run, file } = match;
    this.teams = sideNames(match).map((name, team) => {
      const side = ["blue", "red"][team];
      const [alive, score] = [
        el("span", { class: "card-alive small", title: "mechs alive" }),
        el("b", { title: "zone points" }),
      ];
      const row = el("div", { class: `card-team ${side}` }, [
        el("i", { class: "team-sign" }),
        el("span", { class: "card-name", text: name, title: name }),
        alive,
        score,
      ]);
      return { row, alive, score };
    });
    this.link = el("a", { class: "card", attributes: { href: `#match=${id}` } }, [
      el("div", { class: "card-map" }, [this.canvas, this.badge, this.time]),
      el(
        "div",
        { class: "card-teams" },
        this.teams.map(({ row }) => row),
      ),
      this.moment,
      el("div", { class: "card-facts small" }, [
        el("span", { class: "card-run", text: runLabel(run) || file, title: run || file }),
        this.facts,
      ]),
    ]);
    this.root = el("li", {}, [this.link]);
    thumbnails.watch(this.canvas, id);
  }

  update(match: MatchSummary, showsResult: boolean): void {
    setText(this.facts, `${match.mechs} mechs · seed ${match.seed} · ${ageText(Date.now() / 1000 - match.created)}`);
    const shown = JSON.stringify([match, showsResult]);
    if (shown === this.shown) return;
    this.shown = shown;
    const known = match.complete && showsResult;
    // retry a failed thumbnail when the match changes
    if (this.canvas.classList.contains("missing")) this.thumbnails.watch(this.canvas, match.id);
    this.teams.forEach(({ row, alive, score }, team) => {
      row.classList.toggle("won", showsResult && match.winner === team);
      // of a match without a result neither is known
      setText(alive, known ? `${match.alive[team]}` : "");
      setText(score, known ? pointsText(match.score[team]) : "");
    });
    const result = match.live
      ? "live"
      : !match.complete
        ? "incomplete"
        : !showsResult
          ? "result hidden"
          : match.winner === 2
            ? "draw"
            : endingText(match.reason) || "left";
    const length = showsResult ? clockText(match.ticks / TICK_HZ) : "";
    this.link.classList.toggle("live", match.live);
    const sides = sideNames(match).join(" against ");
    this.link.setAttribute("aria-label", [sides, result, ...(length ? [length] : []), `run ${match.run}`].join(", "));
    const side = match.live ? "live" : (showsResult && ["blue", "red"][match.winner]) || "";
    this.badge.className = `badge ${side}`;
    setText(this.badge, result);
    setText(this.time, length);
    const moment = showsResult ? match.moment : "";
    setText(this.moment, moment);
    this.moment.title = moment;
  }
}

export class MatchList {
  private readonly grid = el("ul", { class: "cards" });
  private readonly count = el("span", { class: "list-count soft" });
  private readonly empty = el("div", { class: "list-empty" });
  private readonly run = el("select", { aria: { label: "Run" } });
  private readonly text = el("input", {
    aria: { label: "Search matches" },
    attributes: { type: "search", placeholder: "Search run, pilot, seed, result" },
  });
  private readonly branches = new BranchTree();
  private readonly more: HTMLButtonElement;
  readonly root: HTMLElement;
  private cards = new Map<string, Card>(); // of all loaded matches
  private drawn: readonly unknown[] = []; // what the page was rendered from
  private runs: ListState["runs"] | null = null; // runs in the menu

  constructor(
    actions: ListActions,
    private readonly thumbnails: Thumbnails,
    startForm: HTMLElement,
  ) {
    const pick = el("input", {
      class: "visually-hidden",
      aria: { label: "Open a replay file" },
      attributes: { type: "file", accept: ".ecr", tabindex: "-1" },
    });
    pick.addEventListener("change", () => actions.openFile(pick.files?.[0]));
    const drop = el("button", { class: "drop", attributes: { type: "button" }, onclick: () => pick.click() }, [
      icon(ICONS.file),
      el("span", {}, ["Open a replay file", el("small", { text: "or drop an .ecr file anywhere" })]),
    ]);
    for (const input of [this.run, this.text])
      input.addEventListener("input", () => actions.filter(this.run.value, this.text.value));
    this.more = textButton("Show more", () => actions.more(), "button more framed");
    this.root = el("main", { class: "list-page" }, [
      el("header", { class: "hero" }, [brand("Watch matches, live or recorded"), drop, pick]),
      el("div", { class: "filters" }, [
        pageLinks("list"),
        this.count,
        el("label", { class: "search" }, [icon(ICONS.search), this.text]),
        this.run,
      ]),
      startForm,
      this.branches.root,
      this.grid,
      this.empty,
      this.more,
    ]);
  }

  update(state: ViewerState): void {
    const { list } = state;
    this.showRuns(list);
    const minute = Math.floor(Date.now() / 60_000); // cards show the age of matches
    const showsResult = mayShow(state);
    const drawn = [list.matches, list.total, list.text, list.loading, minute, showsResult];
    if (drawn.every((part, i) => part === this.drawn[i])) return;
    this.drawn = drawn;
    const shown = list.matches.filter((match) => fits(match, list.text));
    setText(this.count, countText(list, shown.length));
    this.more.hidden = list.matches.length >= list.total;
    this.empty.hidden = shown.length > 0;
    setText(this.empty, emptyText(list));
    this.show(list.matches, shown, showsResult);
    this.branches.update(list.matches);
  }

  private showRuns({ runs, run }: ListState): void {
    if (runs === this.runs) return;
    this.runs = runs;
    const known = runs.map(({ id, matches }) => [id, `${id} (${matches})`] as const);
    fill(this.run, "All runs", run === "" || runs.some(({ id }) => id === run) ? known : [...known, [run, run]], run);
    this.run.hidden = runs.length < 2 && run === "";
  }

  /** Update the cards; those hidden by the search keep their picture. */
  private show(matches: readonly MatchSummary[], shown: readonly MatchSummary[], showsResult: boolean): void {
    const cards = new Map<string, Card>();
    for (const match of matches) {
      const card = this.cards.get(match.id) ?? new Card(match, this.thumbnails);
      card.update(match, showsResult);
      cards.set(match.id, card);
    }
    this.cards = cards;
    replaceChanged(
      this.grid,
      shown.flatMap((match) => cards.get(match.id)?.root ?? []),
    );
  }
}
