//! What the attributes accept, and what the compiler reports if they do not.
//!
//! `TRYBUILD=overwrite cargo test -p shedlock-macros --test ui` regenerates the expected messages.

#[test]
fn accepted() {
    trybuild::TestCases::new().pass("tests/ui/pass/*.rs");
}

#[test]
fn refused() {
    trybuild::TestCases::new().compile_fail("tests/ui/fail/*.rs");
}
