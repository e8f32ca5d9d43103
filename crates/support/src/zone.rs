//! Time zones by name.

use jiff::tz::{TimeZone, TimeZoneDatabase};

/// Returns the time zone of this name: from the system's database, or from the one that is compiled in if the system's
/// lacks it, as Debian's lacks `US/Eastern` without a package of its own.
pub fn get(name: &str) -> Option<TimeZone> {
    let of_system = TimeZone::get(name);
    of_system
        .or_else(|_| TimeZoneDatabase::bundled().get(name))
        .ok()
}
