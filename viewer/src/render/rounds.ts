// Rounds in flight: a bright tracer each, and for those that leave smoke a row of puffs that stay where they were made.
// Puffs are made at fixed moments of the match, not of the screen, so that a trail is the same however one comes to it.

import { Vector3 } from "three";
import { type Flight, type FlightPoint, flightAt, flightsOf } from "../data/flights";
import { isShown } from "../data/knowledge";
import type { Chunk } from "../data/replay";
import { sampleOne, smooth } from "../interpolate";
import { WEAPONS, type WeaponLook } from "../palette";
import { type Header, WEAPON_NAMES, type WeaponName } from "../protocol.gen";
import { worldPoint } from "../spaces";
import { type Brushes, scatter } from "./effects";
import { BeamKind, SpriteKind } from "./quads";

const PUFF_TICKS = 1; // time between two puffs of a trail [ticks]
const TRAIL_SMOKE = 0xd9d4cc;

const VEILED = 8; // rounds of who is not shown are hidden this near to it, or they would tell where it is [vox]
const UNVEILED = 12; // and fully there this far from it [vox]

const head = new Vector3();
const tail = new Vector3();

/** How far a round is drawn where it is, 0 not at all. */
type Clear = (at: FlightPoint) => number;

const always: Clear = () => 1;

/** How far rounds are drawn whose owner is not shown: the more, the farther they have come from it. */
function awayFrom(chunk: Chunk, owner: number, tickHz: number): Clear {
  return (at) => {
    const from = sampleOne(chunk, owner, at.tick, tickHz);
    return smooth((Math.hypot(at.x - from.x, at.y - from.y, at.z - from.z) - VEILED) / (UNVEILED - VEILED));
  };
}

/** Draw all rounds of the given chunks at a tick; `shown` is how far each mech is shown. */
export function drawRounds(chunks: readonly Chunk[], header: Header, tick: number, shown: Float32Array, brushes: Brushes): void {
  for (const chunk of chunks) {
    for (const flight of flightsOf(chunk, header)) {
      const name = header.weapons[flight.weapon]?.name as WeaponName;
      if (!WEAPON_NAMES.includes(name)) continue;
      const look = WEAPONS[name];
      const clear = isShown({ shown }, flight.owner) ? always : awayFrom(chunk, flight.owner, header.tick_hz);
      drawTracer(flight, look, header, tick, clear, brushes);
      if (look.trail > 0) drawTrail(flight, look, header, tick, clear, brushes);
    }
  }
}

function drawTracer(flight: Flight, look: WeaponLook, header: Header, tick: number, clear: Clear, { beams, sprites }: Brushes): void {
  const now = flightAt(flight, tick);
  if (!now || look.tracer <= 0) return;
  const speed = header.weapons[flight.weapon].speed / header.tick_hz; // voxels per tick
  const back = flightAt(flight, Math.max(flight.points[0].tick, tick - look.tracer / speed));
  if (!back) return;
  // its tail is nearer to who fired it
  const alpha = clear(back);
  if (alpha <= 0) return;
  worldPoint(now.x, now.y, now.z, head);
  worldPoint(back.x, back.y, back.z, tail);
  beams.add(tail, head, BeamKind.TRACER, look.width, look.colour, alpha);
  sprites.add(head.x, head.y, head.z, look.width * 3.4, SpriteKind.GLOW, look.colour, 0.85 * alpha);
}

function drawTrail(flight: Flight, look: WeaponLook, header: Header, tick: number, clear: Clear, { sprites }: Brushes): void {
  const life = look.trail * header.tick_hz;
  const first = Math.ceil(Math.max(flight.points[0].tick, tick - life) / PUFF_TICKS) * PUFF_TICKS;
  for (let made = first; made <= tick; made += PUFF_TICKS) {
    const at = flightAt(flight, made);
    if (!at) return;
    const alpha = clear(at);
    if (alpha <= 0) continue;
    const age = (tick - made) / life;
    const seed = made + flight.owner * 17;
    worldPoint(at.x, at.y, at.z, head);
    const size = look.width * (0.9 + 2.4 * age) * (0.8 + 0.4 * scatter(seed, 1));
    sprites.add(head.x, head.y + age * 0.35, head.z, size, SpriteKind.SMOKE, TRAIL_SMOKE, 0.55 * alpha * (1 - age) ** 1.4, age, 0.75, scatter(seed, 2) * 6.28);
  }
}
