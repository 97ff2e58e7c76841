// Playing: bindings and controls, messages, instruments, why a match is refused, results, and trees of branches.

import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { DEFAULT_AXES, parseAxes } from "../src/play/axes";
import { COMMANDS, bindButton, bindKey, defaultBindings, keyLabel, parseBindings } from "../src/play/bindings";
import { byRun } from "../src/data/matches";
import { branchText } from "../src/hud/match_list";
import { Controls, stick } from "../src/play/controls";
import {
  type WeaponTile,
  figureRows,
  hitDirection,
  holdLines,
  resultLine,
  waitLine,
  walksOut,
  warnings,
  weapons,
} from "../src/play/gauges";
import { Ladder } from "../src/play/ladder";
import { type LiveMatch, floats, rowsOf } from "../src/play/live_match";
import { parseChanges } from "../src/play/pilots_form";
import { parseMessage } from "../src/play/socket";
import { refusal } from "../src/play/take_over";
import { STEPS } from "../src/play/tutorial";
import { effectText, endingRows, shareText } from "../src/play/what_if";
import { encode } from "@msgpack/msgpack";
import {
  ACTION_NAMES,
  EventKind,
  type MatchSummary,
  MechFlag,
  PLAY_HOLDS,
  PLAY_MAX_CLIENT_BYTES,
  PLAY_SENSE_COLUMNS,
  type PlaySessionState,
  type PlayWhatIfResult,
} from "../src/protocol.gen";
import type { MatchState } from "../src/state";
import { replayOf } from "./fixtures";

const COCKPIT = { heading: 0, scout: false, targetSlot: -1 };

/** Return an action by the names of its entries. */
function named(action: Uint8Array): Record<string, number> {
  const values = new Int8Array(action.buffer);
  return Object.fromEntries(ACTION_NAMES.map((name, i) => [name, values[i]]));
}

const made = () => new Controls(defaultBindings());

describe("bindings", () => {
  test("give every key and button to one control", () => {
    const keys = COMMANDS.flatMap((row) => row.keys);
    const buttons = COMMANDS.flatMap((row) => row.buttons);
    expect(new Set(keys).size).toBe(keys.length);
    expect(new Set(buttons).size).toBe(buttons.length);
  });

  test("take an assigned key or button from the control that had it", () => {
    const changed = bindButton(bindKey(defaultBindings(), "vent", "KeyW"), "vent", 0);
    expect(changed.vent).toEqual({ keys: ["KeyW", "KeyV"], buttons: [0] });
    expect(changed.forward.keys).toEqual(["ArrowUp"]);
    expect(changed.jets.buttons).toEqual([]);
  });

  test("are read again as they were written, and wrong ones are the defaults", () => {
    const changed = bindKey(defaultBindings(), "jets", "KeyZ");
    expect(parseBindings(JSON.stringify(changed))).toEqual(changed);
    for (const text of [null, "", "5", "[]", '{"jets": 3}', '{"jets": {"keys": ["<b>"], "buttons": [-1]}}'])
      expect(parseBindings(text)).toEqual(defaultBindings());
    expect(keyLabel("KeyW")).toBe("W");
  });
});

