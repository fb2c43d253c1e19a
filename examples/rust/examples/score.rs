//! Score rows: cargo run --release --example score MODEL.mcb ROWS
//!
//! ROWS holds float32 numbers, n_features for each row. Prints for each row the label, the bits of the scores, and those
//! of the probabilities where the model has them.

use std::{env, error::Error, fs};

fn print(numbers: &[f64]) {
    for number in numbers {
        print!(" {:016x}", number.to_bits());
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let paths: Vec<String> = env::args().skip(1).collect();
    let [model, rows] = paths.as_slice() else { return Err("usage: score MODEL.mcb ROWS".into()) };
    let read = |path: &String| fs::read(path).map_err(|problem| format!("{path}: {problem}"));
    let (bytes, rows) = (read(model)?, read(rows)?);
    let mut memory = Vec::new();
    let mut model = mcb::Model::open(&bytes).map_err(|problem| problem.to_string())?;
    memory.resize(model.prepared_len(), 0);
    model.prepare(&mut memory)?;
    let numbers: Vec<f32> =
        rows.chunks_exact(4).map(|four| f32::from_le_bytes(four.try_into().unwrap())).collect();
    let size = 4 * model.n_features();
    if rows.len() % size != 0 {
        return Err(format!("{} bytes of rows are not a multiple of {size}, the bytes of one", rows.len()).into());
    }
    let mut scores = vec![0.0; model.n_classes()];
    for row in numbers.chunks_exact(model.n_features()) {
        let k = model.predict(row, &mut scores);
        print!("{}", model.label(k));
        print(&scores);
        if model.probabilities(&mut scores) {
            print(&scores);
        }
        println!();
    }
    Ok(())
}
