// Camera shots of the director, and its pace. A shot lasts some seconds: it shows the fight with most damage, a mech
// that is stuck, comes back or is the last of its team, or both teams and the zone. Its angle is the one from which
// most of both teams is seen between the walls; what still hides them is cut away. Shots alternate between two sets of
// angles. Blue is on the left and red on the right (in portrait below and above). Pure functions of match, tick and
// free part of the window, so that the same moment always has the same shot and pace.

import { appearanceTable } from "./data/appearance";
import { isHidden, isInside } from "./data/line_of_sight";
import { chunkAt } from "./data/store";
import { type Chunk, firstAfter } from "./data/replay";
import { VoxelField } from "./data/voxels";
import * as framing from "./framing";
import { type MechPose, frameAt, sampleMech, smooth } from "./interpolate";
import { EventKind, type Header, MechFlag } from "./protocol.gen";
import type { MatchState } from "./state";

const SHOT_S = 5.5; // length of a shot whose ends are not moved [s]
const KILL_NEAR_S = [0.7, 1] as const; // a shot begins earlier for a kill this long after its start, or before it [s]
const LEAD_S = 1.2; // time before such a kill [s]
export const LONGEST_S = SHOT_S + LEAD_S + KILL_NEAR_S[1]; // length of the longest shot [s]
const NEAR = 15; // radius of a fight [vox]
const NEAR_ZONE = 24; // distance of a fight from the zone within which the zone is framed too [vox]
const KILL_WORTH = 40; // weight of a kill, in hit points of damage
const QUIET = 1; // least damage of a shot with a fight [hit points]
/** What a shot of a mech is worth, in hit points of damage that a fight must have to be shown instead. */
const WORTH = { last: 60, stillLast: 8, stuck: 25, return: 10 } as const;
const STUCK_S = 3; // time after which a mech without progress is stuck [s]
const STUCK_VOX = 0.8; // most progress of a stuck mech in that time [vox]
const THROTTLE = 0.5; // mean action from which a mech wants to move
const CLOSEST = 20; // least camera distance [vox]
const TALL = 2; // height of a framed mech above its centre [vox]
const PLATE_ROOM = 40; // room for the nameplates of mechs at the edges [CSS px]
/** Azimuths of odd and even shots, relative to the side view [rad]: far enough apart that a cut is seen as one. */
const SIDES = [
  [0, 1, -1],
  [0.5, -0.5],
] as const;
const ELEVATIONS = [0.62, 0.85, 1.1] as const; // elevations tried, flattest first [rad]
const START_ELEVATION = 0.85; // of the first shot, which has the side view [rad]
const STEEP = 0.15; // score that a radian of elevation costs
const OPENED = 0.8; // worth of what is seen only because walls are cut away, relative to what is seen between them
const TURN = 0.12; // score by which an angle of the other set must be better to be taken
const SAMPLES = [0, 0.5, 1] as const; // shares of a shot at which visibility is scored
const MOST_SCORED = 24; // most mechs whose visibility is scored
const HEADS = [0, 0.9] as const; // heights above a mech's centre that are looked at [vox]
const BYSTANDERS = 0.2; // weight of all living mechs, relative to that of the fighters
const ZONE_WEIGHT = 0.15; // weight of the zone, relative to that of the mechs
const MOST_CUT = 26; // largest radius that is cut away [vox]
const CUT_MARGIN = 2.5; // of that radius beyond who is shown [vox]
const BESIDE = 6; // distance from them within which others are seen too [vox]
const BACK = 1.15; // factor of the distance that moves a camera out of a wall
const CANDIDATES_A_CALL = 2; // candidates of the next shot that are scored ahead per call
const SIDE = -2.15; // azimuth while the teams' places are unknown [rad]
const OPENING_S = 4; // time at the start without a change of speed [s]

const [SKIP, SLOW] = [2, 0.5];
const KILL_S = [0.9, 0.6] as const; // time before and after a kill that is slowed down [s]
const QUIET_S = [1, 2] as const; // seconds before and after the cursor without damage that are skipped

/** What a shot shows: the start, both teams, a fight, a mech that is stuck, comes back or is the last of its team. */
export type Cause = "start" | "advance" | "fight" | "stuck" | "return" | "last";

