// Surroundings of the map: the sky, and a wide plain with patterns or as the low tier's version.

import * as THREE from "three";
import { SCENE } from "../palette";
import { PLAIN_FILM, PLAIN_LIGHT, type PlainUniforms } from "./plain_shader";
import { NOISE } from "./random";

const SECTION = 0.4; // brightness of the inside of walls that are cut away, relative to the ground

/** Whether a point of the plain is seen through the section of a wall that is cut away. */
const IS_SECTION = /* glsl */ `
uniform vec4 uCut;
bool isSection(vec2 at) { return distance(at, uCut.xy) < uCut.w + 2.0 && uCut.w > 0.0; }
`;

const APRON_PARS = /* glsl */ `
${NOISE}
${IS_SECTION}
// plain around the map: mottled, with lines every ten voxels and a frame around the map
float apron(vec2 p) {
  float mottle = 0.86 + 0.2 * noise2(p * 0.06) + 0.08 * noise2(p * 0.5);
  vec2 grid = abs(fract(p / 10.0 + 0.5) - 0.5) * 10.0;
  vec2 px = fwidth(p);
  vec2 line = 1.0 - smoothstep(vec2(0.04), vec2(0.04) + px * 1.2, grid);
  float fade = 1.0 - smoothstep(0.3, 1.6, max(px.x, px.y));
  mottle *= 1.0 + 0.1 * max(line.x, line.y) * fade;
  vec2 beyond = max(-p, p - uMap);
  float away = max(beyond.x, beyond.y);
  if (isSection(p)) return ${SECTION.toFixed(2)};
  float rim = smoothstep(1.6, 1.3, away) * smoothstep(0.9, 1.2, away);
  return mottle * (1.0 + 0.5 * rim) * mix(0.82, 1.0, smoothstep(0.0, 14.0, away));
}
`;

function richApron({ uCut }: PlainUniforms, size: { value: THREE.Vector2 }): THREE.Material {
  const material = new THREE.MeshLambertMaterial({ color: SCENE.apron });
  material.onBeforeCompile = (shader) => {
    Object.assign(shader.uniforms, { uMap: size, uCut });
    shader.vertexShader = shader.vertexShader
      .replace("#include <common>", "#include <common>\nout vec3 vGround;")
      .replace(
        "#include <project_vertex>",
        "#include <project_vertex>\nvGround = (modelMatrix * vec4(transformed, 1.0)).xyz;",
      );
    shader.fragmentShader = shader.fragmentShader
      .replace("#include <common>", `#include <common>\nuniform vec2 uMap;\nin vec3 vGround;\n${APRON_PARS}`)
      .replace("#include <color_fragment>", "diffuseColor.rgb *= apron(vec2(vGround.x, -vGround.z));");
  };
  return material;
}

function plainApron(shared: PlainUniforms, size: { value: THREE.Vector2 }): THREE.Material {
  return new THREE.ShaderMaterial({
    glslVersion: THREE.GLSL3,
    uniforms: { ...shared, uMap: size, uColour: { value: new THREE.Color(SCENE.apron) } },
    vertexShader: /* glsl */ `
      uniform vec3 uColour;
      out vec2 vGround;
      out vec3 vLight;
      ${PLAIN_LIGHT}
      void main() {
        vec4 at = modelMatrix * vec4(position, 1.0);
        vGround = vec2(at.x, -at.z);
        vLight = uColour * (sunOn(vec3(0, 0, 1)) + skyOn(vec3(0, 0, 1))) * 2.0;
        gl_Position = projectionMatrix * viewMatrix * at;
      }`,
    fragmentShader: /* glsl */ `
      uniform vec2 uMap;
      in vec2 vGround;
      in vec3 vLight;
      out vec4 fragColour;
      ${PLAIN_FILM}
      ${IS_SECTION}
      void main() {
        vec2 beyond = max(-vGround, vGround - uMap);
        float away = max(beyond.x, beyond.y);
        // inside the map, visible only through gaps, it is as bright as the ground
        vec3 light = away < 0.0 ? vec3(0.36, 0.3, 0.22) * (isSection(vGround) ? ${SECTION.toFixed(2)} : 1.0) : vLight;
        float rim = clamp(2.4 - abs(away - 1.25) * 8.0, 0.0, 1.0);
        vec3 colour = 0.48 * light * ((1.0 + 0.5 * rim) * (0.82 + 0.18 * clamp(away / 14.0, 0.0, 1.0)));
        fragColour = vec4(haze(film(colour)), 1.0);
      }`,
  });
}

