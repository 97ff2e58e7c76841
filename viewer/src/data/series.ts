// Rebuilds the timeline of a whole match from its chunks, for files that were not closed and have no INDEX: values per
// second of both teams and marked events; neither win probability nor turning points. The counterpart of
// echelon/replay/timeline.py.

import * as protocol from "../protocol.gen";
import type { RecordHead } from "./container";
import type { Chunk } from "./replay";
import { NO_WIN } from "./winprob";

export type Timeline = Omit<protocol.IndexView, "live" | "chunks">;

/** Return the number of living mechs and the hit points of each team in one frame. */
export function teamTotals(chunk: Chunk, frame: number, teams: readonly number[]): { alive: number[]; hp: number[] } {
  const [alive, hp] = [
    [0, 0],
    [0, 0],
  ];
  for (let mech = 0; mech < chunk.mechs; mech++) {
    const at = frame * chunk.mechs + mech;
    if (!(chunk.mech.flags[at] & protocol.MechFlag.ALIVE)) continue;
    alive[teams[mech]]++;
    hp[teams[mech]] += chunk.mech.hp[at];
  }
  return { alive, hp };
}

/** Build the timeline of a file from its chunks. */
export function rebuildIndex(
  header: protocol.Header,
  heads: readonly RecordHead[],
  read: (head: RecordHead) => Chunk,
): Timeline {
  const teams = header.roster.map((mech) => mech.team);
  const pair = (): [number[], number[]] => [[], []];
  const series: protocol.Series = { second: [], score: pair(), alive: pair(), hp: pair(), damage: pair() };
  const markers: protocol.IndexView["markers"] = [];
  let damage = [0, 0];
  for (const head of heads) {
    const chunk = read(head);
    const { events } = chunk;
    let at = 0;
    for (let frame = series.second.length > 0 ? 1 : 0; frame < chunk.frames; frame++) {
      for (; at < events.count && events.tick[at] <= chunk.tick[frame]; at++) {
        const [actor, target] = [events.actor[at], events.target[at]];
        const listed = protocol.MARKER_KINDS.includes(events.kind[at]) && markers.length < protocol.MAX_MARKERS;
        if (listed) markers.push([events.tick[at], events.kind[at], actor, target]);
        // damage by hazards (-1) and to friends does not count
        const hostile = actor in teams && target in teams && teams[actor] !== teams[target];
        if (hostile && events.kind[at] === protocol.EventKind.HIT) damage[teams[actor]] += events.value[at];
      }
      if (chunk.tick[frame] < series.second.length * header.tick_hz) continue;
      const totals = teamTotals(chunk, frame, teams);
      for (const team of [0, 1]) {
        series.score[team].push(chunk.score[frame * 2 + team]);
        series.alive[team].push(totals.alive[team]);
        series.hp[team].push(totals.hp[team]);
        series.damage[team].push(damage[team]);
      }
      series.second.push(series.second.length);
      damage = [0, 0];
    }
  }
  return { series, markers, outcome: null, win: NO_WIN, moments: [] };
}
