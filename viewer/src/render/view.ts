// One match on the stage: builds the scene when a match is opened, updates it to the state once per frame, and removes
// it again. The only path from the state to the GPU.

import { Vector3 } from "three";
import { cloudsAt, thinned } from "../data/clouds";
import { isShown } from "../data/fog_of_war";
import type { Contact } from "../data/cursor";
import { isPerceived, perceive } from "../data/perception";
import { sensorRanges } from "../data/sensor_ranges";
import { occluderHeights } from "../data/line_of_sight";
import { floorHeights, pathToZone, zoneDistances } from "../data/zone_distance";
import type { Chunk } from "../data/replay";
import { appearanceTable } from "../data/appearance";
import { VoxelField } from "../data/voxels";
import type { Cutaway } from "../framing";
import { MechFlag } from "../protocol.gen";
import { type MatchState, SMOKE, type ViewerState } from "../state";
import { WorkerLink } from "../workers/link";
import type { MeshCalls } from "../workers/messages";
import { CameraRig } from "./camera";
import { Clouds } from "./clouds";
import { Debris } from "./debris";
import { type EffectPools, Effects, WINDOW_S } from "./effects";
import { type MechDrawState, Mechs } from "./mechs";
import { Annotations } from "./overlay/annotations";
import type { Overlay } from "./overlay/canvas";
import { drawGhosts } from "./overlay/ghosts";
import { DamageNumbers } from "./overlay/damage_numbers";
import type { Heights } from "./overlay/lines";
import { SoftShadows } from "./soft_shadows";
import { Beams, Sprites } from "./quads";
import type { Tier } from "../quality";
import { Bubbles } from "./bubbles";
import { drawRounds } from "./rounds";
import { voxelPoint, worldPoint } from "../spaces";
import type { Stage } from "./stage";
import { type MeshWorkers, Terrain } from "./terrain";
import { GroundOverlay } from "./ground_overlay";
import { ZoneRing } from "./zone";

const CUT_AROUND = 5; // radius of the cutaway around the selected mech [vox]
const PICK_PIXELS = 34; // most distance of a click from a mech [CSS px]

export function meshWorkers(): MeshWorkers {
  const start = () =>
    new WorkerLink<MeshCalls>(new Worker(new URL("../workers/mesh.worker.ts", import.meta.url), { type: "module" }));
  return { mesher: start(), baker: start() };
}

export class MatchView {
  readonly rig: CameraRig;
  private readonly mechs: Mechs;
  private readonly shadows: SoftShadows;
  private readonly annotations: Annotations;
  private readonly zone: ZoneRing;
  private readonly pools: EffectPools;
  private readonly effects: Effects;
  private readonly clouds: Clouds;
  private readonly bubbles: Bubbles;
  private readonly drawState: MechDrawState;
  private readonly drawn: Float32Array; // opacity of each model: its visibility, 0 in first person
  private ground: GroundOverlay | null = null;
  private path: { from: string; cells: [number, number][] } = { from: "", cells: [] };
  private contacts: readonly Contact[] | null = null; // of the pilot of the first-person view, null in other views
  private edits = 0; // number of voxel changes
  private reducedMotion = false; // whether the user prefers reduced motion
  /** Last moment with a chunk: tick, chunk, number of chunks its effects are drawn from. */
  private at: readonly [number, Chunk | null, number] = [0, null, 0];
  private terrain: Terrain | null = null;
  private heights: Heights = { values: new Uint8Array(0), size: [0, 0, 0] }; // of the initial map
  private debris: Debris | null = null;
  private voxels: VoxelField | null = null;

  constructor(
    private readonly stage: Stage,
    private readonly overlay: Overlay,
    private readonly match: MatchState,
    private readonly workers: MeshWorkers,
    private tier: Tier,
  ) {
    const { header } = match;
    this.rig = new CameraRig(stage.camera);
    const changing = match.pilot ? header.roster.flatMap(({ chassis }, mech) => (chassis < 0 ? [mech] : [])) : [];
    this.mechs = new Mechs(header, stage.plain, new Set(changing));
    this.shadows = new SoftShadows(stage.plain, header, this.mechs);
    this.zone = new ZoneRing(header.zone);
    this.pools = { beams: new Beams(), sprites: new Sprites(), numbers: new DamageNumbers(header.mechs) };
    this.effects = new Effects(header, this.mechs, this.pools);
    this.annotations = new Annotations(overlay, match, this.mechs, this.pools.numbers);
    this.clouds = new Clouds(stage.plain);
    this.bubbles = new Bubbles(this.mechs);
    this.drawn = new Float32Array(header.mechs);
    this.drawState = {
      seconds: 0,
      deaths: new Float64Array(header.mechs),
      hits: this.effects.hits,
      selected: -1,
      shown: this.drawn,
    };
    stage.fit(header.world.size);
    stage.scene.add(...this.objects());
    this.setTier(tier);
    stage.compile();
  }

