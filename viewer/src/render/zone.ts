// The capture zone: a ring on the ground and a low curtain of light, in the colour of the team with more tonnage in it,
// or of both if contested. One draw call.

import { Color, CylinderGeometry, DoubleSide, Mesh, RingGeometry, ShaderMaterial, BufferGeometry } from "three";
import { mergeGeometries } from "three/addons/utils/BufferGeometryUtils.js";
import { frameAt } from "../interpolate";
import type { Chunk } from "../data/replay";
import { TEAMS } from "../palette";
import { worldPoint } from "../spaces";

const CURTAIN = 2.6; // height of the curtain [vox]
const NEUTRAL = 0xe8edf2;

const VERTEX = /* glsl */ `
out vec3 vAt;
void main() {
  vAt = position;
  gl_Position = projectionMatrix * modelViewMatrix * vec4(position, 1.0);
}`;
const FRAGMENT = /* glsl */ `
uniform vec3 uBlue, uRed, uNeutral;
uniform vec2 uHold;    // tonnage shares of blue and red
uniform float uTime, uRadius, uCurtain;
in vec3 vAt;
void main() {
  float angle = atan(vAt.z, vAt.x);
  float r = length(vAt.xz);
  float split = smoothstep(-0.02, 0.02, sin(angle * 12.0 + uTime * 1.5));
  vec3 owner = uHold.x + uHold.y < 0.01 ? uNeutral
    : uHold.x > 0.99 ? uBlue : uHold.y > 0.99 ? uRed : mix(uBlue, uRed, split);
  float alpha;
  if (vAt.y > 0.02) {
    float up = vAt.y / uCurtain;
    float beam = 0.75 + 0.25 * sin(angle * 48.0) * sin(up * 9.0 - uTime * 2.2);
    alpha = pow(1.0 - up, 2.0) * 0.38 * beam + smoothstep(0.06, 0.0, up) * 0.5;
  } else {
    float edge = smoothstep(uRadius - 0.5, uRadius - 0.34, r) * smoothstep(uRadius + 0.02, uRadius - 0.12, r);
    float ticks = step(0.5, fract(angle * 9.5492966))
      * smoothstep(uRadius - 1.1, uRadius - 1.0, r) * smoothstep(uRadius - 0.7, uRadius - 0.8, r);
    float wave = smoothstep(0.9, 1.0, sin(r * 1.1 - uTime * 2.0)) * 0.1 * step(r, uRadius);
    alpha = max(edge * 0.85, ticks * 0.5) + wave + 0.07 * step(r, uRadius - 0.34);
  }
  gl_FragColor = vec4(owner * 1.1, alpha);
  #include <colorspace_fragment>
}`;

export class ZoneRing {
  readonly mesh: Mesh<BufferGeometry, ShaderMaterial>;
  private readonly hold = { value: [0, 0] };
  private readonly time = { value: 0 };
  private readonly teams = [new Color(), new Color()];

  constructor(zone: readonly number[]) {
    const radius = zone[2];
    const disc = new RingGeometry(0.01, radius, 72, 1).rotateX(-Math.PI / 2);
    const curtain = new CylinderGeometry(radius, radius, CURTAIN, 72, 1, true).translate(0, CURTAIN / 2 + 0.03, 0);
    const material = new ShaderMaterial({
      vertexShader: VERTEX,
      fragmentShader: FRAGMENT,
      transparent: true,
      depthWrite: false,
      side: DoubleSide,
      uniforms: {
        uBlue: { value: this.teams[0] },
        uRed: { value: this.teams[1] },
        uNeutral: { value: new Color(NEUTRAL) },
        uHold: this.hold,
        uTime: this.time,
        uRadius: { value: radius },
        uCurtain: { value: CURTAIN },
      },
    });
    this.mesh = new Mesh(mergeGeometries([disc, curtain]), material);
    worldPoint(zone[0], zone[1], 0.05, this.mesh.position);
    this.mesh.renderOrder = 1;
  }

  update(chunk: Chunk, tick: number, seconds: number): void {
    const { frame } = frameAt(chunk, tick);
    const [blue, red] = [chunk.tonnage[frame * 2], chunk.tonnage[frame * 2 + 1]];
    const sum = Math.max(1e-6, blue + red);
    this.hold.value = [blue / sum, red / sum];
    this.time.value = seconds;
    this.teams.forEach((colour, t) => colour.setHex(TEAMS[t].colour));
  }

  dispose(): void {
    this.mesh.geometry.dispose();
    this.mesh.material.dispose();
  }
}
