// What a pilot perceives at a moment, from the recorded columns: hostiles it detects now, and those it has lost, where
// and when it last detected them. Without policy columns the knowledge of its team stands in for its own. Pure.

import { type Header, MechFlag } from "../protocol.gen";
import { frameAt } from "../interpolate";
import type { Contact, MatchCursor } from "./cursor";
import { contactsOf, recordsVisibility } from "./fog_of_war";
import type { Chunk } from "./replay";

const MEMORY_S = 5; // time for which pilots remember contacts unless the configuration says otherwise [s]
export const FRESH_S = 0.6; // age up to which a contact counts as detected, as sensors come and go by single steps [s]
const BACK = 4; // earlier chunks that are searched for the last detection

/** Whose knowledge is known: the pilot's, its team's, or none, so that everything counts as detected. */
export type Knowledge = "pilot" | "team" | "none";

/** Return whose knowledge a replay records. */
export function knowledgeOf({ header }: Pick<MatchCursor, "header">): Knowledge {
  return header.insight ? "pilot" : header.flags.includes("seen") ? "team" : "none";
}

/** Return how long pilots remember a contact [s]. */
export function memoryOf({ config }: Header): number {
  const set = config["display.memory_s"];
  return typeof set === "number" ? set : MEMORY_S;
}

/** Return whether a pilot had detected another mech in the environment step that led to a frame. */
function detectedIn(match: MatchCursor, chunk: Chunk, frame: number, pilot: number, other: number): boolean {
  if (chunk.insight) {
    const words = Math.ceil(chunk.mechs / 8);
    return (chunk.insight.sees[(frame * chunk.mechs + pilot) * words + (other >> 3)] & (1 << (other & 7))) !== 0;
  }
  if (!recordsVisibility(match)) return true;
  return (chunk.mech.flags[frame * chunk.mechs + other] & MechFlag.SEEN) !== 0;
}

/** Return chunk and frame at which a pilot last detected a mech before a tick, or null if it has forgotten it. */
function lastDetection(
  match: MatchCursor,
  chunks: readonly Chunk[],
  tick: number,
  pilot: number,
  other: number,
): { chunk: Chunk; frame: number } | null {
  const oldest = tick - memoryOf(match.header) * match.header.tick_hz;
  for (const chunk of chunks) {
    const from = tick >= chunk.tick1 ? chunk.frames - 1 : frameAt(chunk, tick).next;
    // what a frame tells was known at the frame before
    for (let frame = from; frame > 0; frame--) {
      if (chunk.tick[frame - 1] < oldest) return null;
      if (detectedIn(match, chunk, frame, pilot, other)) return { chunk, frame: frame - 1 };
    }
  }
  return null;
}

/** Return the chunk at the cursor and loaded ones before it, the latest first. */
export function recentChunks({ chunk, chunkNumber, store }: MatchCursor): Chunk[] {
  const chunks = chunk ? [chunk] : [];
  for (let number = chunkNumber - 1; number >= 0 && number >= chunkNumber - BACK; number--) {
    const earlier = store.get(number);
    if (!earlier) break;
    chunks.push(earlier);
  }
  return chunks;
}

/** Return the living hostiles that a pilot knows of at a tick, the nearest first. */
export function perceive(match: MatchCursor, tick: number, pilot: number): Contact[] {
  const { header, poses, chunk } = match;
  if (match.pilot) return [...match.pilot.contacts];
  if (!chunk || pilot < 0) return [];
  const { next } = frameAt(chunk, tick);
  const target = chunk.mech.focus[next * chunk.mechs + pilot];
  const listed = contactsOf(chunk, tick, pilot);
  const chunks = recentChunks(match);
  const found: Contact[] = [];
  header.roster.forEach(({ team, present }, mech) => {
    if (!present || team === header.roster[pilot].team || !(poses.flags[mech] & MechFlag.ALIVE)) return;
    const last = lastDetection(match, chunks, tick, pilot, mech);
    if (!last) return;
    const now = last.chunk === chunk && last.frame === next - 1;
    const at = last.frame * last.chunk.mechs + mech;
    const from = now ? poses : last.chunk.mech;
    const k = now ? mech : at;
    const [x, y, z] = [from.x[k], from.y[k], from.z[k]];
    found.push({
      mech,
      ...{ x, y, z, yaw: from.yaw[k] },
      age: now ? 0 : Math.max(0, (tick - last.chunk.tick[last.frame]) / header.tick_hz),
      range: Math.hypot(x - poses.x[pilot], y - poses.y[pilot], z - poses.z[pilot]),
      listed: listed.length === 0 || listed.includes(mech),
      target: mech === target,
    });
  });
  return found.sort((a, b) => a.range - b.range);
}

/** Return whether a mech is in a pilot's picture: itself and friends always, hostiles while they are detected. */
export function isPerceived(
  { header }: Pick<MatchCursor, "header">,
  contacts: readonly Contact[],
  pilot: number,
  mech: number,
): boolean {
  if (header.roster[mech].team === header.roster[pilot].team) return true;
  return contacts.some((contact) => contact.mech === mech && isFresh(contact));
}

/** Return whether a contact is detected now or was a moment ago. */
export function isFresh({ age }: Contact): boolean {
  return age <= FRESH_S;
}

const SURE = 0.995; // certainty from which it is not named
const MOST = 12; // most contacts without slots of a display that are marked

/** Return the contacts that are marked in the picture: the target, those in slots of the display, else the nearest. */
export function markedContacts(contacts: readonly Contact[], slots: boolean): Contact[] {
  const listed = contacts.filter(({ listed: shown, target }) => shown || target);
  return slots ? listed : listed.filter(({ target }, place) => target || place < MOST);
}

/** Return range and age of a contact as text, e.g. "24 vox, 3.2 s ago", with the certainty of a display. */
export function contactText(contact: Contact): string {
  const { certainty = -1 } = contact;
  const sure = certainty >= 0 && certainty < SURE ? `, ${(100 * certainty).toFixed(0)} % certain` : "";
  return `${contact.range.toFixed(0)} vox${isFresh(contact) ? "" : `, ${contact.age.toFixed(1)} s ago`}${sure}`;
}
