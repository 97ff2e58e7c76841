// Captions of turning points, after the fact: complete once all that a caption tells has happened on the screen, until
// then what has happened so far. Percentages are those of the score bar, always blue's. Pure.

import { COMEBACK, spanOf } from "./data/moments";
import type { WinPoint } from "./data/winprob";
import { scoreAt } from "./interpolate";
import { EventKind, type Moment } from "./protocol.gen";
import type { MatchState } from "./state";
import { aliveCounts } from "./score_text";
import { causeText, markerText, percentText } from "./text";
import { clockText, pointsText } from "./timeline";

const SHOWN_S = 4; // how long a caption is shown [s]
const CHANGE = /: (?:blue|red) (\d+) % → (\d+) %$/; // end of a caption from a file
const SMALL_CHANGE = 5; // change of the win probability that decides nothing, and is not shown [%]
const MOST_KILLS = 3; // most kills that are named while a moment is under way

/** Return the points of the win probability at two ticks; none where it is unknown. */
function pointsAt({ win }: MatchState, from: number, to: number): [] | [WinPoint, WinPoint] {
  const [first] = win.points;
  return first ? [win.at(from) ?? first, win.at(to) ?? first] : [];
}

/** Return the change of the win probability, e.g. ": blue 76 % → 32 %"; "" where it is unknown. */
function changeText([before, after]: [] | [WinPoint, WinPoint]): string {
  return before && after ? `: blue ${percentText(before.p)} → ${percentText(after.p)}` : "";
}

/** Return a caption without its change of the win probability where that decides nothing. */
export function toldChange(caption: string): string {
  const found = CHANGE.exec(caption);
  return found && Math.abs(Number(found[2]) - Number(found[1])) < SMALL_CHANGE ? caption.replace(CHANGE, "") : caption;
}

/** Return the caption of a moment, with the win probability as the page shows it before and after. */
export function fullCaption(match: MatchState, moment: Moment): string {
  const change = changeText(pointsAt(match, ...spanOf(moment, match.index, match.header.tick_hz)));
  return toldChange(change === "" ? moment.caption : moment.caption.replace(CHANGE, "") + change);
}

/** Return what has happened of a moment at a tick, without its end. */
function captionSoFar(match: MatchState, moment: Moment, tick: number): string {
  const { header, markers, chunk } = match;
  const points = pointsAt(match, spanOf(moment, match.index, header.tick_hz)[0], tick);
  const kills = markers
    .filter(({ kind, tick: at }) => kind === EventKind.KILL && at >= moment.tick && at <= tick)
    .slice(-MOST_KILLS);
  const time = `${clockText((kills[0] ?? moment).tick / header.tick_hz)} `;
  const named = kills.map((kill) => markerText(header, kill));
  if (named.length > 0) return `${time}${named.join(", ")}${changeText(points)}`;
  if (moment.kind === "swing") {
    const [before, now] = points;
    const causes = before && now ? causeText(before, now) : "";
    return causes === "" ? "" : `${time}${causes}${changeText(points)}`;
  }
  if (!chunk) return "";
  const [blue, red] = aliveCounts(match);
  const score = scoreAt(chunk, tick).map(pointsText).join(" to ");
  return `${clockText(tick / header.tick_hz)} ${blue} against ${red} mechs, zone ${score}`;
}

/** Return the caption at a tick: of the latest moment that happens or has just happened; "" for none. */
export function captionAt(match: MatchState, tick: number): string {
  const hz = match.header.tick_hz;
  const shown = match.moments.flatMap((moment) => {
    const told = spanOf(moment, match.index, hz)[1];
    if (tick >= told && tick <= told + SHOWN_S * hz)
      return [{ since: moment.kind === COMEBACK ? told : moment.tick, text: () => fullCaption(match, moment) }];
    const until = moment.kind === COMEBACK ? moment.tick + SHOWN_S * hz : told;
    if (tick < moment.tick || tick >= until) return [];
    return [{ since: moment.tick, text: () => captionSoFar(match, moment, tick) }];
  });
  return (
    shown
      .sort((a, b) => a.since - b.since)
      .at(-1)
      ?.text() ?? ""
  );
}
