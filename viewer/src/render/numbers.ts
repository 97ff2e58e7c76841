// Damage numbers beside what was hit, kept off each other on the screen: an instanced quad per digit, all one draw call,
// digits from one canvas.

import {
  BufferAttribute, type Camera, CanvasTexture, DynamicDrawUsage, InstancedBufferAttribute, InstancedBufferGeometry, LinearFilter, Mesh,
  ShaderMaterial, Vector3,
} from "three";
import { LIFE_S, type NumberBox, type Tally, type TallyMoment, spread } from "../data/tallies";
import { smooth } from "../interpolate";
import { PLATE, scaleAt, scalesAmong } from "./markers";

const MOST = 512; // digits at once
const VIEW = 900; // height of the view in which sizes are given [px]
const DIGIT = 0.54; // width of a digit, of its height
const BESIDE = 22; // how far from the mech's middle the numbers of a battle are; those of one mech take turns left and right [px]
const GAP = 3; // between a number and the plate that it passes [px]
const RISE = 2.1; // how far a number rises once it grows no more [vox]
const GROW_S = 0.12; // how long it takes to appear
const BUMP = 0.3; // how much larger it is for a moment when a further hit is added
const BUMP_S = 0.18; // for how long
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
in vec2 shift;  // to the right and up, in the same pixels
out vec2 vUv;
out vec2 vMark;
void main() {
  vec4 clip = projectionMatrix * viewMatrix * vec4(place.xyz, 1.0);
  float pixel = 2.0 / ${VIEW}.0 * clip.w;
  float narrow = projectionMatrix[0][0] / projectionMatrix[1][1];
  vec2 at = vec2((position.x - 0.5 + mark.y * ${DIGIT}) * place.w, position.y * place.w) + shift;
  clip.xy += at * pixel * vec2(narrow, 1.0);
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

/** A number to be drawn; lengths in pixels of a 900 pixel high view. */
interface Shown {
  point: Vector3; // in world space
  text: string;
  size: number; // its height
  alpha: number;
  strong: number;
  side: number; // 1 to the right of its mech, -1 to the left
  shift: number; // how far it is moved that way
  weight: number; // how much room it takes, 0 to 1
  order: number; // of two at one height the newer has the room
}

/** Width of a number with its outline. */
const widthOf = (text: string, size: number) => size * DIGIT * (text.length + 0.4);

/** The room a number takes on the screen, null behind the camera. */
function boxOf({ point, text, size, shift, weight, order }: Shown, camera: Camera, aspect: number): NumberBox | null {
  spot.copy(point).project(camera);
  if (spot.z > 1) return null;
  const [x, y] = [(spot.x * aspect * VIEW) / 2 + shift, (spot.y * VIEW) / 2];
  return { x, y, wide: widthOf(text, size), high: size * 0.86, weight, order };
}

const spot = new Vector3();

/** All numbers on the screen. */
export class DamageNumbers {
  readonly mesh: Mesh<InstancedBufferGeometry, ShaderMaterial>;
  private readonly place = new InstancedBufferAttribute(new Float32Array(MOST * 4), 4).setUsage(DynamicDrawUsage);
  private readonly mark = new InstancedBufferAttribute(new Float32Array(MOST * 4), 4).setUsage(DynamicDrawUsage);
  private readonly shift = new InstancedBufferAttribute(new Float32Array(MOST * 2), 2).setUsage(DynamicDrawUsage);
  private readonly least: number;
  private readonly scales: [number, number] | null; // of the plates, null where only some mechs have one
  private shown: Shown[] = [];
  private count = 0;

  constructor(mechs: number) {
    this.least = mechs > BATTLE ? LEAST_IN_BATTLE : LEAST;
    this.scales = mechs > BATTLE ? null : scalesAmong(mechs);
    const geometry = new InstancedBufferGeometry();
    geometry.setAttribute("position", new BufferAttribute(new Float32Array([0, -0.5, 0, 1, -0.5, 0, 1, 0.5, 0, 0, 0.5, 0]), 3));
    geometry.setIndex([0, 1, 2, 0, 2, 3]);
    geometry.setAttribute("place", this.place);
    geometry.setAttribute("mark", this.mark);
    geometry.setAttribute("shift", this.shift);
    const material = new ShaderMaterial({
      vertexShader: VERTEX, fragmentShader: FRAGMENT, transparent: true, depthWrite: false, depthTest: false,
      uniforms: { uDigits: { value: digitTexture() } },
    });
    this.mesh = new Mesh(geometry, material);
    this.mesh.frustumCulled = false;
    this.mesh.visible = false;
    this.mesh.renderOrder = 6.5; // over what flies and burns, under the plates
  }

  clear(): void {
    this.count = 0;
    this.shown = [];
  }

  /** Add what a number shows of the damage done to a mech whose middle is at a point, as far as the mech is drawn. */
  add(at: Vector3, { whom, turn, ticks }: Tally, { damage, strong, grown, fresh, done }: TallyMoment, drawn: number): void {
    if (damage < this.least || drawn <= 0) return;
    const share = done / LIFE_S;
    const bump = ticks[0] === ticks[ticks.length - 1] ? 0 : BUMP * (1 - smooth(fresh / BUMP_S)) * smooth(grown / BUMP_S);
    const size = Math.min(MOST_PIXELS, LEAST_PIXELS + damage * PIXELS_PER_POINT) * (0.55 + 0.45 * smooth(grown / GROW_S)) * (1 + bump);
    const alpha = drawn * (1 - smooth((share - 0.45) / 0.55));
    const at900 = { text: String(Math.round(damage)), size, alpha, strong, side: (whom + turn) % 2 === 0 ? 1 : -1, shift: 0 };
    this.shown.push({ point: at.clone().setY(at.y + 0.6 + share * RISE), weight: alpha * smooth(grown / GROW_S), order: ticks[0], ...at900 });
  }

  /** Put the numbers where they do not cover each other, as the camera sees them in a view of this size [px], and have them drawn. */
  finish(camera: Camera, width: number, height: number): void {
    const aspect = width / Math.max(1, height);
    for (const number of this.shown) number.shift = number.side * this.beside(number, camera, VIEW / Math.max(1, height));
    const shown = this.shown.map((number) => ({ number, box: boxOf(number, camera, aspect) })).filter(({ box }) => box !== null);
    const lifts = spread(shown.map(({ box }) => box as NumberBox));
    shown.forEach(({ number }, i) => this.write(number, lifts[i]));
    this.draw();
  }

  /** How far from the middle of its mech a number rises past the mech's plate, whose size is given in pixels of the page. */
  private beside({ point, text, size }: Shown, camera: Camera, perPixel: number): number {
    if (!this.scales) return BESIDE;
    const far = -spot.copy(point).applyMatrix4(camera.matrixWorldInverse).z;
    return (PLATE[0] * perPixel * scaleAt(far, this.scales) + widthOf(text, size)) / 2 + GAP;
  }

  private write({ point, text, size, alpha, strong, shift }: Shown, lift: number): void {
    for (let i = 0; i < text.length && this.count < MOST; i++, this.count++) {
      this.place.setXYZW(this.count, point.x, point.y, point.z, size);
      this.mark.setXYZW(this.count, Number(text[i]), i - (text.length - 1) / 2, alpha, strong);
      this.shift.setXY(this.count, shift, lift);
    }
  }

  private draw(): void {
    this.mesh.visible = this.count > 0;
    this.mesh.geometry.instanceCount = this.count;
    for (const attribute of [this.place, this.mark, this.shift]) {
      attribute.clearUpdateRanges();
      attribute.addUpdateRange(0, this.count * attribute.itemSize);
      attribute.needsUpdate = true;
    }
  }

  dispose(): void {
    (this.mesh.material.uniforms.uDigits.value as CanvasTexture).dispose();
    this.mesh.material.dispose();
    this.mesh.geometry.dispose();
  }
}
