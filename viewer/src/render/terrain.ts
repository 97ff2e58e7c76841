// The terrain in the scene: one mesh of opaque voxels, one of water and glass, with patterned or plain materials.
// Meshing and baking run in workers.

import * as THREE from "three";
import type { Scenery } from "../data/appearance";
import { chunkGrid, chunkOrigin } from "../data/voxels";
import type { Cutaway } from "../framing";
import { voxelPoint } from "../spaces";
import type { WorkerLink } from "../workers/link";
import type { MeshCalls } from "../workers/messages";
import { writeCutaway } from "./cutaway";
import { writeShadows } from "./ground_texture";
import { cutChunk, cutTints } from "../data/mesher";
import { type PlainUniforms, setGround } from "./plain_shader";
import { plainTerrainMaterial } from "./plain_terrain";
import { QuadArena } from "./quad_arena";
import { type TerrainUniforms, clearMaterial, solidMaterial, terrainUniforms } from "./terrain_material";

const SOLID_ORDER = 0.2; // after mechs, before the surroundings

/** Terrain materials of one kind, patterned or plain. */
interface Coats {
  solid: THREE.Material;
  cut: THREE.Material; // solid, with a cutaway
  clear: THREE.Material;
}

export interface MeshWorkers {
  mesher: WorkerLink<MeshCalls>;
  baker: WorkerLink<MeshCalls>;
}

export class Terrain {
  readonly uniforms: TerrainUniforms;
  readonly meshes: readonly THREE.Mesh[];
  private readonly rich: Coats;
  private readonly plain: Coats;
  private coats: Coats;
  private readonly solid: QuadArena;
  private readonly clear: QuadArena;
  private readonly soil: THREE.DataTexture;
  private ground: Uint8Array | null = null; // ground texture, once painted; low tier only
  private shadowRequests = 0; // number of the latest shadow request
  private patterns = true;
  private covered = false; // whether a ground overlay is shown
  /** Increases with every visible change. */
  version = 0;
  private newest = new Map<number, number>(); // latest request per chunk, since results may arrive out of order
  private requests = 0;
  private pending = 0; // requests without result
  /** Why the last request failed, "" if none has. */
  problem = "";
  /** Number of meshed chunks so far. */
  meshed = 0;

  constructor(
    private readonly workers: MeshWorkers,
    private readonly scenery: Scenery,
    private readonly size: readonly number[],
    private readonly shared: PlainUniforms,
  ) {
    this.uniforms = terrainUniforms(shared.uCut);
    const [solid, cut] = [false, true].map((open) => solidMaterial(this.uniforms, open));
    this.rich = { solid, cut, clear: clearMaterial(this.uniforms) };
    this.plain = {
      solid: plainTerrainMaterial(shared, this.uniforms, false, false),
      cut: plainTerrainMaterial(shared, this.uniforms, false, true),
      clear: plainTerrainMaterial(shared, this.uniforms, true, true),
    };
    this.coats = this.rich;
    this.solid = new QuadArena(solid, true, size);
    this.clear = new QuadArena(this.rich.clear, false, size);
    this.meshes = [this.solid.mesh, this.clear.mesh];
    this.solid.mesh.renderOrder = SOLID_ORDER;
    this.soil = new THREE.DataTexture(scenery.soil, size[0], size[1], THREE.RGBAFormat);
    this.soil.minFilter = this.soil.magFilter = THREE.LinearFilter;
    this.soil.needsUpdate = true;
    this.uniforms.uSoil.value = this.soil;
    this.uniforms.uMap.value.set(size[0], size[1]);
    shared.uMapSize.value.set(size[0], size[1], size[2]);
  }

  /** Whether all requested results have arrived. */
  get settled(): boolean {
    return this.pending === 0;
  }

  meshAll(appearances: Uint8Array): void {
    const [x, y, z] = chunkGrid(this.size);
    for (let number = 0; number < x * y * z; number++) {
      if (chunkOrigin(number, this.size)[2] < this.scenery.top + 1) this.remesh(number, appearances);
    }
  }

