// The command view: a person commands a team from above. Roster, map and a bar of orders stand over the picture; a
// click, a rectangle or a pack's number chooses mechs, and an order goes to the chosen ones, or to all.

import * as control from "../control";
import { type Pack, packsOf } from "../data/packs";
import type { Box } from "../framing";
import { button, el, setLabel, setText, textButton } from "../hud/dom";
import { Minimap } from "../hud/minimap";
import { Roster } from "../hud/roster";
import type { Screen } from "../screen";
import type { MatchState, ViewerState } from "../state";
import { type Command, keyLabel } from "./bindings";
import type { Controls } from "./controls";
import { ORDERS, type OrderName, type OrderRow, chosenWith, inBox, orderAt } from "./orders";
import type { PlaySession } from "./session";

const SLOW_MS = 90; // update interval of what need not be smooth
const PAN = 0.9; // rate of the camera's keys [distances of the camera/s]
const TURN = 1.6; // [rad/s]
const INSETS = { left: 250, top: 84, right: 16, bottom: 84 }; // of the picture [CSS px]
const NARROW_INSETS = { left: 8, top: 160, right: 8, bottom: 150 };
const PICK_PIXELS = 18; // most distance of a click from a mech, beyond it is ground [CSS px]
const NARROW = 760; // widest window with those [CSS px]

export class CommandView {
  readonly root: HTMLElement;
  private readonly side = el("div", { class: "side left" });
  private roster: Roster | null = null;
  private readonly minimap: Minimap;
  private readonly buttons: readonly HTMLButtonElement[];
  private readonly box = el("i", { class: "command-box", aria: { hidden: "true" } });
  private readonly line = el("p", { class: "small", attributes: { role: "status" } });
  private packs: readonly Pack[] = [];
  private armed: OrderRow | null = null; // order that waits for the mech that it names
  private shown: MatchState | null = null;
  private slowAt = 0;

  constructor(
    private readonly state: ViewerState,
    private readonly play: PlaySession,
    private readonly screen: Screen,
    private readonly controls: () => Controls,
  ) {
    this.minimap = new Minimap(state);
    this.buttons = ORDERS.map((row) => {
      const made = button("", row.sign || "×", () => this.begin(row), "button framed");
      made.append(el("span", { text: row.word }), el("kbd"));
      return made;
    });
    const pace = (step: 1 | -1, text: string, label: string) => button(label, text, () => play.changePace(step));
    const orders = el("div", { class: "command-orders" }, [
      textButton("All", () => this.choose([], false), "button framed"),
      ...this.buttons,
      pace(-1, "−", "Slower"),
      pace(1, "+", "Faster"),
    ]);
    const bar = el("section", { class: "panel command-bar", aria: { label: "Orders" } }, [this.line, orders]);
    this.root = el("div", { class: "command" }, [this.side, this.minimap.root, bar, this.box]);
    this.root.hidden = this.box.hidden = true;
    window.addEventListener("keydown", (event) => this.keyDown(event), { capture: true });
  }

  /** Choose a pack by Shift and its number, which is an order without Shift, or all by Ctrl and A. */
  private keyDown(event: KeyboardEvent): void {
    const digit = event.shiftKey ? /^Digit(\d)$/.exec(event.code) : null;
    const all = event.code === "KeyA" && (event.ctrlKey || event.metaKey);
    if ((!digit && !all) || this.root.hidden) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    this.choose(digit ? (this.packs[(Number(digit[1]) + 9) % 10]?.mechs ?? []) : [], false);
  }

  /** Choose living mechs for the next order, none for all. */
  private choose(mechs: readonly number[], more: boolean): void {
    const { commanded, poses } = this.shown ?? {};
    const living = mechs.filter((mech) => poses && poses.alive[mech] > 0.5);
    if (commanded) commanded.chosen = chosenWith(commanded.chosen, living, more);
  }

  /** Give an order, or wait for the mech that it names. */
  private begin(row: OrderRow): void {
    if (row.names) this.armed = this.armed === row ? null : row;
    else this.give(row.order, "");
  }

  private give(order: OrderName, target: string): void {
    const { commanded, header } = this.shown ?? {};
    this.armed = null;
    this.play.problem = "";
    const names = [...(commanded?.chosen ?? [])].flatMap((mech) => header?.roster[mech].name ?? []);
    this.play.order(order, names, target);
  }

