// Remembered settings, and the cues of the soundscape.

import { describe, expect, test } from "vitest";
import { EventKind, type Header, WEAPON_NAMES } from "../src/protocol.gen";
import { TEAM_COLOURS, TEAMS, useTeamColours } from "../src/palette";
import { parseSettings, resetSettings, settingsText, shownScale } from "../src/settings";
import { VOICES, cuesBetween } from "../src/sound/cues";
import { mayShow, seenIndex, shownEnd } from "../src/spoilers";
import { type CameraState, type MatchState, defaults } from "../src/state";
import { eventRows } from "./fixtures";

describe("settings", () => {
  test("are restored as they were", () => {
    const changed = {
      ...({ quality: "low", sound: true, volume: 0.25, showMap: false, showBars: false, showLinks: false } as const),
      ...({
        showCutaways: false,
        showNumbers: false,
        showSpoilers: false,
        smoke: "thin",
        teamColours: "safe",
        hudScale: 1.5,
      } as const),
    };
    const state = { ...defaults(), ...changed };
    expect(parseSettings(settingsText(state))).toEqual(changed);
    resetSettings(state);
    expect(state).toEqual(defaults());
  });

  test("enlarge panels as far as the window has room for them", () => {
    const scale = (hudScale: number, width: number) => shownScale({ ...defaults(), hudScale }, width);
    expect([scale(2, 2560), scale(0.75, 390), scale(2, 390)]).toEqual([2, 0.75, 1]);
    expect(scale(2, 1440)).toBeCloseTo(1440 / 1280);
  });

  test.each([
    null,
    "",
    "{",
    "7",
    "null",
    '{"volume": 9, "sound": "yes", "quality": 3, "page": "list", "smoke": "toString", "hudScale": 3}',
  ])("ignore what is not valid: %s", (text) => expect(parseSettings(text)).toEqual({}));

  test("are silent by default", () => {
    expect(defaults().sound).toBe(false);
  });
});

describe("without spoilers", () => {
  const match = { header: { duration_s: 60, tick_hz: 20 }, index: { chunks: [[0, 400]] } } as unknown as MatchState;

  test("only what the cursor has passed is shown, and axes of time tell no length", () => {
    const seen = { showSpoilers: false, tick: 100 };
    expect([mayShow(seen, 100), mayShow(seen, 101), mayShow(seen)]).toEqual([true, false, false]);
    expect(shownEnd(seen, match)).toBe(1200);
  });

  test("curves end at the cursor", () => {
    const series = {
      second: [0, 1, 2],
      score: [
        [0, 1, 2],
        [0, 0, 1],
      ],
    };
    const { outcome, series: seen } = seenIndex({ outcome: {}, series } as never, 1.5);
    expect([outcome, seen]).toEqual([
      null,
      {
        second: [0, 1],
        score: [
          [0, 1],
          [0, 0],
        ],
      },
    ]);
  });

  test("with them all is shown", () => {
    const seen = { showSpoilers: true, tick: 100 };
    expect([mayShow(seen, 101), mayShow(seen)]).toEqual([true, true]);
    expect(shownEnd(seen, match)).toBe(400);
  });
});

describe("team colours", () => {
  const luminance = (css: string) =>
    [0.2126, 0.7152, 0.0722].reduce((sum, weight, i) => {
      const value = parseInt(css.slice(1 + 2 * i, 3 + 2 * i), 16) / 255;
      return sum + weight * (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
    }, 0);
  const contrast = (a: string, b: string) => {
    const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y);
    return (high + 0.05) / (low + 0.05);
  };

  test.each(Object.entries(TEAM_COLOURS))("%s: text can be read on panels, and white text on deep", (name, pair) => {
    for (const { css, deep } of pair) {
      expect(contrast(css, "#121924")).toBeGreaterThan(name === "contrast" ? 7 : 4.5);
      expect(contrast("#ffffff", deep)).toBeGreaterThan(name === "contrast" ? 7 : 4);
    }
  });

  test("are the same in the picture and in style sheets", () => {
    const variables: Record<string, string> = {};
    useTeamColours("safe", (name, css) => (variables[name] = css));
    expect(TEAMS).toMatchObject(TEAM_COLOURS.safe);
    expect(Object.values(variables)).toEqual(TEAM_COLOURS.safe.flatMap(({ css, deep }) => [css, deep]));
    useTeamColours("standard", () => undefined);
  });
});

describe("cuesBetween", () => {
  const header = { weapons: WEAPON_NAMES.map((name) => ({ name })) } as unknown as Header;
  const camera: CameraState = { mode: "orbit", target: [0, 0, 0], azimuth: 0, elevation: 0, distance: 10 };
  const gauss = WEAPON_NAMES.indexOf("gauss");

  test("are those of the events after one tick and up to another", () => {
    const events = eventRows([1, 2, 3].map((tick) => ({ tick, kind: EventKind.KILL })));
    expect([cuesBetween(events, header, 1, 3, camera).length, cuesBetween(events, header, 3, 9, camera)]).toEqual([
      2,
      [],
    ]);
  });

  test("name the weapon that is launched, and the beam that hits", () => {
    const events = eventRows([
      { tick: 1, kind: EventKind.LAUNCH, weapon: gauss },
      { tick: 1, kind: EventKind.HIT, weapon: WEAPON_NAMES.indexOf("laser") },
      { tick: 1, kind: EventKind.HIT, weapon: gauss },
      { tick: 1, kind: EventKind.ASSIST },
    ]);
    const heard = cuesBetween(events, header, 0, 1, camera).map(({ voice }) => voice);
    expect(heard.sort()).toEqual(["gauss", "hit", "laser"]);
  });

  test("are louder when near, on their side, and few", () => {
    const at = (x: number, y: number) => ({ tick: 1, kind: EventKind.KILL, x, y });
    const [near, far] = [at(10, 5), at(10, 90)].map((row) => cuesBetween(eventRows([row]), header, 0, 1, camera)[0]);
    expect(near.gain).toBeGreaterThan(far.gain);
    // the camera looks from east to west, so that north is on its right
    expect([Math.sign(near.pan), near.gain <= VOICES.wreck.gain]).toEqual([1, true]);
    expect(cuesBetween(eventRows(Array(50).fill(at(0, 0))), header, 0, 1, camera).length).toBeLessThanOrEqual(6);
    expect(cuesBetween(eventRows([at(5000, 0)]), header, 0, 1, camera)).toEqual([]);
  });
});
