// Turning points of a local file, whose moments no server computes: the counterpart of echelon/replay/moments.py, over
// all chunks of a file. Pure.

import { EventKind, type Header, MechFlag, type Outcome } from "../protocol.gen";
import { lastHit } from "./kill_facts";
import {
  type Kill,
  caption,
  change,
  comebackText,
  holdText,
  killText,
  lossText,
  multiKillText,
  swingText,
} from "./moment_text";
import type { Moment } from "./moments";
import type { Chunk } from "./replay";
import { GROUPS, type WinPoint, situationOf, winPoint } from "./winprob";

const MAX_SAMPLES = 2 ** 14;
const MIN_STEP_S = 0.25; // least time between samples [s]
const MAX_MOMENTS = 24;
const [BEFORE_S, AFTER_S] = [1, 0.5]; // time around an event in which the win probability changes because of it [s]
const CLUSTER_S = 3; // kills of a team this close together are one moment [s]
const [SWING_S, MIN_SWING, SWING_CANDIDATES] = [4, 0.1, 64];
const REVERSAL = 0.25; // change in the other direction that ends a swing, as a share of the change in SWING_S
const FLAT = 0.05; // share of a swing's change before its start and after its end
const [HOLD_S, FEW, ODDS] = [4, 3, 2];
const [COMEBACK, COMEBACK_FROM_S] = [0.25, 3];
const MERGE_S = 1.5; // a moment closer than this to a higher ranked one is omitted [s]
const MIN_SCORE = 0.03;
/** Added to the change of the win probability for the rank of a moment, by kind. */
const BONUS: Record<string, number> = {
  comeback: 0.3,
  hold: 0.2,
  multi_kill: 0.15,
  first_blood: 0.1,
  exploit: 0.02, // kill of a hostile that is shut down, hit from behind or knocked down
  friendly_fire: 0.1,
  hazard: 0.05,
  kill: 0,
  swing: 0,
};
const AGAINST = 0.5; // weight of a change against the team that acts
const RESULTS: Record<number, number> = { 0: 1, 1: 0, 2: 0.5 }; // probability of blue after the end, by winner

/** One sample of a match. */
interface Sample extends WinPoint {
  readonly alive: readonly [number, number];
  readonly hp: readonly [number, number];
  readonly score: readonly [number, number];
  readonly inZone: readonly [number, number];
  readonly sole: readonly number[]; // first living mech of each team
}

/** A candidate. */
interface Found {
  readonly tick: number;
  readonly end: number; // tick of the last event
  readonly kind: string;
  readonly team: number;
  readonly before: number;
  readonly after: number;
  readonly text: string;
}

/** Return the samples of chunks in time order, at most `MAX_SAMPLES` of a match of `ticks`. */
function samplesOf(header: Header, chunks: Iterable<Chunk>, ticks: number, kills: Map<number, Kill>): Sample[] {
  const least = MIN_STEP_S * header.tick_hz;
  const step = Math.max(least, ticks / MAX_SAMPLES);
  const samples: Sample[] = [];
  let due = 0;
  for (const chunk of chunks) {
    addKills(header, chunk, kills);
    for (let frame = 0; frame < chunk.frames; frame++) {
      const tick = chunk.tick[frame];
      const last = frame === chunk.frames - 1 && tick > due - step && step <= least;
      if (tick < due && !last) continue;
      due = tick + step;
      const { alive, hp, score, inZone } = situationOf(header, chunk, frame);
      const lives = (mech: number) => chunk.mech.flags[frame * chunk.mechs + mech] & MechFlag.ALIVE;
      const sole = [0, 1].map((team) => header.roster.findIndex((entry, m) => entry.team === team && lives(m)));
      samples.push({ ...winPoint(header, chunk, frame), alive, hp, score, inZone, sole });
    }
  }
  return samples;
}

/** Add the first death of each mech with its cause. */
function addKills(header: Header, chunk: Chunk, kills: Map<number, Kill>): void {
  const { events } = chunk;
  for (let row = 0; row < events.count; row++) {
    const [victim, tick] = [events.whom[row], events.tick[row]];
    if (events.kind[row] !== EventKind.KILL || !header.roster[victim] || kills.has(victim)) continue;
    const { weapon, rear } = lastHit(events, row);
    let frame = 0;
    while (frame + 1 < chunk.frames && chunk.tick[frame + 1] < tick) frame++;
    const flags = chunk.mech.flags[frame * chunk.mechs + victim];
    kills.set(victim, {
      tick,
      killer: header.roster[events.who[row]] ? events.who[row] : -1,
      victim,
      weapon: header.weapons[weapon]?.name ?? "",
      rear,
      shutdown: (flags & MechFlag.SHUTDOWN) !== 0,
      fallen: (flags & MechFlag.FALLEN) !== 0,
    });
  }
}

const [LEAD_IN_S, LEAD_OUT_S] = [2, 1.5]; // time that is shown before and after a moment [s]

