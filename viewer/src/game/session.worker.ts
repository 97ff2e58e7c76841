// Worker of a play session, and of the continuations that it asks for: a worker of another name plays those.

import type { GamePage } from "../data/game_page";
import { requestUnpacked } from "../data/request";
import type { PlayMessage, PlayRequest, PlaySource } from "../protocol.gen";
import { WorkerLink, serve } from "../workers/link";
import { Pilots } from "./cast";
import { type Game, type RecordedFile, playWatched } from "./match";
import { Policy, type PolicyDescription } from "./policy";
import type { PlayDescription } from "./sensed_arrays";
import { Session, mapSeedOf } from "./session";
import { Simulator } from "./simulator";
import { EQUAL, verifyMatch } from "./verify";
import { type BranchCalls, Brancher } from "./what_if";

/** Messages to the worker of a session: the files to play with first, then requests, `next` for a frame. */
export type ToSession =
  { open: GamePage; game: string } | { request: PlayRequest; data: Uint8Array | null } | "next" | Asked;
/** A match of the page's policy to play in a worker named `watch`, or one to verify there. */
type Asked = { opponent: string; seed: number } | RecordedFile;
/** Messages of it: those of the session, recordings, and why it cannot play. */
export type FromSession =
  { message: PlayMessage } | { source: PlaySource; data: Uint8Array } | { failed: string } | { opened: true };
/** Messages of a worker named `watch`: the recording of its match so far, a verdict, or why there is none. */
export type FromWatch =
  { watched: Uint8Array; over: boolean } | { verdict: string; isEqual: boolean } | { failed: string };

const scope = self as unknown as {
  name: string;
  onmessage: ((event: MessageEvent<ToSession>) => void) | null;
  postMessage(message: FromSession | FromWatch): void;
};

const BRANCH = "branch"; // name of a worker that plays continuations
const WATCH = "watch"; // and of one that plays matches without a human

async function json<Value>(url: string): Promise<Value> {
  return JSON.parse(new TextDecoder().decode(await requestUnpacked(url))) as Value;
}

async function makeGame({ games, policy }: GamePage, name: string): Promise<Game> {
  const { module, description } = games[name];
  const [bytes, described] = await Promise.all([requestUnpacked(module), json<PlayDescription>(description)]);
  const parts = [
    requestUnpacked(policy.module),
    json<PolicyDescription>(policy.description),
    requestUnpacked(policy.weights),
  ] as const;
  const [code, about, weights] = await Promise.all(parts);
  const simulator = await Simulator.load(bytes, described); // first, since it names what a browser lacks
  const flown = await Policy.load(code, about, weights.buffer);
  const pilots = new Pilots(described.play.levels, { [policy.name]: policy.checkpoint });
  return { simulator, pilots, policies: new Map([[policy.name, flown]]) };
}

function branchLink(open: GamePage, game: string): WorkerLink<BranchCalls> {
  const worker = new Worker(location.href, { type: "module", name: BRANCH });
  worker.postMessage({ open, game } satisfies ToSession);
  return new WorkerLink<BranchCalls>(worker);
}

function playSession(game: Game, page: GamePage, name: string): void {
  const session = new Session(game, {
    now: () => performance.now(),
    send: (message) => scope.postMessage({ message }),
    keep: (source, data) => scope.postMessage({ source, data }),
    map: (seed) => mapOf(page, name, seed),
    maps: page.games[name].maps.length,
    branches: Math.max(1, navigator.hardwareConcurrency - 1),
    branch: () => branchLink(page, name),
  });
  scope.onmessage = ({ data }) => {
    if (data === "next") session.next();
    else if ("request" in data) void session.receive(data.request, data.data);
  };
  const play = () => void setTimeout(play, session.advance());
  play();
  scope.postMessage({ opened: true });
}

/** Return the map file of a seed; throws for one that the page lacks. */
async function mapOf(page: GamePage, name: string, seed: number): Promise<Uint8Array> {
  const { maps } = page.games[name];
  if (maps[seed]) return requestUnpacked(maps[seed]);
  throw new Error(`map ${seed} is not in this page, expected 0 to ${maps.length - 1}`);
}

async function answer(game: Game, page: GamePage, name: string, asked: Asked): Promise<void> {
  if ("file" in asked) {
    const { file, data } = asked;
    const map = await mapOf(page, name, mapSeedOf(asked, game.simulator));
    const verdict = verifyMatch(game.simulator, file, data, map);
    return scope.postMessage({ verdict, isEqual: verdict.startsWith(EQUAL) });
  }
  const { opponent, seed } = asked;
  const mapSeed = seed % page.games[name].maps.length;
  const [mates, hostiles] = [page.policy.name, opponent].map((pilot) => game.pilots.named(pilot));
  const map = await mapOf(page, name, mapSeed);
  const match = { map, mapSeed, seed, mates, hostiles, about: { run: "watched" } };
  playWatched(game, match, (watched, over) => scope.postMessage({ watched, over }));
}

scope.onmessage = ({ data }) => {
  if (data === "next" || !("open" in data)) return;
  const game = makeGame(data.open, data.game);
  let brancher: Brancher;
  const failed = (error: Error) => scope.postMessage({ failed: error.message });
  if (scope.name === WATCH) {
    const { open, game: name } = data;
    scope.onmessage = ({ data: next }) => {
      if (next !== "next" && ("opponent" in next || "file" in next))
        game.then((made) => answer(made, open, name, next)).catch(failed);
    };
  } else if (scope.name !== BRANCH) {
    game.then((made) => playSession(made, data.open, data.game)).catch(failed);
  } else
    serve<BranchCalls>({
      open: async (begin) => [(brancher = new Brancher(await game, begin)).opened],
      play: (one) => [brancher.play(one)],
    });
};
