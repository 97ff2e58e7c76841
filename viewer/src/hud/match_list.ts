// The match list: live matches first, then newest, by run; a filter by run and text; a card per match with map, teams
// and result, one of them proposed to start with; and a button to open a file.

import type { MatchSummary } from "../protocol.gen";
import { TICK_HZ, byRun, closest } from "../data/matches";
import type { ListState, ViewerState } from "../state";
import { mayShow } from "../spoilers";
import { toldChange } from "../caption";
import { clockText, pointsText } from "../timeline";
import { checkbox, el, field, fill, replaceChanged, setText, textButton } from "./dom";
import { brand, pageLinks } from "./page_header";
import type { Thumbnails } from "./thumbnails";
import { endingText, isHuman, policyName, runLabel, sideNames } from "../text";

const GOAL = "Teams of mechs, flown by trained policies or scripted bots, fight for a zone.";
const KINDS: Record<string, string> = { eval: "evaluation", arena: "league", sim: "simulation", play: "play session" };
const MOST_NAMED = 3; // pilots of a branch that are named

export interface ListActions {
  openFile(file: File | undefined): void;
  filter(run: string, text: string): void;
  more(): void;
  showResults(on: boolean): void;
}

export function ageText(seconds: number): string {
  if (seconds < 60) return "just now";
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ago`;
  return `${Math.floor(seconds / 86400)} d ago`;
}

export function fits(match: MatchSummary, text: string, showsResult = true): boolean {
  const words = text
    .toLowerCase()
    .split(/\s+/)
    .filter((word) => word !== "");
  const { run, file, blue, red, seed, map_seed, id, reason, live } = match;
  const result = showsResult ? [file, endingText(reason)] : []; // a file may be named after its result
  const fields = [run, blue, red, ...sideNames(match), seed, map_seed, id, live ? "live" : "", ...result];
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

/** Return where a branch leaves its parent and how it differs, e.g. "0:21 · no. 7 · B2 expert · without B3". */
export function branchText({ parent, file }: MatchSummary): string {
  const set = Object.entries(parent?.set ?? {}).map(([mech, pilot]) => `${mech} ${policyName(pilot)}`);
  const named = set.length > MOST_NAMED ? [`${set.length} pilots set`] : set;
  if (parent?.still.length) named.push(`without ${parent.still.join(", ")}`);
  const number = /-b(\d+)(?:-with)?\.ecr$/.exec(file);
  if (number) named.unshift(`no. ${Number(number[1])}`);
  return [clockText((parent?.tick ?? 0) / TICK_HZ), ...named, ...(parent?.changes ?? [])].join(" · ");
}

const teamSize = ({ mechs }: MatchSummary) => `${mechs / 2} v ${mechs / 2}`;

/** Return what the matches of a run have in common: its kind, pilots, sizes, number and age; and who won how often. */
export function groupText(run: string, matches: readonly MatchSummary[], showsResult: boolean): [string, string] {
  const kind = /^\d+-\d+-(.+)-\w+-\w+$/.exec(run)?.[1];
  const names = [...new Set(matches.flatMap(sideNames))];
  const pilots = names.length > 2 ? `${names.length} pilots` : `${names[0]} against ${names[1] ?? "itself"}`;
  const count = `${matches.length} ${matches.length === 1 ? "match" : "matches"}`;
  const age = ageText(Date.now() / 1000 - Math.max(...matches.map(({ created }) => created)));
  const parts = [...(kind ? [KINDS[kind] ?? `training ${kind}`] : []), pilots, count];
  const ended = matches.filter(({ complete }) => complete);
  const wins = names.map((name) => [name, ended.filter((one) => sideNames(one)[one.winner] === name).length] as const);
  const tally = wins.map(([name, count]) => `${name} won ${count}`).join(", ");
  return [
    [...parts, ...new Set(matches.map(teamSize)), age].join(" · "),
    showsResult && wins.length === 2 && ended.length > 0 ? tally : "",
  ];
}

/** A match's card: created once and updated in place, so that it keeps its picture and the focus. */
class Card {
  private readonly canvas = el("canvas", { class: "map", aria: { hidden: "true" } });
  private readonly badge = el("span");
  private readonly time = el("span", { class: "badge time" });
  private readonly tag = el("p", { class: "card-tag" });
  private readonly moment = el("p", { class: "card-moment small" });
  private readonly teams: readonly { row: HTMLElement; alive: HTMLElement; score: HTMLElement }[];
  private readonly link: HTMLAnchorElement;
  readonly root: HTMLElement;
  private shown = "";

  constructor(
    match: MatchSummary,
    private readonly thumbnails: Thumbnails,
  ) {
    const { id, size, map_seed, seed } = match;
    const digits = String(map_seed);
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
      this.tag,
      el(
        "div",
        { class: "card-teams" },
        this.teams.map(({ row }) => row),
      ),
      this.moment,
      el("div", { class: "card-facts small" }, [
        el("span", { text: `${teamSize(match)} · ${size[0]} × ${size[1]}` }),
        // maps of a run have seeds that differ in the last digits
        el("span", { title: `match seed ${seed}` }, [
          `map ${digits.slice(0, -3)}`,
          el("b", { text: digits.slice(-3) }),
        ]),
      ]),
    ]);
    this.root = el("li", {}, [this.link]);
    thumbnails.watch(this.canvas, id);
  }

  /** `why` says why to start with this match, "" for others; `parent` is the match that it branches from, "" none. */
  update(match: MatchSummary, showsResult: boolean, why: string, parent: string): void {
    const shown = JSON.stringify([match, showsResult, why, parent]);
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
          ? ""
          : match.winner === 2
            ? "draw"
            : endingText(match.reason) || "left";
    const length = showsResult ? clockText(match.ticks / TICK_HZ) : "";
    setText(this.tag, why ? `Start here: ${why}` : parent ? `From ${parent} at ${branchText(match)}` : "");
    this.link.classList.toggle("pick", why !== "");
    this.link.classList.toggle("branch", !!match.parent);
    this.link.classList.toggle("live", match.live);
    const sides = sideNames(match).join(" against ");
    this.link.setAttribute(
      "aria-label",
      [sides, result || "result hidden", ...(length ? [length] : []), `run ${match.run}`].join(", "),
    );
    const side = match.live ? "live" : (showsResult && ["blue", "red"][match.winner]) || "";
    this.badge.className = `badge ${side}`;
    setText(this.badge, result);
    setText(this.time, length);
    const moment = showsResult ? toldChange(match.moment) : "";
    setText(this.moment, moment);
    this.moment.title = moment;
  }
}

/** Return the match to open first and why: a live one, the closest one, or the newest where results are hidden. */
export function startWith(matches: readonly MatchSummary[], showsResult: boolean): [MatchSummary | undefined, string] {
  const ended = matches.filter(
    (match) => match.complete && !match.live && !match.parent && match.winner >= 0 && !sideNames(match).some(isHuman),
  );
  if (matches.length < 2) return [ended[0], ""];
  if (matches[0].live) return [matches[0], "it is live now"];
  const close = showsResult ? closest(ended) : undefined;
  return close ? [close, "the closest finish"] : [ended[0], "the newest finished match"];
}

export class MatchList {
  private readonly grid = el("ul", { class: "cards" });
  private readonly start = el("a", { class: "button framed primary start" }); // opens the proposed match
  private readonly count = el("span", { class: "list-count soft" });
  private readonly empty = el("div", { class: "list-empty" });
  private readonly run = el("select", { aria: { label: "Run" } });
  private readonly text = el("input", {
    class: "search",
    aria: { label: "Search matches" },
    attributes: { type: "search", placeholder: "Search run, pilot, seed, result" },
  });
  private readonly spoilers = checkbox();
  private readonly more: HTMLButtonElement;
  readonly root: HTMLElement;
  private cards = new Map<string, Card>(); // of all loaded matches
  private readonly heads = new Map<string, HTMLElement>(); // headings of runs
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
    const drop = textButton("Open a replay file, or drop it here", () => pick.click(), "button framed");
    for (const input of [this.run, this.text])
      input.addEventListener("input", () => actions.filter(this.run.value, this.text.value));
    this.spoilers.addEventListener("change", () => actions.showResults(this.spoilers.checked));
    this.more = textButton("Show more", () => actions.more(), "button more framed");
    this.root = el("main", { class: "list-page" }, [
      el("header", { class: "hero" }, [
        el("div", { class: "hero-words" }, [brand(GOAL), this.start, drop, pick]),
        el("img", { class: "hero-picture", attributes: { src: "./fight.webp", alt: "", loading: "lazy" } }),
      ]),
      el("div", { class: "filters" }, [
        pageLinks("list"),
        this.count,
        field("Show results", this.spoilers),
        this.text,
        this.run,
      ]),
      startForm,
      this.grid,
      this.empty,
      this.more,
    ]);
  }

  update(state: ViewerState): void {
    const { list } = state;
    this.showRuns(list);
    const minute = Math.floor(Date.now() / 60_000); // cards show the age of matches
    const showsResult = (this.spoilers.checked = mayShow(state));
    const drawn = [list.matches, list.total, list.text, list.loading, minute, showsResult];
    if (drawn.every((part, i) => part === this.drawn[i])) return;
    this.drawn = drawn;
    const shown = list.matches.filter((match) => fits(match, list.text, showsResult));
    setText(this.count, countText(list, shown.length));
    this.more.hidden = list.matches.length >= list.total;
    this.empty.hidden = shown.length > 0;
    setText(this.empty, emptyText(list));
    this.show(list.matches, shown, showsResult);
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
    const parents = new Map(matches.map((match) => [match.id, sideNames(match).join(" against ")]));
    const [pick, why] = startWith(shown, showsResult);
    for (const match of matches) {
      const card = this.cards.get(match.id) ?? new Card(match, this.thumbnails);
      const parent = match.parent ? (parents.get(match.parent.match) ?? match.parent.file) : "";
      card.update(match, showsResult, match === pick ? why : "", parent);
      cards.set(match.id, card);
    }
    this.cards = cards;
    this.start.hidden = !pick;
    if (pick) {
      this.start.href = `#match=${pick.id}`;
      setText(this.start, `▶ Watch ${sideNames(pick).join(" against ")}`);
      this.start.title = why;
    }
    const groups = byRun(shown).flatMap(([run, group]) => {
      const head = this.heads.get(run) ?? el("li", { class: "run-head" }, [el("h3"), el("span"), el("b")]);
      this.heads.set(run, head);
      [runLabel(run) || "Files", ...groupText(run, group, showsResult)].forEach((text, i) =>
        setText(head.children[i], text),
      );
      const order = [...group].sort((a, b) => Number(b === pick) - Number(a === pick));
      return [head, ...order.flatMap(({ id }) => cards.get(id)?.root ?? [])];
    });
    replaceChanged(this.grid, groups);
  }
}