  setTier(tier: Tier): void {
    this.tier = tier;
    this.mechs.setPatterns(tier.patterns);
    this.clouds.setTier(tier);
    if (this.terrain && this.voxels) this.terrain.setPatterns(tier.patterns, this.voxels.appearances);
  }

  /**
   * Return what the picture depends on beside the camera: equal values mean an equal picture. While the chunk of a
   * moment is missing, the previous values are kept; a late earlier chunk adds its effects.
   */
  signature(state: ViewerState): readonly unknown[] {
    const { chunk } = this.match;
    if (chunk) this.at = [state.tick, chunk, this.recentChunks(chunk, state.tick).length];
    return [
      ...this.at,
      state.selected,
      state.showBars,
      state.camera.mode,
      this.terrain?.version,
      this.ground?.version,
      state.fog,
      state.layer,
      state.heatSide,
      state.showLinks,
      state.showCutaways,
      state.showPilot,
      this.match.observed.version,
      this.match.commanded?.chosen,
      this.match.commanded?.orders,
      this.match.ghosts?.reduce((sum, { store }) => sum + store.loaded().length + 1, 0),
    ];
  }

  private objects() {
    const { beams, sprites } = this.pools;
    return [
      ...this.mechs.meshes,
      this.zone.mesh,
      this.shadows.mesh,
      this.clouds.mesh,
      this.bubbles.mesh,
      beams.mesh,
      sprites.mesh,
    ];
  }

  /** Why the map cannot be drawn, "" if it can. */
  get problem(): string {
    return this.terrain?.problem ?? "";
  }

  get overlaySettled(): boolean {
    return this.ground?.settled ?? true;
  }

  get smoke(): number {
    return this.clouds.shown;
  }

  /** Return what terrain, mechs and effects of the moment wait for, in words. */
  missing(): string[] {
    const { terrain, match } = this;
    const found = [];
    if (!terrain) found.push("map");
    else if (!terrain.settled || terrain.meshed === 0) found.push("terrain");
    if (match.chunk === null) found.push(`chunk ${match.chunkNumber}`);
    else if (this.missingChunks) found.push("earlier chunk");
    return found;
  }

  /** Whether a pending chunk has effects that reach into the moment; failed ones are not awaited. */
  private get missingChunks(): boolean {
    const { chunk, chunkNumber, store } = this.match;
    if (!chunk) return true;
    const recent = this.recentChunks(chunk, this.match.poses.tick);
    return recent[0].tick0 > this.firstShownTick(this.match.poses.tick) && store.isPending(chunkNumber - recent.length);
  }

  /** Return the first tick whose events still show at a tick. */
  private firstShownTick(tick: number): number {
    return tick - WINDOW_S * this.match.header.tick_hz;
  }

  private buildTerrain(): void {
    const { scenery, header } = this.match;
    if (!scenery || this.terrain) return;
    const { size } = header.world;
    this.voxels = new VoxelField(scenery.appearances, size, appearanceTable(header.materials));
    this.terrain = new Terrain(this.workers, scenery, size, this.stage.plain);
    this.ground = new GroundOverlay(this.match, this.workers.baker);
    this.debris = new Debris(scenery.appearances, size, header.tick_hz);
    this.heights = { values: occluderHeights(this.voxels.appearances, size), size };
    this.terrain.meshAll(this.voxels.appearances);
    this.terrain.setPatterns(this.tier.patterns, this.voxels.appearances);
    this.stage.scene.add(...this.terrain.meshes, this.debris.mesh);
    for (const cut of [true, false]) {
      this.terrain.applyMaterials(cut);
      this.stage.compile();
    }
  }

  /** Advance the camera by `elapsed` seconds; returns whether it moved. */
  move(state: ViewerState, elapsed: number, reducedMotion: boolean): boolean {
    this.reducedMotion = reducedMotion;
    this.buildTerrain();
    const high = state.selected >= 0 ? this.mechs.height(state.selected) : 3;
    if (this.ground && this.voxels) this.ground.update(state, this.voxels.appearances, this.edits);
    return this.rig.update(state, elapsed, high, this.voxels?.appearances ?? null, reducedMotion);
  }

