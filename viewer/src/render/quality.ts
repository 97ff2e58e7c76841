// How much is spent on the picture: one table of tiers, and the governor that moves along it by how long frames take.
// Pure, without a browser. Whatever the tier, a picture is a function of tick and camera alone.

export const TIER_NAMES = ["finest", "high", "medium", "low", "lowest"] as const;
export type TierName = (typeof TIER_NAMES)[number];

/** One row of the table. */
export interface Tier {
  readonly label: string; // what it is called for people
  readonly sharpest: number; // most pixels drawn per CSS pixel, along a side; never more than the display has
  readonly coarsest: number; // least of them while things move
  readonly patterns: boolean; // patterns computed per pixel, and shadows from a map; else painted tiles and baked shadows
  readonly shadowTexels: number; // edge of the sun's shadow map, 0 for baked shadows
  readonly puffs: number; // of a cloud of smoke
  readonly adapts: boolean; // whether the governor may choose it
}

export const TIERS: Record<TierName, Tier> = {
  finest: { label: "finest", sharpest: 2, coarsest: 2, patterns: true, shadowTexels: 4096, puffs: 44, adapts: false },
  high: { label: "high", sharpest: 2, coarsest: 1, patterns: true, shadowTexels: 2048, puffs: 32, adapts: true },
  medium: { label: "medium", sharpest: 1, coarsest: 0.75, patterns: true, shadowTexels: 1024, puffs: 22, adapts: true },
  low: { label: "low", sharpest: 1, coarsest: 0.59, patterns: false, shadowTexels: 0, puffs: 14, adapts: true },
  lowest: { label: "lowest", sharpest: 0.5, coarsest: 0.42, patterns: false, shadowTexels: 0, puffs: 9, adapts: true },
};

/** A tier and the pixels drawn per CSS pixel while things move. */
export interface Notch {
  readonly tier: TierName;
  readonly scale: number;
}

const SCALE_STEP = 0.84; // from one notch to the next, along a side
const SLOW_MS = 52; // frames that take longer than this are too slow
const FAST_MS = 34; // below it there is time for a notch more; between the two nothing changes
const WINDOW_MS = 900; // frames are judged together over this time
const WINDOW_FRAMES = 5; // and at least so many
const PATIENCE = 4; // fast windows in a row before more is spent
const MOST_PATIENCE = 64; // after more was spent in vain again and again
const CRAWL = 2.5; // so many times too slow goes down two notches at once

const PROCESSORS = /swiftshader|llvmpipe|softpipe|software|microsoft basic render/i;

/** Whether the name of what draws WebGL is that of a program rather than of a GPU. */
export function isProcessor(renderer: string): boolean {
  return PROCESSORS.test(renderer);
}

/** The tier that an address asks for, or null for one that fits the machine. */
export function wishedTier(text: string | null): TierName | null {
  return TIER_NAMES.find((name) => name === text) ?? null;
}

/** The tier to begin with. */
export function firstTier(wish: TierName | null, slow: boolean): TierName {
  return wish ?? (slow ? "low" : "high");
}

/** All notches from the best to the cheapest, for a display with so many pixels per CSS pixel. */
export function notches(ratio: number): Notch[] {
  const all: Notch[] = [];
  for (const tier of TIER_NAMES) {
    const { adapts, sharpest, coarsest } = TIERS[tier];
    if (!adapts) continue;
    for (let scale = Math.min(sharpest, ratio); scale > coarsest * 0.99; scale *= SCALE_STEP) all.push({ tier, scale });
  }
  return all;
}

/** Chooses a notch by how long frames take; a tier that was asked for is kept as it is. */
export class Governor {
  private readonly ladder: readonly Notch[];
  private at = 0;
  private sum = 0; // of the window [ms]
  private worst = 0; // longest frame of the window [ms], which is forgiven
  private frames = 0; // in the window
  private fast = 0; // fast windows in a row
  private patience = PATIENCE;
  private raised = false; // whether the last change spent more

  constructor(wish: TierName | null, slow: boolean, ratio: number) {
    const tier = firstTier(wish, slow);
    const fixed: Notch = { tier, scale: Math.min(TIERS[tier].sharpest, Math.max(1, ratio)) };
    this.ladder = wish === null ? notches(ratio) : [fixed];
    // where a processor draws, one begins with few pixels and adds what there is time for
    this.at = Math.max(0, slow ? this.ladder.findLastIndex((notch) => notch.tier === tier) : this.ladder.findIndex((notch) => notch.tier === tier));
  }

  get notch(): Notch {
    return this.ladder[this.at];
  }

  /** Whether it follows the machine rather than a wish. */
  get adapts(): boolean {
    return this.ladder.length > 1;
  }

  /** Forget the frames of this window: what lay between them was not drawing. */
  forget(): void {
    this.sum = this.worst = this.frames = 0;
  }

  /** Take the time between two frames drawn one after the other [ms]; returns whether the notch has changed. */
  take(interval: number): boolean {
    this.sum += interval;
    this.worst = Math.max(this.worst, interval);
    if (++this.frames < WINDOW_FRAMES || this.sum < WINDOW_MS) return false;
    const mean = (this.sum - this.worst) / (this.frames - 1);
    this.forget();
    this.fast = mean < FAST_MS ? this.fast + 1 : 0;
    if (mean > SLOW_MS) return this.lower(mean > SLOW_MS * CRAWL ? 2 : 1);
    return this.fast >= this.patience && this.raise();
  }

  private lower(steps: number): boolean {
    // what was spent in vain is not tried again soon
    if (this.raised) this.patience = Math.min(MOST_PATIENCE, this.patience * 2);
    return this.move(steps, false);
  }

  private raise(): boolean {
    this.fast = 0;
    return this.move(-1, true);
  }

  private move(steps: number, raised: boolean): boolean {
    const to = Math.max(0, Math.min(this.ladder.length - 1, this.at + steps));
    const changed = to !== this.at;
    this.at = to;
    if (changed) this.raised = raised;
    return changed;
  }
}
