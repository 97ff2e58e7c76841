// The arrays of the simulator that a play session uses, as views, and the tables of echelon/web/play_tables.py.

import type { Description, Simulator, Values } from "./simulator";

type Numbers = "pack" | "dt" | "dt_act" | "contacts_at" | "contact_width" | "class_sure" | "slots" | "memory" | "ewar";
type Limits =
  "max_new_edits" | "max_distances" | "max_events" | "near_vox" | "muzzle_vox" | "sight_end" | "smoke_ticks";
/** Tables of a game: numbers, and columns of observations by what they have. */
export type PlayTables = Record<Numbers | Limits | "quantisation" | "eccm_above", number> & {
  levels: string[]; // scripted pilots, in the order of their numbers from 1
  sense_columns: number[]; // of PLAY_SENSE_COLUMNS, -1 none
  readings: number[]; // of a contact: certainty, hull, heat and stability
  classes: number[]; // of a contact
  marks: { fallen: number; legged: number }; // bits of trace_marks
  ewar_classes: boolean[]; // whether a class has electronic warfare
  sight_steps: number[]; // distances between the tested points of a line of sight
  controls: { drive: number[]; triggers: number[]; vent: number; ewar: number; targets: number[] }; // action entries
  target_selection: boolean;
};
export type PlayDescription = Description & { play: PlayTables };

// prettier-ignore
const NAMES = [
  "alive", "present", "team", "pack", "chassis", "pos", "vel", "yaw", "hp", "leg_hp", "heat", "stability", "shutdown",
  "fallen", "cooldown", "painted", "painter", "suppressed", "focus", "focus_slot", "ecm", "eccm", "vent", "drive",
  "trigger", "visible", "seen", "sight", "contact", "trace_pos", "trace_vel", "trace_body", "trace_marks", "obs",
  "tick", "decision", "score", "material", "size", "round_weapon", "round_pos", "round_vel", "round_age",
  "cloud_ticks", "cloud_pos", "journal", "journal_count", "order_kind", "order_mech", "order_place", "order_since",
  "known", "known_at", "hold", "actions", "withheld", "over", "ended", "done_winner", "done_reason", "sight_plane",
] as const;

export type SensedArrays = Record<(typeof NAMES)[number], Values> & {
  readonly tables: PlayTables;
  readonly mechs: number;
  /** Return the length of an axis. */
  edge(name: string, axis: number): number;
  run(program: string): void;
};

export function sensedArrays(simulator: Pick<Simulator, "array" | "run" | "description">): SensedArrays {
  const { arrays, play } = simulator.description as PlayDescription;
  const views = Object.fromEntries(NAMES.map((name) => [name, simulator.array(name)]));
  const edge = (name: string, axis: number) => arrays[name].shape.at(axis) ?? 1;
  const [mechs, run] = [edge("team", -1), (program: string) => simulator.run(program)];
  return { ...(views as Record<(typeof NAMES)[number], Values>), tables: play, mechs, edge, run };
}