  prepare(state: ViewerState): void {
    if (this.match.chunk) this.editTerrain(this.match.chunk, state.tick);
  }

  draw(state: ViewerState, width: number, height: number): void {
    const { match } = this;
    const seconds = state.tick / match.header.tick_hz;
    if (this.terrain) {
      this.terrain.setView(seconds, this.stage.camera, this.cutaway(state));
      const ground = this.ground && GroundOverlay.isEnabled(state) ? this.ground.texture : null;
      this.terrain.setOverlay(ground, state.fog !== "none"); // walls out of sight are dark, but have no figures
    }
    const inside = state.camera.mode === "first" ? state.selected : -1;
    this.contacts = inside >= 0 && match.poses.alive[inside] > 0.5 ? perceive(match, state.tick, inside) : null;
    match.shown.forEach((share, mech) => (this.drawn[mech] = this.isInPicture(inside, mech) ? share : 0));
    this.stage.setClearDistance(voxelPoint(this.stage.camera.position, eye).distanceTo(this.rig.focus));
    if (match.chunk) this.drawMoment(state, match.chunk, seconds);
    this.stage.render();
    this.annotate(state, width, height);
  }

  /** Return whether a mech's model is drawn: neither that of the first-person view nor what its pilot does not see. */
  private isInPicture(inside: number, mech: number): boolean {
    if (inside < 0 || this.contacts === null) return mech !== inside;
    const living = (this.match.poses.flags[mech] & MechFlag.ALIVE) !== 0;
    return mech !== inside && (!living || isPerceived(this.match, this.contacts, inside, mech));
  }

  private annotate(state: ViewerState, width: number, height: number): void {
    const { chunk } = this.match;
    const { camera } = this.stage;
    this.overlay.begin(width, height, camera);
    if (!chunk) return;
    voxelPoint(camera.position, eye);
    this.annotations.draw(state, {
      chunk,
      camera,
      eye: [eye.x, eye.y, eye.z],
      drawn: this.drawn,
      hits: this.effects.hits,
      path: this.pathOf(state),
      heights: this.heights,
      voxels: this.voxels?.appearances ?? null,
      cutaway: this.cutaway(state),
      contacts: this.contacts,
    });
    if (this.match.ghosts) drawGhosts(this.overlay, this.match.ghosts, state.tick);
  }

  /** Return what is cut away: what hides the director's shot, or the selected mech seen from outside. */
  private cutaway({ camera, selected, showCutaways }: ViewerState): Cutaway | null {
    if (!showCutaways) return null;
    if (camera.mode === "director") return camera.cutaway ?? null;
    if (camera.mode === "first" || camera.mode === "top" || selected < 0 || this.drawn[selected] <= 0) return null;
    const { x, y, z } = this.match.poses;
    const foot = z[selected] - this.mechs.height(selected) / 2;
    return { centre: [x[selected], y[selected], foot], radius: CUT_AROUND + this.mechs.width(selected) / 2 };
  }

  private drawMoment(state: ViewerState, chunk: Chunk, seconds: number): void {
    const { match, drawState } = this;
    const { beams, sprites, numbers } = this.pools;
    this.editTerrain(chunk, state.tick);
    const recent = this.recentChunks(chunk, state.tick);
    for (const pool of [beams, sprites, numbers]) pool.clear();
    drawState.seconds = seconds;
    drawState.selected = state.selected;
    match.deaths.forEach((tick, mech) => (drawState.deaths[mech] = this.deadFor(mech, tick, state.tick)));
    this.effects.draw(recent, state.tick, match.shown, this.drawn);
    if (!state.showNumbers) numbers.clear();
    this.effects.drawWrecks(match.poses, drawState.deaths);
    drawRounds(recent, match.header, state.tick, match.shown, this.pools);
    this.mechs.update(match.poses, drawState, voxelPoint(this.stage.camera.position, eye));
    this.zone.update(chunk, state.tick, seconds);
    const emissions = sensorRanges(match, -1);
    this.bubbles.update(emissions, match.poses, this.drawn, this.reducedMotion ? 0 : seconds);
    this.debris?.update(recent, state.tick);
    const smoke = state.smoke === "off" ? [] : cloudsAt(chunk, match.header, state.tick);
    this.shadows.update(match.poses, this.drawn, smoke, this.voxels?.appearances ?? null, !this.tier.patterns);
    this.clouds.opacity = thinned(SMOKE[state.smoke], smoke.length);
    this.clouds.update(
      smoke,
      this.stage.camera.position,
      this.revealTarget(state),
      this.voxels?.appearances ?? null,
      match.header.world.size,
    );
    for (const pool of [beams, sprites]) pool.finish();
  }

