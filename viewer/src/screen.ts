// The picture: creates the stage for the first match, fits it to the window, and draws the state's match whenever
// something visible has changed. Without WebGL, or after losing it, it reports the problem.

import { awaitsShot } from "./director";
import { Overlay } from "./render/overlay/canvas";
import { LETTERS } from "./render/overlay/plates";
import { Governor, TIERS, type TierName } from "./quality";
import type { MeshWorkers } from "./render/terrain";
import { freeArea } from "./framing";
import { MatchView, meshWorkers } from "./render/view";
import { Stage, makeContext } from "./render/stage";
import { type Plaque, drawPlaque, plaqueOf } from "./render/overlay/plaque";
import type { MatchState, ViewerState } from "./state";

const NO_INSETS = { left: 0, top: 0, right: 0, bottom: 0 };
const REST_MS = 250; // time at rest after which the picture is redrawn at full resolution

export interface Cost {
  calls: number; // draw calls including shadows
  triangles: number;
  clouds: number; // smoke clouds in the picture
  frameMs: number; // CPU time per frame, smoothed
  firstFrameMs: number; // time from page load to the first complete picture, 0 before it
  draws: number; // number of pictures drawn
  tier: TierName; // current graphics tier
  scale: number; // pixels per CSS pixel along a side
}

export class Screen {
  /** Why there is no picture, "" if there is one. */
  problem = "";
  private stage: Stage | null = null;
  private view: MatchView | null = null;
  private workers: MeshWorkers | null = null;
  private governor: Governor | null = null;
  private software = false; // whether WebGL is rendered in software
  private shown: MatchState | null = null;
  private hasShown = false; // whether this match has been drawn completely
  private drawn: readonly unknown[] = []; // inputs of the last picture
  private drawnAt = 0; // time of the last picture, 0 if the previous frame drew nothing
  private changedAt = 0; // time of the last change
  private sharp = false; // whether the last picture has full resolution
  private lost = false; // whether the WebGL context is lost
  private fontsLoaded = false; // whether loading the overlay's font has finished or failed
  private settledCallbacks: (() => void)[] = []; // callbacks of settled()
  private readonly reducedMotion = window.matchMedia("(prefers-reduced-motion: reduce)");
  private readonly stats: Cost = {
    calls: 0,
    triangles: 0,
    clouds: 0,
    frameMs: 0,
    firstFrameMs: 0,
    draws: 0,
    tier: "high",
    scale: 1,
  };
  private size = [0, 0];
  private readonly overlay: Overlay;

  /**
   * `requested` is the requested tier; `checked` enables shader error checks; `fixed` is the size of a screen that is
   * not on the page [CSS px].
   */
  constructor(
    private readonly canvas: HTMLCanvasElement,
    overlay: HTMLCanvasElement,
    private requested: TierName | null,
    private readonly checked: boolean,
    private readonly fixed: readonly [number, number] | null = null,
  ) {
    this.overlay = new Overlay(overlay);
    canvas.addEventListener("webglcontextlost", (event) => {
      event.preventDefault();
      this.lost = true;
      this.problem = "Graphics were interrupted; they resume automatically.";
    });
    canvas.addEventListener("webglcontextrestored", () => {
      this.lost = false;
      this.problem = "";
      this.drawn = [];
    });
    document.addEventListener("visibilitychange", () => this.resetTiming());
    void document.fonts
      .load(LETTERS)
      .catch(() => [])
      .then(() => {
        this.fontsLoaded = true;
        this.drawn = []; // the first picture does not wait for it
      });
  }

  get complete(): boolean {
    return this.missing().length === 0;
  }

  /** Return what the picture of the moment waits for, in words; nothing if it is complete. */
  missing(): string[] {
    const { view } = this;
    if (!view) return [this.problem || "a match"];
    const found = [...view.missing(), ...(this.lost ? ["graphics"] : []), ...(this.fontsLoaded ? [] : ["fonts"])];
    if (!view.overlaySettled) found.push("ground overlay");
    return found;
  }

