// Two pools of instanced camera-facing quads, one draw call each: beams between two points, and sprites at a point.
// They are refilled every frame. Blending is premultiplied, so that additive light and covering smoke share a pool:
// `cover` is how much of the background is hidden.

import * as THREE from "three";
import { Instances } from "./instances";
import { NOISE } from "./random";

export enum BeamKind {
  SOLID = 0, // white core in a coloured glow
  DOTTED = 1, // dashes along the beam
  TRACER = 2, // bright at the end, fading toward the start
}

export enum SpriteKind {
  GLOW = 0, // round soft light
  SMOKE = 1, // puff with ragged edges
  FIRE = 2, // puff burning from white to red
  RING = 3, // thin circle
  SPARK = 4, // star of short rays
}

const SHARED = /* glsl */ `
${NOISE}
void output_light(vec3 light, float alpha, float cover) {
  gl_FragColor = vec4(light, 1.0);
  #include <colorspace_fragment>
  gl_FragColor = vec4(gl_FragColor.rgb * alpha, alpha * cover);
}
`;

const QUAD = new THREE.BufferGeometry()
  .setAttribute("position", new THREE.BufferAttribute(new Float32Array([0, -1, 0, 1, -1, 0, 1, 1, 0, 0, 1, 0]), 3))
  .setIndex([0, 1, 2, 0, 2, 3]);
const ORDER = 5; // above everything else in the scene

function quadMaterial(vertexShader: string, fragmentShader: string): THREE.ShaderMaterial {
  return new THREE.ShaderMaterial({
    vertexShader,
    fragmentShader,
    transparent: true,
    depthWrite: false,
    blending: THREE.CustomBlending,
    blendSrc: THREE.OneFactor,
    blendDst: THREE.OneMinusSrcAlphaFactor,
  });
}

const BEAM_VERTEX = /* glsl */ `
in vec4 from;   // point, width
in vec4 to;     // point, pattern
in vec4 light;  // colour, alpha
out vec2 vAlong;
out vec4 vLight;
flat out float vKind;
flat out float vLength;
void main() {
  vec4 a = viewMatrix * vec4(from.xyz, 1.0), b = viewMatrix * vec4(to.xyz, 1.0);
  vec3 along = b.xyz - a.xyz;
  vec3 here = mix(a.xyz, b.xyz, position.x);
  vec3 side = normalize(cross(along, here) + vec3(0.0, 1e-5, 0.0));
  // at least one or two pixels wide at any distance
  float width = max(from.w, -here.z * 0.0016);
  here += side * position.y * width * 2.5 + normalize(along) * (position.x - 0.5) * width;
  vAlong = vec2(position.x, position.y * 2.5);
  // beams that start at the camera are dimmed
  vLight = vec4(light.rgb, light.a * mix(0.12, 1.0, smoothstep(0.8, 4.0, length(here))));
  vKind = to.w;
  vLength = length(along);
  gl_Position = projectionMatrix * vec4(here, 1.0);
}`;
const BEAM_FRAGMENT = /* glsl */ `
in vec2 vAlong;
in vec4 vLight;
flat in float vKind;
flat in float vLength;
${SHARED}
void main() {
  float off = abs(vAlong.y);
  float core = smoothstep(0.62, 0.25, off), glow = exp(-off * off * 1.1) * smoothstep(2.5, 1.9, off);
  float strength = 1.0;
  if (vKind > 1.5) strength = pow(vAlong.x, 1.6);
  else if (vKind > 0.5) strength = smoothstep(0.35, 0.5, abs(fract(vAlong.x * vLength * 0.9) - 0.5) + 0.12);
  vec3 light = mix(vLight.rgb, vec3(1.0), core * 0.75) * (core * 1.2 + glow * 0.55);
  output_light(light * strength, vLight.a, 0.0);
}`;

