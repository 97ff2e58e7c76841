// What the eye needs beyond materials: the same solid voxel is a house, a rock or a tree, and the ground is paved near
// houses, green under trees, scorched by lava and wet by water. Pure and only for show; computed once per map.

import { Look, MATERIAL_LOOK } from "../palette";
import type { MaterialName } from "../protocol.gen";
import type { World } from "./replay";

/** A map as the renderer wants it. */
export interface Scenery {
  readonly looks: Uint8Array; // look of each voxel, x fastest
  readonly tints: Uint8Array; // style of the house on each column, 0 to TINTS - 1, shape [y, x]
  readonly soil: Uint8Array; // nearness of green, houses, lava and water, 0 to 255, shape [y, x, 4]
  readonly top: number; // height above which there is only air [vox]
}

export const TINTS = 8; // styles of houses
const ROCK_TOP = 3; // solid things no higher than this, and small, are boulders [vox]
const ROCK_AREA = 64; // most columns of a boulder
const ROCK_FILL = 0.4; // least share of its bounding box that a boulder fills
const MASSIF_AREA = 1200; // solid things wider than this are mountains [columns]
const TREE_TOP = 8; // trees are no higher than this [vox]
const LEAFY_SHARE = 0.03; // share of its columns under leaves that makes a small thing a group of trees and rocks
const GROVE_AREA = 90; // how small that is [columns]
const GROVE_SHARE = 0.2; // and for a larger one
const CROWN_FOOT = 3; // from this height on small things without a foot are crowns [vox]
const CROWN_AREA = 12; // most columns of one
const STUMP_AREA = 4; // smaller things in the green are trunks without leaves [columns]
const GREEN = 40; // how green the ground is on which solid stumps are trunks, 0 to 255
const NEAR = [6, 7, 4, 4] as const; // how far green, houses, lava and water change the ground [vox]

/** Look of each material id, by the names that a header gives; unknown materials are concrete. */
export function lookTable(names: readonly string[]): Uint8Array {
  return Uint8Array.from(names, (name) => MATERIAL_LOOK[name as MaterialName] ?? Look.CONCRETE);
}

/** A connected group of columns that hold solid voxels. */
interface Group {
  columns: number[]; // indices into [y, x]
  top: number; // height of the highest solid voxel [vox]
  foot: number; // height of the lowest solid voxel's bottom [vox]
  leafy: number; // columns that leaves touch
  box: [number, number, number, number]; // x0, y0, x1, y1, inclusive
}

/** What a group of solid columns is; in a group of trees the low columns are rocks between them. */
function looksOf(group: Group, tops: Uint8Array, green: boolean): (column: number) => Look {
  const [x0, y0, x1, y1] = group.box;
  const area = group.columns.length;
  const fill = area / ((x1 - x0 + 1) * (y1 - y0 + 1));
  // what clearing the ground left of a tree hangs in the air, and passes for a crown
  if (group.foot >= CROWN_FOOT && area <= CROWN_AREA && group.top <= TREE_TOP) return () => Look.FOLIAGE;
  if (group.top <= TREE_TOP && group.leafy / area >= LEAFY_SHARE && (area <= GROVE_AREA || group.leafy / area >= GROVE_SHARE))
    return (column) => (tops[column] > ROCK_TOP || area <= STUMP_AREA ? Look.BARK : Look.ROCK);
  if (area <= STUMP_AREA && group.top <= TREE_TOP && green) return () => Look.BARK;
  if (area > MASSIF_AREA) return () => Look.ROCK;
  const boulder = group.top <= ROCK_TOP && area <= ROCK_AREA && fill >= ROCK_FILL;
  return () => (boulder ? Look.ROCK : Look.CONCRETE);
}

/** What stands on each column, shape [y, x]. */
interface SolidColumns {
  tops: Uint8Array; // height of the highest solid voxel, 0 for none
  feet: Uint8Array; // height of the bottom of the lowest one
  leafy: Uint8Array; // whether a leaf touches one of them
}

