// Smoke clouds as camera-facing puffs, sorted back to front, one draw call. Puff positions depend only on their cloud;
// lighting is per vertex, and smoke fades near the ground and the camera.

import { CircleGeometry, Color, GLSL3, ShaderMaterial, Vector3 } from "three";
import type { Cloud } from "../data/clouds";
import { groundBelow } from "../data/voxels";
import { smooth } from "../interpolate";
import { SCENE } from "../palette";
import { worldPoint } from "../spaces";
import { Instances } from "./instances";
import { NOISE, hashRandom } from "./random";
import { PLAIN_CURVE, PLAIN_LIGHT, PLAIN_SHADE, type PlainUniforms } from "./plain_shader";
import type { Tier } from "../quality";

const MOST = 2400; // most puffs; with more clouds, each has fewer
const THICKNESS = 5.2; // optical thickness of a whole cloud
const SPREAD = 0.74; // distance of puffs from the centre, relative to the radius
const TURN = 0.16; // rotation of puffs around the centre [rad/s]
const DRIFT = [0.042, 0.026, -0.018] as const; // drift of a cloud in world space [vox/s]
const CLEARANCE = 0.3; // height of puffs above the ground, relative to their radius
const REVEALED_OPACITY = 0.2; // least opacity of puffs in front of the selected mech
const REVEAL_RADIUS = 2; // radius around the line of sight in which smoke thins, beyond a puff's radius [vox]
const GOLDEN = Math.PI * (3 - Math.sqrt(5));

export interface Puff {
  x: number;
  y: number;
  z: number;
  radius: number;
  alpha: number; // opacity at its centre
  turn: number; // rotation of its pattern [rad]
  outward: [number, number, number]; // offset from the cloud's centre, relative to its radius
}

/**
 * Return the opacity of each of `puffs` puffs so that the cloud hides what is in it; `share` is their size relative to
 * the cloud.
 */
export function puffAlpha(puffs: number, share: number): number {
  return 1 - Math.exp(-THICKNESS / (puffs * share * share * 0.6));
}

/** Return the puffs of a cloud, a pure function of it. */
export function puffsOf(cloud: Cloud, puffs: number): Puff[] {
  const centre = worldPoint(cloud.x, cloud.y, cloud.z, new Vector3());
  const reach = cloud.radius * cloud.size;
  const share = 0.43 + 0.5 / Math.sqrt(puffs);
  const made: Puff[] = [];
  for (let k = 0; k < puffs; k++) {
    const [a, b, c] = [hashRandom(cloud.seed, k), hashRandom(cloud.seed, k + 131), hashRandom(cloud.seed, k + 277)];
    const height = 1 - (2 * (k + 0.5)) / puffs;
    const flat = Math.sqrt(1 - height * height);
    const away = SPREAD * Math.cbrt(0.12 + 0.88 * a);
    const angle = k * GOLDEN + cloud.seed + TURN * (b - 0.35) * cloud.age;
    const outward: Puff["outward"] = [
      Math.cos(angle) * flat * away,
      height * away * 0.92,
      Math.sin(angle) * flat * away,
    ];
    const radius = reach * share * (0.82 + 0.36 * c) * (1 + 0.05 * Math.sin(cloud.age * (0.6 + b) + a * 6.28));
    made.push({
      x: centre.x + outward[0] * reach + DRIFT[0] * cloud.age,
      y: centre.y + outward[1] * reach + DRIFT[1] * cloud.age,
      z: centre.z + outward[2] * reach + DRIFT[2] * cloud.age,
      radius,
      outward,
      alpha: puffAlpha(puffs, share) * cloud.density,
      turn: b * 6.28 + (c - 0.5) * 0.3 * cloud.age,
    });
  }
  return made;
}

const VERTEX = /* glsl */ `
in vec4 place;  // centre, radius
in vec4 puff;   // alpha, turn, height of the ground under it, number
in vec3 outward;
uniform vec3 uSmoke;
out vec2 vAt;
out vec3 vLight;
out vec2 vThin;  // alpha, height above the ground
flat out vec2 vTurn;
${PLAIN_LIGHT}
${PLAIN_SHADE}
${PLAIN_CURVE}
void main() {
  vec2 corner = position.xy;
  vec3 right = vec3(viewMatrix[0][0], viewMatrix[1][0], viewMatrix[2][0]);
  vec3 up = vec3(viewMatrix[0][1], viewMatrix[1][1], viewMatrix[2][1]);
  vec3 back = vec3(viewMatrix[0][2], viewMatrix[1][2], viewMatrix[2][2]);
  vec3 at = place.xyz + (right * corner.x + up * corner.y) * place.w;
  // round as a puff, and as a part of its cloud
  vec3 n = normalize((right * corner.x + up * corner.y) * 0.75 + back * 0.35 + outward * 1.1);
  vec3 voxelNormal = vec3(n.x, -n.z, n.y);
  float lit = sunlit(place.y + 0.5, textureLod(uGround, vec2(place.x, -place.z) / uMapSize.xy, 0.0).a);
  // light goes through smoke: even the far side of it gets some
  float sun = 0.16 + 0.6 * clamp(dot(voxelNormal, uSun) * 0.65 + 0.35, 0.0, 1.0);
  vLight = uSmoke * (skyOn(voxelNormal) * (0.8 + 0.35 * outward.y) + uSunLight * sun * (0.25 + 0.75 * lit));
  vAt = corner;
  vec4 eye = viewMatrix * vec4(place.xyz, 1.0);
  float far = length(eye.xyz) / place.w;
  vThin = vec2(puff.x * smoothstep(0.55, 1.9, far), at.y - puff.z);
  vTurn = vec2(cos(puff.y), sin(puff.y));
  gl_Position = projectionMatrix * viewMatrix * vec4(at, 1.0);
  // light changes so little over a puff that its corners are exposed and not its pixels
  vLight = hazeAt(film(vLight), gl_Position.w);
}`;

