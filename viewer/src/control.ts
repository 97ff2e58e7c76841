// All that can be done to the state: plain functions from a state and a wish to the state changed. They touch neither
// the DOM nor three.js, so that the rules of the player are tested without a browser.

import { shownMechs } from "./data/knowledge";
import { chunkAt } from "./data/store";
import { shotAt } from "./director";
import { samplePoses } from "./interpolate";
import { FIELD_OF_VIEW } from "./spaces";
import { EventKind, type IndexView, MechFlag } from "./protocol.gen";
import type { CameraMode, CameraState, Fog, Layer, MatchState, ViewerState } from "./state";
import { LIVE_MARGIN_S, type Marker, advance, deathTicks, nearestSpeed, nextMarker, nextSpeed, passedMarkers } from "./timeline";

const FLIGHT_STEP = 2; // of the wheel in flight [vox]
const MIN_DISTANCE = 4;
const MAX_DISTANCE = 640;
const LOWEST = 0.06; // least angle above the ground [rad]
const HIGHEST = Math.PI / 2 - 0.001;
const FIRST = { azimuth: 0, elevation: -0.05, distance: 0 }; // from the heading: straight ahead, a little down
const STEEPEST = 1.4; // of a look up or down in first person and in flight [rad]
const LOWEST_FLIGHT = 0.8; // [vox]
const FLIGHT_MARGIN = 60; // how far from the map one may fly [vox]
const FOLLOW = { azimuth: Math.PI - 0.4, elevation: 0.47, distance: 16 }; // where the camera goes when it begins to follow
const [ROSTER, SCORE, TIMELINE] = [256, 96, 132]; // how far panels reach into the picture: at its sides, above, below [CSS px]
const NARROW = 760; // a window up to this width has no rosters [CSS px]
const MARGIN = 1.04; // of a map seen from above, of its size
const SHORTEST_LOOP_S = 0.5;
const FOGS: readonly Fog[] = ["none", "blue", "red", "mech"];
const LAYERS: readonly Layer[] = ["none", "presence", "damage", "ways"];
const FLIGHT_START = 0.35; // share of its distance that a camera goes ahead when it begins to fly
const WIDE = 1.25; // width of a window over its height from which on all of the map's width is seen
const FARTHEST_BACK = 1.7; // how much farther away the camera begins at most in narrower ones
const FOLLOW_GRACE = 0.5; // ticks; how close to the live edge counts as being there
const CATCH_UP = 1.15; // how much faster a follower of a live match plays while it lags
const FARTHEST_LAG_S = 10; // a follower that lags more than this jumps to the live edge [s]

/** The last tick that can be shown. */
export function lastTick(match: MatchState): number {
  return match.index.chunks.at(-1)?.[1] ?? 0;
}

/** How far the cursor is behind the newest moment of a live match [s]. */
export function secondsBehind(state: ViewerState): number {
  return state.match ? (lastTick(state.match) - state.tick) / state.match.header.tick_hz : 0;
}

/** Take what is newly known of a match; the cursor stays where it is. */
export function updateIndex(match: MatchState, index: IndexView): void {
  match.index = index;
  match.markers = index.markers.map(([tick, kind, who, whom]): Marker => ({ tick, kind, who, whom }));
  match.deaths = deathTicks(match.markers, EventKind.KILL, match.header.mechs);
}

/** Begin to watch a match. */
export function openMatch(state: ViewerState, match: MatchState): void {
  state.match = match;
  state.page = "match";
  state.problem = "";
  state.tick = 0;
  state.speed = 1;
  state.playing = true;
  state.unspoken = [];
  state.following = match.index.live;
  if (state.following) state.tick = Math.max(0, lastTick(match) - LIVE_MARGIN_S * match.header.tick_hz);
  resetView(state);
}

/** See the match as it is seen at first: all of it, by everybody's knowledge, with nobody selected and no loop. */
export function resetView(state: ViewerState): void {
  Object.assign(state, { selected: -1, loop: null, loopFrom: null, fog: "none", layer: "none" });
  frameMap(state);
}

/** Go back to the list. */
export function closeMatch(state: ViewerState): void {
  state.match?.sweep.rest();
  state.match?.source.close();
  state.match = null;
  state.page = "list";
  state.problem = "";
}

/** Put the camera where the map is seen, nearer to the zone than to its edges. */
export function frameMap(state: ViewerState): void {
  const match = state.match;
  if (!match) return;
  const [x, y] = match.header.world.size;
  const span = Math.max(x, y);
  const [zoneX, zoneY] = match.header.zone;
  const target: [number, number, number] = [(x + zoneX) / 3, (y + zoneY) / 3, 0];
  // narrow windows show less of the map from the same place
  const narrow = (WIDE * state.window[1]) / Math.max(1, state.window[0]);
  const back = Math.max(1, Math.min(FARTHEST_BACK, narrow ** 0.6));
  state.camera = { mode: "orbit", target, azimuth: -2.15, elevation: 0.66, distance: span * 0.98 * back };
}

