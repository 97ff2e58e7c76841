// A play session in the page: the counterpart of echelon/play/session.py for one human. A message that does not fit is
// answered by an error; the session goes on.

import { payload, scanFile } from "../data/container";
import { decodeChunk, decodeHeader } from "../data/decode";
import { addFigures, noFigures } from "../data/figures";
import type { WorkerLink } from "../workers/link";
import { type Header, PLAY_VERSION } from "../protocol.gen";
import type * as protocol from "../protocol.gen";
import { STILL } from "./cast";
import { type Game, type PlayedMatch, type RecordedFile, beginMatch, packWorld, seatHeader, takeOver } from "./match";
import type { RecordDescription } from "./match_state";
import { RecordedMatch } from "./replayed";
import type { Simulator } from "./simulator";
import { type BranchCalls, type Continuation, effectOf, summarise } from "./what_if";

const RUN = "page"; // under which matches of the page are listed
const POLL_MS = 50; // time between checks while no match is played
const BEHIND_MS = 250; // delay above which ticks are not caught up with
const PICTURE_MS = 10_000; // longest time that a match waits for the first picture of its pilot
const DRAWING = "waiting for the first picture";
const FIRST_LEVEL = "trivial"; // opponent after the tutorial
const BUSY = "the session is busy, expected it to finish first; try again in a moment";

type Phase = protocol.PlaySessionState["phase"];

/** What a session needs of its surroundings. */
export interface Surroundings {
  now(): number; // [ms]
  send(message: protocol.PlayMessage): void;
  /** Give a recording to the page. */
  keep(source: protocol.PlaySource, data: Uint8Array): void;
  /** Return the map file of a seed; throws for one that the page lacks. */
  map(seed: number): Promise<Uint8Array>;
  readonly maps: number;
  readonly branches: number; // workers that play continuations
  branch(): WorkerLink<BranchCalls>;
}

/** A message that cannot be followed now. */
class Refused extends Error {
  constructor(text: string, readonly code: protocol.PlayProblem["code"] = "busy") { super(text); } // prettier-ignore
}

export class Session {
  private match: PlayedMatch | null = null;
  private action = new Int8Array();
  private seq = -1; // number of the newest input, and of the one that the last tick read
  private readSeq = -1;
  private paused = false;
  private speed = 1;
  private due = 0; // time of the next tick
  private seatedAt = 0;
  private phase: Phase = "idle";
  private note = "";
  private wantsFrame = true;
  private tutorial = false;
  private opponent = "";
  private last: RecordedFile | null = null; // recording of the match that ended last
  private asked: { id: number; links: WorkerLink<BranchCalls>[] } | null = null;

  constructor(
    private readonly game: Game,
    private readonly around: Surroundings,
  ) {}

  /** Follow a message; `data` is the recording that it names. */
  async receive(message: protocol.PlayRequest, data: Uint8Array | null = null): Promise<void> {
    const { t } = message;
    try {
      if (t === "hello") this.hello(message.version);
      else if (t === "take") this.take();
      else if (t === "leave") this.leave();
      else if (t === "input") this.input(message.seq, message.action);
      else if (t === "watch") this.played((match) => match.watch(message.step ?? 1));
      else if (t === "orders") this.played((match) => match.order(message.order, message.mechs, message.target));
      else if (t === "pace") this.sendState({ paused: message.paused ?? false, speed: message.speed ?? 1 });
      else if (t === "start") await this.start(message, data);
      else if (t === "what_if") await this.continue(message, data);
      else if (t === "cancel") this.cancel(message.id);
    } catch (error) {
      const code = error instanceof Refused ? error.code : "match";
      const text = error instanceof Error ? error.message : String(error);
      this.around.send({ t: "error", code, text, re: t, id: "id" in message ? message.id : -1 });
    }
  }

  /** Play the next tick if it is due; return the time until the next call [ms]. */
  advance(): number {
    const { match, around } = this;
    const now = around.now();
    if (this.note === DRAWING && (this.seq >= 0 || now - this.seatedAt > PICTURE_MS)) {
      this.sendState({ note: "" });
    }
    if (!match || this.paused || this.phase !== "playing" || this.note !== "") return POLL_MS;
    if (now < this.due) return this.due - now;
    const step = (match.arrays.tables.dt * 1000) / this.speed;
    this.due = now - this.due < BEHIND_MS ? this.due + step : now + step;
    this.readSeq = this.seq;
    match.tick(this.action);
    this.sendFrame(match.over); // the last one has the final score
    if (match.over) {
      this.close();
      this.sendState({ phase: "ended" });
    }
    return Math.max(0, this.due - around.now());
  }

