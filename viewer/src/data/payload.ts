// Unpacks msgpack payloads within the budget of their record type: objects, entries and nesting are counted before
// anything is built. The counterpart of `unpack_map` in echelon/replay/codec.py.

import { decode } from "@msgpack/msgpack";
import { BUDGETS, type Budget, MAX_DEPTH } from "../protocol.gen";

/** A file or an answer is no replay, is damaged, or exceeds a limit; the message is for the user. */
export class ReplayError extends Error {}

/** Kinds of msgpack objects by what follows their first byte. */
type Form =
  | { kind: "plain"; bytes: number } // a number, null or boolean of a fixed size
  | { kind: "bytes" | "text" | "list" | "map"; lengthBytes: number }; // a length, then bytes or objects

const plain = (bytes: number): Form => ({ kind: "plain", bytes });
const sized = (kind: "bytes" | "text" | "list" | "map", lengthBytes: number): Form => ({ kind, lengthBytes });

/** Forms of the first bytes 0xc0 to 0xdf; 0xc1 and extensions have none. */
const FORMS: readonly (Form | null)[] = [
  ...[plain(0), null, plain(0), plain(0), sized("bytes", 1), sized("bytes", 2), sized("bytes", 4), null, null, null],
  ...[plain(4), plain(8), plain(1), plain(2), plain(4), plain(8), plain(1), plain(2), plain(4), plain(8)],
  ...[null, null, null, null, null, sized("text", 1), sized("text", 2), sized("text", 4)],
  ...[sized("list", 2), sized("list", 4), sized("map", 2), sized("map", 4)],
];
const FIRST_FORM = 0xc0;
const FIRST_NEGATIVE = 0xe0;

/** Return kind and length of the object at `at`, and where its content starts. */
function objectAt(data: Uint8Array, at: number): { kind: Form["kind"]; length: number; start: number } {
  const first = data[at];
  if (first < 0x80 || first >= FIRST_NEGATIVE) return { kind: "plain", length: 0, start: at + 1 };
  if (first < 0x90) return { kind: "map", length: first & 15, start: at + 1 };
  if (first < 0xa0) return { kind: "list", length: first & 15, start: at + 1 };
  if (first < FIRST_FORM) return { kind: "text", length: first & 31, start: at + 1 };
  const form = FORMS[first - FIRST_FORM];
  if (!form) throw new ReplayError(`record has a byte ${first} at ${at}, expected a plain object`);
  if (form.kind === "plain") return { kind: "plain", length: form.bytes, start: at + 1 };
  let length = 0;
  for (let i = 0; i < form.lengthBytes; i++) length = length * 256 + (data[at + 1 + i] ?? 0);
  return { kind: form.kind, length, start: at + 1 + form.lengthBytes };
}

/** Throw a `ReplayError` unless a payload is one msgpack object within its budget whose keys are texts. */
export function checkObjects(data: Uint8Array, budget: Budget): void {
  const open: { left: number; map: boolean }[] = []; // unfinished maps and lists, keys and values counted apart
  let [at, objects] = [0, 0];
  do {
    if (at >= data.length) throw new ReplayError("record is truncated");
    const { kind, length, start } = objectAt(data, at);
    const outer = open.at(-1);
    if (outer?.map && outer.left % 2 === 0 && kind !== "text")
      throw new ReplayError("record has a key that is not a text");
    if (outer) outer.left--;
    objects++;
    at = start;
    if (kind === "map" || kind === "list") {
      if (length > budget.entries) throw new ReplayError(`record has a ${kind} of ${length} entries`);
      open.push({ left: kind === "map" ? 2 * length : length, map: kind === "map" });
      if (open.length > MAX_DEPTH) throw new ReplayError(`record is nested deeper than ${MAX_DEPTH} levels`);
    } else at += length;
    if (objects > 2 * budget.objects) throw new ReplayError(`record has more than ${budget.objects} objects`);
    while (open.length > 0 && open[open.length - 1].left === 0) open.pop();
  } while (open.length > 0);
  if (at !== data.length) throw new ReplayError(`record has ${data.length} bytes, expected ${at}`);
}

/** Return the msgpack map in a payload of a record type; throws a `ReplayError`. */
export function unpackMap(data: Uint8Array, type: number): Record<string, unknown> {
  checkObjects(data, BUDGETS[type]);
  let value: unknown;
  try {
    value = decode(data);
  } catch (error) {
    throw new ReplayError(`record cannot be read: ${error instanceof Error ? error.message : String(error)}`);
  }
  if (value === null || typeof value !== "object" || Array.isArray(value) || value instanceof Uint8Array)
    throw new ReplayError("record does not hold a map");
  return value as Record<string, unknown>;
}
