// Many copies of one shape in one draw call: added one by one for each picture, with four numbers per field.

import * as THREE from "three";

const FIRST_CAPACITY = 256; // instances; doubled as needed

/** Instances of a shape; `fields` are the attributes of the vertex shader, with up to four components each. */
export class Instances {
  readonly mesh: THREE.Mesh<THREE.InstancedBufferGeometry, THREE.ShaderMaterial>;
  private values: Float32Array[];
  private count = 0;
  private capacity = FIRST_CAPACITY;

  constructor(
    private readonly shape: THREE.BufferGeometry,
    private readonly fields: readonly string[],
    material: THREE.ShaderMaterial,
    order: number,
  ) {
    this.values = fields.map(() => new Float32Array(this.capacity * 4));
    this.mesh = new THREE.Mesh(this.geometry(), material);
    this.mesh.frustumCulled = false;
    this.mesh.visible = false;
    this.mesh.renderOrder = order;
  }

  private geometry(): THREE.InstancedBufferGeometry {
    const geometry = new THREE.InstancedBufferGeometry();
    geometry.setAttribute("position", this.shape.getAttribute("position"));
    geometry.setIndex(this.shape.getIndex());
    this.fields.forEach((field, i) =>
      geometry.setAttribute(
        field,
        new THREE.InstancedBufferAttribute(this.values[i], 4).setUsage(THREE.DynamicDrawUsage),
      ),
    );
    return geometry;
  }

  clear(): void {
    this.count = 0;
  }

  /** Add an instance: four numbers per field. */
  protected push(...numbers: number[]): void {
    if (this.count === this.capacity) this.grow();
    for (let f = 0; f < this.fields.length; f++) {
      for (let k = 0; k < 4; k++) this.values[f][this.count * 4 + k] = numbers[f * 4 + k];
    }
    this.count++;
  }

  private grow(): void {
    this.capacity *= 2;
    this.values = this.values.map((old) => {
      const larger = new Float32Array(this.capacity * 4);
      larger.set(old);
      return larger;
    });
    this.mesh.geometry.dispose();
    this.mesh.geometry = this.geometry();
  }

  /** Upload the added instances. */
  finish(): void {
    this.mesh.visible = this.count > 0;
    this.mesh.geometry.instanceCount = this.count;
    for (const field of this.fields) {
      const attribute = this.mesh.geometry.getAttribute(field) as THREE.InstancedBufferAttribute;
      attribute.clearUpdateRanges();
      attribute.addUpdateRange(0, this.count * 4);
      attribute.needsUpdate = true;
    }
  }

  dispose(): void {
    this.mesh.geometry.dispose();
    this.mesh.material.dispose();
  }
}
