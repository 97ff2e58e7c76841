// Moves the camera toward the state's camera: eased, so that changes of mode and target are smooth, or at once with
// reduced motion. In follow mode it swings behind the mech and moves closer when a wall is in between.

import type { PerspectiveCamera } from "three";
import { Quaternion, Vector3 } from "three";
import { WALLS, isInside } from "../data/line_of_sight";
import { type Point, eyeOf } from "../framing";
import type { ViewerState } from "../state";
import { mixAngle, worldPoint, wrapAngle } from "../spaces";

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
    const { poses } = match;
    const riding = desired.mode === "first" && selected >= 0;
    const following = desired.mode === "follow" && selected >= 0;
    const inside = riding || desired.mode === "free";
    const turns = 1 - Math.exp(-YAW_EASE * elapsed);
    if (selected >= 0) {
      const yaw = poses.yaw[selected];
      const swings = following && this.settled && Math.abs(wrapAngle(yaw - this.heading)) >= NEAR_ANGLE;
      this.heading = swings ? mixAngle(this.heading, yaw, turns) : yaw;
    }
    if (riding || following)
      this.goal.set(poses.x[selected], poses.y[selected], poses.z[selected] + height * (riding ? EYES : LIFT));
    else this.goal.set(...desired.target);
    // moving into a mech is eased, moving with it is not
    const arrived = riding && this.riding === selected && this.inside > RIDES;
    this.inside = riding && this.riding === selected ? this.inside + (1 - this.inside) * ease : 0;
    this.riding = riding ? selected : -1;
    const most = inside ? 0 : desired.distance;
    const distance =
      following && appearances
        ? this.clearDistance(most, NEAREST[0] + NEAREST[1] * height, appearances, match.header.world.size)
        : most;
    const azimuth = desired.azimuth + (riding || following ? this.heading : 0);
    const follows = following && this.settled ? Math.max(ease, 1 - Math.exp(-12 * elapsed)) : ease;
    this.focus.lerp(this.goal, arrived ? 1 : follows);
    this.azimuth = arrived ? azimuth : mixAngle(this.azimuth, azimuth, ease);
    this.elevation += (desired.elevation - this.elevation) * ease;
    this.distance += (distance - this.distance) * (inside ? 1 : ease);
    this.snap(azimuth, desired.elevation, distance);
    this.settled = true;
    this.place(inside);
    return !before.equals(this.camera.position) || !aim.equals(this.camera.quaternion);
  }

  /** Return whether the state's camera is that of another shot of the director; a small change is eased. */
  private isCut({ camera: { mode, target, azimuth, distance } }: ViewerState): boolean {
    if (mode !== "director") return false;
    const turn = Math.abs(wrapAngle(azimuth - this.azimuth));
    return turn > CUT_ANGLE || this.focus.distanceTo(spot.set(...target)) > distance * CUT_WAY;
  }

  /** Snap to the target values when the difference is invisible. */
  private snap(azimuth: number, elevation: number, distance: number): void {
    if (this.focus.distanceTo(this.goal) < NEAR_ENOUGH) this.focus.copy(this.goal);
    if (Math.abs(wrapAngle(azimuth - this.azimuth)) < NEAR_ANGLE) this.azimuth = azimuth;
    if (Math.abs(elevation - this.elevation) < NEAR_ANGLE) this.elevation = elevation;
    if (Math.abs(distance - this.distance) < NEAR_ENOUGH) this.distance = distance;
  }

  private place(inside: boolean): void {
    const [x, y, z] = this.pointAt(this.focus, this.distance);
    worldPoint(x, y, inside ? z : Math.max(0.6, z), this.camera.position);
    // looking straight down, screen-up points away from the camera's azimuth
    const upright = inside || this.elevation < 1.5;
    this.camera.up.set(upright ? 0 : -Math.cos(this.azimuth), upright ? 1 : 0, upright ? 0 : Math.sin(this.azimuth));
    this.camera.lookAt(worldPoint(...(inside ? this.pointAt(this.focus, 1) : this.focus.toArray()), spot));
    this.camera.updateMatrixWorld();
  }

  /** Return the point at a distance from a target in the camera's direction. */
  private pointAt({ x, y, z }: Vector3, distance: number): Point {
    const { azimuth, elevation } = this;
    return eyeOf({ target: [x, y, z], distance, azimuth, elevation });
  }

  /** Return the largest distance without a wall between camera and target. */
  private clearDistance(desired: number, nearest: number, appearances: Uint8Array, size: readonly number[]): number {
    for (let d = nearest; d < desired; d += PROBE) {
      if (isInside(appearances, size, this.pointAt(this.goal, d), WALLS)) return Math.max(nearest, d - PROBE);
    }
    return desired;
  }
}

const spot = new Vector3();
const before = new Vector3();
const aim = new Quaternion();
