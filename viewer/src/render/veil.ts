// What is laid over the ground: the dark of what a side cannot see, where mechs spent their time or were hurt, or how far
// the zone is. One small texture, a texel per column, that every material of the terrain mixes in.

import { DataTexture, LinearFilter, RGBAFormat } from "three";
import { heightsOf } from "../data/sight";
import { eyesOf } from "../data/knowledge";
import { floorsOf, waysTo } from "../data/ways";
import type { Layer, MatchState, ViewerState } from "../state";
import type { WorkerLink } from "../workers/link";
import type { MeshCalls } from "../workers/messages";

const DARK = [6, 10, 18, 172] as const; // of what is not seen
const HEAT = [[40, 60, 160, 0], [60, 150, 240, 165], [250, 205, 70, 200], [255, 70, 30, 225]] as const; // from nothing to most
const NEAR_ZONE = [110, 220, 150] as const; // of the ways, near the zone and far from it
const FAR_ZONE = [70, 90, 190] as const;
const BAND = 5; // every so many voxels of the way a line is drawn [vox]
const NO_WAY = [150, 40, 50, 120] as const;
const FEW = 20; // mechs that are all asked
const CROWDED = 3; // with more, one of those within this cube is asked [vox]
const EYE = 0.7; // a pilot's eyes are this much above the middle of its mech [vox]

/** Paint a share of 0 to 1 of the table of heat. */
function heatColour(share: number): [number, number, number, number] {
  const at = Math.min(HEAT.length - 1.001, Math.max(0, share) * (HEAT.length - 1));
  const [low, high, part] = [HEAT[Math.floor(at)], HEAT[Math.floor(at) + 1], at % 1];
  return [0, 1, 2, 3].map((k) => low[k] + (high[k] - low[k]) * part) as [number, number, number, number];
}

/** Colours of a grid of how much happened where, shape [y, x]; most of it is seen beside its peaks. */
export function paintHeat(grid: Float32Array, pixels: Uint8Array): void {
  const most = grid.reduce((a, b) => Math.max(a, b), 0) || 1;
  grid.forEach((value, i) => pixels.set(heatColour((value / most) ** 0.45), i * 4));
}

/** Colours of the lengths of ways: shades from far to near, with a line every few voxels. */
export function paintWays(cost: Float32Array, pixels: Uint8Array): void {
  const most = cost.reduce((a, b) => (b < Infinity ? Math.max(a, b) : a), 1);
  cost.forEach((far, i) => {
    if (!(far < Infinity)) return pixels.set(NO_WAY, i * 4);
    const line = Math.floor(far / BAND) % 2 === 0 ? 168 : 96;
    pixels.set([...NEAR_ZONE.map((near, k) => near + (FAR_ZONE[k] - near) * (far / most)), line], i * 4);
  });
}

/** The texture, and what it shows. */
export class Veil {
  readonly texture: DataTexture;
  /** Grows with every change that is to be seen. */
  version = 0;
  private readonly pixels: Uint8Array<ArrayBuffer>;
  private shown: unknown[] = [];
  private heights: { terrain: number; of: Uint8Array } | null = null; // of what hides, as the terrain last was
  private asked = 0;
  private waiting = 0;

  constructor(private readonly match: MatchState, private readonly baker: WorkerLink<MeshCalls>) {
    const [x, y] = match.header.world.size;
    this.pixels = new Uint8Array(x * y * 4);
    this.texture = new DataTexture(this.pixels, x, y, RGBAFormat);
    this.texture.minFilter = this.texture.magFilter = LinearFilter;
  }

  /** Whether nothing that was asked for is still to come. */
  get settled(): boolean {
    return this.waiting === 0;
  }

  /** Whether there is anything to lay over the ground. */
  static wanted(state: ViewerState): boolean {
    return state.fog !== "none" || state.layer !== "none";
  }

  /** Bring the texture to the state; `looks` are the voxels now, `terrain` the number of their changes. */
  update(state: ViewerState, looks: Uint8Array, terrain: number): void {
    const { match } = this;
    const { chunk } = match;
    if (!Veil.wanted(state) || !chunk) return;
    const fog = state.fog !== "none";
    const frame = fog ? Math.floor(state.tick / match.header.frame_ticks) : 0;
    const heat = state.layer === "presence" || state.layer === "damage" ? match.sweep.version : 0;
    const wish = fog ? ["fog", state.fog, state.fog === "mech" ? state.selected : 0, frame, terrain] : [state.layer, heat, state.layer === "ways" ? terrain : 0];
    if (wish.length === this.shown.length && wish.every((part, i) => part === this.shown[i])) return;
    // one question at a time: a worker that falls behind is asked for the newest moment when it is done
    if (fog && this.waiting > 0) return;
    this.shown = wish;
    if (fog) this.paintFog(state, looks, terrain);
    else this.paintLayer(state.layer, looks);
  }

  private paintLayer(layer: Layer, looks: Uint8Array): void {
    const { header, sweep } = this.match;
    if (layer === "ways") paintWays(waysTo(header.zone, floorsOf(looks, header.world.size), header.world.size), this.pixels);
    else paintHeat(layer === "presence" ? sweep.presence : sweep.damage, this.pixels);
    this.fresh();
  }

  private paintFog(state: ViewerState, looks: Uint8Array, terrain: number): void {
    const { poses, header } = this.match;
    const mechs = eyesOf(this.match, state.fog, state.selected);
    const apart = new Map<string, number>(); // those who stand together see the same
    const room = mechs.length > FEW ? CROWDED : 1 / 64;
    for (const mech of mechs) apart.set([poses.x[mech], poses.y[mech], poses.z[mech]].map((at) => Math.round(at / room)).join(), mech);
    const eyes = Float32Array.from([...apart.values()].flatMap((mech) => [poses.x[mech], poses.y[mech], poses.z[mech] + EYE]));
    if (this.heights?.terrain !== terrain) this.heights = { terrain, of: heightsOf(looks, header.world.size) };
    const request = ++this.asked;
    this.waiting++;
    this.baker.ask("sight", { heights: this.heights.of, size: header.world.size, eyes }).then((seen) => {
      this.waiting--;
      if (request !== this.asked || this.shown[0] !== "fog") return;
      this.darken(seen);
    }, () => this.waiting--);
  }

  private darken(seen: Uint8Array): void {
    const { pixels } = this;
    for (let i = 0; i < seen.length; i++) {
      for (let k = 0; k < 3; k++) pixels[4 * i + k] = DARK[k];
      pixels[4 * i + 3] = seen[i] ? 0 : DARK[3];
    }
    this.fresh();
  }

  private fresh(): void {
    this.texture.needsUpdate = true;
    this.version++;
  }

  dispose(): void {
    this.texture.dispose();
  }
}
