// Remembered settings, and the cues of the soundscape.

import { describe, expect, test } from "vitest";
import { EventKind, type Header, WEAPON_NAMES } from "../src/protocol.gen";
import { parseSettings, settingsText } from "../src/settings";
import { VOICES, cuesBetween } from "../src/sound/cues";
import { type CameraState, defaults } from "../src/state";
import { eventRows } from "./fixtures";

describe("settings", () => {
  test("are restored as they were", () => {
    const state = { ...defaults(), quality: "low" as const, sound: true, volume: 0.25, showMap: false };
    expect(parseSettings(settingsText(state))).toEqual({
      quality: "low",
      sound: true,
      volume: 0.25,
      showMap: false,
      showBars: true,
      showLinks: true,
      showCutaways: true,
    });
  });

  test.each([null, "", "{", "7", "null", '{"volume": 9, "sound": "yes", "quality": 3, "page": "list"}'])(
    "ignore what is not valid: %s",
    (text) => expect(parseSettings(text)).toEqual({}),
  );

  test("are silent by default", () => {
    expect(defaults().sound).toBe(false);
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
