// The layers of the viewer: a file imports lower layers, and within its own nothing that leads back to it.

import { readFileSync, readdirSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

const SRC = fileURLToPath(new URL("../src", import.meta.url));

/** Files and folders by layer, lowest first; folders of a layer do not import each other. */
const LAYERS: readonly (readonly string[])[] = [
  // types
  ["protocol.gen.ts", "palette.ts", "spaces.ts", "timeline.ts", "framing.ts", "quality.ts", "storage.ts", "keys.ts"],
  ["data/", "interpolate.ts", "client.ts", "workers/link.ts", "workers/messages.ts"],
  ["state.ts", "routes.ts", "text.ts", "score_text.ts", "caption.ts"],
  ["control.ts", "director.ts", "input.ts", "settings.ts", "spoilers.ts", "game/"],
  ["render/", "hud/", "sound/"],
  ["screen.ts", "session.ts"],
  ["share/", "play/"],
  ["app.ts"],
  ["main.ts", "workers/decode.worker.ts", "workers/film.worker.ts", "workers/mesh.worker.ts"],
];
const IMPORT = /^(?:import|export)\b[^;]*?\bfrom\s+"(\.[^"]+)";/gm;

const files = readdirSync(SRC, { recursive: true, encoding: "utf8" })
  .map((file) => file.replaceAll("\\", "/"))
  .filter((file) => file.endsWith(".ts") && !file.endsWith(".d.ts"));
const imports = new Map(
  files.map((file) => {
    const paths = [...readFileSync(join(SRC, file), "utf8").matchAll(IMPORT)].map(([, path]) => path);
    const named = paths.map((path) => relative(SRC, join(SRC, dirname(file), `${path}.ts`)).replaceAll("\\", "/"));
    return [file, named.filter((path) => files.includes(path))];
  }),
);
const placeOf = (file: string) =>
  file.includes("/") && !file.startsWith("workers/") ? `${file.split("/")[0]}/` : file;
const layerOf = (file: string) => LAYERS.findIndex((places) => places.includes(placeOf(file)));

test("every file has a layer", () => {
  expect(files.filter((file) => layerOf(file) < 0)).toEqual([]);
});

test("imports point down, and not to another folder of the layer", () => {
  const besideOrUp = (from: string, to: string) => {
    const [here, there] = [placeOf(from), placeOf(to)];
    const beside = here !== there && here.endsWith("/") && there.endsWith("/");
    return layerOf(to) > layerOf(from) || (layerOf(to) === layerOf(from) && beside);
  };
  const wrong = files.flatMap((from) =>
    (imports.get(from) ?? []).filter((to) => besideOrUp(from, to)).map((to) => `${from} imports ${to}`),
  );
  expect(wrong).toEqual([]);
});

test("imports have no circle", () => {
  const left = new Map(imports);
  let before: number;
  do {
    before = left.size;
    for (const [file, others] of left) if (!others.some((other) => left.has(other))) left.delete(file);
  } while (left.size < before);
  expect([...left.keys()]).toEqual([]); // files of circles, and those that import them
});
