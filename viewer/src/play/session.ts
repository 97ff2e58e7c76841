// A play session as the page sees it: connection, seat, match in progress and what-if requests. The panels read its
// state once per frame; nothing here touches the DOM.

import * as control from "../control";
import { errorText } from "../text";
import { frameAt } from "../interpolate";
import type * as protocol from "../protocol.gen";
import { ACTION_NAMES, CHASSIS_NAMES, MechFlag, PLAY_MAX_CLIENT_RATE } from "../protocol.gen";
import type { MatchState, ViewerState } from "../state";
import type { Command } from "./bindings";
import type { Controls } from "./controls";
import { SIDES } from "./gauges";
import { Ladder } from "./ladder";
import { LiveMatch } from "./live_match";
import { PlaySocket, type SocketEvents } from "./socket";
import { recall, remember } from "../storage";

const INPUT_MS = 1000 / (PLAY_MAX_CLIENT_RATE - 12); // least time between two inputs; other messages need room
const PACK = 5; // mechs
const PACES = [0.1, 0.25, 0.5, 1, 2, 4] as const;
const SMOOTHED = 0.2; // weight of a new latency
const MOST_LATENCIES = 400;
const SLOW_PICTURE_MS = 30; // time of a picture above which none are drawn between two frames
const MOST_PICTURE_MS = 1000; // longest time that counts, as of a page that was hidden
const ANSWER_LOST = "The connection to the session was lost before the result; ask again.";
const WATCH_S = 1; // time after the end of a mech, and between two requests, before a team mate is watched
const FLIGHT = 14; // speed of the free camera after the end of the pilot's mech [vox/s]
const LATEST_LAG = 1.5; // most frames by which the picture is behind the newest

type Socket = Pick<PlaySocket, "send" | "close">;
/** Returns a connection to a session. */
export type Connect = (token: string, events: SocketEvents) => Socket;
export type Phase = "off" | "connecting" | "ready" | "flying" | "lost" | "closed";

export interface WhatIf {
  readonly request: protocol.PlayWhatIf;
  text: string; // progress
  share: number; // of the continuations played
  result: protocol.PlayWhatIfResult | null;
  problem: string;
}

/** A request for the mistakes of a match. */
export interface CoachRequest {
  readonly id: number;
  readonly match: string; // id of the match
  text: string; // progress
  share: number; // of the continuations played
  done: boolean;
  problem: string;
}

/** The connection and everything received. */
export class PlaySession {
  phase: Phase = "off";
  problem = ""; // one line, "" for none
  welcome: protocol.PlayWelcome | null = null;
  session: protocol.PlaySessionState | null = null;
  progress = ""; // of loading a match
  live: LiveMatch | null = null;
  ended: protocol.PlayEnded | null = null;
  whatIf: WhatIf | null = null;
  coach: CoachRequest | null = null;
  /** Called when mistakes were stored in the recording of a match. */
  onCoached: (match: string) => void = () => undefined;
  seatLost = ""; // why the seat is gone, "" while it is not
  tutorial = false; // whether no other mech moves
  opponent = ""; // of the session's own match
  private isDialogOpen = false;
  private stopped = false; // whether the match was paused for that dialog
  target = -1; // chosen target, -1 for the one nearest to the aim
  /** Time from an input to its first picture [ms], the last ones. */
  readonly latencies: number[] = [];
  latency = 0; // smoothed [ms]
  private socket: Socket | null = null;
  token = ""; // of the session; in a page without a server the name of its game
  private key = ""; // of the seat
  private seat = ""; // its mech
  private waits = false; // whether a requested seat has not been given yet
  private seq = 0;
  private sent: Uint8Array = new Uint8Array();
  private sentAt = 0;
  private timer: ReturnType<typeof setTimeout> | 0 = 0; // of controls that changed too soon after the last ones
  private pending: { seq: number; at: number } | null = null; // input whose picture is awaited
  private arrived = 0; // time of the newest frame [ms]
  private watchAt = Infinity; // time at which the next team mate is asked for [ms]
  private requests = 0;
  private moved = false; // whether the last frame of the page moved the picture
  private pictureMs = 0; // time that such a frame takes, smoothed
  private advancedAt = 0; // time of the last one [ms]
  private pictured = false; // whether a complete picture of the match has been drawn