/** Where the camera is, and what is cut away. */
export interface Framing extends framing.Viewpoint {
  readonly cutaway: framing.Cutaway | null;
}

export interface Shot {
  readonly begin: number; // [tick]
  readonly end: number; // [tick]
  readonly cause: Cause;
  readonly mechs: readonly number[]; // who it is about
  readonly from: Framing; // at its begin
  readonly to: Framing; // at its end, from the same direction
  readonly score: number; // how much of both teams and the zone is seen, 1 for all of it
  readonly usual: number; // the same from the usual angle: the side view, flattest
  readonly known: number; // last tick that was known of it
  readonly waits: string; // why it takes an angle of the other shots, "" if it does not
}

/** Window and its edges that panels cover, and whether walls are cut away, of a `ViewerState`. */
export interface View {
  readonly showCutaways: boolean;
  readonly window: readonly [number, number];
  readonly insets: framing.Insets;
}

/** Return the direction from blue's to red's mechs in the first frame of a chunk [rad], null without one of them. */
export function teamAxis(header: Header, chunk: Chunk): number | null {
  const centres = [0, 1].map((team) => {
    const mechs = header.roster.map((_, mech) => mech).filter((mech) => header.roster[mech].team === team);
    const present = mechs.filter((mech) => header.roster[mech].present && chunk.mech.flags[mech] & MechFlag.ALIVE);
    const mean = (column: Float32Array) => present.reduce((sum, mech) => sum + column[mech], 0) / present.length;
    return [mean(chunk.mech.x), mean(chunk.mech.y)];
  });
  const [x, y] = [centres[1][0] - centres[0][0], centres[1][1] - centres[0][1]];
  return Number.isNaN(x) || Math.hypot(x, y) < 1 ? null : Math.atan2(y, x);
}

/** Return the azimuth that shows blue on the left, or below in portrait [rad]. */
export function sideView({ axis }: MatchState, [across, along]: readonly [number, number]): number {
  if (axis === null) return SIDE;
  return across >= along ? axis - Math.PI / 2 : axis + Math.PI;
}

/** Return the factor of the playback speed at a tick: faster where no damage is dealt, slower around kills. */
export function paceAt({ index, markers, header }: MatchState, tick: number): number {
  const seconds = tick / header.tick_hz;
  const near = (at: number, [before, after]: readonly [number, number]) =>
    at > seconds - after && at < seconds + before;
  if (markers.some((marker) => marker.kind === EventKind.KILL && near(marker.tick / header.tick_hz, KILL_S)))
    return SLOW;
  const { second, damage } = index.series;
  if (seconds < OPENING_S) return 1; // the opening shot is there to be looked at
  const known = second.length > 0 && second[second.length - 1] >= seconds;
  const fought = second.some(
    (end, i) => end > seconds - QUIET_S[0] && end - 1 < seconds + QUIET_S[1] && damage[0][i] + damage[1][i] > 0,
  );
  return known && !fought ? SKIP : 1;
}

/** The shots of an open match that are found or being found, and its voxels. */
interface Desk {
  readonly key: string; // of the inputs other than the number of a shot
  readonly opened: number; // worth of what is seen because walls are cut away
  readonly found: Map<number, Shot>;
  ahead: { number: number; search: Generator<undefined, Shot> } | null; // search for the next shot
  voxels: VoxelField | null;
}

const desks = new WeakMap<MatchState, Desk>();

/** Return the tick at which a shot begins: every few seconds, or earlier before a kill, so that it is seen whole. */
function beginOf({ header, markers }: MatchState, number: number): number {
  const at = number * SHOT_S;
  const [after, before] = KILL_NEAR_S;
  const seconds = ({ tick }: { tick: number }) => tick / header.tick_hz;
  const kill = markers.find(
    (marker) => marker.kind === EventKind.KILL && seconds(marker) > at - before && seconds(marker) < at + after,
  );
  return number === 0 ? 0 : (kill ? seconds(kill) - LEAD_S : at) * header.tick_hz;
}

/** Return the number of the shot at a tick. */
function numberAt(match: MatchState, tick: number): number {
  const number = Math.floor(tick / (SHOT_S * match.header.tick_hz));
  return tick < beginOf(match, number + 1) ? number : number + 1;
}

