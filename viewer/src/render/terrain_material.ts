// Terrain materials with patterns: three's Lambert lighting, shadows and fog around the patterns of terrain_shader, for
// vertices with appearance, face, occlusion and tint instead of normals and colours. One material for everything
// opaque, one for water and glass.

import * as THREE from "three";
import { APPEARANCES } from "../palette";
import { POSITION_STEPS } from "../data/mesher";
import { FACE_NORMAL, TERRAIN_PARS } from "./terrain_shader";

export interface TerrainUniforms {
  [name: string]: { value: unknown };
  uTime: { value: number }; // match time [s]
  uSoil: { value: THREE.Texture | null }; // proximity of plants, houses, lava, water
  uMap: { value: THREE.Vector2 }; // size of the map [vox]
  uEye: { value: THREE.Vector3 }; // the camera, in voxel space
  uOverlay: { value: THREE.Texture | null }; // ground overlay
  uWalls: { value: number }; // share of it on what is not level
  uCut: { value: THREE.Vector4 }; // of PlainUniforms
}

const BARE_LIGHT = 1.6; // skylight on ground whose walls are cut away, which still lies in their shadow
const TOP_FACE = 4; // number of the faces that look up
export const INNER = 0.55; // brightness of the inner sides of walls, relative to the outer ones
export const FACADES = [0xc7beb0, 0xa9684e, 0x8f979c, 0xcdb288, 0x6e7a84, 0xb99f8c, 0x9aa28d, 0xd2cdc4];

/** Return the uniforms; `cut` is the cutaway, which other materials share. */
export function terrainUniforms(cut: { value: THREE.Vector4 }): TerrainUniforms {
  const appearances = Object.values(APPEARANCES);
  return {
    uTime: { value: 0 },
    uSoil: { value: null as THREE.DataTexture | null },
    uMap: { value: new THREE.Vector2(1, 1) },
    uEye: { value: new THREE.Vector3() },
    uOverlay: { value: null },
    uWalls: { value: 0 },
    uCut: cut,
    uColour: { value: appearances.map((appearance) => new THREE.Color(appearance.colour)) },
    uAccent: { value: appearances.map((appearance) => new THREE.Color(appearance.accent)) },
    uFacade: { value: FACADES.map((facade) => new THREE.Color(facade)) },
  };
}

const VERTEX_PARS = /* glsl */ `
in vec4 code;
out vec3 vVoxel;
flat out vec4 vCode;
out float vOpen;
${FACE_NORMAL}
`;
const VERTEX_NORMAL = "vec3 objectNormal = faceNormal(code.y);";
const VERTEX_MAIN = /* glsl */ `
vVoxel = position / ${POSITION_STEPS.toFixed(1)};
vCode = vec4(code.x, code.y, code.w, 0.0);
vOpen = code.z / 255.0;
#include <begin_vertex>
`;

type Shader = Parameters<THREE.MeshLambertMaterial["onBeforeCompile"]>[0];

/** Insert attributes and patterns into one of three's shaders. */
function inject(shader: Shader, uniforms: TerrainUniforms, colour: string, occlusion: string): void {
  Object.assign(shader.uniforms, uniforms);
  shader.vertexShader = shader.vertexShader
    .replace("#include <common>", `#include <common>\n${VERTEX_PARS}`)
    .replace("#include <beginnormal_vertex>", VERTEX_NORMAL)
    .replace("#include <begin_vertex>", VERTEX_MAIN);
  shader.fragmentShader = shader.fragmentShader
    .replace("#include <common>", `#include <common>\n${TERRAIN_PARS}\n${FACE_NORMAL}`)
    .replace("#include <color_fragment>", colour)
    .replace("#include <aomap_fragment>", occlusion)
    .replace("#include <opaque_fragment>", `#include <opaque_fragment>\n${OVERLAY}`);
}

/** Blends in the ground overlay, if there is one. */
const OVERLAY = /* glsl */ `
#ifdef OVERLAY
vec4 overlay = texture2D(uOverlay, vVoxel.xy / uMap);
float tinted = overlay.a * (vCode.y == ${TOP_FACE.toFixed(1)} ? 1.0 : uWalls);
gl_FragColor.rgb = mix(gl_FragColor.rgb, overlay.rgb * overlay.rgb, tinted);
#endif
`;

