// The cockpit: instruments over the first-person picture of a match in progress, and what it reports of the
// session: pause, lost connection, end. Reticle, contact boxes and radar scope are those of the picture's overlay.

import { ICONS, button, el, icon, setShare, setText, textButton } from "../hud/dom";
import { EventKind, MechFlag, type PlayEnded } from "../protocol.gen";
import type { ViewerState } from "../state";
import { clockLine, goalLine, holdAt } from "../score_text";
import { policyName, rangeText } from "../text";
import { clockText, pointsText } from "../timeline";
import { type Command, buttonLabel, keyLabel } from "./bindings";
import {
  SIDES,
  bearing,
  figureRows,
  gauges,
  hitDirection,
  holdLines,
  knownName,
  readings,
  resultLine,
  waitLine,
  walksOut,
  warnings,
  weapons,
} from "./gauges";
import { Aftermath } from "./aftermath";
import type { PilotInput } from "./input";
import { type LiveMatch, isOwnHit } from "./live_match";
import { ORDERS } from "./orders";
import type { PlaySession } from "./session";
import { TOUCH_LINE, TOUCH_WORDS } from "./touch";
import { STEPS } from "./tutorial";

const HITS = 5; // arcs of damage directions
const HIT_S = 2.5; // time for which one is shown [s]
const FEED = 4; // lines of the feed
const FEED_S = 8; // time for which a line is shown [s]
const MARK_S = 0.4; // time for which a hit is marked at the reticle [s]
const SUM_S = 1.5; // time after a hit for which the next one is added to its damage [s]
const NEWS_S = 3; // time for which a line below the reticle is shown [s]
const WAIT_MS = 600; // time after which a match that waits is reported
const TOUCHED = [
  ["jets", "Jump"],
  ["vent", "Vent"],
  ["next_target", "Target"],
] as const; // controls that have a tile for touch only
const GOAL_S = 12; // time at the beginning for which goal and controls are shown
const SLOW_MS = 90; // update interval of what need not be smooth
const ARC = "M -42 -112 A 120 120 0 0 1 42 -112 L 36 -96 A 103 103 0 0 0 -36 -96 Z";

export interface CockpitActions {
  showControls(): void;
  leave(): void;
  watch(): void;
  download(): void;
  coach(): void;
}

const KEYS = ["primary", "help", "forward", "left", "back", "right"] as const;
const words = (order: number) => (order > 0 ? ORDERS[order].word : "–");

interface Tile {
  readonly root: HTMLElement;
  readonly fill: HTMLElement;
  readonly left: HTMLElement;
  readonly key: HTMLElement;
}

export class Cockpit {
  readonly root: HTMLElement;
  readonly surface = el("div", { class: "cockpit-surface" });
  private readonly score = [0, 1].map((team) => el("b", { class: `cockpit-points ${["blue", "red"][team]}` }));
  private readonly clock = el("span", { class: "cockpit-clock" });
  private readonly zoneArrow = el("i", { class: "zone-arrow", aria: { hidden: "true" } });
  private readonly zoneText = el("span");
  private readonly bars = new Map<string, { root: HTMLElement; fill: HTMLElement; value: HTMLElement }>();
  private readonly gauges = el("div", { class: "cockpit-gauges" });
  private readonly weapons = el("div", { class: "cockpit-weapons" });
  private tiles: Tile[] = [];
  private readonly target = el("section", { class: "panel cockpit-target", aria: { label: "Target" } });
  private readonly targetName = el("h3");
  private readonly targetRows = el("dl");
  private readonly warning = el("div", { class: "cockpit-warnings", attributes: { role: "status" } });
  private readonly feed = el("ul", { class: "cockpit-feed" });
  private readonly arcs = Array.from({ length: HITS }, () => {
    const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
    path.setAttribute("d", ARC);
    return path;
  });
  private readonly status = el("span", { class: "cockpit-status small" });
  private readonly pause: HTMLButtonElement;
  private readonly hint = el("div", { class: "cockpit-hint" });
  private readonly orders = el("div", { class: "panel cockpit-orders small", aria: { label: "Orders of the pack" } });
  private readonly holds = el("div", { class: "cockpit-holds" });
  private readonly marker = el("i", { class: "cockpit-marker", aria: { hidden: "true" } });
  private readonly dealt = el("b", { class: "cockpit-dealt" });
  private readonly news = el("div", { class: "cockpit-news", attributes: { role: "status" } });
  private readonly lessonText = el("p", { attributes: { role: "status" } });
  private readonly lessonSkip = textButton("", () => this.skip(), "button framed");
  private readonly lesson: HTMLElement;
  private readonly card = el("section", { class: "panel cockpit-card", attributes: { role: "status" } });
  private readonly cardTitle = el("h2");
  private readonly cardText = el("p", { class: "soft" });
  private readonly cardFigures = el("dl", { class: "cockpit-figures" });
  private readonly cardButtons: Record<"next" | "again" | "coach" | "watch" | "download" | "leave", HTMLButtonElement>;
  private readonly aftermath: Aftermath;
  private hits: { angle: number; at: number }[] = [];
  private heard = -1; // tick of the last event shown
  private shown: LiveMatch | null = null;
  private openedAt = 0; // time at which the match began for this page [ms]
  private slowAt = 0;
  private step = 0; // of the tutorial
  private stepFrom = { x: 0, y: 0, yaw: 0, dealt: 0, at: 0 };
  private damage = { sum: 0, at: -Infinity }; // done by the last hits in a row, and time of the last [ms]
  private newsAt = -Infinity; // time of the line below the reticle [ms]
  private inside: boolean | null = null; // whether the mech was in the zone, null at the start

