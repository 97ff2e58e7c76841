// Keys on keyboards of several countries: every shortcut can be reached, and the help names the key that does it.

import { describe, expect, test } from "vitest";
import { type Exits, keyTable } from "../src/input";
import { keyLabel, keyName } from "../src/keys";

const ROWS = ["qwertyuiop[]", "asdfghjkl;'", "zxcvbnm,./"];
const CODES: Record<string, string> = { "[": "BracketLeft", "]": "BracketRight", ";": "Semicolon", "'": "Quote" };
Object.assign(CODES, { ",": "Comma", ".": "Period", "/": "Slash" });
const codeOf = (key: string) => CODES[key] ?? `Key${key.toUpperCase()}`;
const layoutOf = (...rows: string[]) =>
  new Map(ROWS.flatMap((row, i) => [...row].map((key, k) => [codeOf(key), rows[i][k]] as const)));

const LAYOUTS = {
  US: layoutOf(...ROWS),
  German: layoutOf("qwertzuiopü+", "asdfghjklöä", "yxcvbnm,.-"),
  French: layoutOf("azertyuiop^$", "qsdfghjklmù", "wxcvbn,;:!"),
  Dvorak: layoutOf("',.pyfgcrl/=", "aoeuidhtns-", ";qjkxbmwvz"),
  Russian: layoutOf("йцукенгшщзхъ", "фывапролджэ", "ячсмитьбю."),
  Greek: layoutOf(";ςερτυθιοπ[]", "ασδφγηξκλ΄'", "ζχψωβνμ,./"),
};
const named = Object.entries(LAYOUTS).map(([name, layout]) => ({ name, layout }));
const press = (code: string, key: string, shiftKey = false) => ({ code, key, shiftKey });

describe.each(named)("on a keyboard: $name", ({ layout }) => {
  const letters = keyTable({} as Exits).flatMap(({ keys }) => keys.filter((key) => /^[a-z]$/.test(key)));

  test("every letter of the shortcuts is the key that the help shows", () => {
    for (const letter of letters) {
      const reached = [...layout].filter(([code, key]) => keyName(press(code, key), layout) === letter);
      expect(
        reached.map(([, key]) => key.toUpperCase()),
        letter,
      ).toContain(keyLabel(letter.toUpperCase(), layout));
    }
  });

  test("W A S D are where a US keyboard has them, also where the browser tells no layout", () => {
    for (const letter of "wasd") {
      const code = codeOf(letter);
      const event = press(code, layout.get(code) ?? "");
      expect([keyName(event, layout), keyName(event, new Map())]).toEqual([letter, letter]);
    }
  });
});

test.each([
  ["Cyrillic letter without a layout", press("KeyK", "л"), "k"],
  ["Cyrillic letter with Shift", press("KeyN", "Т", true), "n"],
  ["digit of a French keyboard", press("Digit3", '"'), "3"],
  ["digit of a French keyboard with Shift", press("Digit3", "3", true), "3"],
  ["question mark", press("Slash", "?", true), "?"],
  ["slash of a German keyboard", press("Digit7", "/", true), "/"],
  ["dead key", press("Semicolon", "Dead"), ";"],
  ["arrow", press("ArrowLeft", "ArrowLeft"), "arrowleft"],
  ["space", press("Space", " "), " "],
  ["keypad", press("NumpadAdd", "+"), "+"],
])("%s", (_, event, name) => expect(keyName(event, new Map())).toBe(name));
