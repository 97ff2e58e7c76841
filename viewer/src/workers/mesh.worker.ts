// Worker that meshes chunks of voxels and bakes ground, shadows and visibility.

import { visibleColumns } from "../data/line_of_sight";
import { shadowHeights, paintGround } from "../render/ground_texture";
import { meshChunk } from "../data/mesher";
import { serve } from "./link";
import type { MeshCalls } from "./messages";

const given = (bytes: Uint8Array): [Uint8Array, Transferable[]] => [bytes, [bytes.buffer as ArrayBuffer]];

serve<MeshCalls>({
  mesh: ({ appearances, tints, origin }) => {
    const mesh = meshChunk(appearances, tints, origin);
    const arrays = [mesh.opaque.position, mesh.opaque.data, mesh.clear.position, mesh.clear.data];
    return [mesh, arrays.map((array) => array.buffer as ArrayBuffer)];
  },
  ground: ({ soil, size }) => given(paintGround(soil, size)),
  visibility: ({ heights, size, eyes }) => given(visibleColumns(heights, size, eyes)),
  shadows: ({ appearances, size }) => given(shadowHeights(appearances, size)),
});
