// What the selected mech chooses: the probabilities of its policy's last decision, where they are recorded, and what it
// chose in the last seconds, as shares of its targets and of the triggers it held.

import { type Choices, type Share, WINDOW_S, choiceProbabilities, recentChoices } from "../data/choices";
import { recentChunks } from "../data/perception";
import type { Header } from "../protocol.gen";
import type { MatchState } from "../state";
import { el, setShare, setText } from "./dom";
import { mechName } from "../text";

const MOST = 5; // most targets that are listed

function makeBar() {
  const [name, fill, value] = [el("span"), el("i"), el("b")];
  return { root: el("div", { class: "choice" }, [name, el("div", {}, [fill]), value]), name, fill, value };
}

class Bars {
  private readonly list = el("div", { class: "choice-list" });
  readonly root: HTMLElement;
  private readonly bars: ReturnType<typeof makeBar>[] = [];

  constructor(title: string) {
    this.root = el("div", {}, [el("h4", { text: title }), this.list]);
  }

  show(rows: readonly Share<string>[]): void {
    this.root.hidden = rows.length === 0;
    while (this.bars.length < rows.length) {
      const bar = makeBar();
      this.list.append(bar.root);
      this.bars.push(bar);
    }
    this.bars.forEach(({ root, name, fill, value }, k) => {
      root.hidden = k >= rows.length;
      if (k >= rows.length) return;
      setText(name, rows[k].choice);
      setShare(fill, rows[k].share);
      setText(value, `${Math.round(rows[k].share * 100)} %`);
    });
  }
}

function targetName(header: Header, mech: number): string {
  return mech < 0 ? "no target" : mechName(header, mech);
}

export class ChoicesView {
  private readonly likely = [new Bars("Target probability"), new Bars("Trigger probability")] as const;
  private readonly targets = new Bars(`Target, last ${WINDOW_S} s`);
  private readonly triggers = new Bars(`Triggers held, last ${WINDOW_S} s`);
  readonly root = el("div", { class: "choices", aria: { label: "Choices" } }, [
    ...this.likely.map(({ root }) => root),
    this.targets.root,
    this.triggers.root,
  ]);

  update(match: MatchState, tick: number, mech: number): void {
    const { header, chunk } = match;
    const show = ({ targets, triggers }: Choices, [first, second]: readonly [Bars, Bars]) => {
      first.show(targets.slice(0, MOST).map(({ choice, share }) => ({ choice: targetName(header, choice), share })));
      second.show(triggers);
    };
    show(choiceProbabilities(header, chunk, tick, mech), this.likely);
    show(recentChoices(header, recentChunks(match), tick, mech), [this.targets, this.triggers]);
  }
}
