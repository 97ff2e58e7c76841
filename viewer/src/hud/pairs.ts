// Who beats whom, as a table: each row's share of the points against each column. A share is coloured only where it is
// beyond doubt, by signs as well as by colour, and leads to the matches of the two.

import type { LeagueChoice } from "../data/league";
import type { Pair, PairsView } from "../protocol.gen";
import { DUEL } from "../palette";
import { leagueHash } from "../routes";
import { el, setText } from "./dom";

const MOST_SHOWN = 30; // entries in the table, the strongest and who is chosen
const MOST_RINGS = 4; // that are named
const FAINTEST = 0.34; // how far a share of one half is from the ground to the colour, 0 to 1
const STRONGEST = 0.62; // the same of a share of all
const SIGNS = { won: "▲", lost: "▼", "": "" } as const;

/** Colour of a cell, sRGB: that of the verdict, stronger the farther the share is from one half. */
export function shade({ verdict, score }: Pick<Pair, "verdict" | "score">): number {
  if (verdict === "") return DUEL.open;
  const part = FAINTEST + (STRONGEST - FAINTEST) * Math.min(1, Math.abs(score - 0.5) * 2);
  const channel = (shift: number) => {
    const [from, to] = [(DUEL.open >> shift) & 255, (DUEL[verdict] >> shift) & 255];
    return Math.round(from + (to - from) * part) << shift;
  };
  return channel(16) | channel(8) | channel(0);
}

/** A colour as style sheets write it. */
export function cssOf(colour: number): string {
  return `#${colour.toString(16).padStart(6, "0")}`;
}

/** How one fared against another, in a sentence. */
export function pairText(one: string, other: string, pair: Pair): string {
  const games = pair.wins + pair.draws + pair.losses;
  const part = (share: number) => Math.round(100 * share);
  const beyond = { won: "more than half beyond doubt", lost: "fewer than half beyond doubt", "": "in doubt" }[pair.verdict];
  return `${one} against ${other}: ${pair.wins} won, ${pair.draws} drawn, ${pair.losses} lost of ${games}. Wins ${part(pair.low)} to ${part(pair.high)} % `
    + `with 95 % certainty, ${beyond}; the ratings expect ${part(pair.expected)} % of the points.`;
}

/** A ring in words. */
export function ringText(names: readonly string[]): string {
  return [...names, names[0]].join(" beats ");
}

/** The ids to show: the strongest, and who is chosen even if weaker, in order. */
export function shownOf(ids: readonly string[], chosen: readonly string[], most: number): string[] {
  const kept = new Set(ids.filter((id) => chosen.includes(id)).slice(0, most));
  for (const id of ids) if (kept.size < most) kept.add(id);
  return ids.filter((id) => kept.has(id));
}

/** The table, its legend and the rings. */
export class PairTable {
  private readonly head = el("tr");
  private readonly rows = el("tbody");
  private readonly note = el("p", { class: "small" });
  private readonly rings = el("ul", { class: "rings" });
  readonly root: HTMLElement;
  private drawn: readonly unknown[] = [];

  constructor() {
    const scroll = el("div", { class: "pairs-scroll", attributes: { tabindex: "0", role: "region" }, aria: { label: "Who beats whom, a table that scrolls" } }, [
      el("table", { class: "pairs" }, [
        el("caption", { class: "unseen", text: "Share of the points of each row against each column, in per cent" }),
        el("thead", {}, [this.head]), this.rows,
      ]),
    ]);
    this.root = el("section", { class: "league-pairs", aria: { label: "Who beats whom" } }, [
      el("h3", { text: "Who beats whom" }), this.rings, scroll, legend(), this.note,
    ]);
  }

  update(view: PairsView | null, { entry, against }: LeagueChoice): void {
    const key = [view, entry, against];
    if (key.every((value, i) => value === this.drawn[i]) && this.drawn.length > 0) return;
    this.drawn = key;
    this.root.hidden = view === null || view.pairs.length === 0;
    if (!view || this.root.hidden) return;
    const names = new Map(view.entries.map(({ id, name }) => [id, name]));
    const ranks = new Map(view.entries.map(({ id }, at) => [id, at + 1]));
    const ids = shownOf([...names.keys()], [entry, against], MOST_SHOWN);
    const met = new Map(view.pairs.map((pair) => [JSON.stringify([pair.id, pair.against]), pair]));
    const left = names.size - ids.length;
    setText(this.note, left > 0 ? `${left} of ${names.size} pilots are left out: shown are the strongest and who is chosen.` : "");
    this.note.hidden = left === 0;
    this.head.replaceChildren(el("th", { class: "name", attributes: { scope: "col" }, text: "Pilot" }), ...ids.map((id) =>
      el("th", { class: id === entry || id === against ? "chosen" : "", text: String(ranks.get(id)), title: names.get(id), attributes: { scope: "col" }, aria: { label: names.get(id) ?? id } })));
    this.rows.replaceChildren(...ids.map((id) => el("tr", { class: id === entry ? "chosen" : "" }, [
      el("th", { class: "name", attributes: { scope: "row" }, title: names.get(id) }, [el("span", { class: "rank", text: String(ranks.get(id)) }), names.get(id) ?? id]),
      ...ids.map((other) => cell(id, other, names, met.get(JSON.stringify([id, other])), id === entry && other === against)),
    ])));
    const more = view.cycles.length - MOST_RINGS;
    this.rings.hidden = view.cycles.length === 0;
    this.rings.replaceChildren(
      ...view.cycles.slice(0, MOST_RINGS).map((ring) => el("li", {}, [el("b", { text: "Ring: " }), ringText(ring)])),
      ...(more > 0 ? [el("li", { text: `and ${more} more ${more === 1 ? "ring" : "rings"} of three` })] : []),
    );
  }
}

function cell(id: string, other: string, names: ReadonlyMap<string, string>, pair: Pair | undefined, chosen: boolean): HTMLElement {
  if (!pair) return el("td", { class: id === other ? "self" : "unmet", text: id === other ? "" : "·" });
  const said = pairText(names.get(id) ?? id, names.get(other) ?? other, pair);
  const games = pair.wins + pair.draws + pair.losses;
  const link = el("a", { title: said, attributes: { href: leagueHash({ entry: id, against: other }) }, aria: { label: said, ...(chosen ? { current: "true" } : {}) } }, [
    el("b", { text: String(Math.round(100 * pair.score)) }), el("i", { text: SIGNS[pair.verdict] }), el("small", { text: `of ${games}` }),
  ]);
  const made = el("td", { class: pair.verdict === "" ? "open" : pair.verdict }, [link]);
  made.style.background = cssOf(shade(pair));
  return made;
}

function legend(): HTMLElement {
  const swatch = (verdict: Pair["verdict"], score: number, text: string) => {
    const sign = el("i", { text: SIGNS[verdict] });
    sign.style.background = cssOf(shade({ verdict, score }));
    return el("li", {}, [sign, text]);
  };
  return el("ul", { class: "pairs-legend", aria: { label: "What the colours mean" } }, [
    swatch("won", 0.9, "wins more than half, beyond doubt"),
    swatch("lost", 0.1, "is beaten more than half the time, beyond doubt"),
    swatch("", 0.5, "in doubt: 95 % certainty does not tell who wins"),
    el("li", {}, [el("i", { text: "·" }), "never met"]),
    el("li", { class: "how", text: "Numbers are the row’s share of the points against the column in per cent, a draw being half; below, of how many matches." }),
  ]);
}