  constructor(
    private readonly state: ViewerState,
    private readonly play: PlaySession,
    private readonly input: () => PilotInput,
    actions: CockpitActions,
  ) {
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("class", "cockpit-hits");
    svg.setAttribute("viewBox", "-130 -130 260 260");
    svg.setAttribute("aria-hidden", "true");
    svg.append(...this.arcs);
    this.aftermath = new Aftermath(state, play, (command) => this.keyOf(command));
    for (const name of ["Hull", "Legs", "Heat", "Stability"]) this.gauges.append(this.bar(name));
    this.target.append(this.targetName, this.targetRows);
    this.pause = button("Pause", icon(ICONS.pause), () => play.togglePause());
    const again = textButton("From the first step", () => this.repeat(), "button framed");
    this.lesson = el("section", { class: "panel cockpit-lesson", aria: { label: "Tutorial" } }, [
      this.lessonText,
      el("div", {}, [this.lessonSkip, again]),
    ]);
    this.cardButtons = {
      next: textButton("", () => play.challenge(this.challenge), "button wide framed primary"),
      coach: textButton("My mistakes, measured", () => actions.coach(), "button wide framed asks-coach"),
      watch: textButton("Watch the recording", () => actions.watch(), "button wide framed"),
      download: textButton("Download the recording", () => actions.download(), "button wide framed"),
      again: textButton("", () => play.restart(), "button wide framed"),
      leave: textButton("Leave", () => actions.leave(), "button wide framed"),
    };
    this.card.append(
      this.cardTitle,
      this.cardText,
      this.cardFigures,
      el("div", { class: "cockpit-choices" }, Object.values(this.cardButtons)),
    );
    const tiles = ORDERS.map(({ order, sign, label, word }) =>
      button(label, `${sign || "×"} ${word}`, () => play.order(order), "button framed"),
    );
    this.orders.addEventListener("click", () => play.nextMate());
    this.root = el("div", { class: "cockpit", aria: { label: "Cockpit" } }, [
      this.surface,
      svg as unknown as HTMLElement,
      el("i", { class: "cockpit-aim", aria: { hidden: "true" } }),
      this.marker,
      this.dealt,
      el("div", { class: "cockpit-words" }, [this.holds, this.news]),
      el("div", { class: "panel cockpit-score" }, [
        this.score[0],
        this.clock,
        this.score[1],
        el("span", { class: "cockpit-zone small" }, [this.zoneArrow, this.zoneText]),
      ]),
      el("nav", { class: "panel cockpit-tools", aria: { label: "Session" } }, [
        this.status,
        this.pause,
        button("Controls (?)", icon(ICONS.help), () => actions.showControls()),
        button("Leave the match", icon(ICONS.close), () => actions.leave()),
      ]),
      this.feed,
      this.warning,
      this.hint,
      el("div", { class: "cockpit-systems" }, [this.gauges, this.weapons]),
      this.target,
      this.orders,
      el("div", { class: "cockpit-tiles by-touch" }, tiles),
      this.lesson,
      this.aftermath.report,
      this.aftermath.bar,
      this.card,
    ]);
    this.root.hidden = true;
  }

