// Two matches side by side on one clock: their pictures, where they first differ, and what differs at the moment.

import * as control from "../control";
import { ICONS, button, el, icon, setText } from "../hud/dom";
import { bindPointer } from "../input";
import { EventKind } from "../protocol.gen";
import type { TierName } from "../quality";
import { scoreAt } from "../interpolate";
import type { CameraMode, MatchState } from "../state";
import { clockText, pointsText } from "../timeline";
import { type Sums, apartText, differenceText, mechsApart, sharedText } from "./differences";
import { Pane, aliveOf } from "./pane";
import { CompareScan } from "./scan";

const SLOW_MS = 120; // update interval of the table
const LEAD_IN_S = 1; // time before the first difference that is shown on a jump to it [s]
const MOST_APART = 8; // most mechs listed
const SPEEDS = [0.25, 0.5, 1, 2, 4] as const;
const CAMERAS: readonly (readonly [CameraMode, string])[] = [
  ["director", "Director"],
  ["top", "Top-down"],
  ["orbit", "Orbit"],
];
const ROWS = ["Zone points", "Alive", "Kills", "Damage dealt", "Shots"] as const;

/** Actions of the page. */
export interface CompareActions {
  close(): void;
}

/** The page. */
export class ComparePage {
  readonly root = el("main", { class: "compare-page" });
  /** The panes, null while none are open; for tests and the browser console. */
  panes: readonly [Pane, Pane] | null = null;
  scan: CompareScan | null = null;
  seconds = 0; // the cursor
  playing = false;
  private speed = 1;
  private linked = false; // whether both have the same map, and one camera
  private slowAt = 0;
  private unbind: (() => void)[] = [];
  private readonly views = el("div", { class: "compare-panes" });
  private readonly shared = el("span", { class: "compare-shared" });
  private readonly first = el("button", { class: "button compare-first", attributes: { type: "button" } });
  private readonly play = button("Play/Pause (Space)", icon(ICONS.play), () => this.toggle(), "button play");
  private readonly slider = el("input", {
    class: "slider",
    aria: { label: "Time" },
    attributes: { type: "range", min: "0", step: "0.05" },
  });
  private readonly marks = el("div", { class: "compare-marks", aria: { hidden: "true" } });
  private readonly times = el("span", { class: "compare-time" });
  private readonly since = el("th");
  private readonly cells: HTMLElement[][];
  private readonly apart = el("ul", { class: "compare-apart" });
  private readonly camera = el("select", { class: "speed", aria: { label: "Camera" } });
  private readonly rate = el("select", { class: "speed", aria: { label: "Speed" } });
  private readonly loading = el("div", { class: "loading", attributes: { role: "status" } }, [
    el("i"),
    el("span", { text: "Loading matches" }),
  ]);

  constructor(
    private readonly actions: CompareActions,
    private readonly tier: TierName | null,
  ) {
    this.root.hidden = true;
    this.cells = ROWS.map(() => Array.from({ length: 4 }, () => el("td")));
    const heads = ["A", "B"].flatMap((side) => [
      el("th", { class: "blue", text: `${side} blue` }),
      el("th", { class: "red", text: `${side} red` }),
    ]);
    const table = el("table", { class: "compare-table" }, [
      el("thead", {}, [el("tr", {}, [this.since, ...heads])]),
      el(
        "tbody",
        {},
        ROWS.map((label, row) => el("tr", {}, [el("th", { text: label }), ...this.cells[row]])),
      ),
    ]);
    for (const [value, text] of CAMERAS) this.camera.append(el("option", { text, attributes: { value } }));
    for (const speed of SPEEDS)
      this.rate.append(el("option", { text: `${speed}×`, attributes: { value: String(speed) } }));
    this.rate.value = "1";
    this.camera.addEventListener("change", () => this.setCamera(this.camera.value as CameraMode));
    this.rate.addEventListener("change", () => (this.speed = Number(this.rate.value)));
    this.slider.addEventListener("input", () => this.seek(Number(this.slider.value)));
    this.first.addEventListener("click", () => this.goToDifference());
    this.root.append(
      el("header", { class: "compare-header" }, [
        button("All matches (Esc)", icon(ICONS.back), actions.close),
        el("h1", { text: "Two matches" }),
        this.shared,
        this.first,
      ]),
      this.views,
      el("section", { class: "compare-differences panel", aria: { label: "Differences" } }, [
        table,
        el("div", { class: "compare-mechs" }, [el("h2", { text: "Mechs that differ now" }), this.apart]),
      ]),
      el("footer", { class: "compare-player panel", aria: { label: "Player" } }, [
        button("Previous frame (←)", icon(ICONS.stepBack), () => this.step(-1)),
        this.play,
        button("Next frame (→)", icon(ICONS.stepOn), () => this.step(1)),
        el("div", { class: "compare-track" }, [this.marks, this.slider]),
        this.times,
        this.rate,
        this.camera,
      ]),
      this.loading,
    );
    window.addEventListener("keydown", (event) => this.onKey(event));
  }

