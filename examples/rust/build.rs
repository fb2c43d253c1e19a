//! Compiles src/mcb.c, and so mcb.h, without other crates.
//!
//! MCB_INCLUDE is the folder of mcb.h, CC and AR are the tools, CFLAGS more options; a cross compiler is named in CC.

use std::env::{self, var};
use std::path::PathBuf;
use std::process::Command;

fn run(command: &mut Command) {
    match command.status() {
        Ok(status) if status.success() => (),
        Ok(status) => panic!("{command:?}: {status}"),
        Err(problem) => panic!("{command:?}: {problem}; CC and AR name other tools"),
    }
}

fn include() -> String {
    if let Ok(folder) = var("MCB_INCLUDE") {
        return folder;
    }
    let asked = Command::new("python").args(["-m", "pymcboost", "--include"]).output();
    match asked {
        Ok(done) if done.status.success() => String::from_utf8(done.stdout).unwrap().trim_end().to_string(),
        _ => panic!("set MCB_INCLUDE to the folder of mcb.h; python -m pymcboost --include prints it"),
    }
}

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap());
    let (object, library, include) = (out.join("mcb.o"), out.join("libmcb.a"), include());
    let compiler = var("CC").unwrap_or("cc".to_string());
    let flags = var("CFLAGS").unwrap_or_default();
    let mut words = compiler.split_whitespace().chain(flags.split_whitespace());
    let mut command = Command::new(words.next().expect("CC is empty"));
    command.args(words).args(["-std=c99", "-O2", "-fPIC", "-c", "src/mcb.c", "-I", &include, "-o"]).arg(&object);
    run(&mut command);
    let _ = std::fs::remove_file(&library);
    run(Command::new(var("AR").unwrap_or("ar".to_string())).arg("crs").arg(&library).arg(&object));
    println!("cargo:rustc-link-search=native={}", out.display());
    println!("cargo:rustc-link-lib=static=mcb");
    println!("cargo:rerun-if-changed=src/mcb.c");
    println!("cargo:rerun-if-changed={include}/mcb.h");
    for name in ["MCB_INCLUDE", "CC", "AR", "CFLAGS"] {
        println!("cargo:rerun-if-env-changed={name}");
    }
}
