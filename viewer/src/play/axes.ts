// Settings of mouse and sticks: how far the mouse turns, and which axis of a gamepad does what.

import { parseFields } from "../storage";

/** What the axes of a gamepad do, with the axis of the standard mapping. */
export const STICKS = [
  { stick: "aside", label: "Step aside", axis: 0 },
  { stick: "walk", label: "Walk", axis: 1 },
  { stick: "turn", label: "Turn", axis: 2 },
  { stick: "tilt", label: "Tilt the view", axis: 3 },
] as const;
export type Stick = (typeof STICKS)[number]["stick"];

export const AXIS_LABELS = ["Left ↔", "Left ↕", "Right ↔", "Right ↕"] as const;
export const SENSITIVITIES = [0.25, 0.5, 0.75, 1, 1.5, 2, 3] as const;

export interface Axes {
  readonly sensitivity: number; // of the mouse, 1 as delivered
  readonly inverted: boolean; // whether the view tilts down when the mouse moves up
  readonly sticks: Readonly<Record<Stick, { readonly axis: number; readonly inverted: boolean }>>;
}

export function defaultAxes(): Axes {
  const sticks = Object.fromEntries(STICKS.map(({ stick, axis }) => [stick, { axis, inverted: false }]));
  return { sensitivity: 1, inverted: false, sticks: sticks as Axes["sticks"] };
}

/** Return the settings in a text; those that are not valid are as delivered. */
export function parseAxes(text: string | null | undefined): Axes {
  const whole = defaultAxes();
  const stored = parseFields(text) as Partial<Axes>;
  const sticks = STICKS.map(({ stick }) => {
    const { axis, inverted } = stored.sticks?.[stick] ?? {};
    const isAxis = Number.isInteger(axis) && Number(axis) >= 0 && Number(axis) < AXIS_LABELS.length;
    return [stick, isAxis ? { axis, inverted: inverted === true } : whole.sticks[stick]];
  });
  return {
    sensitivity: SENSITIVITIES.find((value) => value === stored.sensitivity) ?? whole.sensitivity,
    inverted: stored.inverted === true,
    sticks: Object.fromEntries(sticks) as Axes["sticks"],
  };
}
