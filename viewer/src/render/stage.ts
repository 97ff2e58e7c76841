// The stage on which a match is shown: renderer, sun and sky, the land around the map, and the fog between them. The sun
// stands still; its shadow box is fitted to the map once.

import {
  ACESFilmicToneMapping, BackSide, Color, DirectionalLight, Fog, HemisphereLight, Mesh, MeshLambertMaterial, PCFShadowMap,
  PerspectiveCamera, PlaneGeometry, Scene, ShaderMaterial, SphereGeometry, Vector2, Vector3, WebGLRenderer,
} from "three";
import { SCENE } from "../palette";

const SUN = new Vector3(-0.52, 0.62, 0.42).normalize(); // direction toward the sun
const MAX_RATIO = 2; // device pixels per CSS pixel
const SLOW_SHADOW_FRAMES = 4;
const SLOW_RATIO = 0.8; // where there is no GPU
const SHADOW_TEXELS = 2048;
const SHADOW_TEXELS_SLOW = 1024;

const CONTEXT = { alpha: false, depth: true, stencil: false, powerPreference: "high-performance" } as const;

/** Make the context; `slow` says that there is no GPU behind it. Smoothing is chosen here, once for all. */
function makeContext(canvas: HTMLCanvasElement, finest: boolean): { context: WebGL2RenderingContext; slow: boolean } {
  const fast = finest ? null : canvas.getContext("webgl2", { ...CONTEXT, antialias: true, failIfMajorPerformanceCaveat: true });
  const context = fast ?? canvas.getContext("webgl2", { ...CONTEXT, antialias: finest });
  if (!context) throw new Error("no WebGL 2");
  return { context, slow: fast === null && !finest };
}

/** Renderer, scene and camera. */
export class Stage {
  readonly renderer: WebGLRenderer;
  readonly scene = new Scene();
  readonly camera = new PerspectiveCamera(42, 1, 0.3, 1200);
  private readonly sun = new DirectionalLight(SCENE.sun, 3.3);
  private readonly apron: Mesh<PlaneGeometry, MeshLambertMaterial>;
  private readonly apronSize = { value: new Vector2(100, 100) };
  private readonly fog: Fog;
  private readonly slow: boolean; // whether there is no GPU
  private frames = 0;

  constructor(canvas: HTMLCanvasElement, finest: boolean, checked: boolean) {
    const { context, slow } = makeContext(canvas, finest);
    this.slow = slow;
    this.renderer = new WebGLRenderer({ canvas, context });
    // asking for compile errors makes every program wait for the last; the browser tests look for them instead
    this.renderer.debug.checkShaderErrors = checked;
    this.renderer.setPixelRatio(slow ? SLOW_RATIO : Math.min(window.devicePixelRatio, MAX_RATIO));
    this.renderer.toneMapping = ACESFilmicToneMapping;
    this.renderer.toneMappingExposure = 1.0;
    this.renderer.shadowMap.enabled = true;
    this.renderer.shadowMap.autoUpdate = !slow;
    this.renderer.shadowMap.type = PCFShadowMap;
    const texels = slow ? SHADOW_TEXELS_SLOW : SHADOW_TEXELS;
    this.sun.shadow.mapSize.set(texels, texels);
    this.sun.castShadow = true;
    this.sun.shadow.normalBias = 0.06;
    this.sun.shadow.bias = -0.0006;
    this.sun.shadow.radius = 2.2;
    this.fog = new Fog(SCENE.skyLow, 100, 400);
    this.scene.fog = this.fog;
    this.apron = this.makeApron();
    this.scene.add(
      new HemisphereLight(SCENE.hemisphereSky, SCENE.hemisphereGround, 1.9), this.sun, this.sun.target, this.apron, makeSky(),
    );
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
    this.fog.near = span * 0.75;
    this.fog.far = span * 3.0;
    this.apronSize.value.set(size[0], size[1]);
    this.apron.position.set(centre.x, -0.04, centre.z);
    this.apron.scale.setScalar(span * 8);
    this.apron.updateMatrix();
  }

  /** Follow the size of the canvas on the page. */
  resize(width: number, height: number): void {
    this.renderer.setSize(width, height, false);
    this.camera.aspect = width / Math.max(1, height);
    this.camera.updateProjectionMatrix();
  }

  /** Have the programs of all that is in the scene compiled, side by side and without waiting for them. */
  warm(): void {
    this.renderer.compile(this.scene, this.camera);
  }

