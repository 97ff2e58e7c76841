// Facts of kills, and the curves of the player bar.

import { describe, expect, test } from "vitest";
import { KillFacts } from "../src/data/kill_facts";
import type { Chunk } from "../src/data/replay";
import { curveValues } from "../src/hud/charts";
import { entryName, killText, sideNames } from "../src/text";
import { EventKind, HitFlag, type Header, type MatchSummary, type Series } from "../src/protocol.gen";
import { type EventRow, eventRows, replayOf } from "./fixtures";

/** Return a chunk that has only events. */
const chunkOf = (...rows: EventRow[]) => ({ events: eventRows(rows) }) as Chunk;
const hit = (tick: number, actor: number, target: number, weapon: number, value: number, flags = 0): EventRow =>
  ({ tick, kind: EventKind.HIT, actor, target, weapon, value, flags }); // prettier-ignore
const kill = (tick: number, actor: number, target: number): EventRow =>
  ({ tick, kind: EventKind.KILL, actor, target, weapon: -1 }); // prettier-ignore

describe("KillFacts", () => {
  test("are those of the killer's strongest hit at that tick, and are read once when asked for", () => {
    const read: number[] = [];
    const facts = new KillFacts((tick) => read.push(tick));
    expect([facts.of(5, 250), facts.of(5, 250), read]).toEqual([null, null, [250]]);
    const last = [hit(250, 0, 5, 1, 30), hit(250, 0, 5, 3, 50, HitFlag.REAR), hit(250, 1, 5, 1, 90)];
    const chunk = chunkOf(hit(249, 0, 5, 1, 99), ...last, kill(250, 0, 5));
    facts.add(chunk);
    facts.add(chunk);
    expect([facts.of(5, 250), facts.version]).toEqual([{ weapon: 3, rear: true, damage: 50 }, 1]);
  });

  test("knows no weapon of a hazard", () => {
    const facts = new KillFacts(() => undefined);
    facts.add(chunkOf(kill(3, -1, 2)));
    expect(facts.of(2, 3)).toEqual({ weapon: -1, rear: false, damage: 0 });
    expect(killText({ weapons: [] } as unknown as Header, facts.of(2, 3))).toBe("");
  });

  test("names the weapon of every kill of a golden match", () => {
    const { header, chunks } = replayOf("edits.ecr");
    const facts = new KillFacts(() => undefined);
    for (const chunk of chunks) facts.add(chunk);
    const victims = chunks.flatMap(({ events }) =>
      [...events.target].filter((_, row) => events.kind[row] === EventKind.KILL && events.actor[row] >= 0),
    );
    expect(victims.length).toBeGreaterThan(0);
    for (const victim of victims) expect(killText(header, facts.of(victim, 0))).toMatch(/^[a-z]+ [1-9]\d*(, rear)?$/);
  });
});

const SERIES: Series = { second: [0, 1], score: [[0, 1], [0, 0]], alive: [[5, 5], [5, 4]], hp: [[9, 9], [9, 5]],
  damage: [[0, 4], [0, 1]] }; // prettier-ignore

describe("curves", () => {
  const final = { score: [1.4, 0.2], alive: [5, 3], hp: [9, 4] } as const;

  test("end at the last frame with the result", () => {
    expect(curveValues(SERIES, "alive", 1.5, { ...final } as never)).toEqual([
      [0, 1, 1.5],
      [5, 5, 5],
      [5, 4, 3],
    ]);
    const ends = curveValues(SERIES, "score", 1.5, { ...final } as never).map((line) => line.at(-1));
    expect(ends).toEqual([1.5, 1.4, 0.2]);
  });

  test("end at the last frame without a result, and damage adds up", () => {
    expect(curveValues(SERIES, "damage", 1.5, null)).toEqual([
      [0, 1, 1.5],
      [0, 4, 4],
      [0, 1, 1],
    ]);
    expect(curveValues(SERIES, "hp", 1, null)[0]).toEqual([0, 1]);
  });
});

test("scripted levels are named as bots in lists", () => {
  const names = { blue: "run-1", red: "medium", levels: ["", "medium"] } as MatchSummary;
  expect(sideNames(names)).toEqual(["run-1", "bot: medium"]);
  expect(sideNames({ blue: "run-1", red: "" } as MatchSummary)).toEqual(["run-1", "Red"]);
  const flown = { blue: "expert and human", red: "champion and human", levels: ["expert", ""] } as MatchSummary;
  expect(sideNames(flown)).toEqual(["bot: expert and human", "champion and human"]);
  expect([entryName("heuristic:hard", "hard"), entryName("a1", "Anvil")]).toEqual(["bot: hard", "Anvil"]);
});
