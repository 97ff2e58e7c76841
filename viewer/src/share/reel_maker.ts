// Makes films of a match frame by frame, whatever the speed of the machine: with a screen of its own, so that the page
// can be used meanwhile, and a worker that encodes.

import * as control from "../control";
import { MatchScan } from "../data/match_scan";
import { type Span, chooseSpans } from "../data/reel";
import { ChunkStore } from "../data/store";
import { captionAt } from "../caption";
import { awaitsShot } from "../director";
import { isOver } from "../score_text";
import { makePoses } from "../interpolate";
import type { TierName } from "../quality";
import { Screen } from "../screen";
import { type MatchState, type ViewerState, defaults } from "../state";
import { WorkerLink } from "../workers/link";
import type { FilmCalls, FilmFormat, FilmWish } from "../workers/messages";
import { plaqueOf } from "../render/overlay/plaque";

const WAIT_MS = 15; // interval at which a frame that is not complete is tried again
const PATIENCE_MS = 60_000; // longest wait for one frame
const READ_S = 1.5; // time after the span of a moment in which its caption is read
const HOLD_S = 1.6; // time for which the last frame is held
const BARS = { left: 0, top: 52, right: 0, bottom: 44 }; // edges of the picture that the plaque covers [px]

export interface FilmShape {
  readonly width: number; // [px]
  readonly height: number; // [px]
  readonly fps: number;
  readonly format: FilmWish;
  readonly zoom?: number; // size of the picture that is scaled down to the film's, relative to it; 1 without
}

/** Return a match whose cursor is independent of another's, over the same source. */
export function secondCursor(match: MatchState): MatchState {
  const read = (number: number) => match.source.chunk(number);
  const { mechs } = match.header;
  return {
    ...match,
    store: new ChunkStore(read),
    poses: makePoses(mechs),
    shown: new Float32Array(mechs).fill(1),
    chunk: null,
    chunkNumber: 0,
    scan: new MatchScan(read, match.header),
  };
}

export class FilmMaker {
  /** The last frame, as it will be in the film. */
  readonly canvas = document.createElement("canvas");
  private readonly state: ViewerState = defaults();
  private readonly screen: Screen;
  cancelled = false;

  readonly spans: readonly Span[];

  /** `part` is what it shows, or the length of a film of highlights [s]. */
  constructor(
    private readonly match: MatchState,
    private readonly shape: FilmShape,
    part: readonly Span[] | number,
    tier: TierName,
  ) {
    const seconds = control.lastTick(match) / match.header.tick_hz;
    // a caption is complete when its moment has ended, and then has to be read
    const moments = match.moments.map(({ from, to, rank }) => ({ from, to: to + READ_S, rank }));
    this.spans = typeof part === "number" ? chooseSpans(moments, seconds, Math.max(1, part - HOLD_S)) : part;
    const { width, height, zoom = 1 } = shape;
    Object.assign(this.canvas, { width, height });
    const size: [number, number] = [Math.round(width * zoom), Math.round(height * zoom)];
    this.screen = new Screen(document.createElement("canvas"), document.createElement("canvas"), tier, false, size);
    const { state } = this;
    state.match = secondCursor(match);
    Object.assign(state, { window: size, insets: BARS, showLinks: false, playing: false });
    control.resetView(state);
  }

  get frames(): number {
    return this.spans.reduce((sum, span) => sum + this.count(span), 0) + Math.round(HOLD_S * this.shape.fps);
  }

  private count([start, end]: Span): number {
    return Math.max(1, Math.round((end - start) * this.shape.fps));
  }

  /** Stop; `make` rejects. */
  cancel(): void {
    this.cancelled = true;
  }

  /** Return the film; `progress` is called after each frame with the number of frames so far. */
  async make(progress: (frames: number) => void): Promise<{ film: Blob; format: FilmFormat }> {
    const worker = new WorkerLink<FilmCalls>(
      new Worker(new URL("../workers/film.worker.ts", import.meta.url), { type: "module" }),
    );
    try {
      const { width, height, fps } = this.shape;
      const { format } = await worker.request("start", { width, height, fps, format: this.shape.format });
      let made = 0;
      const add = async (cut: boolean) => {
        const bitmap = await createImageBitmap(this.canvas);
        await worker.request("frame", { bitmap, number: made, cut }, [bitmap]);
        progress(++made);
      };
      for (const span of this.spans) {
        for (let number = 0; number < this.count(span); number++) {
          await this.draw(span[0] + (number + 1) / this.shape.fps, number === 0);
          await add(number === 0);
        }
      }
      while (made < this.frames) await add(false);
      const bytes = await worker.request("finish", null);
      const type = format === "gif" ? "image/gif" : `video/${format}`;
      return { film: new Blob([bytes], { type }), format };
    } finally {
      worker.close();
      this.screen.close();
    }
  }

  /** Draw the frame of a second once it is complete. */
  async draw(second: number, cut: boolean): Promise<void> {
    const { state, screen, shape } = this;
    const match = state.match as MatchState;
    const began = performance.now();
    state.tick = Math.min(control.lastTick(match), second * match.header.tick_hz);
    for (let elapsed = cut ? 0 : 1 / shape.fps; ; elapsed = 0) {
      if (this.cancelled) throw new Error("cancelled");
      match.scenery = this.match.scenery; // it may arrive meanwhile
      match.axis ??= this.match.axis;
      control.updateCursor(state);
      if (!awaitsShot(match, state.tick) && screen.film(state, elapsed, cut)) break;
      if (performance.now() - began > PATIENCE_MS) throw new Error(screen.problem || "the picture is not complete");
      await new Promise((done) => setTimeout(done, WAIT_MS));
    }
    const plaque = plaqueOf(match, state.tick);
    const caption = isOver(match, state.tick) ? plaque.caption : captionAt(match, state.tick);
    screen.composeInto(this.canvas, shape.width, shape.height, { ...plaque, caption });
  }
}
