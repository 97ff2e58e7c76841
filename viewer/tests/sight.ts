// How much the director shows of the ends of fights, without a browser: share of the living mechs that are in the
// picture with no wall before them, in the last seconds of each fight. Run by tests/bench/director_sight.py.

import { readFileSync } from "node:fs";
import { appearanceTable, prepareScenery } from "../src/data/appearance";
import { payload, scanFile } from "../src/data/container";
import { decodeChunk, decodeFileWorld, decodeHeader } from "../src/data/decode";
import { isHidden } from "../src/data/line_of_sight";
import { VoxelField } from "../src/data/voxels";
import { type Shot, type View, framingAt, shotAt } from "../src/director";
import { type Point, eyeOf, freeTangents, isFramed } from "../src/framing";
import { makePoses, samplePoses } from "../src/interpolate";
import { EventKind, type Marker, MechFlag } from "../src/protocol.gen";
import type { MatchState } from "../src/state";
import { openedState } from "./fixtures";

const LAST_S = 5; // time before the end of a fight [s]
const APART_S = 3; // time without damage that ends one [s]
const STEP_S = 0.5;
const VIEW: View = { showCutaways: true, window: [1280, 720], insets: { left: 242, right: 242, top: 86, bottom: 127 } };

/** Return a recorded match that embeds its world, open with all its chunks. */
export async function openFile(path: string): Promise<MatchState> {
  const bytes = new Uint8Array(readFileSync(path));
  const map = scanFile(bytes);
  const header = decodeHeader(payload(bytes, map.header));
  const chunks = map.chunks.map((head) => decodeChunk(header, head, payload(bytes, head)));
  const markers = chunks.flatMap(({ events }): Marker[] =>
    [...events.tick.keys()].flatMap((i) =>
      events.kind[i] === EventKind.KILL ? [[events.tick[i], events.kind[i], events.actor[i], events.target[i]]] : [],
    ),
  );
  const match = (await openedState({ header, chunks }, { markers })).match!;
  if (map.world) match.scenery = prepareScenery(decodeFileWorld(bytes, map.world, header.world.size), header.materials);
  return match;
}

/** Return the ends of the fights of a match [s]. */
function fightEnds({ header, store, index }: MatchState): number[] {
  const hits = index.chunks.flatMap((_, number) => {
    const { events } = store.get(number)!;
    return [...events.tick].filter((_, i) => events.kind[i] === EventKind.HIT && events.target[i] >= 0);
  });
  const seconds = hits.map((tick) => tick / header.tick_hz).sort((a, b) => a - b);
  return seconds.filter((second, i) => !(seconds[i + 1] - second < APART_S));
}

export interface Sight {
  living: number; // living mechs, summed over moments
  framed: number; // of these in the picture
  walls: number; // of these in the picture with no wall before them
  seen: number; // of these with the cutaway
  moments: number;
  found: number[]; // processor time of each shot that is found at once [ms]
  ahead: number[]; // that of each part of the search for the next one [ms]
}

export function sightOf(match: MatchState): Sight {
  const { header, index, store, scenery } = match;
  const { size } = header.world;
  const voxels = new VoxelField(scenery!.appearances, size, appearanceTable(header.materials));
  const tangents = freeTangents(VIEW.window, VIEW.insets);
  const sight: Sight = { living: 0, framed: 0, walls: 0, seen: 0, moments: 0, found: [], ahead: [] };
  let last: Shot | null = null;
  const ticks = new Set(
    fightEnds(match).flatMap((end) =>
      Array.from({ length: LAST_S / STEP_S }, (_, i) => Math.max(0, Math.round((end - i * STEP_S) * header.tick_hz))),
    ),
  );
  const poses = makePoses(header.mechs);
  for (const tick of [...ticks].sort((a, b) => a - b)) {
    const chunk = store.get(index.chunks.findIndex(([, last]) => tick <= last))!;
    const began = process.cpuUsage();
    const shot = shotAt(match, tick, VIEW);
    (shot === last ? sight.ahead : sight.found).push(process.cpuUsage(began).user / 1000);
    last = shot;
    if (!shot) continue;
    const framing = framingAt(shot, tick);
    const eye = eyeOf(framing);
    voxels.seek(chunk, tick);
    samplePoses(chunk, tick, header.tick_hz, poses);
    sight.moments++;
    for (let mech = 0; mech < header.mechs; mech++) {
      if (!header.roster[mech].present || !(poses.flags[mech] & MechFlag.ALIVE)) continue;
      sight.living++;
      const head: Point = [poses.x[mech], poses.y[mech], poses.z[mech] + 0.9];
      if (!isFramed(framing, tangents, head)) continue;
      sight.framed++;
      if (!isHidden(voxels.appearances, size, head, eye)) sight.walls++;
      if (!isHidden(voxels.appearances, size, head, eye, framing.cutaway)) sight.seen++;
    }
  }
  return sight;
}

/** Print the sight of each file as a JSON object a line. */
export async function main(files: readonly string[]): Promise<void> {
  for (const file of files) console.log(JSON.stringify({ file, ...sightOf(await openFile(file)) }));
}