  /** Whether nothing of the moment is missing but the ground overlay. */
  private get contentComplete(): boolean {
    return this.view !== null && this.view.missing().length === 0;
  }

  hasDrawn(match: MatchState | null): boolean {
    return this.hasShown && this.shown === match;
  }

  /** Whether a complete picture has been drawn and the moment's chunk has arrived. */
  get ready(): boolean {
    const waits = !this.hasShown && this.problem === "" && !this.shown?.mapless;
    return this.contentComplete || (!waits && this.shown?.chunk !== null);
  }

  draw(state: ViewerState, elapsed: number): void {
    if (this.shown !== state.match) this.openView(state.match);
    const { view, governor } = this;
    if (!view || !governor || this.lost) return;
    if (view.problem !== "") this.problem = `Cannot draw the map: ${view.problem}`;
    this.size = [this.canvas.clientWidth, this.canvas.clientHeight];
    if (!this.hasShown) view.rig.jump(); // the first picture is not on the way to another
    const moved = view.move(state, elapsed, this.reducedMotion.matches);
    // the first picture waits until it is complete, unless a problem prevents that
    const waits = !this.hasShown && !this.contentComplete && !state.match?.mapless;
    if (waits && state.problem === "") return view.prepare(state);
    const content = view.signature(state);
    const inputs = [...content, ...this.size, ...Object.values(state.insets), state.covered, governor.step];
    const directed = state.camera.mode === "director" ? state.match : null;
    const now = performance.now();
    if (moved || inputs.some((value, i) => value !== this.drawn[i])) {
      this.measureFrame(now);
      // a picture at rest that is only resized keeps its resolution, so that the buffer is allocated once
      const resized = this.sharp && !moved && content.every((value, i) => value === this.drawn[i]);
      this.paint(state, resized ? this.sharpest : governor.step.scale);
      this.drawn = [...inputs.slice(0, -1), governor.step];
      this.changedAt = now;
    } else if (this.drawnAt > 0) {
      this.resetTiming();
    } else if (!this.sharp) {
      if (now - this.changedAt > REST_MS) this.paint(state, this.sharpest);
    } else if (this.complete && !(directed && awaitsShot(directed, state.tick))) {
      for (const done of this.settledCallbacks.splice(0)) done();
    }
  }

  /** Resolve when a later frame finds nothing left to draw: the picture is complete, at full resolution and at rest. */
  settled(): Promise<void> {
    return new Promise((done) => this.settledCallbacks.push(done));
  }

  /** Draw the moment at once at full resolution. */
  redraw(state: ViewerState): void {
    if (this.view && !this.lost) this.paint(state, this.sharpest);
  }

  /**
   * Draw a frame of a film at full resolution, `elapsed` seconds after the last one; without easing of the camera after
   * a cut. Returns whether it is complete.
   */
  film(state: ViewerState, elapsed: number, cut: boolean): boolean {
    if (this.shown !== state.match) this.openView(state.match);
    const { view } = this;
    if (!view || this.lost) return false;
    this.size = [...(this.fixed ?? [1, 1])];
    if (cut) view.rig.jump();
    view.move(state, elapsed, false);
    if (!this.contentComplete) return (view.prepare(state), false);
    this.paint(state, this.sharpest);
    return this.complete;
  }

  close(): void {
    this.openView(null);
    this.stage?.renderer.dispose();
    this.stage?.renderer.forceContextLoss();
    this.workers?.mesher.close();
    this.workers?.baker.close();
  }

  /** Return the moment with overlay and plaque as a PNG, framed without the panels; "" for no picture. */
  picture(state: ViewerState): Promise<Blob | null> {
    this.redraw({ ...state, insets: NO_INSETS, covered: [] });
    const whole = document.createElement("canvas");
    const { width, height } = this.overlay.canvas;
    Object.assign(whole, { width, height });
    this.composeInto(whole, width, height, state.match && plaqueOf(state.match, state.tick));
    this.redraw(state);
    return new Promise((done) => whole.toBlob(done, "image/png"));
  }

