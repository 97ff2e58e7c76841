// The panel of the selected mech: class, state, gauges, and weapon cooldowns. For a mech hidden by the fog of war, only
// name, class and team of the roster are given.

import { suiteOf, timerLabel } from "../data/choices";
import { inSmoke } from "../data/clouds";
import { isShown } from "../data/fog_of_war";
import { radarOf } from "../data/sensor_ranges";
import { frameAt } from "../interpolate";
import { CHASSIS } from "../palette";
import { type ChassisName, MechFlag } from "../protocol.gen";
import type { MatchState, ViewerState } from "../state";
import { el, setShare, setText } from "./dom";
import { className, conditionText, mechName, rangeText } from "../text";

const NOT_SEEN = "not seen";
export const NOTHING = "–"; // unknown or meaningless value
const MAX_STABILITY = 100;
const LONGEST_TICKS = 80; // cooldown that is drawn as an empty bar [ticks]

const GAUGES = ["Health", "Legs", "Heat", "Stability"] as const;

export function gaugesOf(match: MatchState, mech: number): { text: string; share: number }[] {
  const { header, poses } = match;
  const spec = header.chassis[header.roster[mech].chassis];
  const values = [
    [poses.hp[mech], spec?.hp],
    [poses.legHp[mech], spec?.leg_hp],
    [poses.heat[mech], spec?.heat_cap],
    [poses.stability[mech], MAX_STABILITY],
  ] as const;
  const visible = isShown(match, mech) && (poses.flags[mech] & MechFlag.ALIVE) !== 0;
  return values.map(([value, most]) => {
    const now = Math.max(0, value);
    return visible
      ? { text: `${Math.round(now)} / ${Math.round(most ?? 0)}`, share: now / (most || 1) }
      : { text: NOTHING, share: 0 };
  });
}

/** Return the state of a mech as the scoreboard lists it. */
export function stateOf(match: MatchState, mech: number): string {
  return isShown(match, mech) ? conditionText(match.poses.flags[mech], false) || "ready" : NOT_SEEN;
}

/** Return state, readiness of each weapon (1 when ready; none until the chunk has arrived), speed, position, target. */
export function mechReport(match: MatchState, mech: number, tick: number) {
  const { header, poses, chunk } = match;
  if (!isShown(match, mech)) return { state: NOT_SEEN, timers: header.cooldowns.map(() => 0), facts: "" };
  const hidden = chunk !== null && inSmoke(chunk, header, tick, poses.x[mech], poses.y[mech], poses.z[mech]);
  const state = conditionText(poses.flags[mech], hidden);
  const radar = radarOf(header, poses, mech);
  const facts = [`${poses.speed[mech].toFixed(1)} vox/s`, `${poses.x[mech].toFixed(0)}, ${poses.y[mech].toFixed(0)}`];
  if (radar !== null) facts.push(`radar ${radar.toFixed(0)} vox`);
  if (!chunk) return { state, timers: [], facts: facts.join(" · ") };
  const at = frameAt(chunk, tick).frame * chunk.mechs + mech;
  const focus = chunk.mech.focus[at];
  if (focus >= 0) facts.push(`target ${mechName(header, focus)}`);
  const count = header.cooldowns.length;
  const works = (poses.flags[mech] & (MechFlag.ALIVE | MechFlag.SHUTDOWN)) === MechFlag.ALIVE;
  const ready = (left: number) => (works ? 1 - left / LONGEST_TICKS : 0);
  const timers = Array.from(chunk.cooldown.subarray(at * count, (at + 1) * count), ready);
  return { state, timers, facts: facts.join(" · ") };
}

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
      const ranges = match.header.weapons.filter(({ name }) => label.split("/").includes(name)).map(rangeText);
      root.dataset.tip = [`${label}: ready when full`, ...ranges.filter(Boolean)].join("; range");
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
