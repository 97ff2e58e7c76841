// The panel for sharing: a link to this very moment, a picture, a clip of what is being watched, and the replay itself.

import { type MatchState, type ViewerState, inCatalogue } from "../state";
import { ICONS, button, el, icon, setText } from "./dom";

/** What is seen, for pictures and clips. */
export interface Shown {
  /** Draw the moment and give it as a PNG. */
  picture(): Promise<Blob | null>;
  /** The picture as it moves. */
  stream(): MediaStream;
}

/** Where things are to be had. */
export interface Addresses {
  /** Of a match's file, for downloading. */
  file(id: string): string;
  /** Of this very moment. */
  moment(): string;
}

const CLIP_TYPES = ["video/mp4;codecs=avc1", "video/webm;codecs=vp9", "video/webm;codecs=vp8", "video/webm"];
const CLIP_BITS = 12e6; // per second
const TOLD_MS = 2500; // how long a note stays

/** Hand a file to the user. */
export function download(data: Blob, name: string): void {
  const url = URL.createObjectURL(data);
  const link = el("a", { attributes: { href: url, download: name } });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

/** A file name that says which match and which second it shows. */
export function nameOf(match: MatchState, tick: number, ending: string): string {
  const words = match.title.replace(/[^A-Za-z0-9]+/g, "-").replace(/^-|-$/g, "").toLowerCase();
  return `echelon-${words || "match"}-${(tick / match.header.tick_hz).toFixed(1)}s.${ending}`;
}

/** Records what is seen until it is stopped, or the match is left. */
export class Clip {
  private recorder: MediaRecorder | null = null;
  private of: MatchState | null = null; // the match that is recorded
  private began = 0;

  constructor(private readonly shown: Shown) {}

  /** Whether this browser can record. */
  static get possible(): boolean {
    return typeof MediaRecorder !== "undefined" && CLIP_TYPES.some((type) => MediaRecorder.isTypeSupported(type));
  }

  /** Length so far [s], or null while nothing is recorded. */
  get seconds(): number | null {
    return this.recorder ? (performance.now() - this.began) / 1000 : null;
  }

  /** Begin; at the end the clip is given to `take`, with a name that says where in the match it began. */
  begin(match: MatchState, tick: number, take: (clip: Blob, name: string) => void): void {
    const mimeType = CLIP_TYPES.find((type) => MediaRecorder.isTypeSupported(type));
    const name = nameOf(match, tick, mimeType?.includes("mp4") ? "mp4" : "webm");
    const parts: Blob[] = [];
    const stream = this.shown.stream();
    const recorder = new MediaRecorder(stream, { mimeType, videoBitsPerSecond: CLIP_BITS });
    recorder.ondataavailable = ({ data }) => data.size > 0 && parts.push(data);
    recorder.onstop = () => {
      if (this.recorder === recorder) this.recorder = null;
      for (const track of stream.getTracks()) track.stop(); // else the canvas goes on being captured
      take(new Blob(parts, { type: mimeType }), name);
    };
    recorder.start(1000);
    this.recorder = recorder;
    this.of = match;
    this.began = performance.now();
  }

  /** End, if anything is recorded. */
  end(): void {
    const { recorder } = this;
    this.recorder = this.of = null;
    recorder?.stop();
  }

  /** End unless it is this match that is recorded. */
  keepTo(match: MatchState | null): void {
    if (this.of !== match) this.end();
  }
}

/** The panel. */
export class SharePanel {
  readonly clip: Clip;
  readonly root: HTMLElement;
  private readonly note = el("p", { class: "share-note", attributes: { role: "status" } });
  private readonly clipLabel = el("span", { text: "Record a clip" });
  private readonly link: HTMLElement;
  private readonly noLink = el("p", { class: "share-hint", text: "A file from this computer has no address, so there is no link to it." });
  private readonly file = el("a", { class: "share-row", attributes: { download: "" } }, [icon(ICONS.download), el("span", { text: "Download the replay (.ecr)" })]);
  private toldAt = 0;

  constructor(private readonly state: ViewerState, private readonly shown: Shown, private readonly addresses: Addresses) {
    this.clip = new Clip(shown);
    const row = (path: string, label: HTMLElement, act: () => void) => el("button", { class: "share-row", attributes: { type: "button" }, onclick: act }, [icon(path), label]);
    this.link = row(ICONS.link, el("span", { text: "Copy a link to this moment" }), () => void this.copy());
    const record = row(ICONS.record, this.clipLabel, () => this.record());
    record.hidden = !Clip.possible;
    this.root = el("section", { class: "overlay panel share", attributes: { role: "dialog" }, aria: { label: "Share" } }, [
      el("header", {}, [el("h2", { text: "Share" }), button("Close (Q)", icon(ICONS.close), () => (state.showShare = false))]),
      el("div", { class: "overlay-body" }, [
        this.link,
        row(ICONS.picture, el("span", { text: "Save a picture (Z)" }), () => void this.savePicture()),
        record, this.file, this.noLink,
        el("p", { class: "share-hint share-export" }, ["A page that opens without a server: ", el("code", { text: "echelon replay export" })]),
        this.note,
      ]),
    ]);
  }

  /** The match was left: what was recorded of it is saved. */
  leave(): void {
    this.clip.keepTo(null);
  }

  update(match: MatchState): void {
    this.clip.keepTo(match);
    this.root.hidden = !this.state.showShare;
    const { seconds } = this.clip;
    setText(this.clipLabel, seconds === null ? "Record a clip" : `Stop and save the clip (${seconds.toFixed(0)} s)`);
    this.root.classList.toggle("recording", seconds !== null);
    if (this.root.hidden) return;
    this.link.hidden = match.id === "file";
    this.noLink.hidden = match.id !== "file";
    this.file.hidden = !inCatalogue(match);
    if (inCatalogue(match)) this.file.href = this.addresses.file(match.id);
    if (performance.now() - this.toldAt > TOLD_MS) setText(this.note, "");
  }

  /** Save what is seen as a picture. */
  async savePicture(): Promise<void> {
    const { match, tick } = this.state;
    const picture = match ? await this.shown.picture() : null;
    if (!match || !picture) return this.tell("There is no picture to save.");
    download(picture, nameOf(match, tick, "png"));
    this.tell("Saved.");
  }

  private record(): void {
    const { match, tick } = this.state;
    if (this.clip.seconds !== null) return this.clip.end();
    if (!match) return;
    this.clip.begin(match, tick, (clip, name) => {
      download(clip, name);
      this.tell("Saved.");
    });
  }

  private async copy(): Promise<void> {
    const address = this.addresses.moment();
    try {
      await navigator.clipboard.writeText(address);
      this.tell("Copied.");
    } catch {
      this.tell(address); // not allowed here: the user may copy it by hand
    }
  }

  private tell(text: string): void {
    this.toldAt = performance.now();
    setText(this.note, text);
  }
}
