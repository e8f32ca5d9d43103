//! A disk that is full: a small file system of memory, in a mount namespace of its own.

use std::process::Command;

use super::common::{Done, Sandbox, done};

/// This shell script in a namespace whose folder `disk` has so much space; `$SHEDLOCK` is the program.
fn on_disk_of(sandbox: &Sandbox, size: &str, script: &str) -> Done {
    let mount = format!("mkdir disk && mount -t tmpfs -o size={size} none disk");
    let unshare = |script: &str| {
        let mut command = Command::new("unshare");
        command.arg("--mount");
        if !rustix::process::geteuid().is_root() {
            command.arg("--map-root-user");
        }
        command
            .args(["sh", "-c", script])
            .env("SHEDLOCK", env!("CARGO_BIN_EXE_shedlock"))
            .env(
                "SHEDLOCK_STORE",
                format!("sqlite:{}", sandbox.path("disk/locks.db").display()),
            )
            .current_dir(sandbox.path(""));
        command
    };
    let possible = done(&mut unshare(&mount));
    assert_eq!(
        possible.code, 0,
        "this system refuses a mount namespace, also as root of a user namespace: {}",
        possible.stderr
    );
    done(&mut unshare(&format!(
        "mount -t tmpfs -o size={size} none disk\n{script}"
    )))
}

#[test]
fn a_disk_that_is_full_at_the_start_is_not_taken_for_a_wrong_file() {
    let sandbox = Sandbox::new();
    let script = "dd if=/dev/zero of=disk/fill bs=1k count=100 2>/dev/null\n\
        exec $SHEDLOCK run -n a --lock-at-most-for 60s -- echo ran";
    let ended = on_disk_of(&sandbox, "64k", script);
    assert_eq!((ended.code, ended.stdout.as_str()), (69, ""));
    let start = "shedlock: a: the command was not started: sqlite: cannot create the database: the \
                 disk of the file is full";
    assert!(ended.stderr.starts_with(start), "{}", ended.stderr);
    let end = "; free space on it\n";
    assert!(ended.stderr.ends_with(end), "{}", ended.stderr);
}

/// In WAL mode, the log has the space for it.
#[test]
fn a_lock_is_given_back_on_a_disk_that_is_full() {
    let sandbox = Sandbox::new();
    let script = "$SHEDLOCK migrate --no-journal -q > /dev/null || exit 1\n\
        $SHEDLOCK run -n a --lock-at-most-for 10m --pass-store -- sh -c '\n\
        dd if=/dev/zero of=disk/fill bs=1k count=1000 2>/dev/null\n\
        $SHEDLOCK list -o json && exit 5' 2> said; code=$?\n\
        $SHEDLOCK show a -o json; exit $code";
    let ended = on_disk_of(&sandbox, "400k", script);
    assert_eq!((ended.code, sandbox.read("said").as_str()), (5, ""));
    let (listed, shown) = ended.stdout.split_once("}\n{").unwrap();
    assert!(listed.contains("\"state\": \"held\""), "{listed}");
    assert!(shown.contains("\"state\": \"free\""), "{shown}");
}

/// With a rollback journal, each write needs space for the journal.
#[test]
fn a_disk_that_is_full_at_the_end_does_not_keep_the_lock_once_there_is_space() {
    let sandbox = Sandbox::new();
    let script = "$SHEDLOCK migrate --no-journal -q > /dev/null || exit 1\n\
        printf '\\001\\001' | dd of=disk/locks.db bs=1 seek=18 conv=notrunc 2>/dev/null; rm disk/locks.db-*\n\
        $SHEDLOCK run -n a --lock-at-most-for 10m -- sh -c '\n\
        dd if=/dev/zero of=disk/fill bs=1k count=1000 2>/dev/null; exit 5' 2> said & run=$!\n\
        until grep -q 'cannot release' said || ! kill -0 $run; do sleep 0.05; done\n\
        rm disk/fill; wait $run; code=$?\n\
        $SHEDLOCK show a -o json; exit $code";
    let ended = on_disk_of(&sandbox, "400k", script);
    assert_eq!(ended.code, 5, "{}", ended.stderr);
    let shown: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(shown["lock"]["state"], "free");
    let said = sandbox.read("said");
    let start = "shedlock: a: the command has ended; cannot release the lock yet, retrying for up to \
                 10s: sqlite: the disk of the file is full: ";
    assert!(said.starts_with(start), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}
