// The panel that asks what would have happened from a moment on: continuations in one batch, their win probability with
// its interval, how they ended, and typical ones to watch and to lay over the match as ghosts.

import { checkbox, dialog, el, field, option, setShare, setText } from "../hud/dom";
import { SIDES, endingText, errorText, mechName, percentText } from "../text";
import type { PlaySource, PlayWhatIfResult } from "../protocol.gen";
import type { MatchState, ViewerState } from "../state";
import { clockText } from "../timeline";
import { PilotsForm } from "./pilots_form";
import { SessionRequest } from "./take_over";
import type { PlaySession } from "./session";

const RUNS = [32, 64, 128, 256, 512];
const USUAL_RUNS = 64;
const WINDOWS = [0.5, 1, 2, 5];
const NOTHING_LEFT_OUT = "";

/** Typical continuations in the order in which they are listed. */
export const TYPICAL = [
  ["median", "Median"],
  ["best_for_blue", "Best for blue"],
  ["best_for_red", "Best for red"],
] as const;

/** Return a win probability with its interval in percent, e.g. "63 % (51 to 74)". */
export function shareText({ score, low, high }: { score: number; low: number; high: number }): string {
  const percent = (value: number) => Math.round(100 * value);
  return `${percent(score)} % (${percent(low)} to ${percent(high)})`;
}

/** Return how continuations ended, the most frequent first, e.g. ["Red: elimination", 12]. */
export function endingRows({ endings }: Pick<PlayWhatIfResult, "endings">): [string, number][] {
  const label = (name: string) => {
    const [winner, ...reason] = name.split(" ");
    return `${winner === "draw" ? "Draw" : SIDES[winner === "blue" ? 0 : 1]}: ${endingText(reason.join("_"))}`;
  };
  return Object.entries(endings)
    .sort((a, b) => b[1] - a[1])
    .map(([name, count]) => [label(name), count]);
}

/** Return the effect of a mech's actions in words. */
export function effectText(result: PlayWhatIfResult, mech: string): string {
  if (!result.effect) return "";
  const { value, low, high, side } = result.effect;
  const percent = (share: number) => `${share < 0 ? "−" : "+"}${Math.round(Math.abs(100 * share))}`;
  const sure = low > 0 || high < 0 ? "" : "; the interval contains 0, so the effect is not certain";
  const interval = `${percent(value)} points (${percent(low)} to ${percent(high)})`;
  return `The actions of ${mech} changed the win probability of ${side} by ${interval}${sure}.`;
}

export interface WhatIfActions {
  /** Return the catalogue id of a recording, null if it is not listed. */
  find(source: PlaySource): Promise<string | null>;
  /** Lay recordings over the match from a tick on; an empty list removes them. */
  showGhosts(match: MatchState, ids: readonly { id: string; label: string }[], from: number): void;
}

export class WhatIfPanel {
  readonly root: HTMLElement;
  private readonly form = new PilotsForm();
  private readonly runs = choice("Continuations", RUNS, USUAL_RUNS);
  private readonly left = el("select", { aria: { label: "Leave out the actions of" } });
  private readonly window = choice("Length of the actions left out, in seconds", WINDOWS, 1);
  private readonly request: SessionRequest;
  private readonly result = el("div", { class: "whatif-result" });
  private readonly ghosts = checkbox();
  private of: MatchState | null = null;
  private filled = false;
  private asks = -1; // tick from which to ask as soon as the session answers, -1 none
  private problem = "";
  private shown: PlayWhatIfResult | null = null;
  private listed: { id: string; label: string }[] = [];

  constructor(
    private readonly state: ViewerState,
    private readonly play: PlaySession,
    private readonly actions: WhatIfActions,
  ) {
    this.request = new SessionRequest(
      "Ask",
      () => this.ask(Math.floor(state.tick)),
      () => play.cancel(),
    );
    this.ghosts.checked = true;
    this.ghosts.addEventListener("change", () => this.layGhosts());
    this.root = dialog("whatif", "What if?", () => this.close(), [
      this.result,
      field("Continuations", this.runs),
      this.form.root,
      el("details", {}, [
        el("summary", { text: "Effect of a mech's actions" }),
        field("Leave out those of", this.left),
        field("for [s]", this.window),
      ]),
      ...this.request.parts,
    ]);
  }

  /** Open the panel and ask from the cursor on; close it where that has been asked. */
  toggle(): void {
    const tick = Math.floor(this.state.tick);
    if (!this.root.hidden && this.state.match === this.of && this.play.whatIf?.request.tick === tick) this.close();
    else this.open(tick);
  }

  private open(tick: number): void {
    const { match } = this.state;
    if (!match) return;
    this.state.playing = false;
    this.play.reconnect();
    this.asks = tick;
    if (this.of !== match) {
      this.of = match;
      this.filled = false;
      this.shown = null;
      this.result.replaceChildren();
    }
    this.problem = "";
    this.root.hidden = false;
  }

