// The score bar at the top: both teams with zone score and living mechs, the clock between them, and who holds the
// zone.

import { frameAt, scoreAt } from "../interpolate";
import { MechFlag } from "../protocol.gen";
import type { MatchState, ViewerState } from "../state";
import { clockText } from "../timeline";
import { el, setShare, setText } from "./dom";
import { sideName, teamName } from "./text";

/** One team's half of the bar. */
interface Half {
  root: HTMLElement;
  name: HTMLElement;
  points: HTMLElement;
  fill: HTMLElement;
  pips: HTMLElement;
}

function makeHalf(side: "blue" | "red"): Half {
  const name = el("span", { class: "score-name" });
  const points = el("span", { class: "score-points" });
  const fill = el("div", { class: "score-fill" });
  const pips = el("div", { class: "score-pips" });
  const root = el("div", { class: `score-half ${side}` }, [
    el("div", { class: "score-line" }, [el("span", { class: "team-sign" }), name, points]),
    el("div", { class: "score-track" }, [fill]),
    pips,
  ]);
  return { root, name, points, fill, pips };
}

/** The score bar. */
export class ScoreBar {
  private readonly halves = [makeHalf("blue"), makeHalf("red")];
  private readonly clock = el("div", { class: "clock" });
  private readonly total = el("div", { class: "clock-total" });
  private readonly zone = el("div", { class: "zone-hold" });
  readonly root = el("section", { class: "score panel", aria: { label: "Score" } }, [
    this.halves[0].root,
    el("div", { class: "clock-box" }, [this.clock, this.total, this.zone]),
    this.halves[1].root,
  ]);

  open(match: MatchState): void {
    const { header } = match;
    this.halves.forEach((half, team) => {
      setText(half.name, teamName(header, team));
      half.name.title = teamName(header, team);
      setText(half.points, "");
      setShare(half.fill, 0);
      const members = header.roster.filter((mech) => mech.team === team && mech.present);
      half.pips.replaceChildren(...(members.length <= 20 ? members : []).map(() => el("i", { class: "pip" })));
    });
  }

  update(state: ViewerState, match: MatchState): void {
    const { header, chunk, poses } = match;
    setText(this.clock, clockText(state.tick / header.tick_hz));
    setText(this.total, `of ${clockText(header.duration_s)}`);
    if (!chunk) return;
    const score = scoreAt(chunk, state.tick);
    const { frame } = frameAt(chunk, state.tick);
    this.halves.forEach((half, team) => {
      setText(half.points, score[team].toFixed(1));
      setShare(half.fill, score[team] / Math.max(1e-6, header.score_to_win));
      const alive = header.roster.filter(
        (mech, m) => mech.team === team && mech.present && poses.flags[m] & MechFlag.ALIVE,
      ).length;
      [...half.pips.children].forEach((pip, i) => pip.classList.toggle("gone", i >= alive));
      half.root.setAttribute(
        "aria-label",
        `${sideName(header, team)}: ${score[team].toFixed(1)} of ${header.score_to_win}, ${alive} alive`,
      );
    });
    const [blue, red] = [chunk.tonnage[frame * 2], chunk.tonnage[frame * 2 + 1]];
    this.zone.dataset.hold = blue > 0 && red > 0 ? "both" : blue > 0 ? "blue" : red > 0 ? "red" : "none";
    setText(
      this.zone,
      blue > 0 && red > 0 ? "zone contested" : blue > 0 ? "zone held" : red > 0 ? "zone held" : "zone empty",
    );
  }
}
