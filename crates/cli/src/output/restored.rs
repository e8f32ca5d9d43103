//! What a journal puts back into the locks.

use std::time::SystemTime;

use serde::Serialize;
use shedlock::{RestoredSlot, Slot};

use super::{instant, json, open_end, pause_end, second, visible};
use crate::args::Format;

/// A slot or a pause that the locks have lost.
pub(crate) struct Item {
    pub(crate) name: String,
    pub(crate) what: Lost,
    /// `None` if nothing was to be changed.
    pub(crate) is_restored: Option<bool>,
}

pub(crate) enum Lost {
    /// The last slot, and what is known about it.
    Slot(Slot, RestoredSlot),
    /// A pause that ends at this time.
    Pause(SystemTime),
}

#[derive(Serialize)]
struct All<'a> {
    version: u32,
    store: &'a str,
    lost: Vec<One<'a>>,
}

#[derive(Serialize)]
struct One<'a> {
    name: &'a str,
    paused_until: Option<String>,
    slot: Option<String>,
    slot_state: Option<&'static str>,
    slot_attempts: Option<u32>,
    is_restored: Option<bool>,
}

/// These slots and pauses.
pub(crate) fn restored(store: &str, items: &[Item], now: SystemTime, format: Format) -> String {
    if format == Format::Json {
        return json::text(&All {
            version: json::VERSION,
            store,
            lost: items.iter().map(One::of).collect(),
        });
    }
    let line = |item: &Item| {
        let what = match item.what {
            Lost::Pause(until) => {
                let has_end = open_end(until, Some(now)).is_none();
                format!("paused {}", pause_end(until, has_end))
            }
            Lost::Slot(slot, RestoredSlot::Done) => format!("slot {slot}, which is done"),
            Lost::Slot(slot, RestoredSlot::Open(attempts)) => {
                format!("slot {slot}, open after {attempts} attempts")
            }
            Lost::Slot(slot, _) => format!("slot {slot}, which is used up"),
        };
        let end = match item.is_restored {
            None => "",
            Some(true) => ": restored",
            Some(false) => ": left as it is, because the lock is held or has a later slot now",
        };
        format!("{}: {what}{end}\n", visible(&item.name))
    };
    items.iter().map(line).collect()
}

impl<'a> One<'a> {
    fn of(item: &'a Item) -> Self {
        let (slot, state) = match item.what {
            Lost::Slot(slot, state) => (instant(slot.instant()), Some(state)),
            Lost::Pause(_) => (None, None),
        };
        Self {
            name: &item.name,
            paused_until: match item.what {
                Lost::Pause(until) => Some(second(until)),
                Lost::Slot(..) => None,
            },
            slot,
            slot_state: state.map(|state| match state {
                RestoredSlot::Done => "done",
                RestoredSlot::Open(_) => "open",
                _ => "used-up",
            }),
            slot_attempts: match state {
                Some(RestoredSlot::Open(attempts)) => Some(attempts),
                _ => None,
            },
            is_restored: item.is_restored,
        }
    }
}
