// Builds mech models from chamfered slabs, limbs and tubes, flat-shaded, one geometry per class. Each vertex carries
// the bone that moves it and its joints, so that one instanced draw call animates a whole class. Mech space: feet at
// the origin, x forward, y up, z right, lengths in voxels.

import { BufferAttribute, BufferGeometry, Color, Euler, Matrix4, Vector3 } from "three";

export type Point = readonly [number, number, number];

export enum Bone {
  BODY = 0, // sways with the gait
  THIGH = 1, // rotates about the hip
  SHIN = 2, // rotates about the knee, then with the thigh
  DISH = 3, // rotates about the vertical axis through `hip`
}

export enum Glow {
  NONE = 0,
  EYE = 1, // cockpit and sensors: dark when shut down or dead
  VENT = 2, // glows as the mech heats up
  LAMP = 3, // small light in the team's colour
}

/** Colour and animation of the next parts. */
export interface Paint {
  colour: number; // sRGB
  team: number; // share of the team's colour, 0 to 1
  glow: Glow;
  bone: Bone;
  side: number; // -1 left leg, 1 right leg, 0 neither
  flex: number; // angle by which a lifted knee bends [rad]; positive bends the foot forward
  hip: Point;
  knee: Point;
}

export interface SlabOptions {
  chamfer?: number; // width cut off its edges [vox]
  top?: readonly [number, number]; // size of the top relative to the bottom along x and z
  shift?: number; // how far the top is moved forward [vox]
  turn?: Point; // rotation about its centre, x then y then z [rad]
}

const BODY: Paint = {
  colour: 0x59606a,
  team: 0,
  glow: Glow.NONE,
  bone: Bone.BODY,
  side: 0,
  flex: 0,
  hip: [0, 0, 0],
  knee: [0, 0, 0],
};

export class MechKit {
  private position: number[] = [];
  private normal: number[] = [];
  private colour: number[] = [];
  private part: number[] = [];
  private joint: number[] = [];
  private knee: number[] = [];
  private index: number[] = [];
  private paint: Paint = BODY;

  /** `fine` chamfers edges and rounds tubes; without it there are a fifth of the triangles. */
  constructor(private readonly fine: boolean) {}

  setPaint(paint: Partial<Paint>): this {
    this.paint = { ...BODY, ...paint };
    return this;
  }

  changePaint(paint: Partial<Paint>): this {
    this.paint = { ...this.paint, ...paint };
    return this;
  }

  /** Add a flat convex face, corners counter-clockwise seen from outside. */
  private face(corners: readonly Vector3[]): void {
    const [a, b, c] = corners;
    const last = corners[corners.length - 1];
    edge.subVectors(c, a);
    // in a face that degenerates to a triangle two corners coincide
    const normal = edge.lengthSq() > 1e-10 ? new Vector3().subVectors(b, a).cross(edge) : new Vector3();
    if (normal.lengthSq() < 1e-12) normal.subVectors(c, a).cross(new Vector3().subVectors(last, a));
    if (normal.lengthSq() < 1e-12) return;
    normal.normalize();
    const first = this.position.length / 3;
    const colour = tone.setHex(this.paint.colour);
    for (const p of corners) {
      this.position.push(p.x, p.y, p.z);
      this.normal.push(normal.x, normal.y, normal.z);
      this.colour.push(colour.r, colour.g, colour.b, this.paint.team);
      this.part.push(this.paint.bone, this.paint.side, this.paint.glow, this.paint.flex);
      this.joint.push(...this.paint.hip);
      this.knee.push(...this.paint.knee);
    }
    for (let i = 1; i + 1 < corners.length; i++) this.index.push(first, first + i, first + i + 1);
  }

  /** Connect rings of points from the lowest up, and close both ends. */
  private loft(rings: readonly Vector3[][]): void {
    const count = rings[0].length;
    for (let r = 0; r + 1 < rings.length; r++) {
      const [low, high] = [rings[r], rings[r + 1]];
      for (let i = 0; i < count; i++) {
        const j = (i + 1) % count;
        this.face([low[i], high[i], high[j], low[j]]);
      }
    }
    this.face(rings[0]);
    this.face([...rings[rings.length - 1]].reverse());
  }

