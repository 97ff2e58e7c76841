// Written by echelon/replay/typescript.py from the tables of echelon/replay/schema.py; do not edit.
// What a replay file and the server's answers appearance like. `just golden` writes it anew.
export const MAGIC: readonly number[] = [0x89, 0x45, 0x43, 0x52, 0x0d, 0x0a, 0x1a, 0x0a];
export const END_MAGIC: readonly number[] = [0x45, 0x43, 0x52, 0x45, 0x4e, 0x44, 0x0d, 0x0a];
export const HEAD_BYTES = 24;
export const WORLD_HEAD_BYTES = 16;
export const CODEC_NONE = 0;
export const CODEC_ZLIB = 1;
export const ALIGNMENT = 8;
export const MAX_STORED_BYTES = 16777216;
export const MAX_RAW_BYTES = 67108864;
export const MAX_FILE_BYTES = 2147483648;
export const MAX_FRAMES = 2048;
export const MAX_MECHS = 4096;
export const MAX_EDGE = 1024;
export const MAX_NAMES = 1024;
export const MAX_CHUNKS = 65536;
export const MAX_ROWS = 1048576;
export const TICK_HZ_LIMIT = 1000.0;
export const OLDEST_MAJOR = 1;
export const SCHEMA_MAJOR = 2;
export const SCHEMA_MINOR = 2;
export const HASH_BYTES = 8;
export const BY_RATE = 3;
export enum RecordType { HEADER = 1, WORLD = 2, CHUNK = 3, INDEX = 4, TRAILER = 5 }
export enum EventKind { NONE = 0, HIT = 1, PAINT = 2, KILL = 3, ASSIST = 4, LAUNCH = 5, IMPACT = 6, FALL = 7, SHUTDOWN = 8, AMS = 9 }
export enum MechFlag { ALIVE = 1, FALLEN = 2, SHUTDOWN = 4, LEGGED = 8, PAINTED = 16, ECM = 32, ECCM = 64, SUPPRESSED = 128, VENT = 256, SEEN = 512 }
export enum HitFlag { LEG = 1, REAR = 2, PAINTED = 4, SPLASH = 8, STOPPED = 16 }
export const CHASSIS_NAMES = ["scout", "light", "medium", "heavy"] as const;
export type ChassisName = (typeof CHASSIS_NAMES)[number];
export const WEAPON_NAMES = ["laser", "flamer", "missile", "gauss", "autocannon", "painter", "smoke"] as const;
export type WeaponName = (typeof WEAPON_NAMES)[number];
export const MATERIAL_NAMES = ["air", "solid", "lava", "water", "debris_field", "solid_debris", "dirt", "glass", "reinforced", "foliage"] as const;
export type MaterialName = (typeof MATERIAL_NAMES)[number];
export const MECH_COLUMNS = ["x", "y", "z", "hp", "leg_hp", "heat", "flags", "focus", "painter", "yaw", "vx", "vy", "vz", "stability"] as const;
export type MechColumn = (typeof MECH_COLUMNS)[number];
export const REASONS = ["", "zone_control", "elimination", "time_up"] as const;
export type Reason = (typeof REASONS)[number];
export const WINNERS = ["blue", "red", "draw"] as const;
export type WinnerName = (typeof WINNERS)[number];
export type Dtype = "u8" | "u16" | "u32" | "i8" | "i16" | "i32";
export interface ColumnSpec { name: string; dtype: Dtype; scale: number; predict: number }
export interface FrameColumnSpec extends ColumnSpec {
  per: "frame" | "team" | "mech"; k: number;
  rate?: string; gain?: number; // since 2.0, where predict is BY_RATE
}
export interface TableSpec { name: string; columns: ColumnSpec[] }
export interface RosterEntry { team: 0 | 1; pack: number; chassis: number; name: string; present: boolean }
export interface ChassisSpec {
  name: string; size: [number, number, number]; hp: number; leg_hp: number; heat_cap: number;
  max_speed: number; max_jet: number;
}
export interface WeaponSpec {
  name: string; guidance: string; range: number; speed: number; cooldown_s: number; damage: number;
}
export interface TeamHeader { name: string; policy: string; checkpoint: string; level: string }
/** What the policy columns are about. */
export interface InsightSpec { actions: string[]; terms: string[]; contacts: number; estimates: boolean }
/** How far sensors see, and what electronic warfare does to them. */
export interface SensingSpec {
  radar: number[]; // range of each chassis, through walls, at quality 1 [vox]; sight ends only at walls and smoke
  ewar: number; // reach of ECM and ECCM [vox]
  ecm: number; eccm: number; // quality that each takes or gives at no distance
  own_eccm: boolean; // whether ECCM aids its emitter too
  quality: [number, number]; // least and most; the least is also that of who is shut down
}
/** The HEADER record. */
export interface Header {
  schema: [number, number]; created: number; echelon: string;
  tick_hz: number; frame_ticks: number; chunk_ticks: number; mechs: number;
  teams: [TeamHeader, TeamHeader]; seed: number; map_seed: number; env: number;
  run: string; update: number; global_step: number; duration_s: number; score_to_win: number;
  world: { sha256: string; size: [number, number, number] }; zone: [number, number, number];
  cloud?: { radius: number; life_s: number }; // since 1.1
  sensing?: SensingSpec; // since 2.2
  roster: RosterEntry[]; chassis: ChassisSpec[]; weapons: WeaponSpec[];
  materials: string[]; events: string[]; flags: string[]; hit_flags: string[]; cooldowns: string[];
  columns: FrameColumnSpec[]; tables: TableSpec[]; config: Record<string, unknown>;
  insight?: InsightSpec; // since 1.2, where policy columns were asked for
}
/** The CHUNK record. */
export interface ChunkRecord { f: number; c: Uint8Array; t: [number, Uint8Array][]; h: Uint8Array }
/** The INDEX record; its tables are INDEX_TABLES, in order. */
export interface IndexRecord { t: [number, Uint8Array][]; world: [number, number] | null; outcome: Outcome | null }
export interface Series {
  second: number[]; score: [number[], number[]]; alive: [number[], number[]];
  hp: [number[], number[]]; damage: [number[], number[]];
}
export interface Outcome {
  winner: number; reason: string; ticks: number;
  score: [number, number]; hp: [number, number]; alive: [number, number];
}
/** Tick, kind, who, whom. */
export type Marker = [number, number, number, number];
/** GET /api/v1/matches/{id}/index; a chunk is its first tick, its last, and its bytes. */
export interface IndexView {
  live: boolean; chunks: [number, number, number][]; series: Series; markers: Marker[]; outcome: Outcome | null;
}
/** A row of GET /api/v1/matches. */
export interface MatchSummary {
  id: string; version: string; run: string; file: string; created: number; seed: number; map_seed: number;
  blue: string; red: string; update: number; mechs: number; size: [number, number, number];
  live: boolean; complete: boolean; chunks: number;
  ticks: number; bytes: number; winner: number; reason: string; score: [number, number]; alive: [number, number];
}
/** GET /api/v1/league; a match that can be watched has its id in the catalogue. */
export interface LeagueView { standings: Standing[]; unfinished: Round[]; total: number; matches: LeagueMatch[] }
export interface Standing {
  id: string; name: string; kind: string; rating: number; rd: number; low: number; high: number; vol: number;
  games: number; wins: number; draws: number; losses: number; created_at: string;
}
export interface Round { job: string; round: number; matches: number; played: number }
export interface LeagueMatch {
  id: number; job: string; round: number; number: number; seed: number;
  blue: string; red: string; blue_name: string; red_name: string;
  state: string; winner: string | null; reason: string; note: string; seconds: number | null;
  hp_blue: number | null; hp_red: number | null; score_blue: number | null; score_red: number | null;
  played_at: string | null; match: string;
}
/** GET /api/v1/league/matches: a page of those that were chosen, the newest first. */
export interface LeagueMatchPage { total: number; matches: LeagueMatch[] }
/** GET /api/v1/league/pairs: entries with the strongest first, and rings of names in which each beats the next. */
export interface PairsView { entries: { id: string; name: string }[]; pairs: Pair[]; cycles: string[][] }
/** How one entry fared: share of the points, share of wins with 95 % certainty, and the points the ratings speak of. */
export interface Pair {
  id: string; against: string; wins: number; draws: number; losses: number;
  score: number; low: number; high: number; expected: number; verdict: "won" | "lost" | "";
}
/** What the WebSocket /api/v1/live says. */
export interface Notice { type: "match" | "chunk" | "ended"; id: string; chunks: number; tick1: number }
export const TABLES: readonly TableSpec[] = [
  { name: "events", columns: [
    {"name": "tick", "dtype": "u16", "scale": 1.0, "predict": 1},
    {"name": "kind", "dtype": "u8", "scale": 1.0, "predict": 0},
    {"name": "who", "dtype": "i16", "scale": 1.0, "predict": 0},
    {"name": "whom", "dtype": "i16", "scale": 1.0, "predict": 0},
    {"name": "weapon", "dtype": "i8", "scale": 1.0, "predict": 0},
    {"name": "value", "dtype": "u16", "scale": 0.1, "predict": 0},
    {"name": "flags", "dtype": "u8", "scale": 1.0, "predict": 0},
    {"name": "x", "dtype": "u16", "scale": 0.5, "predict": 0},
    {"name": "y", "dtype": "u16", "scale": 0.5, "predict": 0},
    {"name": "z", "dtype": "u16", "scale": 0.5, "predict": 0},
  ] },
  { name: "rounds", columns: [
    {"name": "frame", "dtype": "u16", "scale": 1.0, "predict": 1},
    {"name": "owner", "dtype": "i16", "scale": 1.0, "predict": 1},
    {"name": "slot", "dtype": "u8", "scale": 1.0, "predict": 0},
    {"name": "weapon", "dtype": "i8", "scale": 1.0, "predict": 1},
    {"name": "age", "dtype": "u16", "scale": 1.0, "predict": 0},
    {"name": "x", "dtype": "u16", "scale": 0.25, "predict": 1},
    {"name": "y", "dtype": "u16", "scale": 0.25, "predict": 1},
    {"name": "z", "dtype": "u16", "scale": 0.25, "predict": 1},
    {"name": "yaw", "dtype": "i8", "scale": 0.02454369260617026, "predict": 1},
    {"name": "pitch", "dtype": "i8", "scale": 0.02454369260617026, "predict": 1},
  ] },
  { name: "base", columns: [
    {"name": "cell", "dtype": "u32", "scale": 1.0, "predict": 1},
    {"name": "run", "dtype": "u8", "scale": 1.0, "predict": 1},
    {"name": "material", "dtype": "u8", "scale": 1.0, "predict": 0},
  ] },
  { name: "edits", columns: [
    {"name": "tick", "dtype": "u16", "scale": 1.0, "predict": 1},
    {"name": "cell", "dtype": "u32", "scale": 1.0, "predict": 1},
    {"name": "run", "dtype": "u8", "scale": 1.0, "predict": 1},
    {"name": "material", "dtype": "u8", "scale": 1.0, "predict": 0},
  ] },
  { name: "clouds", columns: [
    {"name": "tick", "dtype": "i16", "scale": 1.0, "predict": 1},
    {"name": "who", "dtype": "i16", "scale": 1.0, "predict": 0},
    {"name": "x", "dtype": "u16", "scale": 0.125, "predict": 0},
    {"name": "y", "dtype": "u16", "scale": 0.125, "predict": 0},
    {"name": "z", "dtype": "u16", "scale": 0.125, "predict": 0},
  ] },
];
export const INDEX_TABLES: readonly TableSpec[] = [
  { name: "chunks", columns: [
    {"name": "offset", "dtype": "u32", "scale": 1.0, "predict": 2},
    {"name": "length", "dtype": "u32", "scale": 1.0, "predict": 1},
    {"name": "tick0", "dtype": "u32", "scale": 1.0, "predict": 2},
    {"name": "tick1", "dtype": "u32", "scale": 1.0, "predict": 2},
  ] },
  { name: "series", columns: [
    {"name": "second", "dtype": "u16", "scale": 1.0, "predict": 2},
    {"name": "score_blue", "dtype": "u16", "scale": 0.01, "predict": 1},
    {"name": "score_red", "dtype": "u16", "scale": 0.01, "predict": 1},
    {"name": "alive_blue", "dtype": "u16", "scale": 1.0, "predict": 1},
    {"name": "alive_red", "dtype": "u16", "scale": 1.0, "predict": 1},
    {"name": "hp_blue", "dtype": "u16", "scale": 1.0, "predict": 1},
    {"name": "hp_red", "dtype": "u16", "scale": 1.0, "predict": 1},
    {"name": "damage_blue", "dtype": "u16", "scale": 1.0, "predict": 1},
    {"name": "damage_red", "dtype": "u16", "scale": 1.0, "predict": 1},
  ] },
  { name: "markers", columns: [
    {"name": "tick", "dtype": "u32", "scale": 1.0, "predict": 1},
    {"name": "kind", "dtype": "u8", "scale": 1.0, "predict": 0},
    {"name": "who", "dtype": "i16", "scale": 1.0, "predict": 0},
    {"name": "whom", "dtype": "i16", "scale": 1.0, "predict": 0},
  ] },
];
export const MARKER_KINDS: readonly EventKind[] = [3, 7, 8];
export const COOLDOWN_NAMES = ["laser", "kinetic", "launcher", "painter", "ams"] as const;
