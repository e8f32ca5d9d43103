#![doc = include_str!("../README.md")]

mod builder;
pub mod cas;
mod connection;
mod construct;
mod diagnose;
mod errors;
mod idle;
mod journal;
mod limits;
mod list;
mod memory;
mod provider;
mod shedlock;
mod slots;
mod store;
mod time;
mod tls;
mod told;
mod url;

#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;

pub use builder::maybe;
pub use cas::{
    DEFAULT_TOLERATED_SKEW, Found, Listed, Reading, Record, Versioned, VersionedSettings,
    VersionedStore, Written, whole_millis,
};
pub use connection::{Call, Connect, Shared};
pub use construct::{BesideClient, FromClient, FromUrl, NeedsNoSettings, VALID};
pub use diagnose::quorum;
pub use errors::{
    ROUNDS, Result, closed, configuration, conflict, contended, in_doubt, internal, invalid,
    overtaken, unanswered, unavailable, unknown, unread, unresolvable, unresolved,
};
pub use idle::{FRESH, TEST};
pub use limits::check_name_length;
pub use list::{Part, listed, paged};
pub use memory::MemoryProvider;
pub use provider::StoreProvider;
pub use shedlock::{Added, COMPANION, start_of_keys};
pub use shedlock_core::HUNDRED_YEARS;
pub use shedlock_support::root_cause;
pub use shedlock_support::{TlsFiles, in_words};
pub use slots::{check_slot, refusal, slot_ahead};
pub use store::{End, Ended, Seen, Store};
pub use time::TimeMode;
pub use tls::{TlsNames, TlsOptions, read_file, read_text, unusable_file};
pub use tls::{built_without_tls, check_crypto_choice, require_crypto_choice};
#[cfg(any(feature = "tls-ring", feature = "tls-aws-lc"))]
pub use tls::{client_config, unverified_client_config};
pub use tls::{untrusted, untrusted_by};
pub use told::{Told, told};
pub use url::{Host, StoreUrl, UrlOptions, refuse_cut_password};
