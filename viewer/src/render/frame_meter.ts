// Measures how many pictures a second a playing match is drawn with. Pure.

const SLOW_HZ = 15; // rate below which the page names it
const FAST_HZ = 18; // rate above which it stops to
const WINDOW_MS = 1500; // least time over which the rate is measured
const WINDOW_FRAMES = 4; // least pictures over which it is measured

/** The rate of pictures, 0 while it is not slow. */
export class FrameMeter {
  private sum = 0;
  private frames = 0;
  private worst = 0; // longest time of the window, which is ignored: a single pause is no slow drawing [ms]
  private slow = 0;

  /** Add the time since the previous picture [ms] and return the rate if it is slow, else 0. */
  add(interval: number): number {
    this.sum += interval;
    this.frames++;
    this.worst = Math.max(this.worst, interval);
    if (this.sum < WINDOW_MS || this.frames < WINDOW_FRAMES) return this.slow;
    const rate = (1000 * (this.frames - 1)) / (this.sum - this.worst);
    this.sum = this.frames = this.worst = 0;
    this.slow = rate < (this.slow > 0 ? FAST_HZ : SLOW_HZ) ? rate : 0;
    return this.slow;
  }

  /** Forget the current measurement, e.g. while paused. */
  reset(): number {
    this.sum = this.frames = this.worst = this.slow = 0;
    return 0;
  }
}

/** Return the rate of pictures in words, "" for 0. */
export function rateText(rate: number): string {
  if (rate <= 0) return "";
  return `Drawing at ${rate < 1 ? "less than 1" : Math.round(rate)} fps, frames are skipped`;
}
