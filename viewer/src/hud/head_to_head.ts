// The head-to-head table: each row's share of points against each column. A cell is coloured only where the result is
// significant, marked by symbols as well, and links to the matches of the pair.

import type { LeagueFilter } from "../data/league";
import type { Pair, PairsView } from "../protocol.gen";
import { VERDICT_COLOURS } from "../palette";
import { leagueHash } from "../routes";
import { el, setText } from "./dom";
import { entryName } from "../text";

const MOST_SHOWN = 30; // most entries in the table: the strongest and the selected ones
const MOST_CYCLES = 4; // most listed cycles
const FAINTEST = 0.34; // colour strength of a share of one half, 0 to 1
const STRONGEST = 0.62; // colour strength of a share of 1
const SIGNS = { won: "▲", lost: "▼", "": "" } as const;

/** Return the sRGB colour of a cell: that of the verdict, stronger the farther the share is from one half. */
export function cellColour({ verdict, score }: Pick<Pair, "verdict" | "score">): number {
  if (verdict === "") return VERDICT_COLOURS.open;
  const part = FAINTEST + (STRONGEST - FAINTEST) * Math.min(1, Math.abs(score - 0.5) * 2);
  const channel = (shift: number) => {
    const [from, to] = [(VERDICT_COLOURS.open >> shift) & 255, (VERDICT_COLOURS[verdict] >> shift) & 255];
    return Math.round(from + (to - from) * part) << shift;
  };
  return channel(16) | channel(8) | channel(0);
}

/** Return a colour in CSS notation. */
export function cssOf(colour: number): string {
  return `#${colour.toString(16).padStart(6, "0")}`;
}

/** Return a pair's result as a sentence. */
export function pairText(one: string, other: string, pair: Pair): string {
  const games = pair.wins + pair.draws + pair.losses;
  const percent = (share: number) => Math.round(100 * share);
  const verdict = {
    won: "significantly more than half",
    lost: "significantly less than half",
    "": "inconclusive at 95 %",
  }[pair.verdict];
  return (
    `${one} against ${other}: ${pair.wins} won, ${pair.draws} drawn, ${pair.losses} lost of ${games}. ` +
    `Win rate ${percent(pair.low)} to ${percent(pair.high)} % ` +
    `(95 % confidence interval), ${verdict}; the ratings predict ${percent(pair.expected)} % of the points.`
  );
}

/** Return a cycle as text, e.g. "A beats B beats C beats A". */
export function cycleText(names: readonly string[]): string {
  return [...names, names[0]].join(" beats ");
}

/** Return the entries to show: the strongest and the selected ones, in order of strength. */
export function visibleEntries(ids: readonly string[], chosen: readonly string[], most: number): string[] {
  const shown = new Set(ids.filter((id) => chosen.includes(id)).slice(0, most));
  for (const id of ids) if (shown.size < most) shown.add(id);
  return ids.filter((id) => shown.has(id));
}

/** The table, its legend and the cycles. */
export class PairTable {
  private readonly head = el("tr");
  private readonly rows = el("tbody");
  private readonly note = el("p", { class: "small" });
  private readonly rings = el("ul", { class: "rings" });
  readonly root: HTMLElement;
  private drawn: readonly unknown[] = [];

  constructor() {
    const scroll = el(
      "div",
      {
        class: "pairs-scroll",
        attributes: { tabindex: "0", role: "region" },
        aria: { label: "Head-to-head results, scrollable table" },
      },
      [
        el("table", { class: "pairs" }, [
          el("caption", {
            class: "visually-hidden",
            text: "Share of points of each row against each column, in per cent",
          }),
          el("thead", {}, [this.head]),
          this.rows,
        ]),
      ],
    );
    this.root = el("section", { class: "league-pairs", aria: { label: "Head-to-head results" } }, [
      el("h3", { text: "Head-to-head results" }),
      this.rings,
      scroll,
      legend(),
      this.note,
    ]);
  }

