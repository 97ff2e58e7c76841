// The event feed at the lower left, computed from the markers before the cursor, so that it is correct after any seek;
// and announcements of new events for screen readers.

import * as control from "../control";
import { EventKind, type Header } from "../protocol.gen";
import type { MatchState, ViewerState } from "../state";
import { type Marker, clockText } from "../timeline";
import { el } from "./dom";
import { killText, markerText, mechName } from "../text";

const SHOWN = 6; // most lines
const SHOWN_S = 14; // how long an event is listed [s]
const MOST_NAMES = 4; // most mechs named in a line
const ANNOUNCE_MS = 1200; // least time between announcements

/** One line: a kill, or all recent events of another kind by mech with how often each repeated. */
export interface Line extends Marker {
  readonly mechs: ReadonlyMap<number, number>;
}

/** Group markers into lines in order of their last event: kills one by one, falls and overheating by kind. */
export function groupEvents(markers: readonly Marker[]): Line[] {
  const lines: Line[] = [];
  for (const marker of markers) {
    const same = marker.kind === EventKind.KILL ? -1 : lines.findIndex(({ kind }) => kind === marker.kind);
    const mechs = new Map(same >= 0 ? lines.splice(same, 1)[0].mechs : []);
    mechs.set(marker.actor, (mechs.get(marker.actor) ?? 0) + 1);
    lines.push({ ...marker, mechs });
  }
  return lines;
}

/** Return the mechs of a line that are named, the latest first, and how many others there are. */
function namedMechs({ mechs }: Line): { named: [number, number][]; others: number } {
  const all = [...mechs].reverse();
  const named = all.length > MOST_NAMES ? all.slice(0, MOST_NAMES - 1) : all;
  return { named, others: all.length - named.length };
}

const VERBS: Partial<Record<EventKind, string>> = {
  [EventKind.FALL]: "knocked down",
  [EventKind.SHUTDOWN]: "overheated",
};

export function lineText(header: Header, line: Line): string {
  if (line.kind === EventKind.KILL) return markerText(header, line);
  const { named, others } = namedMechs(line);
  const names = named.map(([mech, times]) => mechName(header, mech) + (times > 1 ? ` (${times} times)` : ""));
  return `${[...names, ...(others > 0 ? [`${others} more`] : [])].join(", ")} ${VERBS[line.kind] ?? ""}`;
}

export class Feed {
  readonly root = el("section", { class: "feed", aria: { label: "Events" } });
  readonly announcements = el("div", { class: "visually-hidden", aria: { live: "polite", relevant: "additions" } });
  private shown = "";
  private announcedAt = 0;

  update(state: ViewerState, match: MatchState): void {
    const since = state.tick - SHOWN_S * match.header.tick_hz;
    // a line has the time of its last event: a mech that was destroyed before is not in it
    const recent = match.markers.filter(
      ({ tick, kind, actor }) =>
        tick <= state.tick && tick > since && (kind === EventKind.KILL || !(match.deaths[actor] <= state.tick)),
    );
    const key = `${match.id} ${recent[0]?.tick} ${recent.at(-1)?.tick} ${recent.length} ${match.kills.version}`;
    if (key !== this.shown) {
      this.shown = key;
      const lines = groupEvents(recent).slice(-SHOWN);
      this.root.replaceChildren(...lines.map((line) => this.line(match, line)));
    }
    this.announce(state, match);
  }

  private line(match: MatchState, line: Line): HTMLElement {
    const { header } = match;
    const name = (mech: number, times = 1) =>
      el("b", {
        class: mech < 0 ? "hazard" : header.roster[mech].team === 0 ? "blue" : "red",
        text: mechName(header, mech) + (times > 1 ? ` ×${times}` : ""),
      });
    const time = el("time", { class: "tiny", text: clockText(line.tick / header.tick_hz) });
    const verb = (text: string) => el("span", { class: "verb", text });
    if (line.kind === EventKind.KILL)
      return el("p", { class: "feed-line kill" }, [
        time,
        name(line.actor),
        verb("destroyed"),
        name(line.target),
        el("span", { class: "feed-detail tiny", text: killText(header, match.kills.of(line.target, line.tick)) }),
      ]);
    const { named, others } = namedMechs(line);
    return el("p", { class: "feed-line" }, [
      time,
      ...named.map(([mech, times]) => name(mech, times)),
      ...(others > 0 ? [verb(`and ${others} more`)] : []),
      verb(VERBS[line.kind] ?? ""),
    ]);
  }

  private announce(state: ViewerState, match: MatchState): void {
    const now = performance.now();
    if (state.unannounced.length === 0 || now - this.announcedAt < ANNOUNCE_MS) return;
    this.announcedAt = now;
    this.announcements.replaceChildren(
      ...groupEvents(control.takeUnannounced(state)).map((line) => el("p", { text: lineText(match.header, line) })),
    );
  }
}