/** Return the shot at a tick, or null while its chunks have not arrived. */
export function shotAt(match: MatchState, tick: number, { window, insets, showCutaways }: View): Shot | null {
  const tangents = framing.freeTangents(window, insets, PLATE_ROOM);
  const key = [match.scenery !== null, match.axis, showCutaways, ...tangents].join(" ");
  const before = desks.get(match);
  const opened = showCutaways ? OPENED : 0;
  const desk =
    before?.key === key ? before : { key, opened, found: new Map(), ahead: null, voxels: before?.voxels ?? null };
  desks.set(match, desk);
  const number = numberAt(match, tick);
  let shot = desk.found.get(number) ?? finish(match, desk, number, tangents, Infinity);
  if (!shot) return null;
  // of a match in progress more becomes known: the shot stays, and follows
  const scene = shot.known < Math.min(shot.end, lastKnown(match)) ? sceneOf(match, number) : null;
  if (scene && scene.known > shot.known) desk.found.set(number, (shot = followed(match, desk, shot, scene, tangents)));
  else if (isKnown(match, number + 1)) finish(match, desk, number + 1, tangents, CANDIDATES_A_CALL);
  return shot;
}

function lastKnown({ index }: MatchState): number {
  return index.chunks.at(-1)?.[1] ?? 0;
}

/** Return whether a shot can be found before it begins: it is recorded, and more of it will not become known. */
function isKnown(match: MatchState, number: number): boolean {
  const grows = match.index.live || match.pilot !== undefined;
  return beginOf(match, grows ? number + 1 : number) <= lastKnown(match);
}

/** Go on with the search for a shot; returns it once it is found. */
function finish(match: MatchState, desk: Desk, number: number, tangents: Tangents, steps: number): Shot | null {
  if (desk.found.has(number)) return null;
  if (desk.ahead?.number !== number) {
    const scene = sceneOf(match, number);
    desk.ahead = scene && { number, search: findShot(match, desk, scene, tangents) };
  }
  if (!desk.ahead) return null;
  for (let step = 0; step < steps; step++) {
    const { done, value } = desk.ahead.search.next();
    if (!done) continue;
    desk.ahead = null;
    desk.found.set(number, value);
    return value;
  }
  return null;
}

/** Return the viewpoint at a share of the way between two of the same direction. */
function mixViews<V extends framing.Viewpoint>(
  from: V,
  to: V,
  share: number,
): V & { target: [number, number, number] } {
  const mix = (a: number, b: number) => a + (b - a) * share;
  const [x, y, z] = from.target.map((value, axis) => mix(value, to.target[axis]));
  return { ...from, target: [x, y, z], distance: mix(from.distance, to.distance) };
}

/** Return the framing of a shot at a tick: the camera follows its mechs from one direction. */
export function framingAt({ begin, end, from, to }: Shot, tick: number): Framing {
  return mixViews(from, to, smooth((tick - begin) / Math.max(1, end - begin)));
}

/** Whether the shot at a tick waits for a chunk; failed ones are not awaited. */
export function awaitsShot(match: MatchState, tick: number): boolean {
  if (match.awaitsAxis) return true;
  return chunkNumbers(match, numberAt(match, tick)).some((number) => match.store.isPending(number));
}

/** Return the numbers of the chunks that a shot needs. */
function chunkNumbers(match: MatchState, number: number): number[] {
  const [first, last] = [number, number + 1].map((shot) => chunkAt(match.index.chunks, beginOf(match, shot)));
  return Array.from({ length: last - first + 1 }, (_, i) => first + i);
}

type Tangents = [number, number];

/** What happens during a shot. */
interface Scene {
  readonly number: number;
  readonly begin: number; // [tick]
  readonly end: number; // [tick]
  readonly known: number; // last tick that is known of it
  readonly chunks: readonly Chunk[];
  readonly places: readonly (readonly MechPose[])[]; // of all mechs at SAMPLES
  readonly living: readonly number[]; // at its begin, of those that are known
  readonly worth: Float64Array; // damage dealt and taken by each mech, kills included [hit points]
}