  close(): void {
    this.root.hidden = true;
    if (this.of) this.actions.showGhosts(this.of, [], 0);
  }

  update(): void {
    if (this.root.hidden) return;
    const { state, play, of } = this;
    if (state.match !== of || !of) return this.close();
    if (play.welcome && !this.filled) this.fill(of);
    const whatIf = play.whatIf?.request.source.file === of.file ? play.whatIf : null;
    const runs = whatIf?.result === null && whatIf.problem === "" ? whatIf : null;
    setText(this.request.act, `Ask from ${clockText(state.tick / of.header.tick_hz)}`);
    const no = this.request.show(of, play, runs, this.problem || (whatIf?.problem ?? ""));
    if (this.asks >= 0 && no === "" && this.filled) this.ask(this.asks);
    if (whatIf?.result && whatIf.result !== this.shown) void this.show(whatIf.result, of);
  }

  private fill(match: MatchState): void {
    if (!this.play.welcome) return;
    this.filled = true;
    this.form.open(match.header, this.play.welcome);
    const present = match.header.roster.flatMap(({ present: is }, mech) => (is ? [mechName(match.header, mech)] : []));
    this.left.replaceChildren(option(NOTHING_LEFT_OUT, "no mech"), ...present.map((name) => option(name)));
  }

  private ask(tick: number): void {
    const { of, play } = this;
    if (!of) return;
    this.problem = "";
    this.asks = -1;
    this.result.replaceChildren();
    this.actions.showGhosts(of, [], 0);
    try {
      play.ask({
        source: { run: of.run, file: of.file },
        tick,
        runs: Number(this.runs.value),
        pilots: this.form.pilots(),
        changes: this.form.overrides(),
        without: this.left.value,
        window_s: Number(this.window.value),
      });
    } catch (error) {
      this.problem = errorText(error);
    }
  }

  /** Show a result; its recordings become links as soon as they are listed. */
  private async show(result: PlayWhatIfResult, match: MatchState): Promise<void> {
    this.shown = result;
    const { without = "", pilots = {}, changes = {} } = this.play.whatIf?.request ?? {};
    if (without === "" && Object.keys({ ...pilots, ...changes }).length === 0)
      match.asked = [
        ...(match.asked ?? []).filter(({ tick }) => tick !== result.tick),
        { tick: result.tick, p: result.blue.score, ...result.blue, runs: result.runs },
      ];
    const estimate = match.win.at(result.tick);
    const side = (name: "blue" | "red") => {
      const { score, low, high } = result[name];
      const fill = el("i", { class: "whatif-fill" });
      const range = el("i", { class: "whatif-range" });
      setShare(fill, score);
      range.style.left = `${100 * low}%`;
      range.style.width = `${100 * (high - low)}%`;
      return el("div", { class: `whatif-side ${name}` }, [
        el("span", { text: SIDES[name === "blue" ? 0 : 1] }),
        el("div", { class: "whatif-track" }, [fill, range]),
        el("b", { text: shareText({ score, low, high }) }),
      ]);
    };
    const typical = el("div", { class: "whatif-typical" });
    const at = clockText(result.tick / match.header.tick_hz);
    const effect = effectText(result, without);
    this.result.replaceChildren(
      el("h3", { text: `Who wins from ${at} on: ${result.runs} continuations, 95 % intervals` }),
      side("blue"),
      side("red"),
      ...(estimate
        ? [el("p", { class: "play-hint small", text: `The win lane here: blue ${percentText(estimate.p)}` })]
        : []),
      ...(effect === "" ? [] : [el("p", { class: "whatif-effect", text: effect })]),
      el(
        "dl",
        { class: "whatif-endings" },
        endingRows(result).flatMap(([text, count]) => [el("dt", { text }), el("dd", { text: String(count) })]),
      ),
      typical,
      ...result.notes.map((text) => el("p", { class: "play-hint small", text })),
    );
    const found = await Promise.all(
      TYPICAL.map(async ([name, label]) => {
        const source = result.replays[name];
        return { label, id: source ? await this.actions.find(source) : null };
      }),
    );
    if (this.shown !== result) return;
    this.listed = found.flatMap(({ id, label }) => (id === null ? [] : [{ id, label }]));
    typical.append(
      ...this.listed.flatMap(({ id, label }) => [
        el("span", { text: label }),
        el("a", { class: "button framed", text: "Watch", attributes: { href: `#match=${id}` } }),
      ]),
    );
    if (this.listed.length > 0) typical.after(field("Ghosts of these over the match", this.ghosts));
    this.layGhosts();
  }

  private layGhosts(): void {
    const { of, shown } = this;
    if (of && shown) this.actions.showGhosts(of, this.ghosts.checked ? this.listed : [], shown.tick);
  }
}

function choice(label: string, values: readonly number[], usual: number): HTMLSelectElement {
  const select = el(
    "select",
    { aria: { label } },
    values.map((value) => option(String(value))),
  );
  select.value = String(usual);
  return select;
}
