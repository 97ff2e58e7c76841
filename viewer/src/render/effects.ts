// Effects of events: each is a function of the time since its event, so that seeking, pausing and playing backward show
// the same. An effect is a row in EFFECTS; rounds in flight and wrecks are drawn from their own records.

import { Vector3 } from "three";
import { isShown } from "../data/fog_of_war";
import type { Chunk } from "../data/replay";
import { firstAfter } from "../data/replay";
import { type HitGroup, findHitGroups, hitGroupAt } from "../data/hit_groups";
import { type MechPose, sampleMech } from "../interpolate";
import { POINT_DEFENCE, WEAPONS, type WeaponAppearance } from "../palette";
import { EventKind, HitFlag, type Header, WEAPON_NAMES, type WeaponName } from "../protocol.gen";
import { worldPoint } from "../spaces";
import type { Mechs } from "./mechs";
import type { DamageNumbers } from "./overlay/damage_numbers";
import { hashRandom } from "./random";
import { BeamKind, type Beams, SpriteKind, type Sprites } from "./quads";

export const WINDOW_S = 2.6; // longest duration of an effect [s]
const SMOKE = 0x35332f;
const FLAME = 0xff8a30;
const DUST = 0x9c8b74;
const SPARKS = 0x8fd8ff;
const SPARK_GLOW = 0.4; // brightness of sparks, limited so that a mech under many hits stays visible

export interface EffectPools {
  beams: Beams;
  sprites: Sprites;
  numbers: DamageNumbers;
}

interface Moment {
  age: number; // time since the event [s]
  seed: number; // random seed of the event
}

interface EffectEvent extends Moment {
  actor: MechPose | null; // pose of the acting mech at the event, null if hidden
  target: MechPose | null; // pose of the affected mech, null if hidden
  targetHeight: number; // height of the affected mech [vox]
  at: Vector3; // position of the event, in world space
  muzzle: Vector3; // muzzle of the acting mech, in world space
  weapon: WeaponAppearance | null;
  stopped: boolean; // whether point defence shot the missile down
}

type Effect = (event: EffectEvent, pools: EffectPools) => void;

const point = new Vector3();
const target = new Vector3();

function centreOf(place: MechPose, out: Vector3): Vector3 {
  return worldPoint(place.x, place.y, place.z, out);
}

function explosion({ sprites }: EffectPools, { age, seed }: Moment, at: Vector3, radius: number): void {
  const life = 0.5 + 0.22 * radius;
  if (age < life * 3) {
    const flash = Math.max(0, 1 - age / 0.16);
    if (flash > 0) sprites.add(at, radius * 2.6, SpriteKind.GLOW, 0xffc884, flash);
    const wave = age / (life * 0.7);
    if (wave < 1) sprites.add(at, radius * (0.4 + 1.7 * wave), SpriteKind.RING, 0xffd9a0, 0.6 * (1 - wave) ** 2);
  }
  const puffs = Math.round(4 + 2.2 * radius);
  for (let k = 0; k < puffs; k++) {
    const [a, b, c] = [hashRandom(seed, k), hashRandom(seed, k + 50), hashRandom(seed, k + 90)];
    const reach = radius * 0.62 * Math.sqrt(Math.min(1, age / (life * 0.5))) * (0.3 + 0.7 * c);
    const turn = a * 6.28;
    point.copy(at);
    point.x += Math.cos(turn) * reach;
    point.y += (b - 0.35) * reach + age * 0.5;
    point.z += Math.sin(turn) * reach;
    const burning = age / (life * (0.6 + 0.5 * b));
    const size = radius * (0.34 + 0.3 * c) * (0.6 + 0.5 * Math.min(1, burning));
    if (burning < 1) sprites.add(point, size, SpriteKind.FIRE, FLAME, 1, { age: burning, cover: 0.6, turn });
    const smoking = (age - life * 0.3) / (life * 2.2);
    if (smoking <= 0 || smoking >= 1) continue;
    point.y += smoking * radius;
    const alpha = 0.5 * (1 - smoking) * Math.min(1, smoking * 6);
    const puff = { age: smoking, cover: 0.9, turn: turn + smoking };
    sprites.add(point, size * (1.1 + smoking), SpriteKind.SMOKE, SMOKE, alpha, puff);
  }
}

function sparks(pools: EffectPools, m: Moment, at: Vector3, radius: number, colour: number, life: number): void {
  if (m.age >= life) return;
  const share = m.age / life;
  const star = { age: share, turn: hashRandom(m.seed, 1) * 6.28 };
  pools.sprites.add(at, radius * (0.7 + 0.6 * share), SpriteKind.SPARK, colour, 1 - share, star);
  pools.sprites.add(at, radius * 0.9, SpriteKind.GLOW, colour, (1 - share) * SPARK_GLOW);
}

