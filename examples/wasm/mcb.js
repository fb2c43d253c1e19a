// Models of pymcboost in JavaScript, scored by mcb.wasm to the bits of Python.
//
//     const model = await Model.open(wasmBytes, modelBytes);      // throws where the file is refused
//     const { k, scores } = model.predict(row);                   // row: model.nFeatures numbers
//     console.log(model.label(k));

export class Model {
  // Of the bytes of mcb.wasm and of a model file: ArrayBuffers or Uint8Arrays. Each model has its own memory.
  static async open(wasm, bytes) {
    const { instance } = await WebAssembly.instantiate(wasm);
    return new Model(instance.exports, new Uint8Array(bytes));
  }

  constructor(c, bytes) {
    this.c = c;
    const place = this.#took(c.mcb_room(bytes.length));
    new Uint8Array(c.memory.buffer, place, bytes.length).set(bytes);
    const status = c.mcb_open(place, bytes.length);
    if (status) throw new Error(this.#text(c.mcb_strerror(status)));
    this.nFeatures = c.mcb_n_features();
    this.nClasses = c.mcb_n_classes();
    this.row = this.#took(c.mcb_take(4 * this.nFeatures));
    this.scores = this.#took(c.mcb_take(8 * this.nClasses));
    this.length = this.#took(c.mcb_take(4));
  }

  // Class of a row, counted from 0, and its scores.
  predict(row) {
    if (row.length !== this.nFeatures) throw new RangeError(`a row has ${this.nFeatures} numbers, not ${row.length}`);
    new Float32Array(this.c.memory.buffer, this.row, this.nFeatures).set(row);
    const k = this.c.mcb_predict(this.row, this.scores);
    return { k, scores: this.#scores().slice() };
  }

  // Probabilities of a row, or null where the model has none.
  probabilities(row) {
    this.predict(row);
    return this.c.mcb_probabilities(this.scores) ? null : this.#scores().slice();
  }

  // Label of a class: a text, or a BigInt.
  label(k) {
    if (!(Number.isInteger(k) && k >= 0 && k < this.nClasses)) {
      throw new RangeError(`a class is an integer from 0 to ${this.nClasses - 1}, not ${k}`);
    }
    const place = this.c.mcb_label_text(k, this.length);
    if (!place) return this.c.mcb_label_int(k);
    return this.#text(place, new Uint32Array(this.c.memory.buffer, this.length, 1)[0]);
  }

  #scores() {
    return new Float64Array(this.c.memory.buffer, this.scores, this.nClasses);
  }

  #took(place) {
    if (!place) throw new RangeError("WebAssembly has no memory left for this model");
    return place;
  }

  #text(place, length) {
    const bytes = new Uint8Array(this.c.memory.buffer);
    return new TextDecoder().decode(bytes.subarray(place, length === undefined ? bytes.indexOf(0, place) : place + length));
  }
}
