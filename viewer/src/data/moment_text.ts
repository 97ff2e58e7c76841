// Captions of moments: the counterpart of echelon/replay/moment_text.py. Pure.

import { clockText, pointsText } from "../timeline";

const TEAMS = ["Blue", "Red"] as const;
const MAX_LISTED = 4; // victims that a caption lists by name
const NOUNS: Record<string, string> = { gauss: "gauss round" }; // weapons whose name alone does not read as a cause

/** A destroyed mech; mechs are indices of the roster, -1 for none. */
export interface Kill {
  readonly tick: number;
  readonly killer: number;
  readonly victim: number;
  readonly weapon: string; // "" if not recorded
  readonly rear: boolean;
  readonly shutdown: boolean; // whether the victim was shut down
  readonly fallen: boolean;
}

/** Return the nearest integer, of two the even one, as Python rounds. */
function rounded(value: number): number {
  const below = Math.floor(value);
  return value - below === 0.5 ? below + (below % 2) : Math.round(value);
}

/** Return a probability in whole percent; 0 and 100 only if it is certain. */
export function percent(p: number): string {
  const shown = rounded(100 * p);
  return `${p === 0 || p === 1 ? shown : Math.min(99, Math.max(1, shown))} %`;
}

/** Return the change of a team's win probability, given those of blue. */
export function change(team: number, before: number, after: number): string {
  const [first, last] = team === 0 ? [before, after] : [1 - before, 1 - after];
  return `${TEAMS[team].toLowerCase()} ${percent(first)} → ${percent(last)}`;
}

/** Return names as a list with "and", or their number if they are many. */
export function listed(names: readonly string[]): string {
  if (names.length > MAX_LISTED) return `${names.length} mechs`;
  return [names.slice(0, -1).join(", "), names.at(-1)].filter((part) => part).join(" and ");
}

/** Return a kill as a clause. */
export function killText(kill: Kill, names: readonly string[], teams: readonly number[]): string {
  const victim = names[kill.victim];
  if (kill.killer < 0) return `${victim} is destroyed by a hazard`;
  const killer = names[kill.killer];
  const subject = kill.weapon ? `${killer}'s ${NOUNS[kill.weapon] ?? kill.weapon}` : killer;
  if (teams[kill.killer] === teams[kill.victim]) return `${subject} destroys its own ${victim}`;
  const ways: [boolean, string][] = [
    [kill.shutdown, ", shut down by heat"],
    [kill.rear, " from behind"],
    [kill.fallen, ", knocked down"],
  ];
  return `${subject} kills ${victim}${ways.find(([applies]) => applies)?.[1] ?? ""}`;
}

/** Return several kills of one team as a clause. */
export function multiKillText(kills: readonly Kill[], names: readonly string[], team: number, seconds: number): string {
  const one = new Set(kills.map(({ killer }) => killer)).size === 1;
  const subject = one ? names[kills[0].killer] : TEAMS[team];
  const victims = listed(kills.map(({ victim }) => names[victim]));
  return `${subject} kills ${victims} within ${Math.max(1, rounded(seconds))} s`;
}

/** Return the losses of a team in the same time as an addition to a clause, "" without any. */
export function lossText(team: number, lost: readonly string[]): string {
  return lost.length > 0 ? `, ${TEAMS[team].toLowerCase()} loses ${listed(lost)}` : "";
}

type Pair = readonly [number, number];

/** Return a hold of the zone against odds as a clause; `sole` names the only living mech. */
export function holdText(team: number, sole: string, alive: Pair, seconds: number): string {
  const subject = alive[team] === 1 ? `${sole} alone holds` : `${TEAMS[team]}'s last ${alive[team]} hold`;
  return `${subject} the zone against ${alive[1 - team]} for ${rounded(seconds)} s`;
}

/** Return the lowest point of the winner as a clause; `p` is its win probability there. */
export function comebackText(team: number, p: number, alive: Pair, score: Pair): string {
  const mechs = `${alive[team]} against ${alive[1 - team]} mechs`;
  const points = `${pointsText(score[team])} to ${pointsText(score[1 - team])} zone points`;
  return `${TEAMS[team]} comes back from ${percent(p)}: ${mechs}, ${points}`;
}

/** Return what moved the win probability toward a team as a clause; `group` of features changed most. */
export function swingText(group: string, team: number, lost: Pair, scored: Pair, seconds: number): string {
  const [gains, loses] = [TEAMS[team], TEAMS[1 - team]];
  const within = `within ${rounded(seconds)} s`;
  if (group === "zone points" && scored[team] <= scored[1 - team]) return `time runs out for ${loses.toLowerCase()}`;
  const mine = `${gains.toLowerCase()}'s ${rounded(lost[team])}`;
  const [most, least] = [pointsText(scored[team]), pointsText(scored[1 - team])];
  const texts: Record<string, string> = {
    "hit points": `${loses} loses ${rounded(lost[1 - team])} hit points to ${mine} ${within}`,
    "zone points": `${gains} scores ${most} zone points to ${least} ${within}`,
    "zone control": `${gains} gains control of the zone`,
    "distance to the zone": `${gains} gets closer to the zone`,
    "knocked down": `${loses} has more mechs down or shut down`,
    "leg damage": `${loses} takes leg damage`,
    painted: `${loses} has more mechs painted`,
  };
  return texts[group] ?? `${gains} gains in ${group}`;
}

/** Return a caption with its time. */
export function caption(seconds: number, text: string): string {
  return `${clockText(seconds)} ${text}`;
}
