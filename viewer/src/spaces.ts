// The spaces of the viewer and the named ways between them; a transform is called b_from_a, so that names cancel as
// one reads. Voxel space is the simulator's: x, y on the ground, z up, one unit per voxel, the map's corner at the
// origin. World space is three.js': y up, one unit per voxel, same origin. Mech space has the feet at the origin, x
// forward, y up, z to the right. Angles are radians, counter-clockwise seen from above in all of them.

import { Matrix4, Vector3 } from "three";

/** Angle from the lower to the upper edge of the picture [rad]. */
export const FIELD_OF_VIEW = (42 * Math.PI) / 180;

/** Turns z-up into y-up; its scale is 1, so lengths in voxels stay lengths in voxels. */
export const world_from_voxel: Matrix4 = new Matrix4().makeRotationX(-Math.PI / 2);

/** Write the world position of a voxel-space point into `out`. */
export function worldPoint(x: number, y: number, z: number, out: Vector3): Vector3 {
  return out.set(x, z, -y);
}

/** Write the voxel position of a world-space point into `out`. */
export function voxelPoint(world: Vector3, out: Vector3): Vector3 {
  return out.set(world.x, -world.z, world.y);
}

/** Unit vector in world space that a mech with heading `yaw` faces. */
export function worldForward(yaw: number, out: Vector3): Vector3 {
  return out.set(Math.cos(yaw), 0, -Math.sin(yaw));
}

/** Height of a mech's feet given the centre of its box [vox]. */
export function feetZ(centreZ: number, sizeZ: number): number {
  return centreZ - sizeZ / 2;
}

/** Index of a voxel in grids and in edits: x fastest, z slowest. */
export function cellIndex(x: number, y: number, z: number, sizeX: number, sizeY: number): number {
  return x + sizeX * (y + sizeY * z);
}

/** Coordinates of a voxel from its index. */
export function cellCoords(cell: number, sizeX: number, sizeY: number): [number, number, number] {
  const column = cell % (sizeX * sizeY);
  return [column % sizeX, Math.floor(column / sizeX), Math.floor(cell / (sizeX * sizeY))];
}

/** Fold an angle into (-pi, pi]. */
export function wrapAngle(angle: number): number {
  const turns = Math.round(angle / (2 * Math.PI));
  return angle - turns * 2 * Math.PI;
}

/** Angle `share` of the way from `a` to `b`, the short way round. */
export function mixAngle(a: number, b: number, share: number): number {
  return a + wrapAngle(b - a) * share;
}
