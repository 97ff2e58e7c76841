// Terrain materials of the low tier: two textures and a few multiplications per pixel. They read the same vertices as
// the materials with patterns: appearance, face, occlusion, tint.

import { Color, DoubleSide, FrontSide, GLSL3, ShaderMaterial, Vector3, Vector4 } from "three";
import { POSITION_STEPS } from "../data/mesher";
import { APPEARANCES, Appearance } from "../palette";
import { CUTAWAY, SHADE_LEFT } from "./cutaway";
import { PLAIN_FILM, PLAIN_LIGHT, PLAIN_SHADE, type PlainUniforms } from "./plain_shader";
import { FACADES, INNER, type TerrainUniforms } from "./terrain_material";
import { FACE_NORMAL } from "./terrain_shader";
import { TILE_VOXELS } from "./tile";

/** Share of the second colour on windows, veins and seams of the tile, glow of the second colour, opacity. */
type Look = readonly [windows: number, veins: number, seams: number, glow: number, opacity: number];
const LOOKS: Record<Appearance, Look> = {
  [Appearance.AIR]: [0, 0, 0, 0, 1],
  [Appearance.GROUND]: [0, 0, 0, 0, 1],
  [Appearance.CONCRETE]: [0.85, 0, 0, 0, 1],
  [Appearance.ROCK]: [0, 0.8, 0, 0, 1],
  [Appearance.BARK]: [0, 0.8, 0, 0, 1],
  [Appearance.RUBBLE]: [0, 0.3, 0, 0.4, 1],
  [Appearance.WRECKAGE]: [0, 0.6, 0, 0, 1],
  [Appearance.STEEL]: [0, 0.08, 0, 0, 1],
  [Appearance.FOLIAGE]: [0, 0.6, 0, 0, 1],
  [Appearance.LAVA]: [0, 1, 0, 0.9, 1],
  [Appearance.WATER]: [0, 0.2, 0, 0, 0.86],
  [Appearance.GLASS]: [0, 0, 0.6, 0, 0.42],
};
const DRIFT = 0.2; // of the tile on lava and water [vox/s]

const VERTEX = /* glsl */ `
#define GROUND ${Appearance.GROUND}
#define CONCRETE ${Appearance.CONCRETE}
in vec4 code; // appearance, face, occlusion, tint
uniform vec4 uColours[${Object.keys(APPEARANCES).length}]; // and opacity
uniform vec4 uAccents[${Object.keys(APPEARANCES).length}]; // and glow
uniform vec3 uMasks[${Object.keys(APPEARANCES).length}];
uniform vec3 uFacade[${FACADES.length}];
uniform float uTime;
out vec2 vTile;
out vec4 vPlace; // map coordinates, height, occlusion
flat out vec4 vColour; // and opacity
flat out vec4 vAccent; // and glow
flat out vec4 vMask; // and ground 1 or 0
flat out vec3 vSunLight;
flat out vec3 vSkyLight;
flat out float vLevel; // 1 on what looks up
#ifdef CUT
out vec3 vVoxel;
#endif
${PLAIN_LIGHT}
${FACE_NORMAL}
uniform vec3 uMapSize;
void main() {
  vec3 voxel = position / ${POSITION_STEPS.toFixed(1)};
  int appearance = int(code.x + 0.5), tint = int(code.w + 0.5);
  float axis = floor(code.y * 0.5);
  vec3 n = faceNormal(code.y);
  bool concrete = appearance == CONCRETE;
  bool flows = appearance == ${Appearance.LAVA} || appearance == ${Appearance.WATER};
  vec2 uv = axis < 0.5 ? voxel.yz : axis < 1.5 ? voxel.xz : voxel.xy;
  uv += flows ? vec2(${DRIFT.toFixed(2)} * uTime) : vec2(concrete ? float(tint) * 3.0 : 0.0, 0.0);
  vTile = uv / ${TILE_VOXELS.toFixed(1)};
  float open = code.z / 255.0;
  // a wall is lit like the air in front of it
  vPlace = vec4((voxel.xy + n.xy * 0.45) / uMapSize.xy, voxel.z, open * open * (3.0 - 2.0 * open));
  vColour = uColours[appearance];
  if (concrete) vColour.rgb = axis < 1.5 ? uFacade[tint] : mix(uFacade[tint], vec3(0.5), 0.5);
  vAccent = uAccents[appearance];
  // roofs have no windows
  vMask = vec4(uMasks[appearance] * (axis < 1.5 ? vec3(1.0) : vec3(0.0, 1.0, 1.0)), appearance == GROUND);
  vSunLight = sunOn(n);
  vSkyLight = skyOn(n);
  vLevel = n.z;
#ifdef CUT
  vVoxel = voxel;
#endif
  gl_Position = projectionMatrix * modelViewMatrix * vec4(position, 1.0);
}`;

