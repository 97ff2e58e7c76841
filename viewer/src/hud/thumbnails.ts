// Thumbnails of maps for the match list: fetched one at a time when their cards come into view, cached by world hash.

import type { Api } from "../client";
import { PromiseCache } from "../data/promise_cache";
import { decodeWorker } from "../data/source";
import type { Picture } from "../data/thumbnail";
import type { WorkerLink } from "../workers/link";
import type { DecodeCalls } from "../workers/messages";

const CACHED_PICTURES = 64;

export class Thumbnails {
  private worker: WorkerLink<DecodeCalls> | null = null;
  private readonly pictures = new PromiseCache<Picture>(CACHED_PICTURES);
  private queue: { canvas: HTMLCanvasElement; id: string }[] = [];
  private busy = false;
  private readonly watcher = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      const canvas = entry.target as HTMLCanvasElement;
      this.watcher.unobserve(canvas);
      this.queue.push({ canvas, id: canvas.dataset.match ?? "" });
    }
    void this.work();
  });

  constructor(private readonly api: Api) {}

  watch(canvas: HTMLCanvasElement, id: string): void {
    canvas.dataset.match = id;
    this.watcher.observe(canvas);
  }

  /** Paint again what has failed, e.g. while the server was lost. */
  retry(): void {
    for (const canvas of document.querySelectorAll<HTMLCanvasElement>("canvas.missing")) this.watcher.observe(canvas);
  }

  private async work(): Promise<void> {
    if (this.busy) return;
    this.busy = true;
    for (let next = this.queue.shift(); next; next = this.queue.shift()) {
      const { canvas, id } = next;
      // a failed thumbnail only leaves its card without a picture
      await this.paint(canvas, id).catch(() => canvas.classList.add("missing"));
    }
    this.busy = false;
  }

  private async picture(id: string): Promise<Picture> {
    const worker = (this.worker ??= decodeWorker());
    const file = this.api.fileOf(id);
    if (file)
      return this.pictures.get(id, async () => worker.request("filePicture", { bytes: await file.arrayBuffer() }));
    const { header } = await this.api.match(id);
    const { sha256, size } = header.world;
    const stored = { url: this.api.worldUrl(sha256), size, materials: header.materials };
    return this.pictures.get(sha256, () => worker.request("picture", stored));
  }

  private async paint(canvas: HTMLCanvasElement, id: string): Promise<void> {
    if (!canvas.isConnected) return this.watcher.observe(canvas); // paint when it is visible again
    const { width, height, pixels } = await this.picture(id);
    canvas.width = width;
    canvas.height = height;
    canvas.getContext("2d")?.putImageData(new ImageData(pixels, width, height), 0, 0);
    canvas.classList.remove("missing");
    canvas.classList.add("painted");
  }
}
