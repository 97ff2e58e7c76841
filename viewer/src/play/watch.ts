// Matches of the page's policy against a level, without end: a worker plays each, and it is shown as it is recorded. A
// match is verified in such a worker too.

import type { Api } from "../client";
import { UNDAMAGED } from "../data/damage";
import { type GamePage, gameOf } from "../data/game_page";
import { FileSource, type OpenedMatch } from "../data/source";
import type { FromWatch, ToSession } from "../game/session.worker";
import type { IndexView } from "../protocol.gen";
import { isOver } from "../score_text";
import type { Session } from "../session";
import type { MatchState, ViewerState } from "../state";

const NEXT_MS = 8000; // time at the end of a match before the next one
const LARGEST_SEED = 2 ** 31 - 1;
const RUN = "watched";

/** A recording that grows. */
class GrowingSource extends FileSource {
  override open = async (): Promise<OpenedMatch> => ({ ...(await super.open()), damage: UNDAMAGED });
  override refresh = async (): Promise<IndexView> => (await this.open()).index;
}

function makeWorker(page: GamePage, game: string): Worker {
  const worker = new Worker(new URL("../game/session.worker.ts", import.meta.url), { type: "module", name: "watch" });
  worker.postMessage({ open: page, game } satisfies ToSession);
  return worker;
}

/** Play a match of the page again; return in one line that it is as recorded, and throw why it is not. */
export async function verify(page: GamePage, api: Api, { id, file, header }: MatchState): Promise<string> {
  const recorded = await api.fileOf(id)?.arrayBuffer();
  if (!recorded) return "";
  const worker = makeWorker(page, gameOf(page, header));
  const answer = new Promise<string>((tell, refuse) => {
    const fail = (reason: string) => refuse(new Error(`Not verified: ${reason}`));
    worker.onmessage = ({ data }: MessageEvent<FromWatch>) => {
      if ("failed" in data) fail(data.failed);
      else if ("verdict" in data) (data.isEqual ? tell : fail)(data.verdict);
    };
    worker.onerror = ({ message }) => fail(message);
  });
  worker.postMessage({ file, data: new Uint8Array(recorded) } satisfies ToSession);
  return answer.finally(() => worker.terminate());
}

export class Watch {
  problem = ""; // why no match is played, "" for none
  waits = false; // whether a match is awaited
  private worker: Worker | null = null;
  private opponent = "";
  private before: MatchState | null = null; // match that the awaited one follows
  private shown: MatchState | null = null;
  private data: Uint8Array = new Uint8Array(); // of the match, as far as recorded
  private endedAt = 0; // time of the shown match's end [ms], 0 before it

  constructor(
    private readonly state: ViewerState,
    private readonly api: Api,
    readonly page: GamePage,
    private readonly session: Session,
  ) {}

  /** Begin with a match of a game against a level. */
  begin(game: string, opponent: string): void {
    this.close();
    this.opponent = opponent;
    const worker = makeWorker(this.page, game);
    this.worker = worker;
    let received: Promise<void> = Promise.resolve();
    worker.onmessage = ({ data }: MessageEvent<FromWatch>) =>
      (received = received.then(() => (worker === this.worker ? this.receive(data) : undefined)));
    worker.onerror = ({ message }) => this.fail(message || "its worker cannot start");
    this.next();
  }

  /** Go on with another match; returns false while none is watched. */
  next(): boolean {
    if (!this.worker) return false;
    this.waits = true;
    [this.problem, this.before, this.shown, this.endedAt] = ["", this.state.match, null, 0];
    const seed = Math.floor(Math.random() * LARGEST_SEED);
    this.worker.postMessage({ opponent: this.opponent, seed } satisfies ToSession);
    return true;
  }

  /** Go on after a match has ended, and end when it is left; called every frame. */
  update(now: number): void {
    const { state, shown } = this;
    if (!shown) return;
    if (state.match !== shown) return this.close();
    if (!isOver(shown, state.tick) || state.playing) this.endedAt = 0;
    else if (this.endedAt === 0) this.endedAt = now;
    else if (now - this.endedAt > NEXT_MS) this.next();
  }

  private async receive(message: FromWatch): Promise<void> {
    const { state, session } = this;
    if ("failed" in message) return this.fail(message.failed);
    if (!("watched" in message)) return;
    this.data = message.watched;
    const file = `${this.page.policy.name}-against-${this.opponent}.ecr`;
    if (this.waits) {
      this.waits = false;
      if (state.match !== this.before) return this.close();
      const source = new GrowingSource({ name: file, arrayBuffer: async () => this.data.slice().buffer }, this.api);
      if (await session.show(source)) this.shown = state.match;
    } else if (this.shown) await session.refresh(this.shown);
    const { shown } = this;
    if (!message.over || !shown) return;
    const id = await this.api.add(RUN, new File([message.watched.slice()], file));
    Object.assign(shown, { id: id ?? shown.id, run: RUN, file });
  }

  private fail(reason: string): void {
    this.close();
    this.problem = `No match can be played: ${reason}`;
  }

  private close(): void {
    this.worker?.terminate();
    [this.worker, this.shown, this.waits] = [null, null, false];
  }
}