/** Return what happens during a shot, null while its chunks have not arrived or if nobody lives. */
function sceneOf(match: MatchState, number: number): Scene | null {
  const { header, store, pilot } = match;
  const hz = header.tick_hz;
  const numbers = chunkNumbers(match, number);
  const chunks = numbers.map((n) => store.get(n)).filter((chunk): chunk is Chunk => chunk !== undefined);
  // the first shot is the first picture, so that it needs no later chunk
  const needed = number === 0 ? numbers.slice(0, 1) : numbers;
  if (chunks.length === 0 || needed.some((n) => !store.get(n) && !store.failure(n))) return null;
  const [begin, end] = [beginOf(match, number), beginOf(match, number + 1)];
  const last = chunks[chunks.length - 1];
  const placesAt = (share: number) => {
    const at = Math.min(begin + share * (end - begin), last.tick1);
    return header.roster.map((_, mech) => sampleMech(chunkOf(chunks, at), mech, at, hz));
  };
  const isSeen = (mech: number) => header.roster[mech].present && (pilot?.known[mech] ?? 1) > 0;
  const living = header.roster.map((_, mech) => mech).filter((m) => isSeen(m) && flagsAt(chunks[0], m, begin) & ALIVE);
  if (living.length === 0) return null;
  const known = Math.min(end, last.tick1); // of a match in progress, what has happened tells what goes on
  const worth = combatWeights(chunks, known - (end - begin), known, header.mechs);
  return { number, begin, end, known, chunks, places: SAMPLES.map(placesAt), living, worth };
}

const { ALIVE } = MechFlag;
const DOWN = MechFlag.FALLEN | MechFlag.SHUTDOWN;

/** Return the chunk of a tick, the last one if it is later. */
function chunkOf(chunks: readonly Chunk[], tick: number): Chunk {
  return chunks.find(({ tick1 }) => tick <= tick1) ?? chunks[chunks.length - 1];
}

function flagsAt(chunk: Chunk, mech: number, tick: number): number {
  return chunk.mech.flags[frameAt(chunk, tick).frame * chunk.mechs + mech];
}

const apart = (a: MechPose, b: MechPose) => Math.hypot(a.x - b.x, a.y - b.y);

/** Return the cause of a shot and its mechs: the most important at its time. */
function subjectOf(match: MatchState, scene: Scene): { cause: Cause; mechs: number[] } {
  const { living, worth, places } = scene;
  if (scene.number === 0) return { cause: "start", mechs: [...living] };
  const fight = fightOf(places[0], living, worth);
  const around = (mech: number) => living.filter((other) => apart(places[0][mech], places[0][other]) < NEAR);
  const found: { cause: Cause; mechs: number[]; value: number }[] = [
    { cause: "advance", mechs: [...living], value: QUIET },
    { cause: "fight", mechs: fight, value: fight.reduce((sum, mech) => sum + worth[mech], 0) },
  ];
  const { stuck, back, last } = whoStandsOut(match, scene);
  // every other shot, so that a mech that stays stuck is not all that is seen
  if (stuck >= 0 && scene.number % 2 === 0) found.push({ cause: "stuck", mechs: around(stuck), value: WORTH.stuck });
  if (back >= 0) found.push({ cause: "return", mechs: around(back), value: WORTH.return });
  for (const { mech, fresh } of last) {
    const hostiles = living.filter((other) => match.header.roster[other].team !== match.header.roster[mech].team);
    const nearest = hostiles.reduce((a, b) =>
      apart(places[0][a], places[0][mech]) <= apart(places[0][b], places[0][mech]) ? a : b,
    );
    const mechs = [...new Set([mech, nearest, ...around(mech)])];
    found.push({ cause: "last", mechs, value: fresh ? WORTH.last : WORTH.stillLast });
  }
  return found.reduce((best, other) => (other.value > best.value ? other : best));
}