/** Move the cursor to a tick; it keeps to the live edge only if it plays on from there. */
export function seek(state: ViewerState, tick: number): void {
  const match = state.match;
  if (!match) return;
  state.tick = Math.max(0, Math.min(lastTick(match), tick));
  const onward = match.index.live && state.playing && state.speed === 1;
  state.following = onward && state.tick >= lastTick(match) - FOLLOW_GRACE;
  locate(state);
}

/** Move the cursor by seconds. */
export function seekBy(state: ViewerState, seconds: number): void {
  if (state.match) seek(state, state.tick + seconds * state.match.header.tick_hz);
}

/** Move the cursor by frames, and hold it there. */
export function stepFrames(state: ViewerState, frames: number): void {
  const match = state.match;
  if (!match) return;
  state.playing = false;
  const [before, step] = [state.tick, match.header.frame_ticks];
  seek(state, (frames > 0 ? Math.floor(state.tick / step + 1e-6) : Math.ceil(state.tick / step - 1e-6)) * step + frames * step);
  state.unspoken.push(...passedMarkers(match.markers, before, state.tick));
}

/** Start or hold; from the end, of a loop or of the match, start again at the other. What is held is not live any more. */
export function togglePlay(state: ViewerState): void {
  state.playing = !state.playing;
  if (!state.playing) state.following = false;
  const match = state.match;
  if (!state.playing || !match || match.index.live) return;
  state.tick = looped(state, state.tick);
  if (state.speed > 0 && state.tick >= lastTick(match)) state.tick = 0;
  if (state.speed < 0 && state.tick <= 0) state.tick = lastTick(match);
}

/** Play a step faster or slower; slower than slowest is backward. */
export function changeSpeed(state: ViewerState, step: 1 | -1): void {
  setSpeed(state, nextSpeed(state.speed, step));
}

export function setSpeed(state: ViewerState, speed: number): void {
  state.speed = speed;
  state.playing = true;
  if (speed !== 1) state.following = false;
}

/** Play backward instead of forward, or the other way round, as fast as there is a speed for. */
export function reverse(state: ViewerState): void {
  setSpeed(state, nearestSpeed(-state.speed));
}

/** Keep to the newest moment of a live match. */
export function goLive(state: ViewerState): void {
  if (!state.match) return;
  state.tick = lastTick(state.match);
  state.speed = 1;
  state.playing = true;
  state.following = state.match.index.live;
}

/** Jump to the next or previous marked event, and select whom it concerns. */
export function jumpToMarker(state: ViewerState, step: 1 | -1): Marker | null {
  const { match } = state;
  const marker = match ? nextMarker(match.markers, state.tick, step) : null;
  if (match && marker) {
    seek(state, marker.tick);
    state.unspoken.push(...match.markers.filter(({ tick }) => tick === marker.tick));
    if (withMech(state.camera.mode) && marker.whom >= 0) state.selected = marker.whom;
  }
  return marker;
}

/** Hand over the events to be spoken. */
export function takeUnspoken(state: ViewerState): Marker[] {
  return state.unspoken.splice(0);
}

/** Let time pass: `elapsed` seconds of the viewer's clock. */
export function tickClock(state: ViewerState, elapsed: number): void {
  const match = state.match;
  if (!match) return;
  if (state.playing) {
    const last = lastTick(match);
    const edge = last - LIVE_MARGIN_S * match.header.tick_hz;
    // a live viewer plays a little faster while it lags, so that it catches up without a jump, unless it lags too far
    if (state.following && secondsBehind(state) > FARTHEST_LAG_S) state.tick = edge;
    const speed = state.following && state.tick < edge ? state.speed * CATCH_UP : state.speed;
    // where the next frames have not arrived the cursor waits for them
    if (match.chunk !== null) {
      const moved = advance(state.tick, elapsed, speed, match.header.tick_hz, last);
      state.unspoken.push(...passedMarkers(match.markers, state.tick, moved.tick));
      state.tick = looped(state, moved.tick);
      // a loop that touches an end goes on from its other one
      if (moved.stopped && state.tick === moved.tick && !match.index.live) state.playing = false;
    }
  }
  locate(state);
}

