// Vite plugins for a light page: three.js without the parts that the viewer never runs, and compressed twins of all
// text assets, which the server sends to browsers that accept them.
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import type { Plugin } from "vite";

const THREE = join(fileURLToPath(new URL(".", import.meta.url)), "node_modules", "three", "src");
const GLSL = /[\\/]three[\\/]src[\\/].*[\\/]Shader(?:Chunk|Lib)[\\/](\w+)\.glsl\.js$/;
const LITERAL = /(\/\* glsl \*\/)\s*`([^`]*)`/g;
/** Shaders of materials, lights and effects that the viewer does not use; what includes them is compiled out. */
const UNUSED_SHADERS = new RegExp(
  "^(?:mesh(?:physical|toon|matcap|normal)|points|sprite|linedashed|background|backgroundCube|cube|equirect" +
    "|distance|vsm" +
    "|(?:lights_physical|lights_toon|transmission|iridescence|clearcoat|cube_uv|envmap_physical|lightprobes)_\\w+" +
    "|(?:gradientmap|alphahash)_\\w+|(?:skin|morph)\\w+)$",
);
/** Modules that the viewer never runs, and what their importers need of them. */
const STUBS: readonly [RegExp, string][] = [
  [
    /[\\/]three[\\/]src[\\/]renderers[\\/]webxr[\\/]WebXRManager\.js$/,
    `export class WebXRManager {
      enabled = false;
      isPresenting = false;
      addEventListener() {}
      removeEventListener() {}
      setAnimationLoop() {}
      getEnvironmentBlendMode() {}
      dispose() {}
    }`,
  ],
  [/[\\/]three[\\/]src[\\/]extras[\\/]PMREMGenerator\.js$/, "export class PMREMGenerator {}"],
];
const STYLE_LINK = /\s*<link rel="stylesheet"[^>]*>/g;
const TEXT = /\.(?:js|css|html|svg|txt)$/;
const LEAST_BYTES = 512; // smaller files are sent as they are

/** Return a shader without comments, indentation and empty lines. */
export function minifyShader(source: string): string {
  return source
    .replace(/\/\*[\s\S]*?\*\/|\/\/[^\n]*/g, "")
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "")
    .join("\n");
}

/** Return a plugin that bundles three.js from its sources, without virtual reality and unused shaders. */
export function leanThree(): Plugin {
  return {
    name: "lean-three",
    enforce: "pre",
    apply: "build",
    resolveId: (id) => (id === "three" ? join(THREE, "Three.js") : null),
    load(id) {
      const stub = STUBS.find(([pattern]) => pattern.test(id));
      if (stub) return stub[1];
      const shader = GLSL.exec(id)?.[1];
      if (shader === undefined) return null;
      const unused = UNUSED_SHADERS.test(shader);
      return readFileSync(id, "utf8").replace(
        LITERAL,
        (_, sign: string, text: string) => `${sign} \`${unused ? "" : minifyShader(text)}\n\``,
      );
    },
  };
}

/**
 * Return a plugin that puts style sheets behind the skeleton of the page, so that the browser paints it without them,
 * and starts to load the typefaces with the page.
 */
export function paintEarly(): Plugin {
  return {
    name: "paint-early",
    apply: "build",
    transformIndexHtml: {
      order: "post",
      handler: (html, { bundle = {} }) => {
        const styles = html.match(STYLE_LINK) ?? [];
        const fonts = Object.keys(bundle)
          .filter((name) => name.endsWith(".woff2"))
          .map((name) => `<link rel="preload" as="font" type="font/woff2" href="./${name}" crossorigin>`);
        return html
          .replace(STYLE_LINK, "")
          .replace("</head>", () => `  ${fonts.join("\n    ")}\n  </head>`)
          .replace('<div id="app">', () => `${styles.join("").trim()}\n    <div id="app">`);
      },
    },
  };
}

/** Return a plugin that writes a .br and a .gz file beside every text asset of the build. */
export function precompress(): Plugin {
  return {
    name: "precompress",
    apply: "build",
    writeBundle({ dir = "" }) {
      for (const name of readdirSync(dir, { recursive: true, encoding: "utf8" })) {
        if (!TEXT.test(name)) continue;
        const bytes = readFileSync(join(dir, name));
        if (bytes.length < LEAST_BYTES) continue;
        const hint = { params: { [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length } };
        writeFileSync(join(dir, `${name}.br`), brotliCompressSync(bytes, hint));
        writeFileSync(join(dir, `${name}.gz`), gzipSync(bytes, { level: 9 }));
      }
    },
  };
}
