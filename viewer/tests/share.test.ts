// Sharing: reels, words of pictures and links.

import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { type Candidate, REEL_S, chooseSpans } from "../src/data/reel";
import { readableWords } from "../src/routes";
import { ICONS } from "../src/hud/dom";
import { SharePanel } from "../src/share/panel";
import type { MatchState, ViewerState } from "../src/state";
import { pageParts } from "./fake_page";
import { plaqueText } from "../src/render/overlay/plaque";

interface Golden {
  name: string;
  seconds: number;
  length: number;
  moments: Candidate[];
  spans: [number, number][];
}
const golden = JSON.parse(readFileSync(new URL("../../tests/golden/reel.json", import.meta.url), "utf8")) as Golden[];

describe("chooseSpans", () => {
  test.each(golden)("returns the golden spans: $name", ({ moments, seconds, length, spans }) => {
    const chosen = chooseSpans(moments, seconds, length);
    expect(chosen.length).toBe(spans.length);
    chosen.forEach((span, i) => span.forEach((value, j) => expect(value).toBeCloseTo(spans[i][j], 9)));
  });
});

test("chooseSpans contains the best moments and the end, and fills the length", () => {
  const moments = Array.from({ length: 11 }, (_, i) => ({ from: 10 * i + 8, to: 10 * i + 11.5, rank: i + 1 }));
  const spans = chooseSpans(moments, 300);
  const covered = moments.map(({ from, to }) => spans.some(([a, b]) => a <= from && to <= b));
  expect(covered).toEqual(moments.map(({ rank }) => rank <= 4));
  expect(spans.at(-1)?.[1]).toBe(300);
  const length = spans.reduce((sum, [a, b]) => sum + b - a, 0);
  expect(length).toBeGreaterThan(REEL_S - 1);
  expect(length).toBeLessThanOrEqual(REEL_S);
  spans.forEach(([start, end], i) => expect(start < end && end < (spans[i + 1]?.[0] ?? Infinity)).toBe(true));
  expect(chooseSpans(moments, 12)).toEqual([[0, 12]]);
});

test("links have words that can be read", () => {
  const words = plaqueText({
    names: ["a b", "bot: hard"],
    score: ["5.4", "9.8"],
    clock: "0:34",
    caption: "",
    details: "",
  });
  expect(words).toBe("a b 5.4 : 9.8 bot: hard at 0:34");
  expect(readableWords(words)).toBe("a-b-5.4-9.8-bot-hard-at-0.34");
});

test("a failed verification has no check mark", async () => {
  const page = pageParts();
  page.install();
  const shown = async (verify: () => Promise<string>) => {
    const addresses = { file: () => "", moment: () => "", verify };
    const panel = new SharePanel({ match: {} as MatchState } as ViewerState, null as never, addresses);
    await (panel as unknown as { showVerdict(): Promise<void> }).showVerdict();
    const [row] = page.find(panel.root, "share-row").filter(({ textContent }) => textContent.startsWith("It"));
    return [row.textContent, row.children[0].children[0].attributes.d];
  };
  const refuse = () => Promise.reject(new Error("It differs"));
  expect([await shown(async () => "It is equal"), await shown(refuse)]).toEqual([
    ["It is equal", ICONS.verify],
    ["It differs", ICONS.close],
  ]);
  page.remove();
});
