// How long what could not be had is left alone before it is tried again: longer each time.

const PAUSES_MS = [1000, 2000, 4000, 8000, 15_000];

/** Pause after so many failures in a row, at least one [ms]. */
export function pauseAfter(failures: number, pauses: readonly number[] = PAUSES_MS): number {
  return pauses[Math.min(failures, pauses.length) - 1];
}
