// The coach's part of the card at the end of a match: measured mistakes as stored in the recording, each with the
// moment and the better line to watch; or a button that asks the play session for them.

import * as control from "../control";
import { el, setShare, setText, textButton } from "../hud/dom";
import type { Panel } from "../hud/panels";
import type { Coaching, Mistake, PlaySource } from "../protocol.gen";
import { type MatchState, type ViewerState, inCatalogue } from "../state";
import type { PlaySession } from "./session";
import { refusal, sessionProblem } from "./take_over";

const POLL_MS = 10_000; // interval at which the index is read while mistakes are measured
const NOT_STORED = "No mistakes are stored in this file; `echelon replay info FILE --mistakes loser` measures them.";

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
  private readonly note = el("p", { class: "play-note", attributes: { role: "status" } });
  private readonly bar = el("i");
  private readonly track = el("div", { class: "film-bar" }, [this.bar]);
  private readonly ask: HTMLButtonElement;
  private readonly stop: HTMLButtonElement;
  private polledAt = 0;
  private shown: readonly Coaching[] | null = null;

  /** `find` returns the catalogue id of a recording, null if it is not listed; `go` opens an address. */
  constructor(
    private readonly state: ViewerState,
    private readonly play: PlaySession,
    private readonly find: (source: PlaySource) => Promise<string | null>,
    private readonly go: (hash: string) => void,
  ) {
    this.ask = textButton("Find the mistakes", () => this.start(), "button wide framed");
    this.stop = textButton("Cancel", () => play.stopCoach(), "button wide framed");
    this.root = el("section", { class: "coach", aria: { label: "Measured mistakes" } }, [
      this.list,
      this.note,
      this.track,
      this.ask,
      this.stop,
    ]);
  }

  update(match: MatchState): void {
    const { play } = this;
    const coached = match.index.coached ?? [];
    if (coached !== this.shown) this.show(coached);
    const asked = play.coach?.match === match ? play.coach : null;
    const runs = asked !== null && !asked.done && asked.problem === "" && coached.length === 0;
    // an answer to a connection that was lost meanwhile does not arrive
    if (runs && performance.now() - this.polledAt > POLL_MS) {
      this.polledAt = performance.now();
      play.onCoached(match);
    }
    const listed = inCatalogue(match);
    const no = listed ? refusal(match, play.welcome?.sim_version ?? null) || sessionProblem(play) : NOT_STORED;
    this.ask.hidden = runs || !listed || coached.length > 0;
    this.ask.disabled = no !== "";
    this.stop.hidden = this.track.hidden = !runs;
    setShare(this.bar, asked?.share ?? 0);
    const note = runs ? asked.text : asked?.problem || no;
    setText(this.note, note);
    this.note.hidden = note === "" || coached.length > 0;
  }

  leave(): void {
    if (this.play.coach && this.play.coach.match !== this.state.match) this.play.stopCoach();
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
