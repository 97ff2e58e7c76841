// The page of matches: live ones first, then the newest; a filter by run and by words; a card each with its map, its
// teams and its result; and a place to drop a file.

import type { MatchSummary } from "../protocol.gen";
import type { ListState, ViewerState } from "../state";
import { clockText } from "../timeline";
import { ICONS, el, icon, setText } from "./dom";
import { brand, pageLinks } from "./masthead";
import type { Thumbnails } from "./thumbnails";
import { ENDS, runLabel } from "./words";

const TICK_HZ = 20; // of the summaries' ticks, where a match is not open to say so

/** What the list can ask for. */
export interface ListActions {
  open(id: string): void;
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

/** The page. */
export class MatchList {
  private readonly grid = el("ul", { class: "cards" });
  private readonly count = el("span", { class: "list-count" });
  private readonly empty = el("div", { class: "list-empty" });
  private readonly run = el("select", { aria: { label: "Run" } });
  private readonly text = el("input", { aria: { label: "Search matches" }, attributes: { type: "search", placeholder: "Search run, pilot, seed, result" } });
  private readonly more = el("button", { class: "button more", text: "Show more", attributes: { type: "button" } });
  readonly root: HTMLElement;
  private drawn = "";

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

  update(state: ViewerState): void {
    const { list } = state;
    const shown = list.matches.filter((match) => fits(match, list.text));
    setText(this.count, list.total === 0 ? "" : `${shown.length} of ${list.total}`);
    this.more.hidden = list.matches.length >= list.total;
    this.showRuns(list);
    this.showEmpty(list, shown.length);
    const key = JSON.stringify(shown.map((match) => [match.id, match.live, match.chunks, match.winner, match.ticks]));
    if (key === this.drawn) return;
    this.drawn = key;
    const kept = new Map([...this.grid.children].map((card) => [(card as HTMLElement).dataset.key ?? "", card]));
    this.grid.replaceChildren(...shown.map((match) => {
      const own = `${match.id} ${match.live} ${match.chunks} ${match.winner}`;
      return kept.get(own) ?? this.card(match, own);
    }));
  }

  private showRuns(list: ListState): void {
    if (this.run.options.length === list.runs.length + 1) return;
    this.run.replaceChildren(
      el("option", { text: "All runs", attributes: { value: "" } }),
      ...list.runs.map((run) => el("option", { text: `${run.id} (${run.matches})`, attributes: { value: run.id } })),
    );
    this.run.value = list.run;
    this.run.hidden = list.runs.length < 2;
  }

  private showEmpty(list: ListState, shown: number): void {
    this.empty.hidden = shown > 0;
    const words = list.loading ? "Looking for matches…"
      : list.total > 0 ? "No match fits the filter."
      : "No matches yet. A training run records its evaluation matches; the first appear within minutes of `echelon train`.";
    setText(this.empty, words);
  }

  private card(match: MatchSummary, key: string): HTMLElement {
    const canvas = el("canvas", { class: "map", aria: { hidden: "true" } });
    this.thumbnails.watch(canvas, match.id);
    const won = (team: number) => (match.winner === team ? " won" : "");
    const team = (side: "blue" | "red", t: 0 | 1) =>
      el("div", { class: `card-team ${side}${won(t)}` }, [
        el("i", { class: "team-sign" }), el("span", { class: "card-name", text: match[side] || side, title: match[side] }),
        el("span", { class: "card-alive", text: `${match.alive?.[t] ?? 0}`, title: "still standing" }),
        el("b", { text: (match.score?.[t] ?? 0).toFixed(1), title: "zone score" }),
      ]);
    const result = match.live ? "live" : !match.complete ? "cut short" : match.winner === 2 ? "draw" : ENDS[match.reason] ?? match.reason;
    const facts = [`${match.mechs} mechs`, `seed ${match.seed}`, agoText(Date.now() / 1000 - match.created)];
    const card = el("a", {
      class: `card${match.live ? " live" : ""}`, attributes: { href: `#match=${match.id}` },
      aria: { label: `${match.blue} against ${match.red}, ${result}, ${clockText(match.ticks / TICK_HZ)}, run ${match.run}` },
    }, [
      el("div", { class: "card-map" }, [
        canvas, el("span", { class: `badge ${match.live ? "live" : match.winner === 0 ? "blue" : match.winner === 1 ? "red" : ""}`, text: result }),
        el("span", { class: "badge time", text: clockText(match.ticks / TICK_HZ) }),
      ]),
      el("div", { class: "card-teams" }, [team("blue", 0), team("red", 1)]),
      el("div", { class: "card-facts" }, [el("span", { class: "card-run", text: runLabel(match.run) || match.file, title: match.run || match.file }), el("span", { text: facts.join(" · ") })]),
    ]);
    return el("li", { data: { key } }, [card]);
  }
}
