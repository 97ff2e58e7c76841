// Pseudo-random numbers for effects. Pure.

/** Return a pseudo-random number in [0, 1) from a seed and a counter. */
export function hashRandom(seed: number, k: number): number {
  const x = Math.sin(seed * 12.9898 + k * 78.233) * 43758.5453;
  return x - Math.floor(x);
}
