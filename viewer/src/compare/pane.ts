// One of two matches side by side: its picture, and names, score and result above it.

import * as control from "../control";
import { el, setText } from "../hud/dom";
import { aliveText, isOver, resultText, zoneText } from "../score_text";
import { sideName } from "../text";
import { scoreAt } from "../interpolate";
import { MechFlag } from "../protocol.gen";
import type { TierName } from "../quality";
import { Screen } from "../screen";
import { type MatchState, type ViewerState, defaults, firstTick } from "../state";
import { pointsText } from "../timeline";

/** Return how many present mechs of each team live. */
export function aliveOf({ header, poses }: MatchState): [number, number] {
  const alive: [number, number] = [0, 0];
  header.roster.forEach(({ team, present }, mech) => {
    if (present && poses.flags[mech] & MechFlag.ALIVE) alive[team]++;
  });
  return alive;
}

/** A match with its picture. */
export class Pane {
  readonly state: ViewerState = defaults();
  readonly canvas = el("canvas", { class: "picture", aria: { label: "3D view of the match" } });
  private readonly overlay = el("canvas", { class: "picture-overlay", aria: { hidden: "true" } });
  private readonly teams = ["blue", "red"].map((side) => {
    const [name, score, alive] = [el("span", { class: "pane-name" }), el("b"), el("small")];
    return { name, score, alive, root: el("div", { class: `pane-team ${side}` }, [name, score, alive]) };
  });
  private readonly words = el("p", { class: "pane-words" });
  readonly bar: HTMLElement;
  readonly root: HTMLElement;
  private readonly screen: Screen;

  constructor(
    readonly match: MatchState,
    letter: string,
    tier: TierName | null,
  ) {
    this.bar = el("header", { class: "pane-bar panel" }, [
      el("i", { class: "pane-letter", text: letter }),
      this.teams[0].root,
      this.teams[1].root,
      this.words,
    ]);
    this.root = el("section", { class: "pane", aria: { label: `Match ${letter}: ${match.title}` } }, [
      this.canvas,
      this.overlay,
      this.bar,
    ]);
    this.screen = new Screen(this.canvas, this.overlay, tier, false);
    this.teams.forEach(({ name }, team) => {
      name.textContent = name.title = sideName(match.header, team);
    });
    Object.assign(this.state, { match, page: "match", playing: false, showLinks: false });
    control.resetView(this.state);
  }

  /** Length of the match [s]. */
  get seconds(): number {
    return control.lastTick(this.match) / this.match.header.tick_hz;
  }

  /** Whether the moment's chunk and a first picture are there. */
  get ready(): boolean {
    return this.match.chunk !== null && (this.screen.ready || this.screen.problem !== "");
  }

  /** Why there is no picture, "" if there is one. */
  get problem(): string {
    return this.screen.problem;
  }

  /** Whether the picture of the moment is complete. */
  get complete(): boolean {
    return this.screen.complete;
  }

  /** Return the mech near a point of the canvas, or -1. */
  pick(x: number, y: number): number {
    return this.screen.pick(x, y);
  }

  /** Show a second of the match. */
  seek(seconds: number): void {
    const { state, match } = this;
    state.window = [this.canvas.clientWidth, this.canvas.clientHeight];
    const { offsetLeft: left, offsetTop: top, offsetWidth, offsetHeight } = this.bar;
    state.insets = { left: 0, top: offsetHeight, right: 0, bottom: 0 };
    const box = { left, top, right: left + offsetWidth, bottom: top + offsetHeight };
    if (state.covered[0]?.right !== box.right || state.covered[0].bottom !== box.bottom) state.covered = [box];
    const tick = seconds * match.header.tick_hz;
    state.tick = Math.max(firstTick(match), Math.min(control.lastTick(match), tick));
    control.updateCursor(state);
  }

  /** Draw the picture and the words above it. */
  draw(elapsed: number): void {
    const { match, state } = this;
    this.screen.draw(state, elapsed);
    const { chunk, header, index } = match;
    if (!chunk) return;
    const [score, alive] = [scoreAt(chunk, state.tick), aliveOf(match)];
    this.teams.forEach((team, side) => {
      setText(team.score, pointsText(score[side]));
      const all = header.roster.filter((mech) => mech.team === side && mech.present).length;
      setText(team.alive, aliveText(alive[side], all));
    });
    const over = isOver(match, state.tick) && index.outcome;
    setText(this.words, over ? resultText(header, over).headline : zoneText(header, chunk, state.tick));
  }

  close(): void {
    this.screen.close();
    this.match.scan.stop();
    this.match.source.close();
  }
}
