// The rosters of both teams at the sides: a row per mech with class, hit points, heat and stability. A click selects
// and follows the mech.

import * as control from "../control";
import { CHASSIS, TEAMS } from "../palette";
import { type ChassisName, MechFlag } from "../protocol.gen";
import type { MatchState, ViewerState } from "../state";
import { el, icon, setShare, setText } from "./dom";
import { className, stateText, teamName } from "./text";

const CROWD = 10; // teams with more mechs have compact rows
const HOT = 0.8; // share of the heat cap from which a mech is marked as hot

/** One mech's row. */
interface Row {
  mech: number;
  root: HTMLButtonElement;
  hp: HTMLElement;
  points: HTMLElement;
  heat: HTMLElement;
  stability: HTMLElement;
  state: HTMLElement;
}

/** The roster of one team. */
export class Roster {
  private rows: Row[] = [];
  private selected = -1; // the mech whose row was scrolled into view
  private readonly list = el("ul", { class: "roster-list" });
  private readonly title = el("h2", { class: "roster-title" });
  readonly root: HTMLElement;

  constructor(
    private readonly team: 0 | 1,
    private readonly state: ViewerState,
  ) {
    const side = team === 0 ? "blue" : "red";
    this.root = el("aside", { class: `roster panel ${side}`, aria: { label: `${TEAMS[team].label} team` } }, [
      this.title,
      this.list,
    ]);
  }

  open(match: MatchState): void {
    const { header } = match;
    setText(this.title, teamName(header, this.team));
    const members = header.roster
      .map((_, mech) => mech)
      .filter((mech) => header.roster[mech].team === this.team && header.roster[mech].present);
    this.rows = members.map((mech) => this.makeRow(match, mech));
    this.list.replaceChildren(...this.rows.map((row) => el("li", {}, [row.root])));
    this.root.classList.toggle("crowd", this.rows.length > CROWD);
    this.list.scrollTop = 0;
    this.selected = -1;
  }

  /** Scroll to the selected mech once per selection, so that manual scrolling is kept. */
  private follow(): void {
    if (this.selected === this.state.selected) return;
    this.selected = this.state.selected;
    const row = this.rows.find(({ mech }) => mech === this.selected)?.root;
    if (!row) return;
    const [box, view] = [row.getBoundingClientRect(), this.list.getBoundingClientRect()];
    if (box.top < view.top || box.bottom > view.bottom)
      this.list.scrollTop += box.top - view.top - (view.height - box.height) / 2;
  }

  private makeRow(match: MatchState, mech: number): Row {
    const name = className(match.header, mech) as ChassisName;
    const appearance = CHASSIS[name] ?? CHASSIS.medium;
    const bar = (kind: string) => {
      const fill = el("div", { class: `fill ${kind}` });
      return { fill, track: el("div", { class: `track ${kind}` }, [fill]) };
    };
    const [hp, heat, stability] = [bar("hp"), bar("heat"), bar("stability")];
    const points = el("span", { class: "mech-points" });
    const state = el("span", { class: "mech-state" });
    const root = el(
      "button",
      { class: "mech-row", attributes: { type: "button" }, onclick: () => control.select(this.state, mech, true) },
      [
        el("span", { class: "mech-icon" }, [icon(appearance.icon)]),
        el("span", { class: "mech-body" }, [
          el("span", { class: "mech-line" }, [
            el("span", { class: "mech-name", text: match.header.roster[mech].name }),
            el("span", { class: "mech-class", text: appearance.label }),
            state,
            points,
          ]),
          hp.track,
          heat.track,
          stability.track,
        ]),
      ],
    );
    return { mech, root, points, state, hp: hp.fill, heat: heat.fill, stability: stability.fill };
  }

  update(match: MatchState): void {
    const { header, poses } = match;
    this.follow();
    for (const { mech, root, hp, points, heat, stability, state } of this.rows) {
      const spec = header.chassis[header.roster[mech].chassis];
      const flags = poses.flags[mech];
      const hidden = match.shown[mech] < 0.5; // hidden by the fog of war
      root.classList.toggle("fogged", hidden);
      const alive = (flags & MechFlag.ALIVE) !== 0;
      const hot = poses.heat[mech] / (spec?.heat_cap ?? 100);
      setShare(hp, alive && !hidden ? poses.hp[mech] / (spec?.hp ?? 100) : 0);
      setShare(heat, alive && !hidden ? hot : 0);
      setShare(stability, alive && !hidden ? poses.stability[mech] / 100 : 0);
      setText(points, alive && !hidden ? String(Math.ceil(poses.hp[mech])) : "");
      setText(state, hidden ? "not seen" : stateText(flags));
      state.dataset.state = stateText(flags);
      root.classList.toggle("dead", !alive);
      root.classList.toggle("hot", alive && !hidden && hot >= HOT);
      root.classList.toggle("selected", this.state.selected === mech);
      root.setAttribute("aria-pressed", String(this.state.selected === mech));
      const status = hidden
        ? "not seen"
        : alive
          ? `${Math.ceil(poses.hp[mech])} hit points, heat ${Math.round(hot * 100)} %`
          : "";
      root.setAttribute(
        "aria-label",
        `${header.roster[mech].name} ${className(header, mech)} ${status} ${hidden ? "" : stateText(flags)}`,
      );
    }
  }
}
