// Every colour and every figure of appearance, in records keyed by the closed unions of the protocol: a new weapon,
// material or chassis without a row here does not compile. Colours are sRGB hex. Team colours are a blue and a
// vermilion that stay apart for the common kinds of colour blindness; shape tells the teams apart as well.

import type { ReachKind } from "./data/sensing";
import type { ChassisName, MaterialName, WeaponName } from "./protocol.gen";

/** How a voxel is drawn; a material has one look, and solid voxels are told apart by their surroundings. */
export enum Look {
  AIR = 0,
  GROUND = 1,
  CONCRETE = 2,
  ROCK = 3,
  BARK = 4,
  RUBBLE = 5,
  WRECKAGE = 6,
  STEEL = 7,
  FOLIAGE = 8,
  LAVA = 9,
  WATER = 10,
  GLASS = 11,
}

/** How a look fills its voxel: not at all, with a surface to walk on, whole, whole but see-through, or in pieces. */
export type Form = "none" | "floor" | "block" | "clear" | "heap";

/** One row of the table of looks. */
export interface LookSpec {
  readonly colour: number; // base colour
  readonly accent: number; // second colour of its pattern
  readonly map: number; // colour on minimaps and thumbnails
  readonly form: Form;
  readonly floor: number; // height of the surface of a floor above its voxel's bottom [vox]
}

export const LOOKS: Record<Look, LookSpec> = {
  [Look.AIR]: { colour: 0x000000, accent: 0x000000, map: 0x000000, form: "none", floor: 0 },
  [Look.GROUND]: { colour: 0x8d7b62, accent: 0x5f7a45, map: 0x6f6553, form: "floor", floor: 0 },
  [Look.CONCRETE]: { colour: 0xb9b4aa, accent: 0x27323d, map: 0xb3aea4, form: "block", floor: 0 },
  [Look.ROCK]: { colour: 0x85776a, accent: 0x5d544c, map: 0x8c7d6d, form: "block", floor: 0 },
  [Look.BARK]: { colour: 0x5d4634, accent: 0x3d2d21, map: 0x5d4634, form: "block", floor: 0 },
  [Look.RUBBLE]: { colour: 0x57504a, accent: 0xff7a2a, map: 0x5d4c42, form: "heap", floor: 0 },
  [Look.WRECKAGE]: { colour: 0x4a4d52, accent: 0x8a4b2c, map: 0x4c4a48, form: "heap", floor: 0 },
  [Look.STEEL]: { colour: 0x7d8b98, accent: 0xd9a62e, map: 0x6d7b88, form: "block", floor: 0 },
  [Look.FOLIAGE]: { colour: 0x4a7a33, accent: 0x86a84a, map: 0x4a7a38, form: "block", floor: 0 },
  [Look.LAVA]: { colour: 0x2a0f08, accent: 0xff5a14, map: 0xff6a1c, form: "floor", floor: 0.12 },
  [Look.WATER]: { colour: 0x1c5566, accent: 0x9fd8e0, map: 0x2f7f93, form: "floor", floor: 0.1 },
  [Look.GLASS]: { colour: 0x8fd6dd, accent: 0xe6fbff, map: 0x9bd9df, form: "clear", floor: 0 },
};

export const MATERIAL_LOOK: Record<MaterialName, Look> = {
  air: Look.AIR,
  solid: Look.CONCRETE,
  lava: Look.LAVA,
  water: Look.WATER,
  debris_field: Look.RUBBLE,
  solid_debris: Look.WRECKAGE,
  dirt: Look.GROUND,
  glass: Look.GLASS,
  reinforced: Look.STEEL,
  foliage: Look.FOLIAGE,
};

/** How a team is shown. */
export interface TeamSpec {
  readonly label: string; // for rosters and screen readers
  readonly colour: number; // in the scene
  readonly paint: number; // on armour, darker so that light does not wash it out
  readonly css: string; // on dark panels, contrast of at least 4.5:1
  readonly sides: number; // corners of its ground marker; 0 is a circle
}

export const TEAMS: readonly [TeamSpec, TeamSpec] = [
  { label: "Blue", colour: 0x4aa8ff, paint: 0x1f7be0, css: "#6bb8ff", sides: 0 },
  { label: "Red", colour: 0xff6a3d, paint: 0xe2481c, css: "#ff8a62", sides: 4 },
];

