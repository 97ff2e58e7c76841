// The table of tiers, and the governor that moves along it.

import { describe, expect, it } from "vitest";
import { Governor, TIERS, firstTier, isProcessor, notches, wishedTier } from "../src/render/quality";

/** Let frames of so many milliseconds pass; returns the notch afterwards. */
function run(governor: Governor, interval: number, seconds: number) {
  for (let time = 0; time < seconds * 1000; time += interval) governor.take(interval);
  return governor.notch;
}

describe("tiers", () => {
  it("are asked for by name, and nothing else counts", () => {
    expect(wishedTier("finest")).toBe("finest");
    expect(wishedTier("gorgeous")).toBeNull();
    expect(wishedTier(null)).toBeNull();
  });

  it("begin cheaply where a processor draws", () => {
    expect(firstTier(null, true)).toBe("low");
    expect(firstTier(null, false)).toBe("high");
    expect(firstTier("finest", true)).toBe("finest");
    expect(isProcessor("ANGLE (Google, Vulkan 1.3.0 (SwiftShader Device (Subzero)), SwiftShader driver)")).toBe(true);
    expect(isProcessor("llvmpipe (LLVM 15.0.6, 256 bits)")).toBe(true);
    expect(isProcessor("ANGLE (NVIDIA, NVIDIA GeForce RTX 3060, OpenGL 4.5)")).toBe(false);
  });

  it("get cheaper from notch to notch within a tier, and never leave its bounds", () => {
    const all = notches(2);
    for (const [i, { tier, scale }] of all.entries()) {
      expect(scale).toBeLessThanOrEqual(TIERS[tier].sharpest);
      expect(scale).toBeGreaterThan(TIERS[tier].coarsest * 0.98);
      if (i > 0 && all[i - 1].tier === tier) expect(scale).toBeLessThan(all[i - 1].scale);
    }
    expect(all.some(({ tier }) => tier === "finest")).toBe(false);
    expect(notches(1)[0].scale).toBe(1);
  });
});

describe("governor", () => {
  it("stays where frames take neither long nor little time", () => {
    const governor = new Governor(null, true, 1);
    const before = governor.notch;
    expect(run(governor, 45, 60)).toBe(before);
  });

  it("spends less as long as frames are slow, down to the floor", () => {
    const governor = new Governor(null, false, 1);
    expect(governor.notch.tier).toBe("high");
    expect(run(governor, 70, 2.5).scale).toBeLessThan(1);
    const floor = run(governor, 400, 120);
    expect(floor).toEqual(notches(1).at(-1));
    expect(run(governor, 400, 30)).toBe(floor);
  });

  it("spends more only after frames were fast for a while", () => {
    const governor = new Governor(null, true, 1);
    const before = governor.notch;
    expect(run(governor, 16, 1.5)).toBe(before);
    expect(run(governor, 16, 4).scale).toBeGreaterThan(before.scale);
    expect(run(governor, 16, 60)).toEqual(notches(1)[0]);
  });

  it("forgives a single long frame", () => {
    const governor = new Governor(null, false, 1);
    const before = governor.notch;
    for (let second = 0; second < 20; second++) {
      run(governor, 17, 1);
      governor.take(600);
    }
    expect(governor.notch).toBe(before);
  });

  it("tries ever more rarely what was spent in vain", () => {
    const governor = new Governor(null, true, 1);
    const cheap = governor.notch;
    const tries = (seconds: number) => {
      let changes = 0;
      for (let time = 0; time < seconds * 1000; ) {
        const interval = governor.notch.scale > cheap.scale ? 80 : 20; // only the cheap notch is fast enough
        time += interval;
        if (governor.take(interval) && governor.notch.scale > cheap.scale) changes++;
      }
      return changes;
    };
    const [first, later] = [tries(60), tries(60)];
    expect(first).toBeGreaterThan(0);
    expect(later).toBeLessThan(first);
  });

  it("does not count what lay between two frames that are no neighbours", () => {
    const governor = new Governor(null, false, 1);
    const before = governor.notch;
    for (let i = 0; i < 50; i++) {
      governor.take(400);
      governor.forget();
    }
    expect(governor.notch).toBe(before);
  });

  it("keeps a tier that was asked for", () => {
    const governor = new Governor("low", false, 1);
    expect(governor.adapts).toBe(false);
    expect(run(governor, 900, 60)).toEqual({ tier: "low", scale: 1 });
  });
});
