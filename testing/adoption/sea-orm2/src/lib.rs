//! An application on sea-orm 2: see its test.