  private bar(name: string): HTMLElement {
    const [fill, value] = [el("i"), el("b")];
    const root = el("div", { class: `cockpit-bar small ${name.toLowerCase()}` }, [
      el("span", { text: name }),
      el("div", { class: "cockpit-track" }, [fill]),
      value,
    ]);
    this.bars.set(name, { root, fill, value });
    return root;
  }

  /** Return the key or button of a control, by the device used last. */
  private keyOf(command: Command): string {
    const { keys, buttons } = this.input().controls.bindings[command];
    if (this.input().device === "touch") return TOUCH_WORDS[command] ?? "–";
    const pad = this.input().device === "gamepad" && buttons.length > 0;
    return pad ? buttonLabel(buttons[0]) : keys.length > 0 ? keyLabel(keys[0]) : "–";
  }

  update(now: number): void {
    const { play, state } = this;
    const { live } = play;
    this.root.hidden = !state.flying || !live;
    if (this.root.hidden || !live) return;
    if (this.shown !== live) this.open(live, now);
    this.root.classList.toggle("watching", live.watching);
    this.root.classList.toggle("commands", live.match.commanded !== undefined);
    this.root.classList.toggle("touch", this.input().device === "touch");
    this.aftermath.update();
    this.showEvents(live, now);
    this.showHits(now);
    for (const { name, text, share, grave } of gauges(live)) {
      const bar = this.bars.get(name);
      if (!bar) continue;
      setShare(bar.fill, share);
      setText(bar.value, text);
      bar.root.classList.toggle("grave", grave);
    }
    const tiles = weapons(live.match.header, live.pilot, play.cooldown);
    const { controls } = this.input();
    const held = play.ended ? [] : holdLines(tiles, live, (trigger) => controls.isHeld(trigger));
    setText(this.holds, held.join(" · "));
    const works = play.alive && !(live.match.poses.flags[live.pilot] & MechFlag.SHUTDOWN);
    tiles.forEach(({ left, share }, i) => {
      const tile = this.tiles[i];
      if (!tile) return;
      setShare(tile.fill, works ? share : 0);
      setText(tile.left, left > 0.05 ? left.toFixed(1) : "");
      tile.root.classList.toggle("ready", share >= 1 && works);
      tile.root.classList.toggle("gone", !play.alive);
    });
    const [x, y] = live.match.header.zone;
    const way = bearing(live, x, y);
    this.zoneArrow.style.transform = `rotate(${(way.angle * 180) / Math.PI}deg)`;
    if (now - this.slowAt < SLOW_MS) return;
    this.slowAt = now;
    this.showWords(live, way.distance);
    this.showTarget(live);
    this.showOrders();
    this.showCard(live, now);
    this.showLesson(live, now);
  }

  private open(live: LiveMatch, now: number): void {
    this.shown = live;
    this.openedAt = now;
    this.hits = [];
    this.heard = live.tick;
    this.step = 0;
    this.stepFrom.at = 0;
    this.damage = { sum: 0, at: -Infinity };
    this.newsAt = -Infinity;
    this.inside = null;
    this.feed.replaceChildren();
    const { header } = live.match;
    const { play } = this;
    const { pad } = this.input();
    const act = (command: Command) => command === "next_target" && play.nextTarget();
    this.tiles = weapons(header, live.pilot, []).map(({ name, trigger }) => {
      const [fill, left, key] = [el("i"), el("em"), el("kbd")];
      const range = rangeText(header.weapons.find((weapon) => weapon.name === name));
      const root = el("div", { class: "cockpit-weapon" }, [fill, el("span", { text: `${name}${range}` }), left, key]);
      if (trigger) pad.hold(root, trigger, act);
      else key.className = "automatic";
      return { root, fill, left, key };
    });
    const held = TOUCHED.map(([command, text]) => {
      const root = el("div", { class: "cockpit-weapon by-touch", text });
      pad.hold(root, command, act);
      return root;
    });
    this.weapons.replaceChildren(...this.tiles.map(({ root }) => root), ...held);
    this.surface.tabIndex = -1;
    this.surface.focus({ preventScroll: true });
  }

