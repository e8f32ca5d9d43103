//! Records that are removed while a host may still ask for what they show.

use super::common::{Done, Sandbox, done, sql};

/// A job that ran 20 days ago, when its only slot of the month was due.
struct Monthly {
    sandbox: Sandbox,
    schedule: String,
}

impl Monthly {
    fn new(sandbox: Sandbox) -> Self {
        let mut date = std::process::Command::new("date");
        let day = done(date.args(["-u", "-d", "20 days ago", "+%-d"])).stdout;
        let schedule = format!("0 0 {} * *", day.trim());
        let monthly = Self { sandbox, schedule };
        let first = monthly.run();
        assert_eq!(first.stdout, "ran\n", "{first:?}");
        let days = "20 * 86400000";
        let aged = format!(
            "UPDATE shedlock SET lock_until = lock_until - {days}, locked_at = locked_at - {days}"
        );
        sql(&monthly.sandbox, Box::leak(aged.into_boxed_str()));
        monthly
    }

    fn run(&self) -> Done {
        let run = [
            "run",
            "-n",
            "monthly",
            "--lock-at-most-for",
            "60s",
            "--schedule",
        ];
        let mut run = self.sandbox.shedlock(&run);
        done(run.args([&self.schedule, "--", "echo", "ran"]))
    }
}

#[test]
fn the_slot_of_a_monthly_job_does_not_run_twice_because_its_record_was_removed() {
    for sandbox in [Sandbox::migrated(), with_journal()] {
        let monthly = Monthly::new(sandbox);
        let prune = [
            "prune",
            "--idle-for",
            "7d",
            "--no-shedlock",
            "--yes",
            "monthly",
        ];
        let pruned = done(&mut monthly.sandbox.shedlock(&prune));
        let said = "monthly: not removed: a late start may still ask for its slot ";
        assert!(
            pruned.code == 1 && pruned.stderr.contains(said),
            "{pruned:?}"
        );
        let again = monthly.run();
        assert_eq!((again.code, again.stdout.as_str()), (0, ""), "{again:?}");
    }
}

fn with_journal() -> Sandbox {
    let sandbox = Sandbox::new();
    assert_eq!(done(&mut sandbox.shedlock(&["migrate"])).code, 0);
    sandbox
}

#[test]
fn what_a_jvm_may_remember_is_removed_only_if_none_runs() {
    let sandbox = Sandbox::migrated();
    assert_eq!(done(&mut sandbox.run("mail", "60s", "true")).code, 0);
    sql(
        &sandbox,
        "UPDATE shedlock SET lock_until = lock_until - 8640000000, locked_at = locked_at - 8640000000",
    );
    let prune = |more: &[&str]| {
        let prune = ["prune", "--idle-for", "90d", "--yes"];
        done(&mut sandbox.shedlock(&[&prune, more].concat()))
    };
    let kept = prune(&[]);
    assert!(
        kept.code == 0 && kept.stderr.contains("add --no-shedlock"),
        "{kept:?}"
    );
    let kept = prune(&["mail"]);
    assert!(
        kept.code == 1 && kept.stderr.contains("add --no-shedlock"),
        "{kept:?}"
    );
    let removed = prune(&["--no-shedlock"]);
    assert!(removed.stdout.starts_with("mail: removed; "), "{removed:?}");
}

/// The first day of a month, this many months before that of the next one.
fn first_of_month(ago: i64) -> jiff::Timestamp {
    let today = jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC);
    let first = today.first_of_month().unwrap().start_of_day().unwrap();
    let first = first.checked_sub(jiff::Span::new().months(ago - 1));
    first.unwrap().timestamp()
}

/// A program registers its job under the template of the lock's name. No run shows which job the lock belongs to: the
/// journal has forgotten them.
#[test]
fn a_slot_of_a_registered_template_is_kept_for_two_periods_of_its_schedule() {
    let sandbox = with_journal();
    let run = [
        "run",
        "--lock-at-most-for",
        "60s",
        "--schedule",
        "0 0 1 * *",
        "-n",
    ];
    for name in ["expire-acme", "expire-wayne", "archive-acme"] {
        let mut run = sandbox.shedlock(&run);
        assert_eq!(done(run.args([name, "--", "true"])).code, 0);
    }
    sql(&sandbox, "DELETE FROM shedlock_run");
    sql(
        &sandbox,
        "DELETE FROM shedlock_job WHERE job <> 'expire-acme'",
    );
    let template = |template: &str| {
        let rename = format!("UPDATE shedlock_job SET job = '{template}'");
        sql(&sandbox, Box::leak(rename.into_boxed_str()));
    };
    let has_run = |months: i64| {
        let slot = first_of_month(months);
        let (micros, millis) = (slot.as_microsecond(), slot.as_millisecond());
        let aged = format!(
            "UPDATE shedlock SET lock_until = {millis}, locked_at = {millis}, \
             shedlock_fencing_token = {micros}, shedlock_slot = {micros}, shedlock_slot_done = {micros}"
        );
        sql(&sandbox, Box::leak(aged.into_boxed_str()));
    };
    let removable = || {
        let prune = ["prune", "--no-shedlock", "--idle-for", "1d"];
        let shown = done(&mut sandbox.shedlock(&prune));
        let names = shown.stdout.lines().filter_map(|line| {
            let (name, _) = line.split_once(": would be removed")?;
            Some(name.to_owned())
        });
        names.collect::<Vec<_>>()
    };
    // The slot of the last month: the second one after it is still to come.
    has_run(2);
    template("expire-{tenant}");
    assert_eq!(removable(), [""; 0]);
    // Two more have come since.
    has_run(3);
    assert_eq!(removable(), ["expire-acme", "expire-wayne"]);
    // Other templates say nothing about it.
    for other in ["expire-{tenant}-{part}", "expire", "{tenant}-expire"] {
        template(other);
        assert_eq!(removable(), [""; 0], "{other}");
    }
    template("{job}-acme");
    assert_eq!(removable(), ["archive-acme", "expire-acme"]);
    // Of several, the one that asks longest counts.
    sql(
        &sandbox,
        "INSERT INTO shedlock_job (job, schedule, zone, registered_us) \
         SELECT 'expire-{tenant}', '0 0 1 1 *', zone, registered_us FROM shedlock_job",
    );
    assert_eq!(removable(), ["archive-acme"]);
}
