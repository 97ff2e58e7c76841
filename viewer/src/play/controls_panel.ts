// The dialog of the controls: what every key and button does, and their assignment.

import { button, checkbox, dialog, el, field, option, setText, textButton } from "../hud/dom";
import { SENSITIVITIES } from "./axes";
import { COMMANDS, type Command, bindButton, bindKey, buttonLabel, keyLabel } from "./bindings";
import type { PilotInput } from "./input";
import { TOUCH_LINE } from "./touch";

export const GROUPS = ["Move", "Pack", "Weapons", "Session", "Systems"] as const;

export class ControlsPanel {
  readonly root: HTMLElement;
  private readonly keys = new Map<Command, HTMLButtonElement>();
  private readonly buttons = new Map<Command, HTMLButtonElement>();
  private readonly mouse = el("select");
  private readonly inverted = checkbox();
  private readonly warning = el("p", { class: "key-note problem-line", attributes: { role: "status" } });
  private readonly note = el("p", { class: "key-note soft", attributes: { role: "status" } });

  constructor(private readonly input: PilotInput) {
    const slot = (command: Command, label: string, slots: Map<Command, HTMLButtonElement>) => {
      const made = button(label, "", () => this.assign(command), "key-slot");
      slots.set(command, made);
      return made;
    };
    const groups = GROUPS.map((group) => {
      const rows = COMMANDS.filter((row) => row.group === group).flatMap(({ command, label }) => [
        el("span", { text: label }),
        slot(command, `Key of “${label}”`, this.keys),
        slot(command, `Gamepad button of “${label}”`, this.buttons),
      ]);
      return el("div", { class: "key-group" }, [el("h3", { text: group }), el("div", { class: "control-rows" }, rows)]);
    });
    const defaults = () => {
      this.input.setBindings(null);
      this.input.setAxes(null);
      this.show("The defaults are set.");
    };
    this.root = dialog("help pilot-controls", "Controls", () => this.close(), [
      this.warning,
      el("p", { class: "key-note soft by-touch", text: TOUCH_LINE }),
      ...groups,
      this.axesGroup(),
      el("p", { class: "key-note soft", text: "The mouse aims after a click in the picture." }),
      this.note,
      textButton("Set the defaults", defaults, "button wide framed"),
    ]);
  }

  private axesGroup(): HTMLElement {
    const change = () => this.input.setAxes({ sensitivity: Number(this.mouse.value), inverted: this.inverted.checked });
    for (const input of [this.mouse, this.inverted]) input.addEventListener("change", change);
    this.mouse.append(...SENSITIVITIES.map((value) => option(String(value), `${value}×`)));
    return el("div", { class: "key-group" }, [
      el("h3", { text: "Mouse and sticks" }),
      field("Mouse sensitivity", this.mouse),
      field("Mouse or stick up tilts the view down", this.inverted),
    ]);
  }

  /** Say what goes on behind the dialog, "" for nothing. */
  warn(text: string): void {
    setText(this.warning, text);
    this.warning.hidden = text === "";
  }

  open(): void {
    this.root.hidden = false;
    this.show("Choose a row to assign another key, mouse button or gamepad button.");
  }

  close(): void {
    this.input.capture = null;
    this.root.hidden = true;
  }

  private assign(command: Command): void {
    const label = COMMANDS.find((row) => row.command === command)?.label ?? command;
    this.show(`Press a key, mouse button or gamepad button for “${label}”; Esc keeps it.`);
    this.input.capture = (key, pad) => {
      const { bindings } = this.input.controls;
      if (key !== null) this.input.setBindings(bindKey(bindings, command, key));
      else if (pad !== null) this.input.setBindings(bindButton(bindings, command, pad));
      const now = key !== null ? keyLabel(key) : pad !== null ? buttonLabel(pad) : "";
      this.show(now === "" ? "Nothing was changed." : `“${label}” is ${now} now.`);
    };
  }

  private show(note: string): void {
    const { bindings } = this.input.controls;
    for (const { command } of COMMANDS) {
      const { keys, buttons } = bindings[command];
      const [key, pad] = [this.keys.get(command), this.buttons.get(command)];
      if (key) setText(key, keys.map(keyLabel).join("  ") || "–");
      if (pad) setText(pad, buttons.map(buttonLabel).join("  ") || "–");
    }
    const { sensitivity, inverted } = this.input.controls.settings;
    this.mouse.value = String(sensitivity);
    this.inverted.checked = inverted;
    setText(this.note, note);
  }
}