  constructor(
    private readonly state: ViewerState,
    url: string,
    private readonly socketOf: Connect = (token, events) => new PlaySocket(url, token, events),
    readonly ladder = new Ladder(),
  ) {}

  /** Connect with a token; `seat` asks for the first free seat, as after `echelon play`. */
  connect(token: string, seat: boolean): void {
    this.socket?.close();
    this.token = token;
    this.phase = "connecting";
    this.problem = "";
    this.waits = seat;
    if (!seat) this.key ||= recall("seat") ?? "";
    this.socket = this.socketOf(token, {
      message: (message) => this.receive(message),
      lost: () => (this.phase = "lost"),
      closed: (reason) => {
        this.phase = "closed";
        this.problem = reason;
      },
    });
  }

  /** Connect again, as after the session has ended, or to another one. */
  reconnect(token = this.token): void {
    if (this.phase === "off" || this.phase === "closed" || token !== this.token) this.connect(token, false);
  }

  get open(): boolean {
    return this.phase === "ready" || this.phase === "flying";
  }

  /** Number of seats of the match that is flown: those of the session, one where it was taken over. */
  get seats(): number {
    return this.live?.match.header.parent ? 1 : (this.welcome?.seats ?? 1);
  }

  /** Whether this client may pause and change the pace. */
  get alone(): boolean {
    return (this.session?.seats.length ?? 0) <= 1;
  }

  private receive(message: protocol.PlayMessage): void {
    switch (message.t) {
      case "welcome":
        // answers to a connection that was lost do not arrive; mistakes are stored as long as their session lives
        if (this.welcome && this.whatIf?.result === null) this.whatIf.problem ||= ANSWER_LOST;
        if (this.coach?.done === false && this.welcome?.session !== message.session) this.coach.problem ||= ANSWER_LOST;
        this.welcome = message;
        this.problem = "";
        this.phase = this.live ? "flying" : "ready";
        this.waits ||= this.key !== "";
        return;
      case "state":
        // why there is no match
        if (message.phase === "idle" && message.note !== "" && message.note !== this.session?.note)
          this.state.problem = errorText(message.note);
        this.session = message;
        if (this.waits && message.phase === "playing") {
          this.waits = false;
          this.send({ t: "take", mech: this.seat, key: this.key });
        }
        if (message.phase !== "loading") this.progress = "";
        else this.progress ||= message.note;
        return;
      case "progress":
        if (message.id < 0) this.progress = message.text;
        else
          Object.assign(this.asked(message.id) ?? {}, {
            text: message.text,
            share: message.total > 0 ? message.done / message.total : 0,
          });
        return;
      case "begin":
        this.begin(message);
        return;
      case "frame":
        if (!this.live) return;
        this.live.add(message);
        this.arrived = performance.now();
        if (this.pending && message.seq >= this.pending.seq) this.shownNext = this.pending.at;
        return;
      case "what_if":
        if (this.whatIf?.request.id === message.id) Object.assign(this.whatIf, { result: message, share: 1, text: "" });
        return;
      case "coached":
        if (this.coach?.id !== message.id) return;
        Object.assign(this.coach, { done: true, text: "The search has ended; its result is being read" });
        this.onCoached(this.coach.match);
        return;
      case "ended":
        this.ended = message;
        return;
      case "error":
        // controls that were on their way when the match ended
        if ((this.ended && message.re === "input") || message.re === "watch") return;
        this.refuse(message.id, message.text);
        if (message.re === "start") this.progress = "";
        // the seat was freed, or taken in another tab
        if (message.code === "seat" && (message.re === "take" || message.re === "")) this.lose(message.text);
        return;
      case "pong":
    }
  }

  /** Return the pending request with this id. */
  private asked(id: number): WhatIf | CoachRequest | null {
    return this.whatIf?.request.id === id ? this.whatIf : this.coach?.id === id ? this.coach : null;
  }

  private refuse(id: number, text: string): void {
    const asked = this.asked(id);
    if (asked) asked.problem ||= text;
    else if (id < 0) this.problem = text; // others are of a request that was given up
  }

