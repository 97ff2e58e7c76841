// The picture: makes the stage when the first match is shown, fits it to the window, and draws the state's match whenever
// something to be seen has changed. Where the browser has no WebGL, or loses it, it says so instead.

import { Governor, TIERS, type TierName } from "./render/quality";
import { setTiles } from "./render/plain_shader";
import type { MeshWorkers } from "./render/terrain";
import { MatchView, meshWorkers } from "./render/view";
import { Stage, makeContext } from "./render/stage";
import type { MatchState, ViewerState } from "./state";

const ROUGH_STEP = 2; // texels along a side that share a colour, in the first tiles
const CLIP_HZ = 30; // frames of a clip per second
const SOON_MS = 50;
const LETTERS = '700 36px "Chakra Petch"'; // of the plates and numbers in the picture
const REST_MS = 250; // a picture that stays this long is drawn once more, as sharp as its tier allows

/** What a frame cost. */
export interface Cost {
  calls: number; // draw calls, shadows included
  triangles: number;
  clouds: number; // of smoke, in the picture
  frameMs: number; // time on the CPU, smoothed
  firstFrameMs: number; // from opening the page to the first complete picture, 0 before it
  draws: number; // pictures drawn so far
  tier: TierName; // what is spent on them
  scale: number; // pixels drawn per CSS pixel, along a side
}

/** The canvas and what is drawn on it. */
export class Screen {
  /** Why there is no picture; "" where there is one. */
  problem = "";
  private stage: Stage | null = null;
  private view: MatchView | null = null;
  private workers: MeshWorkers | null = null;
  private governor: Governor | null = null;
  private tiling: Promise<void> | null = null; // the tiles of the plain tiers, once asked for
  private tiled: "no" | "roughly" | "yes" = "no"; // how far they are painted
  private shown: MatchState | null = null;
  private seen = false; // whether this match has been complete on the screen
  private drawn: readonly unknown[] = []; // what the last picture was drawn from
  private drawnAt = 0; // when it was drawn; 0 where the frame before drew nothing
  private restedAt = 0; // since when nothing has changed
  private sharp = false; // whether the last picture was as sharp as its tier allows
  private lost = false; // whether the graphics context is gone
  private lettered = false; // whether the type that is painted into textures has come, or never will
  private resting: (() => void)[] = []; // who waits for the picture to come to rest
  private readonly calm = window.matchMedia("(prefers-reduced-motion: reduce)");
  private readonly spent: Cost = { calls: 0, triangles: 0, clouds: 0, frameMs: 0, firstFrameMs: 0, draws: 0, tier: "high", scale: 1 };
  private size = [0, 0];

  /** `wish` is the tier that was asked for; `checked` looks for errors in shaders. */
  constructor(private readonly canvas: HTMLCanvasElement, private readonly wish: TierName | null, private readonly checked: boolean) {
    canvas.addEventListener("webglcontextlost", (event) => {
      event.preventDefault();
      this.lost = true;
      this.problem = "The graphics were interrupted; they return by themselves.";
    });
    canvas.addEventListener("webglcontextrestored", () => {
      this.lost = false;
      this.problem = "";
      this.drawn = [];
    });
    document.addEventListener("visibilitychange", () => this.idle());
    void document.fonts.load(LETTERS).catch(() => []).then(() => (this.lettered = true));
  }

  /** Whether the whole moment is on the screen. */
  get complete(): boolean {
    return this.whole && (this.view?.covered ?? false) && (this.tiled === "yes" || TIERS[this.spent.tier].patterns);
  }

  /** Whether nothing of the moment is missing, though tiles may still be rough. */
  private get whole(): boolean {
    return (this.view?.complete ?? false) && (this.tiled !== "no" || TIERS[this.spent.tier].patterns);
  }

  /** Whether there is something to look at: the first picture was complete, and the moment's chunk is here. */
  get ready(): boolean {
    return this.whole || (this.seen && this.shown?.chunk !== null);
  }

  /** Draw the state's match, if there is one and it looks other than before. */
  draw(state: ViewerState, elapsed: number): void {
    if (this.shown !== state.match && this.lettered) this.change(state.match);
    const { view, governor } = this;
    if (!view || !governor || this.lost) return;
    this.size = [this.canvas.clientWidth, this.canvas.clientHeight];
    const moved = view.move(state, elapsed, this.calm.matches);
    // what is only half there is not drawn, unless the rest will never come
    if (!this.seen && !this.whole && state.problem === "") return view.prepare(state);
    const wanted = [...view.signature(state), ...this.size, governor.notch];
    const now = performance.now();
    if (moved || wanted.some((value, i) => value !== this.drawn[i])) {
      this.judge(now);
      this.paint(state, governor.notch.scale);
      this.drawn = [...wanted.slice(0, -1), governor.notch];
      this.restedAt = now;
    } else if (this.drawnAt > 0) {
      this.idle();
    } else if (!this.sharp) {
      if (now - this.restedAt > REST_MS) this.paint(state, this.sharpest);
    } else if (this.complete) {
      for (const done of this.resting.splice(0)) done();
    }
  }

