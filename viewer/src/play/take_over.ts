// The dialog that takes over a recorded match: which mech to fly, who flies the others, and which parameters differ.

import { checkbox, dialog, el, field, option, setShare, setText, textButton } from "../hud/dom";
import { className, errorText, mechName } from "../text";
import { MechFlag } from "../protocol.gen";
import { type MatchState, type ViewerState, inCatalogue } from "../state";
import { clockText } from "../timeline";
import { PilotsForm } from "./pilots_form";
import type { PlaySession } from "./session";

const NO_SESSION = "This server has no play session; start it with `echelon play` or `echelon serve --play`.";
const LARGEST_SEED = 2 ** 31 - 1;

/** Return in one line why a match cannot be played on, "" if it can; `simVersion` is that of the session. */
export function refusal(match: MatchState, simVersion: number | null): string {
  const { header, index } = match;
  if (!inCatalogue(match)) return "Only matches in the server's list can be played on, not local files.";
  if (index.live) return "The match is still being recorded; wait until it has ended.";
  if ((header.actions ?? header.insight?.actions ?? []).length === 0)
    return "This replay has no actions; arena, eval and sim record them since schema 2.3.";
  const version = header.sim_version ?? 1;
  if (simVersion !== null && version !== simVersion)
    return `This replay has simulation version ${version}, the session ${simVersion}: today it is another match.`;
  return "";
}

/** Return why a session does not answer, "" if it does. */
export function sessionProblem({ phase, problem, open }: PlaySession): string {
  if (open) return "";
  return phase === "connecting" || phase === "lost" ? "Connecting to the play session…" : problem || NO_SESSION;
}

/** The button that asks a session for something about a match, why it cannot, and how far the answer is. */
export class SessionRequest {
  readonly act: HTMLButtonElement;
  readonly parts: readonly HTMLElement[];
  private readonly note = el("p", { class: "play-note", attributes: { role: "status" } });
  private readonly bar = el("i");
  private readonly track = el("div", { class: "film-bar" }, [this.bar]);
  private readonly stop: HTMLButtonElement;

  constructor(label: string, start: () => void, cancel: () => void) {
    this.act = textButton(label, start, "button wide framed primary");
    this.stop = textButton("Cancel", cancel, "button wide framed");
    this.parts = [this.note, this.track, el("div", { class: "session-buttons" }, [this.act, this.stop])];
  }

  /** Show what `runs`, or a problem; returns why the session cannot be asked, "" if it can. */
  show(
    match: MatchState,
    play: PlaySession,
    runs: { share?: number; text: string } | null,
    problem: string,
    refused = refusal(match, play.welcome?.sim_version ?? null) || sessionProblem(play),
  ): string {
    const shown = refused || problem;
    this.act.disabled = refused !== "" || runs !== null;
    this.stop.hidden = this.track.hidden = runs?.share === undefined;
    setShare(this.bar, runs?.share ?? 0);
    setText(this.note, shown || (runs?.text ?? ""));
    this.note.classList.toggle("problem-line", shown !== "");
    return refused;
  }
}

export class TakeOverDialog {
  readonly root: HTMLElement;
  private readonly title = el("h2");
  private readonly form = new PilotsForm();
  private readonly seat = el("select", { aria: { label: "Mech to fly" } });
  private readonly luck = checkbox();
  private readonly request = new SessionRequest(
    "Take over",
    () => this.start(),
    () => this.close(),
  );
  private of: MatchState | null = null;
  private filled = false; // whether the form has what the session offers
  private problem = "";
  private waits = false; // whether the match is being prepared

  constructor(
    private readonly state: ViewerState,
    private readonly play: PlaySession,
  ) {
    const hint = "You fly with keyboard and mouse, a gamepad, or touch.";
    const parts = [
      field("You fly", this.seat),
      this.form.root,
      field("Other luck than in the recording", this.luck),
      el("p", { class: "play-hint small", text: hint }),
      ...this.request.parts,
    ];
    this.root = dialog("settings takeover", "Take over", () => this.close(), parts, this.title);
  }

  /** Open the dialog at the cursor; playback pauses. */
  open(): void {
    const { match } = this.state;
    if (!match) return;
    this.state.playing = false;
    this.play.reconnect();
    this.of = match;
    this.filled = this.waits = false;
    this.problem = "";
    this.root.hidden = false;
  }

  close(): void {
    this.root.hidden = true;
  }

  update(): void {
    if (this.root.hidden) return;
    const { state, play, of } = this;
    if (state.match !== of || !of) return this.close();
    setText(this.title, `Take over at ${clockText(state.tick / of.header.tick_hz)}`);
    const { welcome } = play;
    if (welcome && !this.filled) this.fill(of);
    // the session answers a request with a match or a problem
    if (this.waits && play.problem !== "") [this.problem, this.waits] = [play.problem, false];
    this.request.show(of, play, this.waits ? { text: play.progress } : null, this.problem);
  }

  private fill(match: MatchState): void {
    const { play, state } = this;
    if (!play.welcome) return;
    this.filled = true;
    this.form.open(match.header, play.welcome);
    const { roster } = match.header;
    const living = roster.flatMap(({ present }, mech) =>
      present && match.poses.flags[mech] & MechFlag.ALIVE ? [mech] : [],
    );
    this.seat.replaceChildren(
      ...living.map((mech) => {
        const name = mechName(match.header, mech);
        return option(name, `${name}, ${className(match.header, mech)}`);
      }),
    );
    const chosen = living.includes(state.selected) ? state.selected : living[0];
    if (chosen !== undefined) this.seat.value = mechName(match.header, chosen);
  }

  private start(): void {
    const { of, play, state } = this;
    if (!of) return;
    try {
      this.problem = "";
      this.waits = true;
      play.start({
        source: { run: of.run, file: of.file },
        tick: Math.floor(state.tick),
        seat: this.seat.value,
        pilots: this.form.pilots(),
        changes: this.form.overrides(),
        seed: this.luck.checked ? Math.floor(Math.random() * LARGEST_SEED) : null,
      });
    } catch (error) {
      this.waits = false;
      this.problem = errorText(error);
    }
  }
}
