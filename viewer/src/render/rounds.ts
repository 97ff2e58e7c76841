// Rounds in flight: a tracer each, and a trail of smoke puffs for those that leave smoke. Puffs are created at fixed
// ticks of the match, so that a trail does not depend on how a moment was reached.

import { Vector3 } from "three";
import { type Flight, type FlightPoint, flightAt, flightsOf } from "../data/flights";
import { isShown } from "../data/fog_of_war";
import type { Chunk } from "../data/replay";
import { sampleMech, smooth } from "../interpolate";
import { WEAPONS, type WeaponAppearance } from "../palette";
import { type Header, WEAPON_NAMES, type WeaponName } from "../protocol.gen";
import { worldPoint } from "../spaces";
import type { EffectPools } from "./effects";
import { BeamKind, SpriteKind } from "./quads";
import { hashRandom } from "./random";

const PUFF_TICKS = 1; // interval between two puffs of a trail [ticks]
const TRAIL_SMOKE = 0xd9d4cc;

const HIDDEN_RADIUS = 8; // rounds this close to a hidden owner are hidden [vox]
const CLEAR_RADIUS = 12; // distance from a hidden owner at which rounds are fully visible [vox]

const head = new Vector3();
const tail = new Vector3();

type Clear = (at: FlightPoint) => number;

interface Picture {
  header: Header;
  tick: number;
  clear: Clear;
  pools: EffectPools;
}

const always: Clear = () => 1;

/** Return the opacity of rounds of a hidden owner, growing with distance from it. */
function awayFrom(chunk: Chunk, owner: number, tickHz: number): Clear {
  return (at) => {
    const from = sampleMech(chunk, owner, at.tick, tickHz);
    return smooth(
      (Math.hypot(at.x - from.x, at.y - from.y, at.z - from.z) - HIDDEN_RADIUS) / (CLEAR_RADIUS - HIDDEN_RADIUS),
    );
  };
}

/** Draw all rounds of the given chunks at a tick; `shown` is the visibility of each mech. */
export function drawRounds(
  chunks: readonly Chunk[],
  header: Header,
  tick: number,
  shown: Float32Array,
  pools: EffectPools,
): void {
  for (const chunk of chunks) {
    for (const flight of flightsOf(chunk, header)) {
      const name = header.weapons[flight.weapon]?.name as WeaponName;
      if (!WEAPON_NAMES.includes(name)) continue;
      const appearance = WEAPONS[name];
      const clear =
        flight.owner < 0 || isShown({ shown }, flight.owner) ? always : awayFrom(chunk, flight.owner, header.tick_hz);
      drawTracer(flight, appearance, { header, tick, clear, pools });
      if (appearance.trail > 0) drawTrail(flight, appearance, { header, tick, clear, pools });
    }
  }
}

function drawTracer(flight: Flight, appearance: WeaponAppearance, { header, tick, clear, pools }: Picture): void {
  const now = flightAt(flight, tick);
  if (!now || appearance.tracer <= 0) return;
  const speed = header.weapons[flight.weapon].speed / header.tick_hz; // voxels per tick
  const back = flightAt(flight, Math.max(flight.points[0].tick, tick - appearance.tracer / speed));
  if (!back) return;
  // the tail is closer to the owner
  const alpha = clear(back);
  if (alpha <= 0) return;
  worldPoint(now.x, now.y, now.z, head);
  worldPoint(back.x, back.y, back.z, tail);
  pools.beams.add(tail, head, BeamKind.TRACER, appearance.width, appearance.colour, alpha);
  pools.sprites.add(head, appearance.width * 3.4, SpriteKind.GLOW, appearance.colour, 0.85 * alpha);
}

function drawTrail(flight: Flight, appearance: WeaponAppearance, { header, tick, clear, pools }: Picture): void {
  const life = appearance.trail * header.tick_hz;
  const first = Math.ceil(Math.max(flight.points[0].tick, tick - life) / PUFF_TICKS) * PUFF_TICKS;
  for (let made = first; made <= tick; made += PUFF_TICKS) {
    const at = flightAt(flight, made);
    if (!at) return;
    const alpha = clear(at);
    if (alpha <= 0) continue;
    const age = (tick - made) / life;
    const seed = made + flight.owner * 17;
    worldPoint(at.x, at.y, at.z, head);
    const size = appearance.width * (0.9 + 2.4 * age) * (0.8 + 0.4 * hashRandom(seed, 1));
    head.y += age * 0.35;
    const puff = { age, cover: 0.75, turn: hashRandom(seed, 2) * 6.28 };
    pools.sprites.add(head, size, SpriteKind.SMOKE, TRAIL_SMOKE, 0.55 * alpha * (1 - age) ** 1.4, puff);
  }
}