  private begin(message: Extract<protocol.PlayMessage, { t: "begin" }>): void {
    this.live?.close();
    this.live = new LiveMatch(message);
    this.setKey(message.key);
    this.seat = message.header.roster[message.mech].name;
    this.waits = false;
    this.ended = null;
    this.progress = this.problem = this.seatLost = "";
    this.tutorial = message.tutorial;
    this.opponent = message.opponent;
    this.stopped = this.isDialogOpen = false;
    this.target = -1;
    this.watchAt = Infinity;
    this.pending = null;
    this.pictured = false;
    this.sent = new Uint8Array();
    this.phase = "flying";
    const { match } = this.live;
    control.openMatch(this.state, match);
    Object.assign(this.state, { flying: true, followNewest: false, playing: false, selected: message.mech });
    const { team } = message.header.roster[message.mech];
    if (message.command) Object.assign(this.state, { selected: -1, fog: SIDES[team] });
    else control.setCameraMode(this.state, "first");
    void match.source.scenery().then(
      (scenery) => (match.scenery = scenery),
      () => (this.problem = "The map of the match cannot be read."),
    );
  }

  /** Keep the key of the seat, which takes it again also after the page has been loaded again. */
  private setKey(key: string): void {
    this.key = key;
    remember("seat", key);
  }

  /** Give the seat up for a reason in one line. */
  private lose(reason: string): void {
    this.setKey("");
    this.seat = "";
    this.seatLost = this.live ? reason : "";
    if (!this.live && reason !== "") this.state.problem = `No seat: ${reason}`;
  }

  /** Start a match or take one over; the answer is `begin` or a problem. */
  start(request: Omit<protocol.PlayStart, "t">): void {
    this.problem = "";
    this.progress = "Preparing the match";
    if (!this.send({ t: "start", ...request })) this.problem = "The play session does not respond.";
  }

  ask(request: Omit<protocol.PlayWhatIf, "t" | "id">): void {
    const id = ++this.requests;
    if (this.whatIf && !this.whatIf.result) this.send({ t: "cancel", id: this.whatIf.request.id });
    const whole: protocol.PlayWhatIf = { t: "what_if", id, ...request };
    this.whatIf = { request: whole, text: "Reconstructing the moment", share: 0, result: null, problem: "" };
    if (!this.send(whole)) this.whatIf.problem = "The play session does not respond.";
  }

  cancel(): void {
    if (this.whatIf && !this.whatIf.result) this.send({ t: "cancel", id: this.whatIf.request.id });
    this.whatIf = null;
  }

  /** Ask for the mistakes of a match; they are stored in its recording. */
  findMistakes(match: MatchState, { run, file }: protocol.PlaySource = match, who = ""): void {
    const id = ++this.requests;
    this.coach = { id, match: match.id, text: "Reconstructing the moments", share: 0, done: false, problem: "" };
    const sent = this.send({ t: "coach", id, source: { run, file }, who });
    if (!sent) this.coach.problem = "The play session does not respond.";
  }

  stopCoach(): void {
    const { coach } = this;
    if (!coach || coach.done || coach.problem !== "") return;
    this.send({ t: "cancel", id: coach.id });
    coach.problem = "The search was stopped before its result.";
  }

  togglePause(): void {
    const { session } = this;
    if (!session) return;
    if (!this.alone) this.problem = "Another pilot plays too: no one can pause.";
    else this.send({ t: "pace", paused: !session.paused, speed: session.speed });
  }

  /** Pause a match without other pilots while a dialog is open; returns whether a match goes on behind it. */
  waitFor(isOpen: boolean): boolean {
    const { session } = this;
    if (!session || session.phase !== "playing" || this.ended) return false;
    if (!this.alone) return isOpen;
    if (isOpen === this.isDialogOpen) return false;
    this.isDialogOpen = isOpen;
    if (isOpen) this.stopped = !session.paused;
    if (this.stopped && session.paused !== isOpen) this.togglePause();
    return false;
  }

  changePace(step: 1 | -1): void {
    const { session } = this;
    if (!session) return;
    const nearest = PACES.reduce((a, b) => (Math.abs(b - session.speed) < Math.abs(a - session.speed) ? b : a));
    const speed = PACES[Math.max(0, Math.min(PACES.length - 1, PACES.indexOf(nearest) + step))];
    if (!this.alone) this.problem = "Another pilot plays too: the pace stays.";
    else this.send({ t: "pace", paused: false, speed });
  }