  private showWords(live: LiveMatch, zoneFar: number): void {
    const { play, state } = this;
    const { match, pilot, senses } = live;
    const { header, poses, chunk } = match;
    const last = chunk ? chunk.frames - 1 : 0;
    for (const team of [0, 1]) setText(this.score[team], pointsText(chunk?.score[last * 2 + team] ?? 0));
    setText(this.clock, clockLine(header, state.tick, !play.tutorial));
    const hold = chunk ? holdAt(chunk, state.tick) : "none";
    const inside = senses.in_zone > 0.5;
    const holder = hold === SIDES[header.roster[pilot].team] ? "your team" : "hostiles";
    const held = hold === "none" ? "" : hold === "both" ? " · contested" : ` · held by ${holder}`;
    const { commanded } = match;
    const place = commanded ? "Zone" : inside ? "In the zone" : `Zone ${zoneFar.toFixed(0)} vox`;
    setText(this.zoneText, `${place}${held}`);
    this.zoneArrow.hidden = inside || commanded !== undefined;
    const { session, latency } = play;
    const pace = session && session.speed !== 1 ? ` · ${session.speed}×` : "";
    const delay = latency > 0 ? ` · ${latency.toFixed(0)} ms` : "";
    const living = commanded?.mechs.filter((mech) => poses.alive[mech] > 0.5).length;
    const paused = session?.paused ? " · paused" : "";
    const who = commanded ? `${living} of ${commanded.mechs.length} alive${paused}` : knownName(header, pilot);
    setText(this.status, `${who}${pace}${delay}`);
    this.pause.disabled = !play.alone;
    this.pause.setAttribute("aria-pressed", String(session?.paused ?? false));
    const found = play.alive ? warnings(poses.flags[pilot], senses) : [];
    if (play.alive && walksOut(match, pilot)) found.unshift("Map edge");
    if (this.inside !== null && inside !== this.inside && play.alive)
      this.tell(inside ? "You are in the zone" : "You have left the zone");
    this.inside = inside;
    setText(this.warning, found.slice(0, 3).join(" · "));
    this.weapons.querySelectorAll("kbd").forEach((key, i) => {
      const { trigger } = weapons(header, pilot, [])[i] ?? { trigger: null };
      setText(key, trigger ? this.keyOf(trigger) : "auto");
    });
    const mouse = this.input().device === "keyboard" && !this.input().captured && play.alive && !commanded;
    const hint = mouse ? "Click to aim with the mouse; Esc releases it." : "";
    const begins = live.tick - play.beginning < GOAL_S * header.tick_hz && !play.tutorial && !commanded;
    const [fire, help, ...walk] = KEYS.map((command) => this.keyOf(command));
    const byKeys = `${walk.join(" ")} walk, ${fire} fires, ${help} has all controls.`;
    const keys = this.input().device === "touch" ? TOUCH_LINE : byKeys;
    setText(this.hint, play.problem || (begins ? `${goalLine(header)} ${keys} ${hint}` : hint));
    this.hint.classList.toggle("problem-line", play.problem !== "");
  }

  /** Show the orders of the team mates, the mark is at those that get the next one. */
  private showOrders(): void {
    const { mates, mate } = this.play;
    const lines = mates.map(({ name, order }) => `${[name, ""].includes(mate) ? "▸" : " "} ${name} ${words(order)}`);
    const keys = `${this.keyOf("order_none")}–${this.keyOf("order_retreat")} order, ${this.keyOf("next_mate")} mate`;
    setText(this.orders, [...lines, this.input().device === "touch" ? "Tap: one mate" : keys].join("\n"));
    this.orders.hidden = mates.length === 0 || !this.play.alive || this.play.tutorial;
  }

