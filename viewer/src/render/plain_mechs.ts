// Mechs in the plain tiers: lit per vertex, with soft shadows on the ground instead of a shadow map. Smoke clouds have
// such shadows in all tiers.

import {
  BufferAttribute,
  Color,
  DynamicDrawUsage,
  GLSL3,
  InstancedBufferAttribute,
  InstancedBufferGeometry,
  Mesh,
  ShaderMaterial,
  Vector2,
  Vector3,
} from "three";
import type { Cloud } from "../data/clouds";
import { groundBelow } from "../data/voxels";
import type { Poses } from "../interpolate";
import { SCENE } from "../palette";
import type { Header } from "../protocol.gen";
import { worldPoint } from "../spaces";
import { SUN_VOXEL } from "./ground_texture";
import type { Mechs } from "./mechs";
import { PLAIN_FILM, PLAIN_LIGHT, PLAIN_SHADE, type PlainUniforms } from "./plain_shader";

/** The walking animation with one rotation per joint and without rotated normals. */
export const PLAIN_WALK = /* glsl */ `
in vec4 part;   // bone, side of the leg, glow, bend of a lifted knee
in vec3 hip;
in vec3 knee;
in vec4 gait;   // phase, stride 0..1, turn of the dish, swing of a thigh
vec3 walk(vec3 p) {
  float phase = gait.x + (part.y > 0.0 ? 3.14159265 : 0.0);
  float s = sin(phase), c = cos(phase);
  bool leg = part.x > 0.5 && part.x < 2.5, dish = part.x > 2.5;
  float bend = part.x > 1.5 && leg ? gait.y * part.w * max(0.0, c) : 0.0;
  // knee angles are small enough for a series of sine and cosine
  vec2 turn = vec2(1.0 - 0.5 * bend * bend, bend - bend * bend * bend / 6.0);
  vec2 d = p.xy - knee.xy;
  p.xy = knee.xy + vec2(turn.x * d.x - turn.y * d.y, turn.y * d.x + turn.x * d.y);
  float angle = leg ? gait.y * gait.w * s : dish ? gait.z : 0.0;
  turn = vec2(cos(angle), sin(angle));
  d = (dish ? p.xz : p.xy) - (dish ? hip.xz : hip.xy);
  vec2 turned = dish
    ? vec2(turn.x * d.x + turn.y * d.y, turn.x * d.y - turn.y * d.x)
    : vec2(turn.x * d.x - turn.y * d.y, turn.y * d.x + turn.x * d.y);
  p = dish ? vec3(hip.x + turned.x, p.y, hip.z + turned.y) : vec3(hip.xy + turned, p.z);
  if (!leg) p.y -= gait.y * 0.07 * s * s;
  return p;
}
`;

const VERTEX = /* glsl */ `
in vec4 paint;  // base colour, share of the team's
in vec4 tint;   // team colour, 1 living to 0 wreck
in vec4 mood;   // heat 0..1, power 0..1, flash of a hit 0..1, selected 0..1
uniform vec3 uHeatGlow;
out vec3 vLight;
flat out float vFades;
${PLAIN_WALK}
${PLAIN_LIGHT}
${PLAIN_SHADE}
void main() {
  vec4 at = instanceMatrix * vec4(walk(position), 1.0);
  vec3 n = mat3(instanceMatrix) * normal;
  vec3 voxelNormal = vec3(n.x, -n.z, n.y);
  vec4 eye = viewMatrix * at;
  float living = tint.a;
  vec3 armour = mix(paint.rgb, tint.rgb, paint.a) * mix(0.72, 1.0, smoothstep(-0.1, 1.4, position.y));
  vec3 colour = mix(vec3(0.045, 0.041, 0.038), armour * mix(0.5, 1.0, mood.y), living);
  float lit = sunlit(at.y + 0.3, textureLod(uGround, vec2(at.x, -at.z) / uMapSize.xy, 0.0).a);
  vLight = colour * (skyOn(voxelNormal) + sunOn(voxelNormal) * lit);
  vec3 glow = part.z > 2.5 ? tint.rgb * 1.6 * mood.y
    : part.z > 1.5 ? uHeatGlow * smoothstep(0.25, 1.05, mood.x) * 2.2
    : part.z > 0.5 ? paint.rgb * 1.5 * mood.y : vec3(0.0);
  float rim = 1.0 - abs(dot(normalize(eye.xyz) * mat3(viewMatrix), n));
  rim *= rim * rim;
  vLight += living * (glow + rim * (0.06 + 0.6 * mood.w) * mix(vec3(0.4, 0.5, 0.6), tint.rgb, 0.5));
  vLight += vec3(1.0, 0.85, 0.65) * mood.z * 0.16;
  vFades = 1.0 - mood.w;
  gl_Position = projectionMatrix * eye;
}`;

