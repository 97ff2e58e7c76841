// Packs of a match: groups of mechs of one team that are numbered within it. Pure.

import { EventKind, type Header } from "../protocol.gen";
import { type Chunk, firstAfter } from "./replay";

const FIGHT_S = 3; // time for which a hit counts [s]
const BATTLE = 60; // with more living mechs, packs have labels and only mechs near the camera have plates

/** Return whether a number of living mechs is a large battle, in which packs are labelled and few lines are drawn. */
export function isBattle(living: number): boolean {
  return living > BATTLE;
}

export interface Pack {
  readonly team: 0 | 1;
  readonly number: number; // within its team, from 1
  readonly mark: string; // its first and last mech, e.g. "B81–85"
  readonly mechs: readonly number[]; // its mechs that take part
}

/** Return the packs with mechs, blue's first, in the order of their numbers. */
export function packsOf({ roster }: Header): Pack[] {
  const groups = new Map<string, { team: 0 | 1; pack: number; mechs: number[] }>();
  roster.forEach(({ team, pack, present }, mech) => {
    if (!present) return;
    const key = `${team} ${pack}`;
    const group = groups.get(key) ?? { team, pack, mechs: [] };
    groups.set(key, group);
    group.mechs.push(mech);
  });
  const sorted = [...groups.values()].sort((a, b) => a.team - b.team || a.pack - b.pack);
  return sorted.map(({ team, mechs }, i) => {
    const number = sorted.slice(0, i).filter((other) => other.team === team).length + 1;
    const [first, last] = [mechs[0], mechs[mechs.length - 1]].map((mech) => roster[mech].name);
    return { team, number, mark: first === last ? first : `${first}–${last.slice(1)}`, mechs };
  });
}

/** Return the damage that each mech dealt and took in the last seconds before a tick [hit points]. */
export function recentDamage(chunks: readonly Chunk[], tick: number, tickHz: number, mechs: number): Float64Array {
  const damage = new Float64Array(mechs);
  for (const { events } of chunks) {
    const first = firstAfter(events.tick, tick - FIGHT_S * tickHz);
    for (let i = first; i < events.count && events.tick[i] <= tick; i++) {
      if (events.kind[i] !== EventKind.HIT) continue;
      for (const mech of [events.actor[i], events.target[i]])
        if (mech >= 0 && mech < mechs) damage[mech] += events.value[i];
    }
  }
  return damage;
}