const SPRITE_VERTEX = /* glsl */ `
in vec4 place;  // centre, radius
in vec4 light;  // colour, alpha
in vec4 shape;  // pattern, turn, age 0..1, cover
out vec2 vAt;
out vec4 vLight;
flat out vec4 vShape;
void main() {
  vec2 corner = vec2(position.x * 2.0 - 1.0, position.y);
  float s = sin(shape.y), c = cos(shape.y);
  vAt = corner;
  vec4 centre = viewMatrix * vec4(place.xyz, 1.0);
  centre.xy += mat2(c, s, -s, c) * corner * place.w;
  // sprites are moved toward the camera, so that walls do not cut them in half
  centre.xyz *= 1.0 - min(0.3, place.w * 0.5 / max(1.0, length(centre.xyz)));
  // lights around the camera are dimmed, smoke is not
  float far = length((viewMatrix * vec4(place.xyz, 1.0)).xyz) / place.w;
  bool smoke = shape.x > 0.5 && shape.x < 1.5;
  vLight = vec4(light.rgb, light.a * (smoke ? 1.0 : mix(0.06, 1.0, smoothstep(0.4, 2.2, far))));
  vShape = shape;
  gl_Position = projectionMatrix * centre;
}`;
const SPRITE_FRAGMENT = /* glsl */ `
in vec2 vAt;
in vec4 vLight;
flat in vec4 vShape;
${SHARED}
void main() {
  float r = length(vAt);
  if (r > 1.0) discard;
  float kind = vShape.x, age = vShape.z;
  float rag = noise2(vAt * 2.6 + vShape.y * 7.0) * 0.65 + noise2(vAt * 6.0 - vShape.y * 3.0) * 0.35;
  vec3 light = vLight.rgb;
  float alpha = 1.0;
  if (kind < 0.5) {
    float soft = 1.0 - r;
    alpha = soft * soft * soft;
    light = mix(light, vec3(1.0), 0.7 * smoothstep(0.4, 0.0, r));
  } else if (kind < 1.5) {
    alpha = smoothstep(1.0, 0.35, r + (rag - 0.5) * 0.7);
    light *= 0.72 + 0.5 * (0.5 + 0.5 * vAt.y) * rag + 0.2 * rag;
  } else if (kind < 2.5) {
    float heat = clamp(1.25 - r - age * 1.1 + (rag - 0.5) * 0.9, 0.0, 1.0);
    alpha = smoothstep(0.02, 0.3, heat);
    light = mix(vec3(0.16, 0.05, 0.03), light, smoothstep(0.05, 0.4, heat));
    light = mix(light, vec3(1.0, 0.95, 0.8), smoothstep(0.5, 0.95, heat));
    light *= 1.0 + heat;
  } else if (kind < 3.5) {
    alpha = smoothstep(0.16, 0.0, abs(r - 0.84));
  } else {
    float ray = pow(abs(cos(atan(vAt.y, vAt.x) * 3.0 + vShape.y)), 14.0);
    alpha = (ray * smoothstep(1.0, 0.1, r) + smoothstep(0.35, 0.0, r)) * (1.0 - age);
    light = mix(light, vec3(1.0), 0.6 * smoothstep(0.5, 0.0, r));
  }
  output_light(light, alpha * vLight.a, vShape.w);
}`;

const tone = new THREE.Color();

export class Beams extends Instances {
  constructor() {
    super(QUAD, ["from", "to", "light"], quadMaterial(BEAM_VERTEX, BEAM_FRAGMENT), ORDER);
  }

  add(from: THREE.Vector3, to: THREE.Vector3, kind: BeamKind, width: number, colour: number, alpha: number): void {
    tone.setHex(colour);
    this.push(from.x, from.y, from.z, width, to.x, to.y, to.z, kind, tone.r, tone.g, tone.b, alpha);
  }
}

interface SpriteLook {
  age?: number; // 0 to 1
  cover?: number; // 0 adds light, 1 hides what is behind
  turn?: number; // [rad]
}

/** Light and smoke at points in world space. */
export class Sprites extends Instances {
  constructor() {
    super(QUAD, ["place", "light", "shape"], quadMaterial(SPRITE_VERTEX, SPRITE_FRAGMENT), ORDER);
  }

  add(at: THREE.Vector3, radius: number, kind: SpriteKind, colour: number, alpha: number, look: SpriteLook = {}): void {
    tone.setHex(colour);
    const { turn = 0, age = 0, cover = 0 } = look;
    this.push(at.x, at.y, at.z, radius, tone.r, tone.g, tone.b, alpha, kind, turn, age, cover);
  }
}