  /** The page has shown the last frame, and wants the next one. */
  next(): void {
    this.wantsFrame = true;
    this.sendFrame();
  }

  private sendFrame(evenIfSent = false): void {
    const { match } = this;
    if (!match || !(this.wantsFrame || evenIfSent)) return;
    if (!match.perception.hasNext && !evenIfSent) return;
    this.wantsFrame = false;
    this.around.send(match.frame(this.readSeq));
  }

  private sendState(change: { paused?: boolean; speed?: number; phase?: Phase; note?: string } = {}): void {
    Object.assign(this, change);
    const name = this.match && this.match.header.roster[this.match.seat].name;
    this.around.send({
      ...{ t: "state", phase: this.phase, paused: this.paused, speed: this.speed, clients: 1, note: this.note },
      seats: name === null ? [] : [{ mech: name, name: "human", state: "taken" }],
      tick: this.match?.now ?? 0,
    });
  }

  private hello(version: number): void {
    if (version !== PLAY_VERSION)
      throw new Refused(`version is ${version}, expected ${PLAY_VERSION}; reload the page`, "version");
    const { simulator, pilots, policies: flown } = this.game;
    const [levels, policies] = [[STILL, ...pilots.levels], [...flown.keys()]];
    const offer = { sim_version: simulator.description.sim_version, levels, policies, parameters: [] };
    this.around.send({ t: "welcome", version, session: RUN, seats: 1, ...offer });
    this.sendState();
  }

  private take(): void {
    const { match } = this;
    if (!match) throw new Refused("no match is played: start one", "seat");
    const { seat: mech, now: tick } = match;
    const world = packWorld(match.perception.knownMaterial, match.header.world.size);
    const { actions } = match.simulator.description;
    this.action = new Int8Array(actions.length);
    this.seq = this.readSeq = -1;
    const begun = { header: seatHeader(match.header, mech), world, mech, command: false, key: RUN, tick, actions };
    this.around.send({ t: "begin", ...begun, tutorial: this.tutorial, opponent: this.opponent });
    this.seatedAt = this.around.now();
    this.sendState({ note: DRAWING });
    this.sendFrame(true);
  }

  /** End the match, which nobody flies any more. */
  private leave(): void {
    if (this.match) this.keep(this.match);
    this.match = null;
    this.sendState({ phase: "idle", note: "" });
  }

  private input(seq: number, action: Uint8Array): void {
    if (!this.match) throw new Refused("you have no seat", "seat");
    if (action.length !== this.action.length)
      throw new Error(`action has ${action.length} entries, expected ${this.action.length}`);
    this.action.set(new Int8Array(action.buffer, action.byteOffset, action.length));
    this.seq = seq;
  }

  /** Change what the pilot sees or orders, and send a frame of it. */
  private played(change: (match: PlayedMatch) => void): void {
    if (!this.match) throw new Refused("you have no seat", "seat");
    change(this.match);
    this.sendFrame(true);
  }

  /** Keep the recording of a match; return its name. */
  private keep(match: PlayedMatch): protocol.PlaySource {
    this.last = { file: fileName(match.header), data: match.finish() };
    const source = { run: RUN, file: this.last.file };
    this.around.keep(source, this.last.data);
    return source;
  }

  private close(): void {
    const { match } = this;
    if (!match) return;
    const source = this.keep(match);
    const { winner, reason, now: tick, seat } = match;
    const figures = winner === "" || !this.last ? {} : figuresOf(this.last.data, seat);
    this.match = null;
    this.around.send({ t: "ended", winner, reason, tick, source, figures });
  }

  private async start(message: protocol.PlayStart, data: Uint8Array | null): Promise<void> {
    if (this.phase === "loading" || this.asked) throw new Refused(BUSY);
    const { game, around } = this;
    const { opponent = "", source = {} } = message;
    for (const name of [...Object.values(message.pilots ?? {}), opponent, message.mates ?? ""])
      if (name !== "") game.pilots.named(name);
    this.close(); // one simulator plays one match
    this.sendState({ phase: "loading", note: opponent ? "loading the match" : "reconstructing the moment" });
    try {
      if (opponent !== "") {
        const seed = message.seed ?? Math.floor(Math.random() * 2 ** 31);
        const mapSeed = seed % around.maps;
        const [hostiles, mates] = [opponent, message.mates || opponent].map((name) => game.pilots.named(name));
        const map = await around.map(mapSeed);
        this.match = beginMatch(game, { map, mapSeed, seed, hostiles, mates, about: { run: RUN } });
      } else {
        const recorded = source.file ? data && { file: source.file, data } : this.last;
        if (!recorded) throw new Error(`match "${source.file ?? ""}" does not exist`);
        const map = await around.map(mapSeedOf(recorded, this.game.simulator));
        this.match = takeOver(game, recorded, map, message, { run: RUN });
      }
    } catch (error) {
      this.sendState({ phase: "idle", note: "" });
      throw error;
    }
    this.tutorial = opponent === STILL || (this.tutorial && opponent === "");
    if (opponent !== "") this.opponent = this.tutorial ? FIRST_LEVEL : opponent;
    else if (source.file || message.pilots) this.opponent = "";
    [this.phase, this.paused, this.speed, this.due] = ["playing", false, 1, 0];
    this.take();
  }

