// Opens two matches to be shown side by side, from the server or from files.

import type { Api } from "../client";
import { FileSource, type ReplaySource, ServerSource } from "../data/source";
import { errorText } from "../text";
import { makeMatch } from "../session";
import type { MatchState, ViewerState } from "../state";
import type { ComparePage } from "./page";

/** Opens matches for a page. */
export class CompareSession {
  private requests = 0; // number of the latest request

  constructor(
    private readonly state: ViewerState,
    private readonly api: Api,
    private readonly page: ComparePage,
  ) {}

  /** Open two matches of the catalogue at a second. */
  openMatches(ids: readonly [string, string], seconds: number | null): Promise<boolean> {
    return this.open([new ServerSource(this.api, ids[0]), new ServerSource(this.api, ids[1])], ["", ""], seconds);
  }

  /** Open two local files. */
  openFiles(files: readonly [File, File]): Promise<boolean> {
    const sources = [new FileSource(files[0], this.api), new FileSource(files[1], this.api)] as const;
    return this.open(sources, [files[0].name, files[1].name], null);
  }

  /** Close what is open, and cancel what is being opened. */
  close(): void {
    this.requests++;
    this.page.close();
  }

  private async open(
    sources: readonly [ReplaySource, ReplaySource],
    titles: readonly [string, string],
    seconds: number | null,
  ): Promise<boolean> {
    this.close();
    const request = this.requests;
    const { state } = this;
    state.page = "compare";
    state.problem = "";
    try {
      const opened = await Promise.all(sources.map((source) => source.open()));
      if (request !== this.requests) return (sources.forEach((source) => source.close()), false);
      const [a, b] = opened.map((found, side) => makeMatch("file", sources[side], found, titles[side]));
      this.page.open([a, b], seconds);
      for (const match of [a, b]) void this.loadWorld(match, request);
      return true;
    } catch (error) {
      sources.forEach((source) => source.close());
      if (request === this.requests)
        Object.assign(state, { page: "list", problem: `Cannot compare: ${errorText(error)}` });
      return false;
    }
  }

  private async loadWorld(match: MatchState, request: number): Promise<void> {
    try {
      match.scenery = await match.source.scenery();
    } catch (error) {
      if (request === this.requests) this.state.problem = `Cannot load the map: ${errorText(error)}`;
    }
  }
}
