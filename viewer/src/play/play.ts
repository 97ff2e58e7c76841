// Playing in the browser: connects session, devices, cockpit and dialogs, and adds the buttons of the match page.

import type { Api } from "../client";
import { type GamePage, gameOf } from "../data/game_page";
import { type ReplaySource, sourceOf } from "../data/source";
import { ChunkStore } from "../data/store";
import { Dialogs } from "../hud/dialogs";
import { el, wordButton } from "../hud/dom";
import type { PlaySource } from "../protocol.gen";
import type { Screen } from "../screen";
import type { Ghost, MatchState, ViewerState } from "../state";
import type { Command } from "./bindings";
import { CoachView } from "./coach_view";
import { Cockpit } from "./cockpit";
import { CommandView } from "./command_view";
import { ControlsPanel } from "./controls_panel";
import { PilotInput } from "./input";
import { Ladder } from "./ladder";
import { type Connect, PlaySession } from "./session";
import { StartForm } from "./start_form";
import { recall, remember } from "../storage";
import { TakeOverDialog } from "./take_over";
import type { Watch } from "./watch";
import { WhatIfPanel } from "./what_if";
import { WorkerSocket } from "./worker_socket";

const IN_ADDRESS = /^#play=([A-Za-z0-9_-]{1,128})$/;
const LISTED = 200; // newest matches among which a recording is searched
const TRIES = 5; // attempts to find one that was just written
const TRY_MS = 700;
const INSETS = { left: 8, top: 64, right: 8, bottom: 64 }; // of the picture in the cockpit [CSS px]
const PLAY_ICON = "M7 5v14l11-7zM3 5v14";
const NOT_LISTED = "The recording is not listed yet; find it in the list of matches.";
const WHAT_IF = "M6 3v8a5 5 0 0 0 5 5h7M15 13l3 3-3 3M6 3v18";

/** Return the token in the address of a session, which is removed from it, else that of this tab. */
export function takeToken(): { token: string; fresh: boolean } {
  const found = IN_ADDRESS.exec(location.hash);
  if (!found) return { token: recall("play") ?? "", fresh: false };
  remember("play", found[1]);
  remember("seat", "");
  history.replaceState(null, "", location.pathname + location.search);
  return { token: found[1], fresh: true };
}

export class Play {
  readonly root: HTMLElement;
  readonly session: PlaySession;
  readonly tools: readonly HTMLElement[];
  readonly coach: CoachView;
  readonly command: CommandView;
  readonly startForm: StartForm;
  private readonly game: GamePage | null; // that this page plays without a server
  private readonly input: PilotInput;
  private readonly cockpit: Cockpit;
  private readonly controls: ControlsPanel;
  private readonly takeOver: TakeOverDialog;
  private readonly whatIf: WhatIfPanel;
  private readonly dialogs: Dialogs;
  private toCoach = ""; // match whose mistakes are asked for as soon as it is open, "" for none
  private ghosts: { match: MatchState; sources: ReplaySource[] } | null = null;

  /** `go` opens an address of the viewer, `showList` the list. */
  constructor(
    private readonly state: ViewerState,
    private readonly api: Api,
    screen: Screen,
    private readonly go: (hash: string) => void,
    private readonly showList: () => void,
    readonly watching: Watch | null = null,
  ) {
    const game = (this.game = watching?.page ?? null);
    const inPage: Connect = (name, events) => new WorkerSocket(game!, api, events, name);
    this.session = new PlaySession(state, api.playUrl(), game ? inPage : undefined, new Ladder(game?.policy.name));
    this.cockpit = new Cockpit(state, this.session, () => this.input, {
      showControls: () => this.showControls(),
      leave: () => this.leave(),
      watch: () => void this.watch(),
      download: () => void this.download(),
      coach: () => void this.watch(true),
    });
    const { session, cockpit } = this;
    this.input = new PilotInput({
      surface: cockpit.surface,
      active: () => state.flying && this.controls.root.hidden && !session.ended,
      heading: () => (session.live ? session.live.match.poses.yaw[session.live.pilot] : 0),
      changed: () => session.steer(this.input.controls, performance.now()),
      command: (command) => this.obey(command),
      escape: () => this.escape(),
    });
    cockpit.surface.after(this.input.pad.stick);
    const warn = (event: Event) => state.flying && !session.ended && event.preventDefault();
    if (game) window.addEventListener("beforeunload", warn); // a page keeps matches from their end on
    this.command = new CommandView(state, session, screen, () => this.input.controls);
    this.controls = new ControlsPanel(this.input);
    this.startForm = new StartForm(session, watching);
    this.takeOver = new TakeOverDialog(state, session);
    this.whatIf = new WhatIfPanel(state, session, {
      find: (source) => this.find(source),
      showGhosts: (match, ids, from) => void this.showGhosts(match, ids, from),
    });
    this.coach = new CoachView(state, session, (source) => this.find(source), go, game === null);
    this.root = el("div", { class: "hud play" }, [
      cockpit.root,
      this.command.root,
      this.controls.root,
      this.takeOver.root,
      this.whatIf.root,
    ]);
    this.dialogs = new Dialogs(this.root);
    this.tools = [
      wordButton("Fly", "Fly: take over here (Enter)", PLAY_ICON, () => this.openTakeOver(), "button worded"),
      wordButton("What if", "What if? Continuations from here (;)", WHAT_IF, () => this.openWhatIf(), "button worded"),
    ];
  }

  start(): void {
    const { token, fresh } = this.game ? { token: Object.keys(this.game.games)[0], fresh: false } : takeToken();
    if (token !== "") this.session.connect(token, fresh);
  }

  openTakeOver(): void {
    if (this.joinGame()) this.takeOver.open();
  }

  openWhatIf(): void {
    if (this.joinGame()) this.whatIf.toggle();
  }

