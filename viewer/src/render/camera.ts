// Moves the camera toward where the state wants it: eased, so that changes of mode and target are glides, or at once
// for those who asked for less motion. When following, it swings behind the mech and comes nearer where a wall is between.

import type { PerspectiveCamera } from "three";
import { Quaternion, Vector3 } from "three";
import { LOOKS, Look } from "../palette";
import type { ViewerState } from "../state";
import { cellIndex, mixAngle, worldPoint, wrapAngle } from "../spaces";

const EASE = 7; // how fast the camera follows the state [1/s]
const YAW_EASE = 2.2; // how fast it swings behind a turning mech [1/s]
const NEAREST = [2, 2.4] as const; // least distance when a wall is behind the camera [vox], and so many heights of the mech more
const PROBE = 0.5; // step of the search for walls [vox]
const NEAR_ENOUGH = 0.004; // a camera this close to where it is wanted is there [vox]
const NEAR_ANGLE = 0.0004; // the same for its angles [rad]
const EYES = 0.24; // its eyes are this much of a mech's height above its centre
const RIDES = 0.97; // from here on it rides along exactly
const LIFT = 0.35; // the camera looks this much of a mech's height above its centre

/** What blocks the view of a following camera: terrain, but not leaves, which are cut away. */
function blocks(looks: Uint8Array, size: readonly number[], x: number, y: number, z: number): boolean {
  const [i, j, k] = [Math.floor(x), Math.floor(y), Math.floor(z)];
  if (i < 0 || j < 0 || k < 0 || i >= size[0] || j >= size[1] || k >= size[2]) return false;
  const look = looks[cellIndex(i, j, k, size[0], size[1])] as Look;
  return LOOKS[look].form === "block" && look !== Look.FOLIAGE && look !== Look.BARK;
}

/** Eased camera. */
export class CameraRig {
  readonly focus = new Vector3(); // what it looks at, in voxel space
  private readonly goal = new Vector3();
  private azimuth = 0;
  private elevation = 0.6;
  private distance = 80;
  private heading = 0; // of the followed mech, eased [rad]
  private riding = -1; // mech it looks out of, -1 for none
  private inside = 0; // how far it has got into that mech, 1 there
  private settled = false;

  constructor(private readonly camera: PerspectiveCamera) {}

  /** Be where the state wants it at once, next time. */
  jump(): void {
    this.settled = false;
  }

  /** Move for `elapsed` seconds; `looks` are the voxels now, null before they are known. Returns whether it moved. */
  update(state: ViewerState, elapsed: number, height: number, looks: Uint8Array | null, calm: boolean): boolean {
    const { camera: wanted, match, selected } = state;
    if (!match) return false;
    before.copy(this.camera.position);
    aim.copy(this.camera.quaternion);
    const ease = this.settled && !calm ? 1 - Math.exp(-EASE * elapsed) : 1;
    const inside = (wanted.mode === "first" && selected >= 0) || wanted.mode === "free";
    if (inside) return this.lookOut(state, ease, height);
    const following = wanted.mode === "follow" && selected >= 0;
    if (following) {
      const { poses } = match;
      this.goal.set(poses.x[selected], poses.y[selected], poses.z[selected] + height * LIFT);
      this.heading = this.settled ? mixAngle(this.heading, poses.yaw[selected], 1 - Math.exp(-YAW_EASE * elapsed)) : poses.yaw[selected];
      if (Math.abs(wrapAngle(poses.yaw[selected] - this.heading)) < NEAR_ANGLE) this.heading = poses.yaw[selected];
    } else {
      this.goal.set(...wanted.target);
      if (selected >= 0) this.heading = match.poses.yaw[selected];
    }
    const distance = following && looks ? this.clearDistance(wanted.distance, NEAREST[0] + NEAREST[1] * height, looks, match.header.world.size) : wanted.distance;
    const azimuth = wanted.azimuth + (following ? this.heading : 0);
    this.focus.lerp(this.goal, following && this.settled ? Math.max(ease, 1 - Math.exp(-12 * elapsed)) : ease);
    this.azimuth = mixAngle(this.azimuth, azimuth, ease);
    this.elevation += (wanted.elevation - this.elevation) * ease;
    this.distance += (distance - this.distance) * ease;
    this.arrive(azimuth, wanted.elevation, distance);
    this.settled = true;
    this.place();
    return !before.equals(this.camera.position) || !aim.equals(this.camera.quaternion);
  }