  private async continue(message: protocol.PlayWhatIf, data: Uint8Array | null): Promise<void> {
    if (this.phase === "loading" || this.asked) throw new Refused(BUSY);
    if (this.match && !this.paused) throw new Refused("a match is played, expected it paused or ended");
    const { around } = this;
    const { id, source, tick, runs = 64, pilots = {}, seed = 0, without = "", window_s = 1 } = message;
    if (Object.keys(message.changes ?? {}).length > 0) throw new Error("changes are not offered in a page");
    const recorded = source.file ? data && { file: source.file, data } : this.match ? null : this.last;
    if (!recorded) throw new Refused("the match is not recorded to its end, expected a recorded one", "match");
    const total = runs * (without === "" ? 1 : 2);
    const links = Array.from({ length: Math.min(around.branches, runs) }, () => around.branch());
    this.asked = { id, links };
    const play = async (numbers: Iterable<number>, text: string, done: number, still = true, records = false) => {
      const left = [...numbers];
      const found: Continuation[] = [];
      const work = async (link: WorkerLink<BranchCalls>) => {
        for (let number = left.shift(); number !== undefined; number = left.shift()) {
          found.push(await link.request("play", { number, still, records }));
          around.send({ t: "progress", id, done: Math.min(total, done + found.length), total, text });
        }
      };
      await Promise.all(links.map(work));
      return found.sort((a, b) => a.number - b.number);
    };
    try {
      around.send({ t: "progress", id, done: 0, total, text: "reconstructing the moment" });
      const map = await around.map(mapSeedOf(recorded, this.game.simulator));
      const plan = { tick, seed, pilots, without, window_s };
      const [{ side, ...moment }] = await Promise.all(
        links.map((link) => link.request("open", { recorded, plan, map })),
      );
      const rows = await play(Array(runs).keys(), "continuations", 0);
      const others =
        without === "" ? null : await play(Array(runs).keys(), "continuations with the actions", runs, false);
      const { typical, ...summary } = summarise(rows);
      const files: Record<number, protocol.PlaySource> = {};
      for (const { number, recording } of await play(new Set(Object.values(typical)), "recording", total, true, true)) {
        files[number] = { run: RUN, file: recording!.file };
        around.keep(files[number], recording!.data);
      }
      const replays = Object.fromEntries(Object.entries(typical).map(([name, number]) => [name, files[number]]));
      const effect = others && effectOf(others, rows, side);
      around.send({ t: "what_if", id, runs, ...moment, ...summary, replays, effect });
    } catch (error) {
      throw this.asked ? error : new Error("the request was cancelled");
    } finally {
      for (const link of links) link.close();
      this.asked = null;
    }
  }

  private cancel(id: number): void {
    if (this.asked?.id !== id) throw new Refused("no such request is being played", "match");
    const { links } = this.asked;
    this.asked = null;
    for (const link of links) link.close();
  }
}

/** Return the name of a recording, such as "easy-and-human-against-trivial-20261201-142305.ecr". */
function fileName({ teams, created }: Header): string {
  const [sides, time] = [teams.map(({ name }) => name.replace(/\W+/g, "-")), new Date(1000 * created).toISOString()];
  return `${sides.join("-against-")}-${time.slice(0, 19).replace(/[-:]/g, "").replace("T", "-")}.ecr`;
}

/** Return the seed of a match's map; throws for one that the game cannot play. */
export function mapSeedOf({ file, data }: RecordedFile, { description }: Simulator): number {
  return new RecordedMatch(file, data, description as RecordDescription).header.map_seed;
}

/** Return the figures of a mech in a recording. */
function figuresOf(data: Uint8Array, mech: number): Record<string, number> {
  const { header: head, chunks } = scanFile(data);
  const header = decodeHeader(payload(data, head));
  const found = noFigures(header.mechs);
  for (const chunk of chunks) addFigures(found, header, decodeChunk(header, chunk, payload(data, chunk)));
  return Object.fromEntries(Object.entries(found).map(([name, values]) => [name, values[mech]]));
}
