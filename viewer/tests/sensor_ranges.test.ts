// Sensor and jammer ranges, state texts, and panel values under fog of war.

import { describe, expect, test } from "vitest";
import { emissionOf, qualityOf, radarOf, sensorRanges } from "../src/data/sensor_ranges";
import { gaugesOf, mechReport, stateOf } from "../src/hud/inspector";
import { conditionText, stateText } from "../src/text";
import { makePoses, samplePoses } from "../src/interpolate";
import { type Header, MechFlag } from "../src/protocol.gen";
import type { MatchState } from "../src/state";
import { sensorReplay } from "./fixtures";

const { ALIVE, ECM, ECCM, SHUTDOWN, VENT, PAINTED } = MechFlag;
const SENSING = {
  radar: [14],
  ewar: 50,
  ecm: 0.85,
  eccm: 0.65,
  own_eccm: false,
  quality: [0.25, 1.5] as [number, number],
};

/** Return a match of mechs on the x axis: team, x and flags of each. */
function battle(
  mechs: [team: 0 | 1, x: number, flags: number][],
  sensing: Partial<typeof SENSING> | null = {},
): MatchState {
  const roster = mechs.map(([team], m) => ({ team, pack: 0, chassis: 0, name: `M${m}`, present: true }));
  const poses = makePoses(mechs.length);
  poses.tick = 0;
  mechs.forEach(([, x, flags], m) => {
    poses.x[m] = x;
    poses.flags[m] = flags;
  });
  const header = { mechs: mechs.length, roster, sensing: sensing && { ...SENSING, ...sensing } } as unknown as Header;
  return { header, poses, shown: new Float32Array(mechs.length).fill(1) } as unknown as MatchState;
}

describe("sensor quality", () => {
  test("falls with a hostile jammer and rises with a friend's ECCM, and radar with it", () => {
    const jammed = battle([
      [0, 0, ALIVE],
      [1, 10, ALIVE | ECM],
    ]);
    expect(qualityOf(jammed.header, jammed.poses, 0)).toBeCloseTo(0.32, 6);
    expect(radarOf(jammed.header, jammed.poses, 0)).toBeCloseTo(4.48, 5);
    const aided = battle([
      [0, 0, ALIVE],
      [1, 10, ALIVE | ECM],
      [0, -5, ALIVE | ECCM],
    ]);
    expect(radarOf(aided.header, aided.poses, 0)).toBeCloseTo(12.67, 5);
  });

  test("ignores own ECCM, friendly ECM, and silent or distant emitters", () => {
    const others: [0 | 1, number, number][] = [
      [0, 5, ALIVE | ECM],
      [1, 5, ALIVE | ECCM],
      [1, 5, ECM],
      [1, 5, ALIVE | ECM | SHUTDOWN],
      [1, 50, ALIVE | ECM],
    ];
    const calm = battle([[0, 0, ALIVE | ECCM], ...others]);
    expect(qualityOf(calm.header, calm.poses, 0)).toBe(1);
    const own = battle([[0, 0, ALIVE | ECCM]], { own_eccm: true });
    expect(qualityOf(own.header, own.poses, 0)).toBe(1.5); // 1.65, limited to the maximum
    expect(qualityOf(calm.header, calm.poses, 4)).toBe(0.25); // a shut-down mech
  });
});

describe("sensorRanges", () => {
  test("returns ECM and ECCM of visible mechs and radar of the selected one", () => {
    const match = battle([
      [0, 0, ALIVE],
      [0, 100, ALIVE | ECCM],
      [1, 200, ALIVE | ECM],
      [1, 300, ALIVE | ECM],
    ]);
    match.shown[3] = 0;
    expect(sensorRanges(match, 0)).toEqual([
      { mech: 1, kind: "eccm", radius: 50 },
      { mech: 2, kind: "ecm", radius: 50 },
      { mech: 0, kind: "radar", radius: 14 },
    ]);
    expect(sensorRanges(match, 3).filter(({ mech }) => mech === 3)).toEqual([]);
    match.poses.flags[0] = 0;
    expect(sensorRanges(match, 0).map(({ kind }) => kind)).toEqual(["eccm", "ecm"]);
  });

  test("returns the ranges of a recorded match's header", () => {
    const { header, chunks } = sensorReplay();
    expect(header.sensing).toMatchObject({ radar: [21, 16.8, 14, 11.2], ewar: 50 });
    const kinds = new Set<string>();
    for (const chunk of chunks) {
      const poses = samplePoses(chunk, chunk.tick1, header.tick_hz, makePoses(header.mechs));
      const match = { header, poses, shown: new Float32Array(header.mechs).fill(1) } as unknown as MatchState;
      for (const { kind, radius } of sensorRanges(match, 0)) {
        kinds.add(kind);
        expect(kind === "radar" ? radius <= 21 * 1.5 && radius >= 14 * 0.25 * 0.8 : radius === 50).toBe(true);
      }
    }
    expect([...kinds].sort()).toEqual(["eccm", "ecm", "radar"]);
  });
});

describe("panel texts", () => {
  test("name ECM and ECCM after more severe states", () => {
    expect(stateText(ALIVE | ECM)).toBe("ECM");
    expect(stateText(ALIVE | ECCM)).toBe("ECCM");
    expect(stateText(ALIVE | ECM | VENT)).toBe("venting");
    expect(conditionText(ALIVE | ECM | PAINTED, true)).toBe("painted · ECM · in smoke");
    expect(conditionText(ECM, true)).toBe("destroyed");
    expect(emissionOf(ALIVE | ECM | SHUTDOWN)).toBeNull();
  });

  test("show only identity of a mech hidden by fog", () => {
    const { header, chunks } = sensorReplay();
    const chunk = chunks[1];
    const poses = samplePoses(chunk, chunk.tick0, header.tick_hz, makePoses(header.mechs));
    const match = { header, poses, chunk, shown: new Float32Array(header.mechs).fill(1) } as unknown as MatchState;
    expect(gaugesOf(match, 0)[0].text).toMatch(/^\d+ \/ \d+$/);
    expect(mechReport(match, 0, chunk.tick0).facts).toContain("vox/s");
    match.shown[0] = 0;
    expect([stateOf(match, 0), ...gaugesOf(match, 0).map(({ text }) => text)]).toEqual([
      "not seen",
      "–",
      "–",
      "–",
      "–",
    ]);
    expect(gaugesOf(match, 0).map(({ share }) => share)).toEqual([0, 0, 0, 0]);
    expect(mechReport(match, 0, chunk.tick0)).toEqual({
      state: "not seen",
      timers: header.cooldowns.map(() => 0),
      facts: "",
    });
  });
});
