// Runs programs of a WebAssembly module as job.json tells and prints digests of its arrays after some.
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";

import { Simulator } from "../../viewer/src/game/simulator";

const folder = process.argv[2];
const job = JSON.parse(readFileSync(`${folder}/job.json`));
const inputs = readFileSync(`${folder}/inputs.bin`);
const simulator = await Simulator.load(readFileSync(`${folder}/game.wasm`), job.description);
const { buffer } = simulator.array("tick");

function bytes(name) {
  const { byteOffset, byteLength } = simulator.array(name);
  return new Uint8Array(buffer, byteOffset, byteLength);
}

/** Return the digest of arrays: all of their bytes, or the entries that are live; `rare` ones only while not 0. */
function digest(rows) {
  const sum = createHash("sha256");
  for (const { name, live, rare } of rows) {
    let values = bytes(name);
    if (rare && values.every((value) => value === 0)) continue;
    if (live) {
      const marks = simulator.array(live.name);
      const row = values.length / marks.length;
      const kept = [...marks.keys()].filter((i) => marks[i] >= live.least);
      values = Buffer.concat(kept.map((i) => values.subarray(i * row, (i + 1) * row)));
    }
    sum.update(name).update(values);
  }
  return sum.digest("hex");
}

let at = 0;
function read(names) {
  for (const name of names) {
    const values = bytes(name);
    values.set(inputs.subarray(at, (at += values.length)));
  }
}

function run(program) {
  if (program !== "start") return simulator.run(program);
  simulator.start({ map: readFileSync(`${folder}/map.bin`), ...job.begin });
}

read(job.first);
const digests = [];
let seconds = 0;
for (const [i, name] of job.programs.entries()) {
  if (i > 0) read(job.each);
  const began = performance.now();
  run(name);
  if (i > 0) seconds += (performance.now() - began) / 1e3;
  if (job.after.includes(i)) digests.push(job.digests.map(digest));
}
console.log(JSON.stringify({ digests, seconds }));