  /** Show two matches from a second on; a given second is shown paused. */
  open(matches: readonly [MatchState, MatchState], seconds: number | null): void {
    this.close();
    const panes = [new Pane(matches[0], "A", this.tier), new Pane(matches[1], "B", this.tier)] as const;
    this.panes = panes;
    this.scan = new CompareScan(matches);
    const [a, b] = matches.map(({ header }) => header);
    this.linked = a.world.sha256 === b.world.sha256;
    setText(this.since, this.scan.start > 0 ? `Since ${clockText(this.scan.start / a.tick_hz)}` : "So far");
    this.views.replaceChildren(...panes.map(({ root }) => root));
    setText(this.shared, sharedText(a, b));
    this.seconds = seconds ?? this.scan.start / a.tick_hz;
    this.playing = seconds === null && !window.matchMedia("(prefers-reduced-motion: reduce)").matches;
    this.camera.value = "director";
    this.slider.max = String(this.length);
    for (const pane of panes) {
      const controlled = this.linked ? panes[0].state : pane.state;
      this.unbind.push(bindPointer(pane.canvas, controlled, (x, y) => this.select(pane.pick(x, y))));
    }
    this.markKills();
  }

  /** Close both matches. */
  close(): void {
    for (const unbind of this.unbind.splice(0)) unbind();
    for (const pane of this.panes ?? []) pane.close();
    this.panes = this.scan = null;
    this.views.replaceChildren();
  }

  /** Length of the longer match [s]. */
  private get length(): number {
    return Math.max(0, ...(this.panes ?? []).map(({ seconds }) => seconds));
  }

  /** Advance by `elapsed` seconds and draw both pictures. */
  update(elapsed: number): void {
    const { panes, scan } = this;
    this.loading.hidden = panes !== null && panes.every((pane) => pane.ready);
    if (!panes || !scan) return;
    if (this.playing && this.loading.hidden) {
      this.seconds = Math.min(this.length, this.seconds + elapsed * this.speed);
      if (this.seconds >= this.length) this.playing = false;
    }
    const [a, b] = panes;
    a.seek(this.seconds);
    if (this.linked) {
      const { mode } = a.state.camera;
      Object.assign(b.state.camera, a.state.camera, { mode: mode === "director" ? "orbit" : mode });
      b.state.camera.target = [...a.state.camera.target];
    }
    b.seek(this.seconds);
    for (const pane of panes) pane.draw(elapsed);
    scan.request();
    this.slider.value = String(this.seconds);
    const now = performance.now();
    if (now - this.slowAt < SLOW_MS) return;
    this.slowAt = now;
    this.showWords(panes, scan);
  }

  /** Why something cannot be shown, "" for nothing. */
  get problem(): string {
    return this.panes?.find((pane) => pane.problem !== "")?.problem ?? "";
  }

  private showWords(panes: readonly [Pane, Pane], scan: CompareScan): void {
    const hz = panes[0].match.header.tick_hz;
    setText(this.first, differenceText(scan.difference, scan.read, hz));
    this.first.disabled = scan.difference === null;
    this.play.replaceChildren(icon(this.playing ? ICONS.pause : ICONS.play));
    setText(this.times, `${clockText(this.seconds)} / ${clockText(this.length)}`);
    const values = panes.map((pane, side) => columnsOf(pane, scan.at(side as 0 | 1, pane.state.tick)));
    this.cells.forEach((row, number) =>
      row.forEach((cell, column) => {
        const [side, team] = [column >> 1, column & 1];
        setText(cell, values[side][number][team]);
        cell.classList.toggle("differs", values[0][number][team] !== values[1][number][team]);
      }),
    );
    const [a, b] = panes.map(({ match }) => match);
    const found =
      a.chunk && b.chunk && a.header.mechs === b.header.mechs ? mechsApart(a.header, [a.poses, b.poses]) : [];
    const lines = found.slice(0, MOST_APART).map((one) => apartText(a.header, one));
    if (found.length > MOST_APART) lines.push(`and ${found.length - MOST_APART} more`);
    if (lines.length === 0) lines.push("None");
    if (lines.join("\n") !== this.apart.dataset.lines) {
      this.apart.dataset.lines = lines.join("\n");
      this.apart.replaceChildren(...lines.map((text) => el("li", { text })));
    }
    this.markKills();
  }

