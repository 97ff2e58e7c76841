// The card of a first visit: who plays, how a match is won, and three keys. Once closed it does not come back.

import type { MatchState } from "../state";
import { el, setText } from "./dom";
import { goalText } from "./score_text";
import { sideName } from "./text";

const KEY = "echelon.welcomed"; // in the browser's storage
const KEYS = [
  ["Space", "play or pause"],
  ["N", "jump to the next turning point"],
  ["?", "all shortcuts and the legend"],
] as const;

/** Return whether the card was closed before; also without access to the browser's storage. */
function wasClosed(): boolean {
  try {
    return localStorage.getItem(KEY) !== null;
  } catch {
    return true;
  }
}

/** The card. */
export class WelcomeCard {
  private readonly blue = el("b");
  private readonly red = el("b");
  private readonly goal = el("p");
  readonly root: HTMLElement;

  constructor() {
    const side = (name: "blue" | "red", text: HTMLElement) =>
      el("span", { class: `welcome-team ${name}` }, [el("span", { class: "team-sign" }), text]);
    this.root = el("section", { class: "welcome panel", aria: { label: "Welcome" } }, [
      el("p", { class: "welcome-teams" }, [side("blue", this.blue), "against", side("red", this.red)]),
      this.goal,
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

  private close(): void {
    this.root.hidden = true;
    try {
      localStorage.setItem(KEY, "1");
    } catch {
      // without storage it stays closed until the page is loaded again
    }
  }
}
