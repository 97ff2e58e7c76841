// Keyboard and pointer input. The key table is what the shortcuts panel shows: a key that is not in it does nothing.
// Bind functions return their unbind functions.

import * as control from "./control";
import type { ViewerState } from "./state";

/** One row of the key table. */
export interface KeyRow {
  readonly keys: readonly string[]; // KeyboardEvent.key values, letters in lower case
  readonly shown: string; // the keys as displayed, separated by two spaces
  readonly label: string; // description of the action
  readonly group: "Time" | "Camera" | "Mechs" | "View";
  readonly act: (state: ViewerState, event: KeyboardEvent) => void;
}

/** Actions of keys beyond the state. */
export interface Exits {
  showList(): void; // close the match
  savePicture(): void; // save the current picture
}

const TURN = 0.09; // per key press [rad]
const TILT = 0.07;
const ZOOM = 1.12;
const FLY = 1.5; // per key press [vox]
const PAN = 2.5; // per key press [vox]

/** Return the key table. */
export function keyTable(exits: Exits): readonly KeyRow[] {
  const row = (group: KeyRow["group"], keys: string[], shown: string, label: string, act: KeyRow["act"]): KeyRow => ({
    group,
    keys,
    shown,
    label,
    act,
  });
  return [
    row("Time", [" ", "k"], "Space  K", "Play/Pause", (s) => control.togglePlay(s)),
    row("Time", ["arrowleft", "arrowright"], "←  →", "Previous/next frame; with Shift 5 s", (s, e) => arrows(s, e)),
    row("Time", ["j", "l"], "J  L", "Back/forward 10 s", (s, e) =>
      control.seekBy(s, e.key.toLowerCase() === "j" ? -10 : 10),
    ),
    row("Time", ["arrowup", "arrowdown", ">", "<"], "↑  ↓", "Speed up/slow down (to reverse)", (s, e) =>
      control.changeSpeed(s, e.key === "ArrowUp" || e.key === ">" ? 1 : -1),
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
    row("Mechs", ["x"], "X", "Sensor and targeting lines, radar and ECM ranges", (s) => {
      s.showLinks = !s.showLinks;
    }),
    row("Mechs", ["u"], "U", "Mech analysis: health, value, rewards", (s) => {
      control.selectAny(s);
      s.showPilot = !s.showPilot;
    }),
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
    row("Camera", ["a", "d"], "A  D", "Turn; free camera: left/right", (s, e) =>
      sideways(s, e.key.toLowerCase() === "a" ? -1 : 1),
    ),
    row("Camera", ["w", "s"], "W  S", "Tilt; free camera: forward/back", (s, e) =>
      ahead(s, e.key.toLowerCase() === "w" ? 1 : -1),
    ),
    row("Camera", ["+", "=", "-"], "+  −", "Zoom in/out", (s, e) =>
      control.zoomCamera(s, e.key === "-" ? ZOOM : 1 / ZOOM),
    ),
    row("Camera", ["pageup", "pagedown"], "PgUp  PgDn", "Pan forward/back", (s, e) =>
      control.panCamera(s, 0, e.key === "PageUp" ? PAN : -PAN),
    ),
    row("View", ["g"], "G", "Fog of war: blue/red/selected mech", (s) => control.cycleFog(s)),
    row("View", ["h"], "H", "Ground overlay: presence, damage, distance to zone", (s) => control.cycleLayer(s)),
    row("View", ["i"], "I", "Minimap", (s) => {
      s.showMap = !s.showMap;
    }),
    row("View", ["q"], "Q", "Share: link, picture, clip, file", (s) => {
      s.showShare = !s.showShare;
    }),
    row("View", ["z"], "Z", "Save a picture", () => exits.savePicture()),
    row("View", ["b"], "B", "Nameplates", (s) => {
      s.showBars = !s.showBars;
    }),
    row("View", ["c"], "C", "Match charts", (s) => {
      s.showChart = !s.showChart;
    }),
    row("View", ["m"], "M", "Table of all mechs", (s) => {
      s.showTable = !s.showTable;
    }),
    row("View", ["?"], "?", "Shortcuts", (s) => {
      s.showHelp = !s.showHelp;
    }),
  ];
}

function sideways(state: ViewerState, right: 1 | -1): void {
  if (state.camera.mode === "free") control.fly(state, 0, right * FLY, 0);
  else control.turnCamera(state, right * TURN * (state.camera.mode === "first" ? -1 : 1), 0);
}

function ahead(state: ViewerState, step: 1 | -1): void {
  if (state.camera.mode === "free") control.fly(state, step * FLY, 0, 0);
  else control.turnCamera(state, 0, step * TILT);
}

function arrows(state: ViewerState, event: KeyboardEvent): void {
  const step = event.key === "ArrowLeft" ? -1 : 1;
  if (event.shiftKey) control.seekBy(state, 5 * step);
  else control.stepFrames(state, step);
}

function escape(state: ViewerState, exits: Exits): void {
  const open = state.showHelp || state.showChart || state.showTable || state.showShare || state.showPilot;
  if (open) state.showHelp = state.showChart = state.showTable = state.showShare = state.showPilot = false;
  else if (state.selected >= 0) control.select(state, -1, false);
  else exits.showList();
}

const SLIDER_KEYS = ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End", "PageUp", "PageDown"];

/** Return whether the focused control handles a key itself. */
function handledByFocus(event: KeyboardEvent): boolean {
  const target = event.target;
  if (target instanceof HTMLInputElement)
    return target.type === "range" ? SLIDER_KEYS.includes(event.key) : event.key !== "Escape";
  if (target instanceof HTMLSelectElement) return true;
  return target instanceof HTMLButtonElement && [" ", "Enter"].includes(event.key);
}

/** Bind the key table while a match is shown. */
export function bindKeys(state: ViewerState, table: readonly KeyRow[], onAct: () => void): () => void {
  const actions = new Map(table.flatMap((row) => row.keys.map((key) => [key, row] as const)));
  const listen = (event: KeyboardEvent) => {
    if (state.page !== "match" || event.ctrlKey || event.metaKey || event.altKey || handledByFocus(event)) return;
    const row = actions.get(event.key.toLowerCase());
    if (!row) return;
    event.preventDefault();
    row.act(state, event);
    onAct();
  };
  window.addEventListener("keydown", listen);
  return () => window.removeEventListener("keydown", listen);
}

const DRAG_PIXELS = 5; // a pointer that moves less than this is a click [CSS px]
const TURN_PER_PIXEL = 0.0055;
const WHEEL = 0.0011;

/** Bind pointers: drag rotates or pans, wheel and pinch zoom, a click picks. */
export function bindPointer(
  canvas: HTMLCanvasElement,
  state: ViewerState,
  onPick: (x: number, y: number, twice: boolean) => void,
): () => void {
  const down = new Map<number, { x: number; y: number }>();
  let moved = 0;
  let spread = 0;
  const start = (event: PointerEvent) => {
    canvas.setPointerCapture(event.pointerId);
    down.set(event.pointerId, { x: event.clientX, y: event.clientY });
    moved = down.size === 1 ? 0 : DRAG_PIXELS;
    spread = 0;
  };
  const move = (event: PointerEvent) => {
    const last = down.get(event.pointerId);
    if (!last) return;
    const [dx, dy] = [event.clientX - last.x, event.clientY - last.y];
    down.set(event.pointerId, { x: event.clientX, y: event.clientY });
    moved += Math.abs(dx) + Math.abs(dy);
    if (moved < DRAG_PIXELS) return;
    const shift = state.camera.distance / canvas.clientHeight;
    const [a, b] = [...down.values()];
    if (b) {
      const apart = Math.hypot(a.x - b.x, a.y - b.y);
      if (spread > 0) control.zoomCamera(state, spread / apart);
      spread = apart;
      control.panCamera(state, -dx * shift * 0.5, dy * shift * 0.5);
    } else if (event.buttons & 2 || event.shiftKey || state.camera.mode === "top")
      control.panCamera(state, -dx * shift, dy * shift);
    else if (state.camera.mode === "first" || state.camera.mode === "free")
      control.turnCamera(state, dx * TURN_PER_PIXEL, -dy * TURN_PER_PIXEL);
    else control.turnCamera(state, -dx * TURN_PER_PIXEL, dy * TURN_PER_PIXEL);
  };
  const end = (event: PointerEvent) => {
    down.delete(event.pointerId);
    if (event.type !== "pointerup" || moved >= DRAG_PIXELS) return;
    pick(event, false);
  };
  const pick = (event: MouseEvent, twice: boolean) => {
    const box = canvas.getBoundingClientRect();
    onPick(event.clientX - box.left, event.clientY - box.top, twice);
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
  return () => {
    for (const [name, listener] of bindings) canvas.removeEventListener(name, listener as EventListener);
  };
}
