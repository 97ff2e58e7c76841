// The part of the list of matches that starts one to fly: the tutorial, or an opponent of the ladder.

import { el, setText, textButton } from "../hud/dom";
import { LADDER, climbed } from "./ladder";
import type { PlaySession } from "./session";
import { sessionProblem } from "./take_over";

const TUTORIAL = "still"; // opponent of the tutorial

export class StartForm {
  readonly root: HTMLElement;
  private readonly note = el("span", { class: "soft", attributes: { role: "status" } });
  private readonly rungs: readonly HTMLButtonElement[];

  constructor(private readonly play: PlaySession) {
    const rung = (name: string, opponent: string) => textButton(name, () => play.challenge(opponent), "button framed");
    this.rungs = LADDER.map((name) => rung(name, name));
    this.root = el("section", { class: "panel start-form", aria: { label: "Fly a mech" } }, [
      el("h2", { text: "Fly a mech" }),
      this.note,
      el("div", { class: "ladder" }, [rung("Tutorial", TUTORIAL), ...this.rungs]),
    ]);
  }

  update(): void {
    const { play } = this;
    const waits = play.phase === "connecting"; // the form has its place before the session answers
    this.root.hidden = play.phase !== "ready" && !waits;
    if (this.root.hidden) return;
    const beaten = climbed();
    this.rungs.forEach((rung, i) => {
      setText(rung, i < beaten ? `✓ ${LADDER[i]}` : LADDER[i]);
      rung.classList.toggle("primary", i === beaten);
    });
    for (const rung of this.root.querySelectorAll("button")) rung.disabled = waits;
    const next = LADDER[beaten];
    const order = next
      ? `Opponents from weak to strong; your next one is ${next}. You fly with keyboard and mouse, gamepad or touch.`
      : "You have beaten every opponent of the ladder.";
    setText(this.note, play.problem || play.progress || (waits ? sessionProblem(play) : order));
    this.note.classList.toggle("problem-line", play.problem !== "");
  }
}
