// What a mech chose lately: its targets and the triggers it held, as shares of its recent decisions; the probabilities
// with which its policy chose, where they are recorded; and the names of its weapons. Pure.

import { type ChassisName, type Header, SUITES, type Suite } from "../protocol.gen";
import { frameAt } from "../interpolate";
import type { Chunk } from "./replay";

export const WINDOW_S = 5; // time whose decisions count [s]
const NO_TARGET = "no_target";
const TRIGGERS = ["primary", "secondary", "tertiary", "special"] as const;

export interface Share<Choice> {
  readonly choice: Choice;
  readonly share: number;
}

/** Choices of a mech; triggers are empty without policy columns. */
export interface Choices {
  readonly targets: readonly Share<number>[]; // mechs, -1 for none, the largest share first
  readonly triggers: readonly Share<string>[]; // weapons and systems in the order of their controls
}

/** Return weapons and systems of a mech's class, or null for a class that the viewer does not know. */
export function suiteOf({ roster, chassis }: Header, mech: number): Suite | null {
  return SUITES[chassis[roster[mech]?.chassis]?.name as ChassisName] ?? null;
}

/** Return what a control of a mech fires, e.g. "autocannon + painter"; "" for nothing. */
export function controlLabel(suite: Suite | null, control: string): string {
  if (!(TRIGGERS as readonly string[]).includes(control) || !suite) return control.replace(/_/g, " ");
  if (control === "secondary" && suite.ewar) return "ECM/ECCM";
  return suite.carries
    .filter(({ trigger }) => trigger === control)
    .map(({ weapon }) => weapon)
    .join(" + ");
}

/** Return the name of a timer by the weapons that wait for it, e.g. "missile/smoke"; "" if the class has none. */
export function timerLabel(suite: Suite | null, timer: string): string {
  if (!suite) return timer;
  if (timer === "ams") return suite.ams ? "AMS" : "";
  return suite.carries
    .filter((each) => each.timer === timer)
    .map(({ weapon }) => weapon)
    .join("/");
}

/** Return those of the named controls that do something in a mech of a class. */
function controlsOf(suite: Suite | null, names: readonly string[]): string[] {
  return [...TRIGGERS, "vent"].filter((name) => names.includes(name) && controlLabel(suite, name) !== "");
}

/**
 * Return the probabilities of a mech's decision that led to the frame after a tick: of each target and of each trigger
 * being held. Both are empty for a mech without a policy, and where they are not recorded.
 */
export function choiceProbabilities(header: Header, chunk: Chunk | null, tick: number, mech: number): Choices {
  const names = header.insight?.chances ?? [];
  const insight = chunk?.insight;
  if (!chunk || !insight || names.length === 0) return { targets: [], triggers: [] };
  const at = frameAt(chunk, tick).next * chunk.mechs + mech;
  const slots = insight.contact.length / (chunk.frames * chunk.mechs);
  const chance = (name: string) => insight.chance[at * names.length + names.indexOf(name)] ?? 0;
  const targets = new Map<number, number>();
  for (const name of names) {
    const slot = /^target_(\d+)$/.exec(name)?.[1];
    if (slot === undefined && name !== NO_TARGET) continue;
    const choice = slot === undefined ? -1 : (insight.contact[at * slots + Number(slot)] ?? -1);
    targets.set(choice, (targets.get(choice) ?? 0) + chance(name)); // an empty slot is no target
  }
  const suite = suiteOf(header, mech);
  const triggers = controlsOf(suite, names).map((name) => ({ choice: controlLabel(suite, name), share: chance(name) }));
  return {
    targets: [...targets]
      .filter(([, share]) => share > 0)
      .map(([choice, share]) => ({ choice, share }))
      .sort((a, b) => b.share - a.share || a.choice - b.choice),
    triggers: triggers.some(({ share }) => share > 0) ? triggers : [],
  };
}

/** Return the recent choices of a mech from the chunk at the cursor and those before it, the latest first. */
export function recentChoices(header: Header, chunks: readonly Chunk[], tick: number, mech: number): Choices {
  const oldest = tick - WINDOW_S * header.tick_hz;
  const suite = suiteOf(header, mech);
  const actions = header.insight?.actions ?? [];
  const controls = controlsOf(suite, actions);
  const aimed = new Map<number, number>();
  const held = new Map<string, number>(controls.map((name) => [name, 0]));
  let decisions = 0;
  for (const chunk of chunks) {
    const from = tick >= chunk.tick1 ? chunk.frames - 1 : frameAt(chunk, tick).next;
    // a frame holds the decision that led to it
    for (let frame = from; frame > 0 && chunk.tick[frame - 1] >= oldest; frame--) {
      const at = frame * chunk.mechs + mech;
      decisions++;
      aimed.set(chunk.mech.focus[at], (aimed.get(chunk.mech.focus[at]) ?? 0) + 1);
      for (const name of chunk.insight ? controls : [])
        if ((chunk.insight?.action[at * actions.length + actions.indexOf(name)] ?? 0) > 0)
          held.set(name, (held.get(name) ?? 0) + 1);
    }
  }
  const share = (count: number) => (decisions > 0 ? count / decisions : 0);
  return {
    targets: [...aimed]
      .map(([choice, count]) => ({ choice, share: share(count) }))
      .sort((a, b) => b.share - a.share || a.choice - b.choice),
    triggers: [...held].map(([name, count]) => ({ choice: controlLabel(suite, name), share: share(count) })),
  };
}
