// After the end of the pilot's mech: what destroyed it and from where, the figures of its last seconds, and the bar
// that says which team mate is watched.

import { ICONS, button, el, icon, setText, textButton } from "../hud/dom";
import { type Header, HitFlag, MechFlag } from "../protocol.gen";
import type { ViewerState } from "../state";
import type { Command } from "./bindings";
import { chassisOf, knownName } from "./gauges";
import type { Death, EventRow, Own } from "./live_match";
import type { PlaySession } from "./session";
import { TOUCH_WORDS } from "./touch";

interface DeathReport {
  readonly title: string;
  readonly rows: readonly [string, string][];
  readonly tip: string; // one figure that stands out, "" none
}

const SECTORS = ["ahead", "ahead right", "right", "behind right", "behind", "behind left", "left", "ahead left"];
const MOST = 0.5; // share of the damage that stands out
const LONG_S = 1; // time without control that stands out
const FAR_VOX = 25; // distance to the nearest team mate that stands out

/** Return a direction in words, e.g. "behind left". */
export function sectorOf(angle: number): string {
  return SECTORS[((Math.round(angle / (Math.PI / 4)) % 8) + 8) % 8];
}

const sum = (hits: readonly EventRow[]) => Math.round(hits.reduce((total, { value }) => total + value, 0));

/** Return the time with a flag [s]. */
function secondsOf(past: readonly Own[], flag: MechFlag, hz: number): number {
  const ticks = past.map(({ tick, flags }, i) => (i > 0 && flags & flag ? tick - past[i - 1].tick : 0));
  return ticks.reduce((total, each) => total + each, 0) / hz;
}

export function deathReport(header: Header, seat: number, death: Death): DeathReport {
  const { by, past, hits, mates } = death;
  const [first, last] = [past[0], past.at(-2) ?? past[0]]; // the last one has no heat any more
  const time = ((past.at(-1)?.tick ?? 0) - first.tick) / header.tick_hz;
  const seconds = `${time.toFixed(time < 3 ? 1 : 0)} s`;
  const killer = knownName(header, by);
  const name = chassisOf(header, by);
  const fatal = hits.reduce<EventRow | null>(
    (a, b) => (a && (a.tick > b.tick || (a.tick === b.tick && a.value > b.value)) ? a : b),
    null,
  );
  const weapon = header.weapons[fatal?.weapon ?? -1]?.name;
  const place = by < 0 ? "" : `${death.range.toFixed(0)} vox, ${sectorOf(death.angle)}`;
  const spec = header.chassis[header.roster[seat].chassis];
  const heat = (value: number) => `${Math.round((100 * value) / (spec?.heat_cap || 1))} %`;
  const actors = [...new Set(hits.map(({ actor }) => actor))];
  const shares = actors.map((actor) => [actor, sum(hits.filter((hit) => hit.actor === actor))] as const);
  shares.sort((a, b) => b[1] - a[1]);
  const from = shares.map(([actor, damage]) => `${actor < 0 ? "undetected" : knownName(header, actor)} ${damage}`);
  const total = sum(hits);
  const nearest = Math.min(...mates);
  const part = (share: number, text: string) =>
    total > 0 && share >= MOST * total ? `${share} of ${total} damage ${text}` : "";
  const lasted = (flag: MechFlag, text: string) => {
    const found = secondsOf(past, flag, header.tick_hz);
    return found >= LONG_S ? `${text} for ${found.toFixed(1)} of the last ${seconds}.` : "";
  };
  const tips = [
    part(sum(hits.filter(({ flags }) => flags & HitFlag.REAR)), "came from behind."),
    lasted(MechFlag.SHUTDOWN, "Shut down by heat"),
    lasted(MechFlag.FALLEN, "Knocked down"),
    part(sum(hits.filter(({ actor }) => actor < 0)), "came from mechs that your sensors did not show."),
    actors.length > 1 && nearest >= FAR_VOX && nearest < Infinity
      ? `${actors.length} mechs hit you in ${seconds}; the nearest team mate was ${nearest.toFixed(0)} vox away.`
      : "",
  ];
  const rows: [string, string][] = [
    ["With", by < 0 ? "" : (weapon ?? "unknown")],
    ["From", place],
    [
      `Damage in ${seconds}`,
      total > 0 ? `${total} in ${hits.length} ${hits.length === 1 ? "hit" : "hits"}: ${from.join(", ")}` : "none",
    ],
    ["Hull", `${Math.round(first.hp)} → 0`],
    ["Heat", `${heat(first.heat)} → ${heat(last.heat)}`],
  ];
  return {
    title: by < 0 ? "A hazard destroyed you" : `${killer}${name ? `, ${name},` : ""} destroyed you`,
    rows: rows.filter(([, text]) => text !== ""),
    tip: tips.find((tip) => tip !== "") ?? "",
  };
}

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
