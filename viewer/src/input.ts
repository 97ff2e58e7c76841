// Keys and pointers, and what they do. KEYS is the table that `?` shows: a key that is not in it does nothing. Binding
// returns the unbinding.

import * as control from "./control";
import type { ViewerState } from "./state";

/** One row of the table of keys. */
export interface KeyRow {
  readonly keys: readonly string[]; // KeyboardEvent.key, letters small; the first one is shown
  readonly shown: string; // how the keys are written for people
  readonly label: string; // what they do
  readonly group: "Time" | "Camera" | "Mechs" | "View";
  readonly act: (state: ViewerState, event: KeyboardEvent) => void;
}

/** Ways out of the page that keys may take. */
export interface Exits {
  toList(): void; // leave the match
  savePicture(): void; // of what is seen now
}

const TURN = 0.09; // [rad] per key press
const TILT = 0.07;
const ZOOM = 1.12;
const FLY = 1.5; // [vox] per key press
const PAN = 2.5; // [vox] per key press

/** Build the table of keys. */
export function keyTable(exits: Exits): readonly KeyRow[] {
  const row = (group: KeyRow["group"], keys: string[], shown: string, label: string, act: KeyRow["act"]): KeyRow => ({ group, keys, shown, label, act });
  return [
    row("Time", [" ", "k"], "Space  K", "Play or hold", (s) => control.togglePlay(s)),
    row("Time", ["arrowleft", "arrowright"], "←  →", "Step a frame; with Shift 5 s", (s, e) => arrows(s, e)),
    row("Time", ["j", "l"], "J  L", "Back or on 10 s", (s, e) => control.seekBy(s, e.key.toLowerCase() === "j" ? -10 : 10)),
    row("Time", ["arrowup", "arrowdown", ">", "<"], "↑  ↓", "Faster or slower, down to backward", (s, e) => control.changeSpeed(s, e.key === "ArrowUp" || e.key === ">" ? 1 : -1)),
    row("Time", ["r"], "R", "Play backward, or forward again", (s) => control.reverse(s)),
    row("Time", ["n", "p"], "N  P", "Next or previous event", (s, e) => void control.jumpToMarker(s, e.key.toLowerCase() === "n" ? 1 : -1)),
    row("Time", ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"], "0 – 9", "Go to that tenth of the match", (s, e) => s.match && control.seek(s, (Number(e.key) / 10) * control.lastTick(s.match))),
    row("Time", ["[", "]"], "[  ]", "Begin a loop here, end it here; again lets it go", (s) => control.markLoop(s)),
    row("Time", ["home"], "Home", "Go to the start", (s) => control.seek(s, 0)),
    row("Time", ["end"], "End", "Go to the end, or live", (s) => control.goLive(s)),
    row("Mechs", [",", "."], ",  .", "Mech before or after", (s, e) => control.cycleMech(s, e.key === "," ? -1 : 1)),
    row("Mechs", ["f"], "F", "Follow the mech, or let it go", (s) => control.setCameraMode(s, s.camera.mode === "follow" ? "orbit" : "follow")),
    row("Mechs", ["v"], "V", "See with its eyes, or step out", (s) => control.setCameraMode(s, s.camera.mode === "first" ? "follow" : "first")),
    row("Mechs", ["x"], "X", "Lines to those it knows, aims at and paints; how far radar, ECM and ECCM reach", (s) => { s.showLinks = !s.showLinks; }),
    row("Mechs", ["u"], "U", "Its curves: condition, value, rewards", (s) => { control.pickAny(s); s.showPilot = !s.showPilot; }),
    row("Mechs", ["escape"], "Esc", "Close what is open, select nothing, then leave", (s) => escape(s, exits)),
    row("Camera", ["o"], "O", "Circle the map", (s) => { control.leaveFollow(s); control.frameMap(s); }),
    row("Camera", ["t"], "T", "Look straight down", (s) => control.setCameraMode(s, s.camera.mode === "top" ? "orbit" : "top")),
    row("Camera", ["y"], "Y", "Go where the fight is", (s) => control.setCameraMode(s, s.camera.mode === "director" ? "orbit" : "director")),
    row("Camera", ["e"], "E", "Fly freely", (s) => control.setCameraMode(s, s.camera.mode === "free" ? "orbit" : "free")),
    row("Camera", ["a", "d"], "A  D", "Turn; in flight, left and right", (s, e) => sideways(s, e.key.toLowerCase() === "a" ? -1 : 1)),
    row("Camera", ["w", "s"], "W  S", "Tilt; in flight, ahead and back", (s, e) => ahead(s, e.key.toLowerCase() === "w" ? 1 : -1)),
    row("Camera", ["+", "=", "-"], "+  −", "Nearer or farther", (s, e) => control.zoomCamera(s, e.key === "-" ? ZOOM : 1 / ZOOM)),
    row("Camera", ["pageup", "pagedown"], "PgUp  PgDn", "Move over the map", (s, e) => control.panCamera(s, 0, e.key === "PageUp" ? PAN : -PAN)),
    row("View", ["g"], "G", "Only what blue knows, red, or the mech", (s) => control.cycleFog(s)),
    row("View", ["h"], "H", "On the ground: presence, damage, ways to the zone", (s) => control.cycleLayer(s)),
    row("View", ["i"], "I", "Small map", (s) => { s.showMap = !s.showMap; }),
    row("View", ["q"], "Q", "Share: link, picture, clip, page", (s) => { s.showShare = !s.showShare; }),
    row("View", ["z"], "Z", "Save a picture", () => exits.savePicture()),
    row("View", ["b"], "B", "Plates above the mechs", (s) => { s.showBars = !s.showBars; }),
    row("View", ["c"], "C", "Curves of the match", (s) => { s.showChart = !s.showChart; }),
    row("View", ["m"], "M", "Table of all mechs", (s) => { s.showTable = !s.showTable; }),
    row("View", ["?"], "?", "These keys", (s) => { s.showHelp = !s.showHelp; }),
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
  else exits.toList();
}

const SLIDER_KEYS = ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End", "PageUp", "PageDown"];

/** Whether a key belongs to the control that has the focus. */
function taken(event: KeyboardEvent): boolean {
  const target = event.target;
  if (target instanceof HTMLInputElement) return target.type === "range" ? SLIDER_KEYS.includes(event.key) : event.key !== "Escape";
  if (target instanceof HTMLSelectElement) return true;
  return target instanceof HTMLButtonElement && [" ", "Enter"].includes(event.key);
}

/** Let keys act on the state while a match is shown. */
export function bindKeys(state: ViewerState, table: readonly KeyRow[], onAct: () => void): () => void {
  const actions = new Map(table.flatMap((row) => row.keys.map((key) => [key, row] as const)));
  const listen = (event: KeyboardEvent) => {
    if (state.page !== "match" || event.ctrlKey || event.metaKey || event.altKey || taken(event)) return;
    const row = actions.get(event.key.toLowerCase());
    if (!row) return;
    event.preventDefault();
    row.act(state, event);
    onAct();
  };
  window.addEventListener("keydown", listen);
  return () => window.removeEventListener("keydown", listen);
}

const DRAG_PIXELS = 5; // a pointer that moves less than this has clicked
const TURN_PER_PIXEL = 0.0055;
const WHEEL = 0.0011;

/** Let pointers turn, shift and zoom the camera; a click picks. */
export function bindPointer(canvas: HTMLCanvasElement, state: ViewerState, onPick: (x: number, y: number, twice: boolean) => void): () => void {
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
    } else if (event.buttons & 2 || event.shiftKey || state.camera.mode === "top") control.panCamera(state, -dx * shift, dy * shift);
    else if (state.camera.mode === "first" || state.camera.mode === "free") control.turnCamera(state, dx * TURN_PER_PIXEL, -dy * TURN_PER_PIXEL);
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
    ["pointerdown", start], ["pointermove", move], ["pointerup", end], ["pointercancel", end], ["wheel", wheel], ["contextmenu", menu], ["dblclick", double],
  ];
  for (const [name, listener] of bindings) canvas.addEventListener(name, listener as EventListener, { passive: false });
  return () => {
    for (const [name, listener] of bindings) canvas.removeEventListener(name, listener as EventListener);
  };
}
