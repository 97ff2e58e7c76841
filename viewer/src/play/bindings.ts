// Controls of a seat and what triggers them: keys and mouse buttons by their physical place, gamepad buttons by their
// number in the standard mapping. Every row can be changed; changes are kept in the browser's storage. Pure.

import { SIGNS, placeLabel } from "../keys";
import { parseFields } from "../storage";
import { ORDERS, type OrderName } from "./orders";

export type Command =
  | "forward"
  | "back"
  | "left"
  | "right"
  | "turn_left"
  | "turn_right"
  | "jets"
  | "primary"
  | "secondary"
  | "tertiary"
  | "special"
  | "eccm"
  | "vent"
  | "next_target"
  | "next_mate"
  | `order_${OrderName}`
  | "pause"
  | "slower"
  | "faster"
  | "help"
  | "skip";

export interface CommandRow {
  readonly command: Command;
  readonly label: string;
  readonly group: "Move" | "Weapons" | "Pack" | "Systems" | "Session";
  readonly keys: readonly string[]; // KeyboardEvent.code, or Mouse0 to Mouse2
  readonly buttons: readonly number[]; // of a gamepad
}

const row = (
  group: CommandRow["group"],
  command: Command,
  label: string,
  keys: readonly string[],
  buttons: readonly number[] = [],
): CommandRow => ({ group, command, label, keys, buttons });

export const COMMANDS: readonly CommandRow[] = [
  row("Move", "forward", "Forward", ["KeyW", "ArrowUp"]),
  row("Move", "back", "Back", ["KeyS", "ArrowDown"]),
  row("Move", "left", "Step left", ["KeyA"]),
  row("Move", "right", "Step right", ["KeyD"]),
  row("Move", "turn_left", "Turn left", ["KeyQ", "ArrowLeft"], [14]),
  row("Move", "turn_right", "Turn right", ["KeyE", "ArrowRight"], [15]),
  row("Move", "jets", "Jump jets", ["Space"], [0]),
  row("Weapons", "primary", "Primary trigger", ["Mouse0"], [7]),
  row("Weapons", "secondary", "Secondary trigger; scout: ECM", ["Mouse2"], [6]),
  row("Weapons", "tertiary", "Tertiary trigger", ["KeyF", "Mouse1"], [5]),
  row("Weapons", "special", "Special trigger: smoke", ["KeyG"], [4]),
  row("Weapons", "next_target", "Next target", ["KeyT", "Tab"], [2]),
  row("Pack", "next_mate", "Mate to order: all, or one", ["KeyX"]),
  ...ORDERS.map(({ order, label }, i) => row("Pack", `order_${order}`, label, [`Digit${i}`])),
  row("Systems", "vent", "Vent heat", ["KeyV"], [1]),
  row("Systems", "eccm", "ECCM of a scout", ["KeyC"], [3]),
  row("Session", "pause", "Pause (when alone)", ["KeyP"], [9]),
  row("Session", "slower", "Slow motion (when alone)", ["BracketLeft"], [13]),
  row("Session", "faster", "Faster (when alone)", ["BracketRight"], [12]),
  row("Session", "help", "Controls", ["Slash"], [8]),
  row("Session", "skip", "Skip a step of the tutorial", ["Enter"], [11]),
];

export type Bindings = Readonly<Record<Command, { keys: readonly string[]; buttons: readonly number[] }>>;

export function defaultBindings(): Bindings {
  const entries = COMMANDS.map(({ command, keys, buttons }) => [command, { keys, buttons }]);
  return Object.fromEntries(entries) as Bindings;
}

/** Return bindings with a key added first to a control; it is taken from the control that had it. */
export function bindKey(bindings: Bindings, command: Command, code: string): Bindings {
  return rebind(bindings, (name, { keys, buttons }) => {
    const others = keys.filter((key) => key !== code);
    return { keys: name === command ? [code, ...others].slice(0, MOST_KEYS) : others, buttons };
  });
}

/** Return bindings with a gamepad button as the only one of a control; it is taken from the control that had it. */
export function bindButton(bindings: Bindings, command: Command, button: number): Bindings {
  return rebind(bindings, (name, { keys, buttons }) => ({
    keys,
    buttons: name === command ? [button] : buttons.filter((other) => other !== button),
  }));
}

const MOST_KEYS = 2; // of a control

function rebind(
  bindings: Bindings,
  change: (command: Command, binding: Bindings[Command]) => Bindings[Command],
): Bindings {
  const entries = COMMANDS.map(({ command }) => [command, change(command, bindings[command])]);
  return Object.fromEntries(entries) as Bindings;
}

const CODE = /^[A-Za-z0-9]{1,24}$/;
const MOST_BUTTONS = 64;

/** Return the bindings in a text; controls without valid ones keep their defaults. */
export function parseBindings(text: string | null | undefined): Bindings {
  const stored = parseFields(text);
  return rebind(defaultBindings(), (command, binding) => {
    const { keys, buttons } = (stored[command] ?? {}) as { keys?: unknown; buttons?: unknown };
    const isCode = (key: unknown) => typeof key === "string" && CODE.test(key);
    const isButton = (button: unknown) =>
      Number.isInteger(button) && Number(button) >= 0 && Number(button) < MOST_BUTTONS;
    return {
      keys: Array.isArray(keys) && keys.length <= MOST_KEYS && keys.every(isCode) ? keys : binding.keys,
      buttons:
        Array.isArray(buttons) && buttons.length <= MOST_KEYS && buttons.every(isButton) ? buttons : binding.buttons,
    };
  });
}

const WORDS: Record<string, string> = {
  Mouse0: "Left button",
  Mouse1: "Middle button",
  Mouse2: "Right button",
  Space: "Space",
  ...SIGNS,
  Slash: "?",
  Minus: "−",
  ArrowUp: "↑",
  ArrowDown: "↓",
  ArrowLeft: "←",
  ArrowRight: "→",
};

/** Return a key as displayed, e.g. "W" for KeyW. */
export function keyLabel(code: string): string {
  return placeLabel(code) ?? WORDS[code] ?? code.replace(/^(Key|Digit)/, "").replace(/([a-z])([A-Z])/g, "$1 $2");
}

const BUTTONS = [
  ...["A", "B", "X", "Y", "LB", "RB", "LT", "RT", "View", "Menu", "Left stick", "Right stick"],
  ...["D-pad ↑", "D-pad ↓", "D-pad ←", "D-pad →", "Home"],
];

/** Return a gamepad button as displayed, in the names of the standard mapping. */
export function buttonLabel(button: number): string {
  return BUTTONS[button] ?? `Button ${button}`;
}