  /** Add a slab centred at `at`, with chamfered edges; its top may be narrower and shifted. */
  slab(at: Point, size: Point, options: SlabOptions = {}): this {
    const { chamfer = 0.12 * Math.min(...size), top = [1, 1], shift = 0, turn = [0, 0, 0] } = options;
    const placed = new Matrix4().makeRotationFromEuler(new Euler(...turn)).setPosition(...at);
    if (!this.fine) return this.block(size, top, shift, placed);
    const ring = (y: number, inset: number, sx: number, sz: number, move: number): Vector3[] => {
      const [hx, hz] = [Math.max(0.01, (size[0] / 2) * sx - inset), Math.max(0.01, (size[2] / 2) * sz - inset)];
      const c = Math.min(chamfer, hx * 0.9, hz * 0.9);
      const outline = [
        [hx - c, -hz],
        [hx, -hz + c],
        [hx, hz - c],
        [hx - c, hz],
        [-hx + c, hz],
        [-hx, hz - c],
        [-hx, -hz + c],
        [-hx + c, -hz],
      ];
      return outline.map(([x, z]) => new Vector3(x + move, y, z).applyMatrix4(placed));
    };
    const half = size[1] / 2;
    const bevel = Math.min(chamfer, half * 0.5);
    const share = bevel / size[1];
    this.loft([
      ring(-half, bevel * 0.8, 1, 1, 0),
      ring(-half + bevel, 0, 1 + (top[0] - 1) * share, 1 + (top[1] - 1) * share, shift * share),
      ring(half - bevel, 0, top[0] + (1 - top[0]) * share, top[1] + (1 - top[1]) * share, shift * (1 - share)),
      ring(half, bevel * 0.8, top[0], top[1], shift),
    ]);
    return this;
  }

  private block(size: readonly number[], top: readonly [number, number], shift: number, placed: Matrix4): this {
    const ring = (y: number, sx: number, sz: number, move: number) =>
      [
        [1, -1],
        [1, 1],
        [-1, 1],
        [-1, -1],
      ].map(([x, z]) => new Vector3((x * size[0] * sx) / 2 + move, y, (z * size[2] * sz) / 2).applyMatrix4(placed));
    this.loft([ring(-size[1] / 2, 1, 1, 0), ring(size[1] / 2, top[0], top[1], shift)]);
    return this;
  }

  slabs(at: Point, size: Point, options: SlabOptions = {}): this {
    const turn = options.turn ?? [0, 0, 0];
    this.slab(at, size, options);
    return this.slab(mirrored(at), size, { ...options, turn: [-turn[0], -turn[1], turn[2]] });
  }

  tube(from: Point, to: Point, radius: number, endRadius = radius, segments = this.fine ? 8 : 4): this {
    const [a, b] = [new Vector3(...from), new Vector3(...to)];
    const axis = new Vector3().subVectors(b, a).normalize();
    const side = Math.abs(axis.y) < 0.9 ? new Vector3(0, 1, 0) : new Vector3(1, 0, 0);
    const u = new Vector3().crossVectors(axis, side).normalize();
    const v = new Vector3().crossVectors(axis, u);
    const ring = (at: Vector3, r: number): Vector3[] =>
      Array.from({ length: segments }, (_, i) => {
        const angle = (-2 * Math.PI * i) / segments;
        return at
          .clone()
          .addScaledVector(u, r * Math.cos(angle))
          .addScaledVector(v, r * Math.sin(angle));
      });
    this.loft([ring(a, radius), ring(b, endRadius)]);
    return this;
  }

  /** Add a tube and its mirror image on the other side. */
  tubes(from: Point, to: Point, radius: number, endRadius = radius): this {
    return this.tube(from, to, radius, endRadius).tube(mirrored(from), mirrored(to), radius, endRadius);
  }

  /** Add a limb between two joints in the plane of a leg: a slab along the line, `thick` front to back. */
  limb(from: Point, to: Point, thick: number, wide: number, taper = 1): this {
    const [dx, dy] = [to[0] - from[0], to[1] - from[1]];
    const length = Math.hypot(dx, dy) + thick * 0.35;
    const at = [(from[0] + to[0]) / 2, (from[1] + to[1]) / 2, (from[2] + to[2]) / 2] as const;
    return this.slab(at, [thick * taper, length, wide * taper], {
      turn: [0, 0, Math.atan2(-dx, dy) + Math.PI],
      top: [1 / taper, 1 / taper],
    });
  }

  build(): BufferGeometry {
    const geometry = new BufferGeometry();
    const add = (name: string, values: number[], size: number) =>
      geometry.setAttribute(name, new BufferAttribute(new Float32Array(values), size));
    add("position", this.position, 3);
    add("normal", this.normal, 3);
    add("paint", this.colour, 4);
    add("part", this.part, 4);
    add("hip", this.joint, 3);
    add("knee", this.knee, 3);
    geometry.setIndex(this.index);
    return geometry;
  }
}

const mirrored = ([x, y, z]: Point): Point => [x, y, -z];

const edge = new Vector3();
const tone = new Color();
