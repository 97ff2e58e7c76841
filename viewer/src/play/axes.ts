// Settings of mouse and sticks: how far the mouse turns, and in which direction both tilt the view.

import { parseFields } from "../storage";

export const SENSITIVITIES = [0.25, 0.5, 0.75, 1, 1.5, 2, 3] as const;

export interface Axes {
  readonly sensitivity: number; // of the mouse, 1 as delivered
  readonly inverted: boolean; // whether the view tilts down when the mouse or the right stick moves up
}

export const DEFAULT_AXES: Axes = { sensitivity: 1, inverted: false };

/** Return the settings in a text; those that are not valid are as delivered. */
export function parseAxes(text: string | null | undefined): Axes {
  const stored = parseFields(text) as Partial<Axes>;
  const sensitivity = SENSITIVITIES.find((value) => value === stored.sensitivity) ?? DEFAULT_AXES.sensitivity;
  return { sensitivity, inverted: stored.inverted === true };
}
