// Frames of play sessions for tests.

import { type Header, MechFlag, PLAY_OWN_COLUMNS, PLAY_SENSE_COLUMNS, type PlayFrame } from "../src/protocol.gen";

export const bytesOf = (values: number[]) => new Uint8Array(Float32Array.from(values).buffer);

export function frameOf({ cooldowns }: Header, tick: number, mech: number, more: Partial<PlayFrame> = {}): PlayFrame {
  const own: Record<string, number> = { x: 10 + mech, y: 20, hp: 50, flags: MechFlag.ALIVE, focus: -1 };
  const empty = new Uint8Array();
  return {
    ...{ t: "frame", tick, mech, seq: 0, score: [0, 0], holds: [], orders: [], named: [], killer: [] },
    own: bytesOf([...PLAY_OWN_COLUMNS.map((name) => own[name] ?? 0), ...cooldowns.map(() => 0)]),
    senses: bytesOf(PLAY_SENSE_COLUMNS.map(() => 0)),
    ...{ contacts: empty, rounds: empty, events: empty, clouds: empty, edits: empty },
    ...more,
  };
}
