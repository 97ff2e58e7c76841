// The analysis of the selected mech: any of its values and of its policy's observation, as rows and as charts, and what
// it chooses: the probabilities of its policy's last decision, where they are recorded, and in the last seconds the
// shares of its targets and of the triggers that it held.

import { type Choices, type Share, WINDOW_S, choiceProbabilities, recentChoices } from "../data/choices";
import { recentChunks } from "../data/perception";
import type { Header } from "../protocol.gen";
import * as control from "../control";
import type { MatchState, ViewerState } from "../state";
import { mayShow, shownEnd } from "../spoilers";
import { dialog, el, setShare, setText } from "./dom";
import { SeriesList } from "./series_list";
import { mechName } from "../text";

const MOST = 5; // most targets that are listed

function makeBar() {
  const [name, fill, value] = [el("span"), el("i"), el("b")];
  return { root: el("div", { class: "choice" }, [name, el("div", {}, [fill]), value]), name, fill, value };
}

class Bars {
  private readonly list = el("div", { class: "choice-list" });
  readonly root: HTMLElement;
  private readonly bars: ReturnType<typeof makeBar>[] = [];

  constructor(title: string) {
    this.root = el("div", {}, [el("h4", { text: title }), this.list]);
  }

  show(rows: readonly Share<string>[]): void {
    this.root.hidden = rows.length === 0;
    while (this.bars.length < rows.length) {
      const bar = makeBar();
      this.list.append(bar.root);
      this.bars.push(bar);
    }
    this.bars.forEach(({ root, name, fill, value }, k) => {
      root.hidden = k >= rows.length;
      if (k >= rows.length) return;
      setText(name, rows[k].choice);
      setShare(fill, rows[k].share);
      setText(value, `${Math.round(rows[k].share * 100)} %`);
    });
  }
}

function targetName(header: Header, mech: number): string {
  return mech < 0 ? "no target" : mechName(header, mech);
}

class ChoicesView {
  private readonly likely = [new Bars("Target probability"), new Bars("Trigger probability")] as const;
  private readonly targets = new Bars(`Target, last ${WINDOW_S} s`);
  private readonly triggers = new Bars(`Triggers held, last ${WINDOW_S} s`);
  readonly root = el("div", { class: "choices", aria: { label: "Choices" } }, [
    ...this.likely.map(({ root }) => root),
    this.targets.root,
    this.triggers.root,
  ]);

  update(match: MatchState, tick: number, mech: number): void {
    const { header, chunk } = match;
    const show = ({ targets, triggers }: Choices, [first, second]: readonly [Bars, Bars]) => {
      first.show(targets.slice(0, MOST).map(({ choice, share }) => ({ choice: targetName(header, choice), share })));
      second.show(triggers);
    };
    show(choiceProbabilities(header, chunk, tick, mech), this.likely);
    show(recentChoices(header, recentChunks(match), tick, mech), [this.targets, this.triggers]);
  }
}

export class MechAnalysisPanel {
  private readonly title = el("h2");
  private readonly note = el("p", { class: "pilot-note small" });
  private readonly series: SeriesList;
  private readonly choices = new ChoicesView();
  readonly root: HTMLElement;

  constructor(private readonly state: ViewerState) {
    this.series = new SeriesList((seconds) => control.seek(state, seconds * (state.match?.header.tick_hz ?? 0)));
    const parts = [this.series.root, this.choices.root, this.note];
    this.root = dialog("pilot", "Mech analysis", () => (state.showPilot = false), parts, this.title);
  }

  update(match: MatchState): void {
    const { state } = this;
    this.root.hidden = !state.showPilot || state.selected < 0;
    if (this.root.hidden) return;
    setText(this.title, `Mech analysis: ${mechName(match.header, state.selected)}`);
    const until = mayShow(state) ? Infinity : state.tick;
    this.series.update(match, state.selected, state.tick, shownEnd(state, match), until);
    this.choices.update(match, state.tick, state.selected);
    setText(this.note, this.noteText(match));
  }

  private noteText({ header }: MatchState): string {
    if (!header.insight)
      return "This match has no policy data (values, rewards, actions); `echelon sim --insight` records it.";
    return header.insight.estimates ? "" : "Scripted pilots predict no value.";
  }
}
