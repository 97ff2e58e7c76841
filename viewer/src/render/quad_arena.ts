// Quads of many chunks in one mesh: all share one buffer, each chunk in a stretch of its own with room to grow, so that
// the whole map is one draw call and an edit uploads only the chunk it touches. Which quads are drawn, and in which
// order, is said by the indices: the nearest chunks first, without what is off the screen or faces away.

import {
  Box3, BufferAttribute, BufferGeometry, DynamicDrawUsage, Frustum, type Material, Matrix4, Mesh, type PerspectiveCamera, Sphere,
  Vector3,
} from "three";
import { chunkOrigin } from "../data/voxels";
import { voxelPoint, worldPoint, world_from_voxel } from "../spaces";
import { CHUNK, FACES, GROUPS, POSITION_STEPS, type QuadMesh } from "./mesher";

const SLACK = 1.35; // room a chunk gets beyond what it needs
const SPARE_QUADS = 64; // and at least this much
const FIRST_QUADS = 12288; // room of a new map
const MARGIN = 1; // how far quads may stand out of their chunk [vox]
const TRIMMED = 44; // chunks farther away than this are drawn without trimmings [vox]
const CORNERS = [0, 1, 2, 0, 2, 3]; // of a quad, as two triangles

/** A chunk's part of the shared buffer. */
interface Stretch {
  start: number; // first quad
  room: number; // quads
  low: Vector3; // corner of the chunk, in voxel space
  box: Box3; // in world space
}

/** Quads of many chunks in one mesh. */
export class QuadArena {
  readonly mesh: Mesh<BufferGeometry, Material>;
  private stretches = new Map<number, Stretch>();
  private meshes = new Map<number, QuadMesh>();
  private capacity = 0; // quads that fit
  private used = 0; // quads given to chunks
  private shown = ""; // which quads the indices name; "" for none that are right

  constructor(material: Material, shadows: boolean, private readonly size: readonly number[]) {
    this.mesh = new Mesh(new BufferGeometry(), material);
    this.mesh.castShadow = shadows;
    this.mesh.receiveShadow = true;
    this.mesh.frustumCulled = false;
    this.mesh.matrixAutoUpdate = false;
    const steps = 1 / POSITION_STEPS;
    this.mesh.matrix.copy(world_from_voxel).scale(new Vector3(steps, steps, steps));
  }

  /** Put in what a chunk now looks like. */
  put(number: number, quads: QuadMesh): void {
    this.meshes.set(number, quads);
    this.shown = "";
    const stretch = this.stretches.get(number) ?? this.append(number, quads.quads);
    if (stretch && quads.quads <= stretch.room) this.write(stretch, quads);
    else this.lay();
  }

  /** Give a new chunk a stretch at the end; null where the buffers are full. */
  private append(number: number, quads: number): Stretch | null {
    const stretch = this.stretch(number, this.used, quads);
    if (stretch.start + stretch.room > this.capacity) return null;
    this.stretches.set(number, stretch);
    this.used += stretch.room;
    return stretch;
  }

  private stretch(number: number, start: number, quads: number): Stretch {
    const low = new Vector3(...chunkOrigin(number, this.size));
    const box = new Box3().setFromPoints([
      worldPoint(low.x - MARGIN, low.y - MARGIN, low.z, new Vector3()),
      worldPoint(low.x + CHUNK + MARGIN, low.y + CHUNK + MARGIN, low.z + CHUNK + MARGIN, new Vector3()),
    ]);
    return { start, room: Math.ceil(quads * SLACK) + SPARE_QUADS, low, box };
  }

  /** Lay all chunks out anew, with room to grow. */
  private lay(): void {
    let start = 0;
    for (const [number, quads] of this.meshes) {
      const stretch = this.stretch(number, start, quads.quads);
      this.stretches.set(number, stretch);
      start += stretch.room;
    }
    this.used = start;
    if (start > this.capacity) this.allocate(Math.max(FIRST_QUADS, start * 2));
    for (const [number, quads] of this.meshes) {
      const stretch = this.stretches.get(number);
      if (stretch) this.write(stretch, quads);
    }
  }

  private allocate(quads: number): void {
    this.capacity = quads;
    this.mesh.geometry.dispose();
    const geometry = new BufferGeometry();
    geometry.setIndex(new BufferAttribute(new Uint32Array(quads * 6), 1).setUsage(DynamicDrawUsage));
    geometry.setAttribute("position", new BufferAttribute(new Uint16Array(quads * 16), 4).setUsage(DynamicDrawUsage));
    geometry.setAttribute("code", new BufferAttribute(new Uint8Array(quads * 16), 4).setUsage(DynamicDrawUsage));
    geometry.boundingSphere = new Sphere(new Vector3(), Infinity);
    geometry.setDrawRange(0, 0);
    this.mesh.geometry = geometry;
  }

  private write(stretch: Stretch, quads: QuadMesh): void {
    for (const [name, values] of [["position", quads.position], ["code", quads.data]] as const) {
      const attribute = this.mesh.geometry.getAttribute(name) as BufferAttribute;
      attribute.array.set(values, stretch.start * 16);
      attribute.addUpdateRange(stretch.start * 16, values.length);
      attribute.needsUpdate = true;
    }
  }

  /** Choose the quads to draw: all of them, or for a camera only those that it may see. */
  aim(camera: PerspectiveCamera | null): void {
    const order = camera ? this.visible(camera) : [...this.meshes.keys()].map((number) => ({ number, sides: 2 ** GROUPS - 1 }));
    const key = order.map(({ number, sides }) => `${number}.${sides}`).join(" ") || "none";
    if (key === this.shown) return;
    this.shown = key;
    const { index } = this.mesh.geometry;
    if (!index) return;
    const indices = index.array as Uint32Array;
    let at = 0;
    for (const { number, sides } of order) {
      const [quads, stretch] = [this.meshes.get(number), this.stretches.get(number)];
      if (!quads || !stretch) continue;
      for (let group = 0; group < GROUPS; group++) {
        if (!(sides & (1 << group))) continue;
        for (let quad = quads.faces[group]; quad < quads.faces[group + 1]; quad++) {
          const first = (stretch.start + quad) * 4;
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

  /** Chunks on the screen from near to far, with the sides that may be seen, a bit each. */
  private visible(camera: PerspectiveCamera): { number: number; sides: number }[] {
    frustum.setFromProjectionMatrix(projection.multiplyMatrices(camera.projectionMatrix, camera.matrixWorldInverse));
    voxelPoint(camera.position, eye);
    const seen: { number: number; sides: number; away: number }[] = [];
    for (const [number, { low, box }] of this.stretches) {
      if (!frustum.intersectsBox(box)) continue;
      let sides = 0;
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

const frustum = new Frustum();
const projection = new Matrix4();
const eye = new Vector3();
