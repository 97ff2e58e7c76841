// Visible tooltips of everything with a `data-tip`: on hover after a moment, and at once on keyboard focus, or on a tap
// of what does nothing else.

import { el, setText } from "./dom";

const DELAY_MS = 350; // from the pointer's arrival to the tooltip
const ACTIVE = "a, button, input, select, summary"; // elements that a tap activates
const GAP = 8; // between tooltip and element, and to the window's edge [CSS px]

export class Tooltip {
  readonly root = el("div", { class: "tooltip", attributes: { role: "tooltip" } });
  private owner: Element | null = null;
  private timer = 0;
  private mouse = true; // whether the last pointer was one

  constructor() {
    this.root.hidden = true;
    const ownerOf = (event: Event) =>
      event.target instanceof Element ? event.target.closest<HTMLElement>("[data-tip]") : null;
    document.addEventListener("pointerover", (event) => {
      const owner = ownerOf(event);
      if (owner === this.owner) return;
      this.hide();
      this.owner = owner;
      if (owner && event.pointerType === "mouse") this.timer = window.setTimeout(() => this.show(owner), DELAY_MS);
    });
    document.addEventListener("focusin", (event) => {
      const owner = ownerOf(event);
      if (this.mouse && owner?.matches(":focus-visible")) this.show(owner);
    });
    document.addEventListener("pointerdown", (event) => (this.mouse = event.pointerType === "mouse"));
    document.addEventListener("click", (event) => {
      const owner = ownerOf(event);
      if (!this.mouse && owner && !owner.closest(ACTIVE)) this.show(owner);
    });
    for (const name of ["pointerdown", "focusout", "keydown"]) document.addEventListener(name, () => this.hide());
  }

  private hide(): void {
    window.clearTimeout(this.timer);
    this.owner = null;
    this.root.hidden = true;
  }

  private show(owner: HTMLElement): void {
    window.clearTimeout(this.timer);
    if (!owner.dataset.tip) return;
    this.owner = owner;
    setText(this.root, owner.dataset.tip);
    this.root.hidden = false;
    const [box, own] = [owner.getBoundingClientRect(), this.root.getBoundingClientRect()];
    const most = window.innerWidth - own.width - GAP;
    const left = Math.max(GAP, Math.min(most, (box.left + box.right - own.width) / 2));
    const above = box.top - own.height - GAP;
    this.root.style.left = `${left}px`;
    this.root.style.top = `${above >= GAP ? above : box.bottom + GAP}px`;
  }
}
