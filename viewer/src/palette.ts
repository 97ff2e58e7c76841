// All colours and appearance parameters, in records keyed by the closed unions of the protocol: a new weapon, material
// or chassis without a row here does not compile. Colours are sRGB hex. The team colours blue and vermilion are
// distinct for the common kinds of colour blindness; shapes distinguish the teams as well.

import type { ChassisName, MaterialName, WeaponName } from "./protocol.gen";

/** Appearance of a voxel. Each material has a default one; solid voxels are refined by their surroundings. */
export enum Appearance {
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

/** Shape within a voxel: nothing, a surface to walk on, a full block, a see-through block, or a heap of pieces. */
export type Form = "none" | "floor" | "block" | "clear" | "heap";

export interface AppearanceSpec {
  readonly colour: number; // base colour
  readonly accent: number; // second colour of the pattern
  readonly map: number; // colour on minimap and thumbnails
  readonly form: Form;
  readonly floor: number; // height of the surface of a floor above its voxel's bottom [vox]
}

export const APPEARANCES: Record<Appearance, AppearanceSpec> = {
  [Appearance.AIR]: { colour: 0x000000, accent: 0x000000, map: 0x000000, form: "none", floor: 0 },
  [Appearance.GROUND]: { colour: 0x8d7b62, accent: 0x5f7a45, map: 0x6f6553, form: "floor", floor: 0 },
  [Appearance.CONCRETE]: { colour: 0xb9b4aa, accent: 0x27323d, map: 0xb3aea4, form: "block", floor: 0 },
  [Appearance.ROCK]: { colour: 0x85776a, accent: 0x5d544c, map: 0x8c7d6d, form: "block", floor: 0 },
  [Appearance.BARK]: { colour: 0x5d4634, accent: 0x3d2d21, map: 0x5d4634, form: "block", floor: 0 },
  [Appearance.RUBBLE]: { colour: 0x57504a, accent: 0xff7a2a, map: 0x5d4c42, form: "heap", floor: 0 },
  [Appearance.WRECKAGE]: { colour: 0x4a4d52, accent: 0x8a4b2c, map: 0x4c4a48, form: "heap", floor: 0 },
  [Appearance.STEEL]: { colour: 0x7d8b98, accent: 0xd9a62e, map: 0x6d7b88, form: "block", floor: 0 },
  [Appearance.FOLIAGE]: { colour: 0x4a7a33, accent: 0x86a84a, map: 0x4a7a38, form: "block", floor: 0 },
  [Appearance.LAVA]: { colour: 0x2a0f08, accent: 0xff5a14, map: 0xff6a1c, form: "floor", floor: 0.12 },
  [Appearance.WATER]: { colour: 0x1c5566, accent: 0x9fd8e0, map: 0x2f7f93, form: "floor", floor: 0.1 },
  [Appearance.GLASS]: { colour: 0x8fd6dd, accent: 0xe6fbff, map: 0x9bd9df, form: "clear", floor: 0 },
};

export const MATERIAL_APPEARANCE: Record<MaterialName, Appearance> = {
  air: Appearance.AIR,
  solid: Appearance.CONCRETE,
  lava: Appearance.LAVA,
  water: Appearance.WATER,
  debris_field: Appearance.RUBBLE,
  solid_debris: Appearance.WRECKAGE,
  dirt: Appearance.GROUND,
  glass: Appearance.GLASS,
  reinforced: Appearance.STEEL,
  foliage: Appearance.FOLIAGE,
};

export interface TeamSpec {
  readonly label: string; // for rosters and screen readers
  readonly sides: number; // corners of the ground marker; 0 is a circle
  colour: number; // of effects and markers
  paint: number; // of armour; darker, since lighting brightens it
  css: string; // on dark panels, contrast at least 4.5:1
  deep: string; // below white text
}

type TeamColours = Pick<TeamSpec, "colour" | "paint" | "css" | "deep">;

/** The team colours to choose from, blue's and red's. */
export const TEAM_COLOURS = {
  standard: [
    { colour: 0x4aa8ff, paint: 0x1f7be0, css: "#6bb8ff", deep: "#1f6fc4" },
    { colour: 0xff6a3d, paint: 0xe2481c, css: "#ff8a62", deep: "#c94a22" },
  ],
  safe: [
    { colour: 0x3f7dff, paint: 0x1746c8, css: "#7da7ff", deep: "#2450b8" },
    { colour: 0xffb000, paint: 0xe89a00, css: "#ffc247", deep: "#8f5c00" },
  ],
  contrast: [
    { colour: 0x00d5ff, paint: 0x0068ff, css: "#7fe3ff", deep: "#004fc2" },
    { colour: 0xff2e12, paint: 0xff1500, css: "#ffb3a1", deep: "#b01500" },
  ],
} as const satisfies Record<string, readonly [TeamColours, TeamColours]>;
export type TeamColoursName = keyof typeof TEAM_COLOURS;

/** The teams, in the colours chosen last. */
export const TEAMS: readonly [TeamSpec, TeamSpec] = [
  { label: "Blue", sides: 0, ...TEAM_COLOURS.standard[0] },
  { label: "Red", sides: 4, ...TEAM_COLOURS.standard[1] },
];

/** Draw the teams in other colours from now on, in the picture and, by `setVariable`, in the style sheets. */
export function useTeamColours(name: TeamColoursName, setVariable: (name: string, css: string) => void): void {
  TEAMS.forEach((team, t) => {
    Object.assign(team, TEAM_COLOURS[name][t]);
    setVariable(["--blue", "--red"][t], team.css);
    setVariable(["--blue-deep", "--red-deep"][t], team.deep);
  });
}

export interface WeaponAppearance {
  readonly colour: number; // colour of beam, tracer or flame
  readonly beam: "solid" | "dotted" | "flame" | "none"; // beam drawn for a hit
  readonly width: number; // of beam or tracer [vox]
  readonly linger: number; // how long the beam stays [s]
  readonly tracer: number; // length of tracers of rounds in flight [vox], 0 for none
  readonly trail: number; // lifetime of the smoke trail [s], 0 for none
  readonly blast: number; // radius of the flash at the hit [vox]
}

export const WEAPONS: Record<WeaponName, WeaponAppearance> = {
  laser: { colour: 0x7dffb2, beam: "solid", width: 0.16, linger: 0.42, tracer: 0, trail: 0, blast: 0.7 },
  flamer: { colour: 0xff8a24, beam: "flame", width: 0.9, linger: 0.4, tracer: 0, trail: 0, blast: 0.8 },
  missile: { colour: 0xffc070, beam: "none", width: 0.26, linger: 0, tracer: 0.9, trail: 1.1, blast: 2.5 },
  gauss: { colour: 0xc9a6ff, beam: "none", width: 0.24, linger: 0, tracer: 3.2, trail: 0.5, blast: 1.6 },
  autocannon: { colour: 0xffe07a, beam: "none", width: 0.13, linger: 0, tracer: 1.5, trail: 0, blast: 0.6 },
  painter: { colour: 0xff5fd2, beam: "dotted", width: 0.1, linger: 0.8, tracer: 0, trail: 0, blast: 0.3 },
  smoke: { colour: 0xd8dde2, beam: "none", width: 0.22, linger: 0, tracer: 0.6, trail: 0.8, blast: 0 },
};

export interface ChassisAppearance {
  readonly label: string;
  readonly icon: string; // SVG path in a 24 by 24 box, facing up
}

export const CHASSIS: Record<ChassisName, ChassisAppearance> = {
  scout: {
    label: "Scout",
    icon: "M12 2v5M8 4a5.5 5.5 0 0 0 8 0M9 8h6l1.5 5-4.5 3-4.5-3zM9 15l-2 3 1.5 4M15 15l2 3-1.5 4",
  },
  light: {
    label: "Light",
    icon: "M12 3l4 5v4l-4 4-4-4V8zM8 10H4v3M16 10h4v3M9.5 14.500L6 17l2.500 5M14.500 14.500L18 17l-2.500 5",
  },
  medium: { label: "Medium", icon: "M10 2h4v3h-4zM7 6h10l1 7-4 3h-4l-4-3zM6 7H3v8M18 7h3v8M9 16v6H7M15 16v6h2" },
  heavy: { label: "Heavy", icon: "M7 8h10v7l-3 2h-4l-3-2zM2 3h5v8H2zM17 3h5v8h-5zM10 5h4v3h-4zM8 17v5H5M16 17v5h3" },
};

export interface RangeStyle {
  readonly label: string; // in panels
  readonly colour: number;
  readonly dash: number; // length of a dash with its gap [vox]
  readonly gap: number; // share of the gap; bubbles have bands instead
}

/** Kind of a range: an emitter's ECM or ECCM, or the selected mech's radar. */
export type RangeKind = "ecm" | "eccm" | "radar";

/** Violet, mint and pale yellow are distinct from each other and from the teams; rings differ in dashes as well. */
export const RANGE_STYLES: Record<RangeKind, RangeStyle> = {
  ecm: { label: "ECM", colour: 0xa37bff, dash: 3, gap: 0.45 },
  eccm: { label: "ECCM", colour: 0x5fe3b2, dash: 3, gap: 0 },
  radar: { label: "radar", colour: 0xfff3b0, dash: 0.8, gap: 0.5 },
};

export const SCENE = {
  skyTop: 0x2b5684,
  skyLow: 0xa9bccb,
  sun: 0xffe6c4,
  hemisphereSky: 0xbcd6ee,
  hemisphereGround: 0x6f5f4a,
  apron: 0x3d4650,
  heatGlow: 0xff6a1a,
  smoke: 0xd3d8de, // of smoke clouds
} as const;

export const POINT_DEFENCE = { colour: 0xbfe9ff, width: 0.12, linger: 0.26, blast: 0.75, astray: 1.1 } as const;
