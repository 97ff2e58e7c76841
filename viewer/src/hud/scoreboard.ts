// The scoreboard: figures and condition of every mech at the playhead, by team and pack with sums, sortable.

import * as control from "../control";
import type { Figure, Figures } from "../data/figures";
import { isShown } from "../data/fog_of_war";
import { packsOf } from "../data/packs";
import { MechFlag } from "../protocol.gen";
import { type MatchState, type ViewerState, firstTick } from "../state";
import { className, mechName, sideName } from "../text";
import { clockText } from "../timeline";
import { dialog, el, replaceChanged, setText } from "./dom";
import { NOTHING, stateOf } from "./inspector";

const UPDATE_MS = 250; // update interval of the open scoreboard
const COUNTED = "legs count too, and each hit in full, also beyond the last hit point";
const FEW_PACKS = 2; // matches with more packs in a team open with closed packs

/** What a cell is computed from: a mech, or the mechs of a pack or team. */
interface Scope {
  readonly match: MatchState;
  readonly mechs: readonly number[];
  readonly figures: Figures | null; // null while the match is being read
}

interface Column {
  readonly name: string;
  readonly label: string;
  readonly tip: string;
  readonly value: (scope: Scope) => number; // by which rows are sorted
  readonly text: (value: number, scope: Scope) => string;
}

function total({ figures, mechs }: Scope, name: Figure): number {
  return figures ? mechs.reduce((sum, mech) => sum + figures[name][mech], 0) : NaN;
}

const whole = (value: number) => value.toFixed(0);
const figure = (name: Figure, label: string, tip: string, text: (value: number) => string = whole): Column => ({
  name,
  label,
  tip,
  value: (scope) => total(scope, name),
  text: (value) => text(value),
});

function living({ match, mechs }: Scope): number {
  return mechs.filter((mech) => match.poses.flags[mech] & MechFlag.ALIVE).length;
}

export const COLUMNS: readonly Column[] = [
  {
    name: "class",
    label: "Class",
    tip: "Class of the mech",
    value: ({ match, mechs }) => match.header.roster[mechs[0]].chassis,
    text: (_, { match, mechs }) => (mechs.length === 1 ? className(match.header, mechs[0]) : ""),
  },
  figure("kills", "Kills", "Hostiles destroyed"),
  figure("assists", "Assists", "Assists by painting targets that others hit"),
  figure("damage", "Damage", `Damage to hostiles [hit points]; ${COUNTED}`),
  figure("taken", "Taken", `Damage by hits of any mech [hit points]; ${COUNTED}`),
  {
    name: "accuracy",
    label: "Accuracy",
    tip: "Direct hits on hostiles by shots of weapons that deal damage; beams fire only at what they hit",
    value: (scope) => total(scope, "hits") / total(scope, "shots"),
    text: (value, scope) => `${whole(100 * value)} % of ${whole(total(scope, "shots"))}`,
  },
  figure("zone_s", "Zone", "Time alive in the zone [s]", (seconds) => `${whole(seconds)} s`),
  {
    name: "state",
    label: "State",
    tip: "State now",
    value: living,
    text: (count, { match, mechs }) =>
      mechs.length === 1 ? stateOf(match, mechs[0]) : `${count} of ${mechs.length} alive`,
  },
  {
    name: "health",
    label: "Health",
    tip: "Hit points now",
    value: ({ match, mechs }) => mechs.reduce((sum, mech) => sum + Math.max(0, match.poses.hp[mech]), 0),
    text: whole,
  },
];
const OPEN_TO_ALL = ["class", "state"]; // columns that say of a mech hidden by fog only what the roster says

/** Return the texts of a row in the order of the columns; figures of mechs hidden by fog are not shown. */
export function cellsOf(scope: Scope): string[] {
  const hidden = scope.mechs.some((mech) => !isShown(scope.match, mech));
  return COLUMNS.map(({ name, value, text }) => {
    if (hidden && !(OPEN_TO_ALL.includes(name) && scope.mechs.length === 1)) return NOTHING;
    const found = value(scope);
    return Number.isNaN(found) ? NOTHING : text(found, scope);
  });
}

/** Return the places of scopes sorted by a column, the largest first unless `rising`; equal ones keep their order. */
export function sortedBy(scopes: readonly Scope[], column: number, rising: boolean): number[] {
  const places = scopes.map((_, i) => i);
  if (column < 0) return places;
  const values = scopes.map((scope) => COLUMNS[column].value(scope));
  const rank = (i: number) => (Number.isNaN(values[i]) ? -Infinity : rising ? -values[i] : values[i]);
  return places.sort((a, b) => rank(b) - rank(a) || a - b);
}

interface Row {
  readonly root: HTMLTableRowElement;
  readonly cells: readonly HTMLElement[];
  readonly mechs: readonly number[];
}

interface Group extends Row {
  readonly rows: readonly Row[]; // of its mechs
  open: boolean;
}

interface Team extends Row {
  readonly body: HTMLTableSectionElement;
  readonly packs: readonly Group[];
}

export class Scoreboard {
  readonly root: HTMLElement;
  private readonly title = el("h2");
  private readonly note = el("p", { class: "soft small", attributes: { role: "status" } });
  private readonly table = el("table");
  private readonly heads: HTMLElement[];
  private teams: readonly Team[] = [];
  private shown: MatchState | null = null;
  private sorting: { column: number; rising: boolean } = { column: -1, rising: false };
  private updatedAt = 0;
  private inOrder = false; // whether rows have been sorted since the column was chosen

