// What is seen of events: every effect is a function of the time since its event, so that scrubbing, holding and playing
// backward show the same. An effect is a row in EFFECTS; rounds in flight and wrecks are drawn from their own records.

import { Vector3 } from "three";
import { isShown } from "../data/knowledge";
import type { Chunk } from "../data/replay";
import { firstAfter } from "../data/replay";
import { type Tally, findTallies, tallyAt } from "../data/tallies";
import { type Place, sampleOne } from "../interpolate";
import { POINT_DEFENCE, TEAMS, WEAPONS, type WeaponLook } from "../palette";
import { EventKind, HitFlag, type Header, WEAPON_NAMES, type WeaponName } from "../protocol.gen";
import { worldPoint } from "../spaces";
import type { Mechs } from "./mechs";
import type { DamageNumbers } from "./numbers";
import { BeamKind, type Beams, SpriteKind, type Sprites } from "./quads";

export const WINDOW_S = 2.6; // longest time for which an event shows
const SMOKE = 0x35332f;
const FLAME = 0xff8a30;
const DUST = 0x9c8b74;
const SPARKS = 0x8fd8ff;
const SPARK_GLOW = 0.4; // of sparks; who is hit by many at once must still be seen

/** A repeatable number in [0, 1) from an event and a counter. */
export function scatter(seed: number, k: number): number {
  const x = Math.sin(seed * 12.9898 + k * 78.233) * 43758.5453;
  return x - Math.floor(x);
}

/** Everything an effect draws with. */
export interface Brushes {
  beams: Beams;
  sprites: Sprites;
  numbers: DamageNumbers;
}

/** One event and its surroundings. */
interface Moment {
  age: number; // time since the event [s]
  seed: number; // repeatable randomness of this event
  who: Place | null; // the doer at the time of the event, null where it is not shown
  whom: Place | null; // the other one, likewise
  whomHeight: number; // height of its box [vox]
  at: Vector3; // where the event says it was, in world space
  muzzle: Vector3; // of the doer, in world space
  weapon: WeaponLook | null;
  team: number; // of the doer, 0 or 1
  stopped: boolean; // a missile was shot down
}

type Effect = (moment: Moment, brushes: Brushes) => void;

const point = new Vector3();
const target = new Vector3();

/** Middle of a mech, in world space. */
function middle(place: Place, out: Vector3): Vector3 {
  return worldPoint(place.x, place.y, place.z, out);
}

/** A ball of fire, its flash, and the smoke that it leaves. */
function explosion({ sprites }: Brushes, at: Vector3, radius: number, age: number, seed: number): void {
  const life = 0.5 + 0.22 * radius;
  if (age < life * 3) {
    const flash = Math.max(0, 1 - age / 0.16);
    if (flash > 0) sprites.add(at.x, at.y, at.z, radius * 2.6, SpriteKind.GLOW, 0xffc884, flash);
    const wave = age / (life * 0.7);
    if (wave < 1) sprites.add(at.x, at.y, at.z, radius * (0.4 + 1.7 * wave), SpriteKind.RING, 0xffd9a0, 0.6 * (1 - wave) ** 2);
  }
  const puffs = Math.round(4 + 2.2 * radius);
  for (let k = 0; k < puffs; k++) {
    const [a, b, c] = [scatter(seed, k), scatter(seed, k + 50), scatter(seed, k + 90)];
    const reach = radius * 0.62 * Math.sqrt(Math.min(1, age / (life * 0.5))) * (0.3 + 0.7 * c);
    const x = at.x + Math.cos(a * 6.28) * reach;
    const y = at.y + (b - 0.35) * reach + age * 0.5;
    const z = at.z + Math.sin(a * 6.28) * reach;
    const burning = age / (life * (0.6 + 0.5 * b));
    const size = radius * (0.34 + 0.3 * c) * (0.6 + 0.5 * Math.min(1, burning));
    if (burning < 1) sprites.add(x, y, z, size, SpriteKind.FIRE, FLAME, 1, burning, 0.6, a * 6.28);
    const smoking = (age - life * 0.3) / (life * 2.2);
    if (smoking > 0 && smoking < 1)
      sprites.add(x, y + smoking * radius, z, size * (1.1 + smoking), SpriteKind.SMOKE, SMOKE, 0.5 * (1 - smoking) * Math.min(1, smoking * 6), smoking, 0.9, a * 6.28 + smoking);
  }
}

