// GLSL of the terrain's procedural patterns, by appearance and position, without textures. `detail` fades fine patterns
// with distance to avoid flicker. Time is match time, so that seeking is exact.

import { Appearance } from "../palette";
import { CUTAWAY } from "./cutaway";
import { NOISE } from "./random";

const APPEARANCE_CONSTANTS = Object.entries(Appearance)
  .filter(([, value]) => typeof value === "number")
  .map(([name, value]) => `const int ${name} = ${value};`)
  .join("\n");

/** Normal of a face by its number, in voxel space. */
export const FACE_NORMAL = /* glsl */ `
vec3 faceNormal(float face) {
  float axis = floor(face * 0.5), side = 1.0 - 2.0 * mod(face, 2.0);
  return side * vec3(axis < 0.5, axis > 0.5 && axis < 1.5, axis > 1.5);
}
`;

const NOISE_3D = /* glsl */ `
float hash3(vec3 p) {
  p = fract(p * 0.1031);
  p += dot(p, p.zyx + 31.32);
  return fract((p.x + p.y) * p.z);
}
float fbm2(vec2 p) { return 0.55 * noise2(p) + 0.3 * noise2(p * 2.13 + 7.1) + 0.15 * noise2(p * 4.31 + 3.7); }
float noise3(vec3 p) {
  vec3 i = floor(p), f = fract(p);
  f = f * f * (3.0 - 2.0 * f);
  vec2 e = vec2(0, 1);
  float low = mix(mix(hash3(i), hash3(i + e.yxx), f.x), mix(hash3(i + e.xyx), hash3(i + e.yyx), f.x), f.y);
  float high = mix(mix(hash3(i + e.xxy), hash3(i + e.yxy), f.x), mix(hash3(i + e.xyy), hash3(i + e.yyy), f.x), f.y);
  return mix(low, high, f.z);
}
// 1 inside [lo, hi] of a repeating unit, with edges as wide as a pixel
float band(float x, float lo, float hi, float px) {
  return smoothstep(lo - px, lo + px, x) - smoothstep(hi - px, hi + px, x);
}
// 1 on the seams of a grid with a pitch
float seam(vec2 uv, float pitch, float width, float px) {
  vec2 f = abs(fract(uv / pitch - 0.5) - 0.5) * pitch;
  return 1.0 - smoothstep(width - px, width + px, min(f.x, f.y));
}
`;

