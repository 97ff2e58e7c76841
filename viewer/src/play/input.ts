// Keyboard, mouse, touch and gamepad of the cockpit. While a dialog is open they do nothing but hold the mech still;
// the mouse aims once the page has captured it.

import { recall, remember } from "../storage";
import { type Axes, DEFAULT_AXES, parseAxes } from "./axes";
import type { Command } from "./bindings";
import { Controls, type PadState, stick } from "./controls";
import { TouchPad } from "./touch";
import { defaultBindings, parseBindings, type Bindings } from "./bindings";

export interface InputHost {
  readonly surface: HTMLElement; // receives the mouse
  /** Whether keys and mouse fly the mech: a seat is taken and no dialog is open. */
  active(): boolean;
  /** Heading of the mech [rad]. */
  heading(): number;
  /** A key or button was pressed or released, which need not wait for the next frame. */
  changed(): void;
  command(command: Command): void;
  /** The Esc key was pressed, or the mouse was released. */
  escape(): void;
}

export function firstGamepad(): PadState | null {
  const pads = navigator.getGamepads?.() ?? [];
  return pads.find((pad): pad is Gamepad => pad !== null && pad.connected) ?? null;
}

export class PilotInput {
  readonly controls: Controls;
  /** The device that was used last. */
  device: "keyboard" | "gamepad" | "touch" = matchMedia("(pointer: coarse)").matches ? "touch" : "keyboard";
  readonly pad: TouchPad;
  /** A key or button that is being assigned: receives it instead of the mech. */
  capture: ((key: string | null, button: number | null) => void) | null = null;

  constructor(private readonly host: InputHost) {
    this.controls = new Controls(parseBindings(recall("controls")), parseAxes(recall("axes")));
    const { surface } = host;
    this.pad = new TouchPad(surface, () => this.controls, {
      active: () => host.active(),
      heading: () => host.heading(),
      changed: () => host.changed(),
      begun: () => (this.device = "touch"),
    });
    window.addEventListener("keydown", (event) => this.keyDown(event));
    window.addEventListener("keyup", (event) => this.up(event.code));
    window.addEventListener("blur", () => this.controls.clear());
    surface.addEventListener("pointerdown", ({ pointerType }) => pointerType === "mouse" && (this.device = "keyboard"));
    surface.addEventListener("mousedown", (event) => this.mouseDown(event));
    window.addEventListener("mouseup", (event) => this.up(`Mouse${event.button}`));
    surface.addEventListener("contextmenu", (event) => event.preventDefault());
    document.addEventListener("mousemove", (event) => {
      if (this.captured && host.active()) this.controls.turnBy(event.movementX, event.movementY, host.heading());
    });
    document.addEventListener("pointerlockchange", () => {
      if (!this.captured) this.controls.clear();
    });
  }

  get captured(): boolean {
    return document.pointerLockElement === this.host.surface;
  }

  release(): void {
    if (this.captured) document.exitPointerLock();
    this.controls.clear();
    this.controls.aim = null;
  }

  /** Assign keys and buttons, and remember them; null sets the defaults. */
  setBindings(bindings: Bindings | null): void {
    this.controls.bindings = bindings ?? defaultBindings();
    remember("controls", bindings ? JSON.stringify(bindings) : "");
  }

  /** Set mouse and sticks, and remember them; null sets the defaults. */
  setAxes(axes: Axes | null): void {
    this.controls.settings = axes ?? DEFAULT_AXES;
    remember("axes", axes ? JSON.stringify(axes) : "");
  }

  /** Read the gamepad; called every frame. */
  poll(elapsed: number): void {
    const pad = firstGamepad();
    const started = this.controls.readPad(this.host.active() || this.capture ? pad : null, elapsed);
    if (started.length > 0 || pad?.axes.some((value) => stick(value) !== 0)) this.device = "gamepad";
    const { padButton } = this.controls;
    if (this.capture && padButton !== null) return this.finish(null, padButton);
    if (this.host.active()) for (const command of started) this.host.command(command);
  }

  private keyDown(event: KeyboardEvent): void {
    if (this.capture) {
      event.preventDefault();
      event.stopPropagation();
      this.finish(event.code === "Escape" ? null : event.code, null);
      return;
    }
    if (event.code === "Escape") return this.host.escape();
    if (!this.host.active() || event.ctrlKey || event.metaKey || event.altKey) return;
    const { bindings } = this.controls;
    if (!Object.values(bindings).some(({ keys }) => keys.includes(event.code))) return;
    event.preventDefault();
    this.device = "keyboard";
    this.down(event.code);
  }

  private down(code: string): void {
    const command = this.controls.press(code);
    if (command) this.host.command(command);
    this.host.changed();
  }

  private up(code: string): void {
    this.controls.release(code);
    if (this.host.active()) this.host.changed();
  }

  private mouseDown(event: MouseEvent): void {
    if (this.capture) return this.finish(`Mouse${event.button}`, null);
    if (!this.host.active() || this.device === "touch") return; // browsers repeat touches as a mouse
    event.preventDefault();
    if (!this.captured && event.button === 0 && matchMedia("(pointer: fine)").matches) {
      // a browser that does not give the mouse away leaves aiming to the keys
      void Promise.resolve(this.host.surface.requestPointerLock()).catch(() => undefined);
      return;
    }
    this.down(`Mouse${event.button}`);
  }

  private finish(key: string | null, button: number | null): void {
    const { capture } = this;
    this.capture = null;
    this.controls.clear();
    capture?.(key, button);
  }
}