/** A burst of short-lived sparks. */
function sparks({ sprites }: Brushes, at: Vector3, radius: number, colour: number, age: number, life: number, seed: number): void {
  if (age >= life) return;
  const left = 1 - age / life;
  sprites.add(at.x, at.y, at.z, radius * (0.7 + 0.6 * (1 - left)), SpriteKind.SPARK, colour, left, 1 - left, 0, scatter(seed, 1) * 6.28);
  sprites.add(at.x, at.y, at.z, radius * 0.9, SpriteKind.GLOW, colour, left * SPARK_GLOW);
}

/** A tongue of flame from the muzzle to the target. */
function flame({ sprites }: Brushes, from: Vector3, to: Vector3, look: WeaponLook, age: number, seed: number): void {
  const share = age / look.linger;
  if (share >= 1) return;
  for (let k = 0; k < 9; k++) {
    const along = (k + scatter(seed, k)) / 9;
    point.lerpVectors(from, to, Math.min(1, along * (0.55 + share)));
    const size = (0.22 + 0.62 * along) * look.width;
    point.y += (scatter(seed, k + 20) - 0.4) * size * 0.7 + share * 0.4;
    sprites.add(point.x, point.y, point.z, size, SpriteKind.FIRE, look.colour, 0.9 * (1 - share), share * 0.6 + along * 0.2, 0.25, scatter(seed, k + 40) * 6.28);
  }
}

/** What a shot leaves in the air between two points. */
function shot(brushes: Brushes, from: Vector3, to: Vector3, look: WeaponLook, age: number, seed: number): void {
  if (look.beam === "none" || age >= look.linger) return;
  const left = 1 - age / look.linger;
  if (look.beam === "flame") flame(brushes, from, to, look, age, seed);
  else brushes.beams.add(from, to, look.beam === "dotted" ? BeamKind.DOTTED : BeamKind.SOLID, look.width * (0.35 + 0.65 * left), look.colour, left);
  if (look.beam === "solid") brushes.sprites.add(from.x, from.y, from.z, 0.75 * left + 0.1, SpriteKind.GLOW, look.colour, left);
}

/** A ring of dust along the ground. */
function dust({ sprites }: Brushes, x: number, y: number, z: number, radius: number, age: number, life: number, seed: number): void {
  const share = age / life;
  if (share >= 1) return;
  for (let k = 0; k < 8; k++) {
    const angle = (k + scatter(seed, k)) * 0.785;
    const reach = radius * (0.4 + 0.9 * Math.sqrt(share));
    sprites.add(x + Math.cos(angle) * reach, y + 0.2 + share * 0.8 * scatter(seed, k + 9), z + Math.sin(angle) * reach,
      radius * (0.3 + 0.45 * share), SpriteKind.SMOKE, DUST, 0.42 * (1 - share), share, 0.85, angle);
  }
}