  private showTarget(live: LiveMatch): void {
    const { match, pilot } = live;
    const known = match.pilot?.contacts ?? [];
    const target = known.find(({ target: is }) => is);
    const chosen = target ?? known[0];
    const row = chosen ? live.contacts.find(({ mech }) => mech === chosen.mech) : undefined;
    this.target.hidden = !row;
    if (!row || !chosen) return;
    setText(this.targetName, `${target ? "Target" : "Nearest"} ${knownName(match.header, row.mech)}`);
    this.target.className = `panel cockpit-target ${["blue", "red"][1 - match.header.roster[pilot].team]}`;
    const rows = readings(match.header, row, chosen.range);
    while (this.targetRows.children.length < 2 * rows.length) {
      this.targetRows.append(el("dt", { class: "soft" }), el("dd"));
    }
    rows.flat().forEach((text, i) => setText(this.targetRows.children[i], text));
  }

  /** Show kills in the feed, and where hits came from. */
  private showEvents(live: LiveMatch, now: number): void {
    const { header } = live.match;
    for (const event of live.events) {
      if (event.tick <= this.heard) continue;
      if (event.kind === EventKind.HIT && event.target === live.pilot) {
        const angle = hitDirection(live.senses);
        if (angle !== null) this.hits = [{ angle, at: now }, ...this.hits].slice(0, HITS);
      } else if (isOwnHit(event, live) && event.value > 0) {
        const sum = now - this.damage.at < SUM_S * 1000 ? this.damage.sum : 0;
        this.damage = { sum: sum + event.value, at: now };
      } else if (event.kind === EventKind.KILL) {
        const target = knownName(header, event.target);
        const actor = knownName(header, event.actor);
        if (event.actor === live.pilot) this.tell(`You destroyed ${target}`, "kill");
        const text = event.actor < 0 ? `${target} was destroyed` : `${actor} destroyed ${target}`;
        const line = el("li", { text, data: { at: String(now) } });
        this.feed.append(line);
        while (this.feed.children.length > FEED) this.feed.firstElementChild?.remove();
      }
    }
    this.heard = Math.max(this.heard, live.events.at(-1)?.tick ?? -1);
    const first = this.feed.firstElementChild as HTMLElement | null;
    if (first && now - Number(first.dataset.at) > FEED_S * 1000) first.remove();
  }

  /** Show a line below the reticle. */
  private tell(text: string, kind = ""): void {
    setText(this.news, text);
    this.news.className = `cockpit-news ${kind}`;
    this.newsAt = performance.now();
  }

  private showHits(now: number): void {
    const since = (now - this.damage.at) / 1000;
    this.marker.style.opacity = String(Math.max(0, 1 - since / MARK_S));
    this.dealt.hidden = since > SUM_S;
    setText(this.dealt, `${Math.round(this.damage.sum)}`);
    this.news.hidden = now - this.newsAt > NEWS_S * 1000;
    this.arcs.forEach((arc, i) => {
      const hit = this.hits[i];
      const share = hit ? 1 - (now - hit.at) / (HIT_S * 1000) : 0;
      arc.style.opacity = String(Math.max(0, share));
      if (share > 0) arc.setAttribute("transform", `rotate(${(hit.angle * 180) / Math.PI})`);
    });
  }

  /** Show what stops the pilot: no connection, loading, pause, the end of the mech or of the match. */
  private showCard(live: LiveMatch, now: number): void {
    const { play } = this;
    const { ended, session, phase } = play;
    let [title, text] = ["", ""];
    const still = live.match.commanded ? "The match goes on under your orders." : "The mech holds still.";
    const wait = session && now - this.openedAt > WAIT_MS ? waitLine(session, play.seats) : null;
    if (phase === "lost")
      [title, text] = ["Connection lost", `${still} The seat is reserved for 60 s; connecting again…`];
    else if (phase === "closed") [title, text] = ["The session has ended", play.problem];
    else if (play.progress !== "") [title, text] = [play.progress, ""];
    else if (ended) {
      const { reason, winner } = ended;
      const { team } = live.match.header.roster[live.pilot];
      const score = live.match.chunk?.score.slice(-2) ?? [];
      const points = `${[team, 1 - team].map((side) => pointsText(score[side] ?? 0)).join(" : ")} zone points`;
      const against = play.opponent === "" || play.tutorial ? "" : ` against ${policyName(play.opponent)}`;
      [title, text] = [resultLine(winner, reason, team), points + against];
      if (play.problem) text += `. ${play.problem}`;
      if (this.aftermath.line && !live.match.commanded) text += `. ${this.aftermath.line}`;
    } else if (play.seatLost !== "") [title, text] = ["The seat is lost", play.seatLost];
    else if (wait) ({ title, text } = wait);
    else if (session?.paused && !live.match.commanded) [title, text] = ["Paused", `${this.keyOf("pause")} goes on.`];
    this.card.hidden = title === "";
    this.root.classList.toggle("over", ended !== null && !this.card.hidden);
    if (ended !== this.told) this.showFigures(live);
    setText(this.cardTitle, title);
    setText(this.cardText, text);
    const { beginning, recording } = play;
    const from = clockText(beginning / live.match.header.tick_hz);
    setText(
      this.cardButtons.again,
      beginning > 0 ? `Again from ${from}` : play.tutorial ? "The tutorial again" : "The same map again",
    );
    this.cardButtons.watch.hidden = this.cardButtons.download.hidden = recording === null;
    const offers = ended !== null && play.open && play.progress === "";
    this.cardButtons.coach.hidden = !offers || recording === null || live.match.commanded !== undefined;
    this.cardButtons.again.hidden = !offers;
    this.cardButtons.next.hidden = !offers || this.challenge === "";
    this.cardButtons.leave.hidden = session?.paused === true && !ended && phase === "flying";
    if (!this.card.hidden && ended) this.input().release();
  }

