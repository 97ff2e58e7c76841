// Every value of a mech at the playhead as a row with its unit: figures, motion, actions, rewards, and each column of
// what its policy observed, by block. A search finds rows; a click draws a row over the match.

import { type MechSeries, matching, seriesOfMech, valueAt, valueText } from "../data/mech_series";
import { rowAt } from "../data/observations";
import type { MatchState } from "../state";
import { mechName } from "../text";
import { clockText } from "../timeline";
import { el, setText } from "./dom";
import { MechChart } from "./mech_chart";

const UPDATE_MS = 150; // update interval of rows and charts
const MOST_CHARTS = 6;
const LOW = 84; // height of their charts [CSS px]
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

const keyOf = ({ group, name }: MechSeries) => `${group}.${name}`;

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
  private readonly pinned = new Map<string, MechChart>(); // by key, the oldest first
  private groups: Group[] = [];
  private results: Row[] = [];
  private series: readonly MechSeries[] = [];
  private shown: readonly unknown[] = []; // what the list was built from
  private drawn: readonly unknown[] = [];
  private updatedAt = 0;

  constructor(private readonly jump: (seconds: number) => void) {
    this.search.addEventListener("input", () => (this.updatedAt = 0));
  }

  update(match: MatchState, mech: number, tick: number): void {
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
      root.setAttribute("aria-pressed", String(this.pinned.has(keyOf(series))));
    }
    this.draw(seconds, match.index.chunks.at(-1)?.[1] ?? 0, match.header.tick_hz, version);
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
    const root = el("button", { attributes: { type: "button" }, onclick: () => this.toggle(series) }, [label, value]);
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

  /** Draw a series over the match, or no longer; of too many the oldest goes. */
  private toggle(series: MechSeries): void {
    const key = keyOf(series);
    const [oldest] = this.pinned.keys();
    if (!this.remove(key)) {
      if (this.pinned.size >= MOST_CHARTS) this.remove(oldest);
      const title = `${key.replace(/_/g, " ")}${series.unit === "" ? "" : ` (${series.unit})`}`;
      const chart = new MechChart(title, (value) => String(Number(value.toFixed(3))), this.jump, LOW);
      this.pinned.set(key, chart);
      this.charts.append(chart.root);
    }
    [this.updatedAt, this.drawn] = [0, []];
  }

  private remove(key: string): boolean {
    this.pinned.get(key)?.root.remove();
    return this.pinned.delete(key);
  }

  private draw(seconds: number, lastTick: number, hz: number, version: number): void {
    const changed = [version, lastTick].some((part, k) => part !== this.drawn[k]);
    this.drawn = [version, lastTick];
    for (const [key, chart] of this.pinned) {
      const series = this.series.find((each) => keyOf(each) === key);
      if (changed) chart.draw(series?.seconds ?? [], series ? [[series.name, series.values]] : [], lastTick / hz);
      if (!chart.hovered) chart.point(seconds);
    }
  }
}
