// Damage numbers beside hit mechs, kept apart on the screen: an instanced quad per digit, one draw call, digits from
// one texture.

import {
  BufferAttribute,
  type Camera,
  CanvasTexture,
  DynamicDrawUsage,
  InstancedBufferAttribute,
  InstancedBufferGeometry,
  LinearFilter,
  Mesh,
  ShaderMaterial,
  Vector3,
} from "three";
import { LIFE_S, type NumberBox, type HitGroup, type HitGroupState, separate } from "../data/hit_groups";
import { smooth } from "../interpolate";
import { PLATE_SIZE, plateScaleAt, plateScales } from "./plates";

const MOST = 512; // most digits
const VIEW = 900; // reference height of the view for all sizes [px]
const DIGIT = 0.54; // width of a digit relative to its height
const BESIDE = 22; // horizontal offset of numbers in large battles; they alternate left and right [px]
const GAP = 3; // gap between a number and its mech's plate [px]
const RISE = 2.1; // rise of a number after its last hit [vox]
const GROW_S = 0.12; // time to appear
const BUMP = 0.3; // enlargement when a further hit is added
const BUMP_S = 0.18; // duration of the enlargement
const CELL = 64; // size of a digit's texture cell [pixels]
const LEAST_PIXELS = 14; // height of the smallest number [px of the reference view]
const MOST_PIXELS = 38;
const PIXELS_PER_POINT = 0.5;
const LEAST = 1; // least damage that shows a number
const LEAST_IN_BATTLE = 12; // least damage in large battles
const BATTLE = 60; // matches with more mechs are large battles

/** Draw the ten digits side by side into a texture. */
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

/** A number to draw; lengths in pixels of the reference view. */
interface NumberLabel {
  point: Vector3; // in world space
  text: string;
  size: number; // height
  alpha: number;
  strong: number;
  side: number; // 1 right of its mech, -1 left
  shift: number; // horizontal offset
  weight: number; // weight in overlap removal, 0 to 1
  order: number; // newer numbers have priority
}

/** Return the width of a number with its outline. */
const widthOf = (text: string, size: number) => size * DIGIT * (text.length + 0.4);

/** Return the screen box of a number, null behind the camera. */
function boxOf(
  { point, text, size, shift, weight, order }: NumberLabel,
  camera: Camera,
  aspect: number,
): NumberBox | null {
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
  private readonly scales: [number, number] | null; // scales of plates, null in large battles
  private shown: NumberLabel[] = [];
  private count = 0;

  constructor(mechs: number) {
    this.least = mechs > BATTLE ? LEAST_IN_BATTLE : LEAST;
    this.scales = mechs > BATTLE ? null : plateScales(mechs);
    const geometry = new InstancedBufferGeometry();
    geometry.setAttribute(
      "position",
      new BufferAttribute(new Float32Array([0, -0.5, 0, 1, -0.5, 0, 1, 0.5, 0, 0, 0.5, 0]), 3),
    );
    geometry.setIndex([0, 1, 2, 0, 2, 3]);
    geometry.setAttribute("place", this.place);
    geometry.setAttribute("mark", this.mark);
    geometry.setAttribute("shift", this.shift);
    const material = new ShaderMaterial({
      vertexShader: VERTEX,
      fragmentShader: FRAGMENT,
      transparent: true,
      depthWrite: false,
      depthTest: false,
      uniforms: { uDigits: { value: digitTexture() } },
    });
    this.mesh = new Mesh(geometry, material);
    this.mesh.frustumCulled = false;
    this.mesh.visible = false;
    this.mesh.renderOrder = 6.5; // above effects, below plates
  }

  clear(): void {
    this.count = 0;
    this.shown = [];
  }

  /** Add the number of a hit group at a mech's centre, with the opacity of the mech. */
  add(
    at: Vector3,
    { whom, turn, ticks }: HitGroup,
    { damage, strong, sinceFirst, sinceLatest, sinceEnd }: HitGroupState,
    drawn: number,
  ): void {
    if (damage < this.least || drawn <= 0) return;
    const share = sinceEnd / LIFE_S;
    const bump =
      ticks[0] === ticks[ticks.length - 1]
        ? 0
        : BUMP * (1 - smooth(sinceLatest / BUMP_S)) * smooth(sinceFirst / BUMP_S);
    const size =
      Math.min(MOST_PIXELS, LEAST_PIXELS + damage * PIXELS_PER_POINT) *
      (0.55 + 0.45 * smooth(sinceFirst / GROW_S)) *
      (1 + bump);
    const alpha = drawn * (1 - smooth((share - 0.45) / 0.55));
    const at900 = {
      text: String(Math.round(damage)),
      size,
      alpha,
      strong,
      side: (whom + turn) % 2 === 0 ? 1 : -1,
      shift: 0,
    };
    this.shown.push({
      point: at.clone().setY(at.y + 0.6 + share * RISE),
      weight: alpha * smooth(sinceFirst / GROW_S),
      order: ticks[0],
      ...at900,
    });
  }

  /** Resolve overlaps for the given camera and view size [px], and upload the digits. */
  finish(camera: Camera, width: number, height: number): void {
    const aspect = width / Math.max(1, height);
    for (const number of this.shown)
      number.shift = number.side * this.plateClearance(number, camera, VIEW / Math.max(1, height));
    const shown = this.shown
      .map((number) => ({ number, box: boxOf(number, camera, aspect) }))
      .filter(({ box }) => box !== null);
    const lifts = separate(shown.map(({ box }) => box as NumberBox));
    shown.forEach(({ number }, i) => this.writeDigits(number, lifts[i]));
    this.draw();
  }

  /** Return the horizontal offset at which a number clears its mech's plate. */
  private plateClearance({ point, text, size }: NumberLabel, camera: Camera, perPixel: number): number {
    if (!this.scales) return BESIDE;
    const far = -spot.copy(point).applyMatrix4(camera.matrixWorldInverse).z;
    return (PLATE_SIZE[0] * perPixel * plateScaleAt(far, this.scales) + widthOf(text, size)) / 2 + GAP;
  }

  private writeDigits({ point, text, size, alpha, strong, shift }: NumberLabel, lift: number): void {
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
