// The share panel: a link to the current moment, a picture, a clip of the screen, highlights as a film, one HTML page,
// and the replay file.

import { chooseSpans } from "../data/reel";
import { lastTick } from "../control";
import type { TierName } from "../quality";
import { formatRoute, readableWords } from "../routes";
import { type ReadAsset, escapeHtml, exportPage } from "./page_export";
import { plaqueOf, plaqueText } from "../render/overlay/plaque";
import { FilmMaker, type FilmShape } from "./reel_maker";
import { type MatchState, type ViewerState, inCatalogue } from "../state";
import { ICONS, button, el, icon, setShare, setText } from "../hud/dom";
import { errorText } from "../text";

/** Capture of the picture for images and clips. */
export interface ViewCapture {
  /** Return the current moment as a PNG. */
  picture(): Promise<Blob | null>;
  /** Return the canvas as a video stream. */
  stream(): MediaStream;
  /** Return the current graphics tier. */
  tier(): TierName;
}

/** URLs for sharing. */
export interface Addresses {
  /** URL of a match's replay file. */
  file(id: string): string;
  /** URL of the current moment. */
  moment(): string;
  /** Read a file of the viewer. */
  asset: ReadAsset;
}

const FILMS: readonly (FilmShape & { label: string })[] = [
  { label: "Highlights as a video, 20 s", width: 1280, height: 720, fps: 24, format: "video" },
  { label: "Highlights as a GIF", width: 400, height: 224, fps: 10, format: "gif", zoom: 1.5 },
];

const CLIP_TYPES = ["video/mp4;codecs=avc1", "video/webm;codecs=vp9", "video/webm;codecs=vp8", "video/webm"];
const CLIP_BITS = 12e6; // per second
const STATUS_MS = 2500; // how long a status message is shown

