// Graphics tiers and the governor that selects them.

import { describe, expect, it } from "vitest";
import { Governor, TIERS, firstTier, isSoftwareRenderer, qualitySteps, parseTier } from "../src/quality";

/** Feed frames of an interval [ms] for some seconds; returns the step afterwards. */
function run(governor: Governor, interval: number, seconds: number) {
  for (let time = 0; time < seconds * 1000; time += interval) governor.addFrame(interval);
  return governor.step;
}

describe("tiers", () => {
  it("are parsed by name", () => {
    expect(parseTier("finest")).toBe("finest");
    expect(parseTier("gorgeous")).toBeNull();
    expect(parseTier(null)).toBeNull();
  });

  it("start low with software rendering", () => {
    expect(firstTier(null, true)).toBe("low");
    expect(firstTier(null, false)).toBe("high");
    expect(firstTier("finest", true)).toBe("finest");
    expect(isSoftwareRenderer("ANGLE (Google, Vulkan 1.3.0 (SwiftShader Device (Subzero)), SwiftShader driver)")).toBe(
      true,
    );
    expect(isSoftwareRenderer("llvmpipe (LLVM 15.0.6, 256 bits)")).toBe(true);
    expect(isSoftwareRenderer("ANGLE (NVIDIA, NVIDIA GeForce RTX 3060, OpenGL 4.5)")).toBe(false);
  });

  it("decrease in resolution within the bounds of each tier", () => {
    const all = qualitySteps(2);
    for (const [i, { tier, scale }] of all.entries()) {
      expect(scale).toBeLessThanOrEqual(TIERS[tier].sharpest);
      expect(scale).toBeGreaterThan(TIERS[tier].coarsest * 0.98);
      if (i > 0 && all[i - 1].tier === tier) expect(scale).toBeLessThan(all[i - 1].scale);
    }
    expect(all.some(({ tier }) => tier === "finest")).toBe(false);
    expect(qualitySteps(1)[0].scale).toBe(1);
  });
});

describe("governor", () => {
  it("keeps the step for moderate frame times", () => {
    const governor = new Governor(null, true, 1);
    const before = governor.step;
    expect(run(governor, 45, 60)).toBe(before);
  });

  it("lowers quality while frames are slow, down to the lowest step", () => {
    const governor = new Governor(null, false, 1);
    expect(governor.step.tier).toBe("high");
    expect(run(governor, 70, 2.5).scale).toBeLessThan(1);
    const floor = run(governor, 400, 120);
    expect(floor).toEqual(qualitySteps(1).at(-1));
    expect(run(governor, 400, 30)).toBe(floor);
  });

  it("raises quality only after several fast windows", () => {
    const governor = new Governor(null, true, 1);
    const before = governor.step;
    expect(run(governor, 16, 1.5)).toBe(before);
    expect(run(governor, 16, 4).scale).toBeGreaterThan(before.scale);
    expect(run(governor, 16, 60)).toEqual(qualitySteps(1)[0]);
  });

  it("ignores a single long frame", () => {
    const governor = new Governor(null, false, 1);
    const before = governor.step;
    for (let second = 0; second < 20; second++) {
      run(governor, 17, 1);
      governor.addFrame(600);
    }
    expect(governor.step).toBe(before);
  });

  it("retries failed raises at growing intervals", () => {
    const governor = new Governor(null, true, 1);
    const cheap = governor.step;
    const tries = (seconds: number) => {
      let changes = 0;
      for (let time = 0; time < seconds * 1000;) {
        const interval = governor.step.scale > cheap.scale ? 80 : 20; // only the cheap step is fast enough
        time += interval;
        if (governor.addFrame(interval) && governor.step.scale > cheap.scale) changes++;
      }
      return changes;
    };
    const [first, later] = [tries(60), tries(60)];
    expect(first).toBeGreaterThan(0);
    expect(later).toBeLessThan(first);
  });

  it("resetWindow discards the time of a pause", () => {
    const governor = new Governor(null, false, 1);
    const before = governor.step;
    for (let i = 0; i < 50; i++) {
      governor.addFrame(400);
      governor.resetWindow();
    }
    expect(governor.step).toBe(before);
  });

  it("keeps a requested tier", () => {
    const governor = new Governor("low", false, 1);
    expect(governor.adapts).toBe(false);
    expect(run(governor, 900, 60)).toEqual({ tier: "low", scale: 1 });
  });
});
