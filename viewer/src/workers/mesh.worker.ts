// Meshes chunks of voxels off the main thread.

import { meshChunk } from "../render/mesher";
import { serve } from "./link";
import type { MeshCalls } from "./messages";

serve<MeshCalls>({
  mesh: ({ looks, tints, origin }) => {
    const mesh = meshChunk(looks, tints, origin);
    const arrays = [mesh.opaque.position, mesh.opaque.data, mesh.clear.position, mesh.clear.data];
    return [mesh, arrays.map((array) => array.buffer as ArrayBuffer)];
  },
});
