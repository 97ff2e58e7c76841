// Coordinate spaces and the transforms between them; a matrix is called b_from_a. Voxel space is the simulator's: x, y
// on the ground, z up, one unit per voxel, origin at the map's corner. World space is three.js': y up, one unit per
// voxel, same origin. Mech space: feet at the origin, x forward, y up, z right. Angles are radians, counter-clockwise
// seen from above in all of them.

import { Matrix4, Vector3 } from "three";

export const FIELD_OF_VIEW = (42 * Math.PI) / 180;

export const world_from_voxel: Matrix4 = new Matrix4().makeRotationX(-Math.PI / 2);

export function worldPoint(x: number, y: number, z: number, out: Vector3): Vector3 {
  return out.set(x, z, -y);
}

export function voxelPoint(world: Vector3, out: Vector3): Vector3 {
  return out.set(world.x, -world.z, world.y);
}

/** Return the index of a voxel in grids and edits: x fastest, z slowest. */
export function cellIndex(x: number, y: number, z: number, sizeX: number, sizeY: number): number {
  return x + sizeX * (y + sizeY * z);
}

export function cellCoords(cell: number, sizeX: number, sizeY: number): [number, number, number] {
  const column = cell % (sizeX * sizeY);
  return [column % sizeX, Math.floor(column / sizeX), Math.floor(cell / (sizeX * sizeY))];
}

export function wrapAngle(angle: number): number {
  const turns = Math.round(angle / (2 * Math.PI));
  return angle - turns * 2 * Math.PI;
}

/** Return the angle at a share of the short way from `a` to `b`. */
export function mixAngle(a: number, b: number, share: number): number {
  return a + wrapAngle(b - a) * share;
}