const FRAGMENT = /* glsl */ `
in vec3 vLight;
flat in float vFades;
out vec4 fragColour;
${PLAIN_FILM}
void main() {
  // mechs close to the camera fade, except the followed one
  float nearness = clamp((8.5 - 1.0 / gl_FragCoord.w) * 0.25, 0.0, 1.0);
  float grain = fract(52.9829189 * fract(dot(gl_FragCoord.xy, vec2(0.06711056, 0.00583715))));
  if (nearness * vFades * 0.94 > grain) discard;
  fragColour = vec4(haze(film(vLight)), 1.0);
}`;

/** Create the visible material. */
export function plainMechMaterial(shared: PlainUniforms): ShaderMaterial {
  return new ShaderMaterial({
    glslVersion: GLSL3,
    vertexShader: VERTEX,
    fragmentShader: FRAGMENT,
    uniforms: { ...shared, uHeatGlow: { value: new Color(SCENE.heatGlow) } },
  });
}

const SHADOW_VERTEX = /* glsl */ `
in vec4 place;  // feet, radius
in vec2 reach;  // length of the shadow, how dark it is
uniform vec2 uAway; // along the ground, away from the sun
out vec2 vAt;
${PLAIN_SHADE}
out float vStrength;
void main() {
  float along = position.x * place.w + max(0.0, position.x) * reach.x;
  vec2 at = uAway * along + vec2(-uAway.y, uAway.x) * position.z * place.w;
  vAt = position.xz;
  vec2 map = vec2(place.x, -place.z) / uMapSize.xy;
  vStrength = reach.y * (0.36 + 0.64 * sunlit(place.y + 0.5, textureLod(uGround, map, 0.0).a));
  gl_Position = projectionMatrix * viewMatrix * vec4(place.xyz + vec3(at.x, 0.0, at.y), 1.0);
}`;

const SHADOW_FRAGMENT = /* glsl */ `
in vec2 vAt;
in float vStrength;
out vec4 fragColour;
void main() {
  float off = dot(vAt, vAt);
  fragColour = vec4(0.02, 0.025, 0.04, vStrength * clamp(1.35 * (1.0 - off), 0.0, 1.0));
}`;

const LIFT = 0.05; // height of mech shadows above the ground [vox]
const DARK = 0.6; // darkness of a mech's shadow
const CLOUD_DARK = 0.5; // darkness of a dense cloud's shadow
const CLOUD_LIFT = 0.08; // height of cloud shadows above the ground [vox]
const CLOUDS = 64; // most clouds with shadows

/** Soft shadows of all mechs and clouds, in one draw call. */
export class SoftShadows {
  readonly mesh: Mesh<InstancedBufferGeometry, ShaderMaterial>;
  private readonly place: InstancedBufferAttribute;
  private readonly reach: InstancedBufferAttribute;

