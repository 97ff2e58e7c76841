// What all materials of the plain tiers share, as GLSL: light by vertex, painted tiles, the land with its baked shadows,
// and one cheap step from light to the screen. No branches and no patterns, since a processor draws every pixel of them.

import {
  Color, DataArrayTexture, DataTexture, LinearFilter, LinearMipmapNearestFilter, RepeatWrapping, RGBAFormat, Vector2,
  Vector3,
} from "three";
import { SCENE } from "../palette";
import { LAND_TEXELS, SUN_VOXEL } from "./land";
import { TILE, TILE_LAYERS, TILE_VOXELS } from "./tiles";

const SUN_STRENGTH = 3.3 / Math.PI; // as in the tiers with patterns
const SKY_STRENGTH = 1.9 / Math.PI;

/** Values shared by all plain materials. */
export interface PlainUniforms {
  [name: string]: { value: unknown };
  uTiles: { value: DataArrayTexture };
  uLand: { value: DataTexture };
  uLandSize: { value: Vector3 }; // size of the map [vox]
  uFog: { value: Vector2 }; // nearest distance with fog, and one over its depth
  uTime: { value: number }; // seconds of the match
}

function tileTexture(): DataArrayTexture {
  const grey = new Uint8Array(TILE_LAYERS * 4).fill(160); // until the tiles are painted
  const texture = new DataArrayTexture(grey, 1, 1, TILE_LAYERS);
  texture.format = RGBAFormat;
  return texture;
}

function landTexture(): DataTexture {
  return new DataTexture(new Uint8Array([100, 90, 80, 0]), 1, 1, RGBAFormat);
}

/** Make the shared values. */
export function plainUniforms(): PlainUniforms {
  return {
    uTiles: { value: tileTexture() },
    uLand: { value: landTexture() },
    uLandSize: { value: new Vector3(1, 1, 1) },
    uFog: { value: new Vector2(100, 0.01) },
    uTime: { value: 0 },
    uSun: { value: new Vector3(...SUN_VOXEL).normalize() },
    uSunLight: { value: new Color(SCENE.sun).multiplyScalar(SUN_STRENGTH) },
    uSkyLight: { value: new Color(SCENE.hemisphereSky).multiplyScalar(SKY_STRENGTH) },
    uGroundLight: { value: new Color(SCENE.hemisphereGround).multiplyScalar(SKY_STRENGTH) },
    uFogColour: { value: new Color().setHex(SCENE.skyLow, "") },
  };
}

/** Put in the painted tiles, shape [layer, y, x, 4]. */
export function setTiles(uniforms: PlainUniforms, texels: Uint8Array): void {
  uniforms.uTiles.value.dispose();
  const texture = new DataArrayTexture(texels as Uint8Array<ArrayBuffer>, TILE, TILE, TILE_LAYERS);
  texture.format = RGBAFormat;
  texture.wrapS = texture.wrapT = RepeatWrapping;
  texture.magFilter = LinearFilter;
  texture.minFilter = LinearMipmapNearestFilter;
  texture.generateMipmaps = true;
  texture.needsUpdate = true;
  uniforms.uTiles.value = texture;
}

/** Put in the land of a map, shape [y, x, 4] in texels. */
export function setLand(uniforms: PlainUniforms, land: Uint8Array, size: readonly number[]): void {
  uniforms.uLand.value.dispose();
  const texture = new DataTexture(land as Uint8Array<ArrayBuffer>, size[0] * LAND_TEXELS, size[1] * LAND_TEXELS, RGBAFormat);
  texture.minFilter = texture.magFilter = LinearFilter;
  texture.needsUpdate = true;
  uniforms.uLand.value = texture;
}

/** Light on a surface, for vertex shaders; normals are in voxel space. */
export const PLAIN_LIGHT = /* glsl */ `
uniform vec3 uSun, uSunLight, uSkyLight, uGroundLight;
vec3 sunOn(vec3 n) { return uSunLight * max(0.0, dot(n, uSun)); }
vec3 skyOn(vec3 n) { return mix(uGroundLight, uSkyLight, 0.5 * n.z + 0.5); }
`;

/** How much of the sun reaches a height over a place whose baked shadow is \`hidden\`. */
export const PLAIN_SHADE = /* glsl */ `
uniform highp sampler2D uLand;
uniform vec3 uLandSize;
float sunlit(float z, float hidden) { return clamp((z - hidden * uLandSize.z) * 1.6 + 0.7, 0.0, 1.0); }
`;

/** From light to the screen: the curve of filmic tone mapping and of sRGB in one fraction, and fog at a depth. */
export const PLAIN_CURVE = /* glsl */ `
uniform vec2 uFog;
uniform vec3 uFogColour;
vec3 film(vec3 c) { return min(vec3(1.0), c * (13.105 * c + 4.465) / (c * (13.032 * c + 5.762) + 1.0)); }
vec3 hazeAt(vec3 c, float depth) { return mix(c, uFogColour, clamp((depth - uFog.x) * uFog.y, 0.0, 1.0)); }
`;

/** The same for a fragment. */
export const PLAIN_FILM = /* glsl */ `
${PLAIN_CURVE}
vec3 haze(vec3 c) { return hazeAt(c, 1.0 / gl_FragCoord.w); }
`;

export const TILES_PER_VOXEL = (1 / TILE_VOXELS).toFixed(6);
