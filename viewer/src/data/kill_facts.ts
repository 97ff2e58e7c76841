// What kills were made with: weapon, direction and damage of the last hit. Markers of the index say only which mech
// destroyed which; the chunk of a kill is read when its facts are asked for.

import { EventKind, HitFlag } from "../protocol.gen";
import type { Chunk } from "./replay";

export interface KillFact {
  readonly weapon: number; // index into the header's weapons, -1 for unknown
  readonly rear: boolean; // whether the hit came from behind
  readonly damage: number; // [hit points]
}

/** Facts of the kills in the chunks read so far. */
export class KillFacts {
  version = 0;
  private readonly facts = new Map<number, KillFact>(); // by victim
  private readonly asked = new Set<number>(); // victims whose chunk was requested

  /** `read` reads the chunk of a tick; its owner adds it. */
  constructor(private readonly read: (tick: number) => void) {}

  add({ events }: Chunk): void {
    for (let row = 0; row < events.count; row++) {
      const victim = events.target[row];
      if (events.kind[row] !== EventKind.KILL || this.facts.has(victim)) continue;
      this.facts.set(victim, lastHit(events, row));
      this.version++;
    }
  }

  /** Return the fact of a mech's death at a tick, or null until its chunk has been read. */
  of(victim: number, tick: number): KillFact | null {
    const fact = this.facts.get(victim) ?? null;
    if (fact === null && !this.asked.has(victim)) {
      this.asked.add(victim);
      this.read(tick);
    }
    return fact;
  }
}

/** Return the fact of the killer's strongest hit at the tick of a kill. */
function lastHit(events: Chunk["events"], kill: number): KillFact {
  let best = -1;
  for (let row = 0; row < events.count; row++) {
    const same = (["tick", "actor", "target"] as const).every((name) => events[name][row] === events[name][kill]);
    if (events.kind[row] !== EventKind.HIT || !same) continue;
    if (best < 0 || events.value[row] > events.value[best]) best = row;
  }
  if (best < 0) return { weapon: -1, rear: false, damage: 0 };
  const rear = (events.flags[best] & HitFlag.REAR) !== 0;
  return { weapon: events.weapon[best], rear, damage: events.value[best] };
}
