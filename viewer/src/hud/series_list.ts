// Every value of a mech at the playhead as a row with its unit: figures, motion, actions, rewards, and each column of
// what its policy observed, by block. A search finds rows; a click draws a row over the match.

import { type MechSeries, matching, seriesOfMech, valueAt, valueText } from "../data/mech_series";
import { rowAt } from "../data/observations";
import { seenValues } from "../spoilers";
import type { MatchState } from "../state";
import { mechName } from "../text";
import { clockText } from "../timeline";
import { el, setText } from "./dom";
import { Chart } from "./charts";

const UPDATE_MS = 150; // update interval of rows and charts
const MOST_CHARTS = 6;
const HEIGHT = 92; // height of a chart [CSS px]
const NEGLIGIBLE = 1e-3; // lines that never exceed this are left out beside others
const MOST_FOUND = 60; // most rows that a search lists

interface Row {
  readonly series: MechSeries;
  readonly root: HTMLElement;
  readonly value: HTMLElement;
}

interface Group {
  readonly name: string;
  readonly root: HTMLDetailsElement;
  readonly summary: HTMLElement;
  readonly series: readonly MechSeries[];
  rows: readonly Row[]; // empty until it is opened
}

/** Charts that are drawn until others are chosen: titles, and keys or groups of their lines. */
const FIRST: Record<string, readonly string[]> = {
  "hit points, heat, stability": ["state.hp", "state.heat", "state.stability"],
  "predicted value and reward so far": ["policy.predicted_value", "policy.reward_so_far"],
  "reward so far by term": ["reward so far"],
};

const keyOf = ({ group, name }: MechSeries) => `${group}.${name}`;
const titleOf = (series: MechSeries) =>
  `${keyOf(series).replace(/_/g, " ")}${series.unit === "" ? "" : ` (${series.unit})`}`;

export class SeriesList {
  private readonly search = el("input", {
    class: "series-search",
    aria: { label: "Search values and columns of the observation" },
    attributes: { type: "search", placeholder: "Search: damage, heat, contacts[0], zone …", spellcheck: "false" },
  });
  private readonly note = el("p", { class: "pilot-note small", attributes: { role: "status" } });
  private readonly charts = el("div", { class: "series-charts" });
  private readonly found = el("div", { class: "series-rows found" });
  private readonly list = el("div");
  readonly root = el("section", { class: "series", aria: { label: "Values and observation" } }, [
    this.search,
    this.found,
    this.note,
    this.charts,
    this.list,
  ]);
  /** Charts by title, the oldest first, with the keys or groups of their lines. */
  private readonly pinned = new Map<string, { chart: Chart; keys: readonly string[] }>();
  private groups: Group[] = [];
  private results: Row[] = [];
  private series: readonly MechSeries[] = [];
  private shown: readonly unknown[] = []; // what the list was built from
  private drawn: readonly unknown[] = [];
  private updatedAt = 0;

  constructor(private readonly jump: (seconds: number) => void) {
    this.search.addEventListener("input", () => (this.updatedAt = 0));
    for (const [title, keys] of Object.entries(FIRST)) this.toggle(title, keys);
  }

  /** Show the values at a tick; charts end at `end`, their curves at `until`. */
  update(match: MatchState, mech: number, tick: number, end: number, until: number): void {
    const now = performance.now();
    const { curves, version } = match.scan;
    const observed = match.observed.of(mech, true);
    if (curves?.mech !== mech || now - this.updatedAt < UPDATE_MS) return;
    this.updatedAt = now;
    if ([match, curves, observed].some((part, k) => part !== this.shown[k])) {
      this.shown = [match, curves, observed];
      this.series = seriesOfMech(match.header, curves, observed);
      this.build();
    }
    setText(this.note, this.noteText(match, mech, tick));
    this.searchFor(this.search.value);
    const seconds = tick / match.header.tick_hz;
    for (const group of this.groups) {
      const slot = /^contacts\[(\d+)\]$/.exec(group.name)?.[1];
      const other = observed && slot ? observed.contacts[rowAt(observed, tick) * observed.slots + Number(slot)] : -1;
      const contact = slot ? (other >= 0 ? ` · ${mechName(match.header, other)}` : " · empty") : "";
      setText(group.summary, `${group.name.replace(/_/g, " ")}${contact}`);
      if (group.root.open && group.rows.length === 0) this.fill(group);
    }
    const open = this.groups.flatMap(({ root, rows }) => (root.open && !this.list.hidden ? rows : []));
    for (const { series, root, value } of [...this.results, ...open]) {
      setText(value, valueText(match.header, series.unit, valueAt(series, seconds)));
      root.setAttribute("aria-pressed", String(this.pinned.has(titleOf(series))));
    }
    const hz = match.header.tick_hz;
    this.draw(seconds, end / hz, until / hz, version);
  }

