//! The functions of `docs/scripts.md`, each as it stands there, in its language.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::Signal;

use super::common::{
    Done, Sandbox, blocks, done, end, eventually, is_alive, page, path_before, signal,
};

/// A language, and a program that uses the function of the page.
struct Language {
    /// As its code is marked in the page.
    fence: &'static str,
    file: &'static str,
    /// What runs a file.
    command: &'static [&'static str],
    /// The rest of the program. It holds the lock `job`, writes the file `in` when it has it, and waits for the file `go`
    /// or for the lock to be lost; then it fails if it was started with `fail`. At the end it prints what became of it.
    program: &'static str,
}

const BASH: Language = Language {
    fence: "bash",
    file: "program.bash",
    command: &["bash"],
    program: r#"
set -u
job() {
  echo "$1" >in
  while [[ ! -e go ]]; do sleep 0.02; done
  [[ $1 != fail ]]
}
with_lock job 9s job "$1"
case $? in
  0) echo done ;;
  1) echo failed ;;
  9) echo skipped ;;
  75) echo lost ;;
  *) echo error ;;
esac
"#,
};

const PYTHON: Language = Language {
    fence: "python",
    file: "program.py",
    command: &["python3"],
    program: r#"
import os, sys, time

try:
    with shedlock("job", "9s") as lock:
        with open("in", "w") as file:
            file.write(str(lock.token))
        while not os.path.exists("go") and not lock.is_lost():
            time.sleep(0.02)
        if sys.argv[1] == "fail":
            raise ValueError
    print("done")
except ValueError:
    print("failed")
except NotAcquired:
    print("skipped")
except LockLost:
    print("lost")
except subprocess.CalledProcessError:
    print("error")
"#,
};

const NODE: Language = Language {
    fence: "js",
    file: "program.mjs",
    command: &["node"],
    program: r#"
import { existsSync, writeFileSync } from "node:fs";
import { setTimeout } from "node:timers/promises";

class Failed extends Error {}
try {
  const result = await withLock("job", "9s", async ({ signal, token }) => {
    writeFileSync("in", String(token));
    while (!existsSync("go") && !signal.aborted) await setTimeout(20);
    if (process.argv[2] === "fail") throw new Failed();
    return "done";
  });
  console.log(result);
} catch (error) {
  const words = [[Failed, "failed"], [NotAcquired, "skipped"], [LockLost, "lost"]];
  console.log((words.find(([type]) => error instanceof type) ?? [null, "error"])[1]);
}
"#,
};

const GO: Language = Language {
    fence: "go",
    file: "program.go",
    command: &["go", "run"],
    program: r#"
var errFailed = errors.New("failed")

func main() {
	err := WithLock(context.Background(), "job", "9s", func(ctx context.Context, token int64) error {
		os.WriteFile("in", []byte(fmt.Sprint(token)), 0o600)
		for ctx.Err() == nil {
			if _, err := os.Stat("go"); err == nil {
				break
			}
			time.Sleep(20 * time.Millisecond)
		}
		if os.Args[1] == "fail" {
			return errFailed
		}
		return nil
	})
	switch {
	case err == nil:
		fmt.Println("done")
	case errors.Is(err, errFailed):
		fmt.Println("failed")
	case errors.Is(err, ErrNotAcquired):
		fmt.Println("skipped")
	case errors.Is(err, ErrLockLost):
		fmt.Println("lost")
	default:
		fmt.Println("error")
	}
}
"#,
};

impl Language {
    /// The page's code, followed by the program that uses it.
    fn source(&self) -> String {
        let blocks = blocks(&page("scripts.md"), self.fence);
        let [code] = &blocks[..] else {
            panic!("one block of {}", self.fence);
        };
        let code = match self.fence {
            "go" => code.replacen("\"syscall\"\n", "\"syscall\"\n\t\"time\"\n", 1),
            _ => code.clone(),
        };
        format!("{code}\n{}", self.program)
    }

    /// The program in a folder with a store of its own.
    fn prepare(&self, sandbox: &Sandbox) -> Vec<String> {
        fs::write(sandbox.path(self.file), self.source()).unwrap();
        let mut command: Vec<_> = self.command.iter().map(|&word| word.to_owned()).collect();
        command.push(self.file.to_owned());
        if self.fence == "go" {
            // As a program of its own: `go run` passes no signals on.
            let build = ["go", "build", "-o", "program", self.file];
            let built = Command::new(build[0])
                .args(&build[1..])
                .current_dir(sandbox.path("."))
                .env("GOCACHE", Path::new(env!("CARGO_TARGET_TMPDIR")).join("go"))
                .env("GOTOOLCHAIN", "local")
                .output()
                .expect("go is needed: on Debian `apt-get install -y golang-go`");
            assert!(built.status.success(), "{built:?}");
            command = vec!["./program".to_owned()];
        }
        command
    }
}

