// Bubbles around mechs that emit ECM or ECCM. One draw call. The ranges of the selected mech are lines of the overlay.

import { Color, ShaderMaterial, SphereGeometry, Vector3 } from "three";
import type { SensorRange } from "../data/sensor_ranges";
import type { Poses } from "../interpolate";
import { RANGE_STYLES, type RangeKind } from "../palette";
import { worldPoint } from "../spaces";
import { Instances } from "./instances";
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

export class Bubbles extends Instances {
  constructor(private readonly models: Mechs) {
    const material = new ShaderMaterial({
      vertexShader: VERTEX,
      fragmentShader: FRAGMENT,
      transparent: true,
      depthWrite: false,
      uniforms: { uTime: { value: 0 } },
    });
    super(new SphereGeometry(1, 24, 16), ["place", "light", "gap"], material, 2); // above the zone, below smoke
  }

  /**
   * Update to the emissions of a moment, with the opacity of their mechs. `seconds` of match time animate the pattern;
   * 0 for none.
   */
  update(emissions: readonly SensorRange[], poses: Poses, drawn: Float32Array, seconds: number): void {
    this.mesh.material.uniforms.uTime.value = seconds;
    this.clear();
    for (const { mech, kind } of emissions) {
      const { r, g, b } = colours[kind];
      worldPoint(poses.x[mech], poses.y[mech], poses.z[mech], spot);
      const radius = Math.hypot(this.models.height(mech), this.models.width(mech)) / 2 + AROUND;
      this.push(spot.x, spot.y, spot.z, radius, r, g, b, drawn[mech], RANGE_STYLES[kind].gap, 0, 0, 0);
    }
    this.finish();
  }
}

const colours = Object.fromEntries(
  Object.entries(RANGE_STYLES).map(([kind, { colour }]) => [kind, new Color(colour)]),
) as Record<RangeKind, Color>;
const spot = new Vector3();