  private noteText({ header, observed }: MatchState, mech: number, tick: number): string {
    if (observed.problem !== "") return `No observation: ${observed.problem}`;
    const found = observed.of(mech, false);
    if (!found) return "The server plays the match again for the observation …";
    const scripted = header.pilots !== undefined && header.pilots.script[mech] > 0;
    const at = clockText((found.tick + rowAt(found, tick) * found.step) / header.tick_hz);
    const reader = scripted ? "A policy in place of this scripted pilot" : "The policy";
    return `${reader} received the ${found.columns.length} columns below at ${at}. Diamonds: believed contacts.`;
  }

  private build(): void {
    const names = [...new Set(this.series.map(({ group }) => group))];
    const open = new Set(this.groups.filter(({ root }) => root.open).map(({ name }) => name));
    if (this.groups.length === 0) open.add("actions");
    this.results = [];
    this.drawn = [];
    this.groups = names.map((name): Group => {
      const summary = el("summary");
      const root = el("details", {}, [summary]);
      root.open = open.has(name);
      root.addEventListener("toggle", () => (this.updatedAt = 0));
      return { name, root, summary, series: this.series.filter(({ group }) => group === name), rows: [] };
    });
    this.list.replaceChildren(...this.groups.map(({ root }) => root));
    this.found.dataset.text = "";
  }

  private fill(group: Group): void {
    group.rows = group.series.map((series) => this.makeRow(series, series.name));
    group.root.append(
      el(
        "div",
        { class: "series-rows" },
        group.rows.map(({ root }) => root),
      ),
    );
  }

  private makeRow(series: MechSeries, name: string): Row {
    const value = el("b");
    const label = el("span", { text: name.replace(/_/g, " ") });
    const onclick = () => this.toggle(titleOf(series), [keyOf(series)]);
    const root = el("button", { attributes: { type: "button" }, onclick }, [label, value]);
    return { series, root, value };
  }

  private searchFor(text: string): void {
    const words = text.trim();
    this.list.hidden = words !== "";
    if (this.found.dataset.text === words) return;
    this.found.dataset.text = words;
    const found = words === "" ? [] : matching(this.series, words);
    this.results = found.slice(0, MOST_FOUND).map((series) => this.makeRow(series, keyOf(series)));
    const more = found.length > MOST_FOUND ? `${found.length - MOST_FOUND} more` : "";
    const rest = found.length === 0 && words !== "" ? "nothing found" : more;
    this.found.replaceChildren(...this.results.map(({ root }) => root), el("p", { class: "soft small", text: rest }));
  }

  /** Draw a chart of the series with these keys or groups, or no longer; of too many the oldest goes. */
  private toggle(title: string, keys: readonly string[]): void {
    const [oldest] = this.pinned.keys();
    if (!this.remove(title)) {
      if (this.pinned.size >= MOST_CHARTS) this.remove(oldest);
      const chart = new Chart(title, HEIGHT, this.jump);
      this.pinned.set(title, { chart, keys });
      this.charts.append(chart.root);
    }
    [this.updatedAt, this.drawn] = [0, []];
  }

  private remove(title: string): boolean {
    this.pinned.get(title)?.chart.root.remove();
    return this.pinned.delete(title);
  }

  private draw(seconds: number, end: number, until: number, version: number): void {
    const changed = [version, end, until].some((part, k) => part !== this.drawn[k]);
    this.drawn = [version, end, until];
    for (const { chart, keys } of this.pinned.values()) {
      const found = this.series.filter((each) => keys.includes(keyOf(each)) || keys.includes(each.group));
      const times = found[0]?.seconds ?? [];
      const lines = found
        .map(({ name, values }) => [name, seenValues(values, times, until)] as const)
        .filter(([, values]) => found.length === 1 || values.some((value) => Math.abs(value) > NEGLIGIBLE));
      if (changed) chart.draw(seenValues(times, times, until), lines, end);
      chart.point(seconds);
    }
  }
}
