// Rounds in flight: a bright tracer each, and for those that leave smoke a row of puffs that stay where they were made.
// Puffs are made at fixed moments of the match, not of the screen, so that a trail is the same however one comes to it.

import { Vector3 } from "three";
import { type Flight, flightAt, flightsOf } from "../data/flights";
import type { Chunk } from "../data/replay";
import { WEAPONS, type WeaponLook } from "../palette";
import { type Header, WEAPON_NAMES, type WeaponName } from "../protocol.gen";
import { worldPoint } from "../spaces";
import { type Brushes, scatter } from "./effects";
import { BeamKind, SpriteKind } from "./quads";

const PUFF_TICKS = 1; // time between two puffs of a trail [ticks]
const TRAIL_SMOKE = 0xd9d4cc;

const head = new Vector3();
const tail = new Vector3();

/** Draw all rounds of the given chunks at a tick. */
export function drawRounds(chunks: readonly Chunk[], header: Header, tick: number, brushes: Brushes): void {
  for (const chunk of chunks) {
    for (const flight of flightsOf(chunk, header)) {
      const name = header.weapons[flight.weapon]?.name as WeaponName;
      if (!WEAPON_NAMES.includes(name)) continue;
      const look = WEAPONS[name];
      drawTracer(flight, look, header, tick, brushes);
      if (look.trail > 0) drawTrail(flight, look, header, tick, brushes);
    }
  }
}

function drawTracer(flight: Flight, look: WeaponLook, header: Header, tick: number, { beams, sprites }: Brushes): void {
  const now = flightAt(flight, tick);
  if (!now || look.tracer <= 0) return;
  const speed = header.weapons[flight.weapon].speed / header.tick_hz; // voxels per tick
  const back = flightAt(flight, Math.max(flight.points[0].tick, tick - look.tracer / speed));
  if (!back) return;
  worldPoint(now.x, now.y, now.z, head);
  worldPoint(back.x, back.y, back.z, tail);
  beams.add(tail, head, BeamKind.TRACER, look.width, look.colour, 1);
  sprites.add(head.x, head.y, head.z, look.width * 3.4, SpriteKind.GLOW, look.colour, 0.85);
}

function drawTrail(flight: Flight, look: WeaponLook, header: Header, tick: number, { sprites }: Brushes): void {
  const life = look.trail * header.tick_hz;
  const first = Math.ceil(Math.max(flight.points[0].tick, tick - life) / PUFF_TICKS) * PUFF_TICKS;
  for (let made = first; made <= tick; made += PUFF_TICKS) {
    const at = flightAt(flight, made);
    if (!at) return;
    const age = (tick - made) / life;
    const seed = made + flight.owner * 17;
    worldPoint(at.x, at.y, at.z, head);
    const size = look.width * (0.9 + 2.4 * age) * (0.8 + 0.4 * scatter(seed, 1));
    sprites.add(head.x, head.y + age * 0.35, head.z, size, SpriteKind.SMOKE, TRAIL_SMOKE, 0.55 * (1 - age) ** 1.4, age, 0.75, scatter(seed, 2) * 6.28);
  }
}
