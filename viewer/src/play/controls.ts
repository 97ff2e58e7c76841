// Turns keys, mouse, touch and gamepad into an action vector. The mouse moves a point of aim in the world and the mech
// turns after it; keys and stick turn the mech directly. Pure: time, heading and contacts are given.

import { wrapAngle } from "../spaces";
import { ACTION_NAMES } from "../protocol.gen";
import { DEFAULT_AXES } from "./axes";
import type { Bindings, Command } from "./bindings";

const LEVELS = 127; // steps of an action entry
const TURN_PER_PIXEL = 0.0028; // of the mouse [rad]
const STEEPEST = 0.9; // largest pitch of the view [rad]
const WIDEST = 1.9; // largest angle between heading and aim [rad]
const TURN_GAIN = 3.2; // turn command per angle to the aim [1/rad]
const AIMED = 0.012; // angle within which the mech faces the aim [rad]
const DEAD_ZONE = 0.14; // of a stick
const STICKS = { aside: 0, walk: 1, turn: 2, tilt: 3 }; // axis of each in the standard mapping
const STICK_PITCH = 1.6; // rate at which a stick pitches the view [rad/s]
const PRESSED = 0.4; // value from which an analogue button counts as pressed
const ECM = 64; // secondary level up to which a scout emits ECM instead of ECCM
const SLOTS = 5; // display slots that can be chosen as target

const AT = Object.fromEntries(ACTION_NAMES.map((name, i) => [name, i])) as Record<
  (typeof ACTION_NAMES)[number],
  number
>;

/** The part of a gamepad that is read. */
export interface PadState {
  readonly axes: readonly number[];
  readonly buttons: readonly { readonly value: number; readonly pressed: boolean }[];
}

/** What an action depends on beside the controls. */
export interface Cockpit {
  readonly heading: number; // of the mech [rad]
  readonly scout: boolean; // whether the secondary trigger is electronic warfare
  readonly targetSlot: number; // display slot of the target, -1 none
}

export function stick(value: number): number {
  const size = Math.abs(value);
  return size < DEAD_ZONE || !Number.isFinite(size)
    ? 0
    : (Math.sign(value) * (Math.min(1, size) - DEAD_ZONE)) / (1 - DEAD_ZONE);
}

export class Controls {
  aim: number | null = null; // direction in which the mouse aims [rad], null while it does not
  pitch = 0; // of the view [rad]
  thumb = { ahead: 0, left: 0 }; // of the touch stick, -1 to 1
  private readonly held = new Set<string>(); // keys and mouse buttons
  private readonly touched = new Set<Command>(); // controls that a finger holds
  private readonly padHeld = new Set<number>(); // gamepad buttons
  private axes: readonly number[] = [];

  constructor(
    public bindings: Bindings,
    public settings = DEFAULT_AXES,
  ) {}

  /** Press a key or mouse button; returns the command that it begins, null for none or a repeated one. */
  press(code: string): Command | null {
    if (this.held.has(code)) return null;
    this.held.add(code);
    return this.commandOf((binding) => binding.keys.includes(code));
  }

  release(code: string): void {
    this.held.delete(code);
  }

  /** Hold a control by a finger, or release it. */
  touch(command: Command, on: boolean): void {
    if (on) this.touched.add(command);
    else this.touched.delete(command);
  }

  clear(): void {
    this.held.clear();
    this.touched.clear();
    this.thumb = { ahead: 0, left: 0 };
    this.padHeld.clear();
    this.axes = [];
  }

  /** Move the aim by the mouse [CSS px]. */
  turnBy(dx: number, dy: number, heading: number): void {
    const from = wrapAngle((this.aim ?? heading) - heading);
    const turn = TURN_PER_PIXEL * this.settings.sensitivity;
    const offset = Math.max(-WIDEST, Math.min(WIDEST, from - dx * turn));
    this.aim = wrapAngle(heading + offset);
    this.tilt(-dy * turn);
  }

  /** Read a gamepad after `elapsed` seconds, null without one; returns the commands that its buttons begin. */
  readPad(pad: PadState | null, elapsed: number): Command[] {
    this.axes = pad?.axes ?? [];
    const started: Command[] = [];
    pad?.buttons.forEach(({ pressed, value }, button) => {
      if (!(pressed || value > PRESSED)) return void this.padHeld.delete(button);
      if (this.padHeld.has(button)) return;
      this.padHeld.add(button);
      const command = this.commandOf((binding) => binding.buttons.includes(button));
      if (command) started.push(command);
    });
    if (!pad) this.padHeld.clear();
    this.tilt(-this.level("tilt") * STICK_PITCH * elapsed);
    return started;
  }

  /** Return the first gamepad button that is held, null for none. */
  get padButton(): number | null {
    return [...this.padHeld][0] ?? null;
  }

  isHeld(command: Command): boolean {
    const { keys, buttons } = this.bindings[command];
    if (this.touched.has(command)) return true;
    return keys.some((key) => this.held.has(key)) || buttons.some((button) => this.padHeld.has(button));
  }

  /** Return the action of the controls, i8 per entry. */
  action({ heading, scout, targetSlot }: Cockpit): Uint8Array {
    const action = new Int8Array(ACTION_NAMES.length);
    const axis = (plus: Command, minus: Command) => Number(this.isHeld(plus)) - Number(this.isHeld(minus));
    const put = (name: keyof typeof AT, value: number) => {
      action[AT[name]] = Math.round(Math.max(-1, Math.min(1, value)) * LEVELS);
    };
    put("forward", axis("forward", "back") - this.level("walk") + this.thumb.ahead);
    put("strafe", axis("left", "right") - this.level("aside") + this.thumb.left);
    put("vertical", this.isHeld("jets") ? 1 : 0);
    put("yaw_rate", this.turn(axis("turn_left", "turn_right") - this.level("turn"), heading));
    for (const name of ["primary", "secondary", "tertiary", "special", "vent"] as const)
      put(name, this.isHeld(name) ? 1 : -1);
    if (scout && this.isHeld("secondary")) action[AT.secondary] = ECM;
    if (scout && this.isHeld("eccm")) action[AT.secondary] = LEVELS;
    if (targetSlot >= 0 && targetSlot < SLOTS) action[AT.target_0 + targetSlot] = LEVELS;
    put("sort_closest", 1);
    put("hostile_only", 1);
    return new Uint8Array(action.buffer);
  }

  /** Return the turn command: that of keys and stick, else toward the aim. */
  private turn(direct: number, heading: number): number {
    if (direct !== 0) this.aim = null;
    if (this.aim === null) return direct;
    const offset = wrapAngle(this.aim - heading);
    return Math.abs(offset) < AIMED ? 0 : offset * TURN_GAIN;
  }

  /** Return the value of the axis that does something. */
  private level(what: keyof typeof STICKS): number {
    return stick(this.axes[STICKS[what]] ?? 0);
  }

  /** Tilt the view up by an angle [rad], down where that is inverted. */
  private tilt(angle: number): void {
    const pitch = this.pitch + (this.settings.inverted ? -angle : angle);
    this.pitch = Math.max(-STEEPEST, Math.min(STEEPEST, pitch));
  }

  private commandOf(has: (binding: Bindings[Command]) => boolean): Command | null {
    const found = Object.entries(this.bindings).find(([, binding]) => has(binding));
    return found ? (found[0] as Command) : null;
  }
}