/** Return a mech that is stuck and one that comes back, -1 for none, and the last ones of their teams. */
function whoStandsOut({ header, deaths }: MatchState, scene: Scene) {
  const { begin, end, chunks, places, living, worth } = scene;
  const [first] = chunks;
  const { tick_hz: hz, roster } = header;
  const [x, y, radius] = header.zone;
  const isInZone = (place: MechPose) => Math.hypot(place.x - x, place.y - y) < radius;
  const later = begin + STUCK_S * hz;
  const [halfway, final] = [later, end].map((tick) => chunkOf(chunks, tick));
  const stuck = living.find((mech) => {
    const went = apart(places[0][mech], sampleMech(halfway, mech, later, hz));
    if (later > scene.known || went > STUCK_VOX || flagsAt(first, mech, begin) & DOWN) return false;
    const busy = isInZone(places[0][mech]) || worth[mech] > 0; // has a reason to stand there
    return (throttleOf(header, first, mech, begin) ?? (busy ? 0 : 1)) > THROTTLE;
  });
  const back = living.find((mech) => {
    const [before, after] = [flagsAt(first, mech, begin), flagsAt(final, mech, end)];
    const rises = before & DOWN && !(after & DOWN);
    return after & ALIVE && (rises || (!isInZone(places[0][mech]) && isInZone(places[2][mech])));
  });
  const last = [0, 1].flatMap((team) => {
    const friends = roster.flatMap((mech, m) => (mech.team === team && mech.present ? [m] : []));
    const left = living.filter((mech) => roster[mech].team === team);
    if (friends.length < 2 || left.length !== 1 || living.length === 1) return [];
    return [{ mech: left[0], fresh: friends.some((m) => deaths[m] <= begin && deaths[m] > begin - SHOT_S * hz) }];
  });
  return { stuck: stuck ?? -1, back: back ?? -1, last };
}

/** Return the mean throttle of a mech from a tick to the end of the chunk, 0 to 1; null without policy columns. */
function throttleOf({ insight: names }: Header, { insight, tick, frames, mechs }: Chunk, mech: number, from: number) {
  if (!insight || !names) return null;
  const columns = names.actions.flatMap((name, column) => (name === "forward" || name === "strafe" ? [column] : []));
  let [sum, count] = [0, 0];
  for (let frame = 0; frame < frames; frame++) {
    if (tick[frame] < from) continue;
    const at = (frame * mechs + mech) * names.actions.length;
    sum += Math.min(1, Math.hypot(...columns.map((column) => insight.action[at + column])));
    count++;
  }
  return sum / Math.max(1, count);
}

/** Return the living mechs around the one with most fighting near it. */
function fightOf(places: readonly MechPose[], living: readonly number[], worth: Float64Array): number[] {
  const totals = new Map(
    living.map((mech) => [
      mech,
      living.reduce((sum, other) => sum + (apart(places[mech], places[other]) < NEAR ? worth[other] + 0.01 : 0), 0),
    ]),
  );
  const best = living.reduce((a, b) => ((totals.get(b) ?? 0) > (totals.get(a) ?? 0) ? b : a));
  // opponents may fight over a longer distance
  const most = Math.max(...living.map((mech) => worth[mech]));
  return living.filter((mech) => {
    const away = apart(places[best], places[mech]);
    return away < NEAR || (worth[mech] > most / 4 && away < 2 * NEAR);
  });
}

/** Return the damage dealt and taken by each mech between two ticks, kills included [hit points]. */
function combatWeights(chunks: readonly Chunk[], from: number, to: number, mechs: number): Float64Array {
  const worth = new Float64Array(mechs);
  for (const { events } of chunks) {
    for (let i = firstAfter(events.tick, from); i < events.count && events.tick[i] <= to; i++) {
      const value =
        events.kind[i] === EventKind.KILL ? KILL_WORTH : events.kind[i] === EventKind.HIT ? events.value[i] : 0;
      for (const mech of [events.actor[i], events.target[i]]) if (mech >= 0 && mech < mechs) worth[mech] += value;
    }
  }
  return worth;
}

/** Search the angle of a shot, one candidate at a time. */
function* findShot(match: MatchState, desk: Desk, scene: Scene, tangents: Tangents): Generator<undefined, Shot> {
  const { cause, mechs } = subjectOf(match, scene);
  const judge = new Judge(match, desk, scene, mechs, tangents, cause);
  const centre = sideView(match, tangents);
  const usual = judge.look({ azimuth: centre, elevation: cause === "start" ? START_ELEVATION : ELEVATIONS[0] });
  let best = { ...usual, value: cause === "start" ? Infinity : -Infinity, own: true };
  for (const elevation of cause === "start" ? [] : ELEVATIONS) {
    for (const [set, sides] of SIDES.entries()) {
      for (const side of sides) {
        const look = judge.look({ azimuth: centre + side, elevation });
        const own = scene.number % SIDES.length === set;
        const value = look.value - STEEP * (elevation - ELEVATIONS[0]) - (own ? 0 : TURN);
        if (look.score >= usual.score && value > best.value) best = { ...look, value, own };
        yield;
      }
    }
  }
  const waits = best.own ? "" : "none of its own angles shows as much";
  const { from, to, score } = best;
  const cutaway = judge.cutawayFor(best.hidden);
  return {
    ...{ begin: scene.begin, end: scene.end, known: scene.known, cause, mechs, waits, score, usual: usual.score },
    from: { ...from, cutaway },
    to: { ...to, cutaway },
  };
}

