// Nothing on the screen contradicts another thing on the screen: the score bar, rosters, feed, win lane, caption and
// result of whole matches at every event, half a tick before it and between them. Matches are those of the repository
// and those that tests/viewer/test_sources.py records.

import { readFileSync, readdirSync } from "node:fs";
import { afterAll, beforeAll, expect, test } from "vitest";
import { captionAt, fullCaption, toldChange } from "../src/caption";
import * as control from "../src/control";
import { payload, scanFile } from "../src/data/container";
import { decodeChunk, decodeHeader, decodeIndex } from "../src/data/decode";
import { spanOf } from "../src/data/moments";
import { el } from "../src/hud/dom";
import { EndCard } from "../src/hud/end_card";
import { Feed } from "../src/hud/feed";
import { HelpPanel } from "../src/hud/panels";
import { Roster } from "../src/hud/roster";
import { ScoreBar } from "../src/hud/score";
import { WinLane } from "../src/hud/win_lane";
import { EventKind } from "../src/protocol.gen";
import { plaqueOf } from "../src/render/overlay/plaque";
import { holdAt } from "../src/score_text";
import type { ViewerState } from "../src/state";
import { pageParts } from "./fake_page";
import { openedState } from "./fixtures";

const ROOT = new URL("../../", import.meta.url);
const FOLDERS = ["docs/replays/", "tests/golden/replays/", "tests/golden/agree/", "echelon/champion/"];
const files = FOLDERS.flatMap((folder) => {
  try {
    return readdirSync(new URL(folder, ROOT)).flatMap((name) => (name.endsWith(".ecr") ? [folder + name] : []));
  } catch {
    return []; // generated only by the long tier, or not beside a copy of the viewer
  }
});
const ENDINGS = /^(Blue wins|Red wins|Draw): (zone held|elimination|time up)$/;
const MOST_TICKS = 250; // of a match that are compared
const page = pageParts();

beforeAll(() => page.install());
afterAll(() => page.remove());

async function open(file: string): Promise<ViewerState> {
  const bytes = new Uint8Array(readFileSync(new URL(file, ROOT)));
  const map = scanFile(bytes);
  const header = decodeHeader(payload(bytes, map.header));
  const chunks = map.chunks.map((head) => decodeChunk(header, head, payload(bytes, head)));
  const state = await openedState({ header, chunks }, decodeIndex(payload(bytes, map.index!)));
  state.camera.mode = "orbit"; // the camera is not compared
  return state;
}

test("the help pauses a recorded match until it closes, and says that a live one goes on", async () => {
  const state = await open("tests/golden/replays/small.ecr");
  const match = state.match!;
  const help = new HelpPanel(state, [], () => "");
  const shows = (showHelp: boolean, playing: boolean) => {
    Object.assign(state, { showHelp, playing });
    help.update(match);
    return state.playing;
  };
  expect([shows(true, true), shows(false, false)]).toEqual([false, true]);
  expect([shows(true, false), shows(false, false)], "one that was paused stays so").toEqual([false, false]);
  match.index = { ...match.index, live: true };
  expect([shows(true, true), shows(false, true)]).toEqual([true, true]);
  shows(true, true);
  const notes = page.find(help.root, "key-note").filter(({ hidden }) => !hidden);
  expect(notes[0].textContent).toContain("it goes on");
});

/** Return the percentages of a text with the side that it names them for. */
const percentages = (text: string) => [...text.matchAll(/(blue|red)? ?(\d+) %/gi)].map(([, side, n]) => [side, n]);

