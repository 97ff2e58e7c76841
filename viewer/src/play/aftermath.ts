// After the end of the pilot's mech: what destroyed it, and the bar that says which team mate is watched.

import { ICONS, button, el, icon, setText, textButton } from "../hud/dom";
import type { ViewerState } from "../state";
import type { Command } from "./bindings";
import { deathReport } from "./death";
import { chassisOf, knownName } from "./gauges";
import type { Death } from "./live_match";
import type { PlaySession } from "./session";
import { TOUCH_WORDS } from "./touch";

export class Aftermath {
  readonly report: HTMLElement;
  readonly bar: HTMLElement;
  private readonly title = el("h2");
  private readonly rows = el("dl");
  private readonly tip = el("p", { class: "death-tip" });
  private readonly watched = el("b");
  private readonly note = el("span", { class: "small" });
  private readonly camera: HTMLButtonElement;
  private told: Death | null = null;
  private closed = false;

  constructor(
    private readonly state: ViewerState,
    private readonly play: PlaySession,
    private readonly keyOf: (command: Command) => string,
  ) {
    const close = button("Close", icon(ICONS.close), () => (this.closed = true));
    const properties = { class: "panel cockpit-death", aria: { label: "How you died" } };
    this.report = el("section", properties, [el("header", {}, [this.title, close]), this.rows, this.tip]);
    this.camera = textButton("", () => play.toggleFree(), "button framed");
    this.bar = el("section", { class: "panel cockpit-watch", aria: { label: "Watching" } }, [
      button("Previous team mate", icon(ICONS.back), () => play.watch(-1)),
      el("div", { attributes: { role: "status" } }, [this.watched, this.note]),
      button("Next team mate", icon("M9 5l7 7-7 7"), () => play.watch(1)),
      this.camera,
    ]);
  }

  update(): void {
    const { live, ended } = this.play;
    const death = live?.death ?? null;
    if (death !== this.told) this.tell(death);
    this.report.hidden = death === null || this.closed || ended !== null;
    this.bar.hidden = !live?.watching || ended !== null;
    if (!live || this.bar.hidden) return;
    const { header } = live.match;
    const free = this.state.camera.mode === "free";
    const name = chassisOf(header, live.pilot);
    const jets = `${this.keyOf("jets")}: ${free ? "follow" : "free camera"}`;
    const next = `${this.keyOf("next_target")}: next team mate, ${jets}`;
    const touch = this.keyOf("jets") === TOUCH_WORDS.jets; // which has the buttons only
    setText(this.watched, free ? "Free camera" : `Watching ${knownName(header, live.pilot)}${name ? `, ${name}` : ""}`);
    setText(this.note, `You see what ${knownName(header, live.pilot)} knows. ${touch ? "" : next}`);
    setText(this.camera, free ? "Follow" : "Free camera");
  }

  /** Return what destroyed the pilot's mech in one line, "" if nothing did. */
  get line(): string {
    const { live } = this.play;
    if (!live?.death) return "";
    const { title, rows } = deathReport(live.match.header, live.seat, live.death);
    const found = new Map(rows);
    return [title, found.get("With"), found.get("From")].filter(Boolean).join(" · ");
  }

  private tell(death: Death | null): void {
    const { live } = this.play;
    this.told = death;
    this.closed = false;
    if (!death || !live) return;
    const { title, rows, tip } = deathReport(live.match.header, live.seat, death);
    setText(this.title, title);
    this.rows.replaceChildren(...rows.flat().map((text, i) => el(i % 2 ? "dd" : "dt", { text })));
    setText(this.tip, tip);
  }
}
