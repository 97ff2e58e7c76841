// The lane of the win probability below the scrub bar: the curve of blue's probability with its 90 % band, turning
// points as marks, and the caption of the current one. Hovering names the causes; a click seeks.

import * as control from "../control";
import { captionAt, fullCaption } from "../caption";
import { EVEN, type WinPoint, isRated } from "../data/winprob";
import { TEAMS } from "../palette";
import { mayShow, shownEnd } from "../spoilers";
import type { Moment } from "../protocol.gen";
import type { MatchState, ViewerState } from "../state";
import { clockText } from "../timeline";
import { describe, el, setText } from "./dom";
import { isOver, winnerText } from "../score_text";
import { causeText, percentText } from "../text";
import { askedText, basisText, isEven, startText } from "./win_text";

const RECENT_S = 4; // time whose change is named [s]
const NEAR_PIXELS = 7; // a mark this close to the pointer is named [CSS px]
const LEAST_CHANGE = 0.05; // change that is named

const rankClass = (rank: number) => (rank === 1 ? "major decisive" : rank <= 3 ? "major" : "");

/** Show a tip above the player at a position of the pointer, within the width of `frame` [CSS px]. */
export function placeTip(tip: HTMLElement, frame: HTMLElement, clientX: number): void {
  const { left, width } = frame.getBoundingClientRect();
  const [offset, half] = [left - (tip.offsetParent?.getBoundingClientRect().left ?? 0), tip.offsetWidth / 2];
  tip.style.left = `${offset + Math.max(half, Math.min(width - half, clientX - left))}px`;
  tip.classList.add("shown");
}

export class WinLane {
  private readonly canvas = el("canvas", { class: "win-curve", aria: { hidden: "true" } });
  private readonly marks = el("div", { class: "win-marks", aria: { hidden: "true" } });
  private readonly asked = el("div", { class: "win-marks", aria: { hidden: "true" } });
  private readonly head = el("div", { class: "win-head", aria: { hidden: "true" } });
  private readonly name = el("span", { class: "win-name tiny", aria: { hidden: "true" } });
  private readonly now = el("output", { class: "win-now tiny" });
  private readonly caption = el("div", { class: "win-caption", attributes: { role: "status" } });
  private readonly tip = el("div", { class: "tip win-tip", aria: { hidden: "true" } });
  readonly track = el("div", { class: "win-track" }, [this.canvas, this.asked, this.marks, this.head]);
  readonly root = el("div", { class: "win-lane lanes" }, [this.name, this.track, this.now, this.caption, this.tip]);
  private drawn: unknown[] = [];
  private marked: readonly Moment[] | null = null;
  private ranked = false; // whether marks show which moment is decisive
  private answers: MatchState["asked"];

  constructor(private readonly state: ViewerState) {
    const seek = (event: PointerEvent) => control.seek(state, this.tickAt(event));
    this.track.addEventListener("pointerdown", (event) => {
      this.track.setPointerCapture(event.pointerId);
      seek(event);
    });
    this.track.addEventListener("pointermove", (event) => {
      if (event.buttons & 1) seek(event);
      this.hover(event);
    });
    this.track.addEventListener("pointerleave", () => this.tip.classList.remove("shown"));
  }

  private tickAt(event: PointerEvent): number {
    const box = this.track.getBoundingClientRect();
    const last = this.state.match ? shownEnd(this.state, this.state.match) : 0;
    return Math.max(0, Math.min(1, (event.clientX - box.left) / box.width)) * last;
  }

  private hover(event: PointerEvent): void {
    const { match } = this.state;
    if (!match) return;
    const tick = this.tickAt(event);
    const last = Math.max(1, shownEnd(this.state, match));
    const reach = (NEAR_PIXELS * last) / Math.max(1, this.track.clientWidth);
    const near = match.moments
      .filter((moment) => mayShow(this.state, moment.tick) && Math.abs(moment.tick - tick) <= reach)
      .sort((a, b) => a.rank - b.rank)[0];
    this.tip.replaceChildren(...this.lines(match, tick, near, reach).map((text) => el("div", { text })));
    placeTip(this.tip, this.root, event.clientX);
  }

  private lines(match: MatchState, tick: number, near: Moment | undefined, reach: number): string[] {
    const hz = match.header.tick_hz;
    if (!mayShow(this.state, tick)) return [clockText(tick / hz)];
    const point = match.win.at(tick);
    const answer = match.asked?.find((asked) => Math.abs(asked.tick - tick) <= reach);
    if (answer) return [`${clockText(answer.tick / hz)} ${askedText(answer)}`];
    const decisive = this.ranked && near?.rank === 1 ? ["Decisive moment"] : [];
    if (near) return [...decisive, fullCaption(match, near)];
    if (!point) return [clockText(tick / hz)];
    const band = `90 % band ${percentText(point.low)} to ${percentText(point.high)}`;
    const lines = [`${clockText(tick / hz)} blue ${percentText(point.p)} (${band})`];
    const causes = causeText(EVEN, point);
    if (causes !== "") lines.push(`blue: ${causes}`);
    const before = match.win.at(tick - RECENT_S * hz);
    if (before && Math.abs(point.p - before.p) >= LEAST_CHANGE)
      lines.push(`last ${RECENT_S} s, blue: ${causeText(before, point) || "several small causes"}`);
    return lines;
  }