describe("controls", () => {
  test("turn held keys into an action and released ones out of it", () => {
    const controls = made();
    for (const code of ["KeyW", "KeyA", "Space", "Mouse0"]) controls.press(code);
    const { forward, strafe, vertical, primary, secondary, hostile_only } = named(controls.action(COCKPIT));
    expect([forward, strafe, vertical, primary, secondary, hostile_only]).toEqual([127, 127, 127, 127, -127, 127]);
    controls.clear();
    const still = named(controls.action(COCKPIT));
    expect([still.forward, still.strafe, still.vertical, still.primary]).toEqual([0, 0, 0, -127]);
  });

  test("begin a command once for a held key", () => {
    const controls = made();
    expect([controls.press("KeyT"), controls.press("KeyT"), controls.press("F13")]).toEqual([
      "next_target",
      null,
      null,
    ]);
  });

  test("turn the mech toward the mouse, and stop when it faces the aim", () => {
    const controls = made();
    controls.turnBy(-100, 40, 1.0);
    expect(controls.aim).toBeGreaterThan(1.0);
    expect(controls.pitch).toBeLessThan(0);
    expect(named(controls.action({ ...COCKPIT, heading: 1.0 })).yaw_rate).toBeGreaterThan(50);
    expect(named(controls.action({ ...COCKPIT, heading: controls.aim! })).yaw_rate).toBe(0);
    controls.press("KeyE");
    expect(named(controls.action({ ...COCKPIT, heading: 1.0 })).yaw_rate).toBe(-127);
    expect(controls.aim).toBeNull();
  });

  test("keep the aim within sight however far the mouse moves", () => {
    const controls = made();
    for (let i = 0; i < 50; i++) controls.turnBy(-1000, 0, 3.0);
    expect(Math.abs(controls.aim! - 3.0)).toBeLessThan(2 * Math.PI);
    expect(named(controls.action({ ...COCKPIT, heading: 3.0 })).yaw_rate).toBe(127);
  });

  test("read sticks and buttons of a gamepad", () => {
    const controls = made();
    const button = (value: number) => ({ value, pressed: false });
    const pad = {
      axes: [0.5, -1, 1, 0],
      buttons: Array.from({ length: 16 }, (_, i) => button(i === 7 || i === 9 ? 1 : 0)),
    };
    expect(controls.readPad(pad, 0.1)).toEqual(["primary", "pause"]);
    expect(controls.readPad(pad, 0.1)).toEqual([]);
    const action = named(controls.action(COCKPIT));
    expect([action.forward, action.yaw_rate, action.primary]).toEqual([127, -127, 127]);
    expect(action.strafe).toBeLessThan(-40);
    controls.readPad(null, 0.1);
    expect(named(controls.action(COCKPIT)).forward).toBe(0);
    expect([stick(0.1), stick(NaN), stick(2)]).toEqual([0, 0, 1]);
  });

  test("turn the mouse by its sensitivity, and tilt the view as it is set, by mouse and stick", () => {
    const [slow, fast] = [1, 2].map((sensitivity) => {
      const controls = new Controls(defaultBindings(), { sensitivity, inverted: sensitivity > 1 });
      controls.turnBy(-100, 40, 0);
      return controls;
    });
    expect(fast.aim).toBeCloseTo(2 * slow.aim!);
    expect(fast.pitch).toBeCloseTo(-2 * slow.pitch);
    const before = [slow.pitch, fast.pitch];
    for (const controls of [slow, fast]) controls.readPad({ axes: [0, 0, 0, -1], buttons: [] }, 0.1);
    expect([slow.pitch > before[0], fast.pitch < before[1]]).toEqual([true, true]);
  });

  test("have settings that are read again as they were written, and wrong ones are the defaults", () => {
    const set = { sensitivity: 0.5, inverted: true };
    expect(parseAxes(JSON.stringify(set))).toEqual(set);
    for (const text of [null, "", "5", "[]", '{"sensitivity": 99, "inverted": 1}'])
      expect(parseAxes(text)).toEqual(DEFAULT_AXES);
  });

  test("use a scout's secondary trigger as ECM and ECCM, and choose the target's slot", () => {
    const controls = made();
    controls.press("Mouse2");
    expect(named(controls.action({ ...COCKPIT, scout: true })).secondary).toBe(64);
    expect(named(controls.action(COCKPIT)).secondary).toBe(127);
    controls.press("KeyC");
    const action = named(controls.action({ ...COCKPIT, scout: true, targetSlot: 3 }));
    expect([action.secondary, action.target_3, action.target_0]).toEqual([127, 127, 0]);
  });
});

