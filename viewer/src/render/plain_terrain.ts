// Terrain materials of the plain tiers: two textures and a few multiplications per pixel. They read the same vertices
// as the materials with patterns: appearance, face, occlusion, tint.

import { Color, GLSL3, ShaderMaterial, Vector3, Vector4 } from "three";
import { APPEARANCES, Appearance } from "../palette";
import { POSITION_STEPS } from "../data/mesher";
import { PLAIN_FILM, PLAIN_LIGHT, PLAIN_SHADE, type PlainUniforms, TILES_PER_VOXEL } from "./plain_shader";
import { FACADES } from "./terrain_material";
import { TileLayer } from "./tiles";

/** Drawing of an appearance: tiles of sides and top, drift of the tile over time, opacity. */
interface PlainAppearance {
  side: TileLayer;
  top: TileLayer;
  drift: number; // [vox/s]
  alpha: number;
}

const still = (side: TileLayer, top: TileLayer = side): PlainAppearance => ({ side, top, drift: 0, alpha: 1 });

const PLAIN_APPEARANCES: Record<Appearance, PlainAppearance> = {
  [Appearance.AIR]: still(TileLayer.GROUND),
  [Appearance.GROUND]: still(TileLayer.GROUND),
  [Appearance.CONCRETE]: still(TileLayer.WALL_WIDE, TileLayer.ROOF),
  [Appearance.ROCK]: still(TileLayer.ROCK),
  [Appearance.BARK]: still(TileLayer.BARK),
  [Appearance.RUBBLE]: still(TileLayer.RUBBLE),
  [Appearance.WRECKAGE]: still(TileLayer.WRECKAGE),
  [Appearance.STEEL]: still(TileLayer.STEEL_SIDE, TileLayer.STEEL_TOP),
  [Appearance.FOLIAGE]: still(TileLayer.FOLIAGE),
  [Appearance.LAVA]: { side: TileLayer.LAVA, top: TileLayer.LAVA, drift: 0.12, alpha: 1 },
  [Appearance.WATER]: { side: TileLayer.WATER, top: TileLayer.WATER, drift: 0.3, alpha: 0.86 },
  [Appearance.GLASS]: { side: TileLayer.GLASS, top: TileLayer.GLASS, drift: 0, alpha: 0.42 },
};

const VERTEX = /* glsl */ `
#define GROUND ${Appearance.GROUND}
#define CONCRETE ${Appearance.CONCRETE}
in vec4 code; // appearance, face, occlusion, tint
uniform vec4 uAppearances[${Object.keys(APPEARANCES).length}]; // tile of its sides, of its top, drift, opacity
uniform vec3 uFacade[${FACADES.length}];
uniform float uTime;
out vec2 vTile;
out vec4 vPlace; // map coordinates, height, occlusion
flat out vec4 vSunLight; // and opacity
flat out vec3 vSkyLight;
flat out vec2 vKind; // tile, ground 1 or 0
#ifdef CUT
out vec3 vVoxel;
#endif
${PLAIN_LIGHT}
uniform vec3 uMapSize;
void main() {
  vec3 voxel = position / ${POSITION_STEPS.toFixed(1)};
  int appearance = int(code.x + 0.5), tint = int(code.w + 0.5);
  float axis = floor(code.y * 0.5), side = 1.0 - 2.0 * mod(code.y, 2.0);
  vec3 n = side * vec3(axis < 0.5, axis > 0.5 && axis < 1.5, axis > 1.5);
  vec4 plain = uAppearances[appearance];
  bool wall = appearance == CONCRETE && axis < 1.5;
  vec2 uv = axis < 0.5 ? voxel.yz : axis < 1.5 ? voxel.xz : voxel.xy;
  uv += plain.z * uTime + (wall ? vec2(float(tint) * 3.0, 0.0) : vec2(0.0));
  vTile = uv * ${TILES_PER_VOXEL};
  float tile = wall ? plain.x + mod(float(tint), 3.0) : axis < 1.5 ? plain.x : plain.y;
  vKind = vec2(tile, appearance == GROUND ? 1.0 : 0.0);
  float open = code.z / 255.0;
  // a wall is lit like the air in front of it
  vPlace = vec4((voxel.xy + n.xy * 0.45) / uMapSize.xy, voxel.z, open * open * (3.0 - 2.0 * open));
  vec3 tone = appearance == CONCRETE ? uFacade[tint] * 1.12 : vec3(1.0);
  if (appearance == ${Appearance.FOLIAGE}) tone *= 0.76 + 0.3 * max(0.0, n.z);
  vSunLight = vec4(sunOn(n) * tone, plain.w);
  vSkyLight = skyOn(n) * tone;
#ifdef CUT
  vVoxel = voxel;
#endif
  gl_Position = projectionMatrix * modelViewMatrix * vec4(position, 1.0);
}`;

