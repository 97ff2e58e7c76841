// All changes of the viewer's state, as plain functions of the state. They touch neither the DOM nor three.js, so that
// the rules of the player are tested without a browser.

import { FOGS } from "./data/cursor";
import { fillVisibility } from "./data/fog_of_war";
import { HEAT_SIDES } from "./data/heat";
import { COMEBACK, nextMoment, spanOf } from "./data/moments";
import { WinCurve } from "./data/winprob";
import { chunkAt, isDamage } from "./data/store";
import { framingAt, paceAt, shotAt, sideView, teamAxis } from "./director";
import { type Insets, type Point, fitPoints, freeArea, freeTangents } from "./framing";
import { samplePoses } from "./interpolate";
import { FIELD_OF_VIEW, wrapAngle } from "./spaces";
import { EventKind, type IndexView, MechFlag, type Moment } from "./protocol.gen";
import {
  type CameraMode,
  type CameraState,
  LAYERS,
  type Layer,
  type MatchState,
  type ViewerState,
  firstTick,
} from "./state";
import * as timeline from "./timeline";

const FLIGHT_STEP = 2; // distance per wheel event with the free camera [vox]
const MIN_DISTANCE = 4;
const MAX_DISTANCE = 640;
const LOWEST = 0.06; // least camera elevation [rad]
const HIGHEST = Math.PI / 2 - 0.001;
const FIRST_PERSON = { azimuth: 0, elevation: -0.05, distance: 0 }; // relative to the heading: slightly down
const STEEPEST = 1.4; // largest pitch of first person and free camera [rad]
const LOWEST_FLIGHT = 0.8; // least height of the free camera [vox]
const FLIGHT_MARGIN = 60; // how far beyond the map the free camera may go [vox]
const FOLLOW = { azimuth: Math.PI - 0.4, elevation: 0.47, distance: 16 }; // initial, relative to the heading
const OVERVIEW_ELEVATION = 0.72; // of the orbit camera at first [rad]
const MARGIN = 1.04; // visible area of the top-down view, relative to the map's size
export const LEAD_IN_S = 1.5; // match time before a turning point that is played after a jump to it [s]
const MOMENT_GRACE_S = 1.5; // while playing, a jump back skips a turning point that began within this time [s]
const SHORTEST_LOOP_S = 0.5;
export const BLIND_S = 5; // jump ahead where events ahead of the cursor are hidden [s]
const FLIGHT_START = 0.35; // share of the orbit distance that the free camera moves ahead when it starts
const PAST_BORDER = 0.01; // distance from the border of two chunks that belongs to the later one [ticks]
const FOLLOW_GRACE = 0.5; // distance from the live edge that still follows it [ticks]
const CATCH_UP = 1.15; // playback speed factor while following lags behind the live edge
const FARTHEST_LAG_S = 10; // largest lag; beyond it the cursor jumps to the live edge [s]

export function lastTick(match: MatchState): number {
  return match.index.chunks.at(-1)?.[1] ?? 0;
}

export function secondsBehind(state: ViewerState): number {
  return state.match ? (lastTick(state.match) - state.tick) / state.match.header.tick_hz : 0;
}

/** Update a match's index; the cursor keeps its tick. */
export function updateIndex(match: MatchState, index: IndexView): void {
  match.index = index;
  match.win = WinCurve.of(index.win);
  match.moments = index.moments;
  match.markers = index.markers.map(([tick, kind, actor, target]): timeline.Marker => ({ tick, kind, actor, target }));
  match.deaths = timeline.deathTicks(match.markers, EventKind.KILL, match.header.mechs);
}

/** Open a match: at its start, or near the live edge if it is live. */
export function openMatch(state: ViewerState, match: MatchState): void {
  state.match = match;
  state.page = "match";
  state.problem = "";
  state.tick = firstTick(match);
  state.speed = 1;
  state.playing = true;
  state.interrupted = false;
  state.unannounced = [];
  state.following = match.index.live;
  if (state.following) state.tick = Math.max(0, lastTick(match) - timeline.LIVE_MARGIN_S * match.header.tick_hz);
  resetView(state);
}