  private told: PlayEnded | null = null; // end whose figures are shown
  private challenge = ""; // opponent that the card offers, "" none

  /** Show the pilot's figures of an ended match, and offer the next opponent after a win. */
  private showFigures(live: LiveMatch): void {
    const { ended, opponent, ladder, tutorial } = this.play;
    this.told = ended;
    const rows = ended ? figureRows(ended.figures) : [];
    this.cardFigures.replaceChildren(...rows.flat().map((text, i) => el(i % 2 ? "dd" : "dt", { text })));
    const won = !tutorial && ended !== null && ended.winner === SIDES[live.match.header.roster[live.pilot].team];
    if (won) ladder.climb(opponent);
    const next = ended && ended.winner !== "" ? ladder.next(opponent, won) : null;
    this.challenge = next ?? (won ? "" : opponent);
    const rung = next ? ladder.opponents.indexOf(next) + 1 : 0;
    const against = policyName(opponent);
    const again = tutorial ? `Fight ${against}` : `Against ${against} again, on another map`;
    setText(this.cardButtons.next, next ? `Next opponent: ${next} (${rung} of ${ladder.opponents.length})` : again);
  }

  private repeat(): void {
    this.step = 0;
    this.stepFrom.at = 0;
    this.surface.focus({ preventScroll: true });
  }

  /** Skip a step of the tutorial; after the last one its match begins. */
  skip(): void {
    if (this.lesson.hidden) return;
    if (this.step >= STEPS.length) return this.play.challenge(this.play.opponent);
    this.step++;
    this.stepFrom.at = 0;
    this.surface.focus({ preventScroll: true });
  }

  private showLesson(live: LiveMatch, now: number): void {
    const { poses } = live.match;
    const { play, stepFrom } = this;
    const runs = live.match.chunk !== null && play.session?.note === "" && play.ended === null;
    this.lesson.hidden = !play.tutorial || !runs || play.progress !== "";
    if (this.lesson.hidden) return;
    const at = live.pilot;
    if (stepFrom.at === 0)
      this.stepFrom = { x: poses.x[at], y: poses.y[at], yaw: poses.yaw[at], dealt: live.dealt, at: now };
    const { controls, device } = this.input();
    const touch = device === "touch";
    const seconds = (now - this.stepFrom.at) / 1000;
    const isHeld = (command: Command) => controls.isHeld(command);
    if (STEPS[this.step]?.done({ live, start: this.stepFrom, seconds, isHeld })) this.skip();
    const text = STEPS[this.step]?.text((command) => this.keyOf(command), touch);
    const skip = touch ? "" : ` (${this.keyOf("skip")})`;
    const fight = `That is all. Fight ${policyName(play.opponent)}: the others move then.`;
    setText(this.lessonText, text ? `${this.step + 1} / ${STEPS.length}  ${text}` : fight);
    setText(this.lessonSkip, `${text ? "Skip" : "Fight"}${skip}`);
  }
}
