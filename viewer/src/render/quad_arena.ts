// Quads of many chunks in one mesh: all share one buffer, each chunk in a slot with room to grow, so that the whole map
// is one draw call and an edit uploads only its chunk. The index buffer selects and orders the drawn quads: nearest
// chunks first, without those off screen or facing away.

import * as THREE from "three";
import { chunkOrigin } from "../data/voxels";
import { voxelPoint, worldPoint, world_from_voxel } from "../spaces";
import { CHUNK, FACES, GROUPS, POSITION_STEPS, type QuadMesh } from "../data/mesher";

const SLACK = 1.35; // capacity of a slot relative to its chunk's quads
const SPARE_QUADS = 64; // additional capacity of a slot
const FIRST_QUADS = 12288; // initial capacity of the buffer
const MARGIN = 1; // distance by which quads may exceed their chunk [vox]
const TRIMMED = 44; // distance beyond which chunks are drawn without trimmings [vox]
const CORNERS = [0, 1, 2, 0, 2, 3]; // corners of a quad as two triangles

interface Slot {
  start: number; // first quad
  capacity: number; // capacity [quads]
  low: THREE.Vector3; // corner of the chunk, in voxel space
  box: THREE.Box3; // in world space
}

export class QuadArena {
  readonly mesh: THREE.Mesh<THREE.BufferGeometry, THREE.Material>;
  private slots = new Map<number, Slot>();
  private meshes = new Map<number, QuadMesh>();
  private capacity = 0; // capacity of the buffer [quads]
  private used = 0; // end of the used part [quads]
  private shown = ""; // key of the quads in the index buffer; "" if outdated

  constructor(
    material: THREE.Material,
    shadows: boolean,
    private readonly size: readonly number[],
  ) {
    this.mesh = new THREE.Mesh(new THREE.BufferGeometry(), material);
    this.mesh.castShadow = shadows;
    this.mesh.receiveShadow = true;
    this.mesh.frustumCulled = false;
    this.mesh.matrixAutoUpdate = false;
    const steps = 1 / POSITION_STEPS;
    this.mesh.matrix.copy(world_from_voxel).scale(new THREE.Vector3(steps, steps, steps));
  }

  put(number: number, quads: QuadMesh): void {
    this.meshes.set(number, quads);
    this.shown = "";
    const slot = this.slots.get(number) ?? this.append(number, quads.quads);
    if (slot && quads.quads <= slot.capacity) this.write(slot, quads);
    else this.relayout();
  }

  /** Return a new slot at the end, null if the buffer is full. */
  private append(number: number, quads: number): Slot | null {
    const slot = this.slot(number, this.used, quads);
    if (slot.start + slot.capacity > this.capacity) return null;
    this.slots.set(number, slot);
    this.used += slot.capacity;
    return slot;
  }

  private slot(number: number, start: number, quads: number): Slot {
    const low = new THREE.Vector3(...chunkOrigin(number, this.size));
    const box = new THREE.Box3().setFromPoints([
      worldPoint(low.x - MARGIN, low.y - MARGIN, low.z, new THREE.Vector3()),
      worldPoint(low.x + CHUNK + MARGIN, low.y + CHUNK + MARGIN, low.z + CHUNK + MARGIN, new THREE.Vector3()),
    ]);
    return { start, capacity: Math.ceil(quads * SLACK) + SPARE_QUADS, low, box };
  }

  /** Assign new slots to all chunks, growing the buffer if needed. */
  private relayout(): void {
    let start = 0;
    for (const [number, quads] of this.meshes) {
      const slot = this.slot(number, start, quads.quads);
      this.slots.set(number, slot);
      start += slot.capacity;
    }
    this.used = start;
    if (start > this.capacity) this.allocate(Math.max(FIRST_QUADS, start * 2));
    for (const [number, quads] of this.meshes) {
      const slot = this.slots.get(number);
      if (slot) this.write(slot, quads);
    }
  }

