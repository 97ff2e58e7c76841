// The top row of a match: the score bar stands in the middle as far as the match's name on its left and the tools on
// its right leave room, and below them where they leave too little. Both change their width with the match.
const GAP_PX = 12;
const WIDEST_PX = 560;
const NARROWEST_PX = 430; // of a score bar beside the tools
const TOP_PX = 14;
const TOOLS_BOTTOM_PX = 64;

/** Where the score bar stands; all in pixels of the page. */
export interface ScorePlace {
  readonly left: number;
  readonly width: number;
  readonly top: number;
}

/** Return the place of the score bar between `left` and `right` on a page `width` wide. */
export function placeScore(left: number, right: number, width: number): ScorePlace {
  const room = right - left - 2 * GAP_PX;
  if (room < NARROWEST_PX) {
    const own = Math.min(WIDEST_PX, 0.94 * width);
    return { left: (width - own) / 2, width: own, top: TOOLS_BOTTOM_PX };
  }
  const own = Math.min(WIDEST_PX, room);
  const centred = (width - own) / 2;
  return { left: Math.min(Math.max(centred, left + GAP_PX), right - GAP_PX - own), width: own, top: TOP_PX };
}

/** Keep the score bar in its place, which `hud` gets as custom properties. */
export function followTopRow(hud: HTMLElement, corner: HTMLElement, tools: HTMLElement): void {
  const set = (name: string, value: number) => hud.style.setProperty(name, `${value.toFixed(1)}px`);
  const place = () => {
    const [before, behind] = [corner.getBoundingClientRect(), tools.getBoundingClientRect()];
    if (behind.width === 0) return;
    const { left, width, top } = placeScore(before.right, behind.left, document.documentElement.clientWidth);
    set("--score-left", left);
    set("--score-width", width);
    set("--score-top", top);
  };
  const observer = new ResizeObserver(place);
  for (const watched of [document.documentElement, corner, tools]) observer.observe(watched);
}