/** Return a shot that follows its mechs to their known positions. */
function followed(match: MatchState, desk: Desk, shot: Shot, scene: Scene, tangents: Tangents): Shot {
  const { mechs, from, to, cause } = shot;
  const judge = new Judge(match, desk, scene, mechs, tangents, cause);
  const look = judge.look(from);
  return { ...shot, known: scene.known, from: { ...from, ...look.from }, to: { ...to, ...look.to } };
}

/** What is seen from a direction. */
interface Look {
  readonly from: framing.Viewpoint;
  readonly to: framing.Viewpoint;
  readonly score: number; // how much of both teams and the zone is seen, 1 for all of it
  readonly value: number; // the same with what a cutaway opens
  readonly hidden: boolean; // whether walls hide some of it
}

/** Frames the mechs of a shot, and scores how much of them is visible. */
class Judge {
  private readonly voxels: Uint8Array | null; // at the shot's begin
  private readonly size: readonly number[];
  private readonly weights: readonly (readonly [mech: number, weight: number])[]; // of the scored mechs
  private readonly wide: boolean; // whether it shows both teams and the zone
  private readonly ring: readonly framing.Point[]; // of the zone, none if it is not shown

  constructor(
    private readonly match: MatchState,
    private readonly desk: Desk,
    private readonly scene: Scene,
    private readonly mechs: readonly number[],
    private readonly tangents: Tangents,
    cause: Cause,
  ) {
    const { header, scenery } = match;
    this.wide = cause === "start" || cause === "advance";
    const { worth, living, places, chunks, begin } = scene;
    this.size = header.world.size;
    if (scenery) desk.voxels ??= new VoxelField(scenery.appearances, this.size, appearanceTable(header.materials));
    desk.voxels?.seek(chunks[0], begin);
    this.voxels = desk.voxels?.appearances.slice() ?? null;
    const sum = mechs.reduce((total, mech) => total + worth[mech] + 1, 0);
    const weight = (mech: number) => BYSTANDERS / living.length + (mechs.includes(mech) ? (worth[mech] + 1) / sum : 0);
    this.weights = living
      .map((mech) => [mech, weight(mech)] as const)
      .sort((a, b) => b[1] - a[1] || a[0] - b[0])
      .slice(0, MOST_SCORED);
    const middle = (axis: "x" | "y") => mechs.reduce((total, m) => total + places[0][m][axis], 0) / mechs.length;
    const away = Math.hypot(middle("x") - header.zone[0], middle("y") - header.zone[1]);
    this.ring = this.wide || away < NEAR_ZONE ? framing.circlePoints(header.zone) : [];
  }

  /** Return the points of mechs that are framed between two samples. */
  private points(mechs: readonly number[], samples: readonly number[]): framing.Point[] {
    return samples.flatMap((sample) =>
      mechs.flatMap((mech) => {
        const { x, y, z } = this.scene.places[sample][mech];
        return [z - 1, z + TALL].map((height): framing.Point => [x, y, height]);
      }),
    );
  }

  /** Return what is seen from a direction. */
  look({ azimuth, elevation }: framing.Direction): Look {
    const direction = { azimuth, elevation };
    let [from, to] = [0, 1].map((sample): framing.Viewpoint => {
      const points = [...this.points(this.mechs, [sample, sample + 1]), ...this.ring];
      return { ...framing.fitPoints(points, direction, this.tangents, CLOSEST), ...direction };
    });
    while (this.isWalledIn(from, to))
      [from, to] = [from, to].map((view) => ({ ...view, distance: view.distance * BACK }));
    let [score, value, hidden] = [0, 0, false];
    for (const [sample, share] of SAMPLES.entries()) {
      const seen = this.judge(mixViews(from, to, share), sample);
      score += seen.score / SAMPLES.length;
      value += seen.value / SAMPLES.length;
      hidden ||= seen.hidden;
    }
    return { from, to, score, value, hidden };
  }

