// The state of all mechs between two frames: positions on a cubic through recorded positions and velocities, headings
// the short way round, values linear, and flags as an eased share. A pure function of chunk and tick, so that seeking
// and playing backward show the same.

import { type Chunk, firstAfter } from "./data/replay";
import { MechFlag } from "./protocol.gen";
import { mixAngle } from "./spaces";

/** State of all mechs at one moment, a value per mech; reused between frames. */
export interface Poses {
  readonly count: number; // number of mechs
  tick: number; // the moment, NaN before the first
  readonly x: Float32Array; // centre of the box [vox]
  readonly y: Float32Array;
  readonly z: Float32Array;
  readonly yaw: Float32Array; // heading [rad]
  readonly speed: Float32Array; // along the ground [vox/s]
  readonly climb: Float32Array; // upward speed [vox/s]
  readonly walked: Float32Array; // distance along the heading since the chunk's start, backward negative [vox]
  readonly walkedEnd: Float32Array; // the same distance at the chunk's end [vox]
  readonly walkedShare: Float32Array; // share of the chunk's total distance walked so far, 0 to 1
  readonly hp: Float32Array; // body hit points
  readonly legHp: Float32Array; // leg hit points
  readonly heat: Float32Array; // heat units
  readonly stability: Float32Array; // 0 to 100
  readonly flags: Uint16Array; // MechFlag bits of the frame before the moment
  readonly alive: Float32Array; // share, 1 alive
  readonly fallen: Float32Array; // share, 1 fallen
  readonly shutdown: Float32Array; // share, 1 shut down
  readonly known: Float32Array; // share, 1 known to a hostile
}

export function makePoses(count: number): Poses {
  const column = () => new Float32Array(count);
  return {
    count,
    tick: NaN,
    x: column(),
    y: column(),
    z: column(),
    yaw: column(),
    speed: column(),
    climb: column(),
    walked: column(),
    walkedEnd: column(),
    walkedShare: column(),
    hp: column(),
    legHp: column(),
    heat: column(),
    stability: column(),
    flags: new Uint16Array(count),
    alive: column(),
    fallen: column(),
    shutdown: column(),
    known: column(),
  };
}

/** Return the frames around a tick and the interpolation weight between them. */
export function frameAt(chunk: Chunk, tick: number): { frame: number; next: number; share: number } {
  const last = chunk.frames - 1;
  const frame = Math.max(0, Math.min(last, firstAfter(chunk.tick, tick) - 1));
  const next = Math.min(last, frame + 1);
  const span = chunk.tick[next] - chunk.tick[frame];
  return { frame, next, share: span > 0 ? Math.max(0, Math.min(1, (tick - chunk.tick[frame]) / span)) : 0 };
}

/** Return the cubic from p0 to p1 with slopes v0 and v1 per unit of t. */
export function hermite(p0: number, v0: number, p1: number, v1: number, t: number): number {
  const [t2, t3] = [t * t, t * t * t];
  return (2 * t3 - 3 * t2 + 1) * p0 + (t3 - 2 * t2 + t) * v0 + (-2 * t3 + 3 * t2) * p1 + (t3 - t2) * v1;
}

/** Return the smoothstep of t, clamped to 0 to 1. */
export function smooth(t: number): number {
  const c = Math.max(0, Math.min(1, t));
  return c * c * (3 - 2 * c);
}

const OVERSHOOT = 0.5; // most deviation of the cubic from the straight line, e.g. when a wall stops a mech [vox]

/** Return the position on the cubic, clamped near the straight line. */
function between(p0: number, v0: number, p1: number, v1: number, t: number): number {
  const straight = p0 + (p1 - p0) * t;
  return straight + Math.max(-OVERSHOOT, Math.min(OVERSHOOT, hermite(p0, v0, p1, v1, t) - straight));
}