export function resetView(state: ViewerState): void {
  Object.assign(state, { selected: -1, loop: null, loopFrom: null, fog: "none", layer: "none", paced: true });
  frameMap(state);
  state.camera.mode = "director";
}

export function closeMatch(state: ViewerState): void {
  state.match?.scan.stop();
  state.match?.source.close();
  state.match = null;
  state.page = "list";
  state.problem = "";
}

/** Place the orbit camera so that the whole map is visible between the panels. */
export function frameMap(state: ViewerState): void {
  const { match } = state;
  if (!match) return;
  const [x, y] = match.header.world.size;
  const corners: Point[] = [
    [0, 0, 0],
    [x, 0, 0],
    [0, y, 0],
    [x, y, 0],
  ];
  const tangents = freeTangents(state.window, state.insets);
  const direction = { azimuth: sideView(match, tangents), elevation: OVERVIEW_ELEVATION };
  state.camera = { mode: "orbit", ...direction, ...fitPoints(corners, direction, tangents, MIN_DISTANCE) };
}

/** Move the cursor to a tick; it follows the live edge only if it plays at normal speed there. */
export function seek(state: ViewerState, tick: number): void {
  const match = state.match;
  if (!match) return;
  state.tick = Math.max(firstTick(match), Math.min(lastTick(match), tick));
  const playsLive = match.index.live && state.playing && state.speed === 1;
  state.following = playsLive && state.tick >= lastTick(match) - FOLLOW_GRACE;
  updateCursor(state);
}

export function seekBy(state: ViewerState, seconds: number): void {
  if (state.match) seek(state, state.tick + seconds * state.match.header.tick_hz);
}

export function stepFrames(state: ViewerState, frames: number): void {
  const match = state.match;
  if (!match) return;
  state.playing = state.interrupted = false;
  const [before, step] = [state.tick, match.header.frame_ticks];
  seek(
    state,
    (frames > 0 ? Math.floor(state.tick / step + 1e-6) : Math.ceil(state.tick / step - 1e-6)) * step + frames * step,
  );
  state.unannounced.push(...timeline.passedMarkers(match.markers, before, state.tick));
}

/**
 * Play or pause. At the end of the match or loop, play restarts at the other end; pausing stops following a live match.
 */
/** Names of the fields of the state that are on or off. */
type Switch = { [K in keyof ViewerState]: ViewerState[K] extends boolean ? K : never }[keyof ViewerState];

export const PANELS = ["showHelp", "showSettings", "showChart", "showTable", "showShare", "showPilot"] as const;
const NARROW = 760; // widest window in which panels have one place [CSS px]

/** Show or hide something; a panel opens in place of the card of the end, in narrow windows of any other one. */
export function toggle(state: ViewerState, name: Switch): void {
  state[name] = !state[name];
  if (!state[name] || !PANELS.some((panel) => panel === name)) return;
  if (name !== "showTable") state.showEnd = false;
  if (state.window[0] <= NARROW) for (const panel of PANELS) state[panel] = panel === name;
}

export function togglePlay(state: ViewerState): void {
  state.playing = !state.playing;
  state.interrupted = false;
  if (!state.playing) state.following = false;
  const match = state.match;
  if (!state.playing || !match || match.index.live) return;
  state.tick = wrapLoop(state, state.tick);
  if (state.speed > 0 && state.tick >= lastTick(match)) state.tick = firstTick(match);
  if (state.speed < 0 && state.tick <= firstTick(match)) state.tick = lastTick(match);
}

/** Change the playback speed by one step; below the slowest it runs backward. */
export function changeSpeed(state: ViewerState, step: 1 | -1): void {
  setSpeed(state, timeline.nextSpeed(state.speed, step));
}

/** Set the playback speed; the director keeps its hands off it until `setPaced`. */
export function setSpeed(state: ViewerState, speed: number): void {
  state.speed = speed;
  state.paced = false;
  state.playing = true;
  if (speed !== 1) state.following = false;
}

