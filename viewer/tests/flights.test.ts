// Flights of rounds: of golden matches, and of many rounds compared with the search of all ends for each.

import { expect, test } from "vitest";
import { type Flight, findFlights, flightAt } from "../src/data/flights";
import type { Chunk, Rows } from "../src/data/replay";
import { EventKind, type Header, HitFlag } from "../src/protocol.gen";
import { type EventRow, eventRows, replayOf, smallReplay } from "./fixtures";

const WEAPONS = [
  { speed: 40, range: 200 },
  { speed: 0, range: 100 },
  { speed: 400, range: 300 },
];
const HEADER = { weapons: WEAPONS, tick_hz: 20, frame_ticks: 5 } as unknown as Header;

/** Return a chunk of impacts and launches in time order, without frames and rounds. */
function chunkOf(rows: (EventRow & { tick: number })[]): Chunk {
  const events = eventRows(rows.sort((a, b) => a.tick - b.tick));
  const none = { count: 0 } as unknown as Rows<never>;
  const frames = { tick: new Float64Array([0, 40]), frames: 2, mechs: 4, tick0: 0, tick1: 40 };
  const mech = new Proxy({}, { get: () => new Float32Array(8) });
  return { ...frames, mech, events, rounds: none } as unknown as Chunk;
}

/** Return launch and end ticks of flights by the plain search: the first unused impact of the shooter in reach. */
function searched(chunk: Chunk): number[][] {
  const { events } = chunk;
  const rows = Array.from({ length: events.count }, (_, i) => i).filter((i) => WEAPONS[events.weapon[i]].speed > 0);
  const used = new Set<number>();
  const found: number[][] = [];
  for (const launch of rows.filter((i) => events.kind[i] === EventKind.LAUNCH)) {
    const { range, speed } = WEAPONS[events.weapon[launch]];
    const until = events.tick[launch] + (range / speed) * HEADER.tick_hz + 2;
    const strike = rows.find(
      (i) =>
        events.kind[i] === EventKind.IMPACT &&
        !used.has(i) &&
        events.actor[i] === events.actor[launch] &&
        events.weapon[i] === events.weapon[launch] &&
        events.tick[i] > events.tick[launch] - 1 &&
        events.tick[i] <= until,
    );
    if (strike === undefined) continue;
    used.add(strike);
    found.push([events.actor[launch], events.tick[launch], Math.max(events.tick[strike], events.tick[launch] + 1)]);
  }
  return found;
}

const ends = (flights: readonly Flight[]) =>
  flights.map(({ owner, points }) => [owner, points[0].tick, points[points.length - 1].tick]);

/** Return whole numbers below a limit, the same for every run. */
function numbers(seed: number): (limit: number) => number {
  let state = seed * 2654435761 + 1;
  return (limit) => ((state = (state * 1103515245 + 12345) % 2 ** 31) >>> 8) % limit;
}

test("findFlights pairs launches and impacts as a search of all does", () => {
  for (let seed = 0; seed < 60; seed++) {
    const draw = numbers(seed);
    const row = () => ({
      tick: draw(41),
      kind: draw(2) ? EventKind.LAUNCH : EventKind.IMPACT,
      actor: draw(3),
      weapon: draw(3),
    });
    const chunk = chunkOf(Array.from({ length: 1 + draw(60) }, row));
    expect(ends(findFlights(chunk, HEADER))).toEqual(searched(chunk));
  }
});

test("findFlights reads each of many impacts a few times", () => {
  // launches of one mech, and impacts of it: none in reach, and all at the tick of the launches
  for (const [at, paired] of [
    [39, 0],
    [5, 30_000],
  ]) {
    const rows = Array.from({ length: 30_000 }, () => ({ tick: 5, kind: EventKind.LAUNCH, actor: 1, weapon: 2 }));
    const impacts = rows.map((row) => ({ ...row, tick: at, kind: EventKind.IMPACT }));
    expect(findFlights(chunkOf([...rows, ...impacts]), HEADER).length).toBe(paired);
  }
}, 4000);

test("findFlights returns flights of a match in time order with hits", () => {
  const { chunks, header } = smallReplay();
  const flights = chunks.flatMap((chunk) => findFlights(chunk, header).map((flight) => ({ chunk, flight })));
  expect(flights.length).toBeGreaterThan(0);
  expect(flights.some(({ flight }) => flight.struck)).toBe(true);
  for (const { chunk, flight } of flights) {
    const ticks = flight.points.map((point) => point.tick);
    expect([...ticks].sort((a, b) => a - b)).toEqual(ticks);
    expect(ticks[0]).toBeGreaterThanOrEqual(chunk.tick0);
    expect(header.weapons[flight.weapon].speed).toBeGreaterThan(0);
  }
});

test("flightAt returns null before and after a flight", () => {
  const flight = {
    owner: 0,
    weapon: 4,
    struck: true,
    points: [
      { tick: 10, x: 0, y: 0, z: 0 },
      { tick: 14, x: 4, y: 0, z: 0 },
    ],
  };
  expect(flightAt(flight, 9)).toBeNull();
  expect(flightAt(flight, 12)?.x).toBe(2);
  expect(flightAt(flight, 15)).toBeNull();
});

test("findFlights ends a missile where point defence stopped it", () => {
  const { header, chunks } = replayOf("smoke.ecr");
  let stopped = 0;
  for (const chunk of chunks) {
    const { events } = chunk;
    for (let i = 0; i < events.count; i++) {
      if (events.kind[i] !== EventKind.AMS || !(events.flags[i] & HitFlag.STOPPED)) continue;
      stopped++;
      const ends = findFlights(chunk, header).map((flight) => ({
        owner: flight.owner,
        ...flight.points[flight.points.length - 1],
      }));
      expect(ends.some((end) => end.owner === events.target[i] && end.tick === events.tick[i])).toBe(true);
    }
  }
  expect(stopped).toBeGreaterThan(0);
});
