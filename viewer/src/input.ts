// Keyboard and pointer input. The key table is what the shortcuts panel shows: a key that is not in it does nothing.

import * as control from "./control";
import type { Box } from "./framing";
import { keyName } from "./keys";
import type { ViewerState } from "./state";

export interface KeyRow {
  readonly keys: readonly string[]; // names of keys, see keyName
  readonly shown: string; // the keys as displayed, separated by two spaces
  readonly label: string; // description of the action
  readonly group: "Time" | "Camera" | "Mechs" | "View";
  readonly act: (state: ViewerState, press: Press) => void;
  readonly held?: "repeats" | "glides"; // what a held key does; nothing by default
}

/** What an action reads: the name of the key, and whether Shift is held. */
type Press = Pick<KeyboardEvent, "key" | "shiftKey">;

export interface Exits {
  showList(): void; // close the match
  savePicture(): void; // save the current picture
  toggleFullscreen(): void;
  takeOver(): void; // open the dialog that takes over the match
  whatIf(): void; // open or close the panel of continuations
  closeDialogs(): boolean; // close dialogs of playing; returns whether one was open
}

const PRESS_S = 0.08; // time that a short press of a camera key counts as; a longer one moves on at the same rate [s]
const TURN = 0.09; // per key press [rad]
const TILT = 0.07;
const ZOOM = 1.12;
const FLY = 1.5; // per key press [vox]
const PAN = 2.5; // per key press [vox]

const REPEATING = ["arrowleft", "arrowup", "j", ",", "n", "p"]; // first keys of rows that a held key repeats
const GLIDING = ["a", "w", "+", "pageup"]; // first keys of rows that move the camera as long as a key is held

