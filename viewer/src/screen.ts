// The picture: makes the stage when the first match is shown, fits it to the window, and draws the state's match. Where
// the browser has no WebGL, or loses it, it says so instead.

import { MatchView, meshWorker } from "./render/view";
import { Stage } from "./render/stage";
import type { MatchState, ViewerState } from "./state";
import type { WorkerLink } from "./workers/link";
import type { MeshCalls } from "./workers/messages";

/** What a frame cost. */
export interface Cost {
  calls: number; // draw calls, shadows included
  triangles: number;
  frameMs: number; // time on the CPU, smoothed
  firstFrameMs: number; // from opening the page to the first complete picture, 0 before it
}

/** The canvas and what is drawn on it. */
export class Screen {
  /** Why there is no picture; "" where there is one. */
  problem = "";
  private stage: Stage | null = null;
  private view: MatchView | null = null;
  private mesher: WorkerLink<MeshCalls> | null = null;
  private shown: MatchState | null = null;
  private seen = false; // whether this match has been complete on the screen
  private readonly calm = window.matchMedia("(prefers-reduced-motion: reduce)");
  private readonly spent: Cost = { calls: 0, triangles: 0, frameMs: 0, firstFrameMs: 0 };
  private size = [0, 0];

  /** `finest` spends on the picture whatever the machine, for screenshots; `checked` looks for errors in shaders. */
  constructor(private readonly canvas: HTMLCanvasElement, private readonly finest: boolean, private readonly checked: boolean) {
    canvas.addEventListener("webglcontextlost", (event) => {
      event.preventDefault();
      this.problem = "The graphics were interrupted; they return by themselves.";
    });
    canvas.addEventListener("webglcontextrestored", () => (this.problem = ""));
  }

  /** Whether the whole moment is on the screen. */
  get complete(): boolean {
    return this.view?.complete ?? false;
  }

  /** Whether there is something to look at: the first picture was complete, and the moment's chunk is here. */
  get ready(): boolean {
    return this.complete || (this.seen && this.shown?.chunk !== null);
  }

  /** Draw the state's match, if there is one. */
  draw(state: ViewerState, elapsed: number): void {
    if (this.shown !== state.match) this.change(state.match);
    if (!this.view || !this.stage || !state.match) return;
    const began = performance.now();
    this.fit(this.stage);
    this.view.draw(state, elapsed, this.size[0], this.size[1], this.calm.matches);
    const { render } = this.stage.renderer.info;
    Object.assign(this.spent, { calls: render.calls, triangles: render.triangles });
    this.spent.frameMs += (performance.now() - began - this.spent.frameMs) * 0.1;
    this.seen ||= this.view.complete;
    if (this.spent.firstFrameMs === 0 && this.seen) this.spent.firstFrameMs = performance.now();
  }

  /** The mech near a point of the canvas, or -1. */
  pick(x: number, y: number): number {
    return this.view?.pick(x, y, this.size[0], this.size[1]) ?? -1;
  }

  cost(): Cost {
    return { ...this.spent };
  }

  private change(match: MatchState | null): void {
    this.view?.dispose();
    this.view = null;
    this.seen = false;
    this.shown = match;
    if (!match) return;
    this.prepare();
    if (this.stage && this.mesher) this.view = new MatchView(this.stage, match, this.mesher);
  }

  /** Make the stage ahead of the match, since a graphics context takes its time. */
  prepare(): void {
    try {
      this.mesher ??= meshWorker();
      this.stage ??= new Stage(this.canvas, this.finest, this.checked);
    } catch {
      this.problem = "This browser has no WebGL 2, so the match cannot be drawn. The table of all mechs (M) still shows it.";
    }
  }

  private fit(stage: Stage): void {
    const [width, height] = [this.canvas.clientWidth, this.canvas.clientHeight];
    if (width === this.size[0] && height === this.size[1]) return;
    this.size = [width, height];
    stage.resize(width, height);
  }
}