const SURFACES = /* glsl */ `
struct Surface { vec3 colour; vec3 glow; };

Surface facade(vec2 uv, float z, bool upright, int style, vec3 wall, float px, float detail) {
  Surface s = Surface(wall, vec3(0));
  float grime = fbm2(uv * 0.7 + float(style) * 9.0);
  s.colour *= 0.86 + 0.24 * grime;
  if (!upright) {
    s.colour = mix(s.colour * 0.82, vec3(0.36, 0.36, 0.37), 0.45);
    s.colour *= 1.0 - 0.22 * detail * seam(uv, 2.0, 0.03, px);
    s.colour *= 0.93 + 0.14 * hash2(floor(uv * 0.5) + float(style));
    return s;
  }
  vec2 pitch = style % 3 == 0 ? vec2(1.0, 1.0) : style % 3 == 1 ? vec2(2.0, 1.0) : vec2(0.5, 1.0);
  vec2 cell = floor(uv / pitch), f = fract(uv / pitch);
  vec2 w = vec2(px) / pitch;
  float window = band(f.x, 0.2, 0.8, w.x) * band(f.y, 0.3, 0.78, w.y) * step(0.9, z);
  float present = step(0.12, hash2(cell + float(style) * 13.0));
  vec3 pane = mix(vec3(0.045, 0.07, 0.095), vec3(0.16, 0.24, 0.3), hash2(cell * 1.7 + 3.0));
  float lit = step(0.88, hash2(cell + float(style) * 31.0 + 0.5));
  float show = window * present * mix(0.55, 1.0, detail);
  s.colour = mix(s.colour, pane, show);
  s.glow = vec3(1.0, 0.72, 0.36) * lit * show * 0.75;
  s.colour *= 1.0 - 0.25 * detail * band(fract(z), 0.0, 0.07, px);
  s.colour *= 1.0 - 0.35 * smoothstep(1.0, 0.0, z);
  return s;
}

Surface ground(vec2 uv, vec4 soil, float px, float detail) {
  float broad = fbm2(uv * 0.09), mid = fbm2(uv * 0.5 + 5.0), fine = noise2(uv * 4.0);
  vec3 dirt = mix(vec3(0.19, 0.15, 0.108), vec3(0.285, 0.232, 0.168), broad);
  dirt *= 0.86 + 0.2 * mid + 0.1 * detail * (fine - 0.5);
  vec3 grass = mix(vec3(0.09, 0.145, 0.045), vec3(0.185, 0.235, 0.075), mid) * (0.9 + 0.22 * detail * (fine - 0.5));
  float green = smoothstep(0.18, 0.5, soil.r + 0.34 * (mid - 0.5) + 0.3 * (broad - 0.5));
  vec3 c = mix(dirt, grass, green);
  float paved = smoothstep(0.42, 0.5, soil.g - 0.55 * soil.r + 0.16 * (broad - 0.5));
  vec2 slab = floor(uv / 2.0);
  vec3 pave = vec3(0.235, 0.245, 0.26) * (0.88 + 0.16 * hash2(slab)) * (0.92 + 0.16 * mid);
  pave *= 1.0 - 0.3 * detail * seam(uv, 2.0, 0.035, px);
  c = mix(c, pave, paved);
  float scorch = smoothstep(0.08, 0.7, soil.b + 0.2 * (mid - 0.5));
  c = mix(c, vec3(0.06, 0.045, 0.04), scorch * 0.9);
  float wet = smoothstep(0.12, 0.6, soil.a);
  c *= 1.0 - 0.5 * wet;
  return Surface(c, vec3(1.0, 0.26, 0.04) * scorch * scorch * 0.22);
}

Surface lava(vec2 uv, float time) {
  vec2 flow = uv + 0.6 * vec2(noise2(uv * 0.5 + time * 0.11), noise2(uv * 0.5 - time * 0.09 + 4.0));
  float n = fbm2(flow * 0.9 + vec2(time * 0.05, -time * 0.03));
  float vein = smoothstep(0.16, 0.0, abs(n - 0.5));
  float heat = smoothstep(0.35, 0.75, n);
  vec3 glow = mix(vec3(0.5, 0.04, 0.0), vec3(1.0, 0.34, 0.04), heat) * 0.9 + vec3(1.0, 0.75, 0.3) * vein * vein * 1.2;
  return Surface(vec3(0.06, 0.02, 0.01), glow);
}

Surface foliage(vec3 p, vec3 n, vec3 colour, vec3 accent, float detail) {
  vec3 leaf = floor(p * 4.0 - n * 0.02);
  float a = hash3(leaf), b = noise3(p * 0.45), c = hash3(floor(p * 8.0 - n * 0.02) + 5.0);
  vec3 col = mix(colour * 0.62, accent, 0.12 + 0.5 * b + 0.38 * detail * (a - 0.4));
  col = mix(col, vec3(0.42, 0.4, 0.1), 0.22 * smoothstep(0.62, 0.9, noise3(p * 0.12 + 9.0)));
  col *= 0.86 + 0.26 * detail * (c - 0.5);
  col = mix(col, col * vec3(0.7, 0.95, 0.85), smoothstep(0.35, 0.7, noise3(p * 0.18 + 30.0)));
  col *= 0.7 + 0.36 * max(0.0, n.z);
  return Surface(col, vec3(0));
}

Surface steel(vec2 uv, float z, bool upright, vec3 colour, vec3 accent, float px, float detail) {
  vec2 plate = floor(uv);
  vec3 c = colour * (0.84 + 0.22 * hash2(plate)) * (0.92 + 0.16 * fbm2(uv * vec2(2.0, 0.5)));
  c *= 1.0 - 0.42 * detail * seam(uv, 1.0, 0.035, px);
  vec2 f = abs(fract(uv) - 0.5);
  c *= 1.0 + 0.35 * detail * (1.0 - smoothstep(0.03, 0.06, length(f - 0.38)));
  float stripe = upright ? band(z, 0.12, 0.62, px) : 0.0;
  float slant = step(0.5, fract((uv.x + uv.y) * 0.7));
  c = mix(c, mix(vec3(0.05), accent, slant), stripe * 0.7);
  float lamp = upright
    ? step(0.93, hash2(plate + 3.0)) * band(fract(uv.x), 0.3, 0.7, px) * band(fract(uv.y), 0.44, 0.56, px)
    : 0.0;
  return Surface(mix(c, vec3(0.0), lamp), vec3(0.35, 0.85, 1.0) * lamp * 0.9);
}

Surface stone(vec3 p, vec3 n, vec3 colour, vec3 accent, float detail) {
  float strata = noise3(vec3(p.xy * 0.22, p.z * 1.1));
  float grain = noise3(p * 2.3), fine = noise3(p * 7.0);
  vec3 c = mix(accent, colour, 0.25 + 0.6 * strata + 0.3 * (grain - 0.5));
  c *= 0.9 + 0.2 * detail * (fine - 0.5);
  float crack = smoothstep(0.07, 0.0, abs(noise3(p * 0.8 + 4.0) - 0.5));
  c *= 1.0 - 0.25 * crack * detail;
  c = mix(c, vec3(0.25, 0.29, 0.13), 0.35 * smoothstep(0.55, 0.75, noise3(p * 0.5)) * max(0.0, n.z));
  return Surface(c, vec3(0));
}

Surface bark(vec3 p, vec2 uv, vec3 colour, vec3 accent, float detail) {
  float ridge = noise2(vec2((uv.x + p.z * 0.04) * 9.0, p.z * 1.3));
  return Surface(mix(accent, colour, ridge) * (0.85 + 0.3 * noise3(p * 0.7)), vec3(0));
}

Surface rubble(vec3 p, vec3 colour, vec3 accent, float detail) {
  float piece = hash3(floor(p)), n = noise3(p * 2.2), fine = noise3(p * 7.0);
  vec3 c = colour * (0.55 + 0.6 * piece) * (0.7 + 0.4 * n + 0.25 * detail * (fine - 0.5));
  float ember = smoothstep(0.62, 0.9, noise3(p * 1.6 + 2.0));
  return Surface(c, accent * ember * 0.5 * detail);
}

Surface wreckage(vec3 p, vec2 uv, vec3 colour, vec3 accent, float px, float detail) {
  float piece = hash3(floor(p) + 7.0), fine = noise3(p * 6.0);
  vec3 c = mix(colour, accent, smoothstep(0.5, 0.8, noise3(p * 1.4)));
  c *= (0.6 + 0.55 * piece) * (0.85 + 0.3 * detail * (fine - 0.5));
  c *= 1.0 - 0.4 * detail * smoothstep(0.06, 0.0, abs(fract(uv.y * 1.5 + piece) - 0.5) - 0.02);
  return Surface(c, vec3(1.0, 0.35, 0.08) * 0.25 * smoothstep(0.78, 0.95, noise3(p * 2.0 + 8.0)));
}
`;

