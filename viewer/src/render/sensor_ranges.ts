// Ranges around mechs: a bubble around every ECM or ECCM emitter, a ring on the ground at its range, and a ring at the
// radar range of the selected mech. One draw call.

import {
  BufferAttribute,
  Color,
  DataTexture,
  DoubleSide,
  DynamicDrawUsage,
  InstancedBufferAttribute,
  InstancedBufferGeometry,
  Mesh,
  RedFormat,
  ShaderMaterial,
  SphereGeometry,
  Vector2,
  Vector3,
} from "three";
import type { SensorRange, RangeKind } from "../data/sensor_ranges";
import type { Poses } from "../interpolate";
import { RANGE_STYLES } from "../palette";
import { worldPoint } from "../spaces";
import type { Mechs } from "./mechs";

const AROUND = 0.8; // margin of a bubble around its mech [vox]
const CORNERS = 256; // corners of a ring
const WIDE = 0.16; // half the width of a ring [vox]
const CURTAIN = 0.9; // height of the vertical light of a ring [vox]
const LIFT = 0.07; // height of a ring above the ground [vox]
const RING_OPACITY: Record<RangeKind, number> = { ecm: 0.6, eccm: 0.6, radar: 0.85 };
const FEW = 4; // most rings at full opacity; more rings are fainter

const VERTEX = /* glsl */ `
uniform sampler2D uHeights; // of every column, over 255
uniform vec2 uSize;         // of the map
in vec2 part;   // 0 bubble or 1 ring, offset from the ring's centre line
in vec4 place;  // centre of the mech, radius of its bubble
in vec4 ring;   // radius, opacity, number of dashes, share of the gap
in vec4 light;  // colour, opacity of the bubble
out vec3 vAt;      // bubble: normal; ring: angle, height, offset from its centre line
out vec3 vTowards; // direction to the camera
flat out vec4 vLight;
flat out vec4 vRing;
flat out float vPart;
// height of the map at a point; 0 outside
float heightAt(vec2 on) {
  bool within = all(greaterThanEqual(on, vec2(0.0))) && all(lessThan(on, uSize));
  return within ? texelFetch(uHeights, ivec2(on), 0).r * 255.0 : 0.0;
}
void main() {
  vec3 at;
  if (part.x < 0.5) {
    at = place.xyz + position * place.w;
    vAt = position;
  } else {
    vec3 on = vec3(place.x, ${LIFT}, place.z) + vec3(position.x, 0.0, position.z) * ring.x;
    on.y += heightAt(vec2(on.x, -on.z));
    // at least one or two pixels wide at any distance
    float wide = max(${WIDE}, distance(on, cameraPosition) * 0.0014);
    vec3 offset = vec3(position.x * part.y * wide, position.y * ${CURTAIN}, position.z * part.y * wide);
    at = on + step(0.001, ring.x) * offset;
    vAt = vec3(atan(position.z, position.x), position.y, part.y);
  }
  vTowards = cameraPosition - at;
  vLight = light;
  vRing = ring;
  vPart = part.x;
  gl_Position = projectionMatrix * viewMatrix * vec4(at, 1.0);
}`;
const FRAGMENT = /* glsl */ `
uniform float uTime;
in vec3 vAt;
in vec3 vTowards;
flat in vec4 vLight;
flat in vec4 vRing;
flat in float vPart;
void main() {
  float alpha;
  if (vPart < 0.5) {
    if (!gl_FrontFacing) discard;
    float rim = pow(1.0 - abs(dot(normalize(vAt), normalize(vTowards))), 2.0);
    // bubbles of dashed rings have bands
    float bands = 0.5 + 0.5 * sin(vAt.y * 22.0 - uTime * 2.5);
    alpha = (0.12 + 0.75 * rim) * mix(1.0, bands, vRing.w) * vLight.a;
  } else {
    float turns = fract(vAt.x / 6.2831853 * vRing.z + uTime * 0.15);
    float dash = smoothstep(0.0, 0.08, turns) * smoothstep(1.0 - vRing.w + 0.02, 0.94 - vRing.w, turns);
    float line = vAt.y > 0.0 ? 0.16 * pow(1.0 - vAt.y, 2.0) : 1.0 - 0.4 * abs(vAt.z);
    alpha = line * mix(1.0, dash, step(0.01, vRing.w)) * vRing.y;
  }
  if (alpha < 0.01) discard;
  gl_FragColor = vec4(vLight.rgb, alpha);
  #include <colorspace_fragment>
}`;

