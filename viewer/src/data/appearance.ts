// Appearance of a map beyond its materials: the same solid voxel is a house, a rock or a tree, and the ground is paved
// near houses, green under trees, scorched by lava and wet near water. Pure, for rendering only; computed once per map.

import { Appearance, MATERIAL_APPEARANCE } from "../palette";
import type { MaterialName } from "../protocol.gen";
import type { World } from "./replay";

/** A map prepared for rendering. */
export interface Scenery {
  readonly appearances: Uint8Array; // appearance of each voxel, x fastest
  readonly tints: Uint8Array; // facade style of the house on each column, 0 to TINTS - 1, shape [y, x]
  readonly soil: Uint8Array; // proximity of plants, houses, lava and water, 0 to 255, shape [y, x, 4]
  readonly top: number; // height above which all voxels are air [vox]
}

export const TINTS = 8; // number of facade styles
const ROCK_TOP = 3; // most height of a boulder [vox]
const ROCK_AREA = 64; // most columns of a boulder
const ROCK_FILL = 0.4; // least share of its bounding box that a boulder fills
const MASSIF_AREA = 1200; // larger solid groups are mountains [columns]
const TREE_TOP = 8; // most height of a tree [vox]
const LEAFY_SHARE = 0.03; // share of columns touched by leaves from which a small group is trees and rocks
const GROVE_AREA = 90; // most area of such a group [columns]
const GROVE_SHARE = 0.2; // the same share for larger groups
const CROWN_FOOT = 3; // small groups that start at this height are tree crowns [vox]
const CROWN_AREA = 12; // most columns of a tree crown
const STUMP_AREA = 4; // most columns of a trunk without leaves, on green ground
const GREEN = 40; // least plant proximity of ground on which such groups are trunks, 0 to 255
const NEAR = [6, 7, 4, 4] as const; // radius of influence of plants, houses, lava and water on the ground [vox]

/** Return the appearance of each material id by its name in the header; unknown materials are concrete. */
export function appearanceTable(names: readonly string[]): Uint8Array {
  return Uint8Array.from(names, (name) => MATERIAL_APPEARANCE[name as MaterialName] ?? Appearance.CONCRETE);
}

/** A connected group of columns that hold solid voxels. */
interface Group {
  columns: number[]; // indices into [y, x]
  top: number; // height of the highest solid voxel [vox]
  foot: number; // height of the lowest solid voxel's bottom [vox]
  leafy: number; // number of columns touched by leaves
  box: [number, number, number, number]; // x0, y0, x1, y1, inclusive
}

/** Classify a group of solid columns; returns the appearance per column, since a group of trees contains rocks. */
function classifyGroup(group: Group, tops: Uint8Array, green: boolean): (column: number) => Appearance {
  const [x0, y0, x1, y1] = group.box;
  const area = group.columns.length;
  const fill = area / ((x1 - x0 + 1) * (y1 - y0 + 1));
  // the rest of a tree after the ground was cleared floats, and is drawn as a crown
  if (group.foot >= CROWN_FOOT && area <= CROWN_AREA && group.top <= TREE_TOP) return () => Appearance.FOLIAGE;
  if (
    group.top <= TREE_TOP &&
    group.leafy / area >= LEAFY_SHARE &&
    (area <= GROVE_AREA || group.leafy / area >= GROVE_SHARE)
  )
    return (column) => (tops[column] > ROCK_TOP || area <= STUMP_AREA ? Appearance.BARK : Appearance.ROCK);
  if (area <= STUMP_AREA && group.top <= TREE_TOP && green) return () => Appearance.BARK;
  if (area > MASSIF_AREA) return () => Appearance.ROCK;
  const boulder = group.top <= ROCK_TOP && area <= ROCK_AREA && fill >= ROCK_FILL;
  return () => (boulder ? Appearance.ROCK : Appearance.CONCRETE);
}

/** Solid voxels of each column, shape [y, x]. */
interface SolidColumns {
  tops: Uint8Array; // top of the highest solid voxel, 0 for none
  feet: Uint8Array; // bottom of the lowest solid voxel
  leafy: Uint8Array; // whether leaves touch one of them
}

function solidColumns(appearances: Uint8Array, size: readonly number[]): SolidColumns {
  const [sizeX, sizeY, sizeZ] = size;
  const layer = sizeX * sizeY;
  const tops = new Uint8Array(layer);
  const feet = new Uint8Array(layer);
  const leafy = new Uint8Array(layer);
  for (let z = 0; z < sizeZ; z++) {
    for (let column = 0; column < layer; column++) {
      const cell = column + z * layer;
      if (appearances[cell] !== Appearance.CONCRETE) continue;
      if (tops[column] === 0) feet[column] = z;
      tops[column] = z + 1;
      const x = column % sizeX;
      const beside =
        (x > 0 && appearances[cell - 1] === Appearance.FOLIAGE) ||
        (x < sizeX - 1 && appearances[cell + 1] === Appearance.FOLIAGE);
      const along =
        appearances[cell - sizeX] === Appearance.FOLIAGE || appearances[cell + sizeX] === Appearance.FOLIAGE;
      if (beside || along || appearances[cell + layer] === Appearance.FOLIAGE) leafy[column] = 1;
    }
  }
  return { tops, feet, leafy };
}