export function keyTable(exits: Exits): readonly KeyRow[] {
  const row = (group: KeyRow["group"], keys: string[], shown: string, label: string, act: KeyRow["act"]): KeyRow => ({
    group,
    keys,
    shown,
    label,
    act,
    held: REPEATING.includes(keys[0]) ? "repeats" : GLIDING.includes(keys[0]) ? "glides" : undefined,
  });
  return [
    row("Time", [" ", "k"], "Space  K", "Play/Pause", (s) => control.togglePlay(s)),
    row("Time", ["arrowleft", "arrowright"], "←  →", "Previous/next frame; with Shift 5 s", (s, e) => arrows(s, e)),
    row("Time", ["j", "l"], "J  L", "Back/forward 10 s", (s, e) => control.seekBy(s, e.key === "j" ? -10 : 10)),
    row("Time", ["arrowup", "arrowdown", ">", "<"], "↑  ↓", "Speed up/slow down (to reverse)", (s, e) =>
      control.changeSpeed(s, e.key === "arrowup" || e.key === ">" ? 1 : -1),
    ),
    row("Time", ["r"], "R", "Reverse playback", (s) => control.reverse(s)),
    row(
      "Time",
      ["n"],
      "N",
      "Next moment; with Shift previous",
      (s, e) => void control.jumpToMoment(s, e.shiftKey ? -1 : 1),
    ),
    row(
      "Time",
      ["p"],
      "P",
      "Previous event; with Shift next",
      (s, e) => void control.jumpToMarker(s, e.shiftKey ? 1 : -1),
    ),
    row(
      "Time",
      ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"],
      "0 – 9",
      "Jump to 0–90 %",
      (s, e) => s.match && control.seek(s, (Number(e.key) / 10) * control.lastTick(s.match)),
    ),
    row("Time", ["[", "]"], "[  ]", "Set loop start/end; press again to clear", (s) => control.markLoop(s)),
    row("Time", ["home"], "Home", "Jump to the start", (s) => control.seek(s, 0)),
    row("Time", ["end"], "End", "Jump to the end or live edge", (s) => control.goLive(s)),
    row("Mechs", [",", "."], ",  .", "Previous/next mech", (s, e) => control.cycleMech(s, e.key === "," ? -1 : 1)),
    row("Mechs", ["f"], "F", "Follow mech / stop following", (s) =>
      control.setCameraMode(s, s.camera.mode === "follow" ? "orbit" : "follow"),
    ),
    row("Mechs", ["v"], "V", "First person / exit", (s) =>
      control.setCameraMode(s, s.camera.mode === "first" ? "follow" : "first"),
    ),
    row("Mechs", ["x"], "X", "Sensor and targeting lines, radar and ECM ranges", (s) => control.toggle(s, "showLinks")),
    row("Mechs", ["u"], "U", "Mech analysis: health, value, rewards", (s) => {
      control.selectAny(s);
      control.toggle(s, "showPilot");
    }),
    row("Mechs", ["enter"], "Enter", "Take over here: fly a mech from this moment on", () => exits.takeOver()),
    row("Mechs", [";"], ";", "What if? Continuations from this moment", () => exits.whatIf()),
    row("Mechs", ["escape"], "Esc", "Close panels, deselect, exit to list", (s) => escape(s, exits)),
    row("Camera", ["o"], "O", "Orbit", (s) => {
      control.leaveFollow(s);
      control.frameMap(s);
    }),
    row("Camera", ["t"], "T", "Top-down", (s) => control.setCameraMode(s, s.camera.mode === "top" ? "orbit" : "top")),
    row("Camera", ["y"], "Y", "Director", (s) =>
      control.setCameraMode(s, s.camera.mode === "director" ? "orbit" : "director"),
    ),
    row("Camera", ["e"], "E", "Free camera", (s) =>
      control.setCameraMode(s, s.camera.mode === "free" ? "orbit" : "free"),
    ),
    row("Camera", ["a", "d"], "A  D", "Turn; free camera: left/right", (s, e) => glide(s, e.key, 1)),
    row("Camera", ["w", "s"], "W  S", "Tilt; free camera: forward/back", (s, e) => glide(s, e.key, 1)),
    row("Camera", ["+", "=", "-"], "+  −", "Zoom in/out", (s, e) => glide(s, e.key, 1)),
    row("Camera", ["pageup", "pagedown"], "PgUp  PgDn", "Pan forward/back", (s, e) => glide(s, e.key, 1)),
    row("View", ["g"], "G", "Fog of war: blue/red/selected mech", (s) => control.cycleFog(s)),
    row("View", ["h"], "H", "Ground overlay: presence, damage, distance to zone; with Shift its teams", (s, e) =>
      e.shiftKey ? control.cycleHeatSide(s) : control.cycleLayer(s),
    ),
    row("View", ["i"], "I", "Minimap", (s) => control.toggle(s, "showMap")),
    row("View", ["q"], "Q", "Share: link, picture, film, file", (s) => control.toggle(s, "showShare")),
    row("View", ["z"], "Z", "Save a picture", () => exits.savePicture()),
    row("View", ["b"], "B", "Nameplates", (s) => control.toggle(s, "showBars")),
    row("View", ["c"], "C", "Match charts", (s) => control.toggle(s, "showChart")),
    row("View", ["m"], "M", "Scoreboard: kills, damage, accuracy, zone time of all mechs", (s) =>
      control.toggle(s, "showTable"),
    ),
    row("View", ["/"], "/", "Settings: graphics, sound, display", (s) => control.toggle(s, "showSettings")),
    row("View", ["\\"], "\\", "Fullscreen", () => exits.toggleFullscreen()),
    row("View", ["?"], "?", "Shortcuts", (s) => control.toggle(s, "showHelp")),
  ];
}

