// The league page: ratings with 95 % intervals on one scale, and unfinished rounds. Names come from other users and are
// inserted as text.

import type { LeagueView, Round, Standing } from "../protocol.gen";
import type { LeagueState } from "../state";
import { el, setShare, setText } from "./dom";
import { brand, pageLinks } from "./page_header";
import { entryName } from "../text";

const MOST_TICKS = 4; // most steps of the scale, so that their labels do not touch
const STEPS = [1, 2, 5, 10];
const LEAST_SPAN = 100; // least length of the scale [points]
const EMPTY_TEXT =
  "No league here yet. Start one with `echelon arena run`, or with a training run that plays in a league.";

/** A scale of ratings: its ends and round values between them [points]. */
export interface Scale {
  low: number;
  high: number;
  ticks: number[];
}

export function scaleOf(standings: readonly Standing[]): Scale {
  const [from, to] = [Math.min(...standings.map((row) => row.low)), Math.max(...standings.map((row) => row.high))];
  const slack = Math.max(0, LEAST_SPAN - (to - from)) / 2;
  const [low, high] = [from - slack, to + slack];
  const rough = (high - low) / MOST_TICKS;
  const decade = 10 ** Math.floor(Math.log10(rough));
  const step = decade * (STEPS.find((factor) => factor * decade >= rough) ?? 1);
  const first = Math.ceil(low / step);
  const ticks = Array.from({ length: Math.floor(high / step) - first + 1 }, (_, i) => (first + i) * step);
  return { low, high, ticks };
}

export function shareOn(scale: Scale, rating: number): number {
  return (rating - scale.low) / (scale.high - scale.low);
}

function kindText({ kind, retired }: Standing): string {
  return kind === "heuristic" ? "scripted" : retired ? `${kind} (retired)` : kind;
}

const percent = (share: number): string => `${(100 * share).toFixed(2)}%`;

export class LeaguePage {
  private readonly rows = el("tbody");
  private readonly axis = el("div", { class: "scale-axis", aria: { hidden: "true" } });
  private readonly rounds = el("ul", { class: "rounds" });
  private readonly table: HTMLElement;
  private readonly body: HTMLElement;
  private readonly empty = el("div", { class: "list-empty" });
  readonly root: HTMLElement;
  private drawn = ""; // what the page was rendered from

  constructor() {
    const heads: [string, string][] = [
      ["#", "rank"],
      ["Pilot", "name"],
      ["Rating", "rating"],
      ["", "scale"],
      ["Games", "games"],
      ["Won – drawn – lost", "record"],
    ];
    this.table = el("table", { class: "standings" }, [
      el("caption", { class: "visually-hidden", text: "Standings: each rating with its 95 % interval" }),
      el("thead", {}, [
        el(
          "tr",
          {},
          heads.map(([text, name]) =>
            el(
              "th",
              { class: name, attributes: { scope: "col" }, aria: name === "scale" ? { label: "95 % interval" } : {} },
              [name === "scale" ? this.axis : text],
            ),
          ),
        ),
      ]),
      this.rows,
    ]);
    this.body = el("section", { class: "league-body", aria: { label: "Standings" } }, [
      this.table,
      el("p", {
        class: "small",
        text: "Bars are 95 % confidence intervals of the ratings; the scripted level medium is fixed at 1500.",
      }),
      this.rounds,
    ]);
    this.root = el("main", { class: "list-page league-page" }, [
      el("header", { class: "hero" }, [brand("Ratings and their uncertainty")]),
      el("div", { class: "filters" }, [pageLinks("league")]),
      this.empty,
      this.body,
    ]);
  }

  update({ view, loading }: LeagueState): void {
    const key = JSON.stringify([view, loading]);
    if (key === this.drawn) return;
    this.drawn = key;
    const known = view !== null && view.standings.length > 0;
    this.empty.hidden = known;
    this.body.hidden = !known;
    setText(this.empty, loading ? "Loading league…" : EMPTY_TEXT);
    if (known) this.fill(view);
  }

  private fill(view: LeagueView): void {
    const scale = scaleOf(view.standings);
    this.axis.replaceChildren(
      ...scale.ticks.map((tick) => {
        const mark = el("span", { text: String(tick) });
        mark.style.left = percent(shareOn(scale, tick));
        return mark;
      }),
    );
    this.rows.replaceChildren(...view.standings.map((row, at) => this.standing(row, at + 1, scale)));
    this.rounds.replaceChildren(...view.unfinished.map((round) => this.round(round)));
  }

  private standing(row: Standing, rank: number, scale: Scale): HTMLElement {
    const margin = Math.round(row.high - row.rating);
    const bar = el("i", { class: "interval" });
    const dot = el("i", { class: "dot" });
    bar.style.left = percent(shareOn(scale, row.low));
    bar.style.right = percent(1 - shareOn(scale, row.high));
    dot.style.left = percent(shareOn(scale, row.rating));
    const lines = scale.ticks.map((tick) => {
      const line = el("i", { class: "line" });
      line.style.left = percent(shareOn(scale, tick));
      return line;
    });
    const name = el("b", { text: entryName(row.id, row.name), title: row.id });
    return el("tr", { class: row.kind, data: { entry: row.id } }, [
      el("td", { class: "rank soft", text: String(rank) }),
      el("th", { class: "name", attributes: { scope: "row" } }, [
        el("div", {}, [name, el("small", { class: "small", text: kindText(row) })]),
      ]),
      el("td", { class: "rating" }, [
        el("b", { text: String(Math.round(row.rating)) }),
        el("small", { class: "small", text: `± ${margin}` }),
      ]),
      el("td", { class: "scale", title: `${Math.round(row.low)} to ${Math.round(row.high)}` }, [
        el("div", {}, [...lines, bar, dot]),
      ]),
      el("td", { class: "games", text: String(row.games) }),
      el("td", { class: "record" }, [this.record(row)]),
    ]);
  }

  private record({ wins, draws, losses }: Standing): HTMLElement {
    const all = Math.max(1, wins + draws + losses);
    const parts = (
      [
        ["won", wins],
        ["drawn", draws],
        ["lost", losses],
      ] as const
    ).map(([name, count]) => {
      const part = el("i", { class: name });
      setShare(part, count / all);
      return part;
    });
    return el("div", {}, [
      el("span", { text: `${wins} – ${draws} – ${losses}` }),
      el("div", { class: "shares", aria: { hidden: "true" } }, parts),
    ]);
  }

  private round({ job, round, matches, played }: Round): HTMLElement {
    const bar = el("i");
    setShare(bar, matches > 0 ? played / matches : 0);
    return el("li", {}, [
      el("span", { text: `Round ${round} of ${job}: ${played} of ${matches} matches` }),
      el("div", { class: "progress", aria: { hidden: "true" } }, [bar]),
    ]);
  }
}
