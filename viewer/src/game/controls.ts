// Controls of human pilots and orders, written into the simulator's arrays: the counterparts of echelon/env/seats.py
// and of Engine.give_orders. An input is an action vector in steps of 1/127; those of a tick: all seats, `[S, A]`.

import { PLAY_ORDERS } from "../protocol.gen";
import type { SensedArrays } from "./sensed_arrays";

const f = Math.fround;
const [FOCUS, SCREEN] = [PLAY_ORDERS.indexOf("focus"), PLAY_ORDERS.indexOf("screen")];

/** The seats of a match: mechs that follow inputs. */
export class Seats {
  constructor(
    private readonly arrays: SensedArrays,
    readonly mechs: readonly number[],
  ) {}

  /** Begin an environment step, whose pilots have acted, with the inputs of its first tick. */
  beginStep(inputs: Int8Array): void {
    this.writeActions(inputs);
    this.arrays.run("begin_step");
    this.writeControls();
  }

  /** Play a tick, with other inputs if given. */
  tick(inputs?: Int8Array): void {
    if (inputs) {
      this.writeActions(inputs);
      this.writeControls();
    }
    this.arrays.run("tick");
  }

  /** Play an environment step, whose pilots have acted, with the inputs of each tick. */
  step([first, ...others]: readonly Int8Array[]): void {
    this.beginStep(first);
    this.tick();
    for (const inputs of others) this.tick(inputs);
    this.arrays.run("end_step");
  }

  private writeActions(inputs: Int8Array): void {
    const { actions, tables, mechs } = this.arrays;
    const width = actions.length / mechs;
    const most = tables.quantisation;
    for (const [seat, m] of this.mechs.entries())
      for (let i = 0; i < width; i++) actions[m * width + i] = f(Math.max(inputs[seat * width + i], -most) / most);
  }

  /** Decode the actions of the seats as the kernels of echelon/sim/kernels/controls.py do. */
  private writeControls(): void {
    const { arrays } = this;
    const { controls, ewar, ewar_classes, target_selection } = arrays.tables;
    const width = arrays.actions.length / arrays.mechs;
    const eccmAbove = f(arrays.tables.eccm_above);
    for (const m of this.mechs) {
      const action = arrays.actions.subarray(m * width, (m + 1) * width);
      const alive = arrays.alive[m];
      const bits = controls.triggers.map((entry, bit) => Number(action[entry] > 0) << bit);
      for (const [i, entry] of controls.drive.entries()) arrays.drive[4 * m + i] = alive * action[entry];
      arrays.trigger[m] = alive * bits.reduce((held, bit) => held | bit);
      arrays.vent[m] = alive * Number(action[controls.vent] > 0);
      if (target_selection) this.chooseTarget(m, action);
      const may = alive === 1 && ewar_classes[arrays.chassis[m]] && (arrays.withheld[0] & ewar) === 0;
      const value = may ? action[controls.ewar] : 0;
      if (ewar !== 0)
        [arrays.ecm[m], arrays.eccm[m]] = [Number(value > 0 && value <= eccmAbove), Number(value > eccmAbove)];
    }
  }

  private chooseTarget(m: number, action: ArrayLike<number>): void {
    const { alive, team, contact, focus, focus_slot, tables } = this.arrays;
    const preferred = tables.controls.targets.map((entry) => action[entry]);
    const most = Math.max(...preferred);
    const best = preferred.indexOf(most);
    const other = contact[m * this.arrays.edge("contact", -1) + best];
    const isTarget = other >= 0 && most > 0 && alive[m] === 1 && alive[other] === 1 && team[other] !== team[m];
    [focus[m], focus_slot[m]] = isTarget ? [other, best] : [-1, -1];
  }
}

export type Given = ReadonlyMap<number, readonly [order: number, named: number]>;

/** Throw unless an order can name a mech, -1 none. */
export function requireOrder(arrays: SensedArrays, m: number, order: number, named: number): void {
  const [isFocus, isScreen] = [order === FOCUS, order === SCREEN];
  const isMate = arrays.team[named] === arrays.team[m];
  if (isFocus || isScreen ? arrays.present[named] === 1 && named !== m && isMate === isScreen : named === -1) return;
  const expected = isFocus ? "a hostile" : isScreen ? "another mech of its team" : "none, -1";
  throw new Error(`order "${PLAY_ORDERS[order]}" of mech ${m} names mech ${named}, expected ${expected}`);
}

/** Give orders by mech from the next environment step on, and observe again; a mech that has the order keeps it. */
export function giveOrders(arrays: SensedArrays, given: Given): void {
  for (const [m, [order, named]] of given) {
    requireOrder(arrays, m, order, named);
    if (arrays.order_kind[m] === order && arrays.order_mech[m] === named) continue;
    [arrays.order_kind[m], arrays.order_mech[m], arrays.order_since[m]] = [order, named, arrays.decision[0]];
    arrays.order_place.set(arrays.pos.subarray(3 * m, 3 * m + 3), 3 * m);
  }
  arrays.run("observe");
}
