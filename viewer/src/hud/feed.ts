// The event feed at the lower left, computed from the markers before the cursor, so that it is correct after any seek;
// and announcements of new events for screen readers.

import * as control from "../control";
import { EventKind, type Header } from "../protocol.gen";
import type { MatchState, ViewerState } from "../state";
import { type Marker, clockText } from "../timeline";
import { el } from "./dom";
import { markerText, mechName } from "./text";

const SHOWN = 6; // most lines
const SHOWN_S = 14; // how long an event is listed [s]
const ANNOUNCE_MS = 1200; // least time between announcements

/** One line: an event and how often it has repeated. */
interface Line extends Marker {
  times: number;
}

/** Merge repeated events of the same mechs into one line with the time of the last. */
export function mergeRepeats(markers: readonly Marker[]): Line[] {
  const lines: Line[] = [];
  for (const marker of markers) {
    const same = lines.findIndex(
      (line) => line.kind === marker.kind && line.who === marker.who && line.whom === marker.whom,
    );
    const times = same >= 0 ? lines.splice(same, 1)[0].times + 1 : 1;
    lines.push({ ...marker, times });
  }
  return lines;
}

/** Return a line as a sentence. */
function lineText(header: Header, line: Line): string {
  return `${markerText(header, line)}${line.times > 1 ? `, ${line.times} times` : ""}`;
}

/** The event feed and its live region. */
export class Feed {
  readonly root = el("section", { class: "feed", aria: { label: "Events" } });
  readonly announcements = el("div", { class: "visually-hidden", aria: { live: "polite", relevant: "additions" } });
  private shown = "";
  private announcedAt = 0;

  update(state: ViewerState, match: MatchState): void {
    const since = state.tick - SHOWN_S * match.header.tick_hz;
    const recent = mergeRepeats(
      match.markers.filter((marker) => marker.tick <= state.tick && marker.tick > since),
    ).slice(-SHOWN);
    const key = recent.map((line) => `${line.tick}.${line.kind}.${line.who}.${line.whom}.${line.times}`).join(" ");
    if (key !== this.shown) {
      this.shown = key;
      this.root.replaceChildren(...recent.map((marker) => this.line(match, marker)));
    }
    this.announce(state, match);
  }

  private line(match: MatchState, marker: Line): HTMLElement {
    const { header } = match;
    const name = (mech: number) =>
      el("b", {
        class: mech < 0 ? "hazard" : header.roster[mech].team === 0 ? "blue" : "red",
        text: mechName(header, mech),
      });
    const time = el("time", { text: clockText(marker.tick / header.tick_hz) });
    if (marker.kind === EventKind.KILL)
      return el("p", { class: "feed-line kill" }, [
        time,
        name(marker.who),
        el("span", { class: "verb", text: "destroyed" }),
        name(marker.whom),
      ]);
    const verb = marker.kind === EventKind.FALL ? "knocked down" : "overheated";
    const times = marker.times > 1 ? ` ${marker.times} times` : "";
    return el("p", { class: "feed-line" }, [
      time,
      name(marker.who),
      el("span", { class: "verb", text: `${verb}${times}` }),
    ]);
  }

  private announce(state: ViewerState, match: MatchState): void {
    const now = performance.now();
    if (state.unannounced.length === 0 || now - this.announcedAt < ANNOUNCE_MS) return;
    this.announcedAt = now;
    this.announcements.replaceChildren(
      ...mergeRepeats(control.takeUnannounced(state)).map((line) => el("p", { text: lineText(match.header, line) })),
    );
  }
}