describe("messages", () => {
  test("of a session are maps with a type; others are ignored", () => {
    const whole = (value: unknown) => encode(value).slice().buffer;
    expect(parseMessage(whole({ t: "pong", n: 1, tick: 2 }))).toEqual({ t: "pong", n: 1, tick: 2 });
    for (const data of ["text", whole(5), whole({ n: 1 }), new Uint8Array([0xc1]).buffer])
      expect(parseMessage(data)).toBeNull();
  });

  test("with controls are far smaller than the limit", () => {
    const action = made().action(COCKPIT);
    expect(encode({ t: "input", seq: 2 ** 40, action }).length).toBeLessThan(PLAY_MAX_CLIENT_BYTES / 10);
  });

  test("have rows of floats, whatever their alignment", () => {
    const bytes = new Uint8Array(1 + 4 * PLAY_SENSE_COLUMNS.length + 3);
    const view = new DataView(bytes.buffer);
    PLAY_SENSE_COLUMNS.forEach((_, i) => view.setFloat32(1 + 4 * i, i, true));
    const [row, ...others] = rowsOf(bytes.subarray(1), PLAY_SENSE_COLUMNS);
    expect([row.targeted, row.zone_control, others.length]).toEqual([0, PLAY_SENSE_COLUMNS.length - 1, 0]);
    expect(floats(new Uint8Array(3)).length).toBe(0);
  });
});

describe("cockpit", () => {
  const { header } = replayOf("states.ecr");

  test("lists the weapons of a class with what is left of their cooldowns", () => {
    const heavy = header.roster.findIndex(({ chassis }) => header.chassis[chassis].name === "heavy");
    const ticks = header.cooldowns.map((name) => (name === "laser" ? header.tick_hz / 2 : 0));
    const found = weapons(header, heavy, ticks);
    expect(found.map(({ name, trigger }) => `${name} ${trigger}`)).toEqual([
      "laser primary",
      "missile secondary",
      "gauss tertiary",
      "smoke special",
      "AMS null",
    ]);
    expect(found[0].left).toBe(0.5);
    expect(found[0].share).toBeLessThan(1);
    expect(found[2].share).toBe(1);
  });

  test("warns of what threatens the mech, and tells where hits come from", () => {
    const senses = Object.fromEntries(PLAY_SENSE_COLUMNS.map((name) => [name, 0])) as Parameters<typeof warnings>[1];
    expect(warnings(MechFlag.ALIVE, senses)).toEqual([]);
    const found = warnings(MechFlag.ALIVE | MechFlag.FALLEN, { ...senses, missile_inbound: 1, targeted: 1 });
    expect(found).toEqual(["Missile inbound", "Knocked down", "Targeted"]);
    expect(hitDirection(senses)).toBeNull();
    expect(hitDirection({ ...senses, hit_left: 1 })).toBeCloseTo(-Math.PI / 2);
    expect(hitDirection({ ...senses, hit_ahead: -1 })).toBeCloseTo(-Math.PI);
  });

  test("says what a match waits for", () => {
    const state = (note: string, taken: number) =>
      ({ phase: "playing", note, seats: Array(taken).fill({}) }) as unknown as PlaySessionState;
    expect(waitLine(state("", 1), 2)).toBeNull();
    expect(waitLine(state("waiting for pilots", 1), 2)).toEqual({
      title: "Waiting for the other pilot",
      text: "1 of 2 seats are taken; the match begins when all are.",
    });
    expect(waitLine(state("waiting for pilots", 1), 4)?.title).toBe("Waiting for 3 pilots");
    expect(waitLine(state("waiting for the first picture", 1), 1)?.title).toBe("Waiting for the first picture");
  });

  test("names results", () => {
    expect(resultLine("blue", "zone_control", 0)).toBe("You won: zone held");
    expect(resultLine("blue", "elimination", 1)).toBe("You lost: elimination");
    expect(resultLine("draw", "time_up", 0)).toBe("Draw: time up");
    const figures = { kills: 2, assists: 0, damage: 80.4, taken: 12, shots: 8, hits: 6, zone_s: 9.75 };
    expect(figureRows(figures)[4]).toEqual(["Accuracy", "75 % of 8 shots"]);
    expect([figureRows({}), figureRows({ ...figures, shots: 0 })[4][1]]).toEqual([[], "no shots"]);
  });

  test("says why a held trigger does nothing, and nothing of others", () => {
    const { header } = replayOf("states.ecr");
    const at = (reason: (typeof PLAY_HOLDS)[number]) => header.weapons.map(() => PLAY_HOLDS.indexOf(reason));
    const tile = (name: string, trigger: WeaponTile["trigger"], left = 0) => ({ name, trigger, left, share: 1 });
    const tiles = [tile("laser", "primary", 0.1), tile("missile", "secondary"), tile("AMS", null)];
    const lines = (reason: (typeof PLAY_HOLDS)[number]) =>
      holdLines(tiles, { match: { header }, holds: at(reason) } as unknown as LiveMatch, (held) => held === "primary");
    expect([lines("out of arc"), lines(""), lines("reloading")]).toEqual([["laser: out of arc"], [], []]);
    const free = (range: number, hold: (typeof PLAY_HOLDS)[number] = "") => {
      const pilot = { contacts: [{ range, target: false }] };
      const live = { match: { header, pilot }, holds: at(hold) } as unknown as LiveMatch;
      return holdLines([tile("gauss", "primary", 2)], live, () => true);
    };
    const short = ["gauss: falls short, reaches 20 vox"];
    expect([free(19), free(58), free(58, "reloading")]).toEqual([[], short, short]);
    expect(free(58, "overheated")).toEqual(["gauss: overheated"]);
  });

  test("warns a pilot who faces the edge of the map nearby", () => {
    const faces = (x: number, y: number, yaw: number) => {
      const match = { header: { world: { size: [60, 80, 20] } }, poses: { x: [x], y: [y], yaw: [yaw] } };
      return walksOut(match as unknown as MatchState, 0);
    };
    const out = [faces(2, 40, 3), faces(58, 40, 0), faces(30, 3, -1.6), faces(30, 78, 1.6)];
    const fine = [faces(2, 40, 0), faces(58, 40, 1.6), faces(30, 40, 0), faces(30, 70, 1.6)];
    expect([out, fine]).toEqual([Array(4).fill(true), Array(4).fill(false)]);
  });
});

