use shedlock::scheduler::JobRun;
use shedlock::{scheduled, scheduler_lock};

#[scheduled(cron = "0 25 * * *")]
#[scheduler_lock(name = "a", lock_at_most_for = "9m")]
async fn no_such_hour() {}

#[scheduled(cron = "0 0 30 2 *")]
#[scheduler_lock(name = "a", lock_at_most_for = "9m")]
async fn never() {}

#[scheduled(cron = "0 0 * * *", zone = "Europe/Atlantis")]
#[scheduler_lock(name = "a", lock_at_most_for = "9m")]
async fn no_such_zone() {}

#[scheduled(every = "10")]
#[scheduler_lock(name = "a", lock_at_most_for = "9m")]
async fn no_unit() {}

#[scheduled(every = "1us")]
#[scheduler_lock(name = "a", lock_at_most_for = "9m")]
async fn too_often() {}

#[scheduled(fixed_delay = "0s")]
#[scheduler_lock(name = "a", lock_at_most_for = "9m")]
async fn without_a_pause() {}

#[scheduled(every = "1m", jitter = "60s")]
#[scheduler_lock(name = "a", lock_at_most_for = "9m")]
async fn jitter_over_period() {}

#[scheduled(every = "1m", anchor = "2027-01-16 09:00")]
#[scheduler_lock(name = "a", lock_at_most_for = "9m")]
async fn anchor_without_offset() {}

#[scheduled(every = "1m", zone = "UTC", overlap = "never")]
#[scheduler_lock(name = "a", lock_at_most_for = "9m")]
async fn zone_of_a_grid() {}

#[scheduled(cron = "@daily", anchor = "2027-01-16T09:00:00Z", late = "later")]
#[scheduler_lock(name = "a", lock_at_most_for = "9m")]
async fn anchor_of_a_calendar() {}

#[scheduled(cron = "@daily", every = "1d")]
#[scheduler_lock(name = "a", lock_at_most_for = "9m")]
async fn two_schedules() {}

#[scheduled(zone = "UTC")]
#[scheduler_lock(name = "a", lock_at_most_for = "9m")]
async fn no_schedule() {}

#[scheduled]
#[scheduler_lock(name = "a", lock_at_most_for = "9m")]
async fn nothing_at_all() {}

#[scheduled(cron = 5, run_at_start = 1)]
#[scheduler_lock(name = "a", lock_at_most_for = "9m")]
async fn wrong_types() {}

#[scheduled(cron = "@daily", crontab = "x")]
#[scheduler_lock(name = "a", lock_at_most_for = "9m")]
async fn unknown_key() {}

#[scheduled(every = "1h")]
async fn no_lock() {}

#[scheduled(every = "1h")]
#[scheduler_lock(name = "", lock_at_most_for = "soon")]
async fn wrong_lock() {}

#[scheduler_lock(name = "a", lock_at_most_for = "9m", provider = shedlock::MemoryProvider::new())]
#[scheduled(every = "1h")]
async fn other_provider() {}

#[scheduled(every = "1h")]
#[scheduler_lock(name = "a", lock_at_most_for = "9m")]
async fn reference(_text: &str) {}

#[scheduled(every = "1h")]
#[scheduler_lock(name = "a", lock_at_most_for = "9m")]
async fn generic<T: Clone>(_text: T) {}

#[scheduled(every = "1h")]
#[scheduler_lock(name = "a", lock_at_most_for = "9m")]
async fn two_runs(_one: JobRun, _two: JobRun) {}

#[scheduled(every = "1h")]
#[scheduler_lock(name = "a", lock_at_most_for = "9m")]
async fn pattern((_a, _b): (u8, u8)) {}

#[scheduled(every = "1h")]
#[scheduler_lock(name = "a", lock_at_most_for = "9m")]
unsafe fn dangerous() {}

#[scheduled(every = "1h")]
#[scheduler_lock(name = "a", lock_at_most_for = "9m")]
#[scheduler_lock(name = "b", lock_at_most_for = "9m")]
async fn two_locks() {}

#[scheduled(every = "1h")]
#[scheduled(every = "2h")]
#[scheduler_lock(name = "a", lock_at_most_for = "9m")]
async fn two_attributes() {}

struct Mails;

impl Mails {
    #[scheduled(every = "1h")]
    #[scheduler_lock(name = "a", lock_at_most_for = "9m")]
    async fn method(&self) {}
}

#[scheduled(every = "1h")]
#[scheduler_lock(name = "a", lock_at_most_for = "9m")]
struct NoFunction;

#[scheduled(cron = "* * * * * *", jitter = "10s")]
#[scheduler_lock(name = "a", lock_at_most_for = "9m")]
async fn jitter_over_gap() {}

#[scheduled(cron = "0 */90 * * * *")]
#[scheduler_lock(name = "a", lock_at_most_for = "9m")]
async fn step_over_hour() {}

#[scheduled(fixed_delay = "2000000h")]
#[scheduler_lock(name = "a", lock_at_most_for = "9m")]
async fn never_again() {}

fn main() {
    // An error in the attribute does not hide the job.
    let _ = (no_such_hour::job(), no_schedule::job(), wrong_lock::job());
}
