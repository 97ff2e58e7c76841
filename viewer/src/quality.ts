// Graphics quality: one table of tiers, and a governor that selects a tier and a resolution by frame times. Pure,
// without a browser. In every tier the picture is a function of tick and camera alone.

export const TIER_NAMES = ["finest", "high", "medium", "low"] as const;
export type TierName = (typeof TIER_NAMES)[number];

export interface Tier {
  readonly label: string; // displayed name
  readonly sharpest: number; // most pixels per CSS pixel along a side, limited by the display
  readonly coarsest: number; // least pixels per CSS pixel while the picture moves
  readonly patterns: boolean; // procedural patterns and a shadow map; otherwise one painted tile and baked shadows
  readonly shadowTexels: number; // size of the shadow map [texels], 0 for baked shadows
  readonly puffs: number; // puffs per smoke cloud
  readonly adapts: boolean; // whether the governor may select it
}

export const TIERS: Record<TierName, Tier> = {
  finest: { label: "finest", sharpest: 2, coarsest: 2, patterns: true, shadowTexels: 4096, puffs: 44, adapts: false },
  high: { label: "high", sharpest: 2, coarsest: 1, patterns: true, shadowTexels: 2048, puffs: 32, adapts: true },
  medium: { label: "medium", sharpest: 1, coarsest: 0.75, patterns: true, shadowTexels: 1024, puffs: 22, adapts: true },
  low: { label: "low", sharpest: 1, coarsest: 0.42, patterns: false, shadowTexels: 0, puffs: 12, adapts: true },
};

/** A tier and the pixels per CSS pixel while the picture moves. */
export interface QualityStep {
  readonly tier: TierName;
  readonly scale: number;
}

const SCALE_STEP = 0.84; // resolution factor between two steps
const SLOW_MS = 52; // mean frame time above which quality is lowered
const FAST_MS = 34; // mean frame time below which quality may be raised
const WINDOW_MS = 900; // least duration of a measuring window
const WINDOW_FRAMES = 5; // least frames of a measuring window
const PATIENCE = 4; // fast windows in a row before quality is raised
const MOST_PATIENCE = 64; // most fast windows required after failed raises
const CRAWL = 2.5; // frame times this many times too long lower quality by two steps

const SOFTWARE_RENDERERS = /swiftshader|llvmpipe|softpipe|software|microsoft basic render/i;

export function isSoftwareRenderer(renderer: string): boolean {
  return SOFTWARE_RENDERERS.test(renderer);
}

/** Return the tier named in the address, or null for an automatic one. */
export function parseTier(text: string | null): TierName | null {
  return TIER_NAMES.find((name) => name === text) ?? null;
}

export function firstTier(requested: TierName | null, software: boolean): TierName {
  return requested ?? (software ? "low" : "high");
}

/** Return all steps from best to cheapest for a display with `ratio` pixels per CSS pixel. */
export function qualitySteps(ratio: number): QualityStep[] {
  const all: QualityStep[] = [];
  for (const tier of TIER_NAMES) {
    const { adapts, sharpest, coarsest } = TIERS[tier];
    if (!adapts) continue;
    for (let scale = Math.min(sharpest, ratio); scale > coarsest * 0.99; scale *= SCALE_STEP) all.push({ tier, scale });
  }
  return all;
}

/** Selects a quality step by frame times; a requested tier is fixed. */
export class Governor {
  private readonly ladder: readonly QualityStep[];
  private at = 0;
  private sum = 0; // sum of frame times in the window [ms]
  private worst = 0; // longest frame of the window, which is ignored [ms]
  private frames = 0; // frames in the window
  private fast = 0; // fast windows in a row
  private patience = PATIENCE;
  private raised = false; // whether the last change raised quality

  constructor(requested: TierName | null, software: boolean, ratio: number) {
    const tier = firstTier(requested, software);
    const fixed: QualityStep = { tier, scale: Math.min(TIERS[tier].sharpest, Math.max(1, ratio)) };
    this.ladder = requested === null ? qualitySteps(ratio) : [fixed];
    // software rendering starts at the lowest resolution of its tier
    this.at = Math.max(
      0,
      software
        ? this.ladder.findLastIndex((step) => step.tier === tier)
        : this.ladder.findIndex((step) => step.tier === tier),
    );
  }

  get step(): QualityStep {
    return this.ladder[this.at];
  }

  /** Whether the step adapts to frame times. */
  get adapts(): boolean {
    return this.ladder.length > 1;
  }

  /** Discard the current window, e.g. after a pause without drawing. */
  resetWindow(): void {
    this.sum = this.worst = this.frames = 0;
  }

  /** Add the time between two consecutive frames [ms]; returns whether the step changed. */
  addFrame(interval: number): boolean {
    this.sum += interval;
    this.worst = Math.max(this.worst, interval);
    if (++this.frames < WINDOW_FRAMES || this.sum < WINDOW_MS) return false;
    const mean = (this.sum - this.worst) / (this.frames - 1);
    this.resetWindow();
    this.fast = mean < FAST_MS ? this.fast + 1 : 0;
    if (mean > SLOW_MS) return this.lower(mean > SLOW_MS * CRAWL ? 2 : 1);
    return this.fast >= this.patience && this.raise();
  }

  private lower(steps: number): boolean {
    // after a failed raise the next attempt waits longer
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

const SLOW_HZ = 15; // rate below which the page names it
const FAST_HZ = 18; // rate above which it stops to
const METER_MS = 1500; // least time over which the rate is measured
const METER_FRAMES = 4; // least pictures over which it is measured

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
    if (this.sum < METER_MS || this.frames < METER_FRAMES) return this.slow;
    const rate = (1000 * (this.frames - 1)) / (this.sum - this.worst);
    this.sum = this.frames = this.worst = 0;
    this.slow = rate < (this.slow > 0 ? FAST_HZ : SLOW_HZ) ? rate : 0;
    return this.slow;
  }

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
