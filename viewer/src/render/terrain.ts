// The terrain in the scene: one mesh of all that is opaque, one of water and glass, in patterns or plain. Meshing and
// baking happen in a worker.

import { DataTexture, LinearFilter, type Material, type Mesh, type PerspectiveCamera, RGBAFormat, type Texture, type Vector3 } from "three";
import type { Scenery } from "../data/looks";
import { chunkGrid, chunkOrigin } from "../data/voxels";
import { voxelPoint } from "../spaces";
import type { WorkerLink } from "../workers/link";
import type { MeshCalls } from "../workers/messages";
import { shadeLand } from "./land";
import { cutChunk, cutTints } from "./mesher";
import { type PlainUniforms, setLand } from "./plain_shader";
import { plainTerrainMaterial } from "./plain_terrain";
import { QuadArena } from "./quad_arena";
import { type TerrainUniforms, clearMaterial, solidMaterial, terrainUniforms } from "./terrain_material";

const CUT_RADIUS = 3.2; // of the cut in front of a followed mech [vox]
const SOLID_ORDER = 0.2; // after the mechs, before what lies around the map

/** Materials of the terrain: with patterns, or plain. */
interface Coats {
  solid: Material;
  cut: Material; // as solid, where what hides a followed mech is left out
  clear: Material;
}

/** Workers that terrain is made by: one meshes while the other bakes. */
export interface MeshWorkers {
  mesher: WorkerLink<MeshCalls>;
  baker: WorkerLink<MeshCalls>;
}

/** The terrain of one map. */
export class Terrain {
  readonly uniforms: TerrainUniforms = terrainUniforms();
  readonly meshes: readonly Mesh[];
  private readonly rich: Coats;
  private readonly plain: Coats;
  private coats: Coats;
  private readonly solid: QuadArena;
  private readonly clear: QuadArena;
  private readonly soil: DataTexture;
  private land: Uint8Array | null = null; // once it is painted; only plain tiers need it
  private shades = 0; // number of the newest wish for shadows
  private patterns = true;
  private covered = false; // whether something is laid over the ground
  /** Grows with every change that is to be seen. */
  version = 0;
  private newest = new Map<number, number>(); // per chunk, the last request: answers may overtake each other
  private requests = 0;
  private open = 0;
  /** Chunks meshed since the map was shown. */
  meshed = 0;

  constructor(
    private readonly workers: MeshWorkers,
    private readonly scenery: Scenery,
    private readonly size: readonly number[],
    private readonly shared: PlainUniforms,
  ) {
    const solid = solidMaterial(this.uniforms);
    this.rich = { solid, cut: solid, clear: clearMaterial(this.uniforms) };
    this.plain = {
      solid: plainTerrainMaterial(shared, this.uniforms, false, false), cut: plainTerrainMaterial(shared, this.uniforms, false, true),
      clear: plainTerrainMaterial(shared, this.uniforms, true, false),
    };
    this.coats = this.rich;
    this.solid = new QuadArena(solid, true, size);
    this.clear = new QuadArena(this.rich.clear, false, size);
    this.meshes = [this.solid.mesh, this.clear.mesh];
    this.solid.mesh.renderOrder = SOLID_ORDER;
    this.soil = new DataTexture(scenery.soil, size[0], size[1], RGBAFormat);
    this.soil.minFilter = this.soil.magFilter = LinearFilter;
    this.soil.needsUpdate = true;
    this.uniforms.uSoil.value = this.soil;
    this.uniforms.uMap.value.set(size[0], size[1]);
    shared.uLandSize.value.set(size[0], size[1], size[2]);
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
    void this.awaited(this.workers.mesher.ask("mesh", { looks: cut, tints, origin }, [cut.buffer as ArrayBuffer, tints.buffer as ArrayBuffer]), (mesh) => {
      if (this.newest.get(number) !== request) return;
      this.solid.put(number, mesh.opaque);
      this.clear.put(number, mesh.clear);
      this.meshed++;
    });
  }

  /** Take the answer of a worker; the terrain is settled once all have come. */
  private async awaited<T>(answer: Promise<T>, take: (value: T) => void): Promise<void> {
    this.open++;
    try {
      take(await answer);
      this.version++;
    } catch {
      // the worker was closed with its match
    } finally {
      this.open--;
    }
  }

  /** Draw with patterns or plain; the plain land is painted when it is first needed. */
  use(patterns: boolean, looks: Uint8Array): void {
    this.patterns = patterns;
    this.coats = patterns ? this.rich : this.plain;
    this.wear(false);
    if (patterns) return;
    const { soil } = this.scenery;
    if (!this.land) void this.awaited(this.workers.baker.ask("land", { soil, size: this.size }), (land) => (this.land = land));
    this.shade(looks);
  }

  /** Find the shadows of the terrain anew, where they are baked. */
  shade(looks: Uint8Array): void {
    if (this.patterns) return;
    const wish = ++this.shades;
    void this.awaited(this.workers.baker.ask("shade", { looks, size: this.size }), (hidden) => {
      if (wish !== this.shades || !this.land) return;
      shadeLand(this.land, hidden);
      setLand(this.shared, this.land, this.size);
    });
  }

  /** Show the moment; when following, what stands between eye and focus (in voxel space) is cut away. */
  look(seconds: number, camera: PerspectiveCamera, focus: Vector3, cut: boolean): void {
    // in a shadow map the sun sees what the camera does not
    for (const arena of [this.solid, this.clear]) arena.aim(this.patterns ? null : camera);
    this.uniforms.uTime.value = seconds;
    voxelPoint(camera.position, this.uniforms.uEye.value);
    this.uniforms.uFocus.value.copy(focus);
    this.uniforms.uCut.value = cut ? CUT_RADIUS : 0;
    this.shared.uTime.value = seconds;
    this.wear(cut);
  }

  /** Lay a picture over the ground, or take it off. */
  cover(picture: Texture | null): void {
    this.uniforms.uVeil.value = picture;
    if (this.covered === (picture !== null)) return;
    this.covered = picture !== null;
    for (const coats of [this.rich, this.plain]) {
      for (const material of Object.values(coats) as Material[]) {
        const { VEIL: _, ...others } = material.defines ?? {};
        material.defines = this.covered ? { ...others, VEIL: "" } : others;
        material.needsUpdate = true;
      }
    }
  }

  private wear(cut: boolean): void {
    this.solid.mesh.material = cut ? this.coats.cut : this.coats.solid;
    this.clear.mesh.material = this.coats.clear;
  }

  dispose(): void {
    this.shades++; // answers that are still to come are not of the next map
    this.solid.dispose();
    this.clear.dispose();
    for (const coats of [this.rich, this.plain]) for (const material of Object.values(coats)) (material as Material).dispose();
    this.soil.dispose();
  }
}
