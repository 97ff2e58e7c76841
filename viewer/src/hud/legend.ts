// The legend of symbols: what is drawn in the picture, on the rosters and on the timeline.

import { CHASSIS } from "../palette";
import { CHASSIS_NAMES } from "../protocol.gen";
import { el, icon } from "./dom";

const SYMBOLS: readonly (readonly [string, string])[] = [
  ["sign blue", "Blue mech, points ahead"],
  ["sign red", "Red mech, points ahead"],
  ["hatch blue", "Mech behind a wall"],
  ["bar health blue", "Health"],
  ["bar heat", "Heat"],
  ["bar stability", "Stability"],
  ["cross", "Painted: easier to hit"],
  ["line target", "Selected mech's target"],
  ["line contact", "Contact it knows of"],
  ["line watched", "Hostile that has detected it"],
  ["line front", "Front line of a large battle"],
  ["ring", "Its radar range"],
  ["bubble ecm", "ECM: jams hostile sensors"],
  ["bubble eccm", "ECCM: counters jamming"],
  ["number", "Damage; orange is critical"],
  ["moment", "Turning point, in the colour of who acts or gains"],
  ["moment decisive", "The decisive moment"],
];

export function legend(): HTMLElement {
  const row = (symbol: Node, text: string) => [el("dt", {}, [symbol]), el("dd", { text })];
  return el("div", { class: "key-group legend" }, [
    el("h3", { text: "Legend" }),
    el("dl", {}, [
      ...SYMBOLS.flatMap(([kind, text]) =>
        row(el("i", { class: `legend-${kind}`, text: kind === "number" ? "26" : "" }), text),
      ),
      ...CHASSIS_NAMES.flatMap((name) => row(icon(CHASSIS[name].icon), `${CHASSIS[name].label} mech`)),
    ]),
  ]);
}