export function setPaced(state: ViewerState): void {
  setSpeed(state, 1);
  state.paced = true;
}

/** Reverse the direction of playback at the nearest available speed. */
export function reverse(state: ViewerState): void {
  setSpeed(state, timeline.nearestSpeed(-state.speed));
}

/** Play from shortly before a tick. */
export function watchFrom(state: ViewerState, tick: number): void {
  const { match } = state;
  if (!match) return;
  state.playing = true;
  seek(state, Math.max(firstTick(match), tick - LEAD_IN_S * match.header.tick_hz));
}

export function goLive(state: ViewerState): void {
  if (!state.match) return;
  state.tick = lastTick(state.match);
  state.speed = 1;
  state.playing = true;
  state.following = state.match.index.live;
}

/** Jump to the next or previous marker, or ahead by a fixed time without spoilers; a followed mech becomes its mech. */
export function jumpToMarker(state: ViewerState, step: 1 | -1): timeline.Marker | null {
  const { match } = state;
  if (!state.showSpoilers && step > 0) return (seekBy(state, BLIND_S), null);
  const marker = match ? timeline.nextMarker(match.markers, state.tick, step) : null;
  if (match && marker) {
    seek(state, marker.tick);
    state.unannounced.push(...match.markers.filter(({ tick }) => tick === marker.tick));
    if (followsMech(state.camera.mode) && marker.target >= 0) state.selected = marker.target;
  }
  return marker;
}

/**
 * Jump to the next or previous turning point: while playing shortly before it, so that it is seen, else to where all of
 * it has happened. Without any, to the next or previous marker.
 */
export function jumpToMoment(state: ViewerState, step: 1 | -1): Moment | null {
  const { match } = state;
  if (!match || (!state.showSpoilers && step > 0)) return (jumpToMarker(state, step), null);
  const hz = match.header.tick_hz;
  const told = (moment: Moment) => (moment.kind === COMEBACK ? moment.tick : spanOf(moment, match.index, hz)[1]);
  const start = (moment: Moment) => (state.playing ? Math.max(0, moment.tick - LEAD_IN_S * hz) : told(moment));
  const moment = nextMoment(match.moments, start, state.tick, step, state.playing ? MOMENT_GRACE_S * hz : 0);
  if (match.moments.length === 0) jumpToMarker(state, step);
  if (!moment) return null;
  seek(state, start(moment));
  // while playing they are announced as they happen
  if (!state.playing) state.unannounced.push(...timeline.passedMarkers(match.markers, moment.tick - 1, state.tick));
  return moment;
}

/** Return and clear the markers to be announced to screen readers. */
export function takeUnannounced(state: ViewerState): timeline.Marker[] {
  return state.unannounced.splice(0);
}

/** Return the factor by which the director changes the speed at the cursor; 1 unless it directs. */
export function pace(state: ViewerState): number {
  const { match, camera, speed, paced, following } = state;
  return match && paced && camera.mode === "director" && speed === 1 && !following ? paceAt(match, state.tick) : 1;
}

export function tickClock(state: ViewerState, elapsed: number): void {
  const match = state.match;
  if (!match) return;
  if (state.held) return updateCursor(state);
  if (isBlank(match)) stopForWant(state, match);
  else if (match.chunk && state.interrupted) [state.playing, state.interrupted] = [true, false];
  if (state.playing) {
    const last = lastTick(match);
    const edge = last - timeline.LIVE_MARGIN_S * match.header.tick_hz;
    // while following lags, playback is slightly faster, so that it catches up without a jump
    if (state.following && secondsBehind(state) > FARTHEST_LAG_S) state.tick = edge;
    const speed = state.following && state.tick < edge ? state.speed * CATCH_UP : state.speed * pace(state);
    // the cursor waits for chunks that have not arrived
    if (match.chunk !== null) {
      const moved = timeline.advance(state.tick, elapsed, speed, match.header.tick_hz, last);
      state.unannounced.push(...timeline.passedMarkers(match.markers, state.tick, moved.tick));
      state.tick = wrapLoop(state, moved.tick);
      // a loop that ends at the end of the match continues at its start
      if (moved.stopped && state.tick === moved.tick && !match.index.live) state.playing = false;
    }
  }
  updateCursor(state);
}