struct Program {
    sandbox: Sandbox,
    command: Vec<String>,
}

impl Program {
    fn new(language: &Language) -> Self {
        let sandbox = Sandbox::migrated();
        let command = language.prepare(&sandbox);
        Self { sandbox, command }
    }

    fn command(&self, mode: &str) -> Command {
        let mut command = Command::new(&self.command[0]);
        let path = path_before(&std::env::var_os("PATH").unwrap());
        command
            .args(&self.command[1..])
            .arg(mode)
            .current_dir(self.sandbox.path("."))
            .env_clear()
            .env("PATH", path)
            .env("HOME", self.sandbox.path("."))
            .env("SHEDLOCK_STORE", self.sandbox.store())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Starts it, and waits until it is within the lock.
    fn start(&self, mode: &str) -> Child {
        for file in ["in", "go"] {
            drop(fs::remove_file(self.sandbox.path(file)));
        }
        let child = self.command(mode).spawn().unwrap();
        eventually("the task", || !self.sandbox.read("in").is_empty());
        assert_eq!(self.sandbox.lock("job")["state"], "held");
        child
    }

    fn go(&self) {
        fs::write(self.sandbox.path("go"), "").unwrap();
    }

    fn holder(&self) -> u32 {
        let lock = self.sandbox.lock("job");
        let owner = lock["owner"].as_str().unwrap();
        owner.split('/').nth(1).unwrap().parse().unwrap()
    }
}

fn said(done: &Done) -> &str {
    done.stdout.trim()
}

/// The function holds the lock, and says what became of it.
fn check(language: &Language) {
    let program = Program::new(language);
    let sandbox = &program.sandbox;
    let is_bash = language.fence == "bash";

    // It holds the lock for longer than the lease, and another one does not get it.
    let child = program.start("succeed");
    let first_end = sandbox.locked_until("job");
    if !is_bash {
        let token = sandbox.lock("job")["fencing_token"].to_string();
        assert_eq!(sandbox.read("in"), token);
    }
    let other = done(&mut program.command("succeed"));
    assert_eq!(said(&other), "skipped", "{other:?}");
    eventually("an extension", || sandbox.locked_until("job") > first_end);
    program.go();
    let ended = end(child);
    assert_eq!((said(&ended), &*ended.stderr), ("done", ""));
    assert_eq!(sandbox.lock("job")["state"], "free");

    // What the task fails with is what its caller sees.
    let child = program.start("fail");
    program.go();
    let ended = end(child);
    assert_eq!(said(&ended), "failed", "{ended:?}");
    assert_eq!(sandbox.lock("job")["state"], "free");

    // The lock is freed by force, and another time its holder is ended. Bash is not told.
    for is_forced in [true, false] {
        let child = program.start("succeed");
        let holder = program.holder();
        if is_forced {
            let freed = done(&mut sandbox.shedlock(&["unlock", "job", "--force"]));
            assert_eq!(freed.code, 0, "{freed:?}");
        } else {
            signal(holder, Signal::TERM);
        }
        if is_bash {
            let threads =
                || fs::read_dir(format!("/proc/{holder}/task")).map_or(0, Iterator::count);
            eventually("the end of the holder and its threads", || {
                !is_alive(holder) && threads() <= 1
            });
            program.go();
        }
        let ended = end(child);
        assert_eq!(said(&ended), "lost", "{ended:?}");
    }

    // The program is killed.
    let mut child = program.start("succeed");
    child.kill().unwrap();
    child.wait().unwrap();
    eventually("the release", || sandbox.lock("job")["state"] == "free");

    // There is no such store.
    let mut broken = program.command("succeed");
    let broken = done(broken.env("SHEDLOCK_STORE", "nowhere:"));
    assert_eq!(said(&broken), "error", "{broken:?}");
}

#[test]
fn bash() {
    check(&BASH);
}

#[test]
fn python() {
    check(&PYTHON);
}

#[test]
fn node() {
    check(&NODE);
}

#[test]
fn go() {
    check(&GO);
}