  /** Connect to a session of the open match's game where the page has it; returns false while a match is flown. */
  private joinGame(): boolean {
    const { game, session, state } = this;
    if (game && state.match && !state.flying) session.reconnect(gameOf(game, state.match.header));
    return !state.flying;
  }

  /** Close the open dialogs; returns whether there was one. */
  closeDialogs(): boolean {
    const open = [this.controls, this.takeOver, this.whatIf].filter(({ root }) => !root.hidden);
    for (const dialog of open) dialog.close();
    return open.length > 0;
  }

  /** Read the devices and move the picture; called before the picture is drawn. */
  fly(now: number, elapsed: number): void {
    const { session, state, input } = this;
    if (!state.flying) return;
    // the match was closed, for instance by the browser's back button
    if (state.match !== session.live?.match) return this.session.leave();
    if (!state.match?.commanded) state.insets = INSETS;
    else this.command.fly(elapsed);
    input.poll(elapsed);
    session.fly(input.controls, now, elapsed);
  }

  /** Update instruments and dialogs; called after the picture has been drawn, which is `complete` with the map. */
  update(now: number, complete: boolean): void {
    this.session.drawn(now, complete);
    const goesOn = this.state.flying && this.session.waitFor(!this.controls.root.hidden);
    this.controls.warn(goesOn ? "The match goes on: another pilot flies too." : "");
    this.cockpit.update(now);
    this.command.update(now);
    this.takeOver.update();
    this.startForm.update();
    this.watching?.update(now);
    this.whatIf.update();
    if (this.state.flying && !this.takeOver.root.hidden) this.takeOver.close();
    this.askCoach();
    this.dialogs.update();
    if (this.ghosts && this.state.match !== this.ghosts.match) this.removeGhosts();
  }

  private obey(command: Command): void {
    const { session } = this;
    const { live } = session;
    if ((live?.watching && this.spectate(command)) || this.command.obey(command)) return;
    if (command === "next_target") session.nextTarget();
    else if (command === "next_mate") session.nextMate();
    else if (command.startsWith("order_")) session.order(command.slice("order_".length));
    else if (command === "pause") session.togglePause();
    else if (command === "slower" || command === "faster") session.changePace(command === "faster" ? 1 : -1);
    else if (command === "help") this.showControls();
    else if (command === "skip") this.cockpit.skip();
  }

  /** Change the team mate that is watched, or the camera; returns whether a control did. */
  private spectate(command: Command): boolean {
    const free = this.state.camera.mode === "free"; // in which they move the camera
    if (command === "jets") this.session.toggleFree();
    else if (command === "next_target" || (!free && ["right", "turn_right"].includes(command))) this.session.watch(1);
    else if (!free && ["left", "turn_left"].includes(command)) this.session.watch(-1);
    else return false;
    return true;
  }

  private showControls(): void {
    this.input.release();
    this.controls.open();
  }

  private escape(): void {
    // the keys of the match page close its dialogs
    if (!this.state.flying || this.closeDialogs() || (!this.session.ended && this.command.escape())) return;
    if (this.input.captured) this.input.release();
    else if (this.session.ended) this.leave();
    else this.showControls();
  }

  private leave(): void {
    this.input.release();
    this.session.leave();
    this.showList();
  }

  /** Open the recording of the match that was flown; `coached` at its end, with the pilot's mistakes being measured. */
  private async watch(coached = false): Promise<void> {
    const { session } = this;
    const { recording, live, ended } = session;
    if (!recording || !live || !ended) return;
    const id = await this.find(recording);
    if (id === null) return void (session.problem = NOT_LISTED);
    this.input.release();
    session.leave();
    this.toCoach = coached ? id : "";
    this.go(coached ? `#match=${id}&t=${ended.tick / live.match.header.tick_hz}` : `#match=${id}`);
  }

  private async download(): Promise<void> {
    const { session, api } = this;
    const { recording } = session;
    const id = recording && (await this.find(recording));
    if (!id) return void (session.problem = NOT_LISTED);
    el("a", { attributes: { href: api.fileUrl(id), download: recording.file ?? "" } }).click();
  }

  /** Ask for the pilot's mistakes once their match is open. */
  private askCoach(): void {
    const { match } = this.state;
    if (this.toCoach === "" || match?.id !== this.toCoach) return;
    this.toCoach = "";
    this.session.findMistakes(match);
  }

  private async find({ run = "", file = "" }: PlaySource): Promise<string | null> {
    for (let tried = 0; tried < TRIES; tried++) {
      const page = await this.api.matches(run, LISTED, 0).catch(() => null);
      const found = page?.matches.find((match) => match.file === file && match.run === run);
      if (found) return found.id;
      await new Promise((done) => setTimeout(done, TRY_MS));
    }
    return null;
  }

  private async showGhosts(
    match: MatchState,
    ids: readonly { id: string; label: string }[],
    from: number,
  ): Promise<void> {
    this.removeGhosts();
    if (ids.length === 0) return;
    const sources = ids.map(({ id }) => sourceOf(this.api, id));
    this.ghosts = { match, sources };
    const opened = await Promise.all(sources.map((source) => source.open().catch(() => null)));
    if (this.ghosts?.sources !== sources) return;
    match.ghosts = opened.flatMap((found, i): Ghost[] => {
      if (!found || (found.index.chunks[0]?.[0] ?? 0) > from) return [];
      const { header, index } = found;
      return [{ label: ids[i].label, header, index, store: new ChunkStore((number) => sources[i].chunk(number)) }];
    });
  }

  private removeGhosts(): void {
    for (const source of this.ghosts?.sources ?? []) source.close();
    if (this.ghosts) this.ghosts.match.ghosts = undefined;
    this.ghosts = null;
  }
}
