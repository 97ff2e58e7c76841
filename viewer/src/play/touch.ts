// Flying by touch: a stick where the left thumb lies, aim by dragging elsewhere, and tiles that are held as buttons.

import { el } from "../hud/dom";
import type { Command } from "./bindings";
import type { Controls } from "./controls";

const REACH = 52; // distance of the thumb at which the stick is full [CSS px]
const LEFT = 0.42; // share of the width in which the stick begins
const AIM = 2.2; // aim per pixel, relative to the mouse

/** What controls are called under touch, where they have no key. */
export const TOUCH_WORDS: Partial<Record<Command, string>> = {
  ...{ jets: "Jump", vent: "Vent", next_target: "Target", primary: "the first weapon" },
  ...{ pause: "The pause button" },
};

export const TOUCH_LINE = "Your left thumb walks, a drag elsewhere aims, tiles act while they are held.";

export interface TouchHost {
  active(): boolean;
  heading(): number;
  changed(): void;
  /** A finger has touched the picture. */
  begun(): void;
}

export class TouchPad {
  readonly stick = el("i", { class: "touch-stick", aria: { hidden: "true" } }, [el("b")]);
  /** Where each finger was last, that of the stick where it began. */
  private fingers = new Map<number, { stick: boolean; x: number; y: number }>();

  constructor(
    private readonly surface: HTMLElement,
    private readonly controls: () => Controls,
    private readonly host: TouchHost,
  ) {
    this.stick.hidden = true;
    surface.addEventListener("pointerdown", (event) => this.down(event));
    surface.addEventListener("pointermove", (event) => this.move(event));
    for (const name of ["pointerup", "pointercancel"] as const)
      surface.addEventListener(name, (event) => this.up(event));
  }

  /** Let a tile hold a control as long as a finger is on it. */
  hold(tile: HTMLElement, command: Command, act: (command: Command) => void): void {
    const set = (on: boolean) => (event: PointerEvent) => {
      event.preventDefault();
      if (on && !this.host.active()) return;
      if (on) this.host.begun();
      if (on) act(command);
      this.controls().touch(command, on);
      tile.classList.toggle("held", on);
      this.host.changed();
    };
    tile.addEventListener("pointerdown", set(true));
    for (const name of ["pointerup", "pointercancel", "pointerleave"] as const) tile.addEventListener(name, set(false));
  }

  private down(event: PointerEvent): void {
    if (event.pointerType !== "touch" || !this.host.active()) return;
    this.host.begun();
    const taken = [...this.fingers.values()].some(({ stick }) => stick);
    const stick = !taken && event.clientX < LEFT * this.surface.clientWidth;
    this.surface.setPointerCapture(event.pointerId);
    this.fingers.set(event.pointerId, { stick, x: event.clientX, y: event.clientY });
    if (!stick) return;
    this.stick.hidden = false;
    Object.assign(this.stick.style, { left: `${event.clientX}px`, top: `${event.clientY}px` });
    this.push(0, 0);
  }

  private move(event: PointerEvent): void {
    const finger = this.fingers.get(event.pointerId);
    if (!finger) return;
    const [dx, dy] = [event.clientX - finger.x, event.clientY - finger.y];
    if (finger.stick) return this.push(dx, dy);
    [finger.x, finger.y] = [event.clientX, event.clientY];
    this.controls().turnBy(dx * AIM, dy * AIM, this.host.heading());
  }

  private up(event: PointerEvent): void {
    const finger = this.fingers.get(event.pointerId);
    this.fingers.delete(event.pointerId);
    if (!finger?.stick) return;
    this.stick.hidden = true;
    this.push(0, 0);
  }

  /** Push the stick by the thumb's distance from where it began [CSS px]. */
  private push(dx: number, dy: number): void {
    const shorten = 1 / Math.max(REACH, Math.hypot(dx, dy));
    this.controls().thumb = { ahead: -dy * shorten, left: -dx * shorten };
    const knob = this.stick.firstElementChild as HTMLElement;
    knob.style.transform = `translate(${dx * shorten * REACH}px, ${dy * shorten * REACH}px)`;
    this.host.changed();
  }
}
