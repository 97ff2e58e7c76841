// The command view without a page: which mechs are chosen, which order a place gives, and what orders are shown.

import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { COMMANDS } from "../src/play/bindings";
import { GROUPS } from "../src/play/controls_panel";
import { LiveMatch } from "../src/play/live_match";
import { ORDERS, chosenWith, inBox, orderAt } from "../src/play/orders";
import { MechFlag, PLAY_CONTACT_COLUMNS, PLAY_ORDERS, type PlayBegin } from "../src/protocol.gen";
import { commonOrder } from "../src/text";
import { replayOf } from "./fixtures";
import { bytesOf, frameOf } from "./play_frames";

const { header } = replayOf("states.ecr");
const OWN = header.roster.flatMap(({ team }, mech) => (team === 0 ? [mech] : []));
const HOSTILE = header.roster.findIndex(({ team }) => team === 1);
const nameOf = (mech: number) => header.roster[mech].name;

beforeEach(() => vi.stubGlobal("Worker", class {}));
afterEach(() => vi.unstubAllGlobals());

test("orders are those of the protocol, with their numbers as keys, and the dialog of controls lists them", () => {
  expect(ORDERS.map(({ order }) => order)).toEqual(PLAY_ORDERS);
  const rows = COMMANDS.filter(({ command }) => command.startsWith("order_"));
  expect(rows.map(({ keys }) => keys[0])).toEqual(PLAY_ORDERS.map((_, i) => `Digit${i}`));
  expect(new Set(COMMANDS.map(({ group }) => group))).toEqual(new Set(GROUPS));
});

test("a place gives the order that fits it", () => {
  const [x, y, radius] = header.zone;
  const give = (team: number, mech: number, ground: number[] | null) => orderAt(header, team, mech, ground);
  expect(give(0, HOSTILE, [0, 0])).toEqual({ order: "focus", target: nameOf(HOSTILE) });
  expect(give(1, HOSTILE, null)).toEqual({ order: "screen", target: nameOf(HOSTILE) });
  expect(give(0, -1, [x + radius + 1, y])).toEqual({ order: "advance", target: "" });
  expect(give(0, -1, [x + radius + 30, y])).toEqual({ order: "hold", target: "" });
  expect(give(0, -1, null)).toBe(null);
});

test("mechs are chosen by a rectangle, and with Shift added or removed", () => {
  const spots = [{ x: 5, y: 5 }, { x: 15, y: 5 }, null];
  const box = { left: 0, top: 0, right: 10, bottom: 10 };
  expect(inBox([0, 1, 2], box, (mech) => spots[mech])).toEqual([0]);
  const chosen = (before: number[], mechs: number[], more: boolean) => [...chosenWith(new Set(before), mechs, more)];
  expect([chosen([1], [2], false), chosen([1], [2], true)]).toEqual([[2], [1, 2]]);
  expect([chosen([1, 2], [2], true), chosen([1, 2], [2, 3], true)]).toEqual([[1], [1, 2, 3]]);
});

test("a commander's match shows the orders of a frame, at once in a pause, and drops those that are over", () => {
  const begin = { header, mech: OWN[0], tick: 0, world: new Uint8Array(), command: true };
  const live = new LiveMatch(begin as unknown as PlayBegin);
  const row: Record<string, number> = { mech: OWN[1], team: 0, chassis: 1, x: 30, hull: 0.5, flags: MechFlag.ALIVE };
  const hostile = { ...row, mech: HOSTILE, team: 1 };
  const contacts = (rows: Record<string, number>[]) =>
    bytesOf(rows.flatMap((each) => PLAY_CONTACT_COLUMNS.map((name) => each[name] ?? 0)));
  const focus = PLAY_ORDERS.indexOf("focus");
  const orders = { orders: OWN.map((_, i) => (i < 2 ? focus : 0)), named: OWN.map((_, i) => (i < 2 ? HOSTILE : -1)) };
  live.add(frameOf(header, 1, OWN[0], { contacts: contacts([row, hostile]) }));
  expect(live.match.commanded?.orders.map(({ text }) => text).join("")).toBe("");
  live.add(frameOf(header, 1, OWN[0], { ...orders, contacts: contacts([row, hostile]) }));
  expect([live.match.commanded?.orders[OWN[1]].text, live.tick]).toEqual([`focus ${nameOf(HOSTILE)}`, 1]);
  expect(commonOrder(live.match.commanded, OWN.slice(0, 2)).sign).toBe("◎");
  expect(commonOrder(live.match.commanded, OWN).text).toBe("mixed");
  const dead = { ...hostile, flags: 0 };
  live.add(frameOf(header, 2, OWN[0], { ...orders, contacts: contacts([{ ...row, flags: 0 }, dead]) }));
  live.add(frameOf(header, 3, OWN[0], { ...orders, contacts: contacts([{ ...row, flags: 0 }, dead]) }));
  expect(live.match.commanded?.orders[OWN[0]].text).toBe("");
  expect([live.match.pilot?.known[OWN[1]], live.death]).toEqual([1, null]);
});
