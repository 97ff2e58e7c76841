// Replays the arrays that a native match had to the controls and the perception of a seat, and writes what they do.
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { Seats } from "../../viewer/src/game/controls";
import { Perception } from "../../viewer/src/game/perception";
import { sensedArrays } from "../../viewer/src/game/sensed_arrays";

const folder = process.argv[2];
const { description, steps, steered, changes } = JSON.parse(readFileSync(`${folder}/job.json`));
const inputs = readFileSync(`${folder}/inputs.bin`);
const TYPES = { float32: Float32Array, int32: Int32Array, uint8: Uint8Array, uint64: Uint8Array, uint32: Uint32Array };
const views = {};
for (const [name, { dtype, bytes }] of Object.entries(description.arrays))
  views[name] = new TYPES[dtype](new ArrayBuffer(bytes));

let at = 0;
function read() {
  for (const name of changes.shift()) {
    const { buffer } = views[name];
    new Uint8Array(buffer).set(inputs.subarray(at, (at += buffer.byteLength)));
  }
}

read();
let marks; // what the pilot knew when it asked for its triggers
const arrays = sensedArrays({ description, array: (name) => views[name], run: () => (marks = [...views.known]) });
const [{ seat }] = steps;
const seats = new Seats(arrays, [seat]);
let perception = new Perception(arrays, seat);
const frames = steps.map(({ ends, watch, inputs }) => {
  read();
  seats.tick(Int8Array.from(inputs));
  const digest = createHash("sha256");
  for (const name of steered) digest.update(new Uint8Array(views[name].buffer));
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
  return { ...Object.fromEntries(text), marks, steered: digest.digest("hex") };
});
console.log(JSON.stringify(frames));
