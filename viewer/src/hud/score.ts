// The score bar at the top, in two lines: both teams with zone points and the clock between them; below living mechs,
// win probability, and who holds the zone or how the match ended.

import { scoreAt } from "../interpolate";
import type { MatchState, ViewerState } from "../state";
import { clockText, pointsText } from "../timeline";
import { damageText } from "../data/damage";
import { rateText } from "../quality";
import { describe, el, setShare, setText } from "./dom";
import { aliveCounts, aliveText, goalText, holdAt, isOver, limitText, outcomeText, zoneText } from "../score_text";
import { chanceText, shortName, sideName, teamName } from "../text";
import { basisText, isEven } from "./win_text";

const MOST_PIPS = 10; // largest team with a pip per mech

/** Create the half of a team; `chance` is its win probability, `members` the number of mechs that take part. */
function makeHalf(side: "blue" | "red") {
  const name = el("span", { class: "score-name" });
  const points = el("span", { class: "score-points" });
  const limit = el("span", { class: "score-limit tiny" });
  const fill = el("div", { class: "score-fill" });
  const pips = el("div", { class: "score-pips" });
  const alive = el("span", { class: "score-alive" });
  const chance = el("span", { class: "score-chance" });
  const root = el("div", { class: `score-half ${side}` }, [
    el("div", { class: "score-line" }, [el("span", { class: "team-sign" }), name, el("span", {}, [points, limit])]),
    el("div", { class: "score-track" }, [fill]),
    pips,
  ]);
  const figures = el("div", { class: `score-figures tiny ${side}` }, [alive, chance]);
  return { root, figures, name, points, limit, fill, pips, alive, chance, members: 0 };
}

export class ScoreBar {
  private readonly halves = [makeHalf("blue"), makeHalf("red")];
  private readonly clock = el("div", { class: "clock" });
  private readonly total = el("div", { class: "clock-total tiny" });
  private readonly hold = el("p", { class: "zone-hold" });
  /** What is wrong with the match or its picture; it stands among the notes below the bar. */
  readonly notice = el("p", { class: "notice", attributes: { role: "status" } });
  readonly root = el("section", { class: "score panel", aria: { label: "Score" } }, [
    el("div", { class: "score-halves" }, [
      this.halves[0].root,
      el("div", { class: "clock-box" }, [this.clock, this.total]),
      this.halves[1].root,
    ]),
    el("div", { class: "score-words" }, [this.halves[0].figures, this.hold, this.halves[1].figures]),
  ]);

  open(match: MatchState): void {
    const { header } = match;
    this.halves.forEach((half, team) => {
      setText(half.name, shortName(teamName(header, team)));
      half.name.title = teamName(header, team);
      setText(half.limit, `/${limitText(header)}`);
      const members = header.roster.filter((mech) => mech.team === team && mech.present);
      half.members = members.length;
      const pips = members.length <= MOST_PIPS ? members : [];
      half.pips.replaceChildren(...pips.map(() => el("i", { class: "pip" })));
    });
    setText(this.total, `/ ${clockText(header.duration_s)}`);
    describe(this.total, goalText(header));
    this.blank(match, "");
  }

  /** Show no figures: those of the moment are unknown. */
  private blank({ header }: MatchState, unknown = "–"): void {
    this.halves.forEach((half, team) => {
      for (const text of [half.points, half.alive]) setText(text, unknown);
      setText(half.chance, "");
      setShare(half.fill, 0);
      for (const pip of half.pips.children) pip.classList.add("gone");
      half.root.setAttribute("aria-label", `${sideName(header, team)}: unknown`);
    });
    setText(this.hold, "");
  }

  update(state: ViewerState, match: MatchState): void {
    const { header, chunk, poses, index, damage, store } = match;
    const notices = [damageText(header, index, damage, store.damaged()), rateText(state.slowRate)];
    setText(this.notice, notices.filter((text) => text !== "").join(" · "));
    setText(this.clock, clockText(state.tick / header.tick_hz));
    if (Number.isNaN(poses.tick)) this.blank(match);
    if (!chunk) return;
    const score = scoreAt(chunk, state.tick);
    const alive = aliveCounts(match);
    const result = isOver(match, state.tick) ? index.outcome : null;
    const point = result ? null : match.win.at(state.tick);
    this.halves.forEach((half, team) => {
      setText(half.points, pointsText(score[team]));
      setShare(half.fill, score[team] / Math.max(1e-6, header.score_to_win));
      const living = aliveText(alive[team], half.members);
      setText(half.alive, living);
      setText(half.chance, point ? `${chanceText(point.p, team)} to win` : "");
      describe(half.chance, point ? basisText(point, state.tick / header.tick_hz) : "");
      half.chance.classList.toggle("favoured", point !== null && point.p > 0.5 === (team === 0) && !isEven(point));
      [...half.pips.children].forEach((pip, i) => pip.classList.toggle("gone", i >= alive[team]));
      half.root.setAttribute(
        "aria-label",
        [`${sideName(header, team)}: ${pointsText(score[team])} of ${header.score_to_win} points`, living].join(", "),
      );
    });
    this.hold.dataset.team = result ? ["blue", "red"][result.winner] : holdAt(chunk, state.tick);
    setText(this.hold, result ? outcomeText(result) : zoneText(header, chunk, state.tick));
  }
}
