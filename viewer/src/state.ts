// The whole state of the viewer, independent of the browser. Functions of control.ts and the sessions change what hangs
// together; a panel sets only the preference that it shows. GPU and DOM objects are derived from it each frame.

import type { ReplaySource } from "./data/source";
import type { ChunkStore } from "./data/store";
import type { Scenery } from "./data/appearance";
import type { FileDamage } from "./data/damage";
import type { Prefetcher } from "./data/prefetch";
import type { MatchScan } from "./data/match_scan";
import type { ObservationStore } from "./data/observations";
import type { HeatSide } from "./data/heat";
import type { Fog, MatchCursor } from "./data/cursor";
import type { KillFacts } from "./data/kill_facts";
import type { WinCurve } from "./data/winprob";
import type { Header, IndexView, LeagueView, MatchSummary, Moment } from "./protocol.gen";
import type { Box, Cutaway, Insets } from "./framing";
import type { TeamColoursName } from "./palette";
import type { TierName } from "./quality";
import type { Marker } from "./timeline";

export const CAMERA_MODES = ["orbit", "follow", "first", "top", "free", "director"] as const;
export type CameraMode = (typeof CAMERA_MODES)[number];

/** How smoke clouds are drawn, by the share of their opacity. */
export const SMOKE = { on: 1, thin: 0.35, off: 0 } as const;
export type Smoke = keyof typeof SMOKE;

/** Ground overlay: none, presence, damage taken, or distance to the zone ("ways" in addresses). */
export const LAYERS = ["none", "presence", "damage", "ways"] as const;
export type Layer = (typeof LAYERS)[number];

/** The camera; positions in voxel space, angles in radians. */
export interface CameraState {
  mode: CameraMode; // orbit, follow the selected mech, first person, top-down, free camera, director
  target: [number, number, number]; // target, or position of the free camera [vox]
  azimuth: number; // direction from target to camera, counter-clockwise from +x, or from the heading of a followed mech
  elevation: number; // angle above the ground; pi / 2 is straight down
  distance: number; // to the target [vox]
  cutaway?: Cutaway | null; // of the director's shot
}

export interface MatchState extends MatchCursor {
  id: string; // catalogue id, "file" for a local file, "page" for the replay of an exported page
  run: string; // run in the server's catalogue, "" for none
  file: string; // name of its file there, "" for none
  title: string; // for the tab, e.g. "medium against run-1"
  source: ReplaySource; // source of chunks and world
  damage: FileDamage; // what of the file cannot be read, as far as known when it was opened
  prefetcher: Prefetcher; // fetches the rest of a small match
  index: IndexView; // chunks so far, series, markers, outcome; grows while live
  markers: Marker[]; // markers of the index, sorted by tick
  deaths: Float64Array; // tick of each mech's death, Infinity if none so far
  axis: number | null; // direction from blue's to red's mechs at the start [rad], null until loaded
  awaitsAxis: boolean; // whether the chunk that tells it is being read, far from the cursor
  scenery: Scenery | null; // appearance of the world, null until loaded
  mapless: boolean; // whether the world cannot be loaded, so that no picture waits for it
  kills: KillFacts; // what mechs were destroyed with, as far as read
  scan: MatchScan; // background scan of the whole match
  observed: ObservationStore; // what the policy of a mech observed
  win: WinCurve; // win probability over the match, as far as recorded
  moments: readonly Moment[]; // turning points in order of time; empty if unknown
  ghosts?: readonly Ghost[]; // other continuations that are drawn over the match
  asked?: readonly AskedPoint[]; // what continuations as recorded have given
  commanded?: Commanded; // the team of a commander
}

/** What a commander has chosen and ordered; its parts are replaced when they change. */
export interface Commanded {
  readonly team: 0 | 1;
  readonly mechs: readonly number[];
  chosen: ReadonlySet<number>; // mechs that get the next order, none for all
  orders: readonly { readonly sign: string; readonly text: string }[]; // by mech; both "" for none
}

/** Share of continuations from a tick on that blue won, with its 95 % interval. */
export interface AskedPoint {
  readonly tick: number;
  readonly p: number;
  readonly low: number;
  readonly high: number;
  readonly runs: number;
}

export interface Ghost {
  readonly label: string;
  readonly header: Header;
  readonly store: ChunkStore;
  readonly index: IndexView;
}

/** Return whether a match belongs to the server's catalogue. */
export function inCatalogue({ id }: MatchState): boolean {
  return id !== "file" && id !== "page";
}

