// A page without a server: what its index carries, its files, and its matches in place of a server's.

import { gzipSync } from "fflate";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { GameApi, type GamePage, gameOf, gamePage } from "../src/data/game_page";
import { byRun } from "../src/data/matches";
import { requestUnpacked } from "../src/data/request";
import { parseRoute } from "../src/routes";
import { sideNames } from "../src/text";

const PAGE = {
  sim_version: 12,
  games: { "5v5": { module: "5v5-a.wasm.gz", description: "5v5-b.json.gz", maps: ["maps/5v5-0-c.map.gz"] } },
  policy: { name: "toString", checkpoint: "5v5", module: "p.wasm.gz", description: "p.json.gz", weights: "p.bin.gz" },
  matches: [{ id: "recorded-0", run: "recorded", file: "champion-against-easy.ecr", path: "easy-d.ecr" }],
  files: Object.fromEntries(
    ["5v5-a.wasm.gz", "5v5-b.json.gz", "maps/5v5-0-c.map.gz", "p.wasm.gz", "easy-d.ecr"].map((path) => [path, {}]),
  ),
};
const AT = "http://host/any/prefix/";

function holding(text: string | null): void {
  const held = text === null ? null : { textContent: text };
  vi.stubGlobal("document", { getElementById: () => held, baseURI: `${AT}index.html?quality=low` });
}

function answering(bytes: Uint8Array<ArrayBuffer>): void {
  vi.stubGlobal("fetch", async () => new Response(bytes));
}

/** The browser's store, which survives a page. */
class TestCache {
  readonly stored = new Map<string, Response>();
  put = async (name: string, response: Response) => void this.stored.set(name, response);
  keys = async () => [...this.stored.keys()];
  match = async (name: string) => this.stored.get(name)?.clone();
  delete = async (name: string) => this.stored.delete(name);
}

const HEADER = {
  ...{ created: 7, seed: 1, map_seed: 2, mechs: 10, update: 0, world: { size: [100, 100, 20] } },
  teams: [{ name: "easy and human", level: "heuristic:easy" }, { name: "champion", level: "" }],
};
const opened: { header: object }[] = [];
vi.mock("../src/data/source", () => ({
  FileSource: class {
    open = async () => ({ ...opened.shift(), index: { outcome: null, chunks: [[0, 40, 0]], moments: [] } });
    close(): void {}
  },
}));

let cache = new TestCache();
beforeEach(() => {
  cache = new TestCache();
  vi.stubGlobal("caches", { open: async () => cache });
});
afterEach(() => vi.unstubAllGlobals());

test("files of a page are addresses below its own, other texts stay", () => {
  holding(JSON.stringify(PAGE));
  const page = gamePage();
  expect(page?.games["5v5"]).toEqual({
    module: `${AT}5v5-a.wasm.gz`,
    description: `${AT}5v5-b.json.gz`,
    maps: [`${AT}maps/5v5-0-c.map.gz`],
  });
  expect(page?.policy).toMatchObject({ name: "toString", checkpoint: "5v5", module: `${AT}p.wasm.gz` });
  expect(page?.matches[0]).toMatchObject({ file: "champion-against-easy.ecr", path: `${AT}easy-d.ecr` });
});

test("a page of a server carries nothing", () => {
  holding(null);
  expect(gamePage()).toBeNull();
});

test("the game of a match has as many mechs, and is the first where there is none", () => {
  const page = { games: { "5v5": {}, "10v10": {} } } as unknown as GamePage;
  expect([20, 10, 8].map((mechs) => gameOf(page, { mechs }))).toEqual(["10v10", "5v5", "5v5"]);
});

test("compressed files are unpacked, also where the host has done it", async () => {
  const plain = new TextEncoder().encode("a map of a game");
  for (const sent of [gzipSync(plain), plain]) {
    answering(new Uint8Array(sent));
    expect(await requestUnpacked("x.gz")).toEqual(plain);
  }
});

function pageApi(): GameApi {
  holding(JSON.stringify(PAGE));
  return new GameApi(gamePage()!);
}

test("a match that was flown is listed and read after the page is loaded again, a watched one is not", async () => {
  opened.push({ header: HEADER }, { header: HEADER });
  const before = pageApi();
  const id = await before.add("page", new File([Uint8Array.of(9)], "flown.ecr"));
  await before.add("watched", new File([], "watched.ecr"), false);
  expect(parseRoute(`#match=${id}`).match).toBe(id);
  const after = pageApi();
  const asked = after.fileOf(id); // by the address, before the browser has answered
  expect(new Uint8Array(await asked.arrayBuffer())).toEqual(Uint8Array.of(9));
  expect([asked.name, asked.run]).toEqual(["flown.ecr", "page"]);
  const { matches } = await after.matches();
  expect(matches.map(({ file }) => file)).toEqual(["flown.ecr", "champion-against-easy.ecr"]);
  expect(sideNames(matches[0])).toEqual(["bot: easy and human", "champion"]); // as in the match itself
});

test("a branch names its parent, and stands below it", async () => {
  const parent = { file: "champion-against-easy.ecr", sha256: "", tick: 400, set: { B1: "human" } };
  opened.push({ header: { ...HEADER, parent } });
  const api = pageApi();
  const id = await api.add("page", new File([], "branch.ecr"));
  const { matches } = await api.matches();
  expect(byRun(matches).map(([run, group]) => [run, group.map((match) => match.id)])).toEqual([
    ["recorded", ["recorded-0", id]],
  ]);
  expect(matches[0].parent).toMatchObject({ tick: 400, set: { B1: "human" }, changes: [], still: [] });
});

test("matches of a page are listed, read and downloaded; one that it lacks is refused in words", async () => {
  holding(JSON.stringify(PAGE));
  answering(new Uint8Array([1, 2, 3]));
  const page = gamePage();
  if (!page) throw new Error("no page");
  const api = new GameApi(page);
  const { total, matches } = await api.matches();
  expect([total, matches[0].run, parseRoute(`#match=${matches[0].id}`).match]).toEqual([1, "recorded", "recorded-0"]);
  expect(api.served).toBe(false);
  expect(api.fileUrl("recorded-0")).toBe(`${AT}easy-d.ecr`);
  const file = api.fileOf("recorded-0");
  expect(file).toMatchObject({ name: "champion-against-easy.ecr", run: matches[0].run }); // a session finds it by both
  expect(new Uint8Array(await file.arrayBuffer())).toEqual(new Uint8Array([1, 2, 3]));
  await expect(api.fileOf("added-7").arrayBuffer()).rejects.toThrow("this page has no such match");
});