  /** Stand in the selected mech, or where one flies, and look out; the way there is eased, riding along is not. */
  private lookOut(state: ViewerState, ease: number, height: number): boolean {
    const { camera: wanted, match, selected } = state;
    const riding = wanted.mode === "first";
    if (riding && match) {
      const { x, y, z, yaw } = match.poses;
      this.heading = yaw[selected];
      this.goal.set(x[selected], y[selected], z[selected] + height * EYES);
    } else {
      this.goal.set(...wanted.target);
    }
    const arrived = riding && this.riding === selected && this.inside > RIDES;
    this.inside = riding && this.riding !== selected ? 0 : this.inside + (1 - this.inside) * ease;
    this.riding = riding ? selected : -1;
    const azimuth = wanted.azimuth + (riding ? this.heading : 0);
    this.focus.lerp(this.goal, arrived ? 1 : ease);
    this.azimuth = arrived ? azimuth : mixAngle(this.azimuth, azimuth, ease);
    this.elevation += (wanted.elevation - this.elevation) * ease;
    this.distance = 0;
    this.arrive(azimuth, wanted.elevation, 0);
    this.settled = true;
    const flat = Math.cos(this.elevation);
    worldPoint(this.focus.x, this.focus.y, this.focus.z, this.camera.position);
    this.camera.up.set(0, 1, 0);
    this.camera.lookAt(worldPoint(
      this.focus.x + Math.cos(this.azimuth) * flat, this.focus.y + Math.sin(this.azimuth) * flat, this.focus.z + Math.sin(this.elevation), spot,
    ));
    this.camera.updateMatrixWorld();
    return !before.equals(this.camera.position) || !aim.equals(this.camera.quaternion);
  }

  /** Come to rest where the rest of the way is too short to be seen. */
  private arrive(azimuth: number, elevation: number, distance: number): void {
    if (this.focus.distanceTo(this.goal) < NEAR_ENOUGH) this.focus.copy(this.goal);
    if (Math.abs(wrapAngle(azimuth - this.azimuth)) < NEAR_ANGLE) this.azimuth = azimuth;
    if (Math.abs(elevation - this.elevation) < NEAR_ANGLE) this.elevation = elevation;
    if (Math.abs(distance - this.distance) < NEAR_ENOUGH) this.distance = distance;
  }

  private place(): void {
    const flat = Math.cos(this.elevation) * this.distance;
    worldPoint(
      this.focus.x + Math.cos(this.azimuth) * flat,
      this.focus.y + Math.sin(this.azimuth) * flat,
      Math.max(0.6, this.focus.z + Math.sin(this.elevation) * this.distance),
      this.camera.position,
    );
    // looking straight down, up on the screen is away from the camera's side
    const upright = this.elevation < 1.5;
    this.camera.up.set(upright ? 0 : -Math.cos(this.azimuth), upright ? 1 : 0, upright ? 0 : Math.sin(this.azimuth));
    this.camera.lookAt(worldPoint(this.focus.x, this.focus.y, this.focus.z, spot));
    this.camera.updateMatrixWorld();
  }

  /** The distance at which nothing stands between the camera and what it looks at. */
  private clearDistance(wanted: number, nearest: number, looks: Uint8Array, size: readonly number[]): number {
    const flat = Math.cos(this.elevation);
    const way = [Math.cos(this.azimuth) * flat, Math.sin(this.azimuth) * flat, Math.sin(this.elevation)];
    for (let d = nearest; d < wanted; d += PROBE) {
      if (blocks(looks, size, this.goal.x + way[0] * d, this.goal.y + way[1] * d, this.goal.z + way[2] * d))
        return Math.max(nearest, d - PROBE);
    }
    return wanted;
  }
}

const spot = new Vector3();
const before = new Vector3();
const aim = new Quaternion();