/** Fill `out` with the state at `tick`. */
export function samplePoses(chunk: Chunk, tick: number, tickHz: number, out: Poses): Poses {
  const { frame, next, share } = frameAt(chunk, tick);
  const seconds = (chunk.tick[next] - chunk.tick[frame]) / tickHz;
  const { mech, mechs } = chunk;
  const mix = (column: Float32Array, a: number, b: number) => column[a] + (column[b] - column[a]) * share;
  const eased = smooth(share);
  out.tick = tick;
  for (let m = 0; m < mechs; m++) {
    const [a, b] = [frame * mechs + m, next * mechs + m];
    out.x[m] = between(mech.x[a], mech.vx[a] * seconds, mech.x[b], mech.vx[b] * seconds, share);
    out.y[m] = between(mech.y[a], mech.vy[a] * seconds, mech.y[b], mech.vy[b] * seconds, share);
    out.z[m] = between(mech.z[a], mech.vz[a] * seconds, mech.z[b], mech.vz[b] * seconds, share);
    out.yaw[m] = mixAngle(mech.yaw[a], mech.yaw[b], share);
    out.speed[m] = Math.hypot(mix(mech.vx, a, b), mix(mech.vy, a, b));
    out.climb[m] = mix(mech.vz, a, b);
    const end = (chunk.frames - 1) * mechs + m;
    out.walked[m] = mix(chunk.walked, a, b);
    out.walkedEnd[m] = chunk.walked[end];
    out.walkedShare[m] = chunk.walkedTotal[end] > 0 ? mix(chunk.walkedTotal, a, b) / chunk.walkedTotal[end] : 0;
    out.hp[m] = mix(mech.hp, a, b);
    out.legHp[m] = mix(mech.leg_hp, a, b);
    out.heat[m] = mix(mech.heat, a, b);
    out.stability[m] = mix(mech.stability, a, b);
    out.flags[m] = share >= 1 ? mech.flags[b] : mech.flags[a];
    const eases = (bit: number) => {
      const [from, to] = [mech.flags[a] & bit ? 1 : 0, mech.flags[b] & bit ? 1 : 0];
      return from + (to - from) * eased;
    };
    out.alive[m] = eases(MechFlag.ALIVE);
    out.fallen[m] = eases(MechFlag.FALLEN);
    out.shutdown[m] = eases(MechFlag.SHUTDOWN);
    out.known[m] = eases(MechFlag.SEEN);
  }
  return out;
}

/**
 * Return the gait phase in cycles for a stride length [vox]. Every chunk begins and ends on a whole cycle, so that the
 * gait does not depend on earlier chunks: the remainder is spread over the distance walked.
 */
export function gaitPhase(walked: number, walkedEnd: number, walkedShare: number, stride: number): number {
  const whole = Math.round(walkedEnd / stride) * stride;
  return (walked + (whole - walkedEnd) * walkedShare) / stride;
}

export interface MechPose {
  x: number; // centre of the box [vox]
  y: number;
  z: number;
  yaw: number; // [rad]
}

/** Return the pose of one mech at a tick; outside the chunk that of its first or last frame. */
export function sampleMech(chunk: Chunk, m: number, tick: number, tickHz: number): MechPose {
  const { frame, next, share } = frameAt(chunk, tick);
  const seconds = (chunk.tick[next] - chunk.tick[frame]) / tickHz;
  const { mech, mechs } = chunk;
  const [a, b] = [frame * mechs + m, next * mechs + m];
  return {
    x: between(mech.x[a], mech.vx[a] * seconds, mech.x[b], mech.vx[b] * seconds, share),
    y: between(mech.y[a], mech.vy[a] * seconds, mech.y[b], mech.vy[b] * seconds, share),
    z: between(mech.z[a], mech.vz[a] * seconds, mech.z[b], mech.vz[b] * seconds, share),
    yaw: mixAngle(mech.yaw[a], mech.yaw[b], share),
  };
}

/** Return the zone score of both teams at a tick [s]. */
export function scoreAt(chunk: Chunk, tick: number): [number, number] {
  const { frame, next, share } = frameAt(chunk, tick);
  const team = (t: number) =>
    chunk.score[frame * 2 + t] + (chunk.score[next * 2 + t] - chunk.score[frame * 2 + t]) * share;
  return [team(0), team(1)];
}
