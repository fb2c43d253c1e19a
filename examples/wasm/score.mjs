// Score rows in node: node score.mjs mcb.wasm MODEL.mcb ROWS
//
// ROWS holds float32 numbers, nFeatures for each row. Prints for each row the label, the bits of the scores, and those
// of the probabilities where the model has them.
import { readFileSync } from "node:fs";
import { Model } from "./mcb.js";

const bits = (numbers) => Array.from(new BigUint64Array(numbers.buffer), (n) => n.toString(16).padStart(16, "0"));
const [wasm, bytes, rows] = process.argv.slice(2).map((path) => readFileSync(path));
try {
  const model = await Model.open(wasm, bytes);
  const numbers = new Float32Array(rows.buffer.slice(rows.byteOffset, rows.byteOffset + rows.length));
  for (let i = 0; i < numbers.length; i += model.nFeatures) {
    const row = numbers.subarray(i, i + model.nFeatures);
    const { k, scores } = model.predict(row);
    console.log([model.label(k), ...bits(scores), ...bits(model.probabilities(row) ?? new Float64Array(0))].join(" "));
  }
} catch (problem) {
  console.error(problem.message);
  process.exitCode = 1;
}
