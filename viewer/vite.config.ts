// Builds the viewer into the Python package, so that `echelon serve` finds it beside its own code.
import { defineConfig } from "vitest/config";
import { thirdPartyNotices } from "./notices.ts";

const notices = thirdPartyNotices();

export default defineConfig({
  base: "./",
  plugins: [notices.collect(), notices.write()],
  build: {
    outDir: process.env.ECHELON_VIEWER_OUT ?? "../echelon/server/static",
    emptyOutDir: true,
    target: "es2022",
    sourcemap: false,
    // one chunk for three.js alone is over the default warning, and is what we want
    chunkSizeWarningLimit: 900,
  },
  test: { testTimeout: 60_000 }, // for what hangs; how fast a machine is proves nothing
  worker: { format: "es", plugins: () => [notices.collect()] },
  server: { proxy: { "/api": { target: process.env.ECHELON_SERVER ?? "http://127.0.0.1:8400", ws: true } } },
});