  /** Draw picture, overlay and a plaque into a canvas at a size [px]. */
  composeInto(into: HTMLCanvasElement, width: number, height: number, plaque: Plaque | null): void {
    const brush = into.getContext("2d");
    if (!brush) return;
    brush.drawImage(this.canvas, 0, 0, width, height);
    brush.drawImage(this.overlay.canvas, 0, 0, width, height);
    if (plaque) drawPlaque(brush, width, height, plaque);
  }

  pick(x: number, y: number, reach?: number): number {
    return this.view?.pick(x, y, this.size[0], this.size[1], reach) ?? -1;
  }

  spotOf(mech: number): { x: number; y: number } | null {
    return this.view?.spotOf(mech, this.size[0], this.size[1]) ?? null;
  }

  groundAt(x: number, y: number): [number, number] | null {
    return this.view?.groundAt(x, y, this.size[0], this.size[1]) ?? null;
  }

  cost(): Cost {
    return { ...this.stats };
  }

  quality(): string {
    if (!this.governor) return "";
    return `${TIERS[this.stats.tier].label} (${this.governor.adapts ? "auto" : "fixed"})`;
  }

  private get sharpest(): number {
    const { step } = this.governor ?? { step: { scale: 1 } };
    return Math.max(step.scale, Math.min(1, window.devicePixelRatio));
  }

  /** Report the frame time to the governor if the previous frame was drawn too. */
  private measureFrame(now: number): void {
    if (this.drawnAt > 0 && !document.hidden && this.complete && this.governor?.addFrame(now - this.drawnAt))
      this.applyTier();
    this.drawnAt = now;
  }

  private resetTiming(): void {
    this.drawnAt = 0;
    this.governor?.resetWindow();
  }

  private paint(state: ViewerState, scale: number): void {
    const { stage, view } = this;
    if (!stage || !view) return;
    const began = performance.now();
    stage.resize(this.size[0], this.size[1], scale);
    const { right, down } = freeArea(state.window, state.insets);
    stage.centre(right, down);
    view.draw(state, this.size[0], this.size[1]);
    const { render } = stage.renderer.info;
    Object.assign(this.stats, { calls: render.calls, triangles: render.triangles, clouds: view.smoke, scale });
    this.stats.draws++;
    this.stats.frameMs += (performance.now() - began - this.stats.frameMs) * 0.1;
    this.sharp = scale >= this.sharpest;
    this.hasShown ||= this.contentComplete;
    if (this.stats.firstFrameMs === 0 && this.hasShown) this.stats.firstFrameMs = performance.now();
  }

  private openView(match: MatchState | null): void {
    this.view?.dispose();
    this.view = null;
    this.hasShown = false;
    this.drawn = [];
    this.shown = match;
    if (this.stage && !this.lost) this.problem = "";
    if (!match) return;
    this.prepare();
    if (this.stage && this.workers)
      this.view = new MatchView(this.stage, this.overlay, match, this.workers, TIERS[this.stats.tier]);
  }

  /** Create the stage before the match has loaded, since a WebGL context takes time. */
  prepare(): void {
    try {
      this.workers ??= meshWorkers();
      if (this.stage) return;
      const made = makeContext(this.canvas, this.requested === "finest");
      this.software = made.software;
      this.governor = new Governor(this.requested, made.software, window.devicePixelRatio);
      this.stage = new Stage(this.canvas, made, this.checked);
      this.applyTier();
    } catch {
      this.problem =
        "This browser does not support WebGL 2, so there is no picture. The table of all mechs (M) works without it.";
    }
  }

  /** Request another graphics tier, null for an automatic one. */
  setQuality(requested: TierName | null): void {
    if (requested === this.requested) return;
    this.requested = requested;
    if (!this.stage) return;
    this.governor = new Governor(requested, this.software, window.devicePixelRatio);
    this.applyTier();
  }

  private applyTier(): void {
    const { governor, stage } = this;
    if (!governor || !stage) return;
    this.stats.tier = governor.step.tier;
    const tier = TIERS[governor.step.tier];
    stage.setTier(tier);
    this.view?.setTier(tier);
    document.documentElement.classList.toggle("plain", !tier.patterns);
  }
}