function flame({ sprites }: EffectPools, { age, seed, muzzle }: EffectEvent, to: Vector3, weapon: WeaponAppearance) {
  const share = age / weapon.linger;
  for (let k = 0; k < 9; k++) {
    const along = (k + hashRandom(seed, k)) / 9;
    point.lerpVectors(muzzle, to, Math.min(1, along * (0.55 + share)));
    const size = (0.22 + 0.62 * along) * weapon.width;
    point.y += (hashRandom(seed, k + 20) - 0.4) * size * 0.7 + share * 0.4;
    const tongue = { age: share * 0.6 + along * 0.2, cover: 0.25, turn: hashRandom(seed, k + 40) * 6.28 };
    sprites.add(point, size, SpriteKind.FIRE, weapon.colour, 0.9 * (1 - share), tongue);
  }
}

/** Draw what a weapon without rounds fires from the muzzle. */
function shot(pools: EffectPools, m: EffectEvent, to: Vector3, weapon: WeaponAppearance): void {
  const { beam, colour, linger } = weapon;
  if (beam === "none" || m.age >= linger) return;
  const left = 1 - m.age / linger;
  const width = weapon.width * (0.35 + 0.65 * left);
  if (beam === "flame") flame(pools, m, to, weapon);
  else pools.beams.add(m.muzzle, to, beam === "dotted" ? BeamKind.DOTTED : BeamKind.SOLID, width, colour, left);
  if (beam === "solid") pools.sprites.add(m.muzzle, 0.75 * left + 0.1, SpriteKind.GLOW, colour, left);
}

/** Draw a ring of dust `below` a point. */
function dust(pools: EffectPools, m: Moment, at: Vector3, below: number, radius: number, life: number): void {
  const share = m.age / life;
  if (share >= 1) return;
  for (let k = 0; k < 8; k++) {
    const turn = (k + hashRandom(m.seed, k)) * 0.785;
    const reach = radius * (0.4 + 0.9 * Math.sqrt(share));
    point.copy(at);
    point.x += Math.cos(turn) * reach;
    point.y += 0.2 - below + share * 0.8 * hashRandom(m.seed, k + 9);
    point.z += Math.sin(turn) * reach;
    const puff = { age: share, cover: 0.85, turn };
    pools.sprites.add(point, radius * (0.3 + 0.45 * share), SpriteKind.SMOKE, DUST, 0.42 * (1 - share), puff);
  }
}

const EFFECTS: Record<EventKind, Effect | null> = {
  [EventKind.NONE]: null,
  [EventKind.ASSIST]: null,
  [EventKind.HIT]: (m, pools) => {
    if (!m.target || !m.weapon) return;
    centreOf(m.target, target);
    target.y += (hashRandom(m.seed, 3) - 0.3) * m.targetHeight * 0.4;
    if (m.actor) shot(pools, m, target, m.weapon);
    if (m.weapon.blast >= 1.2) explosion(pools, m, target, m.weapon.blast * 0.8);
    else sparks(pools, m, target, m.weapon.blast * 1.3, m.weapon.colour, 0.28);
  },
  [EventKind.PAINT]: (m, pools) => {
    if (m.actor && m.target && m.weapon) shot(pools, m, centreOf(m.target, target), m.weapon);
  },
  [EventKind.LAUNCH]: (m, pools) => {
    if (!m.actor || !m.weapon) return;
    sparks(pools, m, m.muzzle, 0.45 + m.weapon.blast * 0.35, m.weapon.colour, 0.16);
    if (m.weapon.trail > 0) dust(pools, m, m.muzzle, 0.4, 0.6, 0.9);
  },
  [EventKind.IMPACT]: (m, pools) => {
    const radius = m.weapon?.blast ?? 0.5;
    if (radius >= 1.2) explosion(pools, m, m.at, radius * 0.75);
    else if (radius > 0) sparks(pools, m, m.at, 0.7, 0xffd9a0, 0.22);
    dust(pools, m, m.at, 0.3, 0.5 + radius * 0.4, 1.1);
  },
  [EventKind.AMS]: (m, pools) => {
    const { colour, width, linger, blast, astray } = POINT_DEFENCE;
    const left = 1 - m.age / linger;
    if (m.actor && left > 0) {
      target.copy(m.at);
      // a miss passes the missile
      if (!m.stopped) target.lerpVectors(m.muzzle, m.at, 1.3).y += astray * (hashRandom(m.seed, 2) - 0.3);
      pools.beams.add(m.muzzle, target, BeamKind.TRACER, width * (0.5 + 0.5 * left), colour, left);
      pools.sprites.add(m.muzzle, 0.5 * left + 0.1, SpriteKind.GLOW, colour, left);
    }
    if (!m.stopped) return;
    explosion(pools, m, m.at, blast);
    sparks(pools, m, m.at, blast * 1.2, colour, 0.3);
  },
  [EventKind.KILL]: (m, pools) => {
    if (m.target) explosion(pools, m, centreOf(m.target, target), 1.1 + m.targetHeight * 0.62);
  },
  [EventKind.FALL]: (m, pools) => {
    if (m.actor) dust(pools, { ...m, age: m.age - 0.15 }, centreOf(m.actor, target), 1, 1.6, 1.2);
  },
  [EventKind.SHUTDOWN]: (m, pools) => {
    if (!m.actor || m.age > 1.5) return;
    centreOf(m.actor, target);
    for (let k = 0; k < 3; k++) {
      const flicker = hashRandom(m.seed + Math.floor(m.age * 14), k);
      const [x, z] = [hashRandom(m.seed, k) - 0.5, hashRandom(m.seed, k + 7) - 0.5];
      point.set(target.x + x * 1.6, target.y + flicker, target.z + z * 1.6);
      if (flicker > 0.55) sparks(pools, { age: flicker * 0.2, seed: m.seed + k }, point, 0.6, SPARKS, 0.25);
    }
    const share = m.age / 1.5;
    target.y += 1 + m.age;
    const steam = { age: share, cover: 0.5, turn: m.seed };
    pools.sprites.add(target, 0.8 + m.age, SpriteKind.SMOKE, 0xdfe6ea, 0.4 * (1 - share), steam);
  },
};