  render(): void {
    // without a GPU shadows may lag a few frames behind what casts them
    if (this.slow) this.renderer.shadowMap.needsUpdate = this.frames++ % SLOW_SHADOW_FRAMES === 0;
    this.renderer.render(this.scene, this.camera);
  }

  private makeApron(): Mesh<PlaneGeometry, MeshLambertMaterial> {
    const material = new MeshLambertMaterial({ color: SCENE.apron });
    material.onBeforeCompile = (shader) => {
      shader.uniforms.uMap = this.apronSize;
      shader.vertexShader = shader.vertexShader
        .replace("#include <common>", "#include <common>\nout vec3 vGround;")
        .replace("#include <project_vertex>", "#include <project_vertex>\nvGround = (modelMatrix * vec4(transformed, 1.0)).xyz;");
      shader.fragmentShader = shader.fragmentShader
        .replace("#include <common>", `#include <common>\nuniform vec2 uMap;\nin vec3 vGround;\n${APRON_PARS}`)
        .replace("#include <color_fragment>", "diffuseColor.rgb *= apron(vec2(vGround.x, -vGround.z));");
    };
    const apron = new Mesh(new PlaneGeometry(1, 1).rotateX(-Math.PI / 2), material);
    apron.receiveShadow = true;
    apron.frustumCulled = false;
    apron.matrixAutoUpdate = false;
    return apron;
  }
}

const APRON_PARS = /* glsl */ `
float apronNoise(vec2 p) {
  vec2 i = floor(p), f = fract(p);
  f = f * f * (3.0 - 2.0 * f);
  vec4 h = fract(sin(vec4(dot(i, vec2(127.1, 311.7)), dot(i + vec2(1, 0), vec2(127.1, 311.7)),
    dot(i + vec2(0, 1), vec2(127.1, 311.7)), dot(i + vec2(1, 1), vec2(127.1, 311.7)))) * 43758.5453);
  return mix(mix(h.x, h.y, f.x), mix(h.z, h.w, f.x), f.y);
}
// wide plain around the map: mottled, with survey lines every ten voxels and a frame around the field
float apron(vec2 p) {
  float mottle = 0.86 + 0.2 * apronNoise(p * 0.06) + 0.08 * apronNoise(p * 0.5);
  vec2 grid = abs(fract(p / 10.0 + 0.5) - 0.5) * 10.0;
  vec2 px = fwidth(p);
  vec2 line = 1.0 - smoothstep(vec2(0.04), vec2(0.04) + px * 1.2, grid);
  float fade = 1.0 - smoothstep(0.3, 1.6, max(px.x, px.y));
  mottle *= 1.0 + 0.1 * max(line.x, line.y) * fade;
  vec2 beyond = max(-p, p - uMap);
  float away = max(beyond.x, beyond.y);
  float rim = smoothstep(1.6, 1.3, away) * smoothstep(0.9, 1.2, away);
  return mottle * (1.0 + 0.5 * rim) * mix(0.82, 1.0, smoothstep(0.0, 14.0, away));
}
`;

/** The dome of the sky: a gradient, and a glow around the sun. */
function makeSky(): Mesh<SphereGeometry, ShaderMaterial> {
  const material = new ShaderMaterial({
    side: BackSide,
    depthWrite: false,
    depthTest: false,
    uniforms: {
      uTop: { value: new Color(SCENE.skyTop) }, uLow: { value: new Color(SCENE.skyLow) }, uSun: { value: SUN },
      uSunColour: { value: new Color(SCENE.sun) },
    },
    vertexShader: /* glsl */ `
      out vec3 vWay;
      void main() {
        vWay = position;
        vec4 far = projectionMatrix * vec4(mat3(viewMatrix) * position, 1.0);
        gl_Position = far.xyww;
      }`,
    fragmentShader: /* glsl */ `
      uniform vec3 uTop, uLow, uSun, uSunColour;
      in vec3 vWay;
      void main() {
        vec3 way = normalize(vWay);
        float up = clamp(way.y, 0.0, 1.0);
        vec3 sky = mix(uLow, uTop, pow(up, 0.55));
        float near = max(0.0, dot(way, uSun));
        sky += uSunColour * (0.28 * pow(near, 6.0) + 0.5 * pow(near, 60.0));
        gl_FragColor = vec4(sky, 1.0);
        #include <tonemapping_fragment>
        #include <colorspace_fragment>
      }`,
  });
  const sky = new Mesh(new SphereGeometry(1, 32, 16), material);
  sky.frustumCulled = false;
  sky.renderOrder = -1;
  return sky;
}
