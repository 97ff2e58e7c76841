// Which key a key event means, on every keyboard: W A S D and digits by their place, letters as they are typed where
// they are Latin, all else by the place that they have on a US keyboard. Keys are named by their lower-case text.

/** What keys type without Shift, by their place, as far as the browser tells. */
export type Layout = ReadonlyMap<string, string>;
type Press = Pick<KeyboardEvent, "key" | "code" | "shiftKey">;

const MOVES = ["w", "a", "s", "d"];
export const SIGNS: Record<string, string> = {
  BracketLeft: "[",
  BracketRight: "]",
  Slash: "/",
  Backslash: "\\",
  Comma: ",",
  Period: ".",
  Semicolon: ";",
  Quote: "'",
  Minus: "-",
  Equal: "=",
  Backquote: "`",
};
const LETTER = /^[a-z]$/;

let current: Layout = new Map();

/** Ask the browser for the layout of the keyboard; without an answer keys are shown as on a US keyboard. */
export async function learnLayout(): Promise<void> {
  const { keyboard } = navigator as { keyboard?: { getLayoutMap(): Promise<Layout> } };
  current = (await keyboard?.getLayoutMap().catch(() => undefined)) ?? current;
}

/** Return what a key types on a US keyboard without Shift. */
function standard(code: string): string | undefined {
  return SIGNS[code] ?? /^(?:Key|Digit)(.)$/.exec(code)?.[1].toLowerCase();
}

const codeOf = (letter: string): string => `Key${letter.toUpperCase()}`;
const isMove = (code: string): boolean => MOVES.some((letter) => codeOf(letter) === code);

/** Return the name of the key in a key event, as in the key tables. */
export function keyName({ key, code, shiftKey }: Press, layout: Layout = current): string {
  const place = standard(code);
  const typed = key.toLowerCase();
  if (place === undefined) return typed;
  if (isMove(code) || (code.startsWith("Digit") && !shiftKey)) return place;
  // the letter of a movement key elsewhere stands for what the movement key types
  if (MOVES.includes(typed)) return layout.get(codeOf(typed)) ?? place;
  if (LETTER.test(typed)) return typed;
  if (!/^[!-~]$/.test(typed)) return place;
  const letters = [...layout.values()];
  if (LETTER.test(place)) return letters.includes(place) ? typed : place;
  const latin = layout.size === 0 || letters.some((letter) => LETTER.test(letter));
  return latin || shiftKey || code.startsWith("Digit") ? typed : place;
}

/** Return what a key at a place types, as displayed, undefined where that is as on a US keyboard or unknown. */
export function placeLabel(code: string, layout: Layout = current): string | undefined {
  const typed = layout.get(code);
  return typed === undefined || typed === standard(code) ? undefined : typed.toUpperCase();
}

/** Return the key to press for a name of the key tables, as displayed: the one for which `keyName` gives that name. */
export function keyLabel(name: string, layout: Layout = current): string {
  const lower = name.toLowerCase();
  const codes = [...layout.keys()];
  const found =
    codes.find((code) => keyName({ key: layout.get(code) ?? "", code, shiftKey: false }, layout) === lower) ?? "";
  return placeLabel(found, layout) ?? name;
}