export const TERRAIN_PARS = /* glsl */ `
${APPEARANCE_CONSTANTS}
uniform vec3 uColour[12];
uniform vec3 uAccent[12];
uniform vec3 uFacade[8];
uniform sampler2D uSoil;
uniform vec2 uMap;
uniform float uTime;
${CUTAWAY}
#ifdef OVERLAY
uniform sampler2D uOverlay;
uniform float uWalls;
#endif
in vec3 vVoxel;
flat in vec4 vCode;
in float vOpen;
${NOISE}
${NOISE_3D}
${SURFACES}
Surface surfaceOf(vec3 normal_vox) {
  int appearance = int(vCode.x + 0.5);
  bool upright = abs(normal_vox.z) < 0.5;
  vec2 uv = abs(normal_vox.x) > 0.5 ? vVoxel.yz : abs(normal_vox.y) > 0.5 ? vVoxel.xz : vVoxel.xy;
  vec2 w = fwidth(uv);
  float px = max(max(w.x, w.y), 1e-4) * 0.7;
  float detail = 1.0 - smoothstep(0.12, 0.7, px);
  vec3 p = vVoxel - normal_vox * 0.001;
  vec3 colour = uColour[appearance], accent = uAccent[appearance];
  if (appearance == GROUND) return ground(uv, texture2D(uSoil, vVoxel.xy / uMap), px, detail);
  int style = int(vCode.z + 0.5);
  if (appearance == CONCRETE) return facade(uv, vVoxel.z, upright, style, uFacade[style], px, detail);
  if (appearance == FOLIAGE) return foliage(p, normal_vox, colour, accent, detail);
  if (appearance == STEEL) return steel(uv, vVoxel.z, upright, colour, accent, px, detail);
  if (appearance == ROCK) return stone(p, normal_vox, colour, accent, detail);
  if (appearance == BARK) return bark(p, uv, colour, accent, detail);
  if (appearance == RUBBLE) return rubble(p, colour, accent, detail);
  if (appearance == WRECKAGE) return wreckage(p, uv, colour, accent, px, detail);
  if (appearance == LAVA) return lava(uv, uTime);
  return Surface(colour, vec3(0));
}
`;
