// The error banner above every page, shown until the problem is over or the user dismisses it.

import { ICONS, button, el, icon, setText, textButton } from "./dom";

export class ProblemBanner {
  private readonly text = el("span");
  private readonly wait = el("span", { class: "problem-wait", aria: { hidden: "true" } });
  private readonly again = textButton("Retry now", () => this.retry?.());
  private retry: (() => void) | null = null;
  readonly root = el("div", { class: "problem", attributes: { role: "alert" } }, [
    this.text,
    this.wait,
    this.again,
    button("Dismiss", icon(ICONS.close), () => this.dismissed.add(this.text.textContent ?? "")),
  ]);
  /** Dismissed messages; a message stays dismissed until there is no problem any more. */
  private readonly dismissed = new Set<string>();

  update(message: string, retry: (() => void) | null = null, seconds = 0): void {
    this.retry = retry;
    this.again.hidden = this.wait.hidden = retry === null;
    setText(this.wait, seconds > 0 ? `next attempt in ${Math.ceil(seconds)} s` : "retrying");
    if (message === "") this.dismissed.clear();
    this.root.hidden = message === "" || this.dismissed.has(message);
    setText(this.text, message);
  }
}
