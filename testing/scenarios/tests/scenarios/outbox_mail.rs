//! Scenario 4: mails in an outbox, and replicas that are killed again and again between send and
//! delete. Ten seconds of the scenario take one second here.

use std::collections::BTreeSet;
use std::time::Duration;

use shedlock_rig::wait::pause;

use crate::common::{MailServer, Mails, Replica, Scene, Store, say};

/// The number of parallel outboxes, each with two replicas: after a kill, one of them waits for the
/// dead replica's lease to expire.
const SERVICES: usize = 6;
/// The number of mails to which an outbox is filled up.
const BACKLOG: i64 = 40;
const UNSENT: &str = "SELECT id FROM outbox WHERE sent_at IS NULL";

pub(crate) fn no_mail_is_lost(store: Store) {
    let kills = kills(store);
    let services = SERVICES.min(kills);
    let all: Vec<Mails> = std::thread::scope(|scope| {
        let share = |number| kills / services + usize::from(number < kills % services);
        let threads: Vec<_> = (0..services)
            .map(|number| scope.spawn(move || one_service(store, number, share(number))))
            .collect();
        let joined = threads.into_iter().map(std::thread::ScopedJoinHandle::join);
        joined
            .map(|mails| mails.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    let sum = |count: fn(&Mails) -> usize| all.iter().map(count).sum::<usize>();
    say(&format!(
        "outbox mail on {}: {} kills with mails in flight, {} mails sent, none lost, {} times one \
         of them again, {} refusals and stalls, {} sendings stopped with a lost lock",
        store.name(),
        sum(|mails| mails.kills),
        sum(|mails| mails.taken),
        sum(|mails| mails.repeated),
        sum(|mails| mails.refused),
        sum(|mails| mails.stopped),
    ));
    assert!(sum(|mails| mails.kills) >= kills);
    // Every second kill happens right after the mail server's reply.
    assert!(sum(|mails| mails.repeated) >= kills / 2);
}

fn kills(store: Store) -> usize {
    let is_full = std::env::var_os("SHEDLOCK_TEST_FULL").is_some_and(|value| !value.is_empty());
    let default = match store {
        Store::Postgres if is_full => 100,
        Store::Mariadb if is_full => 20,
        Store::Postgres => 30,
        Store::Mariadb => 10,
    };
    std::env::var("SHEDLOCK_SCENARIO_KILLS").map_or(default, |kills| {
        kills.parse().expect("SHEDLOCK_SCENARIO_KILLS is a number")
    })
}

/// An outbox with two replicas; `kills` times, one of them is killed in the middle of sending.
fn one_service(store: Store, number: usize, kills: usize) -> Mails {
    let scene = Scene::open(&format!("outbox {number}"), store);
    let mut outbox = Outbox::create(&scene);
    let post = MailServer::start(&scene.history, Duration::from_millis(30), false);
    let mut service = Service::start(&scene, &post);

    let mut rounds: usize = 0;
    while Mails::of(&scene.history).kills < kills {
        outbox.fill_up();
        if rounds.is_multiple_of(2) {
            // Its mail is accepted, but it never gets the reply.
            let caught = post.catch(rounds * 5 % 23);
            service.kill(&caught.sender);
        } else {
            let sender = outbox.next_sender();
            pause(Duration::from_millis(rounds as u64 * 7_919 % 300));
            service.kill(&sender);
        }
        outbox.note_marked();
        rounds += 1;
    }
    scene.history.wait_for("the backlog has drained", |_| {
        scene.numbers(UNSENT).is_empty().then_some(())
    });
    for replica in service.replicas {
        replica.stop();
    }
    let mails = Mails::of(&scene.history);
    mails.assert_no_complaints();
    mails.assert_all_came(1..=outbox.last);
    mails
}

/// The table, and the code that fills it.
struct Outbox<'a> {
    scene: &'a Scene,
    last: i64,
}

impl<'a> Outbox<'a> {
    fn create(scene: &'a Scene) -> Self {
        scene.change(
            "CREATE TABLE outbox (id BIGINT PRIMARY KEY, email VARCHAR(100) NOT NULL, \
             sent_at TIMESTAMP NULL)",
        );
        let mut outbox = Self { scene, last: 0 };
        outbox.fill_up();
        outbox
    }

    fn fill_up(&mut self) {
        let unsent = self.scene.numbers(UNSENT).len();
        let first = self.last + 1;
        self.last += (BACKLOG - i64::try_from(unsent).unwrap()).max(0);
        let rows = first..=self.last;
        if rows.is_empty() {
            return;
        }
        let rows: Vec<String> = rows
            .map(|id| format!("({id}, 'user{id}@mail.example')"))
            .collect();
        self.scene.change(&format!(
            "INSERT INTO outbox (id, email) VALUES {}",
            rows.join(", ")
        ));
    }

    /// Returns the replica that sends the next mail.
    fn next_sender(&self) -> String {
        let from = self.scene.history.look(<[_]>::len);
        self.scene.history.wait_for("a mail is sent", |lines| {
            let sending = lines[from..].iter().find(|line| line.says("sending id="));
            sending.map(|line| line.who.clone())
        })
    }

    /// Logs which mails are marked in the table, or were marked and deleted, because the log does
    /// not show all of them.
    fn note_marked(&self) {
        let known = Mails::of(&self.scene.history).marked();
        let unsent: BTreeSet<i64> = self.scene.numbers(UNSENT).into_iter().collect();
        for id in (1..=self.last).filter(|id| !unsent.contains(id) && !known.contains(id)) {
            let line = format!("marked as sent id={id}");
            self.scene.history.note("table", &line);
        }
    }
}

/// Two replicas, and their successors.
struct Service<'a> {
    scene: &'a Scene,
    args: [String; 5],
    replicas: Vec<Replica>,
    started: u32,
}

impl<'a> Service<'a> {
    fn start(scene: &'a Scene, post: &MailServer) -> Self {
        let args = [
            "outbox".to_owned(),
            "--every=1s".to_owned(),
            "--lock-at-most-for=3s".to_owned(),
            "--chunk=10".to_owned(),
            format!("--smtp={}", post.address()),
        ];
        let mut service = Self {
            scene,
            args,
            replicas: Vec::new(),
            started: 0,
        };
        service.start_one();
        service.start_one();
        service
    }

    fn start_one(&mut self) {
        self.started += 1;
        let name = format!("replica-{}", self.started);
        self.replicas.push(self.scene.replica(&name, &self.args));
    }

    /// Kills this replica and starts another in its place, unless it is dead already: mails of a
    /// dead replica may arrive late.
    fn kill(&mut self, name: &str) {
        let found = self.replicas.iter().position(|it| it.name() == name);
        if let Some(index) = found {
            self.replicas.remove(index).kill();
            self.start_one();
        }
    }
}

pub(crate) fn sending_does_not_outlive_the_lock(store: Store) {
    let scene = Scene::open("outbox in background", store);
    let mut outbox = Outbox::create(&scene);
    outbox.fill_up();
    let post = MailServer::start(&scene.history, Duration::from_millis(700), true);
    // The run ends before the mail server has accepted everything: sending in progress is stopped
    // first.
    let smtp = format!("--smtp={}", post.address());
    let behind = [
        "outbox",
        "--every=1s",
        "--lock-at-most-for=30s",
        "--in-background",
        &smtp,
    ];
    let replicas = ["a", "b"].map(|name| scene.replica(name, &behind));
    let runs = "three runs are over, and mails were in flight when one of them was";
    scene.history.wait_for(runs, |lines| {
        let over = lines.iter().filter(|line| line.says("lock released lock="));
        (over.count() >= 3 && Mails::judge(lines).stopped > 0).then_some(())
    });
    for replica in replicas {
        replica.stop();
    }
    let mails = Mails::of(&scene.history);
    mails.assert_no_complaints();
    assert!(!mails.is_sending("a") && !mails.is_sending("b"));

    // Nothing is lost: a job that waits for its mails sends them all.
    let waiting = ["outbox", "--every=1s", "--lock-at-most-for=30s", &smtp];
    let replica = scene.replica("c", &waiting);
    scene.history.wait_for("the backlog has drained", |_| {
        scene.numbers(UNSENT).is_empty().then_some(())
    });
    replica.stop();
    let mails = Mails::of(&scene.history);
    mails.assert_no_complaints();
    mails.assert_all_came(1..=outbox.last);
}
