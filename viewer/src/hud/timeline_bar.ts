// The player bar at the bottom: playback buttons, the scrub bar with event lanes and curves, loaded chunks, and the
// time.

import * as control from "../control";
import { EventKind } from "../protocol.gen";
import { type MatchState, type ViewerState, inCatalogue } from "../state";
import { LIVE, type Marker, SPEEDS, clockText, liveText } from "../timeline";
import { makeBackdrop } from "./charts";
import { ICONS, button, el, icon, option, setLabel, setText } from "./dom";
import { killText, markerText } from "../text";
import { mayShow, shownEnd } from "../spoilers";
import { WinLane, placeTip } from "./win_lane";

/** Event lanes of the scrub bar, from the top; `team` is that of the acting mech, absent where lanes show both. */
const LANES: readonly { kind: EventKind; team?: number; label: string; className: string }[] = [
  { kind: EventKind.KILL, team: 0, label: "blue kills", className: "kill" },
  { kind: EventKind.KILL, team: 1, label: "red kills", className: "kill second" },
  { kind: EventKind.FALL, label: "falls", className: "fall" },
  { kind: EventKind.SHUTDOWN, label: "overheats", className: "heat" },
];
const AUTO = "Auto"; // the speed that the director adapts
const NEAR_S = 0.8; // markers within this time of the pointer are named [s]

export class TimelineBar {
  private readonly play = button(
    "Play/Pause (Space)",
    icon(ICONS.play),
    () => control.togglePlay(this.state),
    "button play",
  );
  private readonly turn = button("Play backward (R)", icon(ICONS.reverse), () => control.reverse(this.state));
  private readonly next = button("", icon(ICONS.next), () => void control.jumpToMoment(this.state, 1));
  private readonly live = button(
    "Go to live edge (End)",
    "LIVE",
    () => control.goLive(this.state),
    "button live framed",
  );
  private readonly auto = option(AUTO);
  private readonly speed = el("select", { class: "speed", aria: { label: "Speed" } }, [
    this.auto,
    ...SPEEDS.map((speed) => option(String(speed), `${speed}×`)),
  ]);
  private readonly now = el("span", { class: "time-now" });
  private readonly end = el("span", { class: "time-end", data: { tip: "" } });
  private readonly slider = el("input", {
    class: "slider",
    aria: { label: "Time" },
    attributes: { type: "range", min: "0", step: "1" },
  });
  private readonly loop = el("div", { class: "loop", aria: { hidden: "true" } });
  private readonly loopButton = button("Set loop start/end ([)", icon(ICONS.loop), () => control.markLoop(this.state));
  private readonly newest = button("Open the run's newest match as soon as it starts", icon(ICONS.newest), () =>
    control.toggle(this.state, "followNewest"),
  );
  private readonly marks = el("div", { class: "marks", aria: { hidden: "true" } });
  private readonly loaded = el("div", { class: "loaded", aria: { hidden: "true" } });
  private readonly past = el("div", { class: "past", aria: { hidden: "true" } });
  private readonly head = el("div", { class: "head", aria: { hidden: "true" } });
  private readonly tip = el("div", { class: "tip", aria: { hidden: "true" } });
  private readonly backdrop = el("div", { class: "backdrop", aria: { hidden: "true" } });
  private readonly track = el("div", { class: "scrub" }, [
    this.backdrop,
    this.loaded,
    this.past,
    this.loop,
    this.marks,
    this.slider,
    this.head,
  ]);
  readonly views = el("nav", { class: "views", aria: { label: "Camera and overlays" } });
  private readonly win: WinLane;
  readonly root: HTMLElement;
  private drawCurves: ReturnType<typeof makeBackdrop> | null = null;
  private drawn: MatchState["index"] | null = null;
  private drawnEnd = 0;
  private shownLoaded = "";