  constructor(private readonly state: ViewerState) {
    this.heads = COLUMNS.map(({ name, label, tip }, column) =>
      el("th", { data: { column: name }, attributes: { scope: "col" } }, [
        el("button", {
          text: label,
          data: { tip: `${tip}; click sorts` },
          attributes: { type: "button" },
          onclick: () => this.sort(column),
        }),
      ]),
    );
    this.table.append(el("thead", {}, [el("tr", {}, [el("th", { text: "Mech" }), ...this.heads])]));
    this.root = dialog("table", "Scoreboard", () => (state.showTable = false), [this.table, this.note], this.title);
  }

  private sort(column: number): void {
    const same = this.sorting.column === column;
    this.sorting = { column, rising: same && !this.sorting.rising };
    this.heads.forEach((head, i) => {
      if (i === column) head.setAttribute("aria-sort", this.sorting.rising ? "ascending" : "descending");
      else head.removeAttribute("aria-sort");
    });
    this.updatedAt = 0;
    this.inOrder = false;
  }

  private open(match: MatchState): void {
    this.shown = match;
    this.inOrder = false;
    const { header } = match;
    const packs = packsOf(header);
    this.teams = ([0, 1] as const).map((team) => {
      const own = packs.filter((pack) => pack.team === team);
      const few = own.length <= FEW_PACKS;
      const groups = own.map((pack): Group => {
        const rows = pack.mechs.map((mech) =>
          makeRow("mech", [mech], mechName(header, mech), () => control.select(this.state, mech, false)),
        );
        const group: Group = {
          ...makeRow("pack", pack.mechs, `Pack ${pack.number}`, () => {
            group.open = !group.open;
            [this.updatedAt, this.inOrder] = [0, false];
          }),
          rows,
          open: few,
        };
        return group;
      });
      const body = el("tbody", { class: team === 0 ? "blue" : "red" });
      const mechs = own.flatMap((pack) => pack.mechs);
      return { ...makeRow("team", mechs, sideName(header, team)), body, packs: groups };
    });
    this.table.replaceChildren(this.table.children[0], ...this.teams.map(({ body }) => body));
  }

  update(match: MatchState): void {
    this.root.hidden = !this.state.showTable;
    const now = performance.now();
    if (this.root.hidden || now - this.updatedAt < UPDATE_MS) return;
    this.updatedAt = now;
    if (this.shown !== match) this.open(match);
    const { header, scan, index } = match;
    const hz = header.tick_hz;
    setText(this.title, `Scoreboard at ${clockText(this.state.tick / hz)}`);
    const figures = scan.figures.at(match, this.state.tick);
    const from = firstTick(match);
    const read = Math.round((100 * scan.figures.chunks) / Math.max(1, index.chunks.length));
    const begin = from > 0 ? `Figures count from ${clockText(from / hz)}, where the recording begins.` : "";
    setText(this.note, figures ? `Damage: ${COUNTED}. ${begin}` : `Reading the match: ${Math.min(100, read)} %`);
    this.note.hidden = this.note.textContent === "";
    const known = !Number.isNaN(match.poses.tick);
    // rows keep their places while they are read
    const sorts = !this.inOrder || !this.table.matches(":has(tbody:hover)");
    this.inOrder ||= figures !== null;
    for (const team of this.teams) {
      const scopeOf = ({ mechs }: Row): Scope => ({ match, mechs, figures });
      const inOrder = <R extends Row>(rows: readonly R[]) =>
        sortedBy(rows.map(scopeOf), this.sorting.column, this.sorting.rising).map((i) => rows[i]);
      const rows = inOrder(team.packs).flatMap((pack) => [
        ...(team.packs.length > 1 ? [pack] : []),
        ...(team.packs.length <= 1 || pack.open ? inOrder(pack.rows) : []),
      ]);
      if (sorts || !known)
        replaceChanged(
          team.body,
          (known ? [team, ...rows] : []).map(({ root }) => root),
        );
      for (const row of known ? [team, ...rows] : []) this.fill(row, scopeOf(row));
      for (const { root, open } of team.packs)
        root.querySelector("button")?.setAttribute("aria-expanded", String(open));
    }
  }

  private fill({ root, cells, mechs }: Row, scope: Scope): void {
    cellsOf(scope).forEach((text, k) => setText(cells[k], text));
    root.classList.toggle("dead", living(scope) === 0 && mechs.every((mech) => isShown(scope.match, mech)));
    root.classList.toggle("selected", mechs.length === 1 && mechs[0] === this.state.selected);
  }
}

function makeRow(kind: string, mechs: readonly number[], name: string, onclick?: () => void): Row {
  const head = onclick ? el("button", { text: name, attributes: { type: "button" }, onclick }) : name;
  const cells = COLUMNS.map((column) => el("td", { data: { column: column.name } }));
  const root = el("tr", { class: kind, ...(kind === "mech" ? { data: { mech: String(mechs[0]) } } : {}) }, [
    el("th", { attributes: { scope: "row" } }, [head]),
    ...cells,
  ]);
  return { root, cells, mechs };
}