/** How a shot of a weapon is drawn. */
export interface WeaponLook {
  readonly label: string; // in the kill feed
  readonly colour: number; // core of beam, tracer or flame
  readonly beam: "solid" | "dotted" | "flame" | "none"; // what a hit by it leaves in the air
  readonly width: number; // of beam or tracer [vox]
  readonly linger: number; // how long that stays [s]
  readonly tracer: number; // length of its rounds in flight [vox], 0 draws none
  readonly trail: number; // age of the smoke behind its rounds [s], 0 for none
  readonly blast: number; // radius of the flash where it strikes [vox]
}

export const WEAPONS: Record<WeaponName, WeaponLook> = {
  laser: { label: "laser", colour: 0x7dffb2, beam: "solid", width: 0.16, linger: 0.42, tracer: 0, trail: 0, blast: 0.7 },
  flamer: { label: "flamer", colour: 0xff8a24, beam: "flame", width: 0.9, linger: 0.4, tracer: 0, trail: 0, blast: 0.8 },
  missile: { label: "missile", colour: 0xffc070, beam: "none", width: 0.26, linger: 0, tracer: 0.9, trail: 1.1, blast: 2.5 },
  gauss: { label: "gauss", colour: 0xc9a6ff, beam: "none", width: 0.24, linger: 0, tracer: 3.2, trail: 0.5, blast: 1.6 },
  autocannon: { label: "autocannon", colour: 0xffe07a, beam: "none", width: 0.13, linger: 0, tracer: 1.5, trail: 0, blast: 0.6 },
  painter: { label: "painter", colour: 0xff5fd2, beam: "dotted", width: 0.1, linger: 0.8, tracer: 0, trail: 0, blast: 0.3 },
  smoke: { label: "smoke", colour: 0xd8dde2, beam: "none", width: 0.22, linger: 0, tracer: 0.6, trail: 0.8, blast: 0 },
};

/** How a mech class is named and drawn in lists; its body is built in render/mech_models. */
export interface ChassisLook {
  readonly label: string;
  readonly icon: string; // SVG path in a 24 by 24 box, facing up
}

export const CHASSIS: Record<ChassisName, ChassisLook> = {
  scout: { label: "Scout", icon: "M12 2v5M8 4a5.5 5.5 0 0 0 8 0M9 8h6l1.5 5-4.5 3-4.5-3zM9 15l-2 3 1.5 4M15 15l2 3-1.5 4" },
  light: { label: "Light", icon: "M12 3l4 5v4l-4 4-4-4V8zM8 10H4v3M16 10h4v3M9.5 14.500L6 17l2.500 5M14.500 14.500L18 17l-2.500 5" },
  medium: { label: "Medium", icon: "M10 2h4v3h-4zM7 6h10l1 7-4 3h-4l-4-3zM6 7H3v8M18 7h3v8M9 16v6H7M15 16v6h2" },
  heavy: { label: "Heavy", icon: "M7 8h10v7l-3 2h-4l-3-2zM2 3h5v8H2zM17 3h5v8h-5zM10 5h4v3h-4zM8 17v5H5M16 17v5h3" },
};

/** How what reaches around a mech is drawn. */
export interface ReachLook {
  readonly label: string; // in panels
  readonly colour: number;
  readonly dash: number; // length of a dash of its ring, with the gap after it [vox]
  readonly gap: number; // share of that which is gap; a bubble has bands instead
}

/** Violet, mint and pale yellow stay apart from each other and from the teams; rings differ in their dashes as well. */
export const REACHES: Record<ReachKind, ReachLook> = {
  ecm: { label: "ECM", colour: 0xa37bff, dash: 3, gap: 0.45 },
  eccm: { label: "ECCM", colour: 0x5fe3b2, dash: 3, gap: 0 },
  radar: { label: "radar", colour: 0xfff3b0, dash: 0.8, gap: 0.5 },
};

/** Light and air of the scene. */
export const SCENE = {
  skyTop: 0x2b5684,
  skyLow: 0xa9bccb,
  sun: 0xffe6c4,
  hemisphereSky: 0xbcd6ee,
  hemisphereGround: 0x6f5f4a,
  apron: 0x3d4650,
  heatGlow: 0xff6a1a,
  smoke: 0xd3d8de, // of clouds that hide
} as const;

/** How somebody fared against another where that is beyond doubt: teal and ochre stay apart for every kind of colour blindness. */
export const DUEL = { won: 0x1fb8a2, lost: 0xe0852f, open: 0x16202d } as const;

/** How a shot of point defence is drawn. */
export const POINT_DEFENCE = { colour: 0xbfe9ff, width: 0.12, linger: 0.26, blast: 0.75, astray: 1.1 } as const;
