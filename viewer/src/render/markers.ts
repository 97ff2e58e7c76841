// Markers of mechs: on the ground a team symbol that points along the heading, and above the mech a plate with name and
// bars. Two draw calls for all mechs; teams differ in shape as well as colour.

import {
  BufferAttribute,
  type Camera,
  CanvasTexture,
  Color,
  DynamicDrawUsage,
  InstancedBufferAttribute,
  InstancedBufferGeometry,
  LinearFilter,
  Mesh,
  ShaderMaterial,
  Vector2,
  Vector3,
} from "three";
import type { Poses } from "../interpolate";
import { TEAMS } from "../palette";
import { type Header, MechFlag } from "../protocol.gen";
import { worldPoint } from "../spaces";
import type { Mechs } from "./mechs";
import { PLATE_SIZE, type Plate, arrangePlates, mayHavePlate, plateScaleAt, plateScales } from "./plates";

const NAME = [96, 48] as const; // size of a name's cell [pixels]
const NAME_COLUMNS = 8;
const SELECTED_SCALE = 1.2; // additional scale of the selected mech's plate

const SIGN_VERTEX = /* glsl */ `
in vec4 place;  // point on the ground, radius
in vec4 style;  // colour, alpha
in vec4 aim;    // heading, corners of the symbol, selected, painted
out vec2 vAt;
out vec4 vStyle;
flat out vec4 vSign;
void main() {
  vAt = position.xz * 2.0;
  vStyle = style;
  vSign = aim;
  float s = sin(aim.x), c = cos(aim.x);
  vec2 at = position.xz * 2.0 * place.w * 1.5;
  vec3 offset = vec3(c * at.x + s * at.y, 0.0, -s * at.x + c * at.y);
  gl_Position = projectionMatrix * viewMatrix * vec4(place.xyz + offset, 1.0);
}`;
const SIGN_FRAGMENT = /* glsl */ `
in vec2 vAt;
in vec4 vStyle;
flat in vec4 vSign;
void main() {
  vec2 p = vAt * 1.5;
  // a circle for one team, a square on its point for the other
  float r = vSign.y < 0.5 ? length(p) : abs(p.x) + abs(p.y);
  r *= vSign.y < 0.5 ? 1.0 : 0.8;
  float px = fwidth(r);
  float ring = smoothstep(0.055 + px, 0.04, abs(r - 0.94));
  float fill = 0.16 * smoothstep(0.95, 0.6, r);
  float beyond = p.x - 1.02;
  float arrow = smoothstep(px, -px, max(-beyond, beyond * 1.25 + abs(p.y) - 0.34));
  float halo = vSign.z * smoothstep(0.022 + px, 0.012, abs(r - 1.1));
  vec3 colour = mix(vStyle.rgb, vec3(1.0), vSign.z * 0.55);
  float crosshair = vSign.w * smoothstep(0.07, 0.04, min(abs(p.x), abs(p.y))) * step(0.55, r) * step(r, 1.35);
  colour = mix(colour, vec3(1.0, 0.45, 0.88), crosshair);
  float alpha = max(max(ring, fill), max(max(arrow, halo), crosshair)) * vStyle.a;
  if (alpha < 0.01) discard;
  gl_FragColor = vec4(colour, alpha);
}`;

