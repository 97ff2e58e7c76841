// Without spoilers nothing that is shown depends on what lies ahead of the cursor: two matches that differ only there
// look the same at every place, and differ with spoilers.

import { afterAll, beforeAll, expect, test } from "vitest";
import * as control from "../src/control";
import { Feed } from "../src/hud/feed";
import { MatchList, fits, groupText, startWith } from "../src/hud/match_list";
import { ScoreBar } from "../src/hud/score";
import { WelcomeCard } from "../src/hud/welcome";
import { EventKind, type IndexView, type MatchSummary, type Moment } from "../src/protocol.gen";
import { SharePanel } from "../src/share/panel";
import { mayShow, seenIndex, seenValues, shownEnd } from "../src/spoilers";
import type { ViewerState } from "../src/state";
import { pageParts } from "./fake_page";
import { openedState, smallReplay } from "./fixtures";

const NOW = 30; // tick of the cursor; the matches are equal up to it
const page = pageParts();

beforeAll(() => page.install());
afterAll(() => page.remove());

interface Future {
  readonly index: Partial<IndexView>;
  readonly matches: readonly MatchSummary[];
}

function future(winner: 0 | 1, at: number, reason: string): Future {
  const [score, alive] = [winner, 1 - winner].map((side) => (side === 0 ? [9, 4] : [4, 9])) as [number, number][];
  const moment = { tick: at, from: at, to: at / 20 + 1.5, kind: "swing", rank: 1, team: winner, caption: reason };
  const { header } = smallReplay();
  const outcome = { winner, reason, score, alive, hp: alive, tick: at + 9 };
  const summary = { id: "m", run: "r", file: `${reason}.ecr`, created: 9, size: [9, 9, 9], blue: "a", red: "b" };
  const about = { winner, reason, score, alive, ticks: at, moment: reason, complete: true, mechs: header.mechs };
  const first = { ...summary, ...about, map_seed: 1, seed: 1, live: false } as unknown as MatchSummary;
  const other = { ...first, id: "n", score: [9, 9], alive: [1, 1], created: 8 } as MatchSummary;
  return {
    index: {
      outcome: outcome as unknown as IndexView["outcome"],
      markers: [
        [20, EventKind.FALL, 0, -1],
        [at, EventKind.KILL, winner, 1 - winner],
      ] as IndexView["markers"],
      moments: [moment as unknown as Moment],
      series: {
        second: [0, 1, 2],
        score: [
          [0, 1, winner],
          [0, 0, 5],
        ],
        alive: [
          [1, 1, winner],
          [1, 1, 0],
        ],
        hp: [
          [9, 9, winner],
          [9, 9, 1],
        ],
        damage: [
          [0, 0, winner],
          [0, 0, 1],
        ],
      },
    },
    matches: winner === 0 ? [first, other] : [first, { ...other, alive: [9, 0], score: [9, 0] }],
  };
}

const FUTURES = [future(0, 44, "elimination"), future(1, 64, "zone_control")];
const hz = smallReplay().header.tick_hz;

/** What each place shows of a match, or of the list of matches. */
const PLACES: [string, (state: ViewerState, future: Future) => unknown][] = [
  [
    "the list",
    (state, { matches }) => {
      const none = () => undefined;
      const actions = { openFile: none, filter: none, more: none, showResults: none };
      const form = document.createElement("div");
      const list = new MatchList(actions, { watch: none } as never, form);
      Object.assign(state.list, { matches, total: 2, loading: false });
      list.update(state);
      return JSON.stringify(list.root);
    },
  ],
  ["the heading of a run", (state, { matches }) => groupText("r", matches, mayShow(state))],
  [
    "the match to start with",
    (state, { matches }) =>
      startWith(matches, mayShow(state)).map((one) => JSON.stringify((one as MatchSummary).id ?? one)),
  ],
  [
    "the search",
    (state, { matches }) =>
      ["elimination", "zone held", "zone_control", "blue", "r"].map((text) =>
        matches.map((one) => fits(one, text, mayShow(state))),
      ),
  ],
  ["the jump to the next moment", (state) => (control.jumpToMoment(state, 1), state.tick)],
  ["the jump to the next event", (state) => (control.jumpToMarker(state, 1), state.tick)],
  [
    "the score bar",
    (state) => {
      if (mayShow(state)) control.seek(state, control.lastTick(state.match!));
      const bar = new ScoreBar();
      bar.open(state.match!);
      bar.update(state, state.match!);
      return JSON.stringify(bar.root);
    },
  ],
  [
    "the feed",
    (state) => {
      if (mayShow(state)) control.seek(state, 70);
      const feed = new Feed();
      feed.update(state, state.match!);
      return JSON.stringify(feed.root);
    },
  ],
  [
    "the charts of the match",
    ({ match, ...state }) => {
      const { series, outcome } = mayShow(state) ? match!.index : seenIndex(match!.index, NOW / hz);
      return { series, outcome };
    },
  ],
  [
    "a curve of a mech",
    (state, { index }) =>
      seenValues(index.series!.score[0], index.series!.second, mayShow(state) ? Infinity : NOW / hz),
  ],
  [
    "the axis of time",
    (state, { index }) => {
      state.match!.index = { ...state.match!.index, chunks: [[0, index.moments![0].tick, 0]] };
      return shownEnd(state, state.match!);
    },
  ],
  [
    "the ground overlay",
    (state, { index }) => {
      Object.assign(state, { layer: "presence" });
      control.updateCursor(state);
      return state.layer === "none" ? "" : JSON.stringify(index.markers); // what a heat map is made of
    },
  ],
  [
    "the card of a first visit",
    (state) => {
      const card = new WelcomeCard(state);
      card.open(state.match!);
      card.update(state.match!);
      return JSON.stringify(page.find(card.root, "welcome-moment").filter(({ hidden }) => !hidden));
    },
  ],
  [
    "the share panel",
    (state, { index }) => {
      const share = new SharePanel(state, {} as never, { file: () => "", moment: () => "" });
      state.showShare = true;
      share.update(state.match!);
      const films = page
        .find(share.root, "share-row")
        .filter(({ hidden, textContent }) => !hidden && textContent.includes("Highlights"));
      return films.length > 0 ? JSON.stringify(index.moments) : "";
    },
  ],
];

test.each(PLACES)("%s tells nothing of what lies ahead", async (_, show) => {
  const shown = (showSpoilers: boolean) =>
    Promise.all(
      FUTURES.map(async (future) => {
        const state = await openedState(smallReplay(), future.index);
        Object.assign(state, { showSpoilers, playing: false });
        control.seek(state, NOW);
        return show(state, future);
      }),
    );
  const [one, other] = await shown(false);
  expect(one).toEqual(other);
  const [told, toldToo] = await shown(true);
  expect(told).not.toEqual(toldToo);
});