  constructor(
    shared: PlainUniforms,
    private readonly header: Header,
    private readonly mechs: Mechs,
  ) {
    const most = header.mechs + CLOUDS;
    this.place = new InstancedBufferAttribute(new Float32Array(most * 4), 4).setUsage(DynamicDrawUsage);
    this.reach = new InstancedBufferAttribute(new Float32Array(most * 2), 2).setUsage(DynamicDrawUsage);
    const geometry = new InstancedBufferGeometry();
    geometry.setAttribute(
      "position",
      new BufferAttribute(new Float32Array([-1, 0, -1, -1, 0, 1, 1, 0, 1, 1, 0, -1]), 3),
    );
    geometry.setIndex([0, 1, 2, 0, 2, 3]);
    geometry.setAttribute("place", this.place);
    geometry.setAttribute("reach", this.reach);
    const away = new Vector2(-SUN_VOXEL[0], SUN_VOXEL[1]).normalize(); // world z is the negative of voxel y
    this.mesh = new Mesh(
      geometry,
      new ShaderMaterial({
        glslVersion: GLSL3,
        vertexShader: SHADOW_VERTEX,
        fragmentShader: SHADOW_FRAGMENT,
        transparent: true,
        depthWrite: false,
        polygonOffset: true,
        polygonOffsetFactor: -1,
        polygonOffsetUnits: -4,
        uniforms: { ...shared, uAway: { value: away } },
      }),
    );
    this.mesh.frustumCulled = false;
    this.mesh.renderOrder = 0.5;
  }

  /** Place the shadows of clouds, and of mechs unless the shadow map has them; fallen mechs have shorter ones. */
  update(
    poses: Poses,
    shown: Float32Array,
    clouds: readonly Cloud[],
    appearances: Uint8Array | null,
    ofMechs: boolean,
  ): void {
    const slope = Math.hypot(SUN_VOXEL[0], SUN_VOXEL[1]) / SUN_VOXEL[2];
    let count = this.placeClouds(clouds, appearances, slope);
    if (ofMechs) count = this.placeMechs(poses, shown, slope, count);
    this.mesh.visible = count > 0;
    this.mesh.geometry.instanceCount = count;
    this.place.needsUpdate = this.reach.needsUpdate = true;
  }

  /** Place each cloud's shadow where the sun ray through its centre meets the ground. */
  private placeClouds(clouds: readonly Cloud[], appearances: Uint8Array | null, slope: number): number {
    const { size } = this.header.world;
    let count = 0;
    for (const cloud of clouds.slice(-CLOUDS)) {
      const ground = (appearances && groundBelow(appearances, size, cloud.x, cloud.y, Math.max(0, cloud.z))) ?? 0;
      const away = (Math.max(0, cloud.z - ground) * slope) / Math.hypot(SUN_VOXEL[0], SUN_VOXEL[1]);
      worldPoint(cloud.x - SUN_VOXEL[0] * away, cloud.y - SUN_VOXEL[1] * away, ground, feet);
      this.place.setXYZW(count, feet.x, feet.y + CLOUD_LIFT, feet.z, cloud.radius * cloud.size * 1.15);
      this.reach.setXY(count++, cloud.radius * cloud.size * slope * 0.4, CLOUD_DARK * cloud.density);
    }
    return count;
  }

  private placeMechs(poses: Poses, shown: Float32Array, slope: number, from: number): number {
    let count = from;
    for (let mech = 0; mech < poses.count; mech++) {
      if (!this.header.roster[mech].present || shown[mech] < 0.5) continue;
      const high = this.mechs.height(mech);
      worldPoint(poses.x[mech], poses.y[mech], poses.z[mech] - high / 2, feet);
      const upright = (1 - 0.6 * poses.fallen[mech]) * (0.55 + 0.45 * poses.alive[mech]);
      this.place.setXYZW(count, feet.x, feet.y + LIFT, feet.z, this.mechs.width(mech) * 0.56);
      this.reach.setXY(count++, high * 0.8 * slope * upright, DARK);
    }
    return count;
  }

  dispose(): void {
    this.mesh.geometry.dispose();
    this.mesh.material.dispose();
  }
}

const feet = new Vector3();