/** Find the chunk under the cursor, ask for what is needed, and compute the poses. */
export function locate(state: ViewerState): void {
  const match = state.match;
  if (!match || match.index.chunks.length === 0) return;
  const number = chunkAt(match.index.chunks, state.tick);
  match.store.want(number, match.index.chunks.length, state.speed < 0 ? -1 : 1);
  match.chunk = match.store.get(number) ?? null;
  match.chunkNumber = number;
  if (!match.chunk) return;
  const { poses, header } = match;
  samplePoses(match.chunk, state.tick, header.tick_hz, poses);
  shownMechs(match, state.fog, state.selected, state.tick, match.shown);
  const grids = state.layer === "presence" || state.layer === "damage";
  const curves = state.showPilot ? state.selected : -1;
  if (grids || curves >= 0) match.sweep.want(match.index.chunks.length, grids, curves);
  else match.sweep.rest();
  const { camera, selected } = state;
  if (camera.mode === "director") Object.assign(camera, shotAt(match, state.tick) ?? {});
  if (withMech(camera.mode) && selected >= 0) camera.target = [poses.x[selected], poses.y[selected], poses.z[selected]];
}

/** Select a mech, or none with -1; following begins with the camera behind it. */
export function select(state: ViewerState, mech: number, follow: boolean): void {
  const match = state.match;
  if (!match || mech >= match.header.mechs) return;
  if (mech < 0) leaveFollow(state);
  state.selected = mech;
  if (mech >= 0 && follow && state.camera.mode !== "first") setCameraMode(state, "follow");
  if (mech < 0 && state.fog === "mech") state.fog = "none";
}

/** Select a mech if none is selected. */
export function pickAny(state: ViewerState): void {
  if (state.selected < 0) cycleMech(state, 1);
}

/** Select the next mech that is present; the living first, if any are. */
export function cycleMech(state: ViewerState, step: 1 | -1): void {
  const match = state.match;
  if (!match) return;
  const all = match.header.roster.map((_, mech) => mech).filter((mech) => match.header.roster[mech].present);
  const living = all.filter((mech) => match.poses.flags[mech] & MechFlag.ALIVE);
  const candidates = living.length > 0 ? living : all;
  const next = step > 0 ? candidates.find((mech) => mech > state.selected) : candidates.findLast((mech) => mech < state.selected);
  select(state, next ?? (step > 0 ? candidates[0] : candidates[candidates.length - 1]), withMech(state.camera.mode));
}

/** Change how the camera moves; without a selected mech, following takes the first one. */
export function setCameraMode(state: ViewerState, mode: CameraMode): void {
  const match = state.match;
  if (!match) return;
  const { camera } = state;
  if (mode === "follow" || mode === "first") {
    if (state.selected < 0) cycleMech(state, 1);
    if (camera.mode !== mode) Object.assign(camera, mode === "first" ? FIRST : FOLLOW);
    camera.mode = mode;
    locate(state);
  } else if (mode === "free") {
    leaveFollow(state);
    takeOff(state);
  } else if (mode === "top") {
    leaveFollow(state);
    Object.assign(camera, fromAbove(match.header.world.size, state.window));
  } else {
    leaveFollow(state);
    if (camera.mode === "top" || camera.mode === "free") frameMap(state);
  }
  state.camera.mode = mode;
}

/** Where a camera that looks straight down sees all of a map between the panels. */
function fromAbove(size: readonly number[], [width, height]: readonly [number, number]): Partial<CameraState> {
  const [side, above, below] = width > NARROW ? [ROSTER, SCORE, TIMELINE] : [0, SCORE, TIMELINE];
  const [free, high] = [Math.max(width / 3, width - 2 * side), Math.max(height / 3, height - above - below)];
  const perPixel = MARGIN * Math.max(size[0] / free, size[1] / high); // at the top of the highest wall [vox]
  const distance = (perPixel * height) / (2 * Math.tan(FIELD_OF_VIEW / 2)) + size[2];
  // what lies between the panels is not the middle of the window
  const shift = ((below - above) / 2) * perPixel;
  return { azimuth: -Math.PI / 2, elevation: HIGHEST, distance, target: [size[0] / 2, size[1] / 2 - shift, 0] };
}

/** Stop following, and stay where the camera is. */
export function leaveFollow(state: ViewerState): void {
  const { camera, match, selected } = state;
  if (!withMech(camera.mode)) return;
  const first = camera.mode === "first";
  camera.mode = "orbit";
  if (!match || selected < 0) return;
  if (first) Object.assign(camera, FOLLOW);
  camera.azimuth += match.poses.yaw[selected]; // it was counted from the heading
}

/** Whether the camera goes where the selected mech goes. */
export function withMech(mode: CameraMode): boolean {
  return mode === "follow" || mode === "first";
}

