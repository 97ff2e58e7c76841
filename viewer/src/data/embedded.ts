// What an exported page carries: the replay and the scripts of the workers, as elements that
// echelon/server/page.py writes.

const HOLDERS = { replay: "echelon-replay", workers: "echelon-workers" } as const;

export function fromBase64(text: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(atob(text.trim()), (letter) => letter.charCodeAt(0));
}

export function embeddedReplay(): File | null {
  const holder = document.getElementById(HOLDERS.replay);
  if (!holder) return null;
  return new File([fromBase64(holder.textContent ?? "")], holder.dataset.name ?? "replay.ecr");
}

/** Return the moment at which the embedded replay opens, as a fragment; "" for its start. */
export function embeddedStart(): string {
  return document.getElementById(HOLDERS.replay)?.dataset.start ?? "";
}

/** Return whether the page is shown within another: without everything but picture, score and player. */
export function isFramed(): boolean {
  const inPage = document.getElementById(HOLDERS.replay)?.dataset.embed !== undefined;
  return inPage || new URLSearchParams(location.search).get("embed") === "1";
}

/**
 * Start workers from scripts in the page, where it has any: a page opened from disk may not load workers from other
 * files. They are classic scripts, since module workers are not allowed there.
 */
export function useEmbeddedWorkers(): void {
  const text = document.getElementById(HOLDERS.workers)?.textContent;
  if (!text) return;
  const scripts = JSON.parse(text) as Record<string, string>;
  const Native = window.Worker;
  window.Worker = class extends Native {
    constructor(url: string | URL, options?: WorkerOptions) {
      const script = scripts[String(url).split("/").pop() ?? ""];
      if (script === undefined) super(url, options);
      else super(URL.createObjectURL(new Blob([fromBase64(script)], { type: "text/javascript" })));
    }
  };
}