  leave(): void {
    if (this.live && this.key !== "" && !this.ended) this.send({ t: "leave" }); // seats end with their match
    this.lose("");
    this.live?.close();
    this.live = null;
    this.ended = null;
    this.problem = this.seatLost = "";
    if (this.phase === "flying") this.phase = "ready";
    if (this.phase === "lost") {
      this.socket?.close();
      this.phase = "closed";
    }
    this.state.flying = false;
  }

  /** Begin a new match against an opponent. */
  challenge(opponent: string): void {
    this.start({ opponent, mates: this.ladder.matesAgainst(opponent) });
  }

  /** The tick at which the match began [tick]: 0, or the moment that was taken over. */
  get beginning(): number {
    return this.live?.match.header.parent?.tick ?? 0;
  }

  restart(): void {
    this.start({ source: {}, tick: this.beginning, seat: this.seat });
  }

  get recording(): protocol.PlaySource | null {
    return this.ended?.source.file ? this.ended.source : null;
  }

  /** Look through the next or previous living team mate. */
  watch(step: 1 | -1): void {
    if (this.live?.death && !this.ended) this.send({ t: "watch", step });
    this.watchAt = Infinity;
  }

  /** Follow the team mate that is watched, or leave it for the free camera. */
  toggleFree(): void {
    control.setCameraMode(this.state, this.state.camera.mode === "free" ? "follow" : "free");
  }

  /** Watch team mates after the end of the pilot's mech, one after the other as they are destroyed. */
  private spectate(live: LiveMatch, controls: Controls, now: number, elapsed: number): void {
    const { state } = this;
    if (this.isAlive(live.pilot)) this.watchAt = Infinity;
    else if (this.watchAt === Infinity) this.watchAt = now + WATCH_S * 1000;
    else if (now >= this.watchAt) this.watch(1);
    if (!live.watching) return;
    if (state.camera.mode !== "free") {
      state.selected = live.pilot;
      if (state.camera.mode !== "follow") control.setCameraMode(state, "follow");
    } else {
      const along = (plus: Command, minus: Command) => Number(controls.isHeld(plus)) - Number(controls.isHeld(minus));
      const pace = FLIGHT * elapsed;
      control.fly(state, along("forward", "back") * pace, along("right", "left") * pace);
    }
  }

  /** Move the picture to the newest frame, and send the controls if they have changed; called every frame. */
  fly(controls: Controls, now: number, elapsed = 0): void {
    const { live, state } = this;
    if (!live || state.match !== live.match) return;
    this.advance(live, now);
    if (live.death || live.watching) this.spectate(live, controls, now, elapsed);
    if (live.watching) return;
    if (live.match.commanded) return this.steer(controls, now);
    Object.assign(state.camera, {
      azimuth: controls.aim === null ? 0 : controls.aim - live.match.poses.yaw[live.pilot],
      elevation: controls.pitch,
    });
    this.steer(controls, now);
  }

  /** Send the controls if they have changed; called every frame, and by keys and buttons at once. */
  steer(controls: Controls, now: number): void {
    const { live } = this;
    if (!live || this.ended || this.key === "") return;
    // the first input starts the clock of a match that waits for the picture
    if (!this.pictured && this.session?.note !== "") return;
    if (now - this.sentAt < INPUT_MS) {
      this.timer ||= setTimeout(() => {
        this.timer = 0;
        this.steer(controls, performance.now());
      }, INPUT_MS);
      return;
    }
    const { match, pilot } = live;
    const heading = match.poses.yaw[pilot];
    const chassis = match.header.chassis[match.header.roster[pilot].chassis]?.name;
    const scout = chassis === CHASSIS_NAMES[0];
    const targetSlot = this.targetSlot(live, controls.aim ?? heading);
    const action = match.commanded // a commander flies no mech
      ? new Uint8Array(ACTION_NAMES.length)
      : controls.action({ heading, scout, targetSlot });
    if (action.every((value, i) => value === this.sent[i])) return;
    if (!this.send({ t: "input", seq: ++this.seq, action })) return;
    [this.sent, this.sentAt] = [action, now];
    if (this.session?.note === "") this.pending ??= { seq: this.seq, at: now };
  }

  private shownNext = 0; // time of the input whose frame has arrived and is drawn next, 0 for none