export interface ListState {
  matches: readonly MatchSummary[]; // as far as loaded, live ones first
  total: number; // number of matches on the server
  run: string; // filter by run, "" for all
  text: string; // filter by search text
  loading: boolean; // whether the first page is being loaded
  runs: { id: string; matches: number }[]; // runs that have matches
}

export interface LeagueState {
  view: LeagueView | null; // standings and unfinished rounds; null without a league
  loading: boolean; // whether the first response is pending
}

export interface ViewerState {
  page: "list" | "league" | "match"; // the visible page
  flying: boolean; // whether the match is flown from the cockpit instead of watched
  list: ListState;
  league: LeagueState;
  match: MatchState | null; // null on other pages and while opening
  tick: number; // position of the cursor, fractional
  awaitsPicture: boolean; // whether the match's first picture is incomplete: what it does not need is not fetched yet
  playing: boolean; // whether playback runs
  held: boolean; // whether the pointer holds the playhead, so that playback waits
  speed: number; // match seconds per second; negative is backward
  paced: boolean; // whether the director adapts the normal speed to what happens
  following: boolean; // whether the cursor follows the live edge
  selected: number; // selected mech, -1 for none
  camera: CameraState;
  window: [number, number]; // size of the picture [CSS px]
  insets: Insets; // edges of the picture that panels cover
  covered: readonly Box[]; // captions and notices over the picture, which labels keep off
  fog: Fog;
  layer: Layer;
  heatSide: HeatSide; // teams of the heat maps
  loop: [number, number] | null; // start and end of the loop [ticks]
  loopFrom: number | null; // start of a loop whose end is not set yet [tick]
  unannounced: Marker[]; // passed markers not yet announced to screen readers
  followNewest: boolean; // whether the newest match opens automatically
  showLinks: boolean; // whether sensor and targeting lines and range rings are shown
  showMap: boolean; // whether the minimap is shown
  showPilot: boolean; // whether the mech analysis is open
  showShare: boolean; // whether the share panel is open
  showHelp: boolean; // whether the shortcuts are shown
  showChart: boolean; // whether the match charts are open
  showTable: boolean; // whether the table of all mechs is open
  showEnd: boolean; // whether the card at the end of the match is open
  showBars: boolean; // whether nameplates are shown
  showSpoilers: boolean; // whether results and what lies ahead of the cursor are shown
  showNumbers: boolean; // whether damage numbers are shown
  smoke: Smoke; // how smoke clouds are drawn
  teamColours: TeamColoursName;
  hudScale: number; // size of panels, 1 is normal
  showCutaways: boolean; // whether walls in front of a fight or of the selected mech are cut away
  problem: string; // problem shown to the user, "" for none
  connected: boolean; // whether the live channel is open
  lost: boolean; // whether the server does not respond
  interrupted: boolean; // whether playback stopped for want of a chunk and continues when it arrives
  slowRate: number; // pictures per second if they are few, else 0
  quality: TierName | null; // requested graphics tier, null for automatic
  sound: boolean; // whether the match is heard
  volume: number; // of the sound, 0 to 1
  showSettings: boolean; // whether the settings are open
}

export function defaults(): ViewerState {
  return {
    page: "list",
    flying: false,
    list: { matches: [], total: 0, run: "", text: "", loading: true, runs: [] },
    league: { view: null, loading: true },
    match: null,
    tick: 0,
    awaitsPicture: false,
    playing: true,
    held: false,
    speed: 1,
    paced: true,
    following: false,
    selected: -1,
    camera: { mode: "director", target: [50, 50, 0], azimuth: -2.2, elevation: 0.62, distance: 80 },
    window: [1280, 720],
    insets: { left: 242, top: 86, right: 242, bottom: 127 },
    covered: [],
    fog: "none",
    layer: "none",
    heatSide: "teams",
    loop: null,
    loopFrom: null,
    unannounced: [],
    followNewest: false,
    showLinks: true,
    showMap: true,
    showPilot: false,
    showShare: false,
    showHelp: false,
    showChart: false,
    showTable: false,
    showEnd: false,
    showBars: true,
    showSpoilers: true,
    showNumbers: true,
    smoke: "on",
    teamColours: "standard",
    hudScale: 1,
    showCutaways: true,
    problem: "",
    connected: false,
    lost: false,
    interrupted: false,
    slowRate: 0,
    quality: null,
    sound: false,
    volume: 0.5,
    showSettings: false,
  };
}

/** Return the first recorded tick: 0, or where a continuation of a match begins. */
export function firstTick(match: MatchState): number {
  return match.index.chunks[0]?.[0] ?? 0;
}
