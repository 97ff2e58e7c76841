// Moves the camera toward the state's camera: eased, so that changes of mode and target are smooth, or at once with
// reduced motion. In follow mode it swings behind the mech and moves closer when a wall is in between.

import type { PerspectiveCamera } from "three";
import { Quaternion, Vector3 } from "three";
import { APPEARANCES, Appearance } from "../palette";
import type { ViewerState } from "../state";
import { cellIndex, mixAngle, worldPoint, wrapAngle } from "../spaces";

const EASE = 7; // rate of easing toward the state [1/s]
const YAW_EASE = 2.2; // rate of swinging behind a turning mech [1/s]
const NEAREST = [2, 2.4] as const; // least distance in front of a wall: constant [vox] plus this many mech heights
const PROBE = 0.5; // search step for walls [vox]
const NEAR_ENOUGH = 0.004; // distance at which the camera snaps to its target [vox]
const NEAR_ANGLE = 0.0004; // angle at which it snaps [rad]
const CUT_ANGLE = 0.3; // turn from which a change of the director's camera is a cut [rad]
const CUT_WAY = 0.3; // way of its target from which it is one, relative to the distance
const EYES = 0.24; // eye height above the mech's centre, relative to its height
const RIDES = 0.97; // progress from which the camera moves rigidly with the mech
const LIFT = 0.35; // height of the target above the mech's centre, relative to its height

/** Return whether a voxel blocks the follow camera: terrain, but not trees, which are cut away. */
function blocks(appearances: Uint8Array, size: readonly number[], x: number, y: number, z: number): boolean {
  const [i, j, k] = [Math.floor(x), Math.floor(y), Math.floor(z)];
  if (i < 0 || j < 0 || k < 0 || i >= size[0] || j >= size[1] || k >= size[2]) return false;
  const appearance = appearances[cellIndex(i, j, k, size[0], size[1])] as Appearance;
  return (
    APPEARANCES[appearance].form === "block" && appearance !== Appearance.FOLIAGE && appearance !== Appearance.BARK
  );
}

export class CameraRig {
  readonly focus = new Vector3(); // current target, in voxel space
  private readonly goal = new Vector3();
  private azimuth = 0;
  private elevation = 0.6;
  private distance = 80;
  private heading = 0; // eased heading of the followed mech [rad]
  private riding = -1; // mech of the first-person view, -1 for none
  private inside = 0; // progress of moving into that mech, 0 to 1
  private settled = false;

  constructor(private readonly camera: PerspectiveCamera) {}

  /** Move to the state's camera without easing at the next update. */
  jump(): void {
    this.settled = false;
  }

  /**
   * Advance by `elapsed` seconds; `appearances` are the current voxels, null before they are loaded. Returns whether
   * the camera moved.
   */
  update(
    state: ViewerState,
    elapsed: number,
    height: number,
    appearances: Uint8Array | null,
    reducedMotion: boolean,
  ): boolean {
    const { camera: desired, match, selected } = state;
    if (!match) return false;
    before.copy(this.camera.position);
    aim.copy(this.camera.quaternion);
    const eases = this.settled && !reducedMotion && !this.isCut(state);
    const ease = eases ? 1 - Math.exp(-EASE * elapsed) : 1;
    const inside = (desired.mode === "first" && selected >= 0) || desired.mode === "free";
    if (inside) return this.updateInside(state, ease, height);
    const following = desired.mode === "follow" && selected >= 0;
    if (following) {
      const { poses } = match;
      this.goal.set(poses.x[selected], poses.y[selected], poses.z[selected] + height * LIFT);
      this.heading = this.settled
        ? mixAngle(this.heading, poses.yaw[selected], 1 - Math.exp(-YAW_EASE * elapsed))
        : poses.yaw[selected];
      if (Math.abs(wrapAngle(poses.yaw[selected] - this.heading)) < NEAR_ANGLE) this.heading = poses.yaw[selected];
    } else {
      this.goal.set(...desired.target);
      if (selected >= 0) this.heading = match.poses.yaw[selected];
    }
    const distance =
      following && appearances
        ? this.clearDistance(desired.distance, NEAREST[0] + NEAREST[1] * height, appearances, match.header.world.size)
        : desired.distance;
    const azimuth = desired.azimuth + (following ? this.heading : 0);
    this.focus.lerp(this.goal, following && this.settled ? Math.max(ease, 1 - Math.exp(-12 * elapsed)) : ease);
    this.azimuth = mixAngle(this.azimuth, azimuth, ease);
    this.elevation += (desired.elevation - this.elevation) * ease;
    this.distance += (distance - this.distance) * ease;
    this.snap(azimuth, desired.elevation, distance);
    this.settled = true;
    this.place();
    return !before.equals(this.camera.position) || !aim.equals(this.camera.quaternion);
  }