const FRAGMENT = /* glsl */ `
in vec2 vAt;
in vec3 vLight;
in vec2 vThin;
flat in vec2 vTurn;
out vec4 fragColour;
#ifdef RICH
${NOISE}
#endif
void main() {
  float inside = max(0.0, 1.0 - dot(vAt, vAt));
  float soft = inside * inside * (2.0 - inside);
  vec3 light = vLight;
#ifdef RICH
  vec2 p = mat2(vTurn.x, vTurn.y, -vTurn.y, vTurn.x) * vAt * 2.3 + vTurn * 9.0;
  float rag = 0.6 * noise2(p) + 0.28 * noise2(p * 2.3 + 3.0) + 0.12 * noise2(p * 5.1);
  soft = smoothstep(0.0, 0.75, inside * (0.35 + 1.3 * rag));
  light *= 0.87 + 0.26 * rag;
#endif
  // where it meets the ground it ends softly
  float alpha = vThin.x * soft * clamp(vThin.y * 1.1 + 0.2, 0.0, 1.0);
  fragColour = vec4(light, alpha);
}`;

/** Return the opacity factor of a puff, reduced along the line of sight to `revealTarget`, all in world space. */
export function revealFactor(
  puff: Pick<Puff, "x" | "y" | "z" | "radius">,
  eye: Vector3,
  revealTarget: Vector3 | null,
): number {
  if (!revealTarget) return 1;
  const [x, y, z] = [revealTarget.x - eye.x, revealTarget.y - eye.y, revealTarget.z - eye.z];
  const far = Math.max(0.001, Math.hypot(x, y, z));
  const ahead = ((puff.x - eye.x) * x + (puff.y - eye.y) * y + (puff.z - eye.z) * z) / far;
  const share = Math.max(0, Math.min(1, ahead / far));
  const aside = Math.hypot(puff.x - eye.x - x * share, puff.y - eye.y - y * share, puff.z - eye.z - z * share);
  const clear = Math.max(smooth(aside / (puff.radius + REVEAL_RADIUS)), smooth((ahead - far) / puff.radius));
  return REVEALED_OPACITY + (1 - REVEALED_OPACITY) * clear;
}

/** A disc around a puff with eight corners, which wastes fewer pixels than a square. */
const OCTAGON = new CircleGeometry(1 / Math.cos(Math.PI / 8), 8, Math.PI / 8);

function smokeMaterial(shared: PlainUniforms, defines: Record<string, string>): ShaderMaterial {
  return new ShaderMaterial({
    glslVersion: GLSL3,
    vertexShader: VERTEX,
    fragmentShader: FRAGMENT,
    transparent: true,
    depthWrite: false,
    defines,
    uniforms: { ...shared, uSmoke: { value: new Color(SCENE.smoke) } },
  });
}

export class Clouds extends Instances {
  shown = 0; // number of clouds
  opacity = 1; // factor of the puffs' own
  private readonly rich: ShaderMaterial;
  private readonly plain: ShaderMaterial;
  private puffs = 12; // per cloud

  constructor(shared: PlainUniforms) {
    const plain = smokeMaterial(shared, {});
    // below beams and markers, so that mechs in smoke can be found
    super(OCTAGON, ["place", "puff", "outward"], plain, 4);
    this.plain = plain;
    this.rich = smokeMaterial(shared, { RICH: "" });
  }

  setTier(tier: Tier): void {
    this.puffs = tier.puffs;
    this.mesh.material = tier.patterns ? this.rich : this.plain;
  }

  /**
   * Draw clouds for a camera at `eye`, faded in front of `revealTarget`, both in world space; `appearances` are the
   * current voxels, null before they are loaded.
   */
  update(
    clouds: readonly Cloud[],
    eye: Vector3,
    revealTarget: Vector3 | null,
    appearances: Uint8Array | null,
    size: readonly number[],
  ): void {
    this.shown = clouds.length;
    const each = Math.min(this.puffs, Math.floor(MOST / Math.max(1, clouds.length)));
    const seen: { puff: Puff; ground: number; far: number }[] = [];
    for (const cloud of clouds) {
      for (const puff of puffsOf(cloud, each)) {
        const ground = appearances ? groundBelow(appearances, size, puff.x, -puff.z, Math.max(0, puff.y)) : 0;
        if (ground === null) continue;
        // smoke spreads over the ground instead of sinking into it
        puff.y = Math.max(puff.y, ground + CLEARANCE * puff.radius);
        seen.push({ puff, ground, far: Math.hypot(puff.x - eye.x, puff.y - eye.y, puff.z - eye.z) });
      }
    }
    seen.sort((a, b) => b.far - a.far);
    this.clear();
    seen.forEach(({ puff, ground }, i) => {
      const alpha = puff.alpha * this.opacity * revealFactor(puff, eye, revealTarget);
      this.push(puff.x, puff.y, puff.z, puff.radius, alpha, puff.turn, ground, i, ...puff.outward, 0);
    });
    this.finish();
  }

  override dispose(): void {
    super.dispose();
    this.rich.dispose();
    this.plain.dispose();
  }
}
