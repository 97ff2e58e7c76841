// Vite plugin that writes THIRD_PARTY_NOTICES.txt: the licences of all packages with a module or asset in the build,
// and of no others. A package without a licence text fails the build.
import { existsSync, readFileSync, readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Plugin } from "vite";

const HEADER =
  "The Echelon viewer contains the following third-party software.\n" +
  "Echelon's own licence is in the LICENSE file of the package.\n";
// fonts come from style sheets, which plugins do not see as modules
const FONTS = ["@fontsource-variable/inter", "@fontsource/chakra-petch"].map((name) =>
  join(dirname(fileURLToPath(import.meta.url)), "node_modules", name),
);
const RULE = "-".repeat(78);

interface Manifest {
  name: string;
  version: string;
  license?: string;
}

/** Return the folder of the package that holds a module, or null for our own modules. */
export function packageFolder(id: string): string | null {
  const match = /^(.*[\\/]node_modules[\\/](?:@[^\\/]+[\\/])?[^\\/]+)[\\/]/.exec(id.replace(/^\0/, "").split("?")[0]);
  return match ? match[1] : null;
}

/** Return one package's entry; throws when it has no licence text. */
function entry(folder: string): string {
  const manifest = JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as Manifest;
  const file = readdirSync(folder).find((name) => /^licen[cs]e/i.test(name));
  if (file === undefined) throw new Error(`package ${manifest.name} has no licence file in ${folder}`);
  const text = readFileSync(join(folder, file), "utf8").trim();
  return `${RULE}\n${manifest.name} ${manifest.version} (${manifest.license ?? "see below"})\n\n${text}\n`;
}

/** Return two plugins: one collects the packages of a bundle, workers included; the other writes their licences. */
export function thirdPartyNotices(): { collect: () => Plugin; write: () => Plugin } {
  const folders = new Set<string>();
  const collect = (): Plugin => ({
    name: "note-third-parties",
    enforce: "pre",
    apply: "build",
    load(id) {
      const folder = packageFolder(id);
      if (folder !== null && existsSync(join(folder, "package.json"))) folders.add(folder);
      return null;
    },
  });
  const write = (): Plugin => ({
    name: "write-third-party-notices",
    apply: "build",
    generateBundle() {
      const text = [...folders, ...FONTS].sort().map(entry).join("\n");
      this.emitFile({ type: "asset", fileName: "THIRD_PARTY_NOTICES.txt", source: `${HEADER}\n${text}` });
    },
  });
  return { collect, write };
}