const FRAGMENT = /* glsl */ `
uniform sampler2D uTile;
in vec2 vTile;
in vec4 vPlace;
flat in vec4 vColour;
flat in vec4 vAccent;
flat in vec4 vMask;
flat in vec3 vSunLight;
flat in vec3 vSkyLight;
flat in float vLevel;
#ifdef CUT
in vec3 vVoxel;
${CUTAWAY}
#endif
out vec4 fragColour;
#ifdef OVERLAY
uniform sampler2D uOverlay;
uniform float uWalls;
#endif
${PLAIN_SHADE}
${PLAIN_FILM}
void main() {
#ifdef CUT
  if (isCutAway(vVoxel)) discard;
#endif
  vec4 tile = texture(uTile, vTile);
  vec4 ground = texture(uGround, vPlace.xy);
  float second = dot(tile.gba, vMask.xyz);
  vec3 colour = mix(vColour.rgb, vAccent.rgb, second) * tile.r * 2.0;
  colour = mix(colour, ground.rgb * ground.rgb * 0.5, vMask.w);
#ifdef CUT
  if (isOpened(vVoxel)) ground.a *= ${SHADE_LEFT.toFixed(2)};
#endif
  float lightness = sunlit(vPlace.z, ground.a) * (0.62 + 0.38 * vPlace.w);
  vec3 lit = colour * (vSkyLight * (0.34 + 0.66 * vPlace.w) + vSunLight * lightness);
  lit = film(lit + vAccent.rgb * (vAccent.a * second));
#ifdef CUT
  if (!gl_FrontFacing) lit *= ${INNER.toFixed(2)};
#endif
#ifdef OVERLAY
  vec4 overlay = texture(uOverlay, vPlace.xy);
  lit = mix(lit, overlay.rgb, overlay.a * max(vLevel, uWalls));
#endif
  fragColour = vec4(haze(lit), vColour.a);
}`;

/** Create a material: `clear` for water and glass, `cut` with a cutaway, which shows the inner sides of walls. */
export function plainTerrainMaterial(
  shared: PlainUniforms,
  own: TerrainUniforms,
  clear: boolean,
  cut: boolean,
): ShaderMaterial {
  const specs = Object.values(APPEARANCES);
  const looks = Object.values(LOOKS);
  const linear = (hex: number, fourth: number) => new Vector4(...new Color(hex).toArray(), fourth);
  return new ShaderMaterial({
    glslVersion: GLSL3,
    vertexShader: VERTEX,
    fragmentShader: FRAGMENT,
    transparent: clear,
    depthWrite: !clear,
    side: cut && !clear ? DoubleSide : FrontSide,
    defines: cut ? { CUT: "" } : {},
    uniforms: {
      ...shared,
      ...own,
      uColours: { value: specs.map(({ colour }, i) => linear(colour, looks[i][4])) },
      uAccents: { value: specs.map(({ accent }, i) => linear(accent, looks[i][3])) },
      uMasks: { value: looks.map(([windows, veins, seams]) => new Vector3(windows, veins, seams)) },
      uFacade: { value: FACADES.map((facade) => new Color(facade)) },
    },
  });
}
