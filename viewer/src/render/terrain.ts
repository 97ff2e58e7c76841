// The terrain in the scene. All chunks share one buffer per material, each in a stretch of its own with room to grow, so
// that the whole map is one draw call and an edit uploads only the chunk it touches. Meshing happens in a worker.

import {
  BufferAttribute, BufferGeometry, DataTexture, DynamicDrawUsage, LinearFilter, type Material, Mesh, RGBAFormat, Sphere,
  Vector3,
} from "three";
import type { Scenery } from "../data/looks";
import { chunkGrid, chunkOrigin } from "../data/voxels";
import { voxelPoint, world_from_voxel } from "../spaces";
import type { WorkerLink } from "../workers/link";
import type { MeshCalls } from "../workers/messages";
import { POSITION_STEPS, type QuadMesh, cutChunk, cutTints } from "./mesher";
import { type TerrainUniforms, clearMaterial, solidMaterial, terrainUniforms } from "./terrain_material";

const SLACK = 1.35; // room a chunk gets beyond what it needs
const SPARE_QUADS = 64; // and at least this much
const CUT_RADIUS = 3.2; // of the cut in front of a followed mech [vox]
const FIRST_QUADS = 12288; // room of a new map

/** A stretch of the shared buffer. */
interface Stretch {
  start: number; // first quad
  room: number; // quads
}

/** Quads of many chunks in one mesh. */
class QuadArena {
  readonly mesh: Mesh<BufferGeometry, Material>;
  private stretches = new Map<number, Stretch>();
  private meshes = new Map<number, QuadMesh>();
  private capacity = 0; // quads that fit
  private used = 0; // quads given to chunks

  constructor(material: Material, shadows: boolean) {
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
    const stretch = this.stretches.get(number) ?? this.append(number, quads.quads);
    if (stretch && quads.quads <= stretch.room) this.write(stretch, quads);
    else this.lay();
  }

  /** Give a new chunk a stretch at the end; null where the buffers are full. */
  private append(number: number, quads: number): Stretch | null {
    const stretch = { start: this.used, room: Math.ceil(quads * SLACK) + SPARE_QUADS };
    if (stretch.start + stretch.room > this.capacity) return null;
    this.stretches.set(number, stretch);
    this.used += stretch.room;
    this.mesh.geometry.setDrawRange(0, this.used * 6);
    return stretch;
  }

  /** Lay all chunks out anew, with room to grow. */
  private lay(): void {
    let start = 0;
    for (const [number, quads] of this.meshes) {
      const room = Math.ceil(quads.quads * SLACK) + SPARE_QUADS;
      this.stretches.set(number, { start, room });
      start += room;
    }
    this.used = start;
    if (start > this.capacity) this.allocate(Math.max(FIRST_QUADS, start * 2));
    for (const [number, quads] of this.meshes) {
      const stretch = this.stretches.get(number);
      if (stretch) this.write(stretch, quads);
    }
    this.mesh.geometry.setDrawRange(0, start * 6);
  }

  /** Make buffers for a number of quads; indices never change. */
  private allocate(quads: number): void {
    this.capacity = quads;
    this.mesh.geometry.dispose();
    const geometry = new BufferGeometry();
    const index = new Uint32Array(quads * 6);
    const corner = [0, 1, 2, 0, 2, 3];
    for (let i = 0; i < index.length; i++) index[i] = Math.floor(i / 6) * 4 + corner[i % 6];
    geometry.setIndex(new BufferAttribute(index, 1));
    geometry.setAttribute("position", new BufferAttribute(new Uint16Array(quads * 16), 4).setUsage(DynamicDrawUsage));
    geometry.setAttribute("code", new BufferAttribute(new Uint8Array(quads * 16), 4).setUsage(DynamicDrawUsage));
    geometry.boundingSphere = new Sphere(new Vector3(), Infinity);
    this.mesh.geometry = geometry;
  }

  /** Write one chunk; what is left of its stretch collapses to nothing. */
  private write(stretch: Stretch, quads: QuadMesh): void {
    for (const [name, values] of [["position", quads.position], ["code", quads.data]] as const) {
      const attribute = this.mesh.geometry.getAttribute(name) as BufferAttribute;
      const [from, to] = [stretch.start * 16, (stretch.start + stretch.room) * 16];
      attribute.array.set(values, from);
      attribute.array.fill(0, from + values.length, to);
      attribute.addUpdateRange(from, to - from);
      attribute.needsUpdate = true;
    }
  }

  dispose(): void {
    this.mesh.geometry.dispose();
    this.mesh.material.dispose();
  }
}

/** The terrain of one map. */
export class Terrain {
  readonly uniforms: TerrainUniforms = terrainUniforms();
  readonly meshes: readonly Mesh[];
  private readonly solid = new QuadArena(solidMaterial(this.uniforms), true);
  private readonly clear = new QuadArena(clearMaterial(this.uniforms), false);
  private readonly soil: DataTexture;
  private newest = new Map<number, number>(); // per chunk, the last request: answers may overtake each other
  private requests = 0;
  private open = 0;
  /** Chunks meshed since the map was shown. */
  meshed = 0;

  constructor(
    private readonly worker: WorkerLink<MeshCalls>,
    private readonly scenery: Scenery,
    private readonly size: readonly number[],
  ) {
    this.meshes = [this.solid.mesh, this.clear.mesh];
    this.soil = new DataTexture(scenery.soil, size[0], size[1], RGBAFormat);
    this.soil.minFilter = this.soil.magFilter = LinearFilter;
    this.soil.needsUpdate = true;
    this.uniforms.uSoil.value = this.soil;
    this.uniforms.uMap.value.set(size[0], size[1]);
  }

  /** Whether every mesh asked for has arrived. */
  get settled(): boolean {
    return this.open === 0;
  }

  /** Mesh the whole map from the looks of a moment. */
  meshAll(looks: Uint8Array): void {
    const [x, y, z] = chunkGrid(this.size);
    for (let number = 0; number < x * y * z; number++) {
      if (chunkOrigin(number, this.size)[2] < this.scenery.top + 1) this.remesh(number, looks);
    }
  }

  /** Mesh one chunk again. */
  remesh(number: number, looks: Uint8Array): void {
    const origin = chunkOrigin(number, this.size);
    const request = ++this.requests;
    this.newest.set(number, request);
    const [cut, tints] = [cutChunk(looks, this.size, origin), cutTints(this.scenery.tints, this.size, origin)];
    this.open++;
    this.worker.ask("mesh", { looks: cut, tints, origin }, [cut.buffer as ArrayBuffer, tints.buffer as ArrayBuffer]).then(
      (mesh) => {
        this.open--;
        if (this.newest.get(number) !== request) return;
        this.solid.put(number, mesh.opaque);
        this.clear.put(number, mesh.clear);
        this.meshed++;
      },
      () => this.open--,
    );
  }

  /** Show the moment; when following, what stands between eye and focus (in voxel space) is cut away. */
  look(seconds: number, eye: Vector3, focus: Vector3, cut: boolean): void {
    this.uniforms.uTime.value = seconds;
    voxelPoint(eye, this.uniforms.uEye.value);
    this.uniforms.uFocus.value.copy(focus);
    this.uniforms.uCut.value = cut ? CUT_RADIUS : 0;
  }

  dispose(): void {
    this.solid.dispose();
    this.clear.dispose();
    this.soil.dispose();
  }
}
