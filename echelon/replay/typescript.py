"""Writes the browser's side of the schema, ``viewer/src/protocol.gen.ts``, from the tables of this package.

Constants, names and columns come from ``schema`` and from the simulator's tables; the shapes of headers, indices and
of what the server answers are spelled here once. A test compares what ``generate`` returns with what lies there.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from enum import IntEnum

from echelon.replay import schema
from echelon.replay.header import header_tables
from echelon.replay.schema import COLUMNS, INDEX_TABLES, TABLES, Table
from echelon.sim.arsenal import CHASSIS, WEAPONS
from echelon.sim.world import MATERIALS

HEAD = """// Written by echelon/replay/typescript.py from the tables of echelon/replay/schema.py; do not edit.
// What a replay file and the server's answers look like. `just golden` writes it anew.
"""
NUMBERS = (
    "ALIGNMENT", "MAX_STORED_BYTES", "MAX_RAW_BYTES", "MAX_FILE_BYTES", "MAX_FRAMES", "MAX_MECHS", "MAX_EDGE",
    "MAX_NAMES", "MAX_CHUNKS", "MAX_ROWS", "TICK_HZ_LIMIT", "OLDEST_MAJOR", "SCHEMA_MAJOR", "SCHEMA_MINOR",
    "HASH_BYTES", "BY_RATE",
)  # fmt: skip
"""Constants that carry over under their own name."""
NAMES: Mapping[str, tuple[str, Iterable[str]]] = {
    "CHASSIS_NAMES": ("ChassisName", [spec.chassis.name.lower() for spec in CHASSIS]),
    "WEAPON_NAMES": ("WeaponName", [spec.weapon.name.lower() for spec in WEAPONS]),
    "MATERIAL_NAMES": ("MaterialName", [spec.material.name.lower() for spec in MATERIALS]),
    "MECH_COLUMNS": ("MechColumn", [c.name for c in COLUMNS if c.per == "mech" and c.k == 1]),
    "REASONS": ("Reason", schema.REASONS),
    "WINNERS": ("WinnerName", schema.WINNERS),
}
"""Closed sets of names: constant to (type, members)."""

SHAPES = """
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
export interface BoutPage { total: number; matches: LeagueMatch[] }
/** GET /api/v1/league/pairs: entries with the strongest first, and rings of names in which each beats the next. */
export interface PairsView { entries: { id: string; name: string }[]; pairs: Pair[]; cycles: string[][] }
/** How one entry fared: share of the points, share of wins with 95 % certainty, and the points the ratings speak of. */
export interface Pair {
  id: string; against: string; wins: number; draws: number; losses: number;
  score: number; low: number; high: number; expected: number; verdict: "won" | "lost" | "";
}
/** What the WebSocket /api/v1/live says. */
export interface Notice { type: "match" | "chunk" | "ended"; id: string; chunks: number; tick1: number }
"""


def generate() -> str:
    """Return the whole file."""
    lines = [HEAD.rstrip()]
    for name, value in (("MAGIC", schema.MAGIC), ("END_MAGIC", schema.END_MAGIC)):
        lines.append(f"export const {name}: readonly number[] = [{', '.join(f'0x{byte:02x}' for byte in value)}];")
    lines.append(f"export const HEAD_BYTES = {schema.HEAD.size};")
    lines.append(f"export const WORLD_HEAD_BYTES = {schema.WORLD_HEAD.size};")
    lines += [f"export const CODEC_{codec.name} = {int(codec)};" for codec in schema.Codec]
    lines += [f"export const {name} = {getattr(schema, name)};" for name in NUMBERS]
    lines += [_enum(kind) for kind in (schema.RecordType, schema.EventKind, schema.MechFlag, schema.HitFlag)]
    for name, (kind, members) in NAMES.items():
        lines.append(f"export const {name} = {json.dumps(list(members))} as const;")
        lines.append(f"export type {kind} = (typeof {name})[number];")
    lines.append(SHAPES.strip())
    lines += [_tables("TABLES", TABLES), _tables("INDEX_TABLES", INDEX_TABLES)]
    lines.append(f"export const MARKER_KINDS: readonly EventKind[] = {[int(kind) for kind in schema.MARKERS]};")
    lines.append(f"export const COOLDOWN_NAMES = {json.dumps(header_tables()['cooldowns'])} as const;")
    return "\n".join(lines) + "\n"


def _enum(kind: type[IntEnum] | type[schema.MechFlag] | type[schema.HitFlag]) -> str:
    return f"export enum {kind.__name__} {{ {', '.join(f'{m.name} = {int(m)}' for m in kind)} }}"


def _tables(name: str, tables: Iterable[Table]) -> str:
    rows = []
    for table in tables:
        columns = ",\n".join(f"    {json.dumps(column.to_header())}" for column in table.columns)
        rows.append(f'  {{ name: "{table.name}", columns: [\n{columns},\n  ] }},')
    return f"export const {name}: readonly TableSpec[] = [\n" + "\n".join(rows) + "\n];"