/** Return the moments of a match in order of time, ranked from 1. */
export function findMoments(
  header: Header,
  chunks: Iterable<Chunk>,
  ticks: number,
  outcome: Outcome | null,
): readonly Moment[] {
  const kills = new Map<number, Kill>();
  const samples = samplesOf(header, chunks, ticks, kills);
  const last = samples.at(-1);
  if (!last) return [];
  const decided = RESULTS[outcome?.winner ?? -1];
  if (decided !== undefined) samples[samples.length - 1] = { ...last, p: decided };
  const finder = new Finder(header, samples, [...kills.values()].sort(inOrder));
  const hz = header.tick_hz;
  return rank(finder.find(decided), hz)
    .map(({ tick, end, kind, team, before, after, text }, at): Moment => {
      const second = tick / hz;
      const [from, to] = [Math.max(0, second - LEAD_IN_S), Math.min(last.tick / hz, end / hz + LEAD_OUT_S)];
      return { tick, second, from, to, kind, rank: at + 1, team, before, after, caption: caption(second, text) };
    })
    .sort((a, b) => a.tick - b.tick);
}

const inOrder = (a: Kill, b: Kill) => a.tick - b.tick || a.killer - b.killer || a.victim - b.victim;
function scoreOf({ before, after, kind, team }: Found): number {
  const gain = team < 0 ? Math.abs(after - before) : (after - before) * (1 - 2 * team);
  return Math.max(gain, -AGAINST * gain) + BONUS[kind];
}

/** Return the best candidates, best first, without those beside better ones. */
function rank(all: readonly Found[], hz: number): Found[] {
  const best: Found[] = [];
  for (const found of [...all].sort((a, b) => scoreOf(b) - scoreOf(a) || a.tick - b.tick)) {
    const apart = best.every(({ tick }) => Math.abs(found.tick - tick) >= MERGE_S * hz);
    if (apart && scoreOf(found) >= MIN_SCORE && best.length < MAX_MOMENTS) best.push(found);
  }
  return best;
}

/** Detection of moments in the samples of a match. */
class Finder {
  private readonly names: readonly string[];
  private readonly teams: readonly number[];
  private readonly hz: number;

  constructor(
    header: Header,
    private readonly samples: readonly Sample[],
    private readonly kills: readonly Kill[],
  ) {
    this.names = header.roster.map(({ name }) => name);
    this.teams = header.roster.map(({ team }) => team);
    this.hz = header.tick_hz;
  }

  find(decided: number | undefined): Found[] {
    const kills = this.killMoments();
    return [...kills, ...this.swings(kills, decided !== undefined), ...this.holds(), ...this.comebacks(decided)];
  }

  /** Return the number of samples before (or, with `through`, up to) a tick. */
  private count(tick: number, through: boolean): number {
    let [low, high] = [0, this.samples.length];
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.samples[middle].tick < tick || (through && this.samples[middle].tick === tick)) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  private clusters(): Kill[][] {
    const open = new Map<number, Kill[]>();
    const clusters: Kill[][] = [];
    for (const kill of this.kills) {
      const hostile = kill.killer >= 0 && this.teams[kill.killer] !== this.teams[kill.victim];
      const team = hostile ? this.teams[kill.killer] : -1;
      const last = open.get(team);
      if (hostile && last && kill.tick - last[0].tick <= CLUSTER_S * this.hz) {
        last.push(kill);
        continue;
      }
      clusters.push([kill]);
      if (hostile) open.set(team, clusters[clusters.length - 1]);
    }
    return clusters;
  }

  private killMoments(): Found[] {
    const { samples, hz, teams, names } = this;
    return this.clusters().map((kills, number) => {
      const [first, last] = [kills[0], kills[kills.length - 1]];
      const victims = teams[first.victim];
      const before = samples[Math.max(0, this.count(first.tick - BEFORE_S * hz, true) - 1)].p;
      const after = samples[Math.min(samples.length - 1, this.count(last.tick + AFTER_S * hz, false))].p;
      let kind = kills.length > 1 ? "multi_kill" : this.kindOf(first);
      let text =
        kills.length > 1
          ? multiKillText(kills, names, 1 - victims, (last.tick - first.tick) / hz)
          : killText(first, names, teams);
      if (number === 0) [kind, text] = [kind === "kill" ? "first_blood" : kind, `first blood: ${text}`];
      const [start, end] = [first.tick - BEFORE_S * hz, last.tick + AFTER_S * hz];
      const lost = this.kills.filter(({ tick, victim }) => {
        return tick >= start && tick <= end && teams[victim] === 1 - victims;
      });
      text += lossText(
        1 - victims,
        lost.map(({ victim }) => names[victim]),
      );
      const acts = first.killer >= 0 ? teams[first.killer] : -1;
      text += `: ${change(victims, before, after)}`;
      return { tick: first.tick, end: last.tick, kind, team: acts, before, after, text };
    });
  }

  private kindOf(kill: Kill): string {
    if (kill.killer < 0) return "hazard";
    if (this.teams[kill.killer] === this.teams[kill.victim]) return "friendly_fire";
    return kill.shutdown || kill.rear || kill.fallen ? "exploit" : "kill";
  }

