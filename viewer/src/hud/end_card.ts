// The card at the end of a match: who won and why, the turning points, the best mech, measured mistakes, and what to do
// next. It opens where playback or the cursor arrives at the end, never over a match that plays, and once closed it
// stays away until the cursor arrives again.

import * as control from "../control";
import type { Figures } from "../data/figures";
import { isOver, resultText } from "../score_text";
import { type MatchState, type ViewerState, inCatalogue } from "../state";
import { className, mechName } from "../text";
import { dialog, el, setText, textButton } from "./dom";
import type { Panel } from "./panels";

const MOMENTS = 3; // turning points that are listed

/** Return the mech with most kills, of equal ones that with most damage to hostiles. */
export function bestMech({ kills, damage }: Figures): number {
  return [...kills.keys()].reduce((best, mech) => {
    const more = kills[mech] - kills[best] || damage[mech] - damage[best];
    return more > 0 ? mech : best;
  }, 0);
}

export class EndCard {
  readonly root: HTMLElement;
  private readonly headline = el("h2");
  private readonly details = el("p", { class: "soft" });
  private readonly moments = el("div", { class: "end-moments" });
  private readonly best = el("p");
  private readonly next: HTMLButtonElement;
  private arrived: MatchState | null = null; // match at whose end the cursor is

  constructor(
    private readonly state: ViewerState,
    private readonly coach: Panel,
    showNext: () => void,
  ) {
    this.next = textButton("Next match", showNext, "button wide framed");
    const again = textButton("Watch again", () => this.watchFrom(0), "button wide framed");
    const table = textButton("Scoreboard", () => control.toggle(state, "showTable"), "button wide framed");
    const close = () => (state.showEnd = false);
    const parts = [
      this.details,
      this.moments,
      this.best,
      coach.root,
      el("div", { class: "end-choices" }, [this.next, again, table]),
    ];
    this.root = dialog("end-card", "Result", close, parts, this.headline);
  }

  update(match: MatchState): void {
    const { state } = this;
    const { outcome } = match.index;
    const over = outcome !== null && !state.playing && !state.awaitsPicture && isOver(match, state.tick);
    if (!over) state.showEnd = false;
    else if (this.arrived !== match) this.open(match);
    this.arrived = over ? match : null;
    this.root.hidden = !state.showEnd || state.showTable;
    if (this.root.hidden) return;
    this.coach.update(match);
    if (this.best.textContent === "") this.showBest(match);
  }

  private open(match: MatchState): void {
    const { header, index, moments } = match;
    setText(this.best, "");
    if (!index.outcome) return;
    this.state.showEnd = true;
    const { headline, details } = resultText(header, index.outcome);
    setText(this.headline, headline);
    setText(this.details, details);
    this.root.dataset.team = ["blue", "red", "draw"][index.outcome.winner];
    const shown = moments.filter(({ rank }) => rank <= MOMENTS);
    this.moments.replaceChildren(
      ...(shown.length > 0 ? [el("h3", { text: "Turning points" })] : []),
      ...shown.map(({ caption, tick }) => textButton(caption, () => this.watchFrom(tick), "button end-moment")),
    );
    this.next.hidden = !inCatalogue(match);
  }

  /** Show the best mech as soon as the match has been read. */
  private showBest(match: MatchState): void {
    const { header, scan } = match;
    const figures = scan.figures.at(match, this.state.tick);
    if (!figures) return;
    const best = bestMech(figures);
    const [kills, damage] = [figures.kills[best], Math.round(figures.damage[best])];
    const what = `${kills} ${kills === 1 ? "kill" : "kills"}, ${damage} damage`;
    setText(
      this.best,
      `Best mech by kills, then damage: ${mechName(header, best)}, ${className(header, best)} (${what})`,
    );
  }

  private watchFrom(tick: number): void {
    control.watchFrom(this.state, tick);
  }
}