  constructor(private readonly state: ViewerState) {
    this.win = new WinLane(state);
    const act = (label: string, path: string, run: () => void) => button(label, icon(path), run);
    this.root = el("footer", { class: "timeline panel", aria: { label: "Player" } }, [
      el("div", { class: "controls" }, [
        act("Previous moment (Shift+N)", ICONS.previous, () => void control.jumpToMoment(state, -1)),
        act("Previous frame (←)", ICONS.stepBack, () => control.stepFrames(state, -1)),
        this.turn,
        this.play,
        act("Next frame (→)", ICONS.stepOn, () => control.stepFrames(state, 1)),
        this.next,
        this.loopButton,
        this.speed,
        this.views,
        el("div", { class: "times soft" }, [this.now, el("span", { class: "time-slash", text: "/" }), this.end]),
        this.newest,
        this.live,
      ]),
      el("div", { class: "lanes" }, [
        el(
          "div",
          { class: "lane-names tiny", aria: { hidden: "true" } },
          LANES.map((lane) => el("span", { text: lane.label })),
        ),
        this.track,
        el("div", { class: "backdrop-key tiny", aria: { hidden: "true" } }, [el("span", { text: "score" })]),
      ]),
      this.win.root,
      this.tip,
    ]);
    this.speed.addEventListener("change", () => {
      if (this.speed.value === AUTO) control.setPaced(state);
      else control.setSpeed(state, Number(this.speed.value));
    });
    this.slider.addEventListener("input", () => control.seek(state, Number(this.slider.value)));
    for (const lane of [this.slider, this.win.track])
      lane.addEventListener("pointerdown", ({ button }) => (state.held ||= button === 0));
    // after a click the arrow keys control the player again; with keyboard focus they move the slider
    const release = () => {
      if (state.held) this.slider.blur();
      state.held = false;
    };
    for (const name of ["pointerup", "pointercancel", "blur"]) window.addEventListener(name, release);
    this.track.addEventListener("pointermove", (event) => this.hover(event));
    this.track.addEventListener("pointerleave", () => this.tip.classList.remove("shown"));
  }

  open(): void {
    this.drawn = null;
    this.drawCurves ??= makeBackdrop(this.backdrop);
  }

  private hover(event: PointerEvent): void {
    const match = this.state.match;
    if (!match) return;
    const box = this.track.getBoundingClientRect();
    const share = Math.max(0, Math.min(1, (event.clientX - box.left) / box.width));
    const tick = share * shownEnd(this.state, match);
    const hz = match.header.tick_hz;
    const near = match.markers
      .filter((marker) => mayShow(this.state, marker.tick) && Math.abs(marker.tick - tick) < NEAR_S * hz)
      .sort((a, b) => Math.abs(a.tick - tick) - Math.abs(b.tick - tick))[0];
    const kill = near?.kind === EventKind.KILL ? killText(match.header, match.kills.of(near.target, near.tick)) : "";
    const text = near ? `${markerText(match.header, near)}${kill ? ` (${kill})` : ""}` : "";
    setText(this.tip, `${clockText((near?.tick ?? tick) / hz)}  ${text}`.trimEnd());
    placeTip(this.tip, this.root, event.clientX);
  }

  update(match: MatchState): void {
    const { state } = this;
    const last = Math.max(1, shownEnd(state, match));
    const hz = match.header.tick_hz;
    if (this.drawn !== match.index || this.drawnEnd !== last) this.drawIndex(match, last);
    const share = `${((state.tick / last) * 100).toFixed(3)}%`;
    this.win.update(match, last);
    this.root.classList.toggle("unseen", !mayShow(state));
    setLabel(
      this.next,
      mayShow(state) ? "Next moment (N)" : `${control.BLIND_S} s ahead; moments ahead are hidden (N)`,
    );
    this.root.style.setProperty("--seen", share);
    this.head.style.left = share;
    this.past.style.width = share;
    this.slider.max = String(last);
    this.slider.value = String(Math.round(state.tick));
    setText(this.now, `${clockText(state.tick / hz)}.${Math.floor(((state.tick / hz) % 1) * 10)}`);
    setText(this.end, clockText(last / hz));
    const ended = !mayShow(state)
      ? "Time limit"
      : match.index.outcome && !match.index.live
        ? "End of the match"
        : "Recorded so far";
    this.end.dataset.tip = `${ended}; its time limit is ${clockText(match.header.duration_s)}`;
    this.showLoop(last);
    this.showPlaying();
    this.showLive(match);
    this.showLoaded(match, last);
    const at = match.markers.findLast(
      (marker) => mayShow(state, marker.tick) && Math.abs(marker.tick - state.tick) < NEAR_S * hz,
    );
    this.slider.setAttribute(
      "aria-valuetext",
      `${clockText(state.tick / hz)}${at ? `, ${markerText(match.header, at)}` : ""}`,
    );
  }

