// Sharing: reels, words of pictures and links, exported pages, embedded workers.

import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { type Candidate, captionAt, chooseSpans } from "../src/data/reel";
import type { Moment } from "../src/protocol.gen";
import { compareHash, parseRoute, readableWords } from "../src/routes";
import { plaqueText } from "../src/render/overlay/plaque";
import { exportPage, toBase64 } from "../src/share/page_export";

interface Golden {
  name: string;
  seconds: number;
  length: number;
  moments: Candidate[];
  spans: [number, number][];
}
const golden = JSON.parse(readFileSync(new URL("../../tests/golden/reel.json", import.meta.url), "utf8")) as Golden[];

describe("chooseSpans", () => {
  test.each(golden)("returns what Python chooses: $name", ({ moments, seconds, length, spans }) => {
    const chosen = chooseSpans(moments, seconds, length);
    expect(chosen.length).toBe(spans.length);
    chosen.forEach((span, i) => span.forEach((value, j) => expect(value).toBeCloseTo(spans[i][j], 9)));
  });
});

test("captionAt returns the latest moment of a time", () => {
  const moments = [10, 12].map((second) => ({ second, caption: `m${second}` }) as Moment);
  expect([9, 9.8, 11.9, 14, 16].map((second) => captionAt(moments, second))).toEqual(["", "m10", "m12", "m12", ""]);
});

test("links have words that can be read, and name two matches", () => {
  const words = plaqueText({
    names: ["a b", "bot: hard"],
    score: ["5.4", "9.8"],
    clock: "0:34",
    caption: "",
    details: "",
  });
  expect(words).toBe("a b 5.4 : 9.8 bot: hard at 0:34");
  expect(readableWords(words)).toBe("a-b-5.4-9.8-bot-hard-at-0.34");
  expect(compareHash(["a1", "b2"], 3)).toBe("#a=a1&b=b2&t=3.0");
  expect(parseRoute("#a=a1&b=b2&t=3.0")).toMatchObject({ compare: ["a1", "b2"], seconds: 3, match: null });
  expect(parseRoute("#a=a1&b=<").compare).toBeUndefined();
  expect(parseRoute("#a=a1").compare).toBeUndefined();
});

describe("exportPage", () => {
  const files: Record<string, string> = {
    "index.html":
      '<head><title>Echelon</title><link rel="icon" href="./icon.svg" type="image/svg+xml" />' +
      '<script type="module" crossorigin src="./assets/index-1.js"></script>' +
      '<link rel="stylesheet" crossorigin href="./assets/index-1.css"></head><body></body>',
    "icon.svg": "<svg/>",
    "assets/index-1.js": 'const a = "</script><!-- $& é"; new URL("decode.worker-D2_x.js", b);',
    "assets/index-1.css": "@font-face { src: url(./f-1.woff2) }",
    "assets/f-1.woff2": "font",
    "assets/decode.worker-D2_x.js": "work('é')",
  };
  const bytes = (text: string) => new TextEncoder().encode(text);
  const read = async (path: string) => bytes(files[path]);
  const content = {
    replay: Uint8Array.of(0x89, 1, 2),
    name: 'a"b.ecr',
    title: "Blue & red",
    start: "#t=3",
    world: null,
  };

  test("embeds all assets, the replay and where it opens", async () => {
    const page = await exportPage(content, read);
    expect(page).not.toMatch(/(src|href)="\.\/|url\(\.\//);
    expect(page).toContain("<title>Blue &amp; red</title>");
    expect(page).toContain(`id="echelon-replay" data-name="a&quot;b.ecr" data-start="#t=3">iQEC</script>`);
    expect(page).toContain(`data:font/woff2;base64,${toBase64(bytes("font"))}`);
    expect(page).toContain(`{"decode.worker-D2_x.js":"${toBase64(bytes("work('é')"))}"}`);
    expect(page).toContain('const a = "<\\/script><\\!-- $& é"');
    expect(page).not.toContain("echelon-world");
    expect(await exportPage({ ...content, world: Uint8Array.of(1) }, read)).toContain('id="echelon-world">AQ==<');
  });

  test("reports files that are not as the build writes them", async () => {
    await expect(exportPage(content, async () => bytes("<html></html>"))).rejects.toThrow("no script");
  });
});
