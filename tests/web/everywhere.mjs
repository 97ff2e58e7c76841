// Plays battles as job.json tells, in Node and in browsers; returns the state hashes.
import { Simulator } from "../../viewer/src/game/simulator";

/** `read` returns the bytes of a file. */
export async function play(read) {
  const job = JSON.parse(new TextDecoder().decode(await read("job.json")));
  const [module, inputs] = await Promise.all([read("game.wasm"), read("inputs.bin")]);
  const simulator = await Simulator.load(module, job.description);
  const { buffer } = simulator.array("tick");
  const bytes = (name) => {
    const { byteOffset, byteLength } = simulator.array(name);
    return new Uint8Array(buffer, byteOffset, byteLength);
  };
  let at = 0;
  const take = (names) => {
    const length = names.reduce((sum, name) => sum + bytes(name).length, 0);
    return inputs.subarray(at, (at += length));
  };
  const parts = ({ name, rare, live }) => {
    const values = bytes(name);
    if (rare && values.every((value) => value === 0)) return [];
    const marks = live ? simulator.array(live.name) : [0];
    const row = values.length / marks.length;
    const kept = [...marks.keys()].filter((i) => !live || marks[i] >= live.least);
    return [new TextEncoder().encode(name), ...kept.map((i) => values.subarray(i * row, (i + 1) * row))];
  };
  const hashes = [];
  let map;
  for (let seed = 0; seed < job.maps * job.battles; seed++) {
    if (seed % job.battles === 0) map = take(job.description.map);
    simulator.start({ map, seed, scripts: job.scripts });
    for (let i = 1; i <= job.decisions; i++) {
      if (job.flown) bytes("actions").set(take(["actions"]));
      simulator.run("decision");
      if (i % job.hashed_every && i < job.decisions) continue;
      const state = await new Blob(job.hashed.flatMap(parts)).arrayBuffer();
      const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", state));
      hashes.push([...digest].map((byte) => byte.toString(16).padStart(2, "0")).join(""));
    }
  }
  return hashes;
}

if (globalThis.process) {
  const { readFile } = await import("node:fs/promises");
  console.log(JSON.stringify(await play(async (name) => new Uint8Array(await readFile(`${process.argv[2]}/${name}`)))));
} else window.play = () => play(async (name) => new Uint8Array(await (await fetch(`/${name}`)).arrayBuffer()));
