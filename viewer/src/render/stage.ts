// The stage of a match: renderer, sun, sky, surroundings and fog. The sun is fixed; its shadow box is fitted to the map
// once. Cost depends on the graphics tier.

import * as THREE from "three";
import { SCENE } from "../palette";
import { SUN_VOXEL } from "./ground_texture";
import { type PlainUniforms, plainUniforms, setTile } from "./plain_shader";
import { type Tier, isSoftwareRenderer } from "../quality";
import { Apron, Sky } from "./surroundings";
import { FIELD_OF_VIEW, worldPoint } from "../spaces";

const SUN = worldPoint(...SUN_VOXEL, new THREE.Vector3()).normalize();
const CONTEXT = { alpha: false, depth: true, stencil: false, powerPreference: "high-performance" } as const;

const HAZE = [0.75, 3] as const; // start and end of the haze, in map diagonals
const HAZE_BEHIND = 1.1; // start of the haze relative to the distance of the target

/** A WebGL context, and whether it is rendered in software. Antialiasing is fixed at creation. */
export interface Context {
  context: WebGL2RenderingContext;
  software: boolean;
}

function probe(): boolean {
  const context = document.createElement("canvas").getContext("webgl2", { failIfMajorPerformanceCaveat: true });
  if (!context) return true;
  const named = context.getExtension("WEBGL_debug_renderer_info")?.UNMASKED_RENDERER_WEBGL ?? context.RENDERER;
  const name = String(context.getParameter(named));
  context.getExtension("WEBGL_lose_context")?.loseContext();
  return isSoftwareRenderer(name);
}

/** Create the context; `finest` enables antialiasing even in software. */
export function makeContext(canvas: HTMLCanvasElement, finest: boolean): Context {
  const software = probe();
  const context = canvas.getContext("webgl2", { ...CONTEXT, antialias: finest || !software });
  if (!context) throw new Error("no WebGL 2");
  return { context, software };
}

export class Stage {
  readonly renderer: THREE.WebGLRenderer;
  readonly scene = new THREE.Scene();
  readonly camera = new THREE.PerspectiveCamera((FIELD_OF_VIEW * 180) / Math.PI, 1, 0.3, 1600);
  readonly plain: PlainUniforms = plainUniforms();
  private readonly sun = new THREE.DirectionalLight(SCENE.sun, 3.3);
  private readonly apron = new Apron(this.plain);
  private readonly sky = new Sky(SUN);
  private readonly fog = new THREE.Fog(SCENE.skyLow, 100, 400);
  private painted = false; // whether the low tier's tile has been painted
  private span = 1; // diagonal of the map [vox]
  private width = 1;
  private height = 1;

  constructor(canvas: HTMLCanvasElement, { context }: Context, checked: boolean) {
    this.renderer = new THREE.WebGLRenderer({ canvas, context });
    // checking for compile errors serialises compilation; only the browser tests do
    this.renderer.debug.checkShaderErrors = checked;
    this.renderer.toneMapping = THREE.ACESFilmicToneMapping;
    this.renderer.toneMappingExposure = 1.0;
    this.renderer.shadowMap.type = THREE.PCFShadowMap;
    this.sun.shadow.normalBias = 0.06;
    this.sun.shadow.bias = -0.0006;
    this.sun.shadow.radius = 2.2;
    this.scene.fog = this.fog;
    this.scene.add(
      new THREE.HemisphereLight(SCENE.hemisphereSky, SCENE.hemisphereGround, 1.9),
      this.sun,
      this.sun.target,
      this.apron.mesh,
      this.sky.mesh,
    );
  }

  setTier(tier: Tier): void {
    const { shadow } = this.sun;
    if (tier.shadowTexels > 0 && shadow.mapSize.x !== tier.shadowTexels) {
      shadow.mapSize.set(tier.shadowTexels, tier.shadowTexels);
      shadow.map?.dispose();
      shadow.map = null;
    }
    this.sun.castShadow = this.renderer.shadowMap.enabled = tier.shadowTexels > 0;
    this.apron.setPatterns(tier.patterns);
    if (!tier.patterns && !this.painted) setTile(this.plain);
    this.painted ||= !tier.patterns;
  }

  fit(size: readonly number[]): void {
    const span = Math.hypot(size[0], size[1]);
    const centre = new THREE.Vector3(size[0] / 2, 0, -size[1] / 2);
    this.sun.target.position.copy(centre);
    this.sun.position.copy(centre).addScaledVector(SUN, span);
    const { camera } = this.sun.shadow;
    Object.assign(camera, {
      left: -span / 2,
      right: span / 2,
      top: span / 2,
      bottom: -span / 2,
      near: 1,
      far: span * 2,
    });
    camera.updateProjectionMatrix();
    this.sun.target.updateMatrixWorld();
    this.span = span;
    this.setClearDistance(0);
    this.apron.fit(size, centre, span);
  }

  /** Start the haze behind a target at `distance` [vox], so that the map is clear from any height. */
  setClearDistance(distance: number): void {
    this.fog.near = Math.max(HAZE[0] * this.span, distance * HAZE_BEHIND);
    this.fog.far = this.fog.near + (HAZE[1] - HAZE[0]) * this.span;
    this.plain.uFog.value.set(this.fog.near, 1 / (this.fog.far - this.fog.near));
  }

  resize(width: number, height: number, scale: number): void {
    if (width === this.width && height === this.height && scale === this.renderer.getPixelRatio()) return;
    [this.width, this.height] = [width, height];
    this.renderer.setDrawingBufferSize(width, height, scale); // both at once, so that the buffer is allocated once
    this.camera.aspect = width / Math.max(1, height);
    this.camera.updateProjectionMatrix();
  }

  /** Move the centre of the view right and down of the canvas's centre [CSS px]. */
  centre(right: number, down: number): void {
    const [x, y] = [this.camera.view?.offsetX ?? 0, this.camera.view?.offsetY ?? 0];
    const same = this.camera.view?.fullWidth === this.width && this.camera.view.fullHeight === this.height;
    if (same && x === -right && y === -down) return;
    this.camera.setViewOffset(this.width, this.height, -right, -down, this.width, this.height);
  }

  /** Start compiling the programs of all materials in the scene, in parallel and without waiting. */
  compile(): void {
    this.renderer.compile(this.scene, this.camera);
  }

  render(): void {
    this.renderer.render(this.scene, this.camera);
  }
}
