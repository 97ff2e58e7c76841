// Who flies the mechs of a match: the counterpart of echelon/arena/named_pilots.py for the pilots that a page has.

import type { Header, TeamHeader } from "../protocol.gen";

export const STILL = "still";
const HUMAN = "human"; // name of the pilot of a seat
const JOINT = " and "; // between the names of a team's pilots
const LEVEL_PREFIX = "heuristic:";
const SIDES = ["blue", "red"];

/** A pilot as a header names it: a level with its prefix, `still`, or a policy with the id of its checkpoint. */
export interface Pilot {
  readonly name: string;
  readonly checkpoint: string;
  readonly script: number; // number of a scripted pilot, 0 none
}

/** The seats of a match and the pilots of its mechs, those of the seats for when nobody flies them. */
export interface Cast {
  readonly seats: readonly number[];
  readonly pilots: readonly Pilot[];
  readonly labels: Record<string, string>; // pilots that were chosen, by mech or team
}

export const scriptsOf = ({ seats, pilots }: Cast) => pilots.map(({ script }, m) => (seats.includes(m) ? 0 : script));

/** The pilots that a match may have, by name. */
export class Pilots {
  /** `checkpoints` are the ids of policies by name. */
  constructor(
    readonly levels: readonly string[],
    private readonly checkpoints: Readonly<Record<string, string>>,
  ) {}

  named(name: string): Pilot {
    const level = name.replace(LEVEL_PREFIX, "");
    if (level === STILL) return { name: STILL, checkpoint: "", script: 0 };
    const script = this.levels.indexOf(level) + 1;
    if (script > 0) return { name: LEVEL_PREFIX + level, checkpoint: "", script };
    const known = [...this.levels, STILL, ...Object.keys(this.checkpoints)].join(", ");
    if (!Object.hasOwn(this.checkpoints, name))
      throw new Error(`pilot "${name}" is unknown, expected one of: ${known}`);
    return { name, checkpoint: this.checkpoints[name], script: 0 };
  }

  /** Return the pilot that flew a mech of a recording; that of a human, then or now, may be unknown. */
  private recorded(header: Header, mech: number, isSeat: boolean): Pilot {
    const { script, names = [], checkpoints = [] } = header.pilots ?? { script: [] };
    const side = header.roster[mech].team;
    const team = header.teams[side];
    if (script[mech] > 0) return this.named(this.levels[script[mech] - 1] ?? "");
    const parts = team.name.split(JOINT);
    const others = team.policy || team.level || parts.filter((name) => name !== HUMAN).join(JOINT) || STILL;
    const [name, checkpoint] = names[mech] ? [names[mech], checkpoints[mech]] : [others, team.checkpoint];
    const same = Object.keys(this.checkpoints).find((known) => this.checkpoints[known] === checkpoint);
    const isHuman = isSeat || parts.includes(HUMAN);
    if (same !== undefined) return this.named(same);
    if (name === STILL || (isHuman && name.startsWith(LEVEL_PREFIX))) return this.named(name);
    if (isHuman) return this.named(STILL);
    throw new Error(
      `${SIDES[side]} was flown by "${name}", whose policy this page lacks; choose a pilot for ${SIDES[side]}`,
    );
  }

  /** Return who plays a recorded match on; `chosen` names pilots by mech or team, a mech goes before its team. */
  choose(header: Header, chosen: Record<string, string>, seats: readonly number[] = []): Cast {
    const known = header.roster.filter(({ present }) => present).map(({ name }) => name);
    const wrong = Object.keys(chosen).find((target) => ![...SIDES, ...known].includes(target));
    if (wrong !== undefined)
      throw new Error(`pilots has mech "${wrong}", expected blue, red or one of: ${known.join(", ")}`);
    const pilots = header.roster.map(({ name, team, present }, mech) => {
      const named = chosen[name] ?? chosen[SIDES[team]];
      if (!present) return this.named(STILL);
      return named === undefined ? this.recorded(header, mech, seats.includes(mech)) : this.named(named);
    });
    const labels = Object.entries(chosen).map(([target, name]) => [target, name.replace(LEVEL_PREFIX, "")]);
    return { seats, pilots, labels: Object.fromEntries(labels) };
  }
}

/** Return both teams as a header has them, named after their pilots. */
export function teamsOf(teams: ArrayLike<number>, { seats, pilots }: Cast): [TeamHeader, TeamHeader] {
  const teamOf = (side: number): TeamHeader => {
    const others = pilots.filter((_, m) => teams[m] === side && !seats.includes(m));
    const humans = seats.some((m) => teams[m] === side) ? [HUMAN] : [];
    const names = new Set([...others.map(({ name }) => name.replace(LEVEL_PREFIX, "")), ...humans]);
    const isOne = others.every((pilot) => pilot.name === others[0].name && pilot.checkpoint === others[0].checkpoint);
    const { name = "", checkpoint = "", script = 0 } = isOne ? (others[0] ?? {}) : {};
    const [level, policy] = script > 0 ? [name, ""] : ["", name === STILL ? "" : name];
    return { name: [...names].sort().join(JOINT) || STILL, policy, checkpoint, level };
  };
  return [teamOf(0), teamOf(1)];
}
