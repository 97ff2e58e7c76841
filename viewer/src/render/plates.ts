// Layout of nameplates on the screen: scale by distance, and vertical offsets that avoid overlaps. Pure.

const LEAST_SCALE = 0.88; // least scale of distant plates
export const PLATE_SIZE = [66, 24] as const; // size of a plate at scale 1 [CSS px]
const MOST_OVERLAP = 0.04; // most share of a plate that another may cover
const LIFTS = [0, 1.1] as const; // offsets tried to avoid overlaps, in plate heights
const MOST_SCALE = 1.3; // most scale of near plates
const CROWD = 20; // with more mechs, plates shrink
const BATTLE = 60; // with more living mechs, only near ones have plates
const NEAR = 22; // distance of near mechs from the camera [vox]

/** Position of a plate on the screen [CSS px]. */
export interface Plate {
  x: number; // centre
  y: number; // centre, upward
  scale: number; // relative to PLATE_SIZE
}

/** Return whether a mech at a distance from the camera [vox] may have a plate, given the number of living mechs. */
export function mayHavePlate(living: number, distance: number): boolean {
  return living <= BATTLE || distance < NEAR;
}

/** Return the scales of the farthest and the nearest plates for a number of mechs. */
export function plateScales(mechs: number): [number, number] {
  const room = Math.sqrt(CROWD / mechs);
  return [LEAST_SCALE * Math.max(0.4, Math.min(1, room)), MOST_SCALE * Math.max(0.7, Math.min(1, room))];
}

/** Return the scale of a plate at a distance before the camera [vox]. */
export function plateScaleAt(far: number, [least, most]: readonly [number, number]): number {
  return Math.max(least, Math.min(most, 60 / Math.max(1, far)));
}

/** Return whether two plates overlap too much. */
function overlapsTooMuch(over: Plate, plate: Plate): boolean {
  const [reach, least] = [(plate.scale + over.scale) / 2, Math.min(plate.scale, over.scale)];
  const shared = (size: number, apart: number) => Math.max(0, Math.min(size * least, size * reach - Math.abs(apart)));
  const covered = shared(PLATE_SIZE[0], plate.x - over.x) * shared(PLATE_SIZE[1], plate.y - over.y);
  return covered > MOST_OVERLAP * PLATE_SIZE[0] * PLATE_SIZE[1] * plate.scale ** 2;
}

/**
 * Return how far each plate moves up so that it hardly overlaps earlier ones, in plate heights; null without room.
 * Plates are given by priority, highest first.
 */
export function arrangePlates(plates: readonly Plate[]): (number | null)[] {
  const placed: Plate[] = [];
  return plates.map((plate) => {
    for (const lift of LIFTS) {
      const lifted = { ...plate, y: plate.y + lift * PLATE_SIZE[1] * plate.scale };
      if (placed.some((other) => overlapsTooMuch(other, lifted))) continue;
      placed.push(lifted);
      return lift;
    }
    return null;
  });
}
