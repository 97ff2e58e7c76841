// Meshes chunks of voxels off the main thread, and bakes what the plain tiers draw with.

import { seenFrom } from "../data/sight";
import { hiddenHeights, paintLand } from "../render/land";
import { meshChunk } from "../render/mesher";
import { paintTiles } from "../render/tiles";
import { serve } from "./link";
import type { MeshCalls } from "./messages";

const given = (bytes: Uint8Array): [Uint8Array, Transferable[]] => [bytes, [bytes.buffer as ArrayBuffer]];

serve<MeshCalls>({
  mesh: ({ looks, tints, origin }) => {
    const mesh = meshChunk(looks, tints, origin);
    const arrays = [mesh.opaque.position, mesh.opaque.data, mesh.clear.position, mesh.clear.data];
    return [mesh, arrays.map((array) => array.buffer as ArrayBuffer)];
  },
  tiles: ({ step }) => given(paintTiles(step)),
  land: ({ soil, size }) => given(paintLand(soil, size)),
  sight: ({ heights, size, eyes }) => given(seenFrom(heights, size, eyes)),
  shade: ({ looks, size }) => given(hiddenHeights(looks, size)),
});
