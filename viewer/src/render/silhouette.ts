// Silhouettes of mechs behind walls: the parts hidden by terrain, in the team's colour. They are drawn after the
// terrain and before the mechs, which cover them where they are visible.

import { GLSL3, GreaterDepth, ShaderMaterial } from "three";
import { PLAIN_WALK } from "./plain_mechs";

export const SILHOUETTE_ORDER = 0.3; // after terrain, before mechs
const STRENGTH = 0.85; // brightness relative to the team's colour on markers

const VERTEX = /* glsl */ `
in vec4 tint;   // team colour, 1 living to 0 wreck
in vec3 sign;   // colour of the team's markers
flat out vec4 vColour;
${PLAIN_WALK}
void main() {
  vColour = vec4(sign * ${STRENGTH}, tint.a);
  gl_Position = projectionMatrix * viewMatrix * instanceMatrix * vec4(walk(position), 1.0);
}`;

// a screen of lines, so that overlapping parts look like one
const FRAGMENT = /* glsl */ `
flat in vec4 vColour;
out vec4 fragColour;
void main() {
  if (vColour.a < 0.5 || mod(gl_FragCoord.x + gl_FragCoord.y, 4.0) >= 3.0) discard;
  fragColour = vec4(vColour.rgb, 1.0);
}`;

/** Create the material; its instances have the attributes of plain mechs and `sign`. */
export function silhouetteMaterial(): ShaderMaterial {
  return new ShaderMaterial({
    glslVersion: GLSL3,
    vertexShader: VERTEX,
    fragmentShader: FRAGMENT,
    depthFunc: GreaterDepth,
    depthWrite: false,
  });
}
