// GLSL and uniforms shared by all materials of the low tier: lighting per vertex, a painted tile, the ground with baked
// shadows, and one cheap tone mapping. No branches and no procedural patterns, since this tier is rendered in software.

import * as THREE from "three";
import { SCENE } from "../palette";
import { GROUND_TEXELS, SUN_VOXEL } from "./ground_texture";
import { TILE, paintTile } from "./tile";

const SUN_STRENGTH = 3.3 / Math.PI; // as in the other tiers
const SKY_STRENGTH = 1.9 / Math.PI;

export interface PlainUniforms {
  [name: string]: { value: unknown };
  uTile: { value: THREE.DataTexture };
  uGround: { value: THREE.DataTexture };
  uMapSize: { value: THREE.Vector3 }; // size of the map [vox]
  uFog: { value: THREE.Vector2 }; // start of the fog, and 1 / its depth
  uTime: { value: number }; // match time [s]
  uCut: { value: THREE.Vector4 }; // the cutaway: centre, height of the feet of its walls, radius, 0 for none [vox]
}

export function plainUniforms(): PlainUniforms {
  return {
    uTile: { value: new THREE.DataTexture(new Uint8Array([127, 0, 0, 0]), 1, 1, THREE.RGBAFormat) },
    uGround: { value: new THREE.DataTexture(new Uint8Array([100, 90, 80, 0]), 1, 1, THREE.RGBAFormat) },
    uMapSize: { value: new THREE.Vector3(1, 1, 1) },
    uFog: { value: new THREE.Vector2(100, 0.01) },
    uTime: { value: 0 },
    uCut: { value: new THREE.Vector4() },
    uSun: { value: new THREE.Vector3(...SUN_VOXEL).normalize() },
    uSunLight: { value: new THREE.Color(SCENE.sun).multiplyScalar(SUN_STRENGTH) },
    uSkyLight: { value: new THREE.Color(SCENE.hemisphereSky).multiplyScalar(SKY_STRENGTH) },
    uGroundLight: { value: new THREE.Color(SCENE.hemisphereGround).multiplyScalar(SKY_STRENGTH) },
    uFogColour: { value: new THREE.Color().setHex(SCENE.skyLow, "") },
  };
}

export function setTile(uniforms: PlainUniforms): void {
  uniforms.uTile.value.dispose();
  const texture = new THREE.DataTexture(paintTile() as Uint8Array<ArrayBuffer>, TILE, TILE, THREE.RGBAFormat);
  texture.wrapS = texture.wrapT = THREE.RepeatWrapping;
  texture.magFilter = THREE.LinearFilter;
  texture.minFilter = THREE.LinearMipmapNearestFilter;
  texture.generateMipmaps = true;
  texture.needsUpdate = true;
  uniforms.uTile.value = texture;
}

/** Set the ground texture of a map, shape [y, x, 4] in texels. */
export function setGround(uniforms: PlainUniforms, ground: Uint8Array, size: readonly number[]): void {
  uniforms.uGround.value.dispose();
  const texture = new THREE.DataTexture(
    ground as Uint8Array<ArrayBuffer>,
    size[0] * GROUND_TEXELS,
    size[1] * GROUND_TEXELS,
    THREE.RGBAFormat,
  );
  texture.minFilter = texture.magFilter = THREE.LinearFilter;
  texture.needsUpdate = true;
  uniforms.uGround.value = texture;
}

/** Light on a surface, for vertex shaders; normals in voxel space. */
export const PLAIN_LIGHT = /* glsl */ `
uniform vec3 uSun, uSunLight, uSkyLight, uGroundLight;
vec3 sunOn(vec3 n) { return uSunLight * max(0.0, dot(n, uSun)); }
vec3 skyOn(vec3 n) { return mix(uGroundLight, uSkyLight, 0.5 * n.z + 0.5); }
`;

/** Share of sunlight at height `z` over a point whose baked shadow is `hidden`. */
export const PLAIN_SHADE = /* glsl */ `
uniform highp sampler2D uGround;
uniform vec3 uMapSize;
float sunlit(float z, float hidden) { return clamp((z - hidden * uMapSize.z) * 1.6 + 0.7, 0.0, 1.0); }
`;

/** Tone mapping: filmic curve and sRGB in one fraction, and fog at a depth. */
export const PLAIN_CURVE = /* glsl */ `
uniform vec2 uFog;
uniform vec3 uFogColour;
vec3 film(vec3 c) { return min(vec3(1.0), c * (13.105 * c + 4.465) / (c * (13.032 * c + 5.762) + 1.0)); }
vec3 hazeAt(vec3 c, float depth) { return mix(c, uFogColour, clamp((depth - uFog.x) * uFog.y, 0.0, 1.0)); }
`;

/** The same for the depth of a fragment. */
export const PLAIN_FILM = /* glsl */ `
${PLAIN_CURVE}
vec3 haze(vec3 c) { return hazeAt(c, 1.0 / gl_FragCoord.w); }
`;
