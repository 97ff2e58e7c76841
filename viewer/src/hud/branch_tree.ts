// The tree of branches in the match list: recordings that continue another one, below it, by the moment at which they
// leave it.

import { el, setText } from "./dom";
import type { MatchSummary } from "../protocol.gen";
import { SIDES, endingText, policyName, sideNames } from "../text";
import { formatRoute } from "../routes";
import { clockText } from "../timeline";

const TICK_HZ = 20; // tick rate of summaries, which do not carry it

export interface Branch {
  readonly match: MatchSummary;
  readonly children: readonly Branch[];
}

/** Return the recordings that have branches, and these in order of time; a branch of a lost recording is a root. */
export function branchTree(matches: readonly MatchSummary[]): Branch[] {
  const children = new Map<MatchSummary, MatchSummary[]>();
  const roots: MatchSummary[] = [];
  const byId = new Map(matches.map((match) => [match.id, match]));
  for (const match of matches) {
    const parent = match.parent ? parentOf(match, byId) : null;
    if (!parent) roots.push(match);
    else children.set(parent, [...(children.get(parent) ?? []), match]);
  }
  const grow = (match: MatchSummary): Branch => ({
    match,
    children: (children.get(match) ?? [])
      .sort(
        (a, b) =>
          (a.parent?.tick ?? 0) - (b.parent?.tick ?? 0) || a.created - b.created || a.file.localeCompare(b.file),
      )
      .map(grow),
  });
  return roots.map(grow).filter((branch) => branch.children.length > 0 || branch.match.parent);
}

/** Return the match that a branch continues, null for one that is not loaded. */
function parentOf(match: MatchSummary, matches: ReadonlyMap<string, MatchSummary>): MatchSummary | null {
  const found = matches.get(match.parent?.match ?? "") ?? null;
  return found === match ? null : found;
}

/** Return how a branch differs and ended, e.g. "0:21 · no. 7 · B2 expert · without B3 · Red: elimination". */
export function branchText(match: MatchSummary): string {
  const { parent } = match;
  const set = Object.entries(parent?.set ?? {}).map(([mech, pilot]) => `${mech} ${policyName(pilot)}`);
  const named = set.length > MOST_NAMED ? [`${set.length} pilots set`] : [...set];
  if (parent?.still.length) named.push(`without ${parent.still.join(", ")}`);
  const number = /-b(\d+)(?:-with)?\.ecr$/.exec(match.file);
  if (number) named.unshift(`no. ${Number(number[1])}`);
  const winner = match.winner === 2 ? "Draw" : SIDES[match.winner];
  const end = match.live ? "live" : winner ? `${winner}: ${endingText(match.reason)}` : "incomplete";
  return [clockText((parent?.tick ?? 0) / TICK_HZ), ...named, ...(parent?.changes ?? []), end].join(" · ");
}

const MOST_NAMED = 3; // pilots that are named

function counted(count: number, word: string, ending: string): string {
  return `${count} ${word}${count === 1 ? "" : ending}`;
}

export class BranchTree {
  readonly root = el("details", { class: "branch-tree panel" });
  private readonly summary = el("summary");
  private readonly list = el("ul");
  private drawn: readonly MatchSummary[] | null = null;

  constructor() {
    this.root.append(this.summary, this.list);
    this.root.hidden = true;
  }

  update(matches: readonly MatchSummary[]): void {
    if (matches === this.drawn) return;
    this.drawn = matches;
    const tree = branchTree(matches);
    const count = matches.filter(({ parent }) => parent).length;
    this.root.hidden = tree.length === 0;
    setText(this.summary, `Branches: ${counted(count, "continuation", "s")} of ${counted(tree.length, "match", "es")}`);
    this.list.replaceChildren(...tree.map((branch) => this.node(branch)));
  }

  private node({ match, children }: Branch): HTMLElement {
    const tick = match.parent?.tick ?? 0;
    const fields = { match: match.id, seconds: tick / TICK_HZ, mech: null, camera: null };
    const text = match.parent ? branchText(match) : sideNames(match).join(" against ");
    const side = ["blue", "red"][match.winner] ?? "";
    const row = el("div", { class: `branch-row ${side}` }, [
      el("i", { class: "team-sign" }),
      el("a", { text, attributes: { href: formatRoute(fields) } }),
    ]);
    const below = children.map((child) => this.node(child));
    return el("li", {}, [row, below.length > 0 ? el("ul", {}, below) : null]);
  }
}