  /** Return the centre of the selected mech in world space, null if it is not drawn. */
  private revealTarget({ selected }: ViewerState): Vector3 | null {
    if (selected < 0 || this.drawn[selected] <= 0) return null;
    const { x, y, z } = this.match.poses;
    return worldPoint(x[selected], y[selected], z[selected], spot);
  }

  /**
   * Return the time since a mech's death [s], negative if alive; without a marker yet, death is read from its flags.
   */
  private deadFor(mech: number, died: number, tick: number): number {
    if (died < Infinity) return (tick - died) / this.match.header.tick_hz;
    return this.match.poses.alive[mech] < 0.5 && this.match.header.roster[mech].present ? 2 : -1;
  }

  /** Return the selected mech's path to the zone, empty unless the overlay of paths is chosen. */
  private pathOf({ layer, selected }: ViewerState): readonly (readonly [number, number])[] {
    const { voxels, match } = this;
    if (!voxels || layer !== "ways" || selected < 0 || !isShown(match, selected)) return [];
    const { poses, header } = match;
    const { size } = header.world;
    const from = `${Math.floor(poses.x[selected])} ${Math.floor(poses.y[selected])} ${this.terrain?.version}`;
    if (from !== this.path.from) {
      const floors = floorHeights(voxels.appearances, size);
      const distances = zoneDistances(header.zone, floors, size);
      this.path = { from, cells: pathToZone(distances, floors, size, poses.x[selected], poses.y[selected]) };
    }
    return this.path.cells;
  }

  private editTerrain(chunk: Chunk, tick: number): void {
    const { terrain, voxels } = this;
    if (!terrain || !voxels) return;
    const changed = voxels.seek(chunk, tick);
    if (changed.size > 0) this.edits++;
    for (const number of changed) terrain.remesh(number, voxels.appearances);
    if (changed.size > 0) terrain.updateShadows(voxels.appearances);
  }

  /** Return the current chunk after earlier ones whose events still show. */
  private recentChunks(chunk: Chunk, tick: number): Chunk[] {
    const recent = [chunk];
    for (
      let number = this.match.chunkNumber - 1;
      number >= 0 && recent[0].tick0 > this.firstShownTick(tick);
      number--
    ) {
      const earlier = this.match.store.get(number);
      if (!earlier) break;
      recent.unshift(earlier);
    }
    return recent;
  }

  /** Return the visible mech nearest to a point of the canvas [CSS px], or -1. */
  pick(x: number, y: number, width: number, height: number, reach = PICK_PIXELS): number {
    const { header } = this.match;
    let [best, nearest] = [-1, reach];
    for (let mech = 0; mech < header.mechs; mech++) {
      if (!header.roster[mech].present || !isShown(this.match, mech)) continue;
      const at = this.spotOf(mech, width, height);
      const away = at ? Math.hypot(at.x - x, at.y - y) : Infinity;
      if (away < nearest) [best, nearest] = [mech, away];
    }
    return best;
  }

  /** Return where a mech is on the canvas [CSS px], null behind the camera. */
  spotOf(mech: number, width: number, height: number): { x: number; y: number } | null {
    const { x, y, z } = this.match.poses;
    worldPoint(x[mech], y[mech], z[mech], spot).project(this.stage.camera);
    return spot.z > 1 ? null : { x: ((spot.x + 1) / 2) * width, y: ((1 - spot.y) / 2) * height };
  }

  /** Return the floor at a point of the canvas [vox], null at the sky. */
  groundAt(x: number, y: number, width: number, height: number): [number, number] | null {
    const { camera } = this.stage;
    spot
      .set((2 * x) / width - 1, 1 - (2 * y) / height, 0.5)
      .unproject(camera)
      .sub(camera.position);
    const share = -camera.position.y / spot.y;
    return share > 0 ? [camera.position.x + spot.x * share, -(camera.position.z + spot.z * share)] : null;
  }

  dispose(): void {
    this.overlay.clear();
    this.stage.scene.remove(...this.objects());
    if (this.terrain) this.stage.scene.remove(...this.terrain.meshes);
    if (this.debris) this.stage.scene.remove(this.debris.mesh);
    const { beams, sprites } = this.pools;
    for (const part of [
      this.mechs,
      this.shadows,
      this.zone,
      this.clouds,
      this.bubbles,
      this.terrain,
      this.debris,
      this.ground,
      beams,
      sprites,
    ])
      part?.dispose();
  }
}

const spot = new Vector3();
const eye = new Vector3();
