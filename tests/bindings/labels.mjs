// Says what a model answers to numbers of classes: node labels.mjs MCB.JS MCB.WASM MODEL.mcb NUMBER...
// The first line is how many pages of memory mcb.wasm begins with.
import { readFileSync } from "node:fs";

const [script, ...paths] = process.argv.slice(2, 5);
const { Model } = await import(script);
const [wasm, bytes] = paths.map((path) => readFileSync(path));
console.log((await WebAssembly.instantiate(wasm)).instance.exports.memory.buffer.byteLength / 65536);
const model = await Model.open(wasm, bytes);
for (const word of process.argv.slice(5)) {
  try {
    console.log(String(model.label(Number(word))));
  } catch (problem) {
    console.log(problem.message);
  }
}
