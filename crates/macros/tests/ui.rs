//! What the attribute accepts, and what the compiler says where it does not.
//!
//! `TRYBUILD=overwrite cargo test -p shedlock-macros --test ui` writes the expected messages anew.

#[test]
fn accepted() {
    trybuild::TestCases::new().pass("tests/ui/pass/*.rs");
}

#[test]
fn refused() {
    trybuild::TestCases::new().compile_fail("tests/ui/fail/*.rs");
}
