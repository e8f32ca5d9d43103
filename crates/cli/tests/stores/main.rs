//! The command on every store that processes can share, with real servers.

#![allow(
    clippy::unwrap_used,
    reason = "the lint's own allowance for tests covers functions marked as tests, not their helpers"
)]

#[path = "../command/common.rs"]
mod common;

mod audit;
mod clocks;
mod emptied;
mod faults;
mod fenced;
#[cfg(feature = "etcd")]
mod full;
mod journal_store;
mod json;
mod places;
mod prune;
mod refusals;
mod story;

use libtest_mimic::{Arguments, Trial};

fn main() {
    // The command of a run is this program too.
    if fenced::writes() {
        return fenced::write();
    }
    if std::env::args()
        .next()
        .is_some_and(|name| name.ends_with(story::FILL))
    {
        return story::fill();
    }
    let mut arguments = Arguments::from_args();
    let mut trials = Vec::new();
    for place in places::all() {
        trials.push(Trial::test(format!("story_{}", place.name), move || {
            Ok(story::story(&place)?)
        }));
        trials.push(Trial::test(format!("json_{}", place.name), move || {
            Ok(json::json_has_the_documented_fields(&place)?)
        }));
        trials.push(Trial::test(format!("faults_{}", place.name), move || {
            Ok(faults::no_fault_in_a_record_is_missed(&place)?)
        }));
        trials.push(Trial::test(format!("emptied_{}", place.name), move || {
            Ok(emptied::a_store_that_was_emptied_is_restored(&place)?)
        }));
        let prune = Trial::test(format!("prune_{}", place.name), move || {
            Ok(prune::only_old_records_are_removed(&place)?)
        });
        trials.push(prune.with_ignored_flag(!prune::can_change_clocks()));
        // A file has the clock of its host.
        if place.has_server {
            let clocks = Trial::test(format!("clocks_{}", place.name), move || {
                Ok(clocks::a_wrong_clock_is_named(&place)?)
            });
            trials.push(clocks.with_ignored_flag(!prune::can_change_clocks()));
        }
        if place.has_server {
            trials.push(Trial::test(
                format!("unreachable_{}", place.name),
                move || {
                    Ok(refusals::a_server_that_cannot_be_reached_is_reported_alike(
                        &place,
                    )?)
                },
            ));
            trials.push(Trial::test(format!("refused_{}", place.name), move || {
                Ok(refusals::what_a_server_refuses_is_reported_once(&place)?)
            }));
            trials.push(Trial::test(format!("foreign_{}", place.name), move || {
                Ok(refusals::a_server_of_another_kind_is_suspected(&place)?)
            }));
            trials.push(Trial::test(format!("silent_{}", place.name), move || {
                Ok(refusals::a_silent_server_is_waited_for_no_longer_than_asked(&place)?)
            }));
        }
        if ["nats", "zookeeper", "consul", "etcd"].contains(&place.name) {
            let name = format!("journal_store_{}", place.name);
            trials.push(Trial::test(name, move || {
                Ok(journal_store::a_fleet_keeps_its_journal_in_another_store(
                    &place,
                )?)
            }));
        }
        #[cfg(feature = "etcd")]
        if place.name == "etcd" {
            trials.push(Trial::test("full_etcd", || {
                Ok(full::an_etcd_at_its_quota_is_read_and_gives_locks_back()
                    .map_err(|error| error.to_string())?)
            }));
        }
        if place.name == "postgres" {
            trials.push(Trial::test("audit_postgres", move || {
                Ok(audit::a_journal_that_fails_does_not_fail_an_operator(
                    &place,
                )?)
            }));
        }
        if ["postgres", "sqlite"].contains(&place.name) {
            trials.push(Trial::test(format!("fenced_{}", place.name), move || {
                Ok(fenced::a_holder_that_lost_its_lock_writes_no_more(&place)?)
            }));
        }
    }
    // They wait more than they work.
    arguments.test_threads.get_or_insert(8);
    libtest_mimic::run(&arguments, trials).exit();
}
