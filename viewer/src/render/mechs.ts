// The mechs in the scene: one instanced mesh per class, filled each frame from the current poses. Standing, falling and
// dying are functions of the pose and of the time since death.

import * as THREE from "three";
import { type Poses, gaitPhase, smooth } from "../interpolate";
import { TEAMS } from "../palette";
import { CHASSIS_NAMES, type ChassisName, type Header } from "../protocol.gen";
import { worldPoint } from "../spaces";
import { mechDepthMaterial, mechMaterial } from "./mech_material";
import { MODELS } from "./mech_models";
import type { PlainUniforms } from "./plain_shader";
import { SILHOUETTE_ORDER, plainMechMaterial, silhouetteMaterial } from "./plain_mechs";

const COLLAPSE_S = 0.9; // time from death to lying still
const FLASH_S = 0.18; // duration of the armour's flash after a hit
const GOLDEN = 0.618034; // phase offset between consecutive mechs, in cycles
const FULL_STRIDE = 0.55; // share of the top speed from which strides are longest
const DISH_RATE = 1.3; // rotation of radar dishes [rad/s]
const NEAR = 20; // distance within which fine models are drawn [vox]
const MECH_ORDER = 0.4; // after the terrain and the silhouettes
const FALL_ROLL = 1.42; // roll angle of a fallen mech [rad]
const WRECK_ROLL = 0.22; // angles of a wreck and of a climbing mech [rad]
const WRECK_PITCH = 0.3;
const MAX_CLIMB_PITCH = 0.12;
const CLIMB_PITCH = 0.03; // of a climb by 1 vox/s [rad]
const FALLEN_LIFT = 0.32; // a fallen mech rests on its shoulder, in widths; a wreck sinks into the ground, in heights
const WRECK_SINK = 0.16;

export interface MechDrawState {
  seconds: number; // match time
  deaths: Float64Array; // time since each mech's death [s], negative if alive
  hits: Float64Array; // time since each mech was last hit [s], Infinity for never
  selected: number; // the selected mech, -1 for none
  shown: Float32Array; // visibility of each mech, 0 hidden to 1
}

interface Squad {
  name: ChassisName;
  mesh: THREE.InstancedMesh;
  silhouette: THREE.InstancedMesh; // its parts behind walls
  fine: THREE.BufferGeometry;
  coarse: THREE.BufferGeometry; // model with fewer triangles
  mechs: number[]; // mech of each instance
  sign: THREE.InstancedBufferAttribute; // colour of the silhouette
  tint: THREE.InstancedBufferAttribute;
  gait: THREE.InstancedBufferAttribute;
  mood: THREE.InstancedBufferAttribute;
}

export class Mechs {
  readonly meshes: readonly THREE.InstancedMesh[];
  private readonly squads: Squad[];
  private readonly chassis: ChassisName[];
  private readonly sizes: (readonly number[])[];

  private readonly plain: THREE.ShaderMaterial;
  private patterns = true;

  /** `changing` are mechs whose class in the roster may change. */
  constructor(
    private readonly header: Header,
    shared: PlainUniforms,
    private readonly changing: ReadonlySet<number> = new Set(),
  ) {
    this.plain = plainMechMaterial(shared);
    this.chassis = header.roster.map((_, mech) => this.classOf(mech));
    this.sizes = header.roster.map((_, mech) => this.sizeOf(mech));
    this.squads = CHASSIS_NAMES.map((name) => this.squad(name)).filter((squad) => squad.mechs.length > 0);
    this.meshes = this.squads.flatMap(({ mesh, silhouette }) => [mesh, silhouette]);
  }

  /** Return the class of a mech in the roster; an unknown one is drawn as medium. */
  private classOf(mech: number): ChassisName {
    const name = this.header.chassis[this.header.roster[mech].chassis]?.name ?? "";
    return CHASSIS_NAMES.find((known) => known === name) ?? "medium";
  }

  private sizeOf(mech: number): readonly number[] {
    return this.header.chassis[this.header.roster[mech].chassis]?.size ?? [2.5, 2.5, 3];
  }

  private squad(name: ChassisName): Squad {
    const mechs = this.chassis
      .map((_, mech) => mech)
      .filter((mech) => this.chassis[mech] === name || this.changing.has(mech))
      .filter((mech) => this.header.roster[mech].present);
    const [fine, coarse] = [MODELS[name].build(true), MODELS[name].build(false)];
    const mesh = new THREE.InstancedMesh(fine, material, mechs.length);
    mesh.customDepthMaterial = depthMaterial;
    mesh.castShadow = mesh.receiveShadow = true;
    mesh.renderOrder = MECH_ORDER;
    const silhouette = new THREE.InstancedMesh(coarse, hiddenMaterial, mechs.length);
    silhouette.instanceMatrix = mesh.instanceMatrix;
    silhouette.renderOrder = SILHOUETTE_ORDER;
    mesh.frustumCulled = silhouette.frustumCulled = false;
    const perInstance = (attribute: string) => {
      const values = new THREE.InstancedBufferAttribute(new Float32Array(4 * mechs.length), 4).setUsage(
        THREE.DynamicDrawUsage,
      );
      for (const geometry of [fine, coarse]) geometry.setAttribute(attribute, values);
      return values;
    };
    const sign = new THREE.InstancedBufferAttribute(new Float32Array(3 * mechs.length), 3).setUsage(
      THREE.DynamicDrawUsage,
    );
    coarse.setAttribute("sign", sign);
    return {
      name,
      mesh,
      silhouette,
      fine,
      coarse,
      mechs,
      sign,
      tint: perInstance("tint"),
      gait: perInstance("gait"),
      mood: perInstance("mood"),
    };
  }