/** Move the camera as a key does, by a number of short presses. */
function glide(state: ViewerState, name: string, presses: number): void {
  const free = state.camera.mode === "free";
  if (name === "a" || name === "d") {
    const right = name === "a" ? -presses : presses;
    if (free) control.fly(state, 0, right * FLY);
    else control.turnCamera(state, right * TURN * (state.camera.mode === "first" ? -1 : 1), 0);
  } else if (name === "w" || name === "s") {
    const ahead = name === "w" ? presses : -presses;
    if (free) control.fly(state, ahead * FLY, 0);
    else control.turnCamera(state, 0, ahead * TILT);
  } else if (name === "pageup" || name === "pagedown") {
    control.panCamera(state, 0, name === "pageup" ? PAN * presses : -PAN * presses);
  } else if (free) control.fly(state, name === "-" ? -FLY * presses : FLY * presses, 0);
  else control.zoomCamera(state, ZOOM ** (name === "-" ? presses : -presses));
}

function arrows(state: ViewerState, event: Press): void {
  const step = event.key === "arrowleft" ? -1 : 1;
  if (event.shiftKey) control.seekBy(state, 5 * step);
  else control.stepFrames(state, step);
}

const PANELS = [...control.PANELS, "showEnd"] as const;

function escape(state: ViewerState, exits: Exits): void {
  if (exits.closeDialogs()) return;
  if (PANELS.some((name) => state[name])) for (const name of PANELS) state[name] = false;
  else if (state.selected >= 0) control.select(state, -1, false);
  else exits.showList();
}

const SLIDER_KEYS = ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End", "PageUp", "PageDown"];

function handledByFocus(event: KeyboardEvent): boolean {
  const target = event.target;
  if (target instanceof HTMLInputElement)
    return target.type === "range" ? SLIDER_KEYS.includes(event.key) : event.key !== "Escape";
  if (target instanceof HTMLSelectElement) return event.key !== "Escape";
  const acts = target instanceof HTMLElement && ["A", "BUTTON", "SUMMARY"].includes(target.tagName);
  return acts && [" ", "Enter"].includes(event.key);
}

/** Camera keys that are held, by time: the same however often the browser repeats them. */
export class HeldKeys {
  private readonly held = new Map<string, { key: string; seconds: number }>(); // by physical key

  press(code: string, { key }: Press): void {
    this.held.set(code, { key, seconds: 0 });
  }

  release(code: string): void {
    this.held.delete(code);
  }

  clear(): void {
    this.held.clear();
  }

  /** Move the camera on by `elapsed` seconds; the first `PRESS_S` of a press have been acted on at its start. */
  advance(state: ViewerState, elapsed: number): void {
    for (const press of this.held.values()) {
      const before = Math.max(PRESS_S, press.seconds);
      press.seconds += elapsed;
      if (press.seconds > before) glide(state, press.key, (press.seconds - before) / PRESS_S);
    }
  }
}

/** Bind the key table while a match is shown; `held` takes the camera keys. */
export function bindKeys(state: ViewerState, table: readonly KeyRow[], held: HeldKeys): void {
  const actions = new Map(table.flatMap((row) => row.keys.map((key) => [key, row] as const)));
  const down = (event: KeyboardEvent) => {
    if (
      state.page !== "match" ||
      state.flying ||
      event.ctrlKey ||
      event.metaKey ||
      event.altKey ||
      handledByFocus(event)
    )
      return;
    const press = { key: keyName(event), shiftKey: event.shiftKey };
    const row = actions.get(press.key);
    if (!row) return;
    event.preventDefault();
    if (event.repeat && row.held !== "repeats") return;
    row.act(state, press);
    if (row.held === "glides") held.press(event.code, press);
  };
  const up = (event: KeyboardEvent) => held.release(event.code);
  const leave = () => held.clear();
  window.addEventListener("keydown", down);
  window.addEventListener("keyup", up);
  window.addEventListener("blur", leave);
}

const DRAG_PIXELS = 5; // a pointer that moves less than this is a click [CSS px]
const TURN_PER_PIXEL = 0.0055;
const WHEEL = 0.0011;