/** Avoids depth fighting with the map's ground when seen from high above. */
const BEHIND = { polygonOffset: true, polygonOffsetFactor: 1, polygonOffsetUnits: 64 };

export class Apron {
  readonly mesh: THREE.Mesh<THREE.PlaneGeometry, THREE.Material>;
  private readonly size = { value: new THREE.Vector2(100, 100) };
  private readonly rich: THREE.Material;
  private readonly plain: THREE.Material;

  constructor(shared: PlainUniforms) {
    this.rich = richApron(shared, this.size);
    this.plain = plainApron(shared, this.size);
    for (const material of [this.rich, this.plain]) Object.assign(material, BEHIND);
    this.mesh = new THREE.Mesh(new THREE.PlaneGeometry(1, 1).rotateX(-Math.PI / 2), this.rich);
    this.mesh.receiveShadow = true;
    this.mesh.frustumCulled = false;
    this.mesh.matrixAutoUpdate = false;
    this.mesh.renderOrder = 0.5; // mostly hidden by the map
  }

  /** Fit to a map with its centre at `centre`. */
  fit(size: readonly number[], centre: THREE.Vector3, span: number): void {
    this.size.value.set(size[0], size[1]);
    this.mesh.position.set(centre.x, -0.04, centre.z);
    this.mesh.scale.setScalar(span * 8);
    this.mesh.updateMatrix();
  }

  setPatterns(patterns: boolean): void {
    this.mesh.material = patterns ? this.rich : this.plain;
  }
}

const SKY_VERTEX = /* glsl */ `
out vec3 vWay;
void main() {
  vWay = position;
  vec4 far = projectionMatrix * vec4(mat3(viewMatrix) * position, 1.0);
  gl_Position = far.xyww;
}`;

const SKY_FRAGMENT = /* glsl */ `
uniform vec3 uTop, uLow, uToSun, uSunColour;
in vec3 vWay;
void main() {
  vec3 way = normalize(vWay);
  float up = clamp(way.y, 0.0, 1.0);
  vec3 sky = mix(uLow, uTop, pow(up, 0.55));
  float near = max(0.0, dot(way, uToSun));
  sky += uSunColour * (0.28 * pow(near, 6.0) + 0.5 * pow(near, 60.0));
  gl_FragColor = vec4(sky, 1.0);
  #include <tonemapping_fragment>
  #include <colorspace_fragment>
}`;

/** The sky dome: a gradient with a glow around the sun; drawn last, behind everything. */
export class Sky {
  readonly mesh: THREE.Mesh<THREE.SphereGeometry, THREE.Material>;

  constructor(sun: THREE.Vector3) {
    const material = new THREE.ShaderMaterial({
      side: THREE.BackSide,
      depthWrite: false,
      vertexShader: SKY_VERTEX,
      fragmentShader: SKY_FRAGMENT,
      uniforms: {
        uTop: { value: new THREE.Color(SCENE.skyTop) },
        uLow: { value: new THREE.Color(SCENE.skyLow) },
        uToSun: { value: sun },
        uSunColour: { value: new THREE.Color(SCENE.sun) },
      },
    });
    this.mesh = new THREE.Mesh(new THREE.SphereGeometry(1, 32, 16), material);
    this.mesh.frustumCulled = false;
    this.mesh.renderOrder = 0.8;
  }
}
