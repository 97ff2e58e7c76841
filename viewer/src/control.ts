// All that can be done to the state: plain functions from a state and a wish to the state changed. They touch neither
// the DOM nor three.js, so that the rules of the player are tested without a browser.

import { chunkAt } from "./data/store";
import { samplePoses } from "./interpolate";
import { EventKind, type IndexView, MechFlag } from "./protocol.gen";
import type { CameraMode, MatchState, ViewerState } from "./state";
import { LIVE_MARGIN_S, type Marker, advance, deathTicks, nextMarker, nextSpeed } from "./timeline";

const MIN_DISTANCE = 4;
const MAX_DISTANCE = 400;
const LOWEST = 0.06; // least angle above the ground [rad]
const HIGHEST = Math.PI / 2 - 0.001;
const FOLLOW = { azimuth: Math.PI - 0.4, elevation: 0.47, distance: 16 }; // where the camera goes when it begins to follow
const FOLLOW_GRACE = 0.5; // ticks; how close to the live edge counts as being there

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
  state.selected = -1;
  state.following = match.index.live;
  if (state.following) state.tick = Math.max(0, lastTick(match) - LIVE_MARGIN_S * match.header.tick_hz);
  frameMap(state);
}

/** Go back to the list. */
export function closeMatch(state: ViewerState): void {
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
  state.camera = { mode: "orbit", target, azimuth: -2.15, elevation: 0.66, distance: span * 0.98 };
}

/** Move the cursor to a tick; leaves the live edge unless it is at it. */
export function seek(state: ViewerState, tick: number): void {
  const match = state.match;
  if (!match) return;
  state.tick = Math.max(0, Math.min(lastTick(match), tick));
  state.following = match.index.live && state.tick >= lastTick(match) - FOLLOW_GRACE;
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
  const step = match.header.frame_ticks;
  seek(state, (frames > 0 ? Math.floor(state.tick / step + 1e-6) : Math.ceil(state.tick / step - 1e-6)) * step + frames * step);
}

/** Start or hold; from the end, start again at the beginning. */
export function togglePlay(state: ViewerState): void {
  state.playing = !state.playing;
  const match = state.match;
  if (!state.playing || !match || match.index.live) return;
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

/** Play backward instead of forward, or the other way round. */
export function reverse(state: ViewerState): void {
  setSpeed(state, -state.speed);
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
  const marker = state.match ? nextMarker(state.match.markers, state.tick, step) : null;
  if (marker) {
    seek(state, marker.tick);
    if (state.camera.mode === "follow" && marker.whom >= 0) state.selected = marker.whom;
  }
  return marker;
}

/** Let time pass: `elapsed` seconds of the viewer's clock. */
export function tickClock(state: ViewerState, elapsed: number): void {
  const match = state.match;
  if (!match) return;
  if (state.playing) {
    const last = lastTick(match);
    const edge = state.following ? last - LIVE_MARGIN_S * match.header.tick_hz : Infinity;
    // a live viewer plays a little faster while it lags, so that it catches up without a jump
    const speed = state.following && state.tick < edge ? state.speed * 1.15 : state.speed;
    // where the next frames have not arrived the cursor waits for them
    if (match.chunk !== null) {
      const moved = advance(state.tick, elapsed, speed, match.header.tick_hz, last);
      state.tick = moved.tick;
      if (moved.stopped && !match.index.live) state.playing = false;
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
  samplePoses(match.chunk, state.tick, header.tick_hz, match.store.odometer(number), poses);
  const { camera, selected } = state;
  if (camera.mode === "follow" && selected >= 0) camera.target = [poses.x[selected], poses.y[selected], poses.z[selected]];
}

/** Select a mech, or none with -1; following begins with the camera behind it. */
export function select(state: ViewerState, mech: number, follow: boolean): void {
  const match = state.match;
  if (!match || mech >= match.header.mechs) return;
  if (mech < 0) leaveFollow(state);
  state.selected = mech;
  if (mech >= 0 && follow) setCameraMode(state, "follow");
}

/** Select the next mech that is present; the living first, if any are. */
export function cycleMech(state: ViewerState, step: 1 | -1): void {
  const match = state.match;
  if (!match) return;
  const all = match.header.roster.map((_, mech) => mech).filter((mech) => match.header.roster[mech].present);
  const living = all.filter((mech) => match.poses.flags[mech] & MechFlag.ALIVE);
  const candidates = living.length > 0 ? living : all;
  const next = step > 0 ? candidates.find((mech) => mech > state.selected) : candidates.findLast((mech) => mech < state.selected);
  select(state, next ?? (step > 0 ? candidates[0] : candidates[candidates.length - 1]), state.camera.mode === "follow");
}

/** Change how the camera moves; without a selected mech, following takes the first one. */
export function setCameraMode(state: ViewerState, mode: CameraMode): void {
  const match = state.match;
  if (!match) return;
  const { camera } = state;
  if (mode === "follow") {
    if (state.selected < 0) cycleMech(state, 1);
    if (camera.mode !== "follow") Object.assign(camera, FOLLOW);
    camera.mode = mode;
    locate(state);
  } else if (mode === "top") {
    leaveFollow(state);
    const span = Math.max(match.header.world.size[0], match.header.world.size[1]);
    Object.assign(camera, { azimuth: -Math.PI / 2, elevation: HIGHEST, distance: span * 1.05 });
    camera.target = [match.header.world.size[0] / 2, match.header.world.size[1] / 2, 0];
  } else {
    leaveFollow(state);
    if (camera.mode === "top") frameMap(state);
  }
  state.camera.mode = mode;
}

/** Stop following, and stay where the camera is. */
export function leaveFollow(state: ViewerState): void {
  const { camera, match, selected } = state;
  if (camera.mode !== "follow") return;
  camera.mode = "orbit";
  if (!match || selected < 0) return;
  camera.azimuth += match.poses.yaw[selected]; // it was counted from the heading
}

/** Turn the camera about its target [rad]. */
export function turnCamera(state: ViewerState, azimuth: number, elevation: number): void {
  const { camera } = state;
  camera.azimuth += azimuth;
  if (camera.mode === "top") return;
  camera.elevation = Math.max(LOWEST, Math.min(HIGHEST, camera.elevation + elevation));
}

/** Bring the camera nearer (below 1) or farther (above 1). */
export function zoomCamera(state: ViewerState, factor: number): void {
  const { camera } = state;
  camera.distance = Math.max(MIN_DISTANCE, Math.min(MAX_DISTANCE, camera.distance * factor));
}

/** Shift what the camera looks at, along its own right and away from it [vox]; ends following. */
export function panCamera(state: ViewerState, right: number, away: number): void {
  const { camera, match } = state;
  if (!match) return;
  leaveFollow(state);
  const [sin, cos] = [Math.sin(camera.azimuth), Math.cos(camera.azimuth)];
  const [sizeX, sizeY] = match.header.world.size;
  camera.target[0] = Math.max(0, Math.min(sizeX, camera.target[0] - right * sin - away * cos));
  camera.target[1] = Math.max(0, Math.min(sizeY, camera.target[1] + right * cos - away * sin));
}
