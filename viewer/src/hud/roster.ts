// The rosters of both teams at the sides: a row per mech with class, hit points, heat and stability. A click selects
// and follows the mech. Teams of several packs have a row per pack in the order of their numbers, which opens and
// closes its mechs; packs that fight are framed. For a commander a click chooses mechs or packs for the next order.

import * as control from "../control";
import { type Pack, packsOf, recentDamage } from "../data/packs";
import type { Chunk } from "../data/replay";
import { CHASSIS, TEAMS } from "../palette";
import { type ChassisName, MechFlag } from "../protocol.gen";
import type { MatchState, ViewerState } from "../state";
import { el, icon, setShare, setText } from "./dom";
import { className, commonOrder, isHumanMech, stateText, teamName } from "../text";

const CROWD = 10; // teams with more mechs have compact rows
const FEW_PACKS = 2; // teams of more packs open with closed packs
const MANY_PACKS = 12; // teams of more packs have two columns of them
const HOT = 0.8; // share of the heat cap from which a mech is marked as hot

interface Row {
  mech: number;
  root: HTMLButtonElement;
  hp: HTMLElement;
  points: HTMLElement;
  heat: HTMLElement;
  stability: HTMLElement;
  state: HTMLElement;
}

interface PackRow {
  pack: Pack;
  root: HTMLElement;
  head: HTMLButtonElement;
  list: HTMLElement;
  order: HTMLElement;
  alive: HTMLElement;
  hp: HTMLElement;
  open: boolean;
}

export class Roster {
  private rows: Row[] = [];
  private packs: PackRow[] = []; // empty for a team of one pack
  private selected = -1; // the mech whose row was scrolled into view
  private readonly list = el("ul", { class: "roster-list" });
  private readonly title = el("h2", { class: "roster-title" });
  readonly root: HTMLElement;

  constructor(
    private readonly team: 0 | 1,
    private readonly state: ViewerState,
    private readonly choose?: (mechs: readonly number[], more: boolean) => void,
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
    const packs = packsOf(header).filter(({ team }) => team === this.team);
    this.rows = packs.flatMap(({ mechs }) => mechs).map((mech) => this.makeRow(match, mech));
    const many = packs.length > MANY_PACKS;
    this.root.classList.toggle("many", many);
    this.packs = packs.length > 1 ? packs.map((pack) => this.makePack(pack, packs.length <= FEW_PACKS, many)) : [];
    const items = this.rows.map((row) => el("li", {}, [row.root]));
    this.list.replaceChildren(...(this.packs.length > 0 ? this.packs.map(({ root }) => root) : items));
    for (const { pack, list } of this.packs)
      list.replaceChildren(...items.filter((_, i) => pack.mechs.includes(this.rows[i].mech)));
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
    const pack = this.packs.find(({ pack: { mechs } }) => mechs.includes(this.selected));
    if (pack) this.setOpen(pack, true);
    const [box, view] = [row.getBoundingClientRect(), this.list.getBoundingClientRect()];
    if (box.top < view.top || box.bottom > view.bottom)
      this.list.scrollTop += box.top - view.top - (view.height - box.height) / 2;
  }

  private makePack(pack: Pack, open: boolean, many: boolean): PackRow {
    const [order, alive] = [el("span", { class: "pack-order" }), el("span", { class: "pack-alive" })];
    const hp = el("div", { class: "fill hp" });
    const list = el("ul", { class: "pack-list" });
    const head = el("button", { class: "pack-row", attributes: { type: "button" } }, [
      el("span", { class: "pack-arrow", aria: { hidden: "true" } }),
      el("span", { class: "mech-name", text: many ? pack.mark : `Pack ${pack.number}` }),
      el("span", { class: "pack-health track hp" }, [hp]),
      order,
      alive,
    ]);
    const root = el("li", { class: "pack" }, [head, list]);
    const row: PackRow = { pack, root, head, list, order, alive, hp, open: !open };
    head.addEventListener("click", ({ target, shiftKey }) => {
      if (this.choose && !(target as Element).matches(".pack-arrow")) this.choose(pack.mechs, shiftKey);
      else this.setOpen(row, !row.open);
    });
    this.setOpen(row, open);
    return row;
  }

  private setOpen(row: PackRow, open: boolean): void {
    if (row.open === open) return;
    row.open = open;
    row.list.hidden = !open;
    row.head.setAttribute("aria-expanded", String(open));
  }

