// Ranges of sensors and jammers at a moment: the counterpart of echelon/sim/kernels/sensing.py, computed from the
// header's sensor parameters and the current emitters. Pure. Sight has no range in the simulator: it ends at walls and
// in smoke, which the fog of war shows.

import type { Poses } from "../interpolate";
import { type Header, MechFlag } from "../protocol.gen";
import type { RangeKind } from "../palette";
import type { MatchCursor } from "./cursor";
import { isShown } from "./fog_of_war";

export interface SensorRange {
  readonly mech: number;
  readonly kind: RangeKind;
  readonly radius: number; // [vox]
}

/** Return what a mech with these flags emits, or null: dead and shut-down mechs emit nothing. */
export function emissionOf(flags: number): "ecm" | "eccm" | null {
  if (!(flags & MechFlag.ALIVE) || flags & MechFlag.SHUTDOWN) return null;
  return flags & MechFlag.ECM ? "ecm" : flags & MechFlag.ECCM ? "eccm" : null;
}

/** Return a mech's sensor quality, 1 without interference. */
export function qualityOf({ sensing, roster }: Header, poses: Poses, mech: number): number {
  const [least, most] = sensing.quality;
  if (!(poses.flags[mech] & MechFlag.ALIVE) || poses.flags[mech] & MechFlag.SHUTDOWN) return least;
  let [jamming, aid] = [0, 0];
  roster.forEach(({ team }, other) => {
    const emits = emissionOf(poses.flags[other]);
    if (emits === null || (other === mech && !sensing.own_eccm)) return;
    const far = Math.hypot(
      poses.x[other] - poses.x[mech],
      poses.y[other] - poses.y[mech],
      poses.z[other] - poses.z[mech],
    );
    const strength = Math.max(0, 1 - far / sensing.ewar);
    const friend = team === roster[mech].team;
    if (emits === "ecm" && !friend) jamming = Math.max(jamming, strength);
    if (emits === "eccm" && friend) aid = Math.max(aid, strength);
  });
  return Math.max(least, Math.min(most, 1 - sensing.ecm * jamming + sensing.eccm * aid));
}

/** Return the radar range of a living mech [vox], or null for a destroyed one. */
export function radarOf(header: Header, poses: Poses, mech: number): number | null {
  if (!(poses.flags[mech] & MechFlag.ALIVE)) return null;
  return qualityOf(header, poses, mech) * (header.sensing.radar[header.roster[mech].chassis] ?? 0);
}

export function sensorRanges(match: MatchCursor, selected: number): SensorRange[] {
  const { header, poses } = match;
  const found: SensorRange[] = [];
  for (let mech = 0; mech < header.mechs; mech++) {
    const kind = emissionOf(poses.flags[mech]);
    if (kind !== null && isShown(match, mech)) found.push({ mech, kind, radius: header.sensing.ewar });
  }
  const radar = selected >= 0 && isShown(match, selected) ? radarOf(header, poses, selected) : null;
  if (radar !== null) found.push({ mech: selected, kind: "radar", radius: radar });
  return found;
}
