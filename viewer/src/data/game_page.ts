// The page of the game, which needs no server: what echelon/web/folder.py writes into its index, and its matches.

import { Api, type NamedFile } from "../client";
import type { BranchSummary, Header, MatchSummary, ParentSpec } from "../protocol.gen";
import { topMoment } from "./moments";
import { ApiError, requestBytes } from "./request";
import { hex, sha256 } from "./sha256";
import { FileSource } from "./source";

const HOLDER = "echelon-game";
const NOT_FOUND = 404;
const MOST_KEPT = 50; // added matches that the browser keeps for the next visit

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

/** The matches of the page in place of a server's: those that it carries, and those that were added or kept. */
export class GameApi extends Api {
  override readonly served = false;
  private rows: { summary: MatchSummary; file: NamedFile; url: string }[];
  private readonly kept = globalThis.caches?.open(`echelon matches ${new URL(".", document.baseURI).href}`);
  private readonly restored: Promise<void>;

  constructor({ matches }: GamePage) {
    super();
    this.rows = matches.map(({ path: named, ...summary }) => {
      const path = new URL(named, document.baseURI).href;
      const arrayBuffer = async () => (await requestBytes(path)).buffer;
      return { summary, file: { name: summary.file, run: summary.run, arrayBuffer }, url: path };
    });
    this.restored = this.restore().catch(() => undefined); // of a browser that keeps nothing
  }

  private async restore(): Promise<void> {
    const kept = await this.kept;
    for (const request of (await kept?.keys()) ?? []) {
      const stored = await kept!.match(request);
      const summary = JSON.parse(decodeURIComponent(stored!.headers.get("summary")!)) as MatchSummary;
      this.list(summary, new File([await stored!.blob()], summary.file));
    }
  }

  private async keep(summary: MatchSummary, file: File): Promise<void> {
    const kept = await this.kept;
    const headers = { summary: encodeURIComponent(JSON.stringify(summary)) };
    await kept?.put(`kept/${summary.id}`, new Response(file, { headers }));
    for (const old of ((await kept?.keys()) ?? []).slice(0, -MOST_KEPT)) await kept!.delete(old);
  }

  private list(summary: MatchSummary, file: File): void {
    const { id, run } = summary;
    this.rows = this.rows.filter((row) => row.summary.id !== id);
    const named = { name: file.name, run, arrayBuffer: () => file.arrayBuffer() };
    this.rows.unshift({ summary, file: named, url: URL.createObjectURL(file) });
  }

  /** Return what a branch continues and how, as a server would. */
  private branchOf({ file, tick, set = {}, changes = {}, still = [] }: ParentSpec): BranchSummary {
    const match = this.rows.find((row) => row.summary.file === file)?.summary.id ?? "";
    return { file, match, tick, set, changes: Object.entries(changes).map((change) => change.join("=")), still };
  }

  override async add(run: string, file: File, isKept = true): Promise<string> {
    const source = new FileSource(file, this);
    const { header, index } = await source.open().finally(() => source.close());
    await this.restored;
    const id = `added-${hex(sha256(new TextEncoder().encode(`${run}/${file.name}`))).slice(0, 16)}`;
    const { outcome, chunks, moments } = index;
    const { created, seed, map_seed, mechs, update, world, teams, parent } = header;
    const levels = teams.map(({ level }) => level.replace(/^heuristic:/, "")) as [string, string];
    const summary: MatchSummary = {
      ...{ id, run, file: file.name, version: "", created, seed, map_seed, mechs, update, size: world.size },
      ...{ parent: parent && this.branchOf(parent), levels },
      ...{ blue: teams[0].name, red: teams[1].name, live: false, complete: outcome !== null, bytes: file.size },
      ...{ chunks: chunks.length, moment: topMoment(moments)?.caption ?? "" },
      ...(outcome ?? { winner: -1, reason: "", score: [0, 0], alive: [0, 0] }),
      ticks: chunks.at(-1)?.[1] ?? 0,
    };
    this.list(summary, file);
    this.onAdded();
    if (isKept) await this.keep(summary, file).catch(() => undefined); // of a browser without room
    return id;
  }

  override async matches(): Promise<{ total: number; matches: MatchSummary[] }> {
    await this.restored;
    return { total: this.rows.length, matches: this.rows.map(({ summary }) => summary) };
  }

  override async runs(): Promise<{ runs: { id: string; matches: number }[] }> {
    return { runs: [] };
  }

  override fileOf(id: string): NamedFile {
    const row = () => this.row(id)?.file;
    const arrayBuffer = async () => {
      await this.restored;
      return row()?.arrayBuffer() ?? Promise.reject(new ApiError(NOT_FOUND, "this page has no such match"));
    };
    const named = { get name() { return row()?.name ?? id; }, get run() { return row()?.run; } }; // prettier-ignore
    return row() ?? Object.assign(named, { arrayBuffer });
  }

  override fileUrl(id: string): string {
    return this.row(id)?.url ?? "";
  }

  private row(id: string) {
    return this.rows.find(({ summary }) => summary.id === id);
  }
}
