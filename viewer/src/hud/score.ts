// The score bar at the top: both teams with zone points, living mechs and win probability, the clock between them, and
// below in words who leads, who holds the zone, and how the match is won.

import { scoreAt } from "../interpolate";
import { type Header, MechFlag } from "../protocol.gen";
import type { MatchState, ViewerState } from "../state";
import { clockText, pointsText } from "../timeline";
import { damageText } from "../data/damage";
import { rateText } from "../quality";
import { describe, el, setShare, setText } from "./dom";
import { aliveText, goalText, holdAt, isOver, leadOf, outcomeText, shortGoalText, zoneText } from "../score_text";
import { percentText, sideName, teamName } from "../text";
import { aheadText, basisText } from "./win_text";

const MOST_PIPS = 10; // largest team with a pip per mech

/** Create the half of a team; `chance` is its win probability, `members` the number of mechs that take part. */
function makeHalf(side: "blue" | "red") {
  const name = el("span", { class: "score-name" });
  const points = el("span", { class: "score-points" });
  const fill = el("div", { class: "score-fill" });
  const pips = el("div", { class: "score-pips" });
  const alive = el("span", { class: "score-alive tiny" });
  const chance = el("span", { class: "score-chance tiny" });
  const root = el("div", { class: `score-half ${side}` }, [
    el("div", { class: "score-line" }, [el("span", { class: "team-sign" }), name, points]),
    el("div", { class: "score-track" }, [fill]),
    el("div", { class: "score-line" }, [pips, alive, chance]),
  ]);
  return { root, name, points, fill, pips, alive, chance, members: 0 };
}

export class ScoreBar {
  private readonly halves = [makeHalf("blue"), makeHalf("red")];
  private readonly clock = el("div", { class: "clock" });
  private readonly total = el("div", { class: "clock-total tiny" });
  private readonly shortGoal = el("div", { class: "clock-goal tiny" });
  private readonly why = el("span", { class: "why" }); // what the favourite is ahead in while it is behind in points
  private readonly rule = el("span", { class: "rule" });
  private readonly goal = el("p", { class: "goal tiny" }, [this.why, this.rule]);
  private readonly lead = el("span");
  private readonly hold = el("span");
  private readonly zone = el("p", { class: "zone-hold" }, [this.lead, this.hold]);
  private readonly notice = el("p", { class: "notice", attributes: { role: "status" } });
  readonly root = el("section", { class: "score panel", aria: { label: "Score" } }, [
    el("div", { class: "score-halves" }, [
      this.halves[0].root,
      el("div", { class: "clock-box" }, [this.clock, this.total, this.shortGoal]),
      this.halves[1].root,
    ]),
    el("div", { class: "score-words" }, [this.zone, this.goal, this.notice]),
  ]);

  open(match: MatchState): void {
    const { header } = match;
    this.halves.forEach((half, team) => {
      setText(half.name, teamName(header, team));
      half.name.title = teamName(header, team);
      setText(half.alive, "");
      setText(half.points, "");
      setText(half.chance, "");
      setShare(half.fill, 0);
      const members = header.roster.filter((mech) => mech.team === team && mech.present);
      half.members = members.length;
      const pips = members.length <= MOST_PIPS ? members : [];
      half.pips.replaceChildren(...pips.map(() => el("i", { class: "pip" })));
    });
    setText(this.shortGoal, shortGoalText(header));
    for (const words of [this.lead, this.hold]) setText(words, "");
    this.explain(header, "", -1);
  }

  /** Show why a team is the favourite before the goal, which is shortened for it. */
  private explain(header: Header, why: string, team: number): void {
    this.why.className = `why ${["blue", "red"][team] ?? ""}`;
    setText(this.why, why);
    setText(this.rule, why === "" ? goalText(header) : `${shortGoalText(header)} zone points`);
  }

  /** Show no figures: those of the moment are unknown. */
  private blank({ header }: MatchState): void {
    this.halves.forEach((half, team) => {
      for (const text of [half.points, half.alive]) setText(text, "–");
      setText(half.chance, "");
      setShare(half.fill, 0);
      for (const pip of half.pips.children) pip.classList.add("gone");
      half.root.setAttribute("aria-label", `${sideName(header, team)}: unknown`);
    });
    for (const words of [this.lead, this.hold]) setText(words, "");
    this.explain(header, "", -1);
  }

  update(state: ViewerState, match: MatchState): void {
    const { header, chunk, poses, index, damage, store } = match;
    const notices = [damageText(header, index, damage, store.damaged()), rateText(state.slowRate)];
    setText(this.notice, notices.filter((text) => text !== "").join(" · "));
    setText(this.clock, clockText(state.tick / header.tick_hz));
    setText(this.total, `limit ${clockText(header.duration_s)}`);
    if (Number.isNaN(poses.tick)) this.blank(match);
    if (!chunk) return;
    const score = scoreAt(chunk, state.tick);
    const over = isOver(match, state.tick);
    const point = over ? null : match.win.at(state.tick);
    this.halves.forEach((half, team) => {
      setText(half.points, pointsText(score[team]));
      setShare(half.fill, score[team] / Math.max(1e-6, header.score_to_win));
      const alive = header.roster.filter(
        (mech, m) => mech.team === team && mech.present && poses.flags[m] & MechFlag.ALIVE,
      ).length;
      const living = aliveText(alive, half.members);
      setText(half.alive, living);
      const chance = point && (team === 0 ? point.p : 1 - point.p);
      setText(half.chance, chance === null ? "" : `${percentText(chance)} to win`);
      describe(half.chance, point ? basisText(point, state.tick / header.tick_hz) : "");
      half.chance.classList.toggle("favoured", chance !== null && Math.round(chance * 100) > 50);
      [...half.pips.children].forEach((pip, i) => pip.classList.toggle("gone", i >= alive));
      half.root.setAttribute(
        "aria-label",
        [`${sideName(header, team)}: ${pointsText(score[team])} of ${header.score_to_win} points`, living].join(", "),
      );
    });
    const lead = leadOf(score);
    const result = over ? match.index.outcome : null;
    this.lead.className = ["blue", "red"][result ? result.winner : lead.team] ?? "";
    setText(this.lead, result ? outcomeText(result) : `${lead.text} · `);
    this.hold.dataset.team = holdAt(chunk, state.tick);
    setText(this.hold, result ? "" : zoneText(header, chunk, state.tick));
    const ahead = point && aheadText(point, lead.team);
    this.explain(header, ahead ? ahead.text : "", ahead ? ahead.team : -1);
  }
}
