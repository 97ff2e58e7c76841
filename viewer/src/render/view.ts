// One match on the stage: builds what is in the scene when a match is opened, shows the state's moment once per frame,
// and takes it all down again. The only way from the state to the GPU.

import { Raycaster, Vector2, Vector3 } from "three";
import { cloudsAt } from "../data/clouds";
import { isShown } from "../data/knowledge";
import { reachesOf } from "../data/sensing";
import { heightsOf } from "../data/sight";
import { floorsOf, wayFrom, waysTo } from "../data/ways";
import type { Chunk } from "../data/replay";
import { lookTable } from "../data/looks";
import { VoxelField } from "../data/voxels";
import type { MatchState, ViewerState } from "../state";
import { WorkerLink } from "../workers/link";
import type { MeshCalls } from "../workers/messages";
import { CameraRig } from "./camera";
import { Clouds } from "./clouds";
import { Debris } from "./debris";
import { type Brushes, Effects, WINDOW_S } from "./effects";
import { drawLinks, drawWay } from "./links";
import { Markers } from "./markers";
import { type MechMoment, Mechs } from "./mechs";
import { DamageNumbers } from "./numbers";
import { SoftShadows } from "./plain_mechs";
import { Beams, Sprites } from "./quads";
import type { Tier } from "./quality";
import { Reaches } from "./reaches";
import { drawRounds } from "./rounds";
import { voxelPoint, worldPoint } from "../spaces";
import type { Stage } from "./stage";
import { type MeshWorkers, Terrain } from "./terrain";
import { Veil } from "./veil";
import { ZoneRing } from "./zone";

const PICK_PIXELS = 34; // how near a click must be to a mech

/** Start the workers that mesh and bake. */
export function meshWorkers(): MeshWorkers {
  const start = () => new WorkerLink<MeshCalls>(new Worker(new URL("../workers/mesh.worker.ts", import.meta.url), { type: "module" }));
  return { mesher: start(), baker: start() };
}

/** What is in the scene for one match. */
export class MatchView {
  readonly rig: CameraRig;
  private readonly mechs: Mechs;
  private readonly shadows: SoftShadows;
  private readonly markers: Markers;
  private readonly zone: ZoneRing;
  private readonly brushes: Brushes;
  private readonly effects: Effects;
  private readonly clouds: Clouds;
  private readonly reaches: Reaches;
  private readonly moment: MechMoment;
  private readonly drawn: Float32Array; // how far each mech is drawn: as far as it is shown, but not the one looked out of
  private veil: Veil | null = null;
  private way: { from: string; cells: [number, number][] } = { from: "", cells: [] };
  private edits = 0; // how often voxels have changed
  private calm = false; // whether the user asked for less motion
  private at: readonly [number, Chunk | null, number] = [0, null, 0]; // newest moment whose chunk was there, and chunks its effects are drawn from
  private terrain: Terrain | null = null;
  private debris: Debris | null = null;
  private voxels: VoxelField | null = null;

  constructor(private readonly stage: Stage, private readonly match: MatchState, private readonly workers: MeshWorkers, private tier: Tier) {
    const { header } = match;
    this.rig = new CameraRig(stage.camera);
    this.mechs = new Mechs(header, stage.plain);
    this.shadows = new SoftShadows(stage.plain, header, this.mechs);
    this.markers = new Markers(header, this.mechs);
    this.zone = new ZoneRing(header.zone);
    this.brushes = { beams: new Beams(), sprites: new Sprites(), numbers: new DamageNumbers(header.mechs) };
    this.effects = new Effects(header, this.mechs, this.brushes);
    this.clouds = new Clouds(stage.plain);
    this.reaches = new Reaches(header.mechs, this.mechs);
    this.drawn = new Float32Array(header.mechs);
    this.moment = { seconds: 0, deaths: new Float64Array(header.mechs), hits: this.effects.hits, selected: -1, shown: this.drawn };
    stage.fit(header.world.size);
    stage.scene.add(...this.objects());
    this.use(tier);
    stage.warm();
  }

  /** Spend what a tier allows. */
  use(tier: Tier): void {
    this.tier = tier;
    this.mechs.use(tier.patterns);
    this.clouds.use(tier);
    if (this.terrain && this.voxels) this.terrain.use(tier.patterns, this.voxels.looks);
  }

  /** What the picture is drawn from beside the camera: the same again means the same picture. Where the chunk of the
   * moment is still on its way the one before stays, since a picture without it would only hold up the right one; a
   * chunk before it that comes late adds the effects that reach over from there. */
  signature(state: ViewerState): readonly unknown[] {
    const { chunk } = this.match;
    if (chunk) this.at = [state.tick, chunk, this.recentChunks(chunk, state.tick).length];
    return [...this.at, state.selected, state.showBars, state.camera.mode, this.terrain?.version, this.veil?.version, state.fog, state.layer, state.showLinks];
  }

