// Runs programs of a game as job.json tells, in Node and in browsers; returns the state hash after each.
import { Simulator } from "../../viewer/src/game/simulator";

/** `read` returns the bytes of a file. */
export async function play(read) {
  const { description, first, programs, each, hashed } = JSON.parse(new TextDecoder().decode(await read("job.json")));
  const [module, inputs] = await Promise.all([read("game.wasm"), read("inputs.bin")]);
  const simulator = await Simulator.load(module, description);
  const { buffer } = simulator.array("tick");
  const bytes = (name) => {
    const { byteOffset, byteLength } = simulator.array(name);
    return new Uint8Array(buffer, byteOffset, byteLength);
  };
  let at = 0;
  const set = (names) => {
    for (const name of names) bytes(name).set(inputs.subarray(at, (at += bytes(name).length)));
  };
  const parts = ({ name, rare, live }) => {
    const values = bytes(name);
    if (rare && values.every((value) => value === 0)) return [];
    const marks = live ? simulator.array(live.name) : [0];
    const row = values.length / marks.length;
    const kept = [...marks.keys()].filter((i) => !live || marks[i] >= live.least);
    return [new TextEncoder().encode(name), ...kept.map((i) => values.subarray(i * row, (i + 1) * row))];
  };
  set(first);
  const hashes = [];
  for (const name of programs) {
    if (hashes.length) set(each);
    simulator.run(name);
    const state = await new Blob(hashed.flatMap(parts)).arrayBuffer();
    const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", state));
    hashes.push([...digest].map((byte) => byte.toString(16).padStart(2, "0")).join(""));
  }
  return hashes;
}

if (globalThis.process) {
  const { readFile } = await import("node:fs/promises");
  console.log(JSON.stringify(await play(async (name) => new Uint8Array(await readFile(`${process.argv[2]}/${name}`)))));
} else window.play = () => play(async (name) => new Uint8Array(await (await fetch(`/${name}`)).arrayBuffer()));