/** Return whether nothing is known of the moment at the cursor, since its chunk cannot be loaded. */
export function isBlank(match: MatchState): boolean {
  return match.chunk === null && match.store.failure(match.chunkNumber) !== undefined;
}

/** Stop playback at a chunk that cannot be loaded, until it arrives; a damaged one is skipped. */
function stopForWant(state: ViewerState, match: MatchState): void {
  if (!state.playing) return;
  const { chunks } = match.index;
  const beyond = state.speed > 0 ? chunks[match.chunkNumber + 1] : chunks[match.chunkNumber - 1];
  if (!isDamage(match.store.failure(match.chunkNumber))) [state.playing, state.interrupted] = [false, true];
  else if (!beyond) state.playing = false;
  else state.tick = state.speed > 0 ? Math.max(beyond[0], chunks[match.chunkNumber][1]) + PAST_BORDER : beyond[1];
}

/** Update everything that depends on the cursor: requested chunks, poses, visibility, scan and camera target. */
export function updateCursor(state: ViewerState): void {
  const match = state.match;
  if (!match || match.index.chunks.length === 0) return;
  if (!layersOf(state).includes(state.layer)) state.layer = "none";
  const number = chunkAt(match.index.chunks, state.tick);
  match.store.request(number, match.index.chunks.length, state.speed < 0 ? -1 : 1, state.awaitsPicture);
  match.chunk = match.store.get(number) ?? null;
  match.chunkNumber = number;
  if (!state.awaitsPicture) match.prefetcher.request(match.index, match.store.isWaiting);
  if (isBlank(match)) match.poses.tick = NaN;
  if (!match.chunk) return;
  const { poses, header } = match;
  samplePoses(match.chunk, state.tick, header.tick_hz, poses);
  // the frame before the moment may be before a kill that the feed has
  match.deaths.forEach((tick, mech) => tick <= state.tick && (poses.flags[mech] &= ~MechFlag.ALIVE));
  fillVisibility(match, state.fog, state.selected, state.tick, match.shown);
  const grids = state.layer === "presence" || state.layer === "damage";
  const curves = state.showPilot ? state.selected : -1;
  match.scan.request(match.index.chunks.length, grids, curves);
  const opening = match.axis === null ? match.store.get(0) : undefined;
  if (opening) match.axis = teamAxis(match.header, opening);
  const { camera, selected } = state;
  const shot = camera.mode === "director" ? shotAt(match, state.tick, state) : null;
  if (shot) Object.assign(camera, framingAt(shot, state.tick));
  if (followsMech(camera.mode) && selected >= 0)
    camera.target = [poses.x[selected], poses.y[selected], poses.z[selected]];
}

/** Select a mech, or none with -1; with `follow` the camera follows it. */
export function select(state: ViewerState, mech: number, follow: boolean): void {
  const match = state.match;
  if (!match || mech >= match.header.mechs) return;
  if (mech < 0) leaveFollow(state);
  state.selected = mech;
  if (mech >= 0 && follow && state.camera.mode !== "first") setCameraMode(state, "follow");
  if (mech < 0 && state.fog === "mech") state.fog = "none";
}

export function selectAny(state: ViewerState): void {
  if (state.selected < 0) cycleMech(state, 1);
}

export function cycleMech(state: ViewerState, step: 1 | -1): void {
  const match = state.match;
  if (!match) return;
  const all = match.header.roster.map((_, mech) => mech).filter((mech) => match.header.roster[mech].present);
  const living = all.filter((mech) => match.poses.flags[mech] & MechFlag.ALIVE);
  const candidates = living.length > 0 ? living : all;
  const next =
    step > 0 ? candidates.find((mech) => mech > state.selected) : candidates.findLast((mech) => mech < state.selected);
  select(state, next ?? (step > 0 ? candidates[0] : candidates[candidates.length - 1]), followsMech(state.camera.mode));
}

