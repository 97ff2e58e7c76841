// The ladder of opponents, weakest first, and how far this browser's pilot has climbed it.

import { recall, remember } from "../storage";

export const LEVELS = ["trivial", "easy", "medium", "hard", "expert"] as const;
/** Team mates by rung, with which the first opponents are easier to beat than the last (measured: docs/play.md). */
const MATES = ["easy", "easy", "medium", "medium", "hard", "expert"];

export class Ladder {
  readonly opponents: readonly string[];

  /** `policy` is the name of the last opponent. */
  constructor(policy = "champion") {
    this.opponents = [...LEVELS, policy];
  }

  /** Return the pilots of the team mates against an opponent, "" for the opponent's own. */
  matesAgainst(opponent: string): string {
    return MATES[this.opponents.indexOf(opponent)] ?? "";
  }

  /** The number of opponents in a row from the first that were beaten. */
  get climbed(): number {
    const found = Number(recall("ladder"));
    return Number.isInteger(found) && found > 0 ? Math.min(found, MATES.length) : 0;
  }

  /** Remember a match against an opponent that was won. */
  climb(opponent: string): void {
    const rung = this.opponents.indexOf(opponent) + 1;
    if (rung > this.climbed) remember("ladder", String(rung));
  }

  /** Return the opponent after a match: the next one of the ladder after a win, else null. */
  next(opponent: string, won: boolean): string | null {
    const rung = this.opponents.indexOf(opponent);
    return won && rung >= 0 ? (this.opponents[rung + 1] ?? null) : null;
  }
}
