// Ground overlay: fog of war, heat maps of presence and damage, or distance to the zone. One small texture, a texel per
// column, blended in by all terrain materials.

import { DataTexture, LinearFilter, RGBAFormat } from "three";
import { distanceScale, paintHeat, paintZoneDistance } from "../data/heat";
import { occluderHeights } from "../data/line_of_sight";
import { observersOf } from "../data/fog_of_war";
import { floorHeights, zoneDistances } from "../data/zone_distance";
import { TEAMS } from "../palette";
import type { MatchState, ViewerState } from "../state";
import type { WorkerLink } from "../workers/link";
import type { MeshCalls } from "../workers/messages";

const DARK = [6, 10, 18, 172] as const; // colour of ground outside of sight
const MOST_EYES = 20; // most mechs whose sight is computed separately
const CROWDED = 3; // with more mechs, one per cube of this size is used [vox]
const EYE = 0.7; // eye height above a mech's centre [vox]

export class GroundOverlay {
  readonly texture: DataTexture;
  /** Increases with every visible change. */
  version = 0;
  private readonly pixels: Uint8Array<ArrayBuffer>;
  private shown: unknown[] = [];
  private heights: { terrain: number; of: Uint8Array } | null = null; // cached heights of the last terrain version
  private requests = 0; // number of the latest request
  private pending = 0; // requests without result

  constructor(
    private readonly match: MatchState,
    private readonly baker: WorkerLink<MeshCalls>,
  ) {
    const [x, y] = match.header.world.size;
    this.pixels = new Uint8Array(x * y * 4);
    this.texture = new DataTexture(this.pixels, x, y, RGBAFormat);
    this.texture.minFilter = this.texture.magFilter = LinearFilter;
  }

  /** Whether all requested results have arrived. */
  get settled(): boolean {
    return this.pending === 0;
  }

  static isEnabled(state: ViewerState): boolean {
    return state.fog !== "none" || state.layer !== "none";
  }

  /** Update the texture; `appearances` are the current voxels, `terrain` is the number of their changes. */
  update(state: ViewerState, appearances: Uint8Array, terrain: number): void {
    const { match } = this;
    const { chunk } = match;
    if (!GroundOverlay.isEnabled(state) || !chunk) return;
    const fog = state.fog !== "none";
    const frame = fog ? Math.floor(state.tick / match.header.frame_ticks) : 0;
    const heat = state.layer === "presence" || state.layer === "damage" ? match.scan.version : 0;
    const inputs = fog
      ? ["fog", state.fog, state.fog === "mech" ? state.selected : 0, frame, terrain]
      : [state.layer, heat, TEAMS[0].css, state.layer === "ways" ? terrain : state.heatSide];
    if (inputs.length === this.shown.length && inputs.every((part, i) => part === this.shown[i])) return;
    // one request at a time: a slow worker gets the latest moment when it is done
    if (fog && this.pending > 0) return;
    this.shown = inputs;
    if (fog) this.paintFog(state, appearances, terrain);
    else this.paintLayer(state, appearances);
  }

  private paintLayer({ layer, heatSide }: ViewerState, appearances: Uint8Array): void {
    const { header, scan } = this.match;
    if (layer === "ways") {
      const { size } = header.world;
      const cost = zoneDistances(header.zone, floorHeights(appearances, size), size);
      paintZoneDistance(cost, distanceScale(size, header.zone), this.pixels);
    } else paintHeat(layer === "presence" ? scan.presence : scan.damage, heatSide, this.pixels);
    this.markChanged();
  }

  private paintFog(state: ViewerState, appearances: Uint8Array, terrain: number): void {
    const { poses, header } = this.match;
    const mechs = observersOf(this.match, state.fog, state.selected);
    const apart = new Map<string, number>(); // mechs in the same cube share one line of sight
    const cube = mechs.length > MOST_EYES ? CROWDED : 1 / 64;
    for (const mech of mechs)
      apart.set([poses.x[mech], poses.y[mech], poses.z[mech]].map((at) => Math.round(at / cube)).join(), mech);
    const eyes = Float32Array.from(
      [...apart.values()].flatMap((mech) => [poses.x[mech], poses.y[mech], poses.z[mech] + EYE]),
    );
    if (this.heights?.terrain !== terrain)
      this.heights = { terrain, of: occluderHeights(appearances, header.world.size) };
    const request = ++this.requests;
    this.pending++;
    this.baker.request("visibility", { heights: this.heights.of, size: header.world.size, eyes }).then(
      (seen) => {
        this.pending--;
        if (request !== this.requests || this.shown[0] !== "fog") return;
        this.darken(seen);
      },
      () => this.pending--,
    );
  }

  private darken(seen: Uint8Array): void {
    const { pixels } = this;
    for (let i = 0; i < seen.length; i++) {
      for (let k = 0; k < 3; k++) pixels[4 * i + k] = DARK[k];
      pixels[4 * i + 3] = seen[i] ? 0 : DARK[3];
    }
    this.markChanged();
  }

  private markChanged(): void {
    this.texture.needsUpdate = true;
    this.version++;
  }

  dispose(): void {
    this.texture.dispose();
  }
}