/** Download data as a file. */
export function download(data: Blob, name: string): void {
  const url = URL.createObjectURL(data);
  const link = el("a", { attributes: { href: url, download: name } });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

/** Return a file name with the match's title and the second of a tick. */
export function clipName(match: MatchState, tick: number, ending: string): string {
  const words = match.title
    .replace(/[^A-Za-z0-9]+/g, "-")
    .replace(/^-|-$/g, "")
    .toLowerCase();
  return `echelon-${words || "match"}-${(tick / match.header.tick_hz).toFixed(1)}s.${ending}`;
}

/** Records the canvas until it is stopped or the match is closed. */
export class Clip {
  private recorder: MediaRecorder | null = null;
  private of: MatchState | null = null; // the recorded match
  private began = 0;

  constructor(private readonly shown: ViewCapture) {}

  /** Return whether this browser can record clips. */
  static get possible(): boolean {
    return typeof MediaRecorder !== "undefined" && CLIP_TYPES.some((type) => MediaRecorder.isTypeSupported(type));
  }

  /** Length so far [s], or null if not recording. */
  get seconds(): number | null {
    return this.recorder ? (performance.now() - this.began) / 1000 : null;
  }

  /** Start recording; at the end `take` receives the clip and a file name with the match time of its start. */
  start(match: MatchState, tick: number, take: (clip: Blob, name: string) => void): void {
    const mimeType = CLIP_TYPES.find((type) => MediaRecorder.isTypeSupported(type));
    const name = clipName(match, tick, mimeType?.includes("mp4") ? "mp4" : "webm");
    const parts: Blob[] = [];
    const stream = this.shown.stream();
    const recorder = new MediaRecorder(stream, { mimeType, videoBitsPerSecond: CLIP_BITS });
    recorder.ondataavailable = ({ data }) => data.size > 0 && parts.push(data);
    recorder.onstop = () => {
      if (this.recorder === recorder) this.recorder = null;
      for (const track of stream.getTracks()) track.stop(); // otherwise the canvas stays captured
      take(new Blob(parts, { type: mimeType }), name);
    };
    recorder.start(1000);
    this.recorder = recorder;
    this.of = match;
    this.began = performance.now();
  }

  /** Stop recording, if active. */
  stop(): void {
    const { recorder } = this;
    this.recorder = this.of = null;
    recorder?.stop();
  }

  /** Stop recording unless it records this match. */
  stopUnless(match: MatchState | null): void {
    if (this.of !== match) this.stop();
  }
}

/** The share panel. */
export class SharePanel {
  readonly clip: Clip;
  readonly root: HTMLElement;
  private readonly note = el("p", { class: "share-note", attributes: { role: "status" } });
  private readonly clipLabel = el("span", { text: "Record a clip" });
  private readonly link: HTMLElement;
  private readonly noLink = el("p", { class: "share-hint", text: "Matches from local files have no link." });
  private readonly file = el("a", { class: "share-row", attributes: { download: "" } }, [
    icon(ICONS.download),
    el("span", { text: "Download the replay (.ecr)" }),
  ]);
  private readonly filmed = el("div", { class: "film-progress" });
  private readonly filmBar = el("i");
  private readonly filmText = el("span");
  private readonly films: HTMLElement[];
  private film: FilmMaker | null = null;
  private statusAt = 0;

  constructor(
    private readonly state: ViewerState,
    private readonly shown: ViewCapture,
    private readonly addresses: Addresses,
  ) {
    this.clip = new Clip(shown);
    const row = (path: string, label: HTMLElement, act: () => void) =>
      el("button", { class: "share-row", attributes: { type: "button" }, onclick: act }, [icon(path), label]);
    this.link = row(ICONS.link, el("span", { text: "Copy a link to this moment" }), () => void this.copy());
    const record = row(ICONS.record, this.clipLabel, () => this.record());
    record.hidden = !Clip.possible;
    this.films = FILMS.map((shape) =>
      row(ICONS.film, el("span", { text: shape.label }), () => void this.makeFilm(shape)),
    );
    this.filmed.hidden = true;
    this.filmed.append(
      el("div", { class: "film-picture" }),
      el("div", { class: "film-bar" }, [this.filmBar]),
      this.filmText,
      button("Cancel", "Cancel", () => this.film?.cancel(), "button film-cancel"),
    );
    const page = row(ICONS.page, el("span", { text: "Export as one HTML file" }), () => void this.savePage());
    page.classList.add("share-export");
    this.root = el(
      "section",
      { class: "overlay panel share", attributes: { role: "dialog" }, aria: { label: "Share" } },
      [
        el("header", {}, [
          el("h2", { text: "Share" }),
          button("Close (Q)", icon(ICONS.close), () => (state.showShare = false)),
        ]),
        el("div", { class: "overlay-body" }, [
          this.link,
          row(ICONS.picture, el("span", { text: "Save a picture (Z)" }), () => void this.savePicture()),
          record,
          ...this.films,
          this.filmed,
          page,
          this.file,
          this.noLink,
          this.note,
        ]),
      ],
    );
  }

  /** The match was closed: stop and save its recording. */
  leave(): void {
    this.clip.stopUnless(null);
    this.film?.cancel();
  }

  update(match: MatchState): void {
    this.clip.stopUnless(match);
    this.root.hidden = !this.state.showShare;
    const { seconds } = this.clip;
    setText(this.clipLabel, seconds === null ? "Record a clip" : `Stop and save the clip (${seconds.toFixed(0)} s)`);
    this.root.classList.toggle("recording", seconds !== null);
    if (this.root.hidden) return;
    this.link.hidden = match.id === "file";
    this.noLink.hidden = match.id !== "file";
    this.file.hidden = !inCatalogue(match);
    if (inCatalogue(match)) this.file.href = this.addresses.file(match.id);
    if (performance.now() - this.statusAt > STATUS_MS) setText(this.note, "");
  }

  /** Save the picture. */
  async savePicture(): Promise<void> {
    const { match, tick } = this.state;
    const picture = match ? await this.shown.picture() : null;
    if (!match || !picture) return this.showStatus("There is no picture to save.");
    download(picture, clipName(match, tick, "png"));
    this.showStatus("Saved.");
  }

  private record(): void {
    const { match, tick } = this.state;
    if (this.clip.seconds !== null) return this.clip.stop();
    if (!match) return;
    this.clip.start(match, tick, (clip, name) => {
      download(clip, name);
      this.showStatus("Saved.");
    });
  }

  /** Save the highlights as a film; playback pauses, so that the machine has time for it. */
  private async makeFilm(shape: FilmShape): Promise<void> {
    const { match } = this.state;
    if (!match || this.film) return;
    this.state.playing = false;
    const spans = chooseSpans(match.moments, lastTick(match) / match.header.tick_hz);
    const film = new FilmMaker(match, match.moments, spans, shape, this.shown.tier());
    this.film = film;
    this.filmed.firstElementChild?.replaceChildren(film.canvas);
    this.showFilm(true);
    try {
      const made = await film.make((frames) => {
        setShare(this.filmBar, frames / film.frames);
        setText(this.filmText, `Drawing frame ${frames} of ${film.frames}`);
      });
      download(made.film, clipName(match, 0, made.format).replace("-0.0s", "-highlights"));
      this.showStatus("Saved.");
    } catch (error) {
      this.showStatus(film.cancelled ? "Cancelled." : `No film: ${errorText(error)}`);
    } finally {
      this.film = null;
      this.showFilm(false);
    }
  }

  private showFilm(making: boolean): void {
    this.filmed.hidden = !making;
    for (const row of this.films) row.hidden = making;
    setShare(this.filmBar, 0);
    setText(this.filmText, "Loading");
  }

  /** Save viewer and match as one HTML page that opens at this moment. */
  private async savePage(): Promise<void> {
    const { match, tick } = this.state;
    if (!match) return;
    this.showStatus("Loading…");
    try {
      const { bytes, world } = await match.source.file();
      const seconds = tick / match.header.tick_hz;
      const start = formatRoute({ match: null, seconds, mech: this.state.selected, camera: this.state.camera.mode });
      const title = `${plaqueText(plaqueOf(match, tick))} · Echelon`;
      const name = clipName(match, tick, "ecr");
      const content = { replay: bytes, name, title, start, world };
      const page = await exportPage(content, this.addresses.asset);
      download(new Blob([page], { type: "text/html" }), clipName(match, tick, "html"));
      this.showStatus("Saved.");
    } catch (error) {
      this.showStatus(`No page: ${errorText(error)}`);
    }
  }

  /** Copy a link to this moment, with names, score and time in it; as rich text they are its words. */
  private async copy(): Promise<void> {
    const { match, tick } = this.state;
    if (!match) return;
    const words = plaqueText(plaqueOf(match, tick));
    const plain = this.addresses.moment();
    const address = `${plain}${plain.includes("#") ? "&" : "#"}about=${encodeURI(readableWords(words))}`;
    const rich = `<a href="${escapeHtml(address)}">${escapeHtml(words)} · Echelon</a>`;
    const part = (type: string, text: string) => [type, new Blob([text], { type })] as const;
    try {
      await navigator.clipboard.write([
        new ClipboardItem(Object.fromEntries([part("text/plain", address), part("text/html", rich)])),
      ]);
      this.showStatus("Copied.");
    } catch {
      this.showStatus(address); // clipboard access denied: show the link for manual copying
    }
  }

  private showStatus(text: string): void {
    this.statusAt = performance.now();
    setText(this.note, text);
  }
}
