// Figures of each mech up to a tick, as the scoreboard shows them: the counterpart of echelon/replay/figures.py, which
// says what they count. Sums at the start of each chunk come from the scan of the match; the chunk at the cursor adds
// the rest, so a figure is a function of the tick. Pure.

import { EventKind, type Header, HitFlag, MechFlag } from "../protocol.gen";
import type { MatchCursor } from "./cursor";
import type { Chunk } from "./replay";

export const FIGURES = ["kills", "assists", "damage", "taken", "shots", "hits", "zone_s"] as const;
export type Figure = (typeof FIGURES)[number];
/** Each figure by mech, shape [M]. */
export type Figures = Record<Figure, Float64Array>;

export function noFigures(mechs: number): Figures {
  return Object.fromEntries(FIGURES.map((name) => [name, new Float64Array(mechs)])) as Figures;
}

function copyOf(figures: Figures): Figures {
  return Object.fromEntries(FIGURES.map((name) => [name, figures[name].slice()])) as Figures;
}

/** Add what a chunk has up to a tick; its first frame repeats the last one of the chunk before. */
export function addFigures(found: Figures, header: Header, chunk: Chunk, until = Infinity): void {
  const { roster, weapons, tick_hz, zone } = header;
  const { events, mech, tick, mechs } = chunk;
  for (let i = 0; i < events.count && events.tick[i] <= until; i++) {
    const [kind, actor, target, weapon] = [
      events.kind[i],
      events.actor[i],
      events.target[i],
      weapons[events.weapon[i]],
    ];
    const [by, at] = [roster[actor], roster[target]];
    const hostile = by && at && by.team !== at.team;
    const direct = (events.flags[i] & HitFlag.SPLASH) === 0;
    const hit = kind === EventKind.HIT;
    const harms = (weapon?.damage ?? 0) > 0;
    if (kind === EventKind.KILL && hostile) found.kills[actor]++;
    if (kind === EventKind.ASSIST && by) found.assists[actor]++;
    if (hit && hostile) found.damage[actor] += events.value[i];
    if (hit && at) found.taken[target] += events.value[i];
    const shot = kind === EventKind.LAUNCH || (hit && direct && weapon?.guidance === "hitscan");
    if (shot && by && harms) found.shots[actor]++;
    if (hit && direct && hostile && harms) found.hits[actor]++;
  }
  const [x, y, radius] = zone;
  for (let frame = 1; frame < chunk.frames && tick[frame] <= until; frame++) {
    const seconds = (tick[frame] - tick[frame - 1]) / tick_hz;
    for (let m = 0; m < mechs; m++) {
      const at = frame * mechs + m;
      const [dx, dy] = [mech.x[at] - x, mech.y[at] - y];
      if (mech.flags[at] & MechFlag.ALIVE && dx * dx + dy * dy < radius * radius) found.zone_s[m] += seconds;
    }
  }
}

/** Figures of a whole match, as far as its chunks have been read in order. */
export class FigureScan {
  /** Whether somebody has asked for figures, so that the match is read for them. */
  asked = false;
  private readonly starts: Figures[]; // at the start of each chunk, and after the last one read

  constructor(private readonly header: Header) {
    this.starts = [noFigures(header.mechs)];
  }

  /** Number of chunks that have been read. */
  get chunks(): number {
    return this.starts.length - 1;
  }

  /** Add the next chunk, null for a damaged one, which counts nothing. */
  add(chunk: Chunk | null): void {
    const next = copyOf(this.starts[this.chunks]);
    if (chunk) addFigures(next, this.header, chunk);
    this.starts.push(next);
  }

  /** Return the figures at the tick of a cursor, null while its chunk or one before it is being read. */
  at({ chunkNumber, chunk }: Pick<MatchCursor, "chunkNumber" | "chunk">, tick: number): Figures | null {
    this.asked = true;
    if (chunkNumber > this.chunks || !chunk) return null;
    const found = copyOf(this.starts[chunkNumber]);
    addFigures(found, this.header, chunk, tick);
    return found;
  }
}