  /** Mark the kills of both matches and the first difference on the track. */
  private markKills(): void {
    const { panes, scan, length } = this;
    if (!panes || length === 0) return;
    const key = [scan?.difference?.tick, length, ...panes.map(({ match }) => match.markers.length)].join(" ");
    if (this.marks.dataset.key === key) return;
    this.marks.dataset.key = key;
    const place = (seconds: number) => `${((100 * seconds) / length).toFixed(2)}%`;
    const kills = panes.flatMap(({ match }, side) =>
      match.markers
        .filter(({ kind }) => kind === EventKind.KILL)
        .map((marker) => {
          const mark = el("i", { class: `compare-kill ${side === 0 ? "above" : "below"}` });
          mark.classList.add(match.header.roster[marker.target]?.team === 0 ? "red" : "blue");
          mark.style.left = place(marker.tick / match.header.tick_hz);
          return mark;
        }),
    );
    const mark = el("i", { class: "compare-split" });
    mark.style.left = place((scan?.difference?.tick ?? 0) / panes[0].match.header.tick_hz);
    mark.hidden = !scan?.difference;
    this.marks.replaceChildren(...kills, mark);
  }

  private toggle(): void {
    this.playing = !this.playing;
    if (this.playing && this.seconds >= this.length) this.seconds = 0;
  }

  /** Move the cursor to a second. */
  seek(seconds: number): void {
    this.seconds = Math.max(0, Math.min(this.length, seconds));
  }

  private step(frames: number): void {
    const header = this.panes?.[0].match.header;
    if (!header) return;
    this.playing = false;
    const frame = header.frame_ticks / header.tick_hz;
    this.seek((Math.round(this.seconds / frame) + frames) * frame);
  }

  private goToDifference(): void {
    const tick = this.scan?.difference?.tick;
    if (tick === undefined || !this.panes) return;
    this.seek(tick / this.panes[0].match.header.tick_hz - (this.playing ? LEAD_IN_S : 0));
  }

  private setCamera(mode: CameraMode): void {
    for (const { state } of this.panes ?? []) control.setCameraMode(state, mode);
  }

  private select(mech: number): void {
    for (const { state } of this.panes ?? []) control.select(state, mech, false);
  }

  private onKey(event: KeyboardEvent): void {
    if (this.root.hidden || event.ctrlKey || event.metaKey || event.altKey) return;
    const typed = event.target instanceof HTMLSelectElement || event.target instanceof HTMLButtonElement;
    if (typed && [" ", "Enter", "ArrowUp", "ArrowDown"].includes(event.key)) return;
    const acts: Record<string, () => void> = {
      " ": () => this.toggle(),
      k: () => this.toggle(),
      arrowleft: () => this.step(-1),
      arrowright: () => this.step(1),
      j: () => this.seek(this.seconds - 10),
      l: () => this.seek(this.seconds + 10),
      home: () => this.seek(0),
      end: () => this.seek(this.length),
      d: () => this.goToDifference(),
      escape: () => this.actions.close(),
    };
    const act = acts[event.key.toLowerCase()];
    if (!act) return;
    event.preventDefault();
    act();
  }
}

/** Return the values of a match's rows of the table for blue and red, as text. */
function columnsOf({ match, state }: Pane, sums: Sums | null): string[][] {
  const { chunk } = match;
  const plain = (pair: readonly number[] | undefined) => [0, 1].map((team) => pair?.[team]?.toFixed(0) ?? "–");
  const score = chunk ? scoreAt(chunk, state.tick).map(pointsText) : ["–", "–"];
  return [
    score,
    plain(chunk ? aliveOf(match) : undefined),
    plain(sums?.kills),
    plain(sums?.damage),
    plain(sums?.shots),
  ];
}
