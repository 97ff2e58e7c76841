// Mechs in the low tier, lit per vertex, and silhouettes of mechs behind walls.

import { Color, GLSL3, GreaterDepth, ShaderMaterial } from "three";
import { SCENE } from "../palette";
import { PLAIN_FILM, PLAIN_LIGHT, PLAIN_SHADE, type PlainUniforms } from "./plain_shader";

const PLAIN_WALK = /* glsl */ `
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

export function plainMechMaterial(shared: PlainUniforms): ShaderMaterial {
  return new ShaderMaterial({
    glslVersion: GLSL3,
    vertexShader: VERTEX,
    fragmentShader: FRAGMENT,
    uniforms: { ...shared, uHeatGlow: { value: new Color(SCENE.heatGlow) } },
  });
}

export const SILHOUETTE_ORDER = 0.3; // after terrain, before mechs
const STRENGTH = 0.85; // brightness relative to the team's colour on markers

const SILHOUETTE_VERTEX = /* glsl */ `
in vec4 tint;   // team colour, 1 living to 0 wreck
in vec3 sign;   // colour of the team's markers
flat out vec4 vColour;
${PLAIN_WALK}
void main() {
  vColour = vec4(sign * ${STRENGTH}, tint.a);
  gl_Position = projectionMatrix * viewMatrix * instanceMatrix * vec4(walk(position), 1.0);
}`;

// a screen of lines, so that overlapping parts look like one
const SILHOUETTE_FRAGMENT = /* glsl */ `
flat in vec4 vColour;
out vec4 fragColour;
void main() {
  if (vColour.a < 0.5 || mod(gl_FragCoord.x + gl_FragCoord.y, 4.0) >= 3.0) discard;
  fragColour = vec4(vColour.rgb, 1.0);
}`;

/**
 * Create the material of silhouettes: the parts of mechs that terrain hides, in the team's colour. They are drawn after
 * the terrain and before the mechs, which cover them where they are visible. Its instances have the attributes of plain
 * mechs and `sign`.
 */
export function silhouetteMaterial(): ShaderMaterial {
  return new ShaderMaterial({
    glslVersion: GLSL3,
    vertexShader: SILHOUETTE_VERTEX,
    fragmentShader: SILHOUETTE_FRAGMENT,
    depthFunc: GreaterDepth,
    depthWrite: false,
  });
}