  /** Obey a control; returns whether it is one of this view. */
  obey(command: Command): boolean {
    if (this.root.hidden) return false;
    const row = ORDERS.find(({ order }) => command === `order_${order}`);
    const { chosen } = this.shown?.commanded ?? {};
    const last = this.packs.findLastIndex(({ mechs }) => mechs.some((mech) => chosen?.has(mech)));
    const other = this.state.camera.mode === "top" ? "orbit" : "top";
    if (row) this.begin(row);
    else if (command === "next_mate") this.choose(this.packs[last + 1]?.mechs ?? [], false);
    else if (command === "next_target") control.setCameraMode(this.state, other);
    else return false;
    return true;
  }

  /** Drop the order that waits, or the choice; returns whether there was one. */
  escape(): boolean {
    const had = !this.root.hidden && (this.armed !== null || (this.shown?.commanded?.chosen.size ?? 0) > 0);
    if (had && !this.armed) this.choose([], false);
    this.armed = null;
    return had;
  }

  /** Choose what was clicked; the other button, or an order that waits, gives the order of the place. */
  pick(x: number, y: number, event: MouseEvent, twice: boolean): void {
    const { commanded, header } = this.shown ?? {};
    if (!commanded || !header) return;
    const [{ armed }, mech] = [this, this.screen.pick(x, y, PICK_PIXELS)];
    const found = orderAt(header, commanded.team, mech, this.screen.groundAt(x, y));
    if (armed && found?.order !== armed.order)
      this.play.problem = `Order ${armed.word} names a ${armed.names}: click one, Esc drops it.`;
    else if (found && (armed || event.button === 2)) this.give(found.order, found.target);
    else if (event.button === 0) {
      const pack = this.packs.find(({ mechs }) => mechs.includes(mech));
      this.choose(pack && twice ? pack.mechs : pack ? [mech] : [], event.shiftKey);
    }
  }

  drawBox(box: Box, event: PointerEvent, done: boolean): void {
    const { left, top, right, bottom } = box;
    this.box.style.inset = `${top}px auto auto ${left}px`;
    [this.box.style.width, this.box.style.height] = [`${right - left}px`, `${bottom - top}px`];
    this.box.hidden = done;
    const inside = inBox(this.shown?.commanded?.mechs ?? [], box, (mech) => this.screen.spotOf(mech));
    if (done) this.choose(inside, event.shiftKey);
  }

  /** Move the camera by the keys that walk and turn a mech; called before the picture is drawn. */
  fly(elapsed: number): void {
    const { state } = this;
    const axis = (plus: Command, minus: Command) =>
      (Number(this.controls().isHeld(plus)) - Number(this.controls().isHeld(minus))) * elapsed;
    const [right, away] = [axis("right", "left"), axis("forward", "back")];
    const pace = PAN * state.camera.distance;
    if (right !== 0 || away !== 0) control.panCamera(state, right * pace, away * pace);
    control.turnCamera(state, axis("turn_right", "turn_left") * TURN, 0);
  }

  update(now: number): void {
    const { live, ended } = this.play;
    const match = this.state.flying && live?.match.commanded ? live.match : null;
    this.root.hidden = !match || ended !== null;
    if (!match) return;
    if (this.shown !== match) this.open(match);
    this.minimap.update(match);
    if (now - this.slowAt < SLOW_MS) return;
    this.slowAt = now;
    this.roster?.update(match);
    this.buttons.forEach((each, i) => {
      const { order, word, names } = ORDERS[i];
      const key = keyLabel(this.controls().bindings[`order_${order}`].keys[0] ?? "");
      setLabel(each, `Order: ${word}${names ? `, then click a ${names}` : ""} (${key})`);
      setText(each.children[1], key);
      each.setAttribute("aria-pressed", String(this.armed === ORDERS[i]));
    });
    const chosen = match.commanded?.chosen.size ?? 0;
    const next = this.armed ? ` · ${this.armed.word}: click a ${this.armed.names}` : "";
    setText(this.line, `To ${chosen === 0 ? "all mechs" : `${chosen} chosen`}${next}`);
  }

  private open(match: MatchState): void {
    const { state } = this;
    const team = match.commanded?.team ?? 0;
    [this.shown, this.armed] = [match, null];
    this.packs = packsOf(match.header).filter((pack) => pack.team === team);
    this.roster = new Roster(team, state, (mechs, more) => this.choose(mechs, more));
    this.roster.open(match);
    this.side.replaceChildren(this.roster.root);
    state.window = [this.root.clientWidth, this.root.clientHeight]; // the page may have appeared just now
    control.setInsets(state, state.window[0] <= NARROW ? NARROW_INSETS : INSETS);
    control.setCameraMode(state, "top");
  }
}