/** What is seen of each kind of event. */
const EFFECTS: Record<EventKind, Effect | null> = {
  [EventKind.NONE]: null,
  [EventKind.ASSIST]: null,
  [EventKind.HIT]: (m, brushes) => {
    if (!m.whom || !m.weapon) return;
    middle(m.whom, target);
    target.y += (scatter(m.seed, 3) - 0.3) * m.whomHeight * 0.4;
    if (m.who) shot(brushes, m.muzzle, target, m.weapon, m.age, m.seed);
    if (m.weapon.blast >= 1.2) explosion(brushes, target, m.weapon.blast * 0.8, m.age, m.seed);
    else sparks(brushes, target, m.weapon.blast * 1.3, m.weapon.colour, m.age, 0.28, m.seed);
  },
  [EventKind.PAINT]: (m, brushes) => {
    if (m.who && m.whom && m.weapon) shot(brushes, m.muzzle, middle(m.whom, target), m.weapon, m.age, m.seed);
  },
  [EventKind.LAUNCH]: (m, brushes) => {
    if (!m.who || !m.weapon) return;
    sparks(brushes, m.muzzle, 0.45 + m.weapon.blast * 0.35, m.weapon.colour, m.age, 0.16, m.seed);
    if (m.weapon.trail > 0) dust(brushes, m.muzzle.x, m.muzzle.y - 0.4, m.muzzle.z, 0.6, m.age, 0.9, m.seed);
  },
  [EventKind.IMPACT]: (m, brushes) => {
    const radius = m.weapon?.blast ?? 0.5;
    if (radius >= 1.2) explosion(brushes, m.at, radius * 0.75, m.age, m.seed);
    else if (radius > 0) sparks(brushes, m.at, 0.7, 0xffd9a0, m.age, 0.22, m.seed);
    dust(brushes, m.at.x, m.at.y - 0.3, m.at.z, 0.5 + radius * 0.4, m.age, 1.1, m.seed);
  },
  [EventKind.AMS]: (m, brushes) => {
    const { colour, width, linger, blast, astray } = POINT_DEFENCE;
    const left = 1 - m.age / linger;
    if (m.who && left > 0) {
      target.copy(m.at);
      // a miss goes past the missile
      if (!m.stopped) target.lerpVectors(m.muzzle, m.at, 1.3).y += astray * (scatter(m.seed, 2) - 0.3);
      brushes.beams.add(m.muzzle, target, BeamKind.TRACER, width * (0.5 + 0.5 * left), colour, left);
      brushes.sprites.add(m.muzzle.x, m.muzzle.y, m.muzzle.z, 0.5 * left + 0.1, SpriteKind.GLOW, colour, left);
    }
    if (!m.stopped) return;
    explosion(brushes, m.at, blast, m.age, m.seed);
    sparks(brushes, m.at, blast * 1.2, colour, m.age, 0.3, m.seed);
  },
  [EventKind.KILL]: (m, brushes) => {
    if (m.whom) explosion(brushes, middle(m.whom, target), 1.1 + m.whomHeight * 0.62, m.age, m.seed);
  },
  [EventKind.FALL]: (m, brushes) => {
    if (m.who) dust(brushes, middle(m.who, target).x, target.y - 1, target.z, 1.6, m.age - 0.15, 1.2, m.seed);
  },
  [EventKind.SHUTDOWN]: (m, brushes) => {
    if (!m.who || m.age > 1.5) return;
    middle(m.who, target);
    for (let k = 0; k < 3; k++) {
      const flicker = scatter(m.seed + Math.floor(m.age * 14), k);
      const [x, z] = [scatter(m.seed, k) - 0.5, scatter(m.seed, k + 7) - 0.5];
      if (flicker > 0.55) sparks(brushes, point.set(target.x + x * 1.6, target.y + flicker, target.z + z * 1.6), 0.6, SPARKS, flicker * 0.2, 0.25, m.seed + k);
    }
    brushes.sprites.add(target.x, target.y + 1 + m.age, target.z, 0.8 + m.age, SpriteKind.SMOKE, 0xdfe6ea, 0.4 * (1 - m.age / 1.5), m.age / 1.5, 0.5, m.seed);
  },
};

/** Draws the events of the last moments. */
export class Effects {
  /** Time since each mech was last hit [s]. */
  readonly hits: Float64Array;
  private readonly tallies = new WeakMap<Chunk, Tally[]>(); // the damage numbers of each chunk

  constructor(private readonly header: Header, private readonly mechs: Mechs, private readonly brushes: Brushes) {
    this.hits = new Float64Array(header.mechs);
  }

  /**
   * Draw what the given chunks say of the time just before `tick`. Of mechs that are not `shown` nothing is drawn that would
   * tell where they are; `drawn` is how far each is in the picture.
   */
  draw(chunks: readonly Chunk[], tick: number, shown: Float32Array, drawn: Float32Array): void {
    this.hits.fill(Infinity);
    for (const chunk of chunks) {
      const { events } = chunk;
      const first = firstAfter(events.tick, tick - WINDOW_S * this.header.tick_hz);
      for (let i = first; i < events.count && events.tick[i] <= tick; i++) this.drawEvent(chunk, i, tick, shown);
      this.drawNumbers(chunk, tick, drawn);
    }
  }