/** What pointers do beside moving the camera; points of the canvas [CSS px]. */
export interface PointerHost {
  pick(x: number, y: number, event: MouseEvent, twice: boolean): void;
  /** A rectangle was drawn with the main button, while a team is commanded; `done` at its end. */
  drawBox(box: Box, event: PointerEvent, done: boolean): void;
}

/** Bind pointers: drag rotates, pans or draws a rectangle, wheel and pinch zoom, a click picks. */
export function bindPointer(canvas: HTMLCanvasElement, state: ViewerState, host: PointerHost): void {
  const down = new Map<number, { x: number; y: number }>();
  let corner: { x: number; y: number } | null = null; // of a rectangle
  let moved = 0;
  let spread = 0;
  const start = (event: PointerEvent) => {
    canvas.setPointerCapture(event.pointerId);
    down.set(event.pointerId, { x: event.clientX, y: event.clientY });
    moved = down.size === 1 ? 0 : DRAG_PIXELS;
    spread = 0;
    const draws = state.match?.commanded && event.pointerType === "mouse" && event.button === 0;
    corner = draws ? { x: event.offsetX, y: event.offsetY } : null;
  };
  const drawBox = (event: PointerEvent, { x, y }: { x: number; y: number }, done: boolean) => {
    const [left, right] = [Math.min(x, event.offsetX), Math.max(x, event.offsetX)];
    const [top, bottom] = [Math.min(y, event.offsetY), Math.max(y, event.offsetY)];
    host.drawBox({ left, top, right, bottom }, event, done);
  };
  const move = (event: PointerEvent) => {
    const last = down.get(event.pointerId);
    if (!last) return;
    const [dx, dy] = [event.clientX - last.x, event.clientY - last.y];
    down.set(event.pointerId, { x: event.clientX, y: event.clientY });
    moved += Math.abs(dx) + Math.abs(dy);
    if (moved < DRAG_PIXELS) return;
    if (corner) return drawBox(event, corner, false);
    const shift = state.camera.distance / canvas.clientHeight;
    const [a, b] = [...down.values()];
    if (b) {
      const apart = Math.hypot(a.x - b.x, a.y - b.y);
      if (spread > 0) control.zoomCamera(state, spread / apart);
      spread = apart;
      control.panCamera(state, -dx * shift * 0.5, dy * shift * 0.5);
    } else if (event.buttons & 2 || event.shiftKey || state.camera.mode === "top" || state.match?.commanded)
      control.panCamera(state, -dx * shift, dy * shift);
    else if (state.camera.mode === "first" || state.camera.mode === "free")
      control.turnCamera(state, dx * TURN_PER_PIXEL, -dy * TURN_PER_PIXEL);
    else control.turnCamera(state, -dx * TURN_PER_PIXEL, dy * TURN_PER_PIXEL);
  };
  const end = (event: PointerEvent) => {
    down.delete(event.pointerId);
    if (corner && moved >= DRAG_PIXELS) drawBox(event, corner, true);
    if (event.type !== "pointerup" || moved >= DRAG_PIXELS) return;
    pick(event, false);
  };
  const pick = (event: MouseEvent, twice: boolean) => {
    const box = canvas.getBoundingClientRect();
    host.pick(event.clientX - box.left, event.clientY - box.top, event, twice);
  };
  const double = (event: MouseEvent) => pick(event, true);
  const wheel = (event: WheelEvent) => {
    event.preventDefault();
    control.zoomCamera(state, Math.exp(event.deltaY * WHEEL));
  };
  const menu = (event: Event) => event.preventDefault();
  const bindings: [string, (event: never) => void][] = [
    ["pointerdown", start],
    ["pointermove", move],
    ["pointerup", end],
    ["pointercancel", end],
    ["wheel", wheel],
    ["contextmenu", menu],
    ["dblclick", double],
  ];
  for (const [name, listener] of bindings) canvas.addEventListener(name, listener as EventListener, { passive: false });
}
