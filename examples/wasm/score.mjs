// Score rows in node: node score.mjs mcb.wasm MODEL.mcb ROWS
//
// ROWS holds float32 numbers, nFeatures for each row. Prints the lines of lines.js.
import { readFileSync } from "node:fs";
import { lines } from "./lines.js";
import { Model } from "./mcb.js";

try {
  const paths = process.argv.slice(2);
  if (paths.length !== 3) throw new Error("usage: node score.mjs mcb.wasm MODEL.mcb ROWS");
  const [wasm, bytes, rows] = paths.map((path) => readFileSync(path));
  const model = await Model.open(wasm, bytes);
  const numbers = new Float32Array(rows.buffer.slice(rows.byteOffset, rows.byteOffset + rows.length));
  for (const line of lines(model, numbers)) console.log(line);
} catch (problem) {
  console.error(problem.message);
  process.exitCode = 1;
}
