// The coach's part of the card at the end of a match: measured mistakes as stored in the recording, each with the
// moment and the better line to watch; or a button that asks the play session for them.

import * as control from "../control";
import { el, textButton } from "../hud/dom";
import type { Panel } from "../hud/panels";
import type { Coaching, Mistake, PlaySource } from "../protocol.gen";
import { type MatchState, type ViewerState, inCatalogue } from "../state";
import type { PlaySession } from "./session";
import { SessionRequest } from "./take_over";

const POLL_MS = 10_000; // interval at which the index is read while mistakes are measured
const NOT_STORED = "No mistakes are stored in this file";
const HOW = "; `echelon replay info FILE --mistakes loser` measures them.";

/** Return what was tested and what is certain, e.g. "Mistakes of red: 2 of 6 moments are certain". */
export function coachText({ of, tested, mistakes }: Coaching): string {
  if (tested === 0) return `Mistakes of ${of}: the match has no suspicious moment.`;
  const found = mistakes.length > 0 ? `${mistakes.length} of ${tested} moments are certain` : "nothing is certain";
  const measured = tested === 1 ? "1 moment was measured" : `${tested} moments were measured`;
  return `Mistakes of ${of}: ${found}${mistakes.length > 0 ? "" : `; ${measured}`}.`;
}

export class CoachView implements Panel {
  readonly root: HTMLElement;
  private readonly list = el("div", { class: "coach-list" });
  private readonly request: SessionRequest;
  private readonly asking: HTMLElement;
  private polledAt = 0;
  private shown: readonly Coaching[] | null = null;

  /** `find` returns the catalogue id of a recording, null if it is not listed; `go` opens an address. */
  constructor(
    private readonly state: ViewerState,
    private readonly play: PlaySession,
    private readonly find: (source: PlaySource) => Promise<string | null>,
    private readonly go: (hash: string) => void,
    private readonly measures = true, // whether the session can measure mistakes
  ) {
    this.request = new SessionRequest(
      "Find the mistakes",
      () => this.start(),
      () => play.stopCoach(),
    );
    this.asking = el("div", {}, this.request.parts);
    this.root = el("section", { class: "coach", aria: { label: "Measured mistakes" } }, [this.list, this.asking]);
  }

  update(match: MatchState): void {
    const { play } = this;
    const coached = match.index.coached ?? [];
    if (coached !== this.shown) this.show(coached);
    const asked = play.coach?.match === match.id ? play.coach : null;
    const runs = asked !== null && asked.problem === "" && coached.length === 0;
    // an answer to a connection that was lost meanwhile does not arrive, and an index may be read too early
    if (runs && performance.now() - this.polledAt > POLL_MS) {
      this.polledAt = performance.now();
      play.onCoached(match.id);
    }
    const listed = this.measures && inCatalogue(match);
    this.asking.hidden = coached.length > 0;
    this.request.act.hidden = runs || !listed;
    this.request.show(
      match,
      play,
      runs ? asked : null,
      asked?.problem ?? "",
      listed ? undefined : `${NOT_STORED}${this.measures ? HOW : ", and this page measures none."}`,
    );
  }

  leave(): void {
    if (this.play.coach && this.play.coach.match !== this.state.match?.id) this.play.stopCoach();
  }

  private start(): void {
    const { match } = this.state;
    if (match) this.play.findMistakes(match);
  }

  private show(coached: readonly Coaching[]): void {
    this.shown = coached;
    this.list.replaceChildren(
      ...coached.flatMap((one) => [
        el("h3", { text: coachText(one) }),
        ...one.mistakes.map((mistake) => this.mistake(mistake)),
      ]),
    );
  }

  private mistake({ caption, tick, run, file }: Mistake): HTMLElement {
    const better = textButton("Watch the better line", () => void this.open({ run, file }), "button framed");
    better.hidden = file === "";
    return el("div", { class: "coach-mistake" }, [
      el("p", { text: caption }),
      textButton("Watch it", () => control.watchFrom(this.state, tick), "button framed"),
      better,
    ]);
  }

  private async open(source: PlaySource): Promise<void> {
    const id = await this.find(source);
    if (id !== null) this.go(`#match=${id}`);
    else this.state.problem = `The better line ${source.file ?? ""} is no longer listed.`;
  }
}
