// Bubbles around mechs that emit ECM or ECCM. One draw call. The ranges of the selected mech are lines of the overlay.

import {
  Color,
  DynamicDrawUsage,
  InstancedBufferAttribute,
  InstancedBufferGeometry,
  Mesh,
  ShaderMaterial,
  SphereGeometry,
  Vector3,
} from "three";
import type { SensorRange } from "../data/sensor_ranges";
import type { Poses } from "../interpolate";
import { RANGE_STYLES, type RangeKind } from "../palette";
import { worldPoint } from "../spaces";
import type { Mechs } from "./mechs";

const AROUND = 0.8; // margin of a bubble around its mech [vox]

const VERTEX = /* glsl */ `
in vec4 place;  // centre of the mech, radius of its bubble
in vec4 light;  // colour, opacity
in float gap;   // strength of the bands
out vec3 vAt;      // normal
out vec3 vTowards; // direction to the camera
flat out vec4 vLight;
flat out float vGap;
void main() {
  vec3 at = place.xyz + position * place.w;
  vAt = position;
  vTowards = cameraPosition - at;
  vLight = light;
  vGap = gap;
  gl_Position = projectionMatrix * viewMatrix * vec4(at, 1.0);
}`;
const FRAGMENT = /* glsl */ `
uniform float uTime;
in vec3 vAt;
in vec3 vTowards;
flat in vec4 vLight;
flat in float vGap;
void main() {
  float rim = pow(1.0 - abs(dot(normalize(vAt), normalize(vTowards))), 2.0);
  float bands = 0.5 + 0.5 * sin(vAt.y * 22.0 - uTime * 2.5);
  float alpha = (0.12 + 0.75 * rim) * mix(1.0, bands, vGap) * vLight.a;
  if (alpha < 0.01) discard;
  gl_FragColor = vec4(vLight.rgb, alpha);
  #include <colorspace_fragment>
}`;

function shape(): InstancedBufferGeometry {
  const sphere = new SphereGeometry(1, 24, 16);
  const geometry = new InstancedBufferGeometry();
  geometry.setAttribute("position", sphere.getAttribute("position"));
  geometry.setIndex(sphere.getIndex());
  return geometry;
}

export class Bubbles {
  readonly mesh: Mesh<InstancedBufferGeometry, ShaderMaterial>;
  private readonly place: InstancedBufferAttribute;
  private readonly light: InstancedBufferAttribute;
  private readonly gap: InstancedBufferAttribute;
  private readonly time = { value: 0 };

  constructor(
    mechs: number,
    private readonly models: Mechs,
  ) {
    const column = (items: number) =>
      new InstancedBufferAttribute(new Float32Array(mechs * items), items).setUsage(DynamicDrawUsage);
    [this.place, this.light, this.gap] = [column(4), column(4), column(1)];
    const geometry = shape();
    geometry.setAttribute("place", this.place);
    geometry.setAttribute("light", this.light);
    geometry.setAttribute("gap", this.gap);
    this.mesh = new Mesh(
      geometry,
      new ShaderMaterial({
        vertexShader: VERTEX,
        fragmentShader: FRAGMENT,
        transparent: true,
        depthWrite: false,
        uniforms: { uTime: this.time },
      }),
    );
    this.mesh.frustumCulled = false;
    this.mesh.visible = false;
    this.mesh.renderOrder = 2; // above the zone, below smoke
  }

  /**
   * Update to the emissions of a moment, with the opacity of their mechs. `seconds` of match time animate the pattern;
   * 0 for none.
   */
  update(emissions: readonly SensorRange[], poses: Poses, drawn: Float32Array, seconds: number): void {
    this.time.value = seconds;
    emissions.forEach(({ mech, kind }, at) => {
      const colour = colours[kind];
      worldPoint(poses.x[mech], poses.y[mech], poses.z[mech], spot);
      const radius = Math.hypot(this.models.height(mech), this.models.width(mech)) / 2 + AROUND;
      this.place.setXYZW(at, spot.x, spot.y, spot.z, radius);
      this.light.setXYZW(at, colour.r, colour.g, colour.b, drawn[mech]);
      this.gap.setX(at, RANGE_STYLES[kind].gap);
    });
    this.mesh.visible = emissions.length > 0;
    this.mesh.geometry.instanceCount = emissions.length;
    for (const attribute of [this.place, this.light, this.gap]) attribute.needsUpdate = true;
  }

  dispose(): void {
    this.mesh.geometry.dispose();
    this.mesh.material.dispose();
  }
}

const colours = Object.fromEntries(
  Object.entries(RANGE_STYLES).map(([kind, { colour }]) => [kind, new Color(colour)]),
) as Record<RangeKind, Color>;
const spot = new Vector3();
