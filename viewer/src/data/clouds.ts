// Smoke clouds at a moment: position, size and density. A pure function of chunk and tick; a chunk lists every cloud
// alive within it, so that no earlier chunk is needed.

import { smooth } from "../interpolate";
import type { Header } from "../protocol.gen";
import type { Chunk } from "./replay";

const GROW_S = 0.5; // time from burst to full size
const THIN_S = 1.5; // final part of the lifetime, in which it thins out
const DENSE = 8; // most clouds at a time that keep their opacity
const SMALLEST = 0.18; // initial size, as a share of the full size

export interface Cloud {
  readonly x: number; // centre [vox]
  readonly y: number;
  readonly z: number;
  readonly radius: number; // full radius, within which it blocks sight [vox]
  readonly age: number; // time since its burst [s]
  readonly size: number; // current size, as a share of the radius
  readonly density: number; // 1 when dense, toward 0 at its end
  readonly seed: number; // random seed of the cloud
}

/** Return size and density of a cloud at an age, or null before its burst and after its end. */
export function cloudShape(age: number, life: number): { size: number; density: number } | null {
  if (age < 0 || age >= life) return null;
  const grown = Math.min(1, age / GROW_S);
  const left = Math.min(1, (life - age) / THIN_S);
  // it expands fast, slows down, and swells slightly as it thins
  const size = SMALLEST + (1 - SMALLEST) * (1 - (1 - grown) ** 3) + 0.1 * smooth(1 - left);
  return { size, density: smooth(left) * Math.min(1, age / 0.12 + 0.25) };
}

/** Return the opacity of clouds: many at a time are thinner, so that they do not hide the battle. */
export function thinned(opacity: number, clouds: number): number {
  return opacity * Math.min(1, DENSE / Math.max(1, clouds));
}

/** Return the clouds of a chunk that exist at a tick, oldest first. */
export function cloudsAt(chunk: Chunk, header: Header, tick: number): Cloud[] {
  const { clouds } = chunk;
  const { radius, life_s } = header.cloud;
  const living: Cloud[] = [];
  for (let i = 0; i < clouds.count; i++) {
    const age = (tick - clouds.tick[i]) / header.tick_hz;
    const shape = cloudShape(age, life_s);
    if (!shape) continue;
    const seed = (clouds.tick[i] * 3.17 + clouds.actor[i] * 17.9 + clouds.x[i]) % 997;
    living.push({ x: clouds.x[i], y: clouds.y[i], z: clouds.z[i], radius, age, seed, ...shape });
  }
  return living;
}

/** Return whether a point lies within smoke at a tick. */
export function inSmoke(chunk: Chunk, header: Header, tick: number, x: number, y: number, z: number): boolean {
  return cloudsAt(chunk, header, tick).some(
    (cloud) => Math.hypot(x - cloud.x, y - cloud.y, z - cloud.z) <= cloud.radius,
  );
}