export class Effects {
  /** Time since each mech was last hit [s]. */
  readonly hits: Float64Array;
  private readonly hitGroups = new WeakMap<Chunk, HitGroup[]>(); // hit groups of each chunk

  constructor(
    private readonly header: Header,
    private readonly mechs: Mechs,
    private readonly pools: EffectPools,
  ) {
    this.hits = new Float64Array(header.mechs);
  }

  /**
   * Draw the recent events of the given chunks. Mechs hidden according to `shown` reveal nothing; `drawn` is the
   * opacity of each mech's model.
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

  /** Draw the damage numbers of a chunk; a number moves with its mech until its last hit, then rises. */
  private drawNumbers(chunk: Chunk, tick: number, drawn: Float32Array): void {
    const hz = this.header.tick_hz;
    let hitGroups = this.hitGroups.get(chunk);
    if (!hitGroups) this.hitGroups.set(chunk, (hitGroups = findHitGroups(chunk.events, hz)));
    for (const hitGroup of hitGroups) {
      const shown = hitGroupAt(hitGroup, tick, hz);
      if (!shown) continue;
      const place = sampleMech(chunk, hitGroup.target, Math.min(tick, hitGroup.ticks[hitGroup.ticks.length - 1]), hz);
      this.pools.numbers.add([place.x, place.y, place.z], hitGroup, shown, drawn[hitGroup.target]);
    }
  }

  private drawEvent(chunk: Chunk, i: number, tick: number, shown: Float32Array): void {
    const { events } = chunk;
    const kind: EventKind = events.kind[i];
    const effect = EFFECTS[kind];
    if (!effect) return;
    const age = (tick - events.tick[i]) / this.header.tick_hz;
    const [acting, affected] = [events.actor[i], events.target[i]];
    const name = this.header.weapons[events.weapon[i]]?.name as WeaponName | undefined;
    if (kind === EventKind.HIT && affected >= 0) this.hits[affected] = Math.min(this.hits[affected], age);
    const placeOf = (mech: number) =>
      mech >= 0 && isShown({ shown }, mech) ? sampleMech(chunk, mech, events.tick[i], this.header.tick_hz) : null;
    const actor = placeOf(acting);
    const muzzle = new Vector3();
    if (actor) this.mechs.muzzle(acting, actor.x, actor.y, actor.z, actor.yaw, muzzle);
    effect(
      {
        age,
        seed: (events.tick[i] * 7.31 + acting * 3.7 + affected * 1.3 + i) % 1000,
        actor,
        target: placeOf(affected),
        targetHeight: affected >= 0 ? this.mechs.height(affected) : 2,
        muzzle,
        at: worldPoint(events.x[i], events.y[i], events.z[i], new Vector3()),
        weapon: name && WEAPON_NAMES.includes(name) ? WEAPONS[name] : null,
        stopped: (events.flags[i] & HitFlag.STOPPED) !== 0,
      },
      this.pools,
    );
  }

  /** Draw fire and smoke of wrecks; `deadFor` is the time since each mech's death [s]. */
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
        const turn = hashRandom(mech, k) * 6.28 + age;
        point.copy(target);
        point.x += drift * 0.8 + Math.cos(turn) * size * 0.3;
        point.y += size * 0.5 + age * 6.5;
        point.z += Math.sin(turn) * size * 0.3 - drift * 0.35;
        const alpha = 0.5 * fresh * Math.min(1, age * 7) * (1 - age);
        const puff = { age, cover: 0.95, turn };
        this.pools.sprites.add(point, size * (0.6 + age * 2.1), SpriteKind.SMOKE, SMOKE, alpha, puff);
      }
      for (let k = 0; k < 3; k++) {
        const age = (time * 1.25 + k / 3) % 1;
        point.copy(target);
        point.x += (hashRandom(mech, k) - 0.5) * size;
        point.y += age * size * 1.3;
        point.z += (hashRandom(mech, k + 5) - 0.5) * size;
        const fire = { age: age * 0.7, cover: 0.3, turn: hashRandom(mech, k + 8) * 6.28 + time };
        this.pools.sprites.add(point, size * 0.62 * (1 - age * 0.5), SpriteKind.FIRE, FLAME, fresh * (1 - age), fire);
      }
    }
  }
}
