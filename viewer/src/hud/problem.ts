// The banner that says what is wrong, over every page, until it is over or the user has read it.

import { ICONS, button, el, icon, setText } from "./dom";

/** The banner. */
export class ProblemBanner {
  private readonly text = el("span");
  readonly root = el("div", { class: "problem", attributes: { role: "alert" } }, [
    this.text, button("Dismiss", icon(ICONS.close), () => this.read.add(this.text.textContent ?? "")),
  ]);
  /** What has been dismissed since all was well; while it goes on it is not said again. */
  private readonly read = new Set<string>();

  /** Say what is wrong, "" for nothing. */
  update(words: string): void {
    if (words === "") this.read.clear();
    this.root.hidden = words === "" || this.read.has(words);
    setText(this.text, words);
  }
}
