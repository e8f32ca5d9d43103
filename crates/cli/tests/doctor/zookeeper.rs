//! ZooKeeper.

use std::time::Duration;

use shedlock_conformance::support::unique;
use shedlock_rig::given::server_if_any;
use shedlock_zookeeper::zookeeper_client::{Acl, Client, Permission};

use super::common::{Sandbox, done};
use super::{cannot_run, doctor};

/// Each node has an ACL of its own: nothing is inherited.
#[tokio::test]
async fn no_permission_that_a_node_lacks_is_missed() {
    let Some(server) = server_if_any("zookeeper") else {
        return;
    };
    let address = server.strip_prefix("zookeeper://").unwrap();
    // The machine may be busy.
    let admin = Client::connector().with_session_timeout(Duration::from_secs(60));
    let admin = admin.connect(address).await.unwrap();
    let all = [Permission::READ, Permission::WRITE, Permission::CREATE];
    for (node, kept, faults, words, job) in [
        (
            "",
            &all[..2],
            &["privileges"][..],
            "CREATE on \"{path}\"",
            "new",
        ),
        (
            ".owners",
            &all[..2],
            &["privileges"],
            "CREATE on \"{path}.owners\"",
            "new",
        ),
        (
            "/job",
            &all[..1],
            &["privileges"],
            "WRITE on \"{path}/job\"",
            "job",
        ),
        (
            ".owners/job",
            &all[..1],
            &["privileges"],
            "WRITE on \"{path}.owners/job\"",
            "job",
        ),
        (
            "/job",
            &all[1..],
            &["privileges", "records"],
            "READ on \"{path}/job\"",
            "job",
        ),
        ("", &all[1..], &["setup"], "grant READ", ""),
    ] {
        let path = format!("/{}", unique("doctor"));
        let url = format!("{server}?path={path}");
        let run = [
            "run",
            "-n",
            "job",
            "--lock-at-most-for",
            "1m",
            "--store",
            &url,
        ];
        let ran = done(&mut Sandbox::new().bare(&[&run[..], &["--", "true"]].concat()));
        assert_eq!(ran.code, 0, "{ran:?}");
        doctor(&url).is_healthy();
        let kept = kept.iter().copied().reduce(|a, b| a | b).unwrap();
        let acl = [Acl::new_const(kept | Permission::ADMIN, "world", "anyone")];
        let node = format!("{path}{node}");
        admin.set_acl(&node, &acl, None).await.unwrap();

        let report = doctor(&url);
        let found: Vec<_> = report
            .faults()
            .into_iter()
            .map(|(check, _)| check)
            .collect();
        assert_eq!((&*found, report.code), (faults, 1), "{report:?}");
        let words = words.replace("{path}", &path);
        assert!(report.has(faults[0], &words), "{report:?}");
        if job.is_empty() {
            // A lock can be taken, but not listed.
            continue;
        }
        cannot_run(&url, job, "READ, WRITE and CREATE");
    }
}
