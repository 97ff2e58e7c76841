// The card of a first visit: who plays, how a match is won, its decisive moment, and three keys. Once closed it stays
// away.

import * as control from "../control";
import { topMoment } from "../data/moments";
import type { MatchState, ViewerState } from "../state";
import { clockText } from "../timeline";
import { el, setText } from "./dom";
import { goalText } from "../score_text";
import { sideName } from "../text";

const KEY = "echelon.welcomed"; // in the browser's storage
const KEYS = [
  ["Space", "play or pause"],
  ["N", "next turning point"],
  ["?", "shortcuts, legend"],
] as const;

/** Return whether the card was closed before; also without access to the browser's storage. */
function wasClosed(): boolean {
  try {
    return localStorage.getItem(KEY) !== null;
  } catch {
    return true;
  }
}

export class WelcomeCard {
  private readonly blue = el("b");
  private readonly red = el("b");
  private readonly goal = el("p");
  private readonly moment: HTMLElement;
  private moments: MatchState["moments"] | null = null;
  readonly root: HTMLElement;

  constructor(private readonly state: ViewerState) {
    this.moment = el("button", {
      class: "button welcome-moment",
      attributes: { type: "button" },
      onclick: () => this.playTopMoment(),
    });
    const side = (name: "blue" | "red", text: HTMLElement) =>
      el("span", { class: `welcome-team ${name}` }, [el("span", { class: "team-sign" }), text]);
    this.root = el("section", { class: "welcome panel", aria: { label: "Welcome" } }, [
      el("p", { class: "welcome-teams" }, [side("blue", this.blue), "against", side("red", this.red)]),
      this.goal,
      this.moment,
      el(
        "dl",
        {},
        KEYS.flatMap(([key, text]) => [el("dt", {}, [el("kbd", { text: key })]), el("dd", { text })]),
      ),
      el("button", {
        class: "button welcome-close",
        text: "Got it",
        attributes: { type: "button" },
        onclick: () => this.close(),
      }),
    ]);
    this.root.hidden = wasClosed();
  }

  open(match: MatchState): void {
    setText(this.blue, sideName(match.header, 0));
    setText(this.red, sideName(match.header, 1));
    setText(this.goal, `${goalText(match.header)}. A team alone in the zone gains a point a second.`);
  }

  update({ header, moments }: MatchState): void {
    if (moments === this.moments) return;
    this.moments = moments;
    const top = topMoment(moments);
    this.moment.hidden = top === null;
    if (top) setText(this.moment, `Watch the decisive moment, ${clockText(top.tick / header.tick_hz)}`);
  }

  private playTopMoment(): void {
    const { match } = this.state;
    const top = match && topMoment(match.moments);
    if (!match || !top) return;
    this.state.playing = true;
    control.seek(this.state, Math.max(0, top.tick - control.LEAD_IN_S * match.header.tick_hz));
  }

  private close(): void {
    this.root.hidden = true;
    try {
      localStorage.setItem(KEY, "1");
    } catch {
      // without storage it stays closed until the page is loaded again
    }
  }
}
