// Plays a session as job.json tells, with a clock that a test moves: its messages, and recordings as files.
import { readFileSync, writeFileSync } from "node:fs";

import { Pilots } from "../../viewer/src/game/cast";
import { Session } from "../../viewer/src/game/session";
import { Simulator } from "../../viewer/src/game/simulator";
import { Brancher } from "../../viewer/src/game/what_if";

const folder = process.argv[2];
const job = JSON.parse(readFileSync(`${folder}/job.json`));
const module = readFileSync(`${folder}/game.wasm`);
const map = readFileSync(`${folder}/map.bin`);
const make = async () => ({
  simulator: await Simulator.load(module, job.description),
  pilots: new Pilots(job.description.play.levels, {}),
  policies: new Map(),
});
const sent = [];
const kept = []; // names of recordings, which requests name by their number
let now = 0;

function branch() {
  const game = make();
  let brancher;
  const calls = { open: async (begin) => (brancher = new Brancher(await game, begin)).opened, play: (one) => brancher.play(one) };
  return { request: async (name, args) => calls[name](args), close: () => undefined };
}

const session = new Session(await make(), {
  now: () => now,
  send: (message) => sent.push(message),
  keep: ({ file }, data) => {
    kept.push(file);
    writeFileSync(`${folder}/${file}`, data);
  },
  map: async () => map,
  maps: 1,
  branches: 2,
  branch,
});
for (const { play, ...request } of job.requests) {
  if (play === undefined) {
    if (request.source) request.source.file = kept[request.source.file];
    const action = request.action && Uint8Array.from(request.action);
    const data = request.source?.file ? new Uint8Array(readFileSync(`${folder}/${request.source.file}`)) : null;
    await session.receive({ ...request, ...(action && { action }) }, data);
  }
  for (let i = 0; i < (play ?? 0); i++) {
    now += Math.max(1, session.advance());
    session.next();
  }
}
const text = (value) => (value instanceof Uint8Array ? Buffer.from(value).toString("base64") : value);
console.log(JSON.stringify(sent, (_, value) => (value?.type === "Buffer" ? value.data : text(value))));