  private objects() {
    const { beams, sprites, numbers } = this.brushes;
    return [...this.mechs.meshes, this.markers.signs, this.markers.plates, this.zone.mesh, this.shadows.mesh, this.clouds.mesh, this.reaches.mesh, beams.mesh, sprites.mesh, numbers.mesh];
  }

  /** Whether what lies over the ground is that of the moment. */
  get covered(): boolean {
    return this.veil?.settled ?? true;
  }

  /** Smoke clouds that were drawn. */
  get smoke(): number {
    return this.clouds.count;
  }

  /** Whether terrain, mechs and effects of the moment are on the screen. */
  get complete(): boolean {
    return this.terrain !== null && this.terrain.meshed > 0 && this.terrain.settled && this.match.chunk !== null && !this.lacking;
  }

  /** Whether a chunk is still to come whose effects reach over into the moment; one that cannot be had is not waited for. */
  private get lacking(): boolean {
    const { chunk, chunkNumber, store } = this.match;
    if (!chunk) return true;
    const recent = this.recentChunks(chunk, this.match.poses.tick);
    return recent[0].tick0 > this.since(this.match.poses.tick) && store.coming(chunkNumber - recent.length);
  }

  /** Tick from which on events still show at a tick. */
  private since(tick: number): number {
    return tick - WINDOW_S * this.match.header.tick_hz;
  }

  /** Build the terrain once the world has arrived. */
  private raise(): void {
    const { scenery, header } = this.match;
    if (!scenery || this.terrain) return;
    const { size } = header.world;
    this.voxels = new VoxelField(scenery.looks, size, lookTable(header.materials));
    this.terrain = new Terrain(this.workers, scenery, size, this.stage.plain);
    this.veil = new Veil(this.match, this.workers.baker);
    this.debris = new Debris(scenery.looks, size, header.tick_hz);
    this.reaches.drape(heightsOf(this.voxels.looks, size), size); // as the match begins: what falls later moves no ring
    this.terrain.meshAll(this.voxels.looks);
    this.terrain.use(this.tier.patterns, this.voxels.looks);
    this.stage.scene.add(...this.terrain.meshes, this.debris.mesh);
    this.stage.warm();
  }

  /** Move the camera for `elapsed` seconds; returns whether it moved. */
  move(state: ViewerState, elapsed: number, calm: boolean): boolean {
    this.calm = calm;
    this.raise();
    const high = state.selected >= 0 ? this.mechs.height(state.selected) : 3;
    if (this.veil && this.voxels) this.veil.update(state, this.voxels.looks, this.edits);
    return this.rig.update(state, elapsed, high, this.voxels?.looks ?? null, calm);
  }

  /** Bring the terrain to the moment, ahead of the first picture. */
  prepare(state: ViewerState): void {
    if (this.match.chunk) this.editTerrain(this.match.chunk, state.tick);
  }

  /** Draw the state's moment. */
  draw(state: ViewerState, width: number, height: number): void {
    const { match } = this;
    const seconds = state.tick / match.header.tick_hz;
    if (this.terrain) {
      this.terrain.look(seconds, this.stage.camera, this.rig.focus, state.camera.mode === "follow");
      this.terrain.cover(this.veil && Veil.wanted(state) ? this.veil.texture : null);
    }
    const inside = state.camera.mode === "first" ? state.selected : -1;
    match.shown.forEach((share, mech) => (this.drawn[mech] = mech === inside ? 0 : share));
    this.stage.clear(voxelPoint(this.stage.camera.position, eye).distanceTo(this.rig.focus));
    if (match.chunk) this.drawMoment(state, match.chunk, seconds, width, height);
    this.markers.plates.visible = state.showBars;
    this.markers.update(match.poses, this.drawn, state.selected, width, height, this.stage.camera);
    this.stage.render();
  }

  private drawMoment(state: ViewerState, chunk: Chunk, seconds: number, width: number, height: number): void {
    const { match, moment } = this;
    const { beams, sprites, numbers } = this.brushes;
    this.editTerrain(chunk, state.tick);
    const recent = this.recentChunks(chunk, state.tick);
    for (const pool of [beams, sprites, numbers]) pool.clear();
    moment.seconds = seconds;
    moment.selected = state.selected;
    match.deaths.forEach((tick, mech) => (moment.deaths[mech] = this.deadFor(mech, tick, state.tick)));
    this.effects.draw(recent, state.tick, match.shown, this.drawn);
    this.effects.drawWrecks(match.poses, moment.deaths);
    drawRounds(recent, match.header, state.tick, match.shown, this.brushes);
    if (state.showLinks) drawLinks(match, chunk, state.tick, state.selected, state.camera.mode === "first", beams);
    if (state.layer === "ways" && state.selected >= 0 && isShown(match, state.selected)) this.drawWay(state.selected);
    this.mechs.update(match.poses, moment, voxelPoint(this.stage.camera.position, eye));
    this.zone.update(chunk, state.tick, seconds);
    this.reaches.update(reachesOf(match, state.selected), match.poses, this.drawn, state.showLinks, this.calm ? 0 : seconds);
    this.debris?.update(recent, state.tick);
    const smoke = cloudsAt(chunk, match.header, state.tick);
    this.shadows.update(match.poses, this.drawn, smoke, this.voxels?.looks ?? null, !this.tier.patterns);
    this.clouds.update(smoke, this.stage.camera.position, this.sought(state), this.voxels?.looks ?? null, match.header.world.size);
    for (const pool of [beams, sprites]) pool.finish();
    numbers.finish(this.stage.camera, width, height);
  }