const PLATE_VERTEX = /* glsl */ `
uniform vec2 uView;
uniform vec2 uScale;   // of the farthest and the nearest plates
in vec4 place;  // point above the head, scale
in vec4 style;  // team colour, alpha
in vec4 bars;   // health, heat, stability, legs, as shares
in vec4 name;   // column and row of the name, 1 + lift or 0 without room, selected
out vec2 vAt;
out vec4 vStyle;
flat out vec4 vBars;
flat out vec4 vName;
void main() {
  vec4 clip = projectionMatrix * viewMatrix * vec4(place.xyz, 1.0);
  float near = clamp(60.0 / max(1.0, clip.w), uScale.x, uScale.y) * place.w;
  vec2 size = (name.z > 0.5 ? vec2(${PLATE_SIZE[0]}.0, ${PLATE_SIZE[1]}.0) : vec2(26.0, 5.0)) * near;
  clip.xy += (position.xy + vec2(0.0, 0.5 + max(0.0, name.z - 1.0))) * size / uView * 2.0 * clip.w;
  vAt = position.xy + 0.5;
  vStyle = style;
  vBars = bars;
  vName = name;
  gl_Position = clip;
}`;
const PLATE_FRAGMENT = /* glsl */ `
uniform sampler2D uNames;
uniform vec2 uNameGrid;
in vec2 vAt;
in vec4 vStyle;
flat in vec4 vBars;
flat in vec4 vName;
// one bar between x0 and 1: colour where filled, dark where not
vec4 bar(vec2 p, float low, float high, float share, vec3 colour) {
  float inside = step(low, p.y) * step(p.y, high) * step(0.36, p.x) * step(p.x, 0.985);
  float at = (p.x - 0.36) / 0.625;
  return vec4(mix(vec3(0.02, 0.03, 0.045), colour, step(at, share)), inside);
}
void main() {
  vec2 p = vAt;
  if (vName.z < 0.5) {
    // without room for a plate, only a health bar is drawn
    vec2 rim = step(vec2(0.04, 0.2), p) * step(p, vec2(0.96, 0.8));
    float filled = step((p.x - 0.04) / 0.92, vBars.x);
    gl_FragColor = vec4(mix(vec3(0.02, 0.03, 0.045), vStyle.rgb, rim.x * rim.y * filled), 0.9 * vStyle.a);
    return;
  }
  vec2 edge = abs(p - 0.5) * vec2(66.0, 24.0) - (vec2(33.0, 12.0) - 4.0);
  float corner = length(max(edge, 0.0)) - 4.0;
  float panel = smoothstep(0.7, -0.7, corner);
  float border = panel * smoothstep(-2.2, -1.2, corner);
  vec4 colour = vec4(0.025, 0.035, 0.05, 0.72 * panel);
  colour.rgb = mix(colour.rgb, vStyle.rgb, border * (0.55 + 0.45 * vName.w));
  colour.a = max(colour.a, border * (0.7 + 0.3 * vName.w));
  vec3 hot = mix(vec3(1.0, 0.78, 0.25), vec3(1.0, 0.25, 0.12), smoothstep(0.6, 1.0, vBars.y));
  vec4 layers[3];
  layers[0] = bar(p, 0.5, 0.82, vBars.x, vStyle.rgb);
  layers[1] = bar(p, 0.29, 0.43, vBars.y, hot);
  layers[2] = bar(p, 0.14, 0.24, vBars.z, vec3(0.82, 0.87, 0.92));
  for (int i = 0; i < 3; i++) colour = mix(colour, vec4(layers[i].rgb, 0.95), layers[i].a);
  vec2 uv = vec2((p.x - 0.02) / 0.33, (p.y - 0.06) / 0.88);
  if (uv.x > 0.0 && uv.x < 1.0 && uv.y > 0.0 && uv.y < 1.0) {
    float ink = texture2D(uNames, (vec2(vName.x, uNameGrid.y - 1.0 - vName.y) + uv) / uNameGrid).r;
    colour = mix(colour, vec4(mix(vStyle.rgb, vec3(1.0), 0.55), 1.0), ink);
  }
  gl_FragColor = vec4(colour.rgb, colour.a * vStyle.a);
}`;

/** Draw the names of all mechs into a texture of cells. */
function nameTexture(names: readonly string[], rows: number): CanvasTexture {
  const canvas = document.createElement("canvas");
  canvas.width = NAME[0] * NAME_COLUMNS;
  canvas.height = NAME[1] * rows;
  const context = canvas.getContext("2d");
  if (context) {
    context.fillStyle = "#fff";
    context.textAlign = "center";
    context.textBaseline = "middle";
    names.forEach((name, i) => {
      context.font = `700 ${name.length > 3 ? 26 : 36}px "Chakra Petch", system-ui, sans-serif`;
      context.fillText(
        name,
        ((i % NAME_COLUMNS) + 0.5) * NAME[0],
        (Math.floor(i / NAME_COLUMNS) + 0.54) * NAME[1],
        NAME[0] - 8,
      );
    });
  }
  const texture = new CanvasTexture(canvas);
  texture.minFilter = LinearFilter;
  texture.generateMipmaps = false;
  return texture;
}

