// Fields of a dialog that say who flies which mech, and which parameters differ: one row for each team and, opened, one
// for each mech. Empty fields keep what the recording has.

import { el, field, option } from "../hud/dom";
import { className, mechName, policyName } from "../text";
import type { Header, PlayWelcome } from "../protocol.gen";
import { SIDES } from "./gauges";

const KEEP = ""; // value of fields that keep the recorded pilot
const CHANGE = /^\s*([a-z0-9_.]+)\s*=\s*(-?\d+(?:\.\d+)?(?:e-?\d+)?)\s*$/i;

/** Return the parameter overrides in a text such as "laser.damage=28, heat.vent=2"; throws one line. */
export function parseChanges(text: string, known: readonly string[]): Record<string, number> {
  const found: Record<string, number> = {};
  for (const part of text.split(/[,;\n]/).filter((words) => words.trim() !== "")) {
    const match = CHANGE.exec(part);
    if (!match) throw new Error(`changes has “${part.trim()}”, expected NAME=NUMBER, such as laser.damage=28`);
    if (known.length > 0 && !known.includes(match[1]))
      throw new Error(`parameter “${match[1]}” is unknown, expected one such as ${known.slice(0, 3).join(", ")}`);
    found[match[1]] = Number(match[2]);
  }
  return found;
}

export class PilotsForm {
  readonly root = el("div", { class: "pilots-form" });
  private readonly teams: HTMLSelectElement[] = [];
  private mechs = new Map<string, HTMLSelectElement>();
  private readonly changes = el("input", {
    attributes: { type: "text", placeholder: "laser.damage=28, …", list: "parameters", spellcheck: "false" },
    aria: { label: "Parameter changes" },
  });
  private readonly names = el("datalist", { attributes: { id: "parameters" } });
  private parameters: readonly string[] = [];

  open(header: Header, welcome: PlayWelcome): void {
    this.parameters = welcome.parameters;
    this.names.replaceChildren(...welcome.parameters.map((name) => option(`${name}=`, "")));
    const choices = (label: string, unchanged: string) => {
      const group = (title: string, names: readonly string[]) => {
        const options = names.map((name) => option(name, policyName(name)));
        return options.length === 0 ? null : el("optgroup", { attributes: { label: title } }, options);
      };
      const parts = [option(KEEP, unchanged), group("Levels", welcome.levels), group("Policies", welcome.policies)];
      return el("select", { aria: { label } }, parts);
    };
    const teamField = (team: number, label: string, select: HTMLElement) => {
      const row = field(label, select);
      row.classList.add(SIDES[team]);
      return row;
    };
    this.teams.length = 0;
    const teamRows = SIDES.map((side, team) => {
      const select = choices(`Pilots of ${side}`, "as recorded");
      this.teams.push(select);
      return teamField(team, `${side === "blue" ? "Blue" : "Red"} is flown`, select);
    });
    this.mechs = new Map();
    const mechRows = header.roster.flatMap(({ team, present }, mech) => {
      if (!present) return [];
      const name = mechName(header, mech);
      const select = choices(`Pilot of ${name}`, "as its team");
      this.mechs.set(name, select);
      return [teamField(team, `${name}, ${className(header, mech)}`, select)];
    });
    this.root.replaceChildren(
      ...teamRows,
      el("details", {}, [
        el("summary", { text: "Single mechs and parameters" }),
        el("div", { class: "mech-pilots" }, mechRows),
        field("Changes", this.changes),
        this.names,
      ]),
    );
  }

  pilots(): Record<string, string> {
    const chosen: Record<string, string> = {};
    this.teams.forEach(({ value }, team) => value !== KEEP && (chosen[SIDES[team]] = value));
    for (const [mech, { value }] of this.mechs) if (value !== KEEP) chosen[mech] = value;
    return chosen;
  }

  /** Return the parameter overrides; throws one line for a wrong one. */
  overrides(): Record<string, number> {
    return parseChanges(this.changes.value, this.parameters);
  }
}
