// The error banner above every page, shown until the problem is over or the user dismisses it.

import { ICONS, button, el, icon, setText } from "./dom";

/** The error banner. */
export class ProblemBanner {
  private readonly text = el("span");
  readonly root = el("div", { class: "problem", attributes: { role: "alert" } }, [
    this.text,
    button("Dismiss", icon(ICONS.close), () => this.dismissed.add(this.text.textContent ?? "")),
  ]);
  /** Dismissed messages; a message stays dismissed until there is no problem any more. */
  private readonly dismissed = new Set<string>();

  /** Show a message, "" for none. */
  update(message: string): void {
    if (message === "") this.dismissed.clear();
    this.root.hidden = message === "" || this.dismissed.has(message);
    setText(this.text, message);
  }
}
