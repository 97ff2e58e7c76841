// How far mechs sense and jam at a moment: the mirror of echelon/sim/kernels/sensing.py, from what the header says of
// sensors and from who emits. Pure. Sight has no range in the simulator: it ends at walls and in smoke, which the dark
// over the ground shows.

import type { Poses } from "../interpolate";
import { type Header, MechFlag } from "../protocol.gen";
import type { MatchState } from "../state";
import { isShown } from "./knowledge";

/** What reaches so far: an emitter's ECM or ECCM, or the selected mech's radar. */
export type ReachKind = "ecm" | "eccm" | "radar";

/** How far something reaches around a mech. */
export interface Reach {
  readonly mech: number;
  readonly kind: ReachKind;
  readonly radius: number; // [vox]
}

/** What a mech in such a state emits, null for nothing: the dead and who is shut down are silent. */
export function emissionOf(flags: number): "ecm" | "eccm" | null {
  if (!(flags & MechFlag.ALIVE) || flags & MechFlag.SHUTDOWN) return null;
  return flags & MechFlag.ECM ? "ecm" : flags & MechFlag.ECCM ? "eccm" : null;
}

/** What a mech's sensors are worth, 1 where nobody interferes; null where the file does not say how sensors work. */
export function qualityOf({ sensing, roster }: Header, poses: Poses, mech: number): number | null {
  if (!sensing) return null;
  const [least, most] = sensing.quality;
  if (!(poses.flags[mech] & MechFlag.ALIVE) || poses.flags[mech] & MechFlag.SHUTDOWN) return least;
  let [jamming, aid] = [0, 0];
  roster.forEach(({ team }, other) => {
    const emits = emissionOf(poses.flags[other]);
    if (emits === null || (other === mech && !sensing.own_eccm)) return;
    const far = Math.hypot(poses.x[other] - poses.x[mech], poses.y[other] - poses.y[mech], poses.z[other] - poses.z[mech]);
    const strength = Math.max(0, 1 - far / sensing.ewar);
    const friend = team === roster[mech].team;
    if (emits === "ecm" && !friend) jamming = Math.max(jamming, strength);
    if (emits === "eccm" && friend) aid = Math.max(aid, strength);
  });
  return Math.max(least, Math.min(most, 1 - sensing.ecm * jamming + sensing.eccm * aid));
}

/** How far a living mech's radar sees through walls [vox]; null where that is not known. */
export function radarOf(header: Header, poses: Poses, mech: number): number | null {
  const quality = qualityOf(header, poses, mech);
  if (quality === null || !(poses.flags[mech] & MechFlag.ALIVE)) return null;
  return quality * (header.sensing?.radar[header.roster[mech].chassis] ?? 0);
}

/** Everything that reaches around the mechs that are shown; empty where the file does not say how far. */
export function reachesOf(match: MatchState, selected: number): Reach[] {
  const { header, poses } = match;
  const found: Reach[] = [];
  if (!header.sensing) return found;
  for (let mech = 0; mech < header.mechs; mech++) {
    const kind = emissionOf(poses.flags[mech]);
    if (kind !== null && isShown(match, mech)) found.push({ mech, kind, radius: header.sensing.ewar });
  }
  const radar = selected >= 0 && isShown(match, selected) ? radarOf(header, poses, selected) : null;
  if (radar !== null) found.push({ mech: selected, kind: "radar", radius: radar });
  return found;
}
