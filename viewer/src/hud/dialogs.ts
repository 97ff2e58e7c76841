// Focus of dialogs: it moves into one that opens and back when that closes; within a modal one it stays.

const FOCUSABLE = "a[href], button, input, select, textarea, [tabindex]";
const MODAL = ["help", "settings"]; // classes of dialogs that wait for an answer; others stay open beside the match

export class Dialogs {
  private readonly open = new Map<HTMLElement, Element | null>(); // open dialogs and what had the focus before
  private readonly all: readonly HTMLElement[];

  constructor(host: HTMLElement) {
    this.all = [...host.querySelectorAll<HTMLElement>("[role=dialog]")];
    for (const dialog of this.all) {
      dialog.tabIndex = -1;
      dialog.setAttribute("aria-modal", String(isModal(dialog)));
      if (isModal(dialog)) dialog.addEventListener("keydown", (event) => keepInside(dialog, event));
    }
  }

  /** Move the focus for dialogs that have opened or closed since the last call. */
  update(): void {
    for (const dialog of this.all) {
      if (dialog.hidden === !this.open.has(dialog)) continue;
      if (!dialog.hidden) {
        this.open.set(dialog, document.activeElement);
        dialog.focus({ preventScroll: true });
        continue;
      }
      const before = this.open.get(dialog);
      this.open.delete(dialog);
      // the focus of a hidden element is lost to the body
      const lost = document.activeElement === document.body || dialog.contains(document.activeElement);
      if (lost && before instanceof HTMLElement && before.isConnected) before.focus({ preventScroll: true });
    }
  }
}

function isModal(dialog: HTMLElement): boolean {
  return MODAL.some((name) => dialog.classList.contains(name));
}

function keepInside(dialog: HTMLElement, event: KeyboardEvent): void {
  if (event.key !== "Tab") return;
  const all = [...dialog.querySelectorAll<HTMLElement>(FOCUSABLE)].filter(
    (element) => element.tabIndex >= 0 && element.getClientRects().length > 0,
  );
  const [first, last] = [all[0], all.at(-1)];
  const at = document.activeElement;
  const leaves = event.shiftKey ? at === first || at === dialog : at === last;
  if (!first || !last || !leaves) return;
  event.preventDefault();
  (event.shiftKey ? last : first).focus();
}