/** Set the camera mode; following selects the first mech if none is selected. */
export function setCameraMode(state: ViewerState, mode: CameraMode): void {
  const match = state.match;
  if (!match) return;
  const { camera } = state;
  if (mode === "follow" || mode === "first") {
    if (state.selected < 0) cycleMech(state, 1);
    if (camera.mode !== mode) Object.assign(camera, mode === "first" ? FIRST_PERSON : FOLLOW);
    camera.mode = mode;
    updateCursor(state);
  } else if (mode === "free") {
    leaveFollow(state);
    startFlight(state);
  } else if (mode === "top") {
    leaveFollow(state);
    Object.assign(camera, fromAbove(match.header.world.size, state));
  } else {
    leaveFollow(state);
    if (camera.mode === "top" || camera.mode === "free") frameMap(state);
  }
  state.camera.mode = mode;
  if (mode === "director") updateCursor(state);
}

/** Return the top-down camera that shows the whole map between the panels. */
function fromAbove(size: readonly number[], { window, insets }: ViewerState): Partial<CameraState> {
  const area = freeArea(window, insets);
  const perPixel = MARGIN * Math.max(size[0] / area.width, size[1] / area.height); // [vox]
  const distance = (perPixel * window[1]) / (2 * Math.tan(FIELD_OF_VIEW / 2)) + size[2];
  return { azimuth: -Math.PI / 2, elevation: HIGHEST, distance, target: [size[0] / 2, size[1] / 2, 0] };
}

/** Leave follow and first-person mode; the camera keeps its position. */
export function leaveFollow(state: ViewerState): void {
  const { camera, match, selected } = state;
  if (!followsMech(camera.mode)) return;
  const first = camera.mode === "first";
  camera.mode = "orbit";
  if (!match || selected < 0) return;
  if (first) Object.assign(camera, FOLLOW);
  camera.azimuth += match.poses.yaw[selected]; // the azimuth was relative to the heading
}

export function followsMech(mode: CameraMode): boolean {
  return mode === "follow" || mode === "first";
}

function startFlight(state: ViewerState): void {
  const { camera } = state;
  if (camera.mode === "free") return;
  const flat = Math.cos(camera.elevation) * camera.distance;
  const [x, y, z] = camera.target;
  const ahead = 1 - FLIGHT_START;
  camera.target = [
    x + Math.cos(camera.azimuth) * flat * ahead,
    y + Math.sin(camera.azimuth) * flat * ahead,
    z + Math.sin(camera.elevation) * camera.distance * ahead,
  ];
  camera.azimuth = wrapAngle(camera.azimuth + Math.PI);
  camera.elevation = -Math.min(camera.elevation, STEEPEST);
}

/** Move the free camera forward and to the right [vox]. */
export function fly(state: ViewerState, ahead: number, right: number): void {
  const { camera, match } = state;
  if (!match) return;
  const [sin, cos, level] = [Math.sin(camera.azimuth), Math.cos(camera.azimuth), Math.cos(camera.elevation)];
  const [sizeX, sizeY, sizeZ] = match.header.world.size;
  const within = (value: number, most: number) => Math.max(-FLIGHT_MARGIN, Math.min(most + FLIGHT_MARGIN, value));
  camera.target = [
    within(camera.target[0] + ahead * cos * level + right * sin, sizeX),
    within(camera.target[1] + ahead * sin * level - right * cos, sizeY),
    Math.max(LOWEST_FLIGHT, Math.min(3 * sizeZ + FLIGHT_MARGIN, camera.target[2] + ahead * Math.sin(camera.elevation))),
  ];
}

export function centreOn(state: ViewerState, x: number, y: number): void {
  leaveFollow(state);
  if (state.camera.mode === "director") state.camera.mode = "orbit";
  state.camera.target = [x, y, state.camera.mode === "free" ? state.camera.target[2] : 0];
}

/** Set the edges of the picture that panels cover; a top-down view is fitted again. */
export function setInsets(state: ViewerState, insets: Insets): void {
  state.insets = insets;
  const { camera, match } = state;
  if (match && camera.mode === "top") Object.assign(camera, fromAbove(match.header.world.size, state));
}

