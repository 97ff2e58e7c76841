// Everything the viewer knows, in one place and without a browser: pages are drawn from it and only control.ts changes
// it. What the GPU or the DOM need beside it is derived each frame and kept by those who draw.

import type { ReplaySource } from "./data/source";
import type { ChunkStore } from "./data/store";
import type { Chunk, World } from "./data/replay";
import type { Scenery } from "./data/looks";
import type { Sweep } from "./data/sweep";
import { EVERY_BOUT, type LeagueChoice } from "./data/league";
import type { Header, IndexView, LeagueMatch, LeagueView, MatchSummary, PairsView } from "./protocol.gen";
import type { Poses } from "./interpolate";
import type { Marker } from "./timeline";

export type CameraMode = "orbit" | "follow" | "first" | "top" | "free" | "director";

/** Whose knowledge the picture is cut down to: everybody's, a team's, or the selected mech's. */
export type Fog = "none" | "blue" | "red" | "mech";
/** What is laid over the ground: nothing, where mechs spent their time, where damage was taken, or the ways to the zone. */
export type Layer = "none" | "presence" | "damage" | "ways";

/** Where the camera is; positions in voxel space, angles in radians. */
export interface CameraState {
  mode: CameraMode; // orbit a point, stay behind or in the selected mech, look down, fly, or go where the fight is
  target: [number, number, number]; // what it looks at, or where it is when flying [vox]
  azimuth: number; // direction from the target to the camera, counter-clockwise from +x, or from the heading with a mech
  elevation: number; // angle above the ground, e.g. 0.6; pi / 2 looks straight down
  distance: number; // from the target [vox]
}

/** One match being watched. */
export interface MatchState {
  id: string; // of the server's catalogue, "file" for a file, "page" for what an exported page holds
  run: string; // of the server's catalogue that it is kept in, "" for none
  title: string; // for the tab, e.g. "medium against run-1"
  source: ReplaySource; // where chunks come from
  header: Header; // who plays what, and how columns are coded
  index: IndexView; // chunks known so far, series, markers, outcome; grows while live
  markers: Marker[]; // of the index, in order of tick
  deaths: Float64Array; // tick at which each mech dies, Infinity for those that live, as far as known
  store: ChunkStore; // decoded chunks around the cursor
  world: World | null; // null until it has arrived
  scenery: Scenery | null; // looks of the world
  chunk: Chunk | null; // the chunk under the cursor, null until it has arrived
  chunkNumber: number; // its number
  poses: Poses; // all mechs at the cursor
  shown: Float32Array; // how far each mech is shown under the fog, 1 fully, 0 not at all
  sweep: Sweep; // what can only be said of the whole match
}

/** Whether a match is one of the server's catalogue. */
export function inCatalogue({ id }: MatchState): boolean {
  return id !== "file" && id !== "page";
}

/** The list of matches. */
export interface ListState {
  matches: readonly MatchSummary[]; // as far as loaded, live ones first
  total: number; // how many the server has
  run: string; // filter by run, "" for all
  text: string; // filter by what the user typed
  loading: boolean; // whether a request is under way
  runs: { id: string; matches: number }[]; // runs that have matches
}

/** The page of the league. */
export interface LeagueState {
  view: LeagueView | null; // standings and rounds under way; null while there is none
  pairs: PairsView | null; // who beats whom
  choice: LeagueChoice; // which matches are shown
  bouts: readonly LeagueMatch[]; // those, the newest first, as far as loaded
  total: number | null; // how many there are of them; null while that is not known
  ended: boolean; // whether the last of them is loaded
  loading: boolean; // whether nothing is known of it yet
}

export interface ViewerState {
  page: "list" | "league" | "match"; // what is shown
  list: ListState;
  league: LeagueState;
  match: MatchState | null; // null on the list, and while one is being opened
  tick: number; // the cursor, with its fraction, e.g. 246.5
  playing: boolean; // whether the cursor moves
  speed: number; // seconds of match per second; negative plays backward
  following: boolean; // whether the cursor keeps to the newest moment of a live match
  selected: number; // mech that panels and camera follow, -1 for none
  camera: CameraState;
  window: [number, number]; // of the picture on the page [CSS px]
  fog: Fog;
  layer: Layer;
  loop: [number, number] | null; // ticks between which it plays again and again
  loopFrom: number | null; // tick at which a loop was begun, until its end is set
  unspoken: Marker[]; // events that the cursor has come to and that have not been spoken yet
  followNewest: boolean; // whether the newest match opens by itself when it begins
  showLinks: boolean; // whether lines join mechs with those they know of, aim at and paint, and rings say how far they sense and jam
  showMap: boolean; // whether the small map is open
  showPilot: boolean; // whether the curves of the selected mech are open
  showShare: boolean; // whether the panel for sharing is open
  showHelp: boolean; // whether the keys are listed
  showChart: boolean; // whether the curves of the match are open
  showTable: boolean; // whether the table of all mechs is open
  showBars: boolean; // whether bars float above the mechs
  problem: string; // what went wrong, in words for the user; "" for nothing
  connected: boolean; // whether live notices arrive
}

/** The state before anything is known. */
export function defaults(): ViewerState {
  return {
    page: "list",
    list: { matches: [], total: 0, run: "", text: "", loading: true, runs: [] },
    league: { view: null, pairs: null, choice: EVERY_BOUT, bouts: [], total: null, ended: false, loading: true },
    match: null,
    tick: 0,
    playing: true,
    speed: 1,
    following: false,
    selected: -1,
    camera: { mode: "orbit", target: [50, 50, 0], azimuth: -2.2, elevation: 0.62, distance: 80 },
    window: [1280, 720],
    fog: "none",
    layer: "none",
    loop: null,
    loopFrom: null,
    unspoken: [],
    followNewest: false,
    showLinks: true,
    showMap: true,
    showPilot: false,
    showShare: false,
    showHelp: false,
    showChart: false,
    showTable: false,
    showBars: true,
    problem: "",
    connected: false,
  };
}
