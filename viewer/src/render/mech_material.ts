// Material of all mechs: three's Phong material with a walking vertex shader. Each instance carries pose, team colour
// and gait; each vertex its bone and joints. The depth material has the same animation, so that shadows match.

import { Color, MeshDepthMaterial, MeshPhongMaterial } from "three";
import { SCENE } from "../palette";

export const WALK = /* glsl */ `
in vec4 part;   // bone, side of the leg, glow, bend of a lifted knee
in vec3 hip;
in vec3 knee;
in vec4 gait;   // phase, stride 0..1, turn of the dish, swing of a thigh
vec3 turnLeg(vec3 p, vec3 at, float a) {
  float s = sin(a), c = cos(a);
  vec2 d = p.xy - at.xy;
  return vec3(at.xy + vec2(c * d.x - s * d.y, s * d.x + c * d.y), p.z);
}
vec3 turnDish(vec3 p, vec3 at, float a) {
  float s = sin(a), c = cos(a);
  vec2 d = p.xz - at.xz;
  return vec3(at.x + c * d.x + s * d.y, p.y, at.z - s * d.x + c * d.y);
}
// pose a point; with free = 0 only turn it, for normals
vec3 walk(vec3 p, float free) {
  vec3 atHip = hip * free, atKnee = knee * free;
  float phase = gait.x + (part.y > 0.0 ? 3.14159265 : 0.0);
  if (part.x > 1.5 && part.x < 2.5) p = turnLeg(p, atKnee, gait.y * part.w * max(0.0, cos(phase)));
  if (part.x > 0.5 && part.x < 2.5) p = turnLeg(p, atHip, gait.y * gait.w * sin(phase));
  else if (part.x > 2.5) p = turnDish(p, atHip, gait.z);
  if (part.x < 0.5 || part.x > 2.5) p.y -= free * gait.y * 0.07 * (1.0 - cos(2.0 * gait.x)) * 0.5;
  return p;
}
`;

const VERTEX_PARS = /* glsl */ `
in vec4 paint;  // base colour, share of the team's
in vec4 tint;   // team colour, 1 living to 0 wreck
in vec4 mood;   // heat 0..1, power 0..1, flash of a hit 0..1, selected 0..1
out vec4 vPaint;
out vec4 vTint;
out vec4 vMood;
out vec3 vModel;
out vec3 vEye;
flat out float vGlow;
${WALK}
`;

const VERTEX_MAIN = /* glsl */ `
vec3 transformed = walk(position, 1.0);
vPaint = paint;
vTint = tint;
vMood = mood;
vModel = position;
vGlow = part.z;
`;

const FRAGMENT_PARS = /* glsl */ `
uniform vec3 uHeatGlow;
in vec4 vPaint;
in vec4 vTint;
in vec4 vMood;
in vec3 vModel;
in vec3 vEye;
flat in float vGlow;
float speckle(vec3 p) {
  p = fract(p * 0.3183 + 0.1);
  p *= 17.0;
  return fract(p.x * p.y * p.z * (p.x + p.y + p.z));
}
`;

const COLOUR = /* glsl */ `
// a mech right before the camera fades, unless it is the one that is followed
float nearness = 1.0 - smoothstep(3.6, 6.8, -vEye.z);
float grain = fract(52.9829189 * fract(dot(gl_FragCoord.xy, vec2(0.06711056, 0.00583715))));
if (nearness * (1.0 - vMood.w) * 0.94 > grain) discard;
float wear = 0.9 + 0.16 * speckle(floor(vModel * 9.0));
vec3 armour = mix(vPaint.rgb, vTint.rgb, vPaint.a) * wear;
armour *= mix(0.72, 1.0, smoothstep(-0.1, 1.4, vModel.y));
float living = vTint.a;
vec3 charred = vec3(0.035, 0.032, 0.03) * (0.6 + 0.9 * speckle(floor(vModel * 5.0)));
diffuseColor.rgb = mix(charred, armour * mix(0.5, 1.0, vMood.y), living);
vec3 glow = vec3(0.0);
if (vGlow > 2.5) glow = vTint.rgb * 1.6 * vMood.y;
else if (vGlow > 1.5) glow = uHeatGlow * smoothstep(0.25, 1.05, vMood.x) * 2.2;
else if (vGlow > 0.5) glow = vPaint.rgb * 1.5 * vMood.y;
glow *= living;
glow += uHeatGlow * (1.0 - living) * 0.5 * step(0.94, speckle(floor(vModel * 6.0) + 2.0));
glow += vec3(1.0, 0.85, 0.65) * vMood.z * 0.16;
`;

const EMISSION = /* glsl */ `
float rim = pow(1.0 - abs(dot(normalize(vViewPosition), normal)), 3.0);
totalEmissiveRadiance += glow + rim * (0.1 + 0.9 * vMood.w) * mix(vec3(0.4, 0.5, 0.6), vTint.rgb, 0.5) * living;
`;

export function mechMaterial(): MeshPhongMaterial {
  const material = new MeshPhongMaterial({ shininess: 34, specular: 0x4a525c });
  const uniforms = { uHeatGlow: { value: new Color(SCENE.heatGlow) } };
  material.onBeforeCompile = (shader) => {
    Object.assign(shader.uniforms, uniforms);
    shader.vertexShader = shader.vertexShader
      .replace("#include <common>", `#include <common>\n${VERTEX_PARS}`)
      .replace("#include <beginnormal_vertex>", "vec3 objectNormal = walk(normal, 0.0);")
      .replace("#include <begin_vertex>", VERTEX_MAIN)
      .replace("#include <project_vertex>", "#include <project_vertex>\nvEye = mvPosition.xyz;");
    shader.fragmentShader = shader.fragmentShader
      .replace("#include <common>", `#include <common>\n${FRAGMENT_PARS}`)
      .replace("#include <color_fragment>", COLOUR)
      .replace("#include <emissivemap_fragment>", EMISSION);
  };
  material.customProgramCacheKey = () => "echelon-mech";
  return material;
}

export function mechDepthMaterial(): MeshDepthMaterial {
  const material = new MeshDepthMaterial();
  material.onBeforeCompile = (shader) => {
    shader.vertexShader = shader.vertexShader
      .replace("#include <common>", `#include <common>\n${WALK}`)
      .replace("#include <begin_vertex>", "vec3 transformed = walk(position, 1.0);");
  };
  material.customProgramCacheKey = () => "echelon-mech-depth";
  return material;
}
