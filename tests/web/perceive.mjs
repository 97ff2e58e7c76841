// Replays the arrays that a native match had to the perception of a seat, and writes its frames.
import { readFileSync } from "node:fs";
import { Perception } from "../../viewer/src/game/perception";
import { sensedArrays } from "../../viewer/src/game/sensed_arrays";

const folder = process.argv[2];
const { description, steps } = JSON.parse(readFileSync(`${folder}/job.json`));
const inputs = readFileSync(`${folder}/inputs.bin`);
const TYPES = { float32: Float32Array, int32: Int32Array, uint8: Uint8Array, uint64: Uint8Array, uint32: Uint32Array };
const views = {};
for (const [name, { dtype, bytes }] of Object.entries(description.arrays))
  views[name] = new TYPES[dtype](new ArrayBuffer(bytes));

let at = 0;
function read() {
  for (const { buffer } of Object.values(views)) {
    new Uint8Array(buffer).set(inputs.subarray(at, (at += buffer.byteLength)));
  }
}

read();
let marks = null; // what the pilot knew when it asked for its triggers
const arrays = sensedArrays({ description, array: (name) => views[name], run: () => (marks = [...views.known]) });
const played = steps.map(({ seat, team, ends, watch }) => ({ seat, team, ends, watch }));
let perception = new Perception(arrays, played[0].seat, undefined, played[0].team);
const frames = played.map(({ seat, team, ends, watch }) => {
  read();
  perception.collectEvents();
  read();
  if (ends) {
    perception.forgetJournal();
    perception.sense();
  }
  if (watch >= 0) perception = new Perception(arrays, watch, perception);
  const frame = perception.frame(7);
  const text = Object.entries(frame).map(([name, value]) => [
    name,
    value instanceof Uint8Array ? Buffer.from(value).toString("base64") : value,
  ]);
  return { ...Object.fromEntries(text), marks };
});
console.log(JSON.stringify(frames));