/** Begin to fly from where the camera is, looking the same way. */
function takeOff(state: ViewerState): void {
  const { camera } = state;
  if (camera.mode === "free") return;
  const flat = Math.cos(camera.elevation) * camera.distance;
  const [x, y, z] = camera.target;
  const ahead = 1 - FLIGHT_START;
  camera.target = [x + Math.cos(camera.azimuth) * flat * ahead, y + Math.sin(camera.azimuth) * flat * ahead, z + Math.sin(camera.elevation) * camera.distance * ahead];
  camera.azimuth = wrapped(camera.azimuth + Math.PI);
  camera.elevation = -Math.min(camera.elevation, STEEPEST);
}

/** Fly ahead along the view, sideways, and up [vox]. */
export function fly(state: ViewerState, ahead: number, right: number, up: number): void {
  const { camera, match } = state;
  if (!match) return;
  const [sin, cos, level] = [Math.sin(camera.azimuth), Math.cos(camera.azimuth), Math.cos(camera.elevation)];
  const [sizeX, sizeY, sizeZ] = match.header.world.size;
  const within = (value: number, most: number) => Math.max(-FLIGHT_MARGIN, Math.min(most + FLIGHT_MARGIN, value));
  camera.target = [
    within(camera.target[0] + ahead * cos * level + right * sin, sizeX),
    within(camera.target[1] + ahead * sin * level - right * cos, sizeY),
    Math.max(LOWEST_FLIGHT, Math.min(3 * sizeZ + FLIGHT_MARGIN, camera.target[2] + ahead * Math.sin(camera.elevation) + up)),
  ];
}

/** Look at another place from the same side: for the small map. */
export function lookAt(state: ViewerState, x: number, y: number): void {
  leaveFollow(state);
  if (state.camera.mode === "director") state.camera.mode = "orbit";
  state.camera.target = [x, y, state.camera.mode === "free" ? state.camera.target[2] : 0];
}

/** Cut the picture down to what another side knows; a mech's own sight needs a selected mech. */
export function cycleFog(state: ViewerState, step: 1 | -1 = 1): void {
  const choices = FOGS.filter((fog) => fog !== "mech" || state.selected >= 0);
  state.fog = choices[(choices.indexOf(state.fog) + step + choices.length) % choices.length];
}

/** Lay another thing over the ground. */
export function cycleLayer(state: ViewerState): void {
  state.layer = LAYERS[(LAYERS.indexOf(state.layer) + 1) % LAYERS.length];
}

/** Begin a loop at the cursor, or end it there; a loop that is there goes. */
export function markLoop(state: ViewerState): void {
  const { match, loopFrom, tick } = state;
  if (!match) return;
  if (state.loop) state.loop = null;
  else if (loopFrom === null) state.loopFrom = tick;
  else setLoop(state, loopFrom, tick);
}

/** Play between two ticks again and again. */
export function setLoop(state: ViewerState, from: number, to: number): void {
  const { match } = state;
  state.loopFrom = null;
  if (!match) return;
  const [low, high] = [Math.max(0, Math.min(from, to)), Math.min(lastTick(match), Math.max(from, to))];
  state.loop = high - low >= SHORTEST_LOOP_S * match.header.tick_hz ? [low, high] : null;
  if (state.loop) state.following = false;
}

/** The cursor, taken back to the loop's other end where it has left it in the direction of play. */
function looped(state: ViewerState, tick: number): number {
  if (!state.loop) return tick;
  const [from, to] = state.loop;
  if (state.speed > 0 && state.tick <= to && tick >= to) return from;
  return state.speed < 0 && state.tick >= from && tick <= from ? to : tick;
}

function wrapped(angle: number): number {
  return angle - 2 * Math.PI * Math.round(angle / (2 * Math.PI));
}

/** Turn the camera about its target [rad]. */
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

/** Bring the camera nearer (below 1) or farther (above 1). */
export function zoomCamera(state: ViewerState, factor: number): void {
  const { camera } = state;
  if (camera.mode === "free") return fly(state, factor < 1 ? FLIGHT_STEP : -FLIGHT_STEP, 0, 0);
  camera.distance = Math.max(MIN_DISTANCE, Math.min(MAX_DISTANCE, camera.distance * factor));
}

/** Shift what the camera looks at, along its own right and away from it [vox]; ends following. */
export function panCamera(state: ViewerState, right: number, away: number): void {
  const { camera, match } = state;
  if (!match) return;
  if (camera.mode === "free") return fly(state, away, right, 0);
  leaveFollow(state);
  if (camera.mode === "director") camera.mode = "orbit";
  const [sin, cos] = [Math.sin(camera.azimuth), Math.cos(camera.azimuth)];
  const [sizeX, sizeY] = match.header.world.size;
  camera.target[0] = Math.max(0, Math.min(sizeX, camera.target[0] - right * sin - away * cos));
  camera.target[1] = Math.max(0, Math.min(sizeY, camera.target[1] + right * cos - away * sin));
}