  update(match: MatchState, last: number): void {
    const { tick } = this.state;
    this.draw(match, last);
    const ranked = mayShow(this.state, control.lastTick(match)); // ranks tell how the match goes on
    if (this.marked !== match.moments || this.ranked !== ranked) this.drawMarks(match, last, ranked);
    if (this.answers !== match.asked) this.drawAsked(match, last);
    setText(this.name, `win probability${isRated(match.header) ? "" : ", equal pilots"}`);
    const share = `${((tick / last) * 100).toFixed(3)}%`;
    if (this.head.style.left !== share) this.head.style.left = share;
    const point = control.isBlank(match) ? null : match.win.at(tick); // the moment has not arrived
    const result = isOver(match, tick) ? match.index.outcome : null;
    const lacks = match.index.outcome !== null && match.win.points.length === 0;
    const now = point ? `Blue ${percentText(point.p)}` : lacks ? "not in\nthis file" : "";
    setText(this.now, result ? winnerText(result.winner) : now);
    this.now.classList.toggle("over", result !== null);
    this.now.dataset.team = point && !isEven(point) ? (point.p > 0.5 ? "blue" : "red") : "none";
    const seconds = tick / match.header.tick_hz;
    describe(this.now, lacks ? "`echelon serve` computes it" : point && !result ? basisText(point, seconds) : "");
    const caption = (point && captionAt(match, tick)) || startText(point, seconds);
    setText(this.caption, caption);
    this.caption.classList.toggle("shown", caption !== "");
  }

  private drawMarks(match: MatchState, last: number, ranked: boolean): void {
    this.ranked = ranked;
    this.marked = match.moments;
    this.marks.replaceChildren(
      ...match.moments.map(({ tick, rank, team }) => {
        const mark = el("i", { class: `win-mark ${["blue", "red"][team] ?? "none"} ${ranked ? rankClass(rank) : ""}` });
        mark.style.left = `clamp(5px, ${((tick / last) * 100).toFixed(3)}%, 100% - 5px)`;
        return mark;
      }),
    );
  }

  /** Draw the intervals that continuations have given. */
  private drawAsked(match: MatchState, last: number): void {
    this.answers = match.asked;
    this.asked.replaceChildren(
      ...(match.asked ?? []).map(({ tick, p, low, high }) => {
        const bar = el("i", { class: "win-asked" }, [el("b")]);
        bar.style.left = `${((tick / last) * 100).toFixed(3)}%`;
        bar.style.top = `${(1 - high) * 100}%`;
        bar.style.height = `${(high - low) * 100}%`;
        bar.style.setProperty("--at", `${high > low ? ((high - p) / (high - low)) * 100 : 50}%`);
        return bar;
      }),
    );
  }

  private draw(match: MatchState, last: number): void {
    const scale = window.devicePixelRatio || 1;
    const [width, height] = [this.track.clientWidth, this.track.clientHeight];
    const key = [match.win.points, last, width, height, scale, TEAMS[0].css];
    if (width === 0 || key.every((value, i) => value === this.drawn[i])) return;
    this.drawn = key;
    this.marked = null;
    this.answers = [];
    this.canvas.width = Math.round(width * scale);
    this.canvas.height = Math.round(height * scale);
    const pen = this.canvas.getContext("2d");
    if (!pen) return;
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.clearRect(0, 0, width, height);
    const { points } = match.win;
    if (points.length === 0) return;
    const x = ({ tick }: WinPoint) => (tick / last) * width;
    const y = (p: number) => height - 1.5 - p * (height - 3);
    const line = (value: (point: WinPoint) => number) => {
      pen.beginPath();
      for (const point of points) pen.lineTo(x(point), y(value(point)));
    };
    const middle = y(0.5);
    TEAMS.forEach((team, t) => {
      pen.save();
      pen.beginPath();
      pen.rect(0, t === 0 ? 0 : middle, width, t === 0 ? middle : height - middle);
      pen.clip();
      line(({ p }) => p);
      pen.lineTo(x(points[points.length - 1]), middle);
      pen.lineTo(x(points[0]), middle);
      pen.closePath();
      pen.fillStyle = `${team.css}66`;
      pen.fill();
      pen.restore();
    });
    line(({ high }) => high);
    for (const point of [...points].reverse()) pen.lineTo(x(point), y(point.low));
    pen.closePath();
    pen.fillStyle = "rgba(230, 238, 246, 0.2)";
    pen.fill();
    pen.strokeStyle = "rgba(200, 215, 230, 0.35)";
    pen.setLineDash([3, 4]);
    pen.lineWidth = 1;
    pen.beginPath();
    pen.moveTo(0, middle);
    pen.lineTo(width, middle);
    pen.stroke();
    pen.setLineDash([]);
    line(({ p }) => p);
    pen.strokeStyle = "#f2f6fa";
    pen.lineWidth = 1.5;
    pen.stroke();
  }
}
