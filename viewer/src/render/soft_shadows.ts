// Soft shadows on the ground: of smoke clouds in all tiers, of mechs where there is no shadow map.

import { GLSL3, PlaneGeometry, ShaderMaterial, Vector2, Vector3 } from "three";
import type { Cloud } from "../data/clouds";
import { groundBelow } from "../data/voxels";
import type { Poses } from "../interpolate";
import type { Header } from "../protocol.gen";
import { worldPoint } from "../spaces";
import { SUN_VOXEL } from "./ground_texture";
import { Instances } from "./instances";
import type { Mechs } from "./mechs";
import { PLAIN_SHADE, type PlainUniforms } from "./plain_shader";

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
export class SoftShadows extends Instances {
  constructor(
    shared: PlainUniforms,
    private readonly header: Header,
    private readonly mechs: Mechs,
  ) {
    const away = new Vector2(-SUN_VOXEL[0], SUN_VOXEL[1]).normalize(); // world z is the negative of voxel y
    const material = new ShaderMaterial({
      glslVersion: GLSL3,
      vertexShader: SHADOW_VERTEX,
      fragmentShader: SHADOW_FRAGMENT,
      transparent: true,
      depthWrite: false,
      polygonOffset: true,
      polygonOffsetFactor: -1,
      polygonOffsetUnits: -4,
      uniforms: { ...shared, uAway: { value: away } },
    });
    super(new PlaneGeometry(2, 2).rotateX(-Math.PI / 2), ["place", "reach"], material, 0.5);
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
    this.clear();
    this.placeClouds(clouds, appearances, slope);
    if (ofMechs) this.placeMechs(poses, shown, slope);
    this.finish();
  }

  /** Place each cloud's shadow where the sun ray through its centre meets the ground. */
  private placeClouds(clouds: readonly Cloud[], appearances: Uint8Array | null, slope: number): void {
    const { size } = this.header.world;
    for (const cloud of clouds.slice(-CLOUDS)) {
      const ground = (appearances && groundBelow(appearances, size, cloud.x, cloud.y, Math.max(0, cloud.z))) ?? 0;
      const away = (Math.max(0, cloud.z - ground) * slope) / Math.hypot(SUN_VOXEL[0], SUN_VOXEL[1]);
      worldPoint(cloud.x - SUN_VOXEL[0] * away, cloud.y - SUN_VOXEL[1] * away, ground, feet);
      const radius = cloud.radius * cloud.size;
      const reach = [radius * slope * 0.4, CLOUD_DARK * cloud.density, 0, 0];
      this.push(feet.x, feet.y + CLOUD_LIFT, feet.z, radius * 1.15, ...reach);
    }
  }

  private placeMechs(poses: Poses, shown: Float32Array, slope: number): void {
    for (let mech = 0; mech < poses.count; mech++) {
      if (!this.header.roster[mech].present || shown[mech] < 0.5) continue;
      const high = this.mechs.height(mech);
      worldPoint(poses.x[mech], poses.y[mech], poses.z[mech] - high / 2, feet);
      const upright = (1 - 0.6 * poses.fallen[mech]) * (0.55 + 0.45 * poses.alive[mech]);
      const reach = [high * 0.8 * slope * upright, DARK, 0, 0];
      this.push(feet.x, feet.y + LIFT, feet.z, this.mechs.width(mech) * 0.56, ...reach);
    }
  }
}

const feet = new Vector3();
