// Smoke clouds at a moment: where they are, how far grown and how dense. A pure function of chunk and tick; a chunk tells
// of every cloud that lives within it, so that nothing before it needs to be known.

import { smooth } from "../interpolate";
import type { Header } from "../protocol.gen";
import type { Chunk } from "./replay";

const GROW_S = 0.5; // from the burst to full size
const THIN_S = 1.5; // the end of its life, in which it thins out
const SMALLEST = 0.18; // share of its size with which it begins
const STOCK = { radius: 4, life_s: 10 }; // where a header does not say

/** One cloud at a moment. */
export interface Cloud {
  readonly x: number; // centre [vox]
  readonly y: number;
  readonly z: number;
  readonly radius: number; // within which it hides, when grown [vox]
  readonly age: number; // since its burst [s]
  readonly size: number; // share of its radius that it fills
  readonly density: number; // 1 while it is thick, toward 0 at its end
  readonly seed: number; // repeatable randomness of this cloud
}

/** How large and how dense a cloud is at an age, or null before its burst and after its end. */
export function cloudShape(age: number, life: number): { size: number; density: number } | null {
  if (age < 0 || age >= life) return null;
  const grown = Math.min(1, age / GROW_S);
  const left = Math.min(1, (life - age) / THIN_S);
  // it shoots out of its round and slows down, and swells a little as it thins
  const size = SMALLEST + (1 - SMALLEST) * (1 - (1 - grown) ** 3) + 0.1 * smooth(1 - left);
  return { size, density: smooth(left) * Math.min(1, age / 0.12 + 0.25) };
}

/** The clouds of a chunk that live at a tick, oldest first. */
export function cloudsAt(chunk: Chunk, header: Header, tick: number): Cloud[] {
  const { clouds } = chunk;
  const { radius, life_s } = header.cloud ?? STOCK;
  const living: Cloud[] = [];
  for (let i = 0; i < clouds.count; i++) {
    const age = (tick - clouds.tick[i]) / header.tick_hz;
    const shape = cloudShape(age, life_s);
    if (!shape) continue;
    const seed = (clouds.tick[i] * 3.17 + clouds.who[i] * 17.9 + clouds.x[i]) % 997;
    living.push({ x: clouds.x[i], y: clouds.y[i], z: clouds.z[i], radius, age, seed, ...shape });
  }
  return living;
}

/** Whether a point lies within smoke at a tick. */
export function inSmoke(chunk: Chunk, header: Header, tick: number, x: number, y: number, z: number): boolean {
  return cloudsAt(chunk, header, tick).some((cloud) => Math.hypot(x - cloud.x, y - cloud.y, z - cloud.z) <= cloud.radius);
}