function instanced(quad: number[], fields: Record<string, InstancedBufferAttribute>): InstancedBufferGeometry {
  const geometry = new InstancedBufferGeometry();
  geometry.setAttribute("position", new BufferAttribute(new Float32Array(quad), 3));
  geometry.setIndex([0, 1, 2, 0, 2, 3]);
  for (const [name, attribute] of Object.entries(fields)) geometry.setAttribute(name, attribute);
  return geometry;
}

/** Ground symbols and plates of all mechs. */
export class Markers {
  readonly signs: Mesh<InstancedBufferGeometry, ShaderMaterial>;
  readonly plates: Mesh<InstancedBufferGeometry, ShaderMaterial>;
  private readonly ground: Record<"place" | "style" | "aim", InstancedBufferAttribute>;
  private readonly above: Record<"place" | "style" | "bars" | "name", InstancedBufferAttribute>;
  private readonly view = new Vector2(1, 1);
  private readonly scales: [number, number]; // of the farthest and of the nearest plates

  constructor(
    private readonly header: Header,
    private readonly mechs: Mechs,
  ) {
    const column = () => new InstancedBufferAttribute(new Float32Array(header.mechs * 4), 4).setUsage(DynamicDrawUsage);
    this.ground = { place: column(), style: column(), aim: column() };
    this.above = { place: column(), style: column(), bars: column(), name: column() };
    this.scales = plateScales(header.mechs);
    const rows = Math.ceil(header.mechs / NAME_COLUMNS);
    const flat = [-0.5, 0, -0.5, -0.5, 0, 0.5, 0.5, 0, 0.5, 0.5, 0, -0.5];
    const upright = [-0.5, -0.5, 0, 0.5, -0.5, 0, 0.5, 0.5, 0, -0.5, 0.5, 0];
    const shared = { transparent: true, depthWrite: false };
    this.signs = new Mesh(
      instanced(flat, this.ground),
      new ShaderMaterial({
        ...shared,
        vertexShader: SIGN_VERTEX,
        fragmentShader: SIGN_FRAGMENT,
        polygonOffset: true,
        polygonOffsetFactor: -2,
        polygonOffsetUnits: -8,
      }),
    );
    this.plates = new Mesh(
      instanced(upright, this.above),
      new ShaderMaterial({
        ...shared,
        vertexShader: PLATE_VERTEX,
        fragmentShader: PLATE_FRAGMENT,
        depthTest: false,
        uniforms: {
          uView: { value: this.view },
          uScale: { value: new Vector2(...this.scales) },
          uNames: {
            value: nameTexture(
              header.roster.map((mech) => mech.name),
              rows,
            ),
          },
          uNameGrid: { value: new Vector2(NAME_COLUMNS, rows) },
        },
      }),
    );
    this.signs.renderOrder = 4.5; // visible through smoke
    this.plates.renderOrder = 7;
    for (const mesh of [this.signs, this.plates]) mesh.frustumCulled = false;
  }

  /** Update to a moment; the view's size is in CSS pixels. Plates are drawn back to front. */
  update(poses: Poses, shown: Float32Array, selected: number, width: number, height: number, camera: Camera): void {
    this.view.set(width, height);
    const order = this.header.roster
      .map((_, mech) => mech)
      .filter((mech) => this.header.roster[mech].present && poses.alive[mech] > 0.5 && shown[mech] > 0.5);
    const distances = new Map(order.map((mech) => [mech, this.distance(mech, poses, camera)]));
    order.sort((a, b) => (distances.get(b) ?? 0) - (distances.get(a) ?? 0));
    const lifts = this.lifts(order, poses, selected, camera);
    order.forEach((mech, at) => this.put(at, mech, poses, mech === selected, lifts.get(mech) ?? null));
    for (const mesh of [this.signs, this.plates]) mesh.geometry.instanceCount = order.length;
    for (const attribute of [...Object.values(this.ground), ...Object.values(this.above)]) attribute.needsUpdate = true;
  }