/** Return the geometry of a bubble (unit sphere) and a ring (corners with height and offset). */
function shape(): InstancedBufferGeometry {
  const sphere = new SphereGeometry(1, 24, 16);
  const position = [...sphere.getAttribute("position").array];
  const part = Array<number>((position.length / 3) * 2).fill(0);
  const index = [...(sphere.getIndex()?.array ?? [])];
  sphere.dispose();
  // a horizontal strip, and a vertical one on its centre line
  for (const [low, high] of [
    [
      { up: 0, out: -1 },
      { up: 0, out: 1 },
    ],
    [
      { up: 0.001, out: 0 },
      { up: 1, out: 0 },
    ],
  ]) {
    const first = position.length / 3;
    for (let corner = 0; corner <= CORNERS; corner++) {
      const angle = (corner / CORNERS) * 2 * Math.PI;
      for (const { up, out } of [low, high]) {
        position.push(Math.cos(angle), up, Math.sin(angle));
        part.push(1, out);
      }
    }
    for (let at = first; at < first + 2 * CORNERS; at += 2) index.push(at, at + 1, at + 3, at, at + 3, at + 2);
  }
  const geometry = new InstancedBufferGeometry();
  geometry.setAttribute("position", new BufferAttribute(Float32Array.from(position), 3));
  geometry.setAttribute("part", new BufferAttribute(Float32Array.from(part), 2));
  geometry.setIndex(index);
  return geometry;
}

/** Bubbles and rings of a match. */
export class SensorRanges {
  readonly mesh: Mesh<InstancedBufferGeometry, ShaderMaterial>;
  private readonly fields: Record<"place" | "ring" | "light", InstancedBufferAttribute>;
  private readonly time = { value: 0 };
  private readonly heights = { value: new DataTexture(new Uint8Array(1), 1, 1, RedFormat) };
  private readonly size = { value: new Vector2(0, 0) };

  constructor(
    mechs: number,
    private readonly models: Mechs,
  ) {
    // at most one emission per mech, and one radar ring
    const column = () => new InstancedBufferAttribute(new Float32Array((mechs + 1) * 4), 4).setUsage(DynamicDrawUsage);
    this.fields = { place: column(), ring: column(), light: column() };
    const geometry = shape();
    for (const [name, attribute] of Object.entries(this.fields)) geometry.setAttribute(name, attribute);
    this.mesh = new Mesh(
      geometry,
      new ShaderMaterial({
        vertexShader: VERTEX,
        fragmentShader: FRAGMENT,
        transparent: true,
        depthWrite: false,
        side: DoubleSide,
        uniforms: { uTime: this.time, uHeights: this.heights, uSize: this.size },
      }),
    );
    this.mesh.frustumCulled = false;
    this.mesh.visible = false;
    this.mesh.renderOrder = 2; // above the zone, below smoke
  }

  /** Set the heights of the map's columns that rings follow, x fastest [vox]. */
  setHeights(heights: Uint8Array, [sizeX, sizeY]: readonly number[]): void {
    this.heights.value.dispose();
    this.heights.value = new DataTexture(heights, sizeX, sizeY, RedFormat);
    this.heights.value.needsUpdate = true;
    this.size.value.set(sizeX, sizeY);
  }

  /**
   * Update to a moment: bubbles with the opacity of their mechs, rings if enabled. `seconds` of match time animate the
   * pattern; 0 for none.
   */
  update(ranges: readonly SensorRange[], poses: Poses, drawn: Float32Array, rings: boolean, seconds: number): void {
    this.time.value = seconds;
    const fainter = Math.min(1, Math.sqrt(FEW / ranges.length));
    ranges.forEach(({ mech, kind, radius }, at) => {
      const { dash, gap } = RANGE_STYLES[kind];
      const colour = colours[kind];
      const bubble = kind === "radar" ? 0 : Math.hypot(this.models.height(mech), this.models.width(mech)) / 2 + AROUND;
      worldPoint(poses.x[mech], poses.y[mech], poses.z[mech], spot);
      this.fields.place.setXYZW(at, spot.x, spot.y, spot.z, bubble);
      this.fields.ring.setXYZW(
        at,
        rings ? radius : 0,
        RING_OPACITY[kind] * (kind === "radar" ? 1 : fainter),
        Math.max(1, Math.round((2 * Math.PI * radius) / dash)),
        gap,
      );
      this.fields.light.setXYZW(at, colour.r, colour.g, colour.b, drawn[mech]);
    });
    this.mesh.visible = ranges.length > 0;
    this.mesh.geometry.instanceCount = ranges.length;
    for (const attribute of Object.values(this.fields)) attribute.needsUpdate = true;
  }

  dispose(): void {
    this.heights.value.dispose();
    this.mesh.geometry.dispose();
    this.mesh.material.dispose();
  }
}

const colours = Object.fromEntries(
  Object.entries(RANGE_STYLES).map(([kind, { colour }]) => [kind, new Color(colour)]),
) as Record<RangeKind, Color>;
const spot = new Vector3();
