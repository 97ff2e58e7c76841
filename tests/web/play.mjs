// Runs programs of a WebAssembly module as job.json tells and prints digests of its arrays after each.
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";

const folder = process.argv[2];
const job = JSON.parse(readFileSync(`${folder}/job.json`));
const inputs = readFileSync(`${folder}/inputs.bin`);
const { instance } = await WebAssembly.instantiate(readFileSync(`${folder}/game.wasm`), {});
const exports = instance.exports;
const bytes = (name, size) => new Uint8Array(exports.memory.buffer, exports[`array_${name}`].value, size);

/** Return the digest of arrays: all of their bytes, or the entries that are live; `rare` ones only while not 0. */
function digest(rows) {
  const sum = createHash("sha256");
  for (const { name, size, live, rare } of rows) {
    let values = bytes(name, size);
    if (rare && values.every((value) => value === 0)) continue;
    if (live) {
      const marks = new Int32Array(exports.memory.buffer, exports[`array_${live.name}`].value, live.count);
      const row = size / live.count;
      const kept = [...marks.keys()].filter((i) => marks[i] >= live.least);
      values = Buffer.concat(kept.map((i) => values.subarray(i * row, (i + 1) * row)));
    }
    sum.update(name).update(values);
  }
  return sum.digest("hex");
}

let at = 0;
function read(rows) {
  for (const { name, size } of rows) bytes(name, size).set(inputs.subarray(at, (at += size)));
}

read(job.first);
const digests = [];
let seconds = 0;
for (const name of job.programs) {
  if (digests.length) read(job.each);
  const began = performance.now();
  exports[`run_${name}`]();
  if (digests.length) seconds += (performance.now() - began) / 1e3;
  digests.push(job.digests.map(digest));
}
console.log(JSON.stringify({ digests, seconds }));
