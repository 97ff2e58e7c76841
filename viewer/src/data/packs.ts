// Packs of a match: groups of mechs of one team that are numbered within it. Pure.

import type { Header } from "../protocol.gen";

/** One pack. */
export interface Pack {
  readonly team: 0 | 1;
  readonly number: number; // within its team, from 1
  readonly mark: string; // short name on labels
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
    return { team, number, mark: `P${number}`, mechs };
  });
}
