// The analysis of the selected mech: any of its values and of its policy's observation, as rows and as charts, and what
// it chooses.

import * as control from "../control";
import type { MatchState, ViewerState } from "../state";
import { mayShow, shownEnd } from "../spoilers";
import { ChoicesView } from "./choices_view";
import { dialog, el, setText } from "./dom";
import { SeriesList } from "./series_list";
import { mechName } from "../text";

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