  /** Middle of the selected mech in world space, null where there is none to be seen. */
  private sought({ selected }: ViewerState): Vector3 | null {
    if (selected < 0 || this.drawn[selected] <= 0) return null;
    const { x, y, z } = this.match.poses;
    return worldPoint(x[selected], y[selected], z[selected], spot);
  }

  /** Time since a mech's death [s], negative while it lives; a death that no marker tells of yet is read off its flags. */
  private deadFor(mech: number, died: number, tick: number): number {
    if (died < Infinity) return (tick - died) / this.match.header.tick_hz;
    return this.match.poses.alive[mech] < 0.5 && this.match.header.roster[mech].present ? 2 : -1;
  }

  /** Draw how the selected mech would walk to the zone. */
  private drawWay(mech: number): void {
    const { voxels, match } = this;
    if (!voxels) return;
    const { poses, header } = match;
    const { size } = header.world;
    const heights = floorsOf(voxels.looks, size);
    const from = `${Math.floor(poses.x[mech])} ${Math.floor(poses.y[mech])} ${this.terrain?.version}`;
    if (from !== this.way.from) this.way = { from, cells: wayFrom(waysTo(header.zone, heights, size), heights, size, poses.x[mech], poses.y[mech]) };
    drawWay(this.way.cells, (x, y) => heights[Math.floor(x) + Math.floor(y) * size[0]], this.brushes.beams);
  }

  private editTerrain(chunk: Chunk, tick: number): void {
    const { terrain, voxels } = this;
    if (!terrain || !voxels) return;
    const changed = voxels.seek(chunk, tick);
    if (changed.size > 0) this.edits++;
    for (const number of changed) terrain.remesh(number, voxels.looks);
    if (changed.size > 0) terrain.shade(voxels.looks);
  }

  /** The chunk of the moment, and those before it whose events still show. */
  private recentChunks(chunk: Chunk, tick: number): Chunk[] {
    const recent = [chunk];
    for (let number = this.match.chunkNumber - 1; number >= 0 && recent[0].tick0 > this.since(tick); number--) {
      const earlier = this.match.store.get(number);
      if (!earlier) break;
      recent.unshift(earlier);
    }
    return recent;
  }

  /** The mech nearest to a point of the canvas, in CSS pixels, of those that are shown, or -1. */
  pick(x: number, y: number, width: number, height: number): number {
    const { poses, header } = this.match;
    let [best, nearest] = [-1, PICK_PIXELS];
    for (let mech = 0; mech < header.mechs; mech++) {
      if (!header.roster[mech].present || !isShown(this.match, mech)) continue;
      spot.set(poses.x[mech], poses.z[mech], -poses.y[mech]).project(this.stage.camera);
      if (spot.z > 1) continue;
      const away = Math.hypot(((spot.x + 1) / 2) * width - x, ((1 - spot.y) / 2) * height - y);
      if (away < nearest) [best, nearest] = [mech, away];
    }
    return best;
  }

  /** Where on the ground a point of the canvas lies, in voxel space, or null above the horizon. */
  ground(x: number, y: number, width: number, height: number): [number, number] | null {
    ray.setFromCamera(pointer.set((x / width) * 2 - 1, 1 - (y / height) * 2), this.stage.camera);
    const { origin, direction } = ray.ray;
    if (direction.y > -0.02) return null;
    const far = -origin.y / direction.y;
    return [origin.x + direction.x * far, -(origin.z + direction.z * far)];
  }

  dispose(): void {
    this.stage.scene.remove(...this.objects());
    if (this.terrain) this.stage.scene.remove(...this.terrain.meshes);
    if (this.debris) this.stage.scene.remove(this.debris.mesh);
    const { beams, sprites, numbers } = this.brushes;
    for (const part of [this.mechs, this.shadows, this.markers, this.zone, this.clouds, this.reaches, this.terrain, this.debris, this.veil, beams, sprites, numbers]) part?.dispose();
  }
}

const spot = new Vector3();
const ray = new Raycaster();
const pointer = new Vector2();
const eye = new Vector3();