const SOLID_COLOUR = /* glsl */ `
if (isCutAway(vVoxel)) discard;
Surface surface = surfaceOf(faceNormal(vCode.y));
#ifdef DOUBLE_SIDED
if (!gl_FrontFacing) surface = Surface(surface.colour * ${INNER.toFixed(2)}, vec3(0));
#endif
diffuseColor.rgb = surface.colour;
totalEmissiveRadiance += surface.glow;
`;
const SOLID_OCCLUSION = /* glsl */ `
float open = vOpen * vOpen * (3.0 - 2.0 * vOpen);
reflectedLight.indirectDiffuse *= mix(0.34, 1.0, open);
reflectedLight.directDiffuse *= mix(0.62, 1.0, open);
if (isOpened(vVoxel)) reflectedLight.indirectDiffuse *= ${BARE_LIGHT.toFixed(1)};
`;

/** Create the material of everything opaque; `open` shows the inner sides of walls that are cut away. */
export function solidMaterial(uniforms: TerrainUniforms, open: boolean): THREE.MeshLambertMaterial {
  const material = new THREE.MeshLambertMaterial({
    side: open ? THREE.DoubleSide : THREE.FrontSide,
    shadowSide: THREE.BackSide,
  });
  material.onBeforeCompile = (shader) => inject(shader, uniforms, SOLID_COLOUR, SOLID_OCCLUSION);
  material.customProgramCacheKey = () => "echelon-terrain";
  return material;
}

const CLEAR_COLOUR = /* glsl */ `
if (isCutAway(vVoxel)) discard;
int appearance = int(vCode.x + 0.5);
vec3 face = faceNormal(vCode.y);
vec2 uv = abs(face.x) > 0.5 ? vVoxel.yz : abs(face.y) > 0.5 ? vVoxel.xz : vVoxel.xy;
vec2 footprint = fwidth(uv);
float px = max(max(footprint.x, footprint.y), 1e-4) * 0.7;
vec3 flatNormal = normalize(cross(dFdx(vViewPosition), dFdy(vViewPosition)));
float facing = abs(dot(normalize(vViewPosition), flatNormal));
float rim = pow(1.0 - facing, 3.0);
if (appearance == WATER) {
  float wave = fbm2(uv * 0.8 + vec2(uTime * 0.25, -uTime * 0.17)) + 0.5 * noise2(uv * 2.7 - uTime * 0.5);
  float crest = smoothstep(0.84, 1.02, wave);
  diffuseColor.rgb = mix(uColour[WATER] * 0.8, uColour[WATER] * 1.9, wave * 0.6) + uAccent[WATER] * crest * 0.25;
  diffuseColor.rgb = mix(diffuseColor.rgb, vec3(0.62, 0.76, 0.86), rim * 0.7);
  diffuseColor.a = mix(0.78, 0.96, rim);
} else {
  float frame = seam(uv, 1.0, 0.045, px) * (1.0 - smoothstep(0.2, 0.8, px));
  float slant = fract((uv.x + uv.y) * 0.35);
  float streak = smoothstep(0.42, 0.5, slant) * smoothstep(0.62, 0.5, slant);
  diffuseColor.rgb = mix(uColour[GLASS] * 0.75, uAccent[GLASS], frame * 0.6 + streak * 0.35);
  diffuseColor.a = clamp(0.24 + 0.5 * rim + 0.4 * frame + 0.12 * streak, 0.0, 0.92);
}
`;

export function clearMaterial(uniforms: TerrainUniforms): THREE.MeshPhongMaterial {
  const material = new THREE.MeshPhongMaterial({
    transparent: true,
    depthWrite: false,
    shininess: 120,
    specular: 0x99a5ad,
  });
  material.onBeforeCompile = (shader) => inject(shader, uniforms, CLEAR_COLOUR, "");
  material.customProgramCacheKey = () => "echelon-terrain-clear";
  return material;
}
