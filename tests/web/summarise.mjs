// Summarises continuations of job.json, and returns seeds of others.
import { readFileSync } from "node:fs";
import { effectOf, seedOf, summarise } from "../../viewer/src/game/what_if";

const { rows, others, seeds } = JSON.parse(readFileSync(`${process.argv[2]}/job.json`));
const found = { ...summarise(rows), effect: effectOf(rows, others, 1), seeds: seeds.map((keys) => seedOf(...keys)) };
console.log(JSON.stringify(found));