test.each(files)(
  "%s",
  async (file) => {
    const state = await open(file);
    const match = state.match!;
    const { header, index, markers, moments } = match;
    const last = control.lastTick(match);
    const coach = { root: el("div"), update: () => undefined, leave: () => undefined };
    const end = new EndCard(state, coach, () => undefined);
    const [score, feed, lane] = [new ScoreBar(), new Feed(), new WinLane(state)];
    Object.assign(state, { playing: false, awaitsPicture: false });
    const rosters = [new Roster(0, state), new Roster(1, state)];
    score.open(match);
    rosters.forEach((roster) => roster.open(match));
    const ends = moments.map((moment) => spanOf(moment, index, header.tick_hz)[1]);
    const events = [...markers, ...moments].map(({ tick }) => tick).concat(ends);
    const all = new Set([...events.flatMap((tick) => [tick - 0.5, tick, tick + 7]), 0, last - 0.5, last]);
    const ticks = [...all].filter((tick) => tick >= 0 && tick <= last).sort((a, b) => a - b);
    const stride = Math.ceil(ticks.length / MOST_TICKS);
    const of = (name: string) => page.find(score.root, name).map(({ textContent }) => textContent);
    for (const tick of ticks.filter((_, i) => i % stride === 0 || i === ticks.length - 1)) {
      const about = `${file} at ${tick}`;
      control.seek(state, tick);
      match.chunk = match.store.get(match.chunkNumber) ?? null;
      score.update(state, match);
      rosters.forEach((roster) => roster.update(match));
      feed.update(state, match);
      lane.update(match, last);
      end.update(match);
      const kills = markers.filter(({ kind, tick: at }) => kind === EventKind.KILL && at <= tick);
      const dead = new Set(kills.map(({ target }) => target));
      // living mechs: score bar, rosters and kills
      const alive = [0, 1].map((t) => header.roster.filter((m, i) => m.team === t && m.present && !dead.has(i)).length);
      expect(
        of("score-alive").map((text) => parseInt(text, 10)),
        about,
      ).toEqual(alive);
      const rows = rosters.map(({ root }) => page.find(root, "mech-row"));
      expect(
        rows.map((team) => team.filter((row) => !row.classList.contains("dead")).length),
        about,
      ).toEqual(alive);
      // the feed names the last kills
      const named = page.find(feed.root, "kill").map(({ children }) => children[3].textContent);
      const recent = kills.map(({ target }) => header.roster[target].name).slice(-named.length);
      if (named.length > 0) expect(named, about).toEqual(recent);
      // the win probability of score bar, lane and captions is blue's and the same
      const [blue, red] = of("score-chance").map((text) => parseInt(text, 10));
      const now = page.find(lane.root, "win-now")[0].textContent;
      const caption = page.find(lane.root, "win-caption")[0].textContent;
      for (const [side] of percentages(caption).slice(0, -2)) expect(side, about).toBeUndefined(); // parts of blue's
      const over = !end.root.hidden;
      if (over) {
        const result = of("zone-hold")[0];
        expect(result, about).toMatch(ENDINGS);
        expect(end.root.textContent.startsWith(`${result} at `), about).toBe(true);
        expect(plaqueOf(match, tick).caption.startsWith(`${result} at `), about).toBe(true);
        expect(now).toBe(result.split(":")[0]);
        expect([blue, red]).toEqual([NaN, NaN]);
      } else if (match.win.at(tick)) {
        expect([blue + red, now], about).toEqual([100, `Blue ${blue} %`]);
        const words = {
          none: "Zone empty",
          both: "Zone contested",
          blue: "Blue holds the zone",
          red: "Red holds the zone",
        };
        expect(of("zone-hold")[0].startsWith(words[holdAt(match.chunk!, tick)]), about).toBe(true);
      }
      // a caption names no kill that has not happened
      expect(lane.root.textContent, about).toContain(captionAt(match, tick));
      const living = header.roster.filter((_, i) => !dead.has(i)).map(({ name }) => name);
      const victims = [/(?:kills|destroyed|destroys its own) ([^:]*)/, /loses ((?:[BR]\d+[ ,and]*)+)/]
        .map((form) => form.exec(caption)?.[1] ?? "")
        .flatMap((text) => text.match(/[BR]\d+/g) ?? []);
      if (!caption.includes(" destroyed "))
        expect(
          victims.filter((name) => living.includes(name)),
          about,
        ).toEqual([]);
      for (const [, victim] of caption.matchAll(/destroyed ([BR]\d+)/g)) expect(living, about).not.toContain(victim);
      const change = /blue (\d+) % → (\d+) %$/.exec(caption);
      const told = moments.some((moment) => caption === fullCaption(match, moment));
      if (change && !told && !over) expect(Number(change[2]), about).toBe(blue);
    }
    // the percentages of a moment are those of the score bar at its ticks
    for (const moment of moments) {
      const shown = spanOf(moment, index, header.tick_hz).map((tick) => match.win.at(tick)!.p);
      expect(shown[0]).toBeCloseTo(moment.before, 2);
      expect(shown[1]).toBeCloseTo(moment.after, 2);
      expect(fullCaption(match, moment), "is that of Python").toBe(toldChange(moment.caption));
    }
  },
  120_000,
);
