// The plaque of pictures and clips: names, score and time in a bar at the top, a caption in one at the bottom, so that
// what is shared says by itself which match it shows.

import { captionAt } from "../../caption";
import { isOver, resultText, zoneText } from "../../score_text";
import { teamName } from "../../text";
import { scoreAt } from "../../interpolate";
import { TEAMS } from "../../palette";
import type { MatchState } from "../../state";
import { clockText, pointsText } from "../../timeline";

const BAR = 44; // height of a bar, at `WIDE` [px]
const WIDE = 1000; // width for which sizes are stated [px]
const UPRIGHT = 600; // the same of a picture that is higher than wide, as phones show it
const [SMALLEST, LARGEST] = [0.65, 1.6]; // scale of narrow and wide pictures; the smallest text has 11 px
const DARK = "rgba(8, 12, 18, 0.82)";
const [LIGHT, PALE] = ["#f0f4f8", "#a8b4c0"];
const [DISPLAY, TEXT] = ['"Chakra Petch", sans-serif', '"Inter Variable", sans-serif'];

export interface Plaque {
  readonly names: readonly [string, string];
  readonly score: readonly [string, string];
  readonly clock: string;
  readonly caption: string; // "" for none
  readonly details: string; // second line of the caption, "" for none
}

export function plaqueOf(match: MatchState, tick: number): Plaque {
  const { header, index, chunk } = match;
  const [blue, red] = chunk ? scoreAt(chunk, tick) : [0, 0];
  const result = index.outcome && isOver(match, tick) ? resultText(header, index.outcome) : null;
  const state = chunk ? zoneText(header, chunk, tick, result !== null) : "";
  return {
    names: [teamName(header, 0), teamName(header, 1)],
    score: [pointsText(blue), pointsText(red)],
    clock: clockText(tick / header.tick_hz),
    caption: result?.headline ?? (captionAt(match, tick) || state),
    details: result?.details ?? "",
  };
}

/** Return the plaque in one line, e.g. "champion 5.4 : 9.8 bot: medium at 0:34". */
export function plaqueText({ names, score, clock }: Plaque): string {
  return `${names[0]} ${score[0]} : ${score[1]} ${names[1]} at ${clock}`;
}

/** Draw the plaque over a picture of a size [px]. */
export function drawPlaque(brush: CanvasRenderingContext2D, width: number, height: number, plaque: Plaque): void {
  const unit = Math.max(SMALLEST, Math.min(LARGEST, width / (width < height ? UPRIGHT : WIDE)));
  brush.save();
  brush.setTransform(1, 0, 0, 1, 0, 0);
  brush.textBaseline = "middle";
  brush.fillStyle = DARK;
  brush.fillRect(0, 0, width, BAR * unit);
  const middle = (BAR / 2) * unit;
  text(brush, plaque.clock, width / 2, middle, `600 ${19 * unit}px ${DISPLAY}`, LIGHT, "center");
  for (const [team, side] of [
    [0, -1],
    [1, 1],
  ] as const) {
    const align = team === 0 ? "right" : "left";
    const from = width / 2 + side * 42 * unit;
    const font = `600 ${25 * unit}px ${DISPLAY}`;
    const wide = text(brush, plaque.score[team], from, middle, font, TEAMS[team].css, align);
    const x = from + side * (wide + 14 * unit);
    const room = width / 2 - Math.abs(x - width / 2) - 10 * unit;
    text(brush, plaque.names[team], x, middle, `600 ${18 * unit}px ${DISPLAY}`, LIGHT, align, room);
  }
  if (plaque.caption !== "") {
    const tall = (plaque.details === "" ? BAR - 6 : BAR + 20) * unit;
    brush.fillStyle = DARK;
    brush.fillRect(0, height - tall, width, tall);
    const [share, size] = plaque.details === "" ? [0.5, 17] : [0.34, 21];
    const line = (words: string, down: number, font: string, colour: string) =>
      text(brush, words, width / 2, height - tall * (1 - down), font, colour, "center", width - 24 * unit);
    line(plaque.caption, share, `550 ${size * unit}px ${TEXT}`, LIGHT);
    line(plaque.details, 0.74, `400 ${17 * unit}px ${TEXT}`, PALE);
  }
  brush.restore();
}

/** Draw a line of text, shortened to `room` [px]; returns its width. */
function text(
  brush: CanvasRenderingContext2D,
  words: string,
  x: number,
  y: number,
  font: string,
  colour: string,
  align: CanvasTextAlign,
  room = Infinity,
): number {
  Object.assign(brush, { font, fillStyle: colour, textAlign: align });
  let shown = words;
  while (shown.length > 1 && brush.measureText(shown).width > room) shown = `${shown.replace(/…$/, "").slice(0, -1)}…`;
  brush.fillText(shown, x, y);
  return brush.measureText(shown).width;
}
