// The page of the game, which needs no server: what echelon/web/folder.py writes into its index, and its matches.

import { Api, type NamedFile } from "../client";
import type { Header, MatchSummary } from "../protocol.gen";
import { topMoment } from "./moments";
import { ApiError, requestBytes } from "./request";
import { FileSource } from "./source";

const HOLDER = "echelon-game";
const NOT_FOUND = 404;

/** What the page carries; files are addresses. */
export interface GamePage {
  sim_version: number;
  games: Record<string, { module: string; description: string; maps: string[] }>;
  policy: { name: string; checkpoint: string; module: string; description: string; weights: string };
  matches: (MatchSummary & { path: string })[];
}

/** Return what the page carries, null for a page of a server. */
export function gamePage(): GamePage | null {
  const text = document.getElementById(HOLDER)?.textContent;
  if (!text) return null;
  const { files } = JSON.parse(text) as { files: object };
  const isFile = (value: unknown) => typeof value === "string" && Object.hasOwn(files, value);
  return JSON.parse(text, (_, value) => (isFile(value) ? new URL(value, document.baseURI).href : value)) as GamePage;
}

/** Return the game of the page in which as many mechs fight as in a match, else its first. */
export function gameOf({ games }: GamePage, { mechs }: Pick<Header, "mechs">): string {
  const names = Object.keys(games);
  return names.find((name) => 2 * parseInt(name) === mechs) ?? names[0];
}

/** The matches of the page in place of a server's: those that it carries, and those that were added. */
export class GameApi extends Api {
  override readonly served = false;
  private readonly rows: { summary: MatchSummary; file: NamedFile; url: string }[];

  constructor({ matches }: GamePage) {
    super();
    this.rows = matches.map(({ path, ...summary }) => {
      const arrayBuffer = async () => (await requestBytes(path)).buffer;
      return { summary, file: { name: summary.file, run: summary.run, arrayBuffer }, url: path };
    });
  }

  override async add(run: string, file: File): Promise<string> {
    const source = new FileSource(file, this);
    const { header, index } = await source.open().finally(() => source.close());
    const id = `added-${this.rows.length}`;
    const { outcome, chunks, moments } = index;
    const { created, seed, map_seed, mechs, update, world, teams } = header;
    const summary: MatchSummary = {
      ...{ id, run, file: file.name, version: "", created, seed, map_seed, mechs, update, size: world.size },
      ...{ blue: teams[0].name, red: teams[1].name, live: false, complete: outcome !== null, bytes: file.size },
      ...{ chunks: chunks.length, moment: topMoment(moments)?.caption ?? "" },
      ...(outcome ?? { winner: -1, reason: "", score: [0, 0], alive: [0, 0] }),
      ticks: chunks.at(-1)?.[1] ?? 0,
    };
    const named = { name: file.name, run, arrayBuffer: () => file.arrayBuffer() };
    this.rows.unshift({ summary, file: named, url: URL.createObjectURL(file) });
    this.onAdded();
    return id;
  }

  override async matches(): Promise<{ total: number; matches: MatchSummary[] }> {
    return { total: this.rows.length, matches: this.rows.map(({ summary }) => summary) };
  }

  override async runs(): Promise<{ runs: { id: string; matches: number }[] }> {
    return { runs: [] };
  }

  override fileOf(id: string): NamedFile {
    const missing = () => Promise.reject(new ApiError(NOT_FOUND, "this page has no such match"));
    return this.row(id)?.file ?? { name: id, arrayBuffer: missing };
  }

  override fileUrl(id: string): string {
    return this.row(id)?.url ?? "";
  }

  private row(id: string) {
    return this.rows.find(({ summary }) => summary.id === id);
  }
}
