// What a tab remembers of its session until it is closed, also when its page is loaded again: the session's token and
// the key of its seat. Without storage nothing is remembered.

export type Remembered = "play" | "seat";

const nameOf = (what: Remembered) => `echelon.${what}`;

/** Return what the tab remembers, "" for nothing. */
export function recall(what: Remembered): string {
  try {
    return sessionStorage.getItem(nameOf(what)) ?? "";
  } catch {
    return "";
  }
}

/** Remember a text, "" for nothing. */
export function remember(what: Remembered, text: string): void {
  try {
    if (text === "") sessionStorage.removeItem(nameOf(what));
    else sessionStorage.setItem(nameOf(what), text);
  } catch {
    // the page goes on without
  }
}
