// Lets a policy act as job.json tells; writes the actions of all mechs and the recurrent states after each step.
import { readFileSync, writeFileSync } from "node:fs";

import { Policy } from "../../viewer/src/game/policy";

const folder = process.argv[2];
const { description, width, mechs, seeds } = JSON.parse(readFileSync(`${folder}/job.json`));
const read = (name) => new Uint8Array(readFileSync(`${folder}/${name}`)).buffer;
const observations = new Float32Array(read("observations.bin"));
const policy = await Policy.load(read("policy.wasm"), description, read("weights.bin"));
const size = observations.length / mechs.length;
const actions = new Float32Array((size / width) * description.widths.action);
const found = [];
for (const [i, acting] of mechs.entries()) {
  if (i === 0 || seeds.length) policy.start(seeds[i]);
  if (i === mechs.length >> 1) {
    const states = policy.states();
    policy.restore(states.map(() => NaN));
    policy.restore(states);
  }
  policy.act(acting, observations.subarray(i * size, (i + 1) * size), actions);
  found.push(actions.slice(), policy.states());
}
writeFileSync(`${folder}/found.bin`, Buffer.concat(found.map(({ buffer }) => Buffer.from(buffer))));
