// Text of scored rows, for programs that compare bits.

const bits = (numbers) => Array.from(new BigUint64Array(numbers.buffer), (n) => n.toString(16).padStart(16, "0"));

// A line for each row of a Float32Array or Float64Array: the label, the bits of the scores, and those of the
// probabilities where the model has them.
export function lines(model, numbers) {
  const out = [];
  for (let i = 0; i < numbers.length; i += model.nFeatures) {
    const row = numbers.subarray(i, i + model.nFeatures);
    const { k, scores } = model.predict(row);
    out.push([model.label(k), ...bits(scores), ...bits(model.probabilities(row) ?? new Float64Array(0))].join(" "));
  }
  return out;
}
