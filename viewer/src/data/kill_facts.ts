// What kills were made with: weapon, direction and damage, collected from chunks in any order. Markers of the index say
// only which mech destroyed which.

import { EventKind, HitFlag } from "../protocol.gen";
import type { Chunk } from "./replay";

const CHUNKS = 5; // chunks whose damage counts for a kill: that of its own and of the four before, ten seconds

export interface KillFact {
  readonly weapon: number; // index into the header's weapons, -1 for unknown
  readonly rear: boolean; // whether the last hit came from behind
  readonly damage: number; // damage of the killer to the victim in the last ten seconds [hit points]
}

/** The kills of one chunk by victim, and the damage in it by attacker and victim. */
interface ChunkFacts {
  kills: Map<number, { actor: number; weapon: number; rear: boolean }>;
  dealt: Map<string, number>;
}

const pairOf = (actor: number, target: number): string => `${actor} ${target}`;

/** Facts of all kills in the chunks read so far. */
export class KillFacts {
  version = 0;
  private readonly chunks = new Map<number, ChunkFacts>();
  private readonly killed = new Map<number, number>(); // chunk by victim

  add(number: number, chunk: Chunk): void {
    if (this.chunks.has(number)) return;
    const facts = factsOf(chunk);
    this.chunks.set(number, facts);
    for (const victim of facts.kills.keys()) this.killed.set(victim, number);
    if (facts.kills.size > 0) this.version++;
  }

  /** Return the fact of a mech's death, or null if its chunk has not been read. */
  of(victim: number): KillFact | null {
    const number = this.killed.get(victim);
    const kill = number === undefined ? undefined : this.chunks.get(number)?.kills.get(victim);
    if (number === undefined || !kill) return null;
    let damage = 0;
    for (let at = number; at > number - CHUNKS; at--)
      damage += this.chunks.get(at)?.dealt.get(pairOf(kill.actor, victim)) ?? 0;
    return { weapon: kill.weapon, rear: kill.rear, damage };
  }
}

function factsOf({ events }: Chunk): ChunkFacts {
  const facts: ChunkFacts = { kills: new Map(), dealt: new Map() };
  for (let row = 0; row < events.count; row++) {
    const [actor, target] = [events.actor[row], events.target[row]];
    const pair = pairOf(actor, target);
    if (events.kind[row] === EventKind.HIT) facts.dealt.set(pair, (facts.dealt.get(pair) ?? 0) + events.value[row]);
    if (events.kind[row] === EventKind.KILL) facts.kills.set(target, { actor, ...lastHit(events, row) });
  }
  return facts;
}

/** Return weapon and direction of the killer's strongest hit at the tick of a kill. */
export function lastHit(events: Chunk["events"], kill: number): { weapon: number; rear: boolean } {
  let best = -1;
  for (let row = 0; row < events.count; row++) {
    const same = (["tick", "actor", "target"] as const).every((name) => events[name][row] === events[name][kill]);
    if (events.kind[row] !== EventKind.HIT || !same) continue;
    if (best < 0 || events.value[row] > events.value[best]) best = row;
  }
  return best < 0
    ? { weapon: -1, rear: false }
    : { weapon: events.weapon[best], rear: (events.flags[best] & HitFlag.REAR) !== 0 };
}