describe("the way up", () => {
  beforeEach(() => {
    const kept = new Map<string, string>();
    const storage = { getItem: (key: string) => kept.get(key) ?? null, setItem: kept.set.bind(kept) };
    vi.stubGlobal("localStorage", storage);
  });
  afterEach(() => vi.unstubAllGlobals());

  test("offers the next opponent after a win, and remembers the highest one that was beaten", () => {
    const ladder = new Ladder("my-run");
    expect([ladder.climbed, ladder.next("trivial", false), ladder.next("trivial", true)]).toEqual([0, null, "easy"]);
    for (const opponent of ["easy", "trivial", "champion"]) ladder.climb(opponent);
    expect([ladder.climbed, ladder.next("expert", true), ladder.next("my-run", true)]).toEqual([2, "my-run", null]);
    expect(["expert", "my-run", "champion"].map((name) => ladder.matesAgainst(name))).toEqual(["hard", "expert", ""]);
    expect(new Ladder().matesAgainst("champion")).toBe("expert");
  });

  test("waits at every step of the tutorial for what it asks for", () => {
    const rest = { x: [0], y: [0], yaw: [0], heat: [0], flags: [MechFlag.VENT] };
    const live = { match: { poses: rest, header: { zone: [90, 90, 9] } }, pilot: 0, dealt: 0, events: [{ actor: 0 }] };
    const start = { x: 0, y: 0, yaw: 0, dealt: 0 };
    const idle = { live: live as unknown as LiveMatch, start, seconds: 1e6, isHeld: (key: string) => key !== "jets" };
    expect(STEPS.filter(({ done }) => done(idle))).toEqual([]);
    const poses = { ...rest, x: [89], y: [89], yaw: [1], heat: [9] };
    const events = [{ actor: 0, kind: EventKind.LAUNCH }];
    const busy = { ...live, match: { ...live.match, poses }, dealt: 5, events } as unknown as LiveMatch;
    expect(STEPS.filter(({ done }) => !done({ live: busy, start, seconds: 1, isHeld: () => true }))).toEqual([]);
  });
});

