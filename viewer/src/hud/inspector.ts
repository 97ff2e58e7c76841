// The panel of the selected mech: class, state, gauges, and weapon cooldowns.

import { suiteOf, timerLabel } from "../data/choices";
import { CHASSIS } from "../palette";
import type { ChassisName } from "../protocol.gen";
import type { MatchState, ViewerState } from "../state";
import { el, setShare, setText } from "./dom";
import { GAUGES, gaugesOf, mechReport } from "./mech_report";
import { className, mechName } from "../text";

function makeGauge(label: string, kind: string) {
  const fill = el("div", { class: `fill ${kind}` });
  const value = el("span", { class: "gauge-value" });
  const root = el("div", { class: "gauge" }, [
    el("span", { class: "soft", text: label }),
    el("div", { class: "track" }, [fill]),
    value,
  ]);
  return { root, fill, value };
}

export class Inspector {
  private readonly name = el("h2", { class: "inspector-name" });
  private readonly kind = el("span", { class: "soft" });
  private readonly state = el("span", { class: "inspector-state" });
  private readonly facts = el("p", { class: "inspector-facts small" });
  private readonly gauges = GAUGES.map((label) => makeGauge(label, label.toLowerCase()));
  private readonly timers = el("div", { class: "timers" });
  private fills: HTMLElement[] = [];
  private names: HTMLElement[] = [];
  readonly root = el("section", { class: "inspector panel", aria: { label: "Selected mech" } }, [
    el("header", {}, [this.name, this.kind, this.state]),
    ...this.gauges.map((gauge) => gauge.root),
    this.timers,
    this.facts,
  ]);

  open(match: MatchState): void {
    this.fills = match.header.cooldowns.map(() => el("i"));
    this.names = match.header.cooldowns.map(() => el("span", { class: "tiny" }));
    this.timers.replaceChildren(
      ...this.fills.map((fill, i) => el("div", { class: "timer" }, [this.names[i], el("div", {}, [fill])])),
    );
  }

  /** Name the timers by the weapons of the mech's class; those of other classes are hidden. */
  private nameTimers(match: MatchState, mech: number): void {
    const suite = suiteOf(match.header, mech);
    match.header.cooldowns.forEach((timer, i) => {
      const label = timerLabel(suite, timer);
      setText(this.names[i], label);
      const root = this.names[i].parentElement;
      if (!root) return;
      root.hidden = label === "";
      root.dataset.tip = `${label}: ready when full`;
    });
  }

  update(state: ViewerState, match: MatchState): void {
    const mech = state.selected;
    this.root.hidden = mech < 0 || Number.isNaN(match.poses.tick);
    if (this.root.hidden) return;
    const { header } = match;
    this.root.classList.toggle("red", header.roster[mech].team === 1);
    this.root.classList.toggle("blue", header.roster[mech].team === 0);
    setText(this.name, mechName(header, mech));
    setText(this.kind, CHASSIS[className(header, mech) as ChassisName]?.label ?? className(header, mech));
    gaugesOf(match, mech).forEach(({ text, share }, i) => {
      setShare(this.gauges[i].fill, share);
      setText(this.gauges[i].value, text);
    });
    const { state: condition, timers, facts } = mechReport(match, mech, state.tick);
    setText(this.state, condition);
    this.nameTimers(match, mech);
    timers.forEach((ready, k) => setShare(this.fills[k], ready));
    setText(this.facts, facts);
  }
}