  /** Update the rows of packs; they keep their order. */
  private updatePacks(match: MatchState, blank: boolean): void {
    const { header, poses, store, chunkNumber, chunk } = match;
    const alive = (mech: number) => (poses.flags[mech] & MechFlag.ALIVE) !== 0;
    const hpOf = (mech: number) => header.chassis[header.roster[mech].chassis]?.hp ?? 100;
    const total = (mechs: readonly number[], value: (mech: number) => number) =>
      mechs.reduce((sum, mech) => sum + value(mech), 0);
    const chunks = [store.get(chunkNumber - 1), chunk].filter((part): part is Chunk => !!part);
    const damage = recentDamage(chunks, poses.tick, header.tick_hz, header.mechs);
    for (const { pack, head, order, alive: count, hp } of this.packs) {
      const living = pack.mechs.filter(alive);
      setText(count, blank ? "–" : `${living.length}/${pack.mechs.length}`);
      setShare(hp, blank ? 0 : total(living, (mech) => poses.hp[mech]) / total(pack.mechs, hpOf));
      head.classList.toggle("fights", total(pack.mechs, (mech) => damage[mech]) > 0);
      head.classList.toggle("dead", living.length === 0);
      const { sign, text } = commonOrder(match.commanded, living);
      setText(order, sign);
      head.classList.toggle("selected", living.length > 0 && living.every((m) => match.commanded?.chosen.has(m)));
      const ordered = text === "" ? "" : `, order ${text}`;
      head.setAttribute("aria-label", `Pack ${pack.number}, ${living.length} of ${pack.mechs.length} alive${ordered}`);
    }
  }

  private makeRow(match: MatchState, mech: number): Row {
    const name = className(match.header, mech) as ChassisName;
    const appearance = CHASSIS[name] ?? CHASSIS.medium;
    const label = appearance.label + (isHumanMech(match.header, mech) ? ", human" : "");
    const bar = (kind: string) => {
      const fill = el("div", { class: `fill ${kind}` });
      return { fill, track: el("div", { class: `track ${kind}` }, [fill]) };
    };
    const [hp, heat, stability] = [bar("hp"), bar("heat"), bar("stability")];
    const points = el("span", { class: "mech-points" });
    const state = el("span", { class: "mech-state" });
    const root = el(
      "button",
      { class: "mech-row", attributes: { type: "button" }, onclick: ({ shiftKey }) => this.pick(mech, shiftKey) },
      [
        el("span", { class: "mech-icon" }, [icon(appearance.icon)]),
        el("span", { class: "mech-body" }, [
          el("span", { class: "mech-line" }, [
            el("span", { class: "mech-name", text: match.header.roster[mech].name }),
            el("span", { class: "mech-class tiny", text: label }),
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

  private pick(mech: number, more: boolean): void {
    if (this.choose) this.choose([mech], more);
    else control.select(this.state, mech, true);
  }

  update(match: MatchState): void {
    const { header, poses, commanded } = match;
    this.follow();
    const blank = Number.isNaN(poses.tick); // nothing is known of the moment
    if (this.packs.length > 0) this.updatePacks(match, blank);
    for (const { mech, root, hp, points, heat, stability, state } of this.rows) {
      const spec = header.chassis[header.roster[mech].chassis];
      const flags = poses.flags[mech];
      const hidden = blank || match.shown[mech] < 0.5; // hidden by the fog of war
      root.classList.toggle("fogged", hidden);
      const alive = (flags & MechFlag.ALIVE) !== 0;
      const seen = alive && !hidden;
      const hot = poses.heat[mech] / (spec?.heat_cap ?? 100);
      setShare(hp, seen ? poses.hp[mech] / (spec?.hp ?? 100) : 0);
      setShare(heat, seen ? hot : 0);
      setShare(stability, seen ? poses.stability[mech] / 100 : 0);
      setText(points, seen ? String(Math.ceil(poses.hp[mech])) : "");
      const order = alive ? (commanded?.orders[mech]?.text ?? "") : "";
      const words = blank ? "" : hidden ? "not seen" : order || stateText(flags);
      setText(state, words);
      state.dataset.state = words;
      root.classList.toggle("dead", !alive && !blank);
      root.classList.toggle("hot", seen && hot >= HOT);
      const selected = commanded ? commanded.chosen.has(mech) : this.state.selected === mech;
      root.classList.toggle("selected", selected);
      root.setAttribute("aria-pressed", String(selected));
      const figures = `${Math.ceil(poses.hp[mech])} hit points, heat ${Math.round(hot * 100)} %`;
      const status = blank ? "unknown" : `${seen ? figures : ""} ${words}`;
      root.setAttribute("aria-label", `${header.roster[mech].name} ${className(header, mech)} ${status}`);
    }
  }
}
