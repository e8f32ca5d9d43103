//! A store that is full: it is read, and locks are given back.

use std::time::Duration;

use shedlock::{AttemptRequest, LockName, Owner};
use shedlock_etcd::etcd_client::Client;
use shedlock_rig::OwnServer;
use shedlock_rig::wait::eventually;
use tokio::runtime::Runtime;

use crate::common::{Done, Sandbox, done, end};

const QUOTA: [&str; 2] = ["--quota-backend-bytes", "4194304"];

pub(crate) fn an_etcd_at_its_quota_is_read_and_gives_locks_back()
-> Result<(), Box<dyn std::error::Error>> {
    let server = OwnServer::start("etcd", &QUOTA)?;
    let (runtime, sandbox) = (Runtime::new()?, Sandbox::new());
    let command = |arguments: &[&str]| {
        let mut command = sandbox.bare(arguments);
        command.env("SHEDLOCK_STORE", server.url());
        command
    };
    let ended = |arguments: &[&str]| done(&mut command(arguments));
    let ok = |arguments: &[&str], words: &str| {
        let ended: Done = ended(arguments);
        assert_eq!(ended.code, 0, "{arguments:?}: {ended:?}");
        assert!(ended.stdout.contains(words), "{arguments:?}: {ended:?}");
    };
    let task = "touch started; until test -e end; do sleep 0.02; done; exit 5";
    let run = ["run", "-n", "runs", "--lock-at-most-for", "10m", "--"];
    let run = command(&[&run[..], &["sh", "-c", task]].concat()).spawn()?;
    eventually("the task runs", || sandbox.path("started").exists());
    runtime.block_on(async {
        let (name, owner) = (LockName::new("stuck")?, Owner::generate());
        let request = AttemptRequest::new(name, owner, Duration::from_secs(600));
        let attempt = shedlock::connect(server.url())
            .await?
            .attempt(&request)
            .await?;
        assert!(attempt.acquired().is_some());
        let address = server.url().replacen("etcd://", "http://", 1);
        let mut client = Client::connect([address], None).await?;
        let filler = || vec![b'x'; 262_144];
        while client.put("filler", filler(), None).await.is_ok() {}
        Ok::<_, Box<dyn std::error::Error>>(())
    })?;

    let none = ended(&[
        "run",
        "-n",
        "new",
        "--lock-at-most-for",
        "10m",
        "--",
        "true",
    ]);
    assert_eq!(none.code, 69, "{none:?}");
    assert!(
        none.stderr.contains("has reached its space quota"),
        "{none:?}"
    );
    for name in ["runs", "stuck"] {
        ok(&["list"], name);
        ok(&["show", name, "-o", "json"], r#""state": "held""#);
    }
    let doctor = ended(&["doctor", "-o", "json"]);
    assert_eq!(doctor.code, 1, "{doctor:?}");
    let findings: serde_json::Value = serde_json::from_str(&doctor.stdout)?;
    let findings = findings["findings"].as_array().ok_or("no findings")?;
    let errors = findings.iter().filter(|it| it["level"] == "error");
    let errors: Vec<_> = errors.map(|it| &it["check"]).collect();
    assert_eq!(errors, ["alarms"], "{doctor:?}");

    ok(&["unlock", "stuck", "--force"], "");
    ok(&["show", "stuck", "-o", "json"], r#""state": "free""#);
    sandbox.script("end", "");
    let run = end(run);
    assert_eq!((run.code, run.stderr.as_str()), (5, ""));
    ok(&["show", "runs", "-o", "json"], r#""state": "free""#);
    Ok(())
}
