// The card of a first visit: who plays, how a match is won, its decisive moment, and three keys. Once closed it stays
// away.

import * as control from "../control";
import { topMoment } from "../data/moments";
import { mayShow } from "../spoilers";
import type { MatchState, ViewerState } from "../state";
import { recall, remember } from "../storage";
import { clockText } from "../timeline";
import { el, setText, textButton } from "./dom";
import { goalText } from "../score_text";
import { sideName } from "../text";

const KEYS = [
  ["Space", "play or pause"],
  ["N", "next turning point"],
  ["?", "shortcuts, legend"],
] as const;

export class WelcomeCard {
  private readonly blue = el("b");
  private readonly red = el("b");
  private readonly goal = el("p");
  private readonly moment: HTMLElement;
  readonly root: HTMLElement;

  constructor(private readonly state: ViewerState) {
    this.moment = textButton("", () => this.playTopMoment(), "button framed welcome-moment");
    const side = (name: "blue" | "red", text: HTMLElement) =>
      el("span", { class: `welcome-team ${name}` }, [el("span", { class: "team-sign" }), text]);
    const keys = KEYS.flatMap(([key, text]) => [el("dt", {}, [el("kbd", { text: key })]), el("dd", { text })]);
    this.root = el("section", { class: "welcome panel", aria: { label: "Welcome" } }, [
      el("p", { class: "welcome-teams" }, [side("blue", this.blue), "against", side("red", this.red)]),
      this.goal,
      this.moment,
      el("dl", {}, keys),
      textButton("Got it", () => this.close(), "button framed welcome-close"),
    ]);
    this.root.hidden = recall("welcomed") !== null; // also where the browser cannot remember that it was closed
  }

  open(match: MatchState): void {
    setText(this.blue, sideName(match.header, 0));
    setText(this.red, sideName(match.header, 1));
    setText(this.goal, goalText(match.header));
  }

  update({ header, moments }: MatchState): void {
    const top = mayShow(this.state) ? topMoment(moments) : null;
    this.moment.hidden = top === null;
    if (top) setText(this.moment, `Watch the decisive moment, ${clockText(top.tick / header.tick_hz)}`);
  }

  private playTopMoment(): void {
    const top = topMoment(this.state.match?.moments ?? []);
    if (top) control.watchFrom(this.state, top.tick);
  }

  private close(): void {
    this.root.hidden = true;
    remember("welcomed", "1");
  }
}