  /** Return whether the camera is in a wall on its way. */
  private isWalledIn(from: framing.Viewpoint, to: framing.Viewpoint): boolean {
    const { voxels, size } = this;
    if (!voxels) return false;
    const [a, b] = [framing.eyeOf(from), framing.eyeOf(to)];
    const steps = 2 * Math.ceil(Math.hypot(...a.map((value, axis) => b[axis] - value))) + 1;
    const eyes = Array.from({ length: steps + 1 }, (_, i) => framing.eyeOf(mixViews(from, to, i / steps)));
    return eyes.some((eye) => isInside(voxels, size, eye));
  }

  private judge(view: framing.Viewpoint, sample: number): { score: number; value: number; hidden: boolean } {
    const { scene, tangents, mechs, match, ring } = this;
    const { opened } = this.desk;
    const eye = framing.eyeOf(view);
    const [seen, clear, all] = Array.from({ length: 3 }, () => [0, 0]);
    let hidden = false;
    for (const [mech, weight] of this.weights) {
      const { x, y, z } = scene.places[sample][mech];
      const { team } = match.header.roster[mech];
      all[team] += weight;
      if (!framing.isFramed(view, tangents, [x, y, z])) continue;
      const open = HEADS.filter((high) => !this.isHidden([x, y, z + high], eye)).length / HEADS.length;
      if (open < 1 && mechs.includes(mech)) hidden = true;
      seen[team] += weight * open;
      const worth = open + opened * (mechs.includes(mech) ? 1 - open : 0);
      clear[team] += weight * worth;
    }
    const open = ring.filter((point) => !this.isHidden(point, eye)).length;
    const zone = ring.length > 0 ? open / ring.length : 1;
    const teams = [0, 1].filter((team) => all[team] > 0);
    const mean = (part: readonly number[], disc: number) =>
      (teams.reduce((sum, team) => sum + part[team] / all[team], 0) / teams.length + ZONE_WEIGHT * disc) /
      (1 + ZONE_WEIGHT);
    const value = mean(clear, zone + opened * (1 - zone));
    return { score: mean(seen, zone), value, hidden: hidden || zone < 1 };
  }

  private isHidden(point: framing.Point, eye: framing.Point): boolean {
    return this.voxels !== null && isHidden(this.voxels, this.size, point, eye);
  }

  /** Return what is cut away so that all of a shot is seen, null if nothing hides it. */
  cutawayFor(hidden: boolean): framing.Cutaway | null {
    if (!hidden) return null;
    const { header } = this.match;
    const shown = this.wide ? this.ring : [...this.points(this.mechs, [0, 1, 2]), ...this.ring];
    const middle = [0, 1].map((axis) => {
      const values = shown.map((point) => point[axis]);
      return (Math.min(...values) + Math.max(...values)) / 2;
    });
    const away = (x: number, y: number) => Math.hypot(x - middle[0], y - middle[1]);
    const reach = (points: readonly framing.Point[]) => Math.max(0, ...points.map(([x, y]) => away(x, y)));
    // who stands just beyond is not left behind a wall
    const beside = this.points(this.scene.living, [0, 1, 2]).filter(([x, y]) => away(x, y) < reach(shown) + BESIDE);
    const radius = Math.min(MOST_CUT, Math.max(reach(shown), this.wide ? 0 : reach(beside)) + CUT_MARGIN);
    // a roof on which somebody stands stays
    const floors = this.scene.places.flatMap((places) =>
      this.scene.living.map((mech) => {
        const { x, y, z } = places[mech];
        const foot = z - (header.chassis[header.roster[mech].chassis]?.size[2] ?? 2) / 2;
        const stands = away(x, y) < radius && this.voxels && isInside(this.voxels, this.size, [x, y, foot - 0.5]);
        return stands ? foot : 0;
      }),
    );
    return { centre: [middle[0], middle[1], Math.max(...floors)], radius };
  }
}
