// The share panel: a link to the current moment, a picture, highlights as a film, and the replay file.

import { REEL_S } from "../data/reel";
import type { TierName } from "../quality";
import { lastTick } from "../control";
import { readableWords } from "../routes";
import { mayShow } from "../spoilers";
import { plaqueOf, plaqueText } from "../render/overlay/plaque";
import { FilmMaker, type FilmShape } from "./reel_maker";
import { type MatchState, type ViewerState, inCatalogue } from "../state";
import { ICONS, dialog, el, icon, setShare, setText, textButton } from "../hud/dom";
import { errorText } from "../text";

export interface ViewCapture {
  picture(): Promise<Blob | null>;
  tier(): TierName;
}

export interface Addresses {
  file(id: string): string;
  /** Play a match again; return in one line that it is as recorded, else throw. Absent where a server has matches. */
  verify?(match: MatchState): Promise<string>;
  moment(): string;
}

const FILMS: readonly (FilmShape & { label: string })[] = [
  { label: "Highlights as a video, 20 s", width: 1280, height: 720, fps: 24, format: "video" },
  { label: "Highlights as a GIF", width: 400, height: 224, fps: 10, format: "gif", zoom: 1.5 },
];

const STATUS_MS = 2500; // how long a status message is shown

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

export class SharePanel {
  readonly root: HTMLElement;
  private readonly note = el("p", { class: "share-note small", attributes: { role: "status" } });
  private readonly link: HTMLElement;
  private readonly noLink = el("p", { class: "share-hint small", text: "Matches from local files have no link." });
  private readonly file = el("a", { class: "share-row", attributes: { download: "" } }, [
    icon(ICONS.download),
    el("span", { text: "Download the replay (.ecr)" }),
  ]);
  private readonly verdict = el("span");
  private readonly verify = textButton("", () => void this.showVerdict(), "share-row");
  private verified: MatchState | null = null; // match whose verdict is shown
  private readonly filmed = el("div", { class: "film-progress small" });
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
    const row = (path: string, text: string, act: () => void) => {
      const made = textButton("", act, "share-row");
      made.append(icon(path), el("span", { text }));
      return made;
    };
    this.link = row(ICONS.link, "Copy a link to this moment", () => void this.copy());
    this.films = FILMS.map((shape) => row(ICONS.film, shape.label, () => void this.makeFilm(shape)));
    this.filmed.hidden = true;
    this.filmed.append(
      el("div", { class: "film-picture" }),
      el("div", { class: "film-bar" }, [this.filmBar]),
      this.filmText,
      textButton("Cancel", () => this.film?.cancel(), "button film-cancel"),
    );
    this.root = dialog("share", "Share", () => (state.showShare = false), [
      this.link,
      row(ICONS.picture, "Save a picture (Z)", () => void this.savePicture()),
      ...this.films,
      this.filmed,
      this.file,
      ...(addresses.verify ? [this.verify] : []),
      this.noLink,
      this.note,
    ]);
  }

  leave(): void {
    this.film?.cancel();
  }

  update(match: MatchState): void {
    this.root.hidden = !this.state.showShare;
    if (this.root.hidden) return;
    this.link.hidden = match.id === "file";
    this.noLink.hidden = match.id !== "file";
    this.file.hidden = !inCatalogue(match);
    if (this.verified !== match) this.tellVerdict("Verify: play it again, bit for bit");
    // highlights tell the match
    const filmable = this.film === null && mayShow(this.state, lastTick(match));
    for (const row of this.films) row.hidden = !filmable;
    if (inCatalogue(match)) Object.assign(this.file, { href: this.addresses.file(match.id), download: match.file });
    if (performance.now() - this.statusAt > STATUS_MS) setText(this.note, "");
  }

  async savePicture(): Promise<void> {
    const { match, tick } = this.state;
    const picture = match ? await this.shown.picture() : null;
    if (!match || !picture) return this.showStatus("There is no picture to save.");
    download(picture, clipName(match, tick, "png"));
    this.showStatus("Saved.");
  }

  /** Save the highlights as a film; playback pauses, so that the machine has time for it. */
  private async makeFilm(shape: FilmShape): Promise<void> {
    const { match } = this.state;
    if (!match || this.film) return;
    this.state.playing = false;
    const film = new FilmMaker(match, shape, REEL_S, this.shown.tier());
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

  private async showVerdict(): Promise<void> {
    const { match } = this.state;
    if (!match || this.verified === match) return;
    this.verified = match;
    this.tellVerdict("The match is played again …");
    const failed = (error: unknown) => [errorText(error), ICONS.close];
    const found = await this.addresses.verify!(match).then((text) => [text], failed);
    if (this.verified === match) this.tellVerdict(found[0], found[1]);
  }

  private tellVerdict(text: string, sign: string = ICONS.verify): void {
    if (this.verdict.textContent === text) return;
    setText(this.verdict, text);
    this.verify.replaceChildren(icon(sign), this.verdict);
  }

  private showFilm(making: boolean): void {
    this.filmed.hidden = !making;
    setShare(this.filmBar, 0);
    setText(this.filmText, "Loading");
  }

  /** Copy a link to this moment, with names, score and time in it; as rich text they are its words. */
  private async copy(): Promise<void> {
    const { match, tick } = this.state;
    if (!match) return;
    const words = plaqueText(plaqueOf(match, tick));
    const plain = this.addresses.moment();
    const address = `${plain}${plain.includes("#") ? "&" : "#"}about=${encodeURI(readableWords(words))}`;
    const rich = el("a", { text: `${words} · Echelon`, attributes: { href: address } }).outerHTML;
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