  private showPlaying(): void {
    const { playing, speed, paced } = this.state;
    const shape = !playing ? ICONS.play : ICONS.pause;
    const path = this.play.querySelector("path");
    if (path && path.getAttribute("d") !== shape) path.setAttribute("d", shape);
    this.play.classList.toggle("backward", playing && speed < 0);
    setLabel(this.turn, speed < 0 ? "Play forward (R)" : "Play backward (R)");
    const [chosen, pace] = [paced && speed === 1 ? AUTO : String(speed), control.pace(this.state)];
    setText(this.auto, pace === 1 ? AUTO : `${AUTO} ${pace}×`);
    if (document.activeElement !== this.speed && this.speed.value !== chosen) this.speed.value = chosen;
  }

  private showLoop(last: number): void {
    const { loop, loopFrom, tick } = this.state;
    const [from, to] = loop ?? (loopFrom === null ? [0, 0] : [Math.min(loopFrom, tick), Math.max(loopFrom, tick)]);
    this.loop.hidden = loop === null && loopFrom === null;
    this.loop.classList.toggle("open", loop === null);
    this.loop.style.left = `${(from / last) * 100}%`;
    this.loop.style.width = `${(Math.max(0, to - from) / last) * 100}%`;
    this.loopButton.setAttribute("aria-pressed", String(loop !== null || loopFrom !== null));
  }

  private showLive(match: MatchState): void {
    const { state } = this;
    this.newest.hidden = !inCatalogue(match);
    this.newest.setAttribute("aria-pressed", String(state.followNewest));
    this.live.hidden = !match.index.live;
    if (!match.index.live) return;
    const label = state.lost ? "offline" : liveText(control.secondsBehind(state), state.following);
    this.live.classList.toggle("on", label === LIVE);
    setText(this.live, label);
  }

  private showLoaded(match: MatchState, last: number): void {
    const numbers = match.store.loaded().sort((a, b) => a - b);
    const key = `${numbers.join(" ")} ${last}`;
    if (key === this.shownLoaded) return;
    this.shownLoaded = key;
    this.loaded.replaceChildren(
      ...numbers.map((number) => {
        const [from, to] = match.index.chunks[number] ?? [0, 0];
        const part = el("i");
        part.style.left = `${(from / last) * 100}%`;
        part.style.width = `${((to - from) / last) * 100}%`;
        return part;
      }),
    );
  }

  private drawIndex(match: MatchState, last: number): void {
    this.drawn = match.index;
    this.drawnEnd = last;
    this.drawCurves?.(match.index.series, last / match.header.tick_hz, match.index.outcome);
    this.marks.replaceChildren(
      ...match.markers.map((marker) => this.mark(match, marker, last)).filter((mark) => mark !== null),
    );
  }

  private mark(match: MatchState, marker: Marker, last: number): HTMLElement | null {
    const { roster } = match.header;
    const team = roster[marker.actor]?.team ?? -1;
    // a kill by a hazard counts for the other team
    const counts = team < 0 ? 1 - (roster[marker.target]?.team ?? 0) : team;
    const lane = LANES.findIndex((each) => each.kind === marker.kind && (each.team ?? counts) === counts);
    if (lane < 0) return null;
    const mark = el("i", {
      class: `mark ${LANES[lane].className} ${team === 0 ? "blue" : team === 1 ? "red" : "hazard"}`,
    });
    mark.style.left = `${(marker.tick / last) * 100}%`;
    return mark;
  }
}