/** Look along all columns for solid voxels. */
function solidColumns(looks: Uint8Array, size: readonly number[]): SolidColumns {
  const [sizeX, sizeY, sizeZ] = size;
  const layer = sizeX * sizeY;
  const tops = new Uint8Array(layer);
  const feet = new Uint8Array(layer);
  const leafy = new Uint8Array(layer);
  for (let z = 0; z < sizeZ; z++) {
    for (let column = 0; column < layer; column++) {
      const cell = column + z * layer;
      if (looks[cell] !== Look.CONCRETE) continue;
      if (tops[column] === 0) feet[column] = z;
      tops[column] = z + 1;
      const x = column % sizeX;
      const beside = (x > 0 && looks[cell - 1] === Look.FOLIAGE) || (x < sizeX - 1 && looks[cell + 1] === Look.FOLIAGE);
      const along = looks[cell - sizeX] === Look.FOLIAGE || looks[cell + sizeX] === Look.FOLIAGE;
      if (beside || along || looks[cell + layer] === Look.FOLIAGE) leafy[column] = 1;
    }
  }
  return { tops, feet, leafy };
}

/** Collect the group of columns connected to `start`, marking them as seen. */
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

/** Spread a mask over its neighbourhood: two box blurs, scaled so that its edge still counts. */
function spread(mask: Float32Array, size: readonly number[], reach: number): Float32Array {
  const [sizeX, sizeY] = size;
  let from = mask;
  for (const [count, step, lines, lineStep] of [
    [sizeX, 1, sizeY, sizeX], [sizeY, sizeX, sizeX, 1], [sizeX, 1, sizeY, sizeX], [sizeY, sizeX, sizeX, 1],
  ]) {
    const to = new Float32Array(from.length);
    const half = Math.ceil(reach / 2);
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

/** How near each column is to green, houses, lava and water. */
function soilOf(looks: Uint8Array, size: readonly number[]): Uint8Array {
  const layer = size[0] * size[1];
  const masks = NEAR.map(() => new Float32Array(layer));
  const kinds = new Map<number, number>([
    [Look.FOLIAGE, 0], [Look.BARK, 0], [Look.CONCRETE, 1], [Look.STEEL, 1], [Look.LAVA, 2], [Look.WATER, 3],
  ]);
  for (let cell = 0; cell < looks.length; cell++) {
    const kind = kinds.get(looks[cell]);
    if (kind !== undefined) masks[kind][cell % layer] = 1;
  }
  const gain = [2.2, 2.6, 2.2, 2.2];
  const soil = new Uint8Array(layer * 4);
  masks.forEach((mask, kind) => {
    const near = spread(mask, size, NEAR[kind]);
    for (let i = 0; i < layer; i++) soil[i * 4 + kind] = Math.min(255, near[i] * gain[kind] * 255);
  });
  return soil;
}

/** Turn what stands out of the leaves of a trunk into leaves. */
function growCrown(looks: Uint8Array, column: number, sizeX: number, layer: number): void {
  let crown = -1; // from where on the trunk is hidden
  for (let cell = column; cell < looks.length; cell += layer) {
    const around = [cell, cell - 1, cell + 1, cell - sizeX, cell + sizeX];
    if (around.some((other) => looks[other] === Look.FOLIAGE)) crown = cell;
  }
  if (crown < 0) return;
  for (let cell = crown; cell < looks.length; cell += layer) if (looks[cell] === Look.BARK) looks[cell] = Look.FOLIAGE;
}

/** Prepare a map for showing. */
export function prepareScenery(world: World, materials: readonly string[]): Scenery {
  const [sizeX, sizeY] = world.size;
  const layer = sizeX * sizeY;
  const table = lookTable(materials);
  const looks = world.material.map((id) => table[id] ?? Look.CONCRETE);
  const soil = soilOf(looks, world.size); // before trees and rocks are told from houses: leaves alone make it green
  const columns = solidColumns(looks, world.size);
  const { tops } = columns;
  const seen = new Uint8Array(layer);
  const tints = new Uint8Array(layer);
  let houses = 0;
  for (let column = 0; column < layer; column++) {
    if (tops[column] === 0 || seen[column]) continue;
    const group = collect(column, columns, seen, world.size);
    const lookOf = looksOf(group, tops, soil[column * 4] > GREEN);
    const tint = lookOf(column) === Look.CONCRETE ? houses++ % TINTS : 0;
    for (const member of group.columns) {
      const look = lookOf(member);
      tints[member] = tint;
      for (let cell = member; cell < looks.length; cell += layer) if (looks[cell] === Look.CONCRETE) looks[cell] = look;
      if (look === Look.BARK) growCrown(looks, member, sizeX, layer);
    }
  }
  let last = looks.length - 1;
  while (last > 0 && looks[last] === Look.AIR) last--;
  return { looks, tints, soil: soilOf(looks, world.size), top: Math.floor(last / layer) + 1 };
}