  setPatterns(patterns: boolean): void {
    this.patterns = patterns;
    for (const { mesh } of this.squads) mesh.material = patterns ? material : this.plain;
  }

  /** Update the instances; with the plain material, classes without a mech near `eye` [vox] use coarse models. */
  update(poses: Poses, drawn: MechDrawState, eye: THREE.Vector3): void {
    for (const mech of this.changing) [this.chassis[mech], this.sizes[mech]] = [this.classOf(mech), this.sizeOf(mech)];
    for (const squad of this.squads) {
      const near = squad.mechs.some(
        (mech) => Math.hypot(poses.x[mech] - eye.x, poses.y[mech] - eye.y, poses.z[mech] - eye.z) < NEAR,
      );
      squad.mesh.geometry = this.patterns || near ? squad.fine : squad.coarse;
      squad.mechs.forEach((mech, at) => {
        const shown = this.chassis[mech] === squad.name ? drawn.shown[mech] : 0;
        squad.mesh.setMatrixAt(at, this.matrixOf(mech, poses, drawn.deaths[mech], shown));
        this.dress(squad, at, mech, poses, drawn);
      });
      squad.mesh.instanceMatrix.needsUpdate = true;
      squad.sign.needsUpdate = squad.tint.needsUpdate = squad.gait.needsUpdate = squad.mood.needsUpdate = true;
    }
  }

  /** Return the transform of a standing, fallen or dead mech. */
  private matrixOf(mech: number, poses: Poses, deadFor: number, shown: number): THREE.Matrix4 {
    const size = this.sizes[mech];
    const dead = smooth(deadFor / COLLAPSE_S);
    const fallen = poses.fallen[mech] * (1 - dead);
    const bank = mech % 2 === 0 ? 1 : -1;
    const climb = THREE.MathUtils.clamp(poses.climb[mech] * CLIMB_PITCH, -MAX_CLIMB_PITCH, MAX_CLIMB_PITCH);
    euler.set(
      bank * (fallen * FALL_ROLL + dead * WRECK_ROLL),
      poses.yaw[mech],
      -dead * WRECK_PITCH + climb * (1 - dead),
      "YZX",
    );
    turn.setFromEuler(euler);
    worldPoint(poses.x[mech], poses.y[mech], poses.z[mech] - size[2] / 2, place);
    place.y += fallen * size[1] * FALLEN_LIFT - dead * size[2] * WRECK_SINK;
    return matrix.compose(place, turn, shown < 1 ? scale.setScalar(shown) : ONE);
  }

  private dress(squad: Squad, at: number, mech: number, poses: Poses, drawn: MechDrawState): void {
    const { gait } = MODELS[this.chassis[mech]];
    const spec = this.header.chassis[this.header.roster[mech].chassis];
    const dead = smooth(drawn.deaths[mech] / (COLLAPSE_S * 0.5));
    const power = (1 - poses.shutdown[mech]) * (1 - dead);
    const stride =
      Math.min(1, poses.speed[mech] / (FULL_STRIDE * (spec?.max_speed ?? 5))) * (1 - poses.fallen[mech]) * (1 - dead);
    // phases differ per mech, so that packs do not march in step
    const phase =
      ((gaitPhase(poses.walked[mech], poses.walkedEnd[mech], poses.walkedShare[mech], gait.stride) + mech * GOLDEN) %
        1) *
      2 *
      Math.PI;
    const flash = Math.max(0, 1 - drawn.hits[mech] / FLASH_S) * (1 - dead);
    const team = TEAMS[this.header.roster[mech].team];
    const sign = teamSign.setHex(team.colour, "");
    squad.sign.setXYZ(at, sign.r, sign.g, sign.b);
    const colour = paint.setHex(team.paint);
    squad.tint.setXYZW(at, colour.r, colour.g, colour.b, 1 - dead);
    squad.gait.setXYZW(at, phase, stride, drawn.seconds * DISH_RATE * power + mech, gait.swing);
    squad.mood.setXYZW(at, poses.heat[mech] / (spec?.heat_cap ?? 100), power, flash, mech === drawn.selected ? 1 : 0);
  }

  /** Write the muzzle of a mech in world space into `out`, for a pose given as centre and heading. */
  muzzle(mech: number, x: number, y: number, z: number, yaw: number, out: THREE.Vector3): THREE.Vector3 {
    const [forward, up, right] = MODELS[this.chassis[mech]].muzzle;
    const [cos, sin] = [Math.cos(yaw), Math.sin(yaw)];
    const vx = x + forward * cos + right * sin;
    const vy = y + forward * sin - right * cos;
    return worldPoint(vx, vy, z - this.sizes[mech][2] / 2 + up, out);
  }

  height(mech: number): number {
    return this.sizes[mech][2];
  }

  width(mech: number): number {
    return this.sizes[mech][0];
  }

  dispose(): void {
    this.plain.dispose();
    for (const { mesh, silhouette, fine, coarse } of this.squads) {
      fine.dispose();
      coarse.dispose();
      mesh.dispose();
      silhouette.dispose();
    }
  }
}

const material = mechMaterial();
const depthMaterial = mechDepthMaterial();
const hiddenMaterial = silhouetteMaterial();
// silhouettes are drawn without tone mapping, so their colours are screen colours
const teamSign = new THREE.Color();
const paint = new THREE.Color();
const euler = new THREE.Euler();
const turn = new THREE.Quaternion();
const place = new THREE.Vector3();
const matrix = new THREE.Matrix4();
const scale = new THREE.Vector3();
const ONE = new THREE.Vector3(1, 1, 1);
