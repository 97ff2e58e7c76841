// The stage on which a match is shown: renderer, sun and sky, the land around the map, and the fog between them. The sun
// stands still; its shadow box is fitted to the map once. How much is spent on all of it is the tier's.

import {
  ACESFilmicToneMapping, DirectionalLight, Fog, HemisphereLight, PCFShadowMap, PerspectiveCamera, Scene, Vector3, WebGLRenderer,
} from "three";
import { SCENE } from "../palette";
import { SUN_VOXEL } from "./land";
import { type PlainUniforms, plainUniforms } from "./plain_shader";
import { type Tier, isProcessor } from "./quality";
import { Apron, Sky } from "./surroundings";
import { FIELD_OF_VIEW, worldPoint } from "../spaces";

const SUN = worldPoint(...SUN_VOXEL, new Vector3()).normalize();
const CONTEXT = { alpha: false, depth: true, stencil: false, powerPreference: "high-performance" } as const;

const HAZE = [0.75, 3] as const; // where it begins and where all is hidden, in spans of the map
const HAZE_BEHIND = 1.1; // times the distance of what is looked at

/** A context, and whether there is no GPU behind it. Smoothing is chosen here, once for all. */
export interface Context {
  context: WebGL2RenderingContext;
  slow: boolean;
}

/** Whether a processor would draw: the browser says so, or the name of what draws does. */
function probe(): boolean {
  const context = document.createElement("canvas").getContext("webgl2", { failIfMajorPerformanceCaveat: true });
  if (!context) return true;
  const named = context.getExtension("WEBGL_debug_renderer_info")?.UNMASKED_RENDERER_WEBGL ?? context.RENDERER;
  const name = String(context.getParameter(named));
  context.getExtension("WEBGL_lose_context")?.loseContext();
  return isProcessor(name);
}

/** Make the context; `finest` smooths edges even where there is no GPU. */
export function makeContext(canvas: HTMLCanvasElement, finest: boolean): Context {
  const slow = probe();
  const context = canvas.getContext("webgl2", { ...CONTEXT, antialias: finest || !slow });
  if (!context) throw new Error("no WebGL 2");
  return { context, slow };
}

/** Renderer, scene and camera. */
export class Stage {
  readonly renderer: WebGLRenderer;
  readonly scene = new Scene();
  readonly camera = new PerspectiveCamera((FIELD_OF_VIEW * 180) / Math.PI, 1, 0.3, 1600);
  readonly plain: PlainUniforms = plainUniforms();
  private readonly sun = new DirectionalLight(SCENE.sun, 3.3);
  private readonly apron = new Apron(this.plain);
  private readonly sky = new Sky(this.plain, SUN);
  private readonly fog = new Fog(SCENE.skyLow, 100, 400);
  private span = 1; // of the map, from corner to corner [vox]
  private width = 1;
  private height = 1;

  constructor(canvas: HTMLCanvasElement, { context }: Context, checked: boolean) {
    this.renderer = new WebGLRenderer({ canvas, context });
    // asking for compile errors makes every program wait for the last; the browser tests look for them instead
    this.renderer.debug.checkShaderErrors = checked;
    this.renderer.toneMapping = ACESFilmicToneMapping;
    this.renderer.toneMappingExposure = 1.0;
    this.renderer.shadowMap.type = PCFShadowMap;
    this.sun.shadow.normalBias = 0.06;
    this.sun.shadow.bias = -0.0006;
    this.sun.shadow.radius = 2.2;
    this.scene.fog = this.fog;
    this.scene.add(
      new HemisphereLight(SCENE.hemisphereSky, SCENE.hemisphereGround, 1.9), this.sun, this.sun.target, this.apron.mesh, this.sky.mesh,
    );
  }

  /** Spend what a tier allows. */
  use(tier: Tier): void {
    const { shadow } = this.sun;
    if (tier.shadowTexels > 0 && shadow.mapSize.x !== tier.shadowTexels) {
      shadow.mapSize.set(tier.shadowTexels, tier.shadowTexels);
      shadow.map?.dispose();
      shadow.map = null;
    }
    this.sun.castShadow = this.renderer.shadowMap.enabled = tier.shadowTexels > 0;
    this.apron.use(tier.patterns);
    this.sky.use(tier.patterns);
  }

  /** Fit light, land and fog to a map. */
  fit(size: readonly number[]): void {
    const span = Math.hypot(size[0], size[1]);
    const centre = new Vector3(size[0] / 2, 0, -size[1] / 2);
    this.sun.target.position.copy(centre);
    this.sun.position.copy(centre).addScaledVector(SUN, span);
    const { camera } = this.sun.shadow;
    Object.assign(camera, { left: -span / 2, right: span / 2, top: span / 2, bottom: -span / 2, near: 1, far: span * 2 });
    camera.updateProjectionMatrix();
    this.sun.target.updateMatrixWorld();
    this.span = span;
    this.clear(0);
    this.apron.fit(size, centre, span);
  }

  /** Have no haze before what is looked at from `distance` [vox]: from high above a map is as clear as from its edge. */
  clear(distance: number): void {
    this.fog.near = Math.max(HAZE[0] * this.span, distance * HAZE_BEHIND);
    this.fog.far = this.fog.near + (HAZE[1] - HAZE[0]) * this.span;
    this.plain.uFog.value.set(this.fog.near, 1 / (this.fog.far - this.fog.near));
  }

  /** Follow the size of the canvas on the page, with so many pixels drawn per pixel of the page. */
  resize(width: number, height: number, scale: number): void {
    if (width === this.width && height === this.height && scale === this.renderer.getPixelRatio()) return;
    [this.width, this.height] = [width, height];
    this.renderer.setPixelRatio(scale);
    this.renderer.setSize(width, height, false);
    this.camera.aspect = width / Math.max(1, height);
    this.camera.updateProjectionMatrix();
  }

  /** Have the programs of all that is in the scene compiled, side by side and without waiting for them. */
  warm(): void {
    this.renderer.compile(this.scene, this.camera);
  }

  render(): void {
    this.renderer.render(this.scene, this.camera);
  }
}