  /** Return whether the state's camera is that of another shot of the director; a small change is eased. */
  private isCut({ camera: { mode, target, azimuth, distance } }: ViewerState): boolean {
    if (mode !== "director") return false;
    const turn = Math.abs(wrapAngle(azimuth - this.azimuth));
    return turn > CUT_ANGLE || this.focus.distanceTo(spot.set(...target)) > distance * CUT_WAY;
  }

  /** Update the first-person or free camera; moving into a mech is eased, moving with it is not. */
  private updateInside(state: ViewerState, ease: number, height: number): boolean {
    const { camera: desired, match, selected } = state;
    const riding = desired.mode === "first";
    if (riding && match) {
      const { x, y, z, yaw } = match.poses;
      this.heading = yaw[selected];
      this.goal.set(x[selected], y[selected], z[selected] + height * EYES);
    } else {
      this.goal.set(...desired.target);
    }
    const arrived = riding && this.riding === selected && this.inside > RIDES;
    this.inside = riding && this.riding !== selected ? 0 : this.inside + (1 - this.inside) * ease;
    this.riding = riding ? selected : -1;
    const azimuth = desired.azimuth + (riding ? this.heading : 0);
    this.focus.lerp(this.goal, arrived ? 1 : ease);
    this.azimuth = arrived ? azimuth : mixAngle(this.azimuth, azimuth, ease);
    this.elevation += (desired.elevation - this.elevation) * ease;
    this.distance = 0;
    this.snap(azimuth, desired.elevation, 0);
    this.settled = true;
    const flat = Math.cos(this.elevation);
    worldPoint(this.focus.x, this.focus.y, this.focus.z, this.camera.position);
    this.camera.up.set(0, 1, 0);
    this.camera.lookAt(
      worldPoint(
        this.focus.x + Math.cos(this.azimuth) * flat,
        this.focus.y + Math.sin(this.azimuth) * flat,
        this.focus.z + Math.sin(this.elevation),
        spot,
      ),
    );
    this.camera.updateMatrixWorld();
    return !before.equals(this.camera.position) || !aim.equals(this.camera.quaternion);
  }

  /** Snap to the target values when the difference is invisible. */
  private snap(azimuth: number, elevation: number, distance: number): void {
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
    // looking straight down, screen-up points away from the camera's azimuth
    const upright = this.elevation < 1.5;
    this.camera.up.set(upright ? 0 : -Math.cos(this.azimuth), upright ? 1 : 0, upright ? 0 : Math.sin(this.azimuth));
    this.camera.lookAt(worldPoint(this.focus.x, this.focus.y, this.focus.z, spot));
    this.camera.updateMatrixWorld();
  }

  /** Return the largest distance without a wall between camera and target. */
  private clearDistance(desired: number, nearest: number, appearances: Uint8Array, size: readonly number[]): number {
    const flat = Math.cos(this.elevation);
    const way = [Math.cos(this.azimuth) * flat, Math.sin(this.azimuth) * flat, Math.sin(this.elevation)];
    for (let d = nearest; d < desired; d += PROBE) {
      if (blocks(appearances, size, this.goal.x + way[0] * d, this.goal.y + way[1] * d, this.goal.z + way[2] * d))
        return Math.max(nearest, d - PROBE);
    }
    return desired;
  }
}

const spot = new Vector3();
const before = new Vector3();
const aim = new Quaternion();
