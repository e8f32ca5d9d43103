//! Nothing is built: Cargo asks for a script where `links` is set.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
}