  update(view: PairsView | null, { entry, against }: LeagueFilter): void {
    const key = [view, entry, against];
    if (key.every((value, i) => value === this.drawn[i]) && this.drawn.length > 0) return;
    this.drawn = key;
    this.root.hidden = view === null || view.pairs.length === 0;
    if (!view || this.root.hidden) return;
    const names = new Map(view.entries.map(({ id, name }) => [id, entryName(id, name)]));
    const ranks = new Map(view.entries.map(({ id }, at) => [id, at + 1]));
    const ids = visibleEntries([...names.keys()], [entry, against], MOST_SHOWN);
    const results = new Map(view.pairs.map((pair) => [JSON.stringify([pair.id, pair.against]), pair]));
    const omitted = view.total - ids.length;
    setText(
      this.note,
      omitted > 0 ? `Shows the strongest and the selected pilots; ${omitted} of ${view.total} are omitted.` : "",
    );
    this.note.hidden = omitted === 0;
    this.head.replaceChildren(
      el("th", { class: "name", attributes: { scope: "col" }, text: "Pilot" }),
      ...ids.map((id) =>
        el("th", {
          class: id === entry || id === against ? "chosen" : "",
          text: String(ranks.get(id)),
          title: names.get(id),
          attributes: { scope: "col" },
          aria: { label: names.get(id) ?? id },
        }),
      ),
    );
    this.rows.replaceChildren(
      ...ids.map((id) =>
        el("tr", { class: id === entry ? "chosen" : "" }, [
          el("th", { class: "name", attributes: { scope: "row" }, title: names.get(id) }, [
            el("span", { class: "rank", text: String(ranks.get(id)) }),
            names.get(id) ?? id,
          ]),
          ...ids.map((other) =>
            pairCell(id, other, names, results.get(JSON.stringify([id, other])), id === entry && other === against),
          ),
        ]),
      ),
    );
    const more = view.cycles.length - MOST_CYCLES;
    this.rings.hidden = view.cycles.length === 0;
    this.rings.replaceChildren(
      ...view.cycles
        .slice(0, MOST_CYCLES)
        .map((cycle) => cycle.map((name) => entryName(view.entries.find((each) => each.name === name)?.id ?? "", name)))
        .map((cycle) => el("li", {}, [el("b", { text: "Cycle: " }), cycleText(cycle)])),
      ...(more > 0 ? [el("li", { text: `and ${more} more ${more === 1 ? "cycle" : "cycles"} of three` })] : []),
    );
  }
}

function pairCell(
  id: string,
  other: string,
  names: ReadonlyMap<string, string>,
  pair: Pair | undefined,
  chosen: boolean,
): HTMLElement {
  if (!pair) return el("td", { class: id === other ? "self" : "unmet", text: id === other ? "" : "·" });
  const text = pairText(names.get(id) ?? id, names.get(other) ?? other, pair);
  const games = pair.wins + pair.draws + pair.losses;
  const link = el(
    "a",
    {
      title: text,
      attributes: { href: leagueHash({ entry: id, against: other }) },
      aria: { label: text, ...(chosen ? { current: "true" } : {}) },
    },
    [
      el("b", { text: String(Math.round(100 * pair.score)) }),
      el("i", { text: SIGNS[pair.verdict] }),
      el("small", { text: `of ${games}` }),
    ],
  );
  const cell = el("td", { class: pair.verdict === "" ? "open" : pair.verdict }, [link]);
  cell.style.background = cssOf(cellColour(pair));
  return cell;
}

function legend(): HTMLElement {
  const swatch = (verdict: Pair["verdict"], score: number, text: string) => {
    const sign = el("i", { text: SIGNS[verdict] });
    sign.style.background = cssOf(cellColour({ verdict, score }));
    return el("li", {}, [sign, text]);
  };
  return el("ul", { class: "pairs-legend", aria: { label: "Legend" } }, [
    swatch("won", 0.9, "wins significantly more than half"),
    swatch("lost", 0.1, "wins significantly less than half"),
    swatch("", 0.5, "Inconclusive at 95 %"),
    el("li", {}, [el("i", { text: "·" }), "no matches played"]),
    el("li", {
      class: "how",
      text: "Each cell: share of points of row against column in per cent (a draw is half), and number of matches.",
    }),
  ]);
}
