// After the end of the pilot's mech: its report in figures, whose perception the picture is, and flying by touch.

import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { defaultBindings } from "../src/play/bindings";
import { Controls } from "../src/play/controls";
import { deathReport, sectorOf } from "../src/play/aftermath";
import { type Death, type EventRow, LiveMatch } from "../src/play/live_match";
import {
  ACTION_NAMES,
  EventKind,
  HitFlag,
  MechFlag,
  PLAY_CONTACT_COLUMNS,
  PLAY_EVENT_COLUMNS,
  PLAY_SENSE_COLUMNS,
  type PlayBegin,
  type PlayFrame,
} from "../src/protocol.gen";
import { holdAt } from "../src/score_text";
import { pointsText } from "../src/timeline";
import { replayOf } from "./fixtures";
import { bytesOf, frameOf } from "./play_frames";

const { header } = replayOf("states.ecr");
const SEAT = header.roster.findIndex(({ team }) => team === 0);
const MATE = header.roster.findIndex(({ team }, mech) => team === 0 && mech !== SEAT);
const KILLER = header.roster.findIndex(({ team }) => team === 1);

beforeEach(() => vi.stubGlobal("Worker", class {}));
afterEach(() => vi.unstubAllGlobals());

const hit = (actor: number, value: number, flags = 0, tick = 100): EventRow => ({
  ...{ tick, kind: EventKind.HIT, actor, target: SEAT, weapon: 0, value, flags, x: 0, y: 0, z: 0 },
});

/** Return a death after 8 s with flags in a share of them. */
function death(hits: EventRow[], flags = 0, share = 0, mates: number[] = [4]): Death {
  const past = Array.from({ length: 161 }, (_, tick) => ({
    ...{ tick, hp: 80, heat: 10, flags: MechFlag.ALIVE | (tick > 160 * (1 - share) ? flags : 0) },
  }));
  return { by: KILLER, range: 33.6, angle: -2.4, past, hits, mates };
}

test("a report says who, with what, from where and how much, and one figure that stands out", () => {
  const behind = death([hit(KILLER, 62, HitFlag.REAR), hit(-1, 18, 0, 60)]);
  const { title, rows, tip } = deathReport(header, SEAT, behind);
  expect(title).toMatch(/^R\d+, \w+, destroyed you$/);
  expect(rows.slice(0, 2)).toEqual([
    ["With", header.weapons[0].name],
    ["From", "34 vox, behind left"],
  ]);
  expect(rows[2]).toEqual(["Damage in 8 s", `80 in 2 hits: ${title.split(",")[0]} 62, undetected 18`]);
  expect([rows[3][1], tip]).toEqual(["80 → 0", "62 of 80 damage came from behind."]);
});

test("a report has no tip without a figure, and names hazards", () => {
  const tip = (...found: Parameters<typeof death>) => deathReport(header, SEAT, death(...found)).tip;
  expect(tip([hit(KILLER, 80)])).toBe("");
  expect(tip([hit(KILLER, 80)], MechFlag.SHUTDOWN, 0.5)).toBe("Shut down by heat for 4.0 of the last 8 s.");
  expect(tip([hit(-1, 80)])).toBe("80 of 80 damage came from mechs that your sensors did not show.");
  const both = [hit(KILLER, 40), hit(KILLER + 1, 40)];
  expect(tip(both, 0, 0, [41, 60])).toBe("2 mechs hit you in 8 s; the nearest team mate was 41 vox away.");
  expect([tip(both), tip(both, 0, 0, [])]).toEqual(["", ""]);
  const hazard = deathReport(header, SEAT, { ...death([]), by: -1 });
  expect([hazard.title, hazard.rows.map(([name]) => name)]).toEqual([
    "A hazard destroyed you",
    ["Damage in 8 s", "Hull", "Heat"],
  ]);
  expect([0, Math.PI / 2, Math.PI, -Math.PI / 2].map(sectorOf)).toEqual(["ahead", "right", "behind", "left"]);
});

const frame = (tick: number, mech: number, more: Partial<PlayFrame> = {}) => frameOf(header, tick, mech, more);

test("a match goes on as a team mate perceives it, and keeps the end of the pilot's mech", () => {
  const live = new LiveMatch({ header, mech: SEAT, tick: 0, world: new Uint8Array() } as unknown as PlayBegin);
  const event: Record<string, number> = { ...hit(KILLER, 50), tick: 2 };
  const kill: Record<string, number> = { ...event, kind: EventKind.KILL };
  const events = bytesOf([event, kill].flatMap((row) => PLAY_EVENT_COLUMNS.map((name) => row[name])));
  const seen: Record<string, number> = { mech: MATE, team: 0, x: 10 + SEAT, y: 27, chassis: 1 };
  live.add(frame(1, SEAT, { contacts: bytesOf(PLAY_CONTACT_COLUMNS.map((name) => seen[name] ?? 0)) }));
  expect([live.death, live.watching]).toEqual([null, false]);
  live.add(frame(2, SEAT, { events, killer: [KILLER, 10 + SEAT, 35, 3] }));
  expect(live.death).toMatchObject({ by: KILLER, range: 15, mates: [7] });
  expect(live.death?.hits.map(({ value }) => value)).toEqual([50]);
  live.add(frame(2, MATE));
  const { chunk } = { chunk: live.match.store.get(0) };
  expect([live.watching, live.pilot, live.seat, chunk?.frames]).toEqual([true, MATE, SEAT, 1]);
  expect([chunk?.mech.x[MATE], chunk?.mech.hp[MATE]]).toEqual([10 + MATE, 50]);
  live.add(frame(3, MATE, { score: [30.18, 5.171] }));
  const { score } = live.match.store.get(0)!;
  expect([...score.slice(-2)].map(pointsText)).toEqual(["30.2", "5.1"]); // in the steps of a recording
  expect([live.death?.by, live.match.deaths[SEAT], live.match.pilot?.known[SEAT]]).toEqual([KILLER, 2, 1]);
});

test("a zone that hostiles contest is contested for its pilot too", () => {
  const zoned = { ...header, zone: [10 + SEAT, 20, 5] as [number, number, number] };
  const hold = (zone_control: number, zone = zoned.zone) => {
    const begin = { header: { ...zoned, zone }, mech: SEAT, tick: 0, world: new Uint8Array() };
    const live = new LiveMatch(begin as unknown as PlayBegin);
    const senses = bytesOf(PLAY_SENSE_COLUMNS.map((name) => (name === "zone_control" ? zone_control : 0)));
    live.add(frame(1, SEAT, { senses }));
    return holdAt(live.match.store.get(0)!, 1);
  };
  expect([1, 0.2, 0, -0.2, -1].map((control) => hold(control))).toEqual(["blue", "both", "both", "both", "red"]);
  expect(hold(0, [90, 90, 5])).toBe("none");
});

test("a thumb walks and tiles hold controls until they are released", () => {
  const controls = new Controls(defaultBindings());
  const named = () => {
    const action = new Int8Array(controls.action({ heading: 0, scout: false, targetSlot: -1 }).buffer);
    return Object.fromEntries(ACTION_NAMES.map((name, i) => [name, action[i]]));
  };
  controls.thumb = { ahead: 1, left: -0.5 };
  controls.touch("primary", true);
  expect(named()).toMatchObject({ forward: 127, strafe: -63, primary: 127, secondary: -127 });
  controls.touch("primary", false);
  expect(named()).toMatchObject({ forward: 127, primary: -127 });
  controls.clear();
  expect(named()).toMatchObject({ forward: 0, strafe: 0, primary: -127 });
});
