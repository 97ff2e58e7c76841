// The part of the list of matches that starts one to fly: the tutorial, or an opponent of the ladder. On a page without
// a server also the size of the game, and matches to watch.

import { el, option, setText, textButton } from "../hud/dom";
import { LEVELS } from "./ladder";
import type { PlaySession } from "./session";
import { sessionProblem } from "./take_over";
import type { Watch } from "./watch";

const TUTORIAL = "still"; // opponent of the tutorial

export class StartForm {
  readonly root: HTMLElement;
  private readonly note = el("span", { class: "soft", attributes: { role: "status" } });
  private readonly watchNote = el("span", { class: "soft", attributes: { role: "status" } });
  private readonly fly: HTMLElement;
  private readonly tutorial: HTMLButtonElement;
  private readonly rungs: readonly HTMLButtonElement[];
  private readonly game = el("select", { aria: { label: "Mechs of a team" } });

  constructor(
    private readonly play: PlaySession,
    private readonly watch: Watch | null = null,
  ) {
    const rung = (name: string, opponent: string) => textButton(name, () => play.challenge(opponent), "button framed");
    this.rungs = play.ladder.opponents.map((name) => rung(name, name));
    this.tutorial = rung("Tutorial", TUTORIAL);
    this.fly = el("div", { class: "ladder" }, [this.tutorial, ...this.rungs]);
    const parts = [el("h2", { text: "Fly a mech" }), this.note, this.fly];
    this.root = el("section", { class: "panel start-form", aria: { label: "Fly a mech" } }, parts);
    if (watch) this.addWatch(watch);
  }

  private addWatch({ page }: Watch): void {
    const games = Object.keys(page.games);
    this.game.append(...games.map((name) => option(name, name.replace("v", " against "))));
    this.game.addEventListener("change", () => this.play.connect(this.game.value, false));
    const levels = LEVELS.map((level) =>
      textButton(level, () => this.watch?.begin(this.game.value, level), "button framed"),
    );
    this.fly.prepend(...(games.length > 1 ? [this.game] : []));
    this.root.append(
      el("h2", { text: `Watch ${page.policy.name}` }),
      this.watchNote,
      el("div", { class: "ladder" }, levels),
    );
  }

  update(): void {
    const { play, watch } = this;
    const waits = play.phase === "connecting"; // the form has its place before the session answers
    this.root.hidden = play.phase !== "ready" && !waits && watch === null;
    if (this.root.hidden) return;
    const { climbed, opponents } = play.ladder;
    this.rungs.forEach((rung, i) => {
      setText(rung, i < climbed ? `✓ ${opponents[i]}` : opponents[i]);
      rung.classList.toggle("primary", i === climbed && climbed > 0);
    });
    this.tutorial.classList.toggle("primary", climbed === 0);
    for (const rung of this.fly.querySelectorAll("button")) rung.disabled = play.phase !== "ready";
    const next = opponents[climbed];
    const first = climbed === 0 ? "New here? Begin with the tutorial." : `Your next opponent is ${next}.`;
    const order = next
      ? `${first} Opponents stand from weak to strong. You fly with keyboard and mouse, gamepad or touch.`
      : "You have beaten every opponent of the ladder.";
    setText(this.note, play.problem || play.progress || (waits ? sessionProblem(play) : order));
    this.note.classList.toggle("problem-line", play.problem !== "");
    if (!watch) return;
    if (this.game.value !== play.token) this.game.value = play.token; // as after a match of another one was taken over
    const told = watch.waits
      ? "The match begins …"
      : "Against a level, one match after the other. The newest of each level is kept.";
    setText(this.watchNote, watch.problem || told);
    this.watchNote.classList.toggle("problem-line", watch.problem !== "");
  }
}
