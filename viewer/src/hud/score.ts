// The score bar at the top: both teams with zone points and living mechs, the clock between them, and below in words
// how the match is won, who leads, and who holds the zone.

import { scoreAt } from "../interpolate";
import { MechFlag } from "../protocol.gen";
import type { MatchState, ViewerState } from "../state";
import { clockText } from "../timeline";
import { el, setShare, setText } from "./dom";
import { aliveText, goalText, holdAt, isOver, leadText, pointsText, zoneText } from "./score_text";
import { sideName, teamName } from "./text";

const MOST_PIPS = 20; // largest team with a pip per mech

/** One team's half of the bar. */
interface Half {
  root: HTMLElement;
  name: HTMLElement;
  points: HTMLElement;
  fill: HTMLElement;
  pips: HTMLElement;
  alive: HTMLElement;
  members: number; // mechs that take part
}

function makeHalf(side: "blue" | "red"): Half {
  const name = el("span", { class: "score-name" });
  const points = el("span", { class: "score-points" });
  const fill = el("div", { class: "score-fill" });
  const pips = el("div", { class: "score-pips" });
  const alive = el("span", { class: "score-alive" });
  const root = el("div", { class: `score-half ${side}` }, [
    el("div", { class: "score-line" }, [el("span", { class: "team-sign" }), name, points]),
    el("div", { class: "score-track" }, [fill]),
    el("div", { class: "score-line" }, [pips, alive]),
  ]);
  return { root, name, points, fill, pips, alive, members: 0 };
}

/** The score bar. */
export class ScoreBar {
  private readonly halves = [makeHalf("blue"), makeHalf("red")];
  private readonly clock = el("div", { class: "clock" });
  private readonly total = el("div", { class: "clock-total" });
  private readonly goal = el("p", { class: "goal" });
  private readonly zone = el("p", { class: "zone-hold" });
  readonly root = el("section", { class: "score panel", aria: { label: "Score" } }, [
    el("div", { class: "score-halves" }, [
      this.halves[0].root,
      el("div", { class: "clock-box" }, [this.clock, this.total]),
      this.halves[1].root,
    ]),
    el("div", { class: "score-words" }, [this.zone, this.goal]),
  ]);

  open(match: MatchState): void {
    const { header } = match;
    this.halves.forEach((half, team) => {
      setText(half.name, teamName(header, team));
      half.name.title = teamName(header, team);
      setText(half.alive, "");
      setText(half.points, "");
      setShare(half.fill, 0);
      const members = header.roster.filter((mech) => mech.team === team && mech.present);
      half.members = members.length;
      const pips = members.length <= MOST_PIPS ? members : [];
      half.pips.replaceChildren(...pips.map(() => el("i", { class: "pip" })));
    });
    setText(this.goal, goalText(header));
    setText(this.zone, "");
  }

  update(state: ViewerState, match: MatchState): void {
    const { header, chunk, poses } = match;
    setText(this.clock, clockText(state.tick / header.tick_hz));
    setText(this.total, `of ${clockText(header.duration_s)}`);
    if (!chunk) return;
    const score = scoreAt(chunk, state.tick);
    this.halves.forEach((half, team) => {
      setText(half.points, pointsText(score[team]));
      setShare(half.fill, score[team] / Math.max(1e-6, header.score_to_win));
      const alive = header.roster.filter(
        (mech, m) => mech.team === team && mech.present && poses.flags[m] & MechFlag.ALIVE,
      ).length;
      const living = aliveText(alive, half.members);
      setText(half.alive, living);
      [...half.pips.children].forEach((pip, i) => pip.classList.toggle("gone", i >= alive));
      half.root.setAttribute(
        "aria-label",
        [`${sideName(header, team)}: ${pointsText(score[team])} of ${header.score_to_win} points`, living].join(", "),
      );
    });
    this.zone.dataset.hold = holdAt(chunk, state.tick);
    setText(
      this.zone,
      [leadText(score), zoneText(header, chunk, state.tick, isOver(match, state.tick))]
        .filter((part) => part !== "")
        .join(" · "),
    );
  }
}