  /** Draw the damage that a chunk tells of; a number goes with its mech until its last hit, and rises from there. */
  private drawNumbers(chunk: Chunk, tick: number, drawn: Float32Array): void {
    const hz = this.header.tick_hz;
    let tallies = this.tallies.get(chunk);
    if (!tallies) this.tallies.set(chunk, (tallies = findTallies(chunk.events, hz)));
    for (const tally of tallies) {
      const shown = tallyAt(tally, tick, hz);
      if (!shown) continue;
      const place = sampleOne(chunk, tally.whom, Math.min(tick, tally.ticks[tally.ticks.length - 1]), hz);
      this.brushes.numbers.add(middle(place, target), tally, shown, drawn[tally.whom]);
    }
  }

  private drawEvent(chunk: Chunk, i: number, tick: number, shown: Float32Array): void {
    const { events } = chunk;
    const kind: EventKind = events.kind[i];
    const effect = EFFECTS[kind];
    if (!effect) return;
    const age = (tick - events.tick[i]) / this.header.tick_hz;
    const [who, whom] = [events.who[i], events.whom[i]];
    const name = this.header.weapons[events.weapon[i]]?.name as WeaponName | undefined;
    if (kind === EventKind.HIT && whom >= 0) this.hits[whom] = Math.min(this.hits[whom], age);
    const placeOf = (mech: number) => (mech >= 0 && isShown({ shown }, mech) ? sampleOne(chunk, mech, events.tick[i], this.header.tick_hz) : null);
    const doer = placeOf(who);
    const muzzle = new Vector3();
    if (doer) this.mechs.muzzle(who, doer.x, doer.y, doer.z, doer.yaw, muzzle);
    effect(
      {
        age, seed: (events.tick[i] * 7.31 + who * 3.7 + whom * 1.3 + i) % 1000, who: doer, whom: placeOf(whom),
        whomHeight: whom >= 0 ? this.mechs.height(whom) : 2, muzzle,
        at: worldPoint(events.x[i], events.y[i], events.z[i], new Vector3()),
        weapon: name && WEAPON_NAMES.includes(name) ? WEAPONS[name] : null,
        team: who >= 0 ? this.header.roster[who].team : 0,
        stopped: (events.flags[i] & HitFlag.STOPPED) !== 0,
      },
      this.brushes,
    );
  }

  /** Draw the fire and the smoke of wrecks; `deadFor` is the time since each mech's death [s]. */
  drawWrecks(poses: { x: Float32Array; y: Float32Array; z: Float32Array }, deadFor: Float64Array): void {
    for (let mech = 0; mech < deadFor.length; mech++) {
      const time = deadFor[mech];
      if (time < 0.4) continue;
      const size = 0.35 + this.mechs.height(mech) * 0.17;
      worldPoint(poses.x[mech], poses.y[mech], poses.z[mech], target);
      const fresh = Math.min(1, (time - 0.4) / 0.8) * Math.max(0.3, 1 - time / 40);
      for (let k = 0; k < 9; k++) {
        const life = 4.2;
        const age = ((time + (k * life) / 9) % life) / life;
        const born = time - age * life;
        if (born < 0) continue;
        const drift = age * age * 2.6;
        const turn = scatter(mech, k) * 6.28 + age;
        this.brushes.sprites.add(target.x + drift * 0.8 + Math.cos(turn) * size * 0.3, target.y + size * 0.5 + age * 6.5, target.z - drift * 0.35 + Math.sin(turn) * size * 0.3,
          size * (0.6 + age * 2.1), SpriteKind.SMOKE, SMOKE, 0.5 * fresh * Math.min(1, age * 7) * (1 - age), age, 0.95, turn);
      }
      for (let k = 0; k < 3; k++) {
        const age = ((time * 1.25 + k / 3) % 1);
        this.brushes.sprites.add(target.x + (scatter(mech, k) - 0.5) * size, target.y + age * size * 1.3, target.z + (scatter(mech, k + 5) - 0.5) * size,
          size * 0.62 * (1 - age * 0.5), SpriteKind.FIRE, FLAME, fresh * (1 - age), age * 0.7, 0.3, scatter(mech, k + 8) * 6.28 + time);
      }
    }
  }

  /** Colour of a mech's team. */
  teamColour(mech: number): number {
    return TEAMS[this.header.roster[mech].team].colour;
  }
}