/** Return the group of columns connected to `start`, marking them as visited. */
function collect(start: number, columns: SolidColumns, seen: Uint8Array, size: readonly number[]): Group {
  const { tops, feet, leafy } = columns;
  const [sizeX, sizeY, sizeZ] = size;
  const group: Group = { columns: [], top: 0, foot: sizeZ, leafy: 0, box: [sizeX, sizeY, 0, 0] };
  const open = [start];
  seen[start] = 1;
  for (let column = open.pop(); column !== undefined; column = open.pop()) {
    const [x, y] = [column % sizeX, Math.floor(column / sizeX)];
    group.columns.push(column);
    group.top = Math.max(group.top, tops[column]);
    group.foot = Math.min(group.foot, feet[column]);
    group.leafy += leafy[column];
    const [x0, y0, x1, y1] = group.box;
    group.box = [Math.min(x0, x), Math.min(y0, y), Math.max(x1, x), Math.max(y1, y)];
    const beside = [x > 0 ? column - 1 : -1, x < sizeX - 1 ? column + 1 : -1, column - sizeX, column + sizeX];
    for (const next of beside) {
      if (next < 0 || next >= tops.length || tops[next] === 0 || seen[next]) continue;
      seen[next] = 1;
      open.push(next);
    }
  }
  return group;
}

/** Blur a mask twice with a box filter of about `radius`. */
function blur(mask: Float32Array, size: readonly number[], radius: number): Float32Array {
  const [sizeX, sizeY] = size;
  let from = mask;
  for (const [count, step, lines, lineStep] of [
    [sizeX, 1, sizeY, sizeX],
    [sizeY, sizeX, sizeX, 1],
    [sizeX, 1, sizeY, sizeX],
    [sizeY, sizeX, sizeX, 1],
  ]) {
    const to = new Float32Array(from.length);
    const half = Math.ceil(radius / 2);
    for (let line = 0; line < lines; line++) {
      const base = line * lineStep;
      let sum = 0;
      for (let i = -half; i < count; i++) {
        if (i + half < count) sum += from[base + (i + half) * step];
        if (i - half - 1 >= 0) sum -= from[base + (i - half - 1) * step];
        if (i >= 0) to[base + i * step] = sum / (2 * half + 1);
      }
    }
    from = to;
  }
  return from;
}

/** Return the proximity of plants, houses, lava and water per column, shape [y, x, 4]. */
function soilOf(appearances: Uint8Array, size: readonly number[]): Uint8Array {
  const layer = size[0] * size[1];
  const masks = NEAR.map(() => new Float32Array(layer));
  const kinds = new Map<number, number>([
    [Appearance.FOLIAGE, 0],
    [Appearance.BARK, 0],
    [Appearance.CONCRETE, 1],
    [Appearance.STEEL, 1],
    [Appearance.LAVA, 2],
    [Appearance.WATER, 3],
  ]);
  for (let cell = 0; cell < appearances.length; cell++) {
    const kind = kinds.get(appearances[cell]);
    if (kind !== undefined) masks[kind][cell % layer] = 1;
  }
  const gain = [2.2, 2.6, 2.2, 2.2];
  const soil = new Uint8Array(layer * 4);
  masks.forEach((mask, kind) => {
    const near = blur(mask, size, NEAR[kind]);
    for (let i = 0; i < layer; i++) soil[i * 4 + kind] = Math.min(255, near[i] * gain[kind] * 255);
  });
  return soil;
}

/** Turn the part of a trunk above its lowest visible leaves into leaves. */
function growCrown(appearances: Uint8Array, column: number, sizeX: number, layer: number): void {
  let crown = -1; // cell from which leaves hide the trunk
  for (let cell = column; cell < appearances.length; cell += layer) {
    const around = [cell, cell - 1, cell + 1, cell - sizeX, cell + sizeX];
    if (around.some((other) => appearances[other] === Appearance.FOLIAGE)) crown = cell;
  }
  if (crown < 0) return;
  for (let cell = crown; cell < appearances.length; cell += layer)
    if (appearances[cell] === Appearance.BARK) appearances[cell] = Appearance.FOLIAGE;
}

export function prepareScenery(world: World, materials: readonly string[]): Scenery {
  const [sizeX, sizeY] = world.size;
  const layer = sizeX * sizeY;
  const table = appearanceTable(materials);
  const appearances = world.material.map((id) => table[id] ?? Appearance.CONCRETE);
  const soil = soilOf(appearances, world.size); // before trees are classified: only leaves count as plants
  const columns = solidColumns(appearances, world.size);
  const { tops } = columns;
  const seen = new Uint8Array(layer);
  const tints = new Uint8Array(layer);
  let houses = 0;
  for (let column = 0; column < layer; column++) {
    if (tops[column] === 0 || seen[column]) continue;
    const group = collect(column, columns, seen, world.size);
    const appearanceOf = classifyGroup(group, tops, soil[column * 4] > GREEN);
    const tint = appearanceOf(column) === Appearance.CONCRETE ? houses++ % TINTS : 0;
    for (const member of group.columns) {
      const appearance = appearanceOf(member);
      tints[member] = tint;
      for (let cell = member; cell < appearances.length; cell += layer)
        if (appearances[cell] === Appearance.CONCRETE) appearances[cell] = appearance;
      if (appearance === Appearance.BARK) growCrown(appearances, member, sizeX, layer);
    }
  }
  let last = appearances.length - 1;
  while (last > 0 && appearances[last] === Appearance.AIR) last--;
  return { appearances, tints, soil: soilOf(appearances, world.size), top: Math.floor(last / layer) + 1 };
}
