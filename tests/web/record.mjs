// Records a match as job.json tells and writes it to match.ecr.
import { readFileSync, writeFileSync } from "node:fs";

import { Recording } from "../../viewer/src/game/recording";
import { Simulator } from "../../viewer/src/game/simulator";

const folder = process.argv[2];
const job = JSON.parse(readFileSync(`${folder}/job.json`));
const simulator = await Simulator.load(readFileSync(`${folder}/game.wasm`), job.description);
simulator.start({ map: readFileSync(`${folder}/map.bin`), ...job.begin });
const recording = new Recording(simulator, job.about);
for (const inputs of job.inputs) {
  simulator.run("decision");
  if (inputs) recording.addInputs(job.seats, inputs.map((input) => Int8Array.from(input)));
  recording.afterStep();
}
writeFileSync(`${folder}/match.ecr`, recording.finish());