  private distance(mech: number, poses: Poses, camera: Camera): number {
    return worldPoint(poses.x[mech], poses.y[mech], poses.z[mech], spot).distanceTo(camera.position);
  }

  /**
   * Return how far plates move up to avoid overlaps, null without room: the selected one has priority, then nearer
   * ones.
   */
  private lifts(order: readonly number[], poses: Poses, selected: number, camera: Camera): Map<number, number | null> {
    const claim = (mech: number) => mech === selected || mayHavePlate(order.length, this.distance(mech, poses, camera));
    const nearest = order
      .filter(claim)
      .reverse()
      .sort((a, b) => Number(b === selected) - Number(a === selected));
    const plates = nearest.map((mech): Plate => {
      this.top(mech, poses);
      const far = -place.copy(spot).applyMatrix4(camera.matrixWorldInverse).z;
      spot.project(camera);
      const scale = plateScaleAt(far, this.scales) * (mech === selected ? SELECTED_SCALE : 1);
      return { x: (spot.x * this.view.x) / 2, y: (spot.y * this.view.y) / 2 + (PLATE_SIZE[1] * scale) / 2, scale };
    });
    const lifts = arrangePlates(plates);
    return new Map(nearest.map((mech, i) => [mech, lifts[i]]));
  }

  /** Set `spot` to the point above a mech's head. */
  private top(mech: number, poses: Poses): void {
    worldPoint(poses.x[mech], poses.y[mech], poses.z[mech] + this.mechs.height(mech) * 0.5 + 0.75, spot);
  }

  private put(at: number, mech: number, poses: Poses, selected: boolean, lift: number | null): void {
    const { team, chassis } = this.header.roster[mech];
    const spec = this.header.chassis[chassis];
    const colour = colours[team];
    const high = this.mechs.height(mech);
    const painted = poses.flags[mech] & MechFlag.PAINTED ? 1 : 0;
    worldPoint(poses.x[mech], poses.y[mech], poses.z[mech] - high / 2 + 0.07, spot);
    this.ground.place.setXYZW(at, spot.x, spot.y, spot.z, this.mechs.width(mech) * 0.66 + 0.35);
    this.ground.style.setXYZW(at, colour.r, colour.g, colour.b, 0.9);
    this.ground.aim.setXYZW(at, poses.yaw[mech], TEAMS[team].sides, selected ? 1 : 0, painted);
    this.top(mech, poses);
    this.above.place.setXYZW(at, spot.x, spot.y, spot.z, selected ? SELECTED_SCALE : 1);
    this.above.style.setXYZW(at, colour.r, colour.g, colour.b, 1);
    this.above.bars.setXYZW(
      at,
      poses.hp[mech] / (spec?.hp ?? 100),
      poses.heat[mech] / (spec?.heat_cap ?? 100),
      poses.stability[mech] / 100,
      poses.legHp[mech] / (spec?.leg_hp ?? 50),
    );
    this.above.name.setXYZW(
      at,
      mech % NAME_COLUMNS,
      Math.floor(mech / NAME_COLUMNS),
      lift === null ? 0 : 1 + lift,
      selected ? 1 : 0,
    );
  }

  dispose(): void {
    (this.plates.material.uniforms.uNames.value as CanvasTexture).dispose();
    for (const mesh of [this.signs, this.plates]) {
      mesh.geometry.dispose();
      mesh.material.dispose();
    }
  }
}

// markers are drawn after tone mapping, so their colours are screen colours
const colours = TEAMS.map((team) => new Color().setHex(team.colour, ""));
const spot = new Vector3();
const place = new Vector3();