  remesh(number: number, appearances: Uint8Array): void {
    const origin = chunkOrigin(number, this.size);
    const request = ++this.requests;
    this.newest.set(number, request);
    const [cut, tints] = [cutChunk(appearances, this.size, origin), cutTints(this.scenery.tints, this.size, origin)];
    void this.track(
      this.workers.mesher.request("mesh", { appearances: cut, tints, origin }, [
        cut.buffer as ArrayBuffer,
        tints.buffer as ArrayBuffer,
      ]),
      (mesh) => {
        if (this.newest.get(number) !== request) return;
        this.solid.put(number, mesh.opaque);
        this.clear.put(number, mesh.clear);
        this.meshed++;
      },
    );
  }

  /** Process a worker's result; counts it as pending until then. */
  private async track<T>(result: Promise<T>, take: (value: T) => void): Promise<void> {
    this.pending++;
    try {
      take(await result);
      this.version++;
    } catch (error) {
      this.problem = (error as Error).message; // for instance, the worker was terminated with its match
    } finally {
      this.pending--;
    }
  }

  /** Select patterned or plain materials; the plain ground is painted on first use. */
  setPatterns(patterns: boolean, appearances: Uint8Array): void {
    this.patterns = patterns;
    this.coats = patterns ? this.rich : this.plain;
    this.applyMaterials(false);
    if (patterns) return;
    const { soil } = this.scenery;
    if (!this.ground)
      void this.track(
        this.workers.baker.request("ground", { soil, size: this.size }),
        (ground) => (this.ground = ground),
      );
    this.updateShadows(appearances);
  }

  /** Request new baked shadows, in the low tier. */
  updateShadows(appearances: Uint8Array): void {
    if (this.patterns) return;
    const request = ++this.shadowRequests;
    void this.track(this.workers.baker.request("shadows", { appearances, size: this.size }), (hidden) => {
      if (request !== this.shadowRequests || !this.ground) return;
      writeShadows(this.ground, hidden);
      setGround(this.shared, this.ground, this.size);
    });
  }

  /** Update to a moment and camera. */
  setView(seconds: number, camera: THREE.PerspectiveCamera, cutaway: Cutaway | null): void {
    // the shadow map needs quads that the camera does not see
    for (const arena of [this.solid, this.clear])
      arena.selectQuads(this.patterns ? null : camera, cutaway !== null && arena === this.solid);
    this.uniforms.uTime.value = seconds;
    voxelPoint(camera.position, this.uniforms.uEye.value);
    writeCutaway(cutaway, this.shared.uCut.value);
    this.shared.uTime.value = seconds;
    this.applyMaterials(cutaway !== null);
  }

  /** Set the ground overlay, null for none; with `walls` it covers more than what is level. */
  setOverlay(picture: THREE.Texture | null, walls: boolean): void {
    this.uniforms.uOverlay.value = picture;
    this.uniforms.uWalls.value = walls ? 1 : 0;
    if (this.covered === (picture !== null)) return;
    this.covered = picture !== null;
    for (const coats of [this.rich, this.plain]) {
      for (const material of Object.values(coats) as THREE.Material[]) {
        const { OVERLAY: _, ...others } = material.defines ?? {};
        material.defines = this.covered ? { ...others, OVERLAY: "" } : others;
        material.needsUpdate = true;
      }
    }
  }

  applyMaterials(cut: boolean): void {
    this.solid.mesh.material = cut ? this.coats.cut : this.coats.solid;
    this.clear.mesh.material = this.coats.clear;
  }

  dispose(): void {
    this.shadowRequests++; // drop results that arrive after the map was closed
    this.solid.dispose();
    this.clear.dispose();
    for (const coats of [this.rich, this.plain])
      for (const material of Object.values(coats)) (material as THREE.Material).dispose();
    this.soil.dispose();
  }
}
