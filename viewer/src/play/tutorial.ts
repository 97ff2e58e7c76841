// The tutorial: one step after the other, each with what to do and when it is done. Nothing else moves, so every step
// waits for its pilot. Pure.

import { EventKind, MechFlag } from "../protocol.gen";
import type { Command } from "./bindings";
import { bearing } from "./gauges";
import type { LiveMatch } from "./live_match";

export interface Progress {
  readonly live: LiveMatch;
  readonly start: { x: number; y: number; yaw: number; dealt: number }; // of the mech when the step began
  readonly seconds: number; // since then
  isHeld(command: Command): boolean;
}

export interface Step {
  readonly text: (key: (command: Command) => string, touch: boolean) => string;
  readonly done: (progress: Progress) => boolean;
}

const WALKED = 4; // distance of the first step [vox]
const TURNED = 0.6; // angle of the second [rad]
const SHOTS: number[] = [EventKind.LAUNCH, EventKind.HIT];
const HELD_S = 0.4; // least time of a step [s]

const moved = ({ live: { match, pilot }, start }: Progress) =>
  Math.hypot(match.poses.x[pilot] - start.x, match.poses.y[pilot] - start.y);
const turned = ({ live: { match, pilot }, start }: Progress) => {
  const angle = match.poses.yaw[pilot] - start.yaw;
  return Math.abs(Math.atan2(Math.sin(angle), Math.cos(angle)));
};

export const STEPS: readonly Step[] = [
  {
    text: (key, touch) =>
      touch
        ? "Walk: put a thumb on the left side and push it the way to go."
        : `Walk: ${key("forward")} goes forward, ${key("back")} back, ${key("left")} and ${key("right")} aside.`,
    done: (progress) => moved(progress) > WALKED,
  },
  {
    text: (key, touch) =>
      touch
        ? "Turn: drag on the right side."
        : `Turn: click and move the mouse, or press ${key("turn_left")} and ${key("turn_right")}.`,
    done: (progress) => turned(progress) > TURNED,
  },
  {
    text: (key) => `Jump: hold ${key("jets")}. Landing hard costs stability.`,
    done: ({ isHeld, seconds }) => isHeld("jets") && seconds > HELD_S,
  },
  {
    text: () => "Go into the zone: the arrow at the top points to it. Each second alone in it is a point.",
    done: ({ live }) => {
      const [x, y, radius] = live.match.header.zone;
      return bearing(live, x, y).distance < radius;
    },
  },
  {
    text: (key) =>
      `Fire: walk to a hostile and hold ${key("primary")}. Words at the reticle say why a weapon does nothing.`,
    done: ({ live: { events, pilot } }) => events.some(({ kind, actor }) => actor === pilot && SHOTS.includes(kind)),
  },
  {
    text: (key) => `Firing makes heat. ${key("vent")} vents it; above its limit the mech shuts down.`,
    done: ({ live: { match, pilot } }) =>
      (match.poses.flags[pilot] & MechFlag.VENT) !== 0 && match.poses.heat[pilot] > 0,
  },
  {
    text: (key) =>
      `Hit a hostile: the scope shows them in the other colour. ${key("next_target")} chooses one; hold the triggers.`,
    done: ({ live, start }) => live.dealt > start.dealt,
  },
];
