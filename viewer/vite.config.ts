// Builds the viewer into the Python package, where `echelon serve` finds it.
import { defineConfig } from "vitest/config";
import { leanThree, paintEarly, precompress } from "./lean.ts";
import { thirdPartyNotices } from "./notices.ts";

const notices = thirdPartyNotices();

export default defineConfig({
  base: "./",
  plugins: [notices.collect(), leanThree(), notices.write(), paintEarly(), precompress()],
  build: {
    outDir: process.env.ECHELON_VIEWER_OUT ?? "../echelon/server/static",
    emptyOutDir: true,
    target: "es2022",
    sourcemap: false,
    // three.js alone exceeds the default warning limit
    chunkSizeWarningLimit: 900,
  },
  // no test changes a module's state, so that all of them share its instance; the time is only for tests that hang
  test: { isolate: false, pool: "threads", testTimeout: 60_000 },
  worker: { format: "es", plugins: () => [notices.collect()] },
  server: { proxy: { "/api": { target: process.env.ECHELON_SERVER ?? "http://127.0.0.1:8400", ws: true } } },
});
