// Worker of a play session, and of the continuations that it asks for: a worker of another name plays those.

import type { GamePage } from "../data/game_page";
import { requestUnpacked } from "../data/request";
import type { PlayMessage, PlayRequest, PlaySource } from "../protocol.gen";
import { WorkerLink, serve } from "../workers/link";
import { Pilots } from "./cast";
import type { Game } from "./match";
import { Policy, type PolicyDescription } from "./policy";
import type { PlayDescription } from "./sensed_arrays";
import { Session } from "./session";
import { Simulator } from "./simulator";
import { type BranchCalls, Brancher } from "./what_if";

/** Messages to the worker of a session: the files to play with first, then requests, `next` for a frame. */
export type ToSession = { open: GamePage; game: string } | { request: PlayRequest; data: Uint8Array | null } | "next";
/** Messages of it: those of the session, recordings, and why it cannot play. */
export type FromSession =
  { message: PlayMessage } | { source: PlaySource; data: Uint8Array } | { failed: string } | { opened: true };

const scope = self as unknown as {
  name: string;
  onmessage: ((event: MessageEvent<ToSession>) => void) | null;
  postMessage(message: FromSession): void;
};

const BRANCH = "branch"; // name of a worker that plays continuations

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
  const flown = await Policy.load(code, about, weights.buffer);
  const pilots = new Pilots(described.play.levels, { [policy.name]: policy.checkpoint });
  return { simulator: await Simulator.load(bytes, described), pilots, policies: new Map([[policy.name, flown]]) };
}

function branchLink(open: GamePage, game: string): WorkerLink<BranchCalls> {
  const worker = new Worker(location.href, { type: "module", name: BRANCH });
  worker.postMessage({ open, game } satisfies ToSession);
  return new WorkerLink<BranchCalls>(worker);
}

function playSession(game: Game, page: GamePage, name: string): void {
  const { maps } = page.games[name];
  const session = new Session(game, {
    now: () => performance.now(),
    send: (message) => scope.postMessage({ message }),
    keep: (source, data) => scope.postMessage({ source, data }),
    map: (seed) => {
      if (maps[seed]) return requestUnpacked(maps[seed]);
      return Promise.reject(new Error(`map ${seed} is not in this page, expected 0 to ${maps.length - 1}`));
    },
    maps: maps.length,
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

scope.onmessage = ({ data }) => {
  if (data === "next" || !("open" in data)) return;
  const game = makeGame(data.open, data.game);
  let brancher: Brancher;
  if (scope.name !== BRANCH) {
    const failed = (error: Error) => scope.postMessage({ failed: error.message });
    game.then((made) => playSession(made, data.open, data.game)).catch(failed);
  } else
    serve<BranchCalls>({
      open: async (begin) => [(brancher = new Brancher(await game, begin)).opened],
      play: (one) => [brancher.play(one)],
    });
};