  /** Return the largest changes that are apart from each other, from kills and from the result. */
  private swings(kills: readonly Found[], ended: boolean): Found[] {
    const { samples, hz } = this;
    const span = SWING_S * hz;
    const before = samples.map(({ tick }) => Math.max(0, this.count(tick - span, true) - 1));
    const moved = samples.map(({ p }, at) => p - samples[before[at]].p);
    const taken = samples.map(({ tick }, at) => {
      const beside = kills.some((kill) => tick > kill.tick - BEFORE_S * hz && tick < kill.end + span);
      return beside || (ended && at === samples.length - 1);
    });
    const order = samples.map((_, at) => at).sort((a, b) => Math.abs(moved[b]) - Math.abs(moved[a]) || a - b);
    const found: Found[] = [];
    for (const at of order.slice(0, MAX_MOMENTS * SWING_CANDIDATES)) {
      if (Math.abs(moved[at]) < MIN_SWING || found.length === MAX_MOMENTS) break;
      if (taken[at]) continue;
      const [first, last] = this.trimmed(before[at], at);
      if (Math.abs(last.p - first.p) < MIN_SWING) continue;
      samples.forEach(({ tick }, other) => {
        if (Math.abs(tick - samples[at].tick) < span) taken[other] = true;
      });
      found.push(this.swing(first, last));
    }
    return found;
  }

  /**
   * Return the samples at which the change between two samples starts and ends. Around its steepest step it goes on
   * until the probability moves back by `REVERSAL` of it.
   */
  private trimmed(first: number, last: number): [Sample, Sample] {
    const samples = this.samples.slice(first, last + 1);
    const sign = this.samples[last].p > this.samples[first].p ? 1 : -1;
    const p = samples.map((sample) => sample.p * sign);
    const most = REVERSAL * (p[p.length - 1] - p[0]);
    let end = 1;
    for (let at = 2; at < p.length; at++) if (p[at] - p[at - 1] > p[end] - p[end - 1]) end = at;
    let start = end - 1;
    for (let at = start - 1; at >= 0; at--) {
      if (p[at] < p[start]) start = at;
      else if (p[at] - p[start] > most) break;
    }
    for (let at = end + 1; at < p.length; at++) {
      if (p[at] > p[end]) end = at;
      else if (p[end] - p[at] > most) break;
    }
    const flat = FLAT * (p[end] - p[start]);
    const [low, high] = [p[start] + flat, p[end] - flat];
    while (p[start + 1] <= low) start++;
    while (p[end - 1] >= high) end--;
    return [samples[start], samples[end]];
  }

  private swing(first: Sample, last: Sample): Found {
    const team = last.p > first.p ? 0 : 1;
    const parts = GROUPS.map((_, g) => (last.parts[g] - first.parts[g]) * (team === 0 ? 1 : -1));
    const group = GROUPS[parts.indexOf(Math.max(...parts))];
    const lost = [first.hp[0] - last.hp[0], first.hp[1] - last.hp[1]] as const;
    const scored = [last.score[0] - first.score[0], last.score[1] - first.score[1]] as const;
    const seconds = Math.max(1, (last.tick - first.tick) / this.hz);
    const text = `${swingText(group, team, lost, scored, seconds)}: ${change(team, first.p, last.p)}`;
    return { tick: first.tick, end: last.tick, kind: "swing", team, before: first.p, after: last.p, text };
  }

  /** Return the times in which few mechs of a team keep the zone from many. */
  private holds(): Found[] {
    const { samples } = this;
    const found: Found[] = [];
    for (const team of [0, 1]) {
      const holds = ({ alive, inZone }: Sample) =>
        alive[team] >= 1 &&
        alive[team] <= FEW &&
        alive[1 - team] >= ODDS * alive[team] &&
        inZone[team] > inZone[1 - team];
      for (let at = 0; at < samples.length; at++) {
        if (!holds(samples[at])) continue;
        const first = samples[at];
        while (at < samples.length && holds(samples[at])) at++;
        const last = samples[Math.min(at, samples.length - 1)];
        const seconds = (last.tick - first.tick) / this.hz;
        if (seconds < HOLD_S || last.score[team] <= first.score[team]) continue;
        const hold = holdText(team, this.names[first.sole[team]], first.alive, seconds);
        const text = `${hold}: ${change(team, first.p, last.p)}`;
        found.push({ tick: first.tick, end: first.tick, kind: "hold", team, before: first.p, after: last.p, text });
      }
    }
    return found;
  }

  private comebacks(decided: number | undefined): Found[] {
    if (decided !== 0 && decided !== 1) return [];
    const team = decided === 1 ? 0 : 1;
    let low: Sample | null = null;
    const own = ({ p }: Sample) => (team === 0 ? p : 1 - p);
    for (const sample of this.samples)
      if (sample.tick >= COMEBACK_FROM_S * this.hz && (!low || own(sample) < own(low))) low = sample;
    if (!low || own(low) > COMEBACK) return [];
    const text = comebackText(team, own(low), low.alive, low.score);
    return [{ tick: low.tick, end: low.tick, kind: "comeback", team, before: low.p, after: decided, text }];
  }
}
