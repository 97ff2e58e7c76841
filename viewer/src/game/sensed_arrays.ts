// The arrays of the simulator that a play session reads, as views, and the tables that echelon/web/play_tables.py adds
// to the description.

import type { Description, Simulator, Values } from "./simulator";

/** The tables; columns are those of an observation, distances in voxels. */
export interface PlayTables {
  pack: number; // mechs
  dt: number; // duration of a tick [s]
  dt_act: number; // duration of an environment step [s]
  levels: string[]; // scripted pilots, in the order of their numbers from 1
  sense_columns: number[]; // of PLAY_SENSE_COLUMNS, -1 none
  contacts_at: number; // first column of the contacts
  contact_width: number;
  readings: number[]; // columns in a contact of certainty, hull, heat and stability
  classes: number[]; // columns in a contact of the classes
  class_sure: number; // probability from which a class counts as recognised
  slots: number; // of the display
  memory: number; // longest age of a contact [environment steps]
  marks: { fallen: number; legged: number }; // bits of trace_marks
  chassis: { hp: number; heat_cap: number; ewar: boolean }[];
  max_stability: number;
  smoke_ticks: number; // life of a cloud
  max_new_edits: number;
  max_distances: number;
  max_events: number;
  max_eyes: number;
  near_vox: number;
  muzzle_vox: number;
  sight_steps: number[];
  sight_end: number;
  controls: { drive: number[]; triggers: number[]; vent: number; ewar: number; targets: number[] }; // action entries
  quantisation: number; // of action entries
  eccm_above: number;
  ewar: number; // bit of the mechanic, 0 where the game has none
  target_selection: boolean;
}

export type PlayDescription = Description & { play: PlayTables };
/** What is needed of a simulator to sense. */
export type Sensed = Pick<Simulator, "array" | "run"> & { readonly description: Description };

const NAMES = [
  "alive", "present", "team", "pack", "chassis", "pos", "vel", "yaw", "hp", "leg_hp", "heat", "stability", "shutdown",
  "fallen", "cooldown", "painted", "painter", "suppressed", "focus", "focus_slot", "ecm", "eccm", "vent", "drive",
  "trigger", "visible", "seen", "sight", "contact", "trace_pos", "trace_vel", "trace_body", "trace_marks", "obs",
  "tick", "decision", "score", "material", "size", "round_weapon", "round_pos", "round_vel", "round_age",
  "cloud_ticks", "cloud_pos", "journal", "journal_count", "order_kind", "order_mech", "order_place", "order_since",
  "known", "known_at", "hold", "actions", "withheld", "over", "done_winner", "done_reason",
] as const; // prettier-ignore

export type SensedArrays = Record<(typeof NAMES)[number], Values> & {
  readonly tables: PlayTables;
  readonly mechs: number;
  readonly depth: number; // environment steps that the traces have
  readonly body: number; // entries of trace_body
  readonly slots: number; // of contact
  readonly width: number; // columns of an observation
  readonly timers: number; // cooldowns of a mech
  readonly journal_row: number; // entries of a row of the journal
  readonly sight_plane: Uint32Array; // two words a column
  readonly plane_row: number; // columns of a row of it
  readonly stride: readonly [number, number]; // distance of a layer and of a row in `material`
  run(program: string): void;
};

export function sensedArrays(simulator: Sensed): SensedArrays {
  const { arrays, play } = simulator.description as PlayDescription;
  const views = Object.fromEntries(NAMES.map((name) => [name, simulator.array(name)]));
  const edge = (name: string, axis: number) => arrays[name].shape.at(axis) ?? 1;
  const plane = simulator.array("sight_plane");
  return {
    ...(views as Record<(typeof NAMES)[number], Values>),
    tables: play,
    mechs: edge("team", -1),
    depth: edge("trace_marks", 1),
    body: edge("trace_body", -1),
    slots: edge("contact", -1),
    width: edge("obs", -1),
    timers: edge("cooldown", -1),
    journal_row: edge("journal", -1),
    sight_plane: new Uint32Array(plane.buffer, plane.byteOffset, plane.byteLength / 4),
    plane_row: edge("sight_plane", -1),
    stride: [edge("material", -1) * edge("material", -2), edge("material", -1)],
    run: (program) => simulator.run(program),
  };
}
