// Damage numbers that rise from what was hit: an instanced quad per digit, all one draw call, digits from one canvas.

import {
  BufferAttribute, CanvasTexture, DynamicDrawUsage, InstancedBufferAttribute, InstancedBufferGeometry, LinearFilter, Mesh,
  ShaderMaterial, type Vector3,
} from "three";
import { smooth } from "../interpolate";

const MOST = 512; // digits at once
const LIFE_S = 1.1;
const CELL = 64; // pixels of a digit's cell, square
const LEAST_PIXELS = 14; // height of the smallest number, of a 900 pixel high view
const MOST_PIXELS = 38;
const PIXELS_PER_POINT = 0.5;
const LEAST = 1; // damage below this shows no number
const LEAST_IN_BATTLE = 12; // the same among so many mechs that numbers would pile up
const BATTLE = 60; // as many

/** Draw the ten digits side by side. */
function digitTexture(): CanvasTexture {
  const canvas = document.createElement("canvas");
  canvas.width = CELL * 10;
  canvas.height = CELL;
  const context = canvas.getContext("2d");
  if (context) {
    context.font = `700 ${CELL * 0.78}px "Chakra Petch", system-ui, sans-serif`;
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.lineWidth = CELL * 0.14;
    context.lineJoin = "round";
    for (let digit = 0; digit < 10; digit++) {
      const x = (digit + 0.5) * CELL;
      context.strokeStyle = "#000";
      context.strokeText(String(digit), x, CELL * 0.54);
      context.fillStyle = "#fff";
      context.fillText(String(digit), x, CELL * 0.54);
    }
  }
  const texture = new CanvasTexture(canvas);
  texture.minFilter = LinearFilter;
  texture.generateMipmaps = false;
  return texture;
}

const VERTEX = /* glsl */ `
in vec4 place;  // point, height in pixels of a 900 pixel high view
in vec4 mark;   // digit, offset in digits from the middle, alpha, strong 0..1
out vec2 vUv;
out vec2 vMark;
void main() {
  vec4 clip = projectionMatrix * viewMatrix * vec4(place.xyz, 1.0);
  float high = place.w / 900.0 * 2.0 * clip.w;
  float wide = high * projectionMatrix[0][0] / projectionMatrix[1][1];
  clip.xy += vec2((position.x - 0.5 + mark.y * 0.62) * wide, position.y * high);
  clip.z -= 0.002 * clip.w;
  vUv = vec2((mark.x + position.x) / 10.0, position.y + 0.5);
  vMark = mark.zw;
  gl_Position = clip;
}`;
const FRAGMENT = /* glsl */ `
uniform sampler2D uDigits;
in vec2 vUv;
in vec2 vMark;
void main() {
  vec4 ink = texture2D(uDigits, vUv);
  vec3 colour = mix(vec3(1.0, 0.95, 0.85), vec3(1.0, 0.62, 0.2), vMark.y);
  gl_FragColor = vec4(colour * ink.r, ink.a * vMark.x);
}`;

/** All numbers on the screen. */
export class DamageNumbers {
  readonly mesh: Mesh<InstancedBufferGeometry, ShaderMaterial>;
  private readonly place = new InstancedBufferAttribute(new Float32Array(MOST * 4), 4).setUsage(DynamicDrawUsage);
  private readonly mark = new InstancedBufferAttribute(new Float32Array(MOST * 4), 4).setUsage(DynamicDrawUsage);
  private readonly least: number;
  private count = 0;

  constructor(mechs: number) {
    this.least = mechs > BATTLE ? LEAST_IN_BATTLE : LEAST;
    const geometry = new InstancedBufferGeometry();
    geometry.setAttribute("position", new BufferAttribute(new Float32Array([0, -0.5, 0, 1, -0.5, 0, 1, 0.5, 0, 0, 0.5, 0]), 3));
    geometry.setIndex([0, 1, 2, 0, 2, 3]);
    geometry.setAttribute("place", this.place);
    geometry.setAttribute("mark", this.mark);
    const material = new ShaderMaterial({
      vertexShader: VERTEX, fragmentShader: FRAGMENT, transparent: true, depthWrite: false, depthTest: false,
      uniforms: { uDigits: { value: digitTexture() } },
    });
    this.mesh = new Mesh(geometry, material);
    this.mesh.frustumCulled = false;
    this.mesh.visible = false;
    this.mesh.renderOrder = 8;
  }

  clear(): void {
    this.count = 0;
  }

  /** Add the damage done at a point, `age` seconds ago. */
  add(at: Vector3, damage: number, age: number, seed: number, strong: boolean): void {
    const share = age / LIFE_S;
    if (share >= 1 || damage < this.least) return;
    const text = String(Math.round(damage));
    const size = Math.min(MOST_PIXELS, LEAST_PIXELS + damage * PIXELS_PER_POINT) * (0.55 + 0.45 * smooth(age / 0.12));
    const sway = Math.sin(seed) * 0.7;
    for (let i = 0; i < text.length && this.count < MOST; i++, this.count++) {
      this.place.setXYZW(this.count, at.x + sway, at.y + 1.1 + share * 2.1, at.z + Math.cos(seed) * 0.4, size);
      this.mark.setXYZW(this.count, Number(text[i]), i - (text.length - 1) / 2, 1 - smooth((share - 0.45) / 0.55), strong ? 1 : 0);
    }
  }

  finish(): void {
    this.mesh.visible = this.count > 0;
    this.mesh.geometry.instanceCount = this.count;
    for (const attribute of [this.place, this.mark]) {
      attribute.clearUpdateRanges();
      attribute.addUpdateRange(0, this.count * 4);
      attribute.needsUpdate = true;
    }
  }

  dispose(): void {
    (this.mesh.material.uniforms.uDigits.value as CanvasTexture).dispose();
    this.mesh.material.dispose();
    this.mesh.geometry.dispose();
  }
}