const FRAGMENT = /* glsl */ `
precision highp sampler2DArray;
uniform sampler2DArray uTiles;
in vec2 vTile;
in vec4 vPlace;
flat in vec4 vSunLight;
flat in vec3 vSkyLight;
flat in vec2 vKind;
#ifdef CUT
in vec3 vVoxel;
uniform vec3 uEye, uFocus;
uniform float uCut;
#endif
out vec4 fragColour;
#ifdef OVERLAY
uniform sampler2D uOverlay;
#endif
${PLAIN_SHADE}
${PLAIN_FILM}
void main() {
#ifdef CUT
  vec3 way = uFocus - uEye;
  float along = dot(vVoxel - uEye, way) / dot(way, way);
  float off = length(vVoxel - uEye - way * along);
  float dither = fract(52.9829189 * fract(dot(gl_FragCoord.xy, vec2(0.06711056, 0.00583715))));
  float reach = uCut * (0.45 + 0.55 * dither) * min(1.0, (0.95 - along) * 5.0 + 0.25);
  if (vVoxel.z > 0.05 && along > 0.0 && along < 0.95 && off < reach) discard;
#endif
  vec4 tile = texture(uTiles, vec3(vTile, vKind.x));
  vec4 ground = texture(uGround, vPlace.xy);
  vec3 colour = tile.rgb * tile.rgb;
  vec3 shine = colour * tile.a * 1.6;
  colour *= mix(vec3(1.0), ground.rgb * ground.rgb, vKind.y);
  float lightness = sunlit(vPlace.z, ground.a) * (0.62 + 0.38 * vPlace.w);
  colour *= vSkyLight * (0.34 + 0.66 * vPlace.w) + vSunLight.rgb * lightness;
  vec3 lit = film(colour + shine);
#ifdef OVERLAY
  vec4 overlay = texture(uOverlay, vPlace.xy);
  lit = mix(lit, overlay.rgb, overlay.a);
#endif
  fragColour = vec4(haze(lit), vSunLight.a);
}`;

/** Uniforms of the plain terrain only. */
export interface PlainTerrainUniforms {
  [name: string]: { value: unknown };
  uEye: { value: Vector3 };
  uFocus: { value: Vector3 };
  uCut: { value: number };
}

/** Create a material: `clear` for water and glass, `cut` with a cutaway in front of a followed mech. */
export function plainTerrainMaterial(
  shared: PlainUniforms,
  own: PlainTerrainUniforms,
  clear: boolean,
  cut: boolean,
): ShaderMaterial {
  const appearances = Object.values(PLAIN_APPEARANCES).map(
    ({ side, top, drift, alpha }) => new Vector4(side, top, drift, alpha),
  );
  return new ShaderMaterial({
    glslVersion: GLSL3,
    vertexShader: VERTEX,
    fragmentShader: FRAGMENT,
    transparent: clear,
    depthWrite: !clear,
    defines: cut ? { CUT: "" } : {},
    uniforms: {
      ...shared,
      ...own,
      uAppearances: { value: appearances },
      uFacade: { value: FACADES.map((facade) => new Color(facade)) },
    },
  });
}
