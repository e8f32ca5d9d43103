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
    assert_eq!(
        done(&mut sandbox.shedlock(&["migrate", "--journal"])).code,
        0
    );
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
