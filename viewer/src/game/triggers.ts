// Why the weapons of a mech would not fire: the program `explain_triggers` of echelon/play/triggers.py.

import type { SensedArrays } from "./sensed_arrays";

const [KNOWN, OWN] = [1, 2]; // marks of a hostile that the pilot knows of, and of its own mech

/** Return the index in PLAY_HOLDS of each weapon of a mech; `hostiles` are those that it knows of: mech, x, y, z. */
export function holds(arrays: SensedArrays, mech: number, hostiles: readonly (readonly number[])[]): number[] {
  const { known, known_at: at, hold, mechs } = arrays;
  known.fill(0);
  known[mech] = OWN;
  for (const [other, ...place] of hostiles) {
    known[other] = KNOWN;
    at.set(place, 3 * other);
  }
  arrays.run("explain_triggers");
  const weapons = hold.length / mechs;
  return [...hold.subarray(mech * weapons, (mech + 1) * weapons)];
}