  private allocate(quads: number): void {
    this.capacity = quads;
    this.mesh.geometry.dispose();
    const geometry = new THREE.BufferGeometry();
    geometry.setIndex(new THREE.BufferAttribute(new Uint32Array(quads * 6), 1).setUsage(THREE.DynamicDrawUsage));
    geometry.setAttribute(
      "position",
      new THREE.BufferAttribute(new Uint16Array(quads * 16), 4).setUsage(THREE.DynamicDrawUsage),
    );
    geometry.setAttribute(
      "code",
      new THREE.BufferAttribute(new Uint8Array(quads * 16), 4).setUsage(THREE.DynamicDrawUsage),
    );
    geometry.boundingSphere = new THREE.Sphere(new THREE.Vector3(), Infinity);
    geometry.setDrawRange(0, 0);
    this.mesh.geometry = geometry;
  }

  private write(slot: Slot, quads: QuadMesh): void {
    for (const [name, values] of [
      ["position", quads.position],
      ["code", quads.data],
    ] as const) {
      const attribute = this.mesh.geometry.getAttribute(name) as THREE.BufferAttribute;
      attribute.array.set(values, slot.start * 16);
      attribute.addUpdateRange(slot.start * 16, values.length);
      attribute.needsUpdate = true;
    }
  }

  /** Write the index buffer: all quads, or with a camera only those it may see, with `inner` from both sides. */
  selectQuads(camera: THREE.PerspectiveCamera | null, inner: boolean): void {
    const order = camera
      ? this.visible(camera, inner)
      : [...this.meshes.keys()].map((number) => ({ number, sides: 2 ** GROUPS - 1 }));
    const key = order.map(({ number, sides }) => `${number}.${sides}`).join(" ") || "none";
    if (key === this.shown) return;
    this.shown = key;
    const { index } = this.mesh.geometry;
    if (!index) return;
    const indices = index.array as Uint32Array;
    let at = 0;
    for (const { number, sides } of order) {
      const [quads, slot] = [this.meshes.get(number), this.slots.get(number)];
      if (!quads || !slot) continue;
      for (let group = 0; group < GROUPS; group++) {
        if (!(sides & (1 << group))) continue;
        for (let quad = quads.faces[group]; quad < quads.faces[group + 1]; quad++) {
          const first = (slot.start + quad) * 4;
          for (const corner of CORNERS) indices[at++] = first + corner;
        }
      }
    }
    index.clearUpdateRanges();
    index.addUpdateRange(0, at);
    index.needsUpdate = true;
    this.mesh.geometry.setDrawRange(0, at);
    this.mesh.visible = at > 0;
  }

  /** Return the chunks on screen from near to far, with the visible faces as bits. */
  private visible(camera: THREE.PerspectiveCamera, inner: boolean): { number: number; sides: number }[] {
    frustum.setFromProjectionMatrix(projection.multiplyMatrices(camera.projectionMatrix, camera.matrixWorldInverse));
    voxelPoint(camera.position, eye);
    const seen: { number: number; sides: number; away: number }[] = [];
    for (const [number, { low, box }] of this.slots) {
      if (!frustum.intersectsBox(box)) continue;
      let sides = inner ? 2 ** FACES - 1 : 0;
      for (const [axis, name] of (["x", "y", "z"] as const).entries()) {
        if (eye[name] > low[name] - MARGIN) sides |= 1 << (axis * 2);
        if (eye[name] < low[name] + CHUNK + MARGIN) sides |= 2 << (axis * 2);
      }
      const away = box.distanceToPoint(camera.position);
      if (away < TRIMMED) sides |= sides << FACES;
      seen.push({ number, sides, away });
    }
    return seen.sort((a, b) => a.away - b.away || a.number - b.number);
  }

  dispose(): void {
    this.mesh.geometry.dispose();
  }
}

const frustum = new THREE.Frustum();
const projection = new THREE.Matrix4();
const eye = new THREE.Vector3();