  /** Resolves once a frame that begins later finds nothing left to draw: the picture is whole, sharp, and at rest. */
  settled(): Promise<void> {
    return new Promise((done) => this.resting.push(done));
  }

  /** Draw the moment at once, changed or not, as when at rest. */
  redraw(state: ViewerState): void {
    if (this.view && !this.lost) this.paint(state, this.sharpest);
  }

  /** The moment as a PNG, drawn anew since what was drawn before may be gone. */
  picture(state: ViewerState): Promise<Blob | null> {
    this.redraw(state);
    return new Promise((done) => this.canvas.toBlob(done, "image/png"));
  }

  /** The picture as it moves. */
  stream(): MediaStream {
    return this.canvas.captureStream(CLIP_HZ);
  }

  /** The mech near a point of the canvas, or -1. */
  pick(x: number, y: number): number {
    return this.view?.pick(x, y, this.size[0], this.size[1]) ?? -1;
  }

  cost(): Cost {
    return { ...this.spent };
  }

  /** In words, what is spent on the picture. */
  quality(): string {
    if (!this.governor) return "";
    const how = this.governor.adapts ? "chosen by how fast this machine draws" : "as the address asks";
    return `${TIERS[this.spent.tier].label}, ${how}`;
  }

  private get sharpest(): number {
    const { notch } = this.governor ?? { notch: { scale: 1 } };
    return Math.max(notch.scale, Math.min(1, window.devicePixelRatio));
  }

  /** Let the governor know how long the last frame took, where it followed right on another. */
  private judge(now: number): void {
    if (this.drawnAt > 0 && !document.hidden && this.complete && this.governor?.take(now - this.drawnAt)) this.adopt();
    this.drawnAt = now;
  }

  private idle(): void {
    this.drawnAt = 0;
    this.governor?.forget();
  }

  private paint(state: ViewerState, scale: number): void {
    const { stage, view } = this;
    if (!stage || !view) return;
    const began = performance.now();
    stage.resize(this.size[0], this.size[1], scale);
    view.draw(state, this.size[0], this.size[1]);
    const { render } = stage.renderer.info;
    Object.assign(this.spent, { calls: render.calls, triangles: render.triangles, clouds: view.smoke, scale });
    this.spent.draws++;
    this.spent.frameMs += (performance.now() - began - this.spent.frameMs) * 0.1;
    this.sharp = scale >= this.sharpest;
    this.seen ||= this.whole;
    if (this.spent.firstFrameMs === 0 && this.seen) this.spent.firstFrameMs = performance.now();
  }

  private change(match: MatchState | null): void {
    this.view?.dispose();
    this.view = null;
    this.seen = false;
    this.drawn = [];
    this.shown = match;
    if (!match) return;
    this.prepare();
    if (this.stage && this.workers) this.view = new MatchView(this.stage, match, this.workers, TIERS[this.spent.tier]);
  }

  /** Make the stage ahead of the match, since a graphics context takes its time. */
  prepare(): void {
    try {
      this.workers ??= meshWorkers();
      if (this.stage) return;
      const made = makeContext(this.canvas, this.wish === "finest");
      this.governor = new Governor(this.wish, made.slow, window.devicePixelRatio);
      this.stage = new Stage(this.canvas, made, this.checked);
      this.adopt();
    } catch {
      this.problem = "This browser has no WebGL 2, so the match cannot be drawn. The table of all mechs (M) still shows it.";
    }
  }

  /** Go to the governor's tier. */
  private adopt(): void {
    const { governor, stage } = this;
    if (!governor || !stage) return;
    this.spent.tier = governor.notch.tier;
    const tier = TIERS[governor.notch.tier];
    if (!tier.patterns && this.workers) this.tiling ??= this.tile(stage, this.workers);
    stage.use(tier);
    this.view?.use(tier);
    document.documentElement.classList.toggle("plain", !tier.patterns);
  }

  /** Have the tiles of the plain tiers painted: roughly for the first picture, then in full. */
  private async tile(stage: Stage, { baker }: MeshWorkers): Promise<void> {
    for (const [step, tiled] of [[ROUGH_STEP, "roughly"], [1, "yes"]] as const) {
      setTiles(stage.plain, await baker.ask("tiles", { step }));
      this.tiled = tiled;
      this.drawn = [];
      while (!this.seen) await new Promise((done) => setTimeout(done, SOON_MS));
    }
  }
}
