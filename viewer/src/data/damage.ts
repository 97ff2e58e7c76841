// What of a match cannot be read, in words: damaged or truncated files, and recordings without an end. Pure.

import type { Header, IndexView } from "../protocol.gen";
import { clockText } from "../timeline";
import type { Fault } from "./container";

export interface FileDamage {
  readonly fault: Fault; // what ends its readable part
  readonly complete: boolean; // whether it has a valid end
  readonly chunks: readonly number[]; // numbers of damaged chunks in its readable part
}

export const UNDAMAGED: FileDamage = { fault: "none", complete: true, chunks: [] };
const CAUSES: Record<Fault, string> = { none: "Incomplete recording", cut: "Truncated file", damaged: "Damaged file" };
const MOST_SPANS = 3; // time spans that are named

/** Return chunk numbers as time spans, e.g. "0:04–0:08"; neighbours are joined. */
export function spansText(index: IndexView, hz: number, numbers: readonly number[]): string {
  const spans: [number, number][] = [];
  for (const number of [...numbers].sort((a, b) => a - b)) {
    const last = spans.at(-1);
    if (last && last[1] === number - 1) last[1] = number;
    else spans.push([number, number]);
  }
  const texts = spans.map(([first, last]) => {
    const [from, to] = [index.chunks[first]?.[0] ?? 0, index.chunks[last]?.[1] ?? 0];
    return `${clockText(from / hz)}–${clockText(to / hz)}`;
  });
  const more = texts.length - MOST_SPANS;
  return texts.slice(0, MOST_SPANS).join(", ") + (more > 0 ? ` and ${more} more` : "");
}

/** Return what of a match cannot be read, "" for nothing; `unread` are the chunks found damaged so far. */
export function damageText(header: Header, index: IndexView, file: FileDamage, unread: readonly number[]): string {
  const numbers = [...new Set([...file.chunks, ...unread])];
  const parts: string[] = [];
  const missing = !index.live && (index.outcome === null ? !file.complete : index.outcome.winner < 0);
  const end = clockText((index.chunks.at(-1)?.[1] ?? 0) / header.tick_hz);
  if (missing) parts.push(`recovered first ${end}`, "result missing");
  else if (!file.complete) parts.push(`recovered up to ${end}`);
  if (numbers.length > 0) parts.push(`${spansText(index, header.tick_hz, numbers)} cannot be read`);
  if (parts.length === 0) return "";
  const cause = numbers.length > 0 ? CAUSES.damaged : CAUSES[file.fault];
  return `${cause}: ${parts.join(", ")}`;
}
