// Recent choices of a mech and the names of its weapons.

import { describe, expect, test } from "vitest";
import { WINDOW_S, choiceProbabilities, controlLabel, recentChoices, suiteOf, timerLabel } from "../src/data/choices";
import { COLOURS } from "../src/hud/charts";
import { TEAMS } from "../src/palette";
import { COOLDOWN_NAMES, SUITES } from "../src/protocol.gen";
import { frameAt } from "../src/interpolate";
import { replayOf } from "./fixtures";

test("labels name the weapons of a class", () => {
  const names = (name: keyof typeof SUITES) => COOLDOWN_NAMES.map((timer) => timerLabel(SUITES[name], timer));
  expect(names("heavy")).toEqual(["laser", "gauss", "missile/smoke", "", "AMS"]);
  expect(names("scout")).toEqual(["", "", "smoke", "painter", ""]);
  const controls = ["primary", "secondary", "tertiary", "special", "yaw_rate"];
  expect(controls.map((name) => controlLabel(SUITES.medium, name))).toEqual([
    ...["laser", "", "autocannon + painter", "smoke", "yaw rate"],
  ]);
  expect(controlLabel(SUITES.scout, "secondary")).toBe("ECM/ECCM");
  expect([controlLabel(null, "primary"), timerLabel(null, "kinetic")]).toEqual(["primary", "kinetic"]);
});

describe("recentChoices", () => {
  const { header, chunks } = replayOf("insight.ecr");

  test("counts the decisions of the last seconds", () => {
    const [hz, actions] = [header.tick_hz, header.insight!.actions];
    for (const [tick, mech] of [
      [57, 2],
      [118, 0],
      [163, 7],
    ]) {
      const at = chunks.findIndex(({ tick1 }) => tick <= tick1);
      const found = recentChoices(header, chunks.slice(0, at + 1).reverse(), tick, mech);
      const aimed: number[] = [];
      let fired = 0;
      for (const chunk of chunks)
        for (let frame = 1; frame < chunk.frames; frame++) {
          const began = chunk.tick[frame - 1];
          if (began < tick - WINDOW_S * hz || began > tick) continue;
          aimed.push(chunk.mech.focus[frame * chunk.mechs + mech]);
          const k = (frame * chunk.mechs + mech) * actions.length + actions.indexOf("primary");
          if (chunk.insight!.action[k] > 0) fired++;
        }
      for (const { choice, share } of found.targets)
        expect(share).toBeCloseTo(aimed.filter((target) => target === choice).length / aimed.length, 9);
      expect(found.targets.reduce((sum, { share }) => sum + share, 0)).toBeCloseTo(1, 9);
      const weapon = controlLabel(suiteOf(header, mech), "primary");
      expect(found.triggers.find(({ choice }) => choice === weapon)?.share).toBeCloseTo(fired / aimed.length, 9);
    }
  });

  test("has targets but no triggers without policy columns", () => {
    const plain = replayOf("reach.ecr");
    const { targets, triggers } = recentChoices(plain.header, [plain.chunks[0]], 30, 0);
    expect([targets.length > 0, triggers.length]).toEqual([true, 0]);
  });
});

describe("choiceProbabilities", () => {
  const { header, chunks } = replayOf("insight.ecr");
  const [chunk, tick, mech] = [chunks[1], 57, 2];

  /** Return header and chunk with the same probabilities for every decision. */
  const withChances = (chances: Record<string, number>) => {
    const names = Object.keys(chances);
    const chance = Float32Array.from(
      { length: chunk.frames * chunk.mechs * names.length },
      (_, i) => chances[names[i % names.length]],
    );
    return [
      { ...header, insight: { ...header.insight!, chances: names } },
      { ...chunk, insight: { ...chunk.insight!, chance } },
    ] as const;
  };

  test("names targets by contact and triggers by weapon, the likeliest target first", () => {
    const [own, with_] = withChances({ target_0: 0.25, target_1: 0.05, no_target: 0.7, primary: 0.4, vent: 0.1 });
    const { targets, triggers } = choiceProbabilities(own, with_, tick, mech);
    const slots = chunk.insight!.contact.length / (chunk.frames * chunk.mechs);
    const at = (frameAt(chunk, tick).next * chunk.mechs + mech) * slots;
    const expected = new Map([[-1, 0.7]]);
    for (const [slot, share] of [0.25, 0.05].entries()) {
      const choice = chunk.insight!.contact[at + slot];
      expected.set(choice, (expected.get(choice) ?? 0) + share);
    }
    expect(targets[0].choice).toBe(-1);
    for (const { choice, share } of targets) expect(share).toBeCloseTo(expected.get(choice) ?? NaN, 6);
    expect(targets.length).toBe(expected.size);
    expect(triggers.map(({ choice }) => choice)).toEqual([controlLabel(suiteOf(header, mech), "primary"), "vent"]);
    expect(triggers[0].share).toBeCloseTo(0.4, 6);
  });

  test("are none without a policy, of older replays, and where nothing is loaded", () => {
    const none = { targets: [], triggers: [] };
    expect(choiceProbabilities(header, chunk, tick, mech)).toEqual(none);
    expect(choiceProbabilities(header, null, tick, mech)).toEqual(none);
    expect(choiceProbabilities(...withChances({ target_0: 0, no_target: 0, primary: 0 }), tick, mech)).toEqual(none);
  });
});

test("curves of a mech have no colour of a team", () => {
  const rgb = (css: string) => [1, 3, 5].map((at) => parseInt(css.slice(at, at + 2), 16));
  for (const colour of COLOURS)
    for (const team of TEAMS) {
      const [a, b] = [rgb(colour), rgb(team.css)];
      expect(Math.hypot(...a.map((value, k) => value - b[k]))).toBeGreaterThan(70);
    }
});