/** Cycle the fog of war: none, blue, red, and the selected mech if there is one. */
export function cycleFog(state: ViewerState): void {
  const choices = FOGS.filter((fog) => fog !== "mech" || state.selected >= 0);
  state.fog = choices[(choices.indexOf(state.fog) + 1) % choices.length];
}

export function cycleLayer(state: ViewerState): void {
  const layers = layersOf(state);
  state.layer = layers[(layers.indexOf(state.layer) + 1) % layers.length];
}

/** Return the ground overlays that may be shown: heat maps have the whole match, so that they tell how it goes on. */
function layersOf({ match, tick, showSpoilers }: ViewerState): readonly Layer[] {
  return showSpoilers || (match && tick >= lastTick(match)) ? LAYERS : ["none", "ways"];
}

export function cycleHeatSide(state: ViewerState): void {
  state.heatSide = HEAT_SIDES[(HEAT_SIDES.indexOf(state.heatSide) + 1) % HEAT_SIDES.length];
}

/** Set the loop's start at the cursor, then its end, then clear it. */
export function markLoop(state: ViewerState): void {
  const { match, loopFrom, tick } = state;
  if (!match) return;
  if (state.loop) state.loop = null;
  else if (loopFrom === null) state.loopFrom = tick;
  else setLoop(state, loopFrom, tick);
}

/** Loop playback between two ticks; too short a loop is cleared. */
export function setLoop(state: ViewerState, from: number, to: number): void {
  const { match } = state;
  state.loopFrom = null;
  if (!match) return;
  const [low, high] = [Math.max(firstTick(match), Math.min(from, to)), Math.min(lastTick(match), Math.max(from, to))];
  state.loop = high - low >= SHORTEST_LOOP_S * match.header.tick_hz ? [low, high] : null;
  if (state.loop) state.following = false;
}

/** Return the tick, moved to the loop's other end if playback has passed one end. */
function wrapLoop(state: ViewerState, tick: number): number {
  if (!state.loop) return tick;
  const [from, to] = state.loop;
  if (state.speed > 0 && state.tick <= to && tick >= to) return from;
  return state.speed < 0 && state.tick >= from && tick <= from ? to : tick;
}

/** Rotate the camera about its target, or the view of first person and free camera [rad]. */
export function turnCamera(state: ViewerState, azimuth: number, elevation: number): void {
  const { camera } = state;
  camera.azimuth += azimuth;
  if (camera.mode === "top") return;
  if (camera.mode === "first" || camera.mode === "free") {
    camera.elevation = Math.max(-STEEPEST, Math.min(STEEPEST, camera.elevation - elevation));
    return;
  }
  if (camera.mode === "director") camera.mode = "orbit";
  camera.elevation = Math.max(LOWEST, Math.min(HIGHEST, camera.elevation + elevation));
}

/** Scale the camera's distance; the free camera moves forward or back instead. */
export function zoomCamera(state: ViewerState, factor: number): void {
  const { camera } = state;
  if (camera.mode === "free") return fly(state, factor < 1 ? FLIGHT_STEP : -FLIGHT_STEP, 0);
  if (camera.mode === "director") camera.mode = "orbit";
  camera.distance = Math.max(MIN_DISTANCE, Math.min(MAX_DISTANCE, camera.distance * factor));
}

/** Pan the camera's target to the right and away from the camera [vox]; ends following. */
export function panCamera(state: ViewerState, right: number, away: number): void {
  const { camera, match } = state;
  if (!match) return;
  if (camera.mode === "free") return fly(state, away, right);
  leaveFollow(state);
  if (camera.mode === "director") camera.mode = "orbit";
  const [sin, cos] = [Math.sin(camera.azimuth), Math.cos(camera.azimuth)];
  const [sizeX, sizeY] = match.header.world.size;
  camera.target[0] = Math.max(0, Math.min(sizeX, camera.target[0] - right * sin - away * cos));
  camera.target[1] = Math.max(0, Math.min(sizeY, camera.target[1] + right * cos - away * sin));
}
