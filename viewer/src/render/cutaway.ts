// The cutaway in the terrain's shaders: walls and roofs that hide a disc of the map are left out, all but their foot.
// `isCutAway` of framing.ts is the same rule for the director.

import { Vector4 } from "three";
import { type Cutaway, STUB } from "../framing";

export const SHADE_LEFT = 0.35; // share of the shadow of what is cut away that stays

/** Write a cutaway as the uniform: centre, height of the feet, and radius, 0 for none [vox]. */
export function writeCutaway(cutaway: Cutaway | null, out: Vector4): void {
  if (cutaway) out.set(cutaway.centre[0], cutaway.centre[1], cutaway.centre[2] + STUB, cutaway.radius);
  else out.set(0, 0, 0, 0);
}

/** Whether a point in voxel space is cut away for the eye, with a dithered rim; whether it lies in the opened disc. */
export const CUTAWAY = /* glsl */ `
uniform vec3 uEye;
uniform vec4 uCut;
bool isCutAway(vec3 at) {
  float below = uEye.z - at.z;
  if (uCut.w <= 0.0 || at.z < uCut.z + 0.01 || below <= 0.0) return false;
  vec2 foot = mix(uEye.xy, at.xy, (uEye.z - uCut.z) / below);
  float dither = fract(52.9829189 * fract(dot(gl_FragCoord.xy, vec2(0.06711056, 0.00583715))));
  return distance(foot, uCut.xy) < uCut.w - 1.2 * dither;
}
bool isOpened(vec3 at) { return at.z < uCut.z && distance(at.xy, uCut.xy) < uCut.w; }
`;