test("refusal names in one line why a match cannot be played on", () => {
  const match = (name: string, more: object = {}) =>
    ({ id: "abc", header: replayOf(name).header, index: { live: false }, ...more }) as unknown as MatchState;
  const good = match("states.ecr");
  const version = good.header.sim_version ?? 1;
  expect(refusal(good, version)).toBe("");
  expect(refusal(good, version + 1)).toMatch(/simulation version 2, the session 3/);
  expect(refusal(match("small.ecr"), 1)).toMatch(/has no actions/);
  expect(refusal(match("states.ecr", { id: "file" }), 1)).toMatch(/local files/);
  expect(refusal(match("states.ecr", { index: { live: true } }), 1)).toMatch(/still being recorded/);
});

test("changes are read, and wrong ones are named", () => {
  expect(parseChanges(" laser.damage = 28, mech.speed=-1.5\n", [])).toEqual({ "laser.damage": 28, "mech.speed": -1.5 });
  expect(() => parseChanges("laser", [])).toThrow("expected NAME=NUMBER");
  expect(() => parseChanges("laser.colour=1", ["laser.damage"])).toThrow("“laser.colour” is unknown");
});

describe("what if", () => {
  const side = (score: number) => ({ score, low: score - 0.1, high: score + 0.1, wins: 6 });
  const result: PlayWhatIfResult = {
    ...{ t: "what_if", id: 1, tick: 100, runs: 10, draws: 0, replays: {}, notes: [] },
    ...{
      blue: side(0.634),
      red: side(0.366),
      endings: { "red time_up": 1, "blue zone_control": 6, "draw time_up": 3 },
    },
    effect: { side: "red", value: -0.12, low: -0.2, high: 0.01 },
  };

  test("shows shares with their interval, endings by frequency, and effects", () => {
    expect(shareText(result.blue)).toBe("63 % (53 to 73)");
    expect(endingRows(result)).toEqual([
      ["Blue: zone held", 6],
      ["Draw: time up", 3],
      ["Red: time up", 1],
    ]);
    expect(effectText(result, "B2")).toMatch(/of red by −12 points \(−20 to \+1\); the interval contains 0/);
  });
});

describe("tree of branches", () => {
  const match = (file: string, more: Partial<MatchSummary> = {}) =>
    ({ id: file, run: "r", file, map_seed: 1, created: 0, winner: 1, reason: "elimination", ...more }) as MatchSummary;
  const branch = (file: string, parent: string, tick: number, more: Partial<MatchSummary> = {}) =>
    match(file, {
      parent: { file: parent, match: parent, tick, set: { B2: "expert" }, changes: [], still: [] },
      ...more,
    });
  const outline = (matches: readonly MatchSummary[]) => byRun(matches).map(([, found]) => found.map(({ id }) => id));

  test("are listed below their parent by time, those of lost files as matches", () => {
    const matches = [
      branch("b2", "a", 400),
      branch("b1", "a", 200),
      branch("c", "b1", 300),
      match("a"),
      match("alone"),
      branch("orphan", "gone", 10),
    ];
    expect(outline(matches)).toEqual([["a", "b1", "c", "b2", "alone", "orphan"]]);
    expect(branchText(matches[0])).toBe("0:20 · B2 expert");
  });

  test("are below the match that the server names, of several files with one name", () => {
    const played = (run: string) => match("played-001.ecr", { id: run, run });
    const parent = { file: "played-001.ecr", match: "first", tick: 1, set: {}, changes: [], still: ["B3"] };
    const matches = [played("second"), played("first"), match("played-002.ecr", { run: "second", parent })];
    expect(outline(matches)).toEqual([["second"], ["first", "played-002.ecr"]]);
    expect(branchText(matches[2])).toBe("0:00 · without B3");
  });

  test("are all listed where they name each other", () => {
    expect(outline([branch("a", "b", 1), branch("b", "a", 1), branch("c", "c", 1)])).toEqual([["a", "b", "c"]]);
  });
});