  /** A picture with the newest frame has been drawn; `complete` is one with the map. */
  drawn(now: number, complete: boolean): void {
    this.pictured ||= complete;
    if (this.shownNext === 0) return;
    const taken = now - this.shownNext;
    this.latency = this.latencies.length === 0 ? taken : this.latency + (taken - this.latency) * SMOOTHED;
    this.latencies.push(taken);
    if (this.latencies.length > MOST_LATENCIES) this.latencies.shift();
    this.shownNext = 0;
    this.pending = null;
  }

  /**
   * Move the cursor toward the newest frame, over the time until the next. A machine that draws slowly draws each frame
   * once: pictures in between would delay the arrival of the next one.
   */
  private advance(live: LiveMatch, now: number): void {
    const { state } = this;
    if (this.moved) this.pictureMs += (Math.min(now - this.advancedAt, MOST_PICTURE_MS) - this.pictureMs) * SMOOTHED;
    this.advancedAt = now;
    const hz = live.match.header.tick_hz * (this.session?.speed ?? 1);
    const before = Math.max(live.previousTick, live.tick - LATEST_LAG);
    const between = Math.min(live.tick, before + ((now - this.arrived) / 1000) * hz);
    const tick = this.pictureMs > SLOW_PICTURE_MS ? live.tick : between;
    this.moved = tick !== state.tick;
    state.tick = tick;
    control.updateCursor(state);
    live.perceive();
  }

  /** Return the display slot of the target: the chosen mech, else the hostile nearest to the aim. */
  private targetSlot(live: LiveMatch, aim: number): number {
    const { poses, pilot } = live.match;
    const known = pilot?.contacts.filter(({ listed }) => listed) ?? [];
    const off = ({ x, y }: { x: number; y: number }) => {
      const angle = Math.atan2(y - poses.y[live.pilot], x - poses.x[live.pilot]) - aim;
      return Math.abs(Math.atan2(Math.sin(angle), Math.cos(angle)));
    };
    const nearest = known.reduce<(typeof known)[number] | null>((a, b) => (a && off(a) <= off(b) ? a : b), null);
    const mech = known.some((contact) => contact.mech === this.target) ? this.target : (nearest?.mech ?? -1);
    return live.contacts.find((row) => row.mech === mech)?.slot ?? -1;
  }

  nextTarget(): void {
    const listed = this.live?.match.pilot?.contacts.filter(({ listed: shown }) => shown) ?? [];
    const at = listed.findIndex(({ mech }) => mech === this.target);
    this.target = listed[(at + 1) % Math.max(1, listed.length)]?.mech ?? -1;
  }

  mate = ""; // team mate that gets the next order, "" all

  /** Choose the next team mate of the pack for orders, after the last one all. */
  nextMate(): void {
    const names = ["", ...this.mates.map(({ name }) => name)];
    this.mate = names[(names.indexOf(this.mate) + 1) % names.length];
  }

  order(order: string, mechs = this.mate === "" ? [] : [this.mate], target = ""): void {
    this.send({ t: "orders", order, mechs, target });
  }

  /** Team mates of the pilot's pack, with the index of their order. */
  get mates(): { name: string; order: number }[] {
    const { live } = this;
    if (!live) return [];
    const { roster } = live.match.header;
    const first = live.pilot - (live.pilot % PACK);
    const rows = live.orders.map((order, i) => ({ name: roster[first + i].name, order, mech: first + i }));
    return rows.filter(({ mech }) => mech !== live.pilot && this.isAlive(mech));
  }

  get alive(): boolean {
    const { live } = this;
    return live !== null && !live.watching && this.isAlive(live.pilot);
  }

  private isAlive(mech: number): boolean {
    return ((this.live?.match.poses.flags[mech] ?? 0) & MechFlag.ALIVE) !== 0;
  }

  /** Remaining ticks of each cooldown of the pilot's mech. */
  get cooldown(): Float32Array {
    const { live } = this;
    const chunk = live?.match.chunk;
    if (!live || !chunk) return new Float32Array();
    const count = live.match.header.cooldowns.length;
    const at = (frameAt(chunk, this.state.tick).frame * chunk.mechs + live.pilot) * count;
    return chunk.cooldown.subarray(at, at + count);
  }

  private send(request: protocol.PlayRequest): boolean {
    return this.socket?.send(request) ?? false;
  }
}
