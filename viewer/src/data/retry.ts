// Delays between retries of failed requests, growing with each failure.

const DELAYS_MS = [1000, 2000, 4000, 8000, 15_000];

/** Return the delay after a number (at least one) of failures in a row [ms]. */
export function retryDelay(failures: number, delays: readonly number[] = DELAYS_MS): number {
  return delays[Math.min(failures, delays.length) - 1];
}
