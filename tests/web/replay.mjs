// Verifies recorded matches as job.json tells and prints the results; plays one on from a moment and writes branch.ecr.
import { readFileSync, writeFileSync } from "node:fs";

import { Recording } from "../../viewer/src/game/recording";
import { RecordedMatch, ReplayedMatch } from "../../viewer/src/game/replayed";
import { Simulator } from "../../viewer/src/game/simulator";
import { verifyMatch } from "../../viewer/src/game/verify";

const folder = process.argv[2];
const { description, files, branch } = JSON.parse(readFileSync(`${folder}/job.json`));
const simulator = await Simulator.load(readFileSync(`${folder}/game.wasm`), description);
const map = readFileSync(`${folder}/map.bin`);
const results = files.map((file) => {
  try {
    return verifyMatch(simulator, file, readFileSync(`${folder}/${file}`), map);
  } catch (error) {
    return error.message;
  }
});
const recorded = new RecordedMatch(files[0], readFileSync(`${folder}/${files[0]}`), description);
const match = new ReplayedMatch(simulator, recorded, map);
match.goTo(branch.tick, false, 0, () => {});
const { teams, map_seed } = recorded.header;
const recording = new Recording(simulator, { teams, map_seed, about: { parent: recorded.parent(branch.tick, {}) } });
for (let step = 0; step < branch.steps; step++) {
  simulator.run("decision");
  recording.afterStep();
}
writeFileSync(`${folder}/branch.ecr`, recording.finish());
console.log(JSON.stringify(results));
