// Fragments of destroyed voxels, falling cubes whose position is a function of the time since the edit. One draw call.

import * as THREE from "three";
import { type Chunk, firstAfter } from "../data/replay";
import { APPEARANCES, Appearance } from "../palette";
import { cellCoords, worldPoint } from "../spaces";
import { hashRandom } from "./random";

const MOST = 480; // most fragments
const PER_VOXEL = 5;
const LIFE_S = 1.5;
const GRAVITY = 13; // for effect only [vox/s^2]

export class Debris {
  readonly mesh = new THREE.InstancedMesh(new THREE.BoxGeometry(1, 1, 1), new THREE.MeshLambertMaterial(), MOST);

  constructor(
    private readonly appearances: Uint8Array,
    private readonly size: readonly number[],
    private readonly tickHz: number,
  ) {
    this.mesh.visible = false;
    this.mesh.frustumCulled = false;
    this.mesh.instanceMatrix.setUsage(THREE.DynamicDrawUsage);
    this.mesh.setColorAt(0, new THREE.Color());
  }

  /** Show the fragments at a tick; the appearances of the stored map tell what was destroyed. */
  update(chunks: readonly Chunk[], tick: number): void {
    let count = 0;
    for (const { edits } of chunks) {
      for (let i = firstAfter(edits.tick, tick - LIFE_S * this.tickHz); i < edits.count && edits.tick[i] <= tick; i++) {
        const appearance = this.appearances[edits.cell[i]] as Appearance;
        if (APPEARANCES[appearance].form !== "block" && appearance !== Appearance.GLASS) continue;
        for (let k = 0; k < PER_VOXEL && count < MOST; k++)
          this.piece(count++, edits.cell[i], appearance, k, (tick - edits.tick[i]) / this.tickHz);
      }
    }
    this.mesh.count = count;
    this.mesh.visible = count > 0;
    this.mesh.instanceMatrix.needsUpdate = true;
    if (this.mesh.instanceColor) this.mesh.instanceColor.needsUpdate = true;
  }

  private piece(at: number, cell: number, appearance: Appearance, k: number, age: number): void {
    const [x, y, z] = cellCoords(cell, this.size[0], this.size[1]);
    const seed = (cell % 9973) + k * 31;
    const angle = hashRandom(seed, 1) * 6.283;
    const speed = 1.2 + 3.2 * hashRandom(seed, 2);
    worldPoint(x + 0.5, y + 0.5, z + 0.5, place);
    place.x += Math.cos(angle) * speed * age;
    place.z += Math.sin(angle) * speed * age;
    const fall = place.y + (2 + 4.5 * hashRandom(seed, 3)) * age - (GRAVITY / 2) * age * age;
    const side = (0.14 + 0.26 * hashRandom(seed, 4)) * Math.min(1, (LIFE_S - age) / 0.35);
    place.y = Math.max(side / 2, fall);
    const spin = fall > side / 2 ? age * 7 : 0;
    turn.setFromEuler(euler.set(spin * hashRandom(seed, 5), angle, spin * hashRandom(seed, 6)));
    this.mesh.setMatrixAt(at, matrix.compose(place, turn, scale.setScalar(side)));
    this.mesh.setColorAt(
      at,
      tone.setHex(APPEARANCES[appearance].colour).multiplyScalar(0.7 + 0.5 * hashRandom(seed, 7)),
    );
  }

  dispose(): void {
    this.mesh.geometry.dispose();
    this.mesh.material.dispose();
    this.mesh.dispose();
  }
}

const place = new THREE.Vector3();
const scale = new THREE.Vector3();
const euler = new THREE.Euler();
const turn = new THREE.Quaternion();
const matrix = new THREE.Matrix4();
const tone = new THREE.Color();
