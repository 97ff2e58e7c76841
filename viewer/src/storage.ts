// What the browser remembers by key: settings and controls between visits, the token and the seat of a play session
// until its tab is closed. Without access to its storage nothing is remembered.

const SESSION_KEYS = ["play", "seat"]; // of a tab, also when its page is loaded again
export type StorageKey = "settings" | "controls" | "axes" | "welcomed" | "play" | "seat" | "ladder";

/** Return the text of a key: null without one, undefined without access to the storage. */
export function recall(key: StorageKey): string | null | undefined {
  try {
    return storageOf(key).getItem(`echelon.${key}`);
  } catch {
    return undefined;
  }
}

/** Remember a text, or forget the key with "". */
export function remember(key: StorageKey, text: string): void {
  try {
    if (text === "") storageOf(key).removeItem(`echelon.${key}`);
    else storageOf(key).setItem(`echelon.${key}`, text);
  } catch {
    // the page goes on without
  }
}

function storageOf(key: StorageKey): Storage {
  return SESSION_KEYS.includes(key) ? sessionStorage : localStorage;
}

/** Return the fields of the JSON object in a text, none without a valid one. */
export function parseFields(text: string | null | undefined): Record<string, unknown> {
  try {
    return Object(JSON.parse(text ?? "")) as Record<string, unknown>;
  } catch {
    return {};
  }
}
