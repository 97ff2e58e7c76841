// The panel of the selected mech: its class and state, its figures, and when its weapons are ready.

import { inSmoke } from "../data/clouds";
import { frameAt } from "../interpolate";
import { CHASSIS } from "../palette";
import type { ChassisName } from "../protocol.gen";
import type { MatchState, ViewerState } from "../state";
import { el, setShare, setText } from "./dom";
import { className, mechName, conditionText } from "./words";

interface Gauge {
  root: HTMLElement;
  fill: HTMLElement;
  value: HTMLElement;
}

const GAUGES = ["Body", "Legs", "Heat", "Stability"] as const;
const LONGEST_TICKS = 80; // a timer at this much is drawn empty

function makeGauge(label: string, kind: string): Gauge {
  const fill = el("div", { class: `fill ${kind}` });
  const value = el("span", { class: "gauge-value" });
  const root = el("div", { class: "gauge" }, [el("span", { class: "gauge-label", text: label }), el("div", { class: "track" }, [fill]), value]);
  return { root, fill, value };
}

/** The panel. */
export class Inspector {
  private readonly name = el("h2", { class: "inspector-name" });
  private readonly kind = el("span", { class: "inspector-class" });
  private readonly state = el("span", { class: "inspector-state" });
  private readonly speed = el("p", { class: "inspector-facts" });
  private readonly gauges = GAUGES.map((label) => makeGauge(label, label.toLowerCase()));
  private readonly timers = el("div", { class: "timers" });
  private fills: HTMLElement[] = [];
  readonly root = el("section", { class: "inspector panel", aria: { label: "Selected mech" } }, [
    el("header", {}, [this.name, this.kind, this.state]),
    ...this.gauges.map((gauge) => gauge.root),
    this.timers,
    this.speed,
  ]);

  open(match: MatchState): void {
    this.fills = match.header.cooldowns.map(() => el("i"));
    this.timers.replaceChildren(
      ...match.header.cooldowns.map((timer, i) => el("div", { class: "timer", title: `${timer}: ready when full` }, [el("span", { text: timer }), el("div", {}, [this.fills[i]])])),
    );
  }

  update(state: ViewerState, match: MatchState): void {
    const mech = state.selected;
    this.root.hidden = mech < 0 || Number.isNaN(match.poses.tick);
    if (this.root.hidden) return;
    const { header, poses, chunk } = match;
    const spec = header.chassis[header.roster[mech].chassis];
    this.root.classList.toggle("red", header.roster[mech].team === 1);
    this.root.classList.toggle("blue", header.roster[mech].team === 0);
    setText(this.name, mechName(header, mech));
    setText(this.kind, CHASSIS[className(header, mech) as ChassisName]?.label ?? className(header, mech));
    const hidden = chunk !== null && inSmoke(chunk, header, state.tick, poses.x[mech], poses.y[mech], poses.z[mech]);
    setText(this.state, conditionText(poses.flags[mech], hidden));
    const figures = [
      [poses.hp[mech], spec?.hp], [Math.max(0, poses.legHp[mech]), spec?.leg_hp], [poses.heat[mech], spec?.heat_cap], [poses.stability[mech], 100],
    ];
    this.gauges.forEach(({ fill, value }, i) => {
      const [now, most] = figures[i];
      setShare(fill, (now ?? 0) / (most || 1));
      setText(value, `${Math.round(now ?? 0)} / ${Math.round(most ?? 0)}`);
    });
    if (!chunk) return;
    const { frame } = frameAt(chunk, state.tick);
    const at = frame * chunk.mechs + mech;
    this.fills.forEach((fill, k) => setShare(fill, 1 - chunk.cooldown[at * this.fills.length + k] / LONGEST_TICKS));
    const focus = chunk.mech.focus[at];
    const aim = focus >= 0 ? ` · aims at ${mechName(header, focus)}` : "";
    setText(this.speed, `${poses.speed[mech].toFixed(1)} vox/s · ${poses.x[mech].toFixed(0)}, ${poses.y[mech].toFixed(0)}${aim}`);
  }
}
