//! Scenario 1: the hourly mails to users whose subscriptions expire.

use std::time::Duration;

use crate::common::{MailServer, Mails, Midnight, Scene, Shown, Store, say, until_shown};

const USERS: i64 = 40;
/// Users whose subscriptions do not expire soon.
const OTHERS: i64 = 3;
const UNREMINDED: &str = "SELECT id FROM users WHERE reminded_at IS NULL";

pub(crate) fn no_user_is_lost_or_repeated(store: Store) {
    until_shown("expiring subscriptions", store, |scene, midnight| {
        let Some(mails) = an_hour(scene, midnight) else {
            return Shown::TooSlow("midnight came before the replicas were ready");
        };
        say(&format!(
            "expiring subscriptions on {}: {mails}",
            store.name()
        ));
        mails.assert_no_complaints();
        mails.assert_all_came(1..=USERS);
        assert_eq!(mails.taken, usize::try_from(USERS).unwrap());
        assert_eq!(mails.kills, 1);
        // The mail that was caught, and those in flight if the machine was so slow that a lease was
        // lost.
        assert!(mails.repeated >= 1 && mails.repeated <= 1 + mails.stopped);

        // No user had to wait for the next hour.
        let this_hour = midnight.slot(0);
        let attempts: Vec<_> = scene.history.look(|lines| {
            let runs = lines.iter().filter(|line| line.says("reminding users="));
            runs.filter(|run| run.field("slot") == Some(&*this_hour))
                .filter_map(|run| run.field("attempt").map(str::to_owned))
                .collect()
        });
        assert!(
            attempts.starts_with(&["1".to_owned(), "2".to_owned()]),
            "{attempts:?}"
        );
        Shown::Yes
    });
}

/// Three nodes reach a full hour, and one of them is killed in the middle of the mails.
fn an_hour(scene: &Scene, midnight: Midnight) -> Option<Mails> {
    create_users(scene);
    let post = MailServer::start(&scene.history, Duration::from_millis(40), true);
    let mut args = midnight.args(Duration::ZERO);
    args.extend([
        "subscriptions".to_owned(),
        "--lock-at-most-for=5s".to_owned(),
        format!("--smtp={}", post.address()),
    ]);
    let mut replicas = ["a", "b", "c"].map(|name| scene.replica(name, &args));
    let [a, b, c] = &replicas;
    if !midnight.is_awaited_by(scene, &[a, b, c]) {
        return None;
    }

    // Killed between the mail server's reply and the mark in the table.
    let caught = post.catch(10);
    let killed = caught.sender.clone();
    let runner = replicas.iter_mut().find(|it| it.name() == killed);
    runner.unwrap().kill();
    drop(caught);
    note_marked(scene);

    scene.history.wait_for("all are reminded", |_| {
        let left = scene.numbers(UNREMINDED).len();
        (left == usize::try_from(OTHERS).unwrap()).then_some(())
    });
    for replica in replicas {
        if replica.name() != killed {
            replica.stop();
        }
    }
    Some(Mails::of(&scene.history))
}

fn create_users(scene: &Scene) {
    scene.change(
        "CREATE TABLE users (id BIGINT PRIMARY KEY, email VARCHAR(100) NOT NULL, \
         expires_at TIMESTAMP NOT NULL, reminded_at TIMESTAMP NULL)",
    );
    let user = |id| {
        let days = if id > USERS { 30 } else { 0 };
        format!("({id}, 'user{id}@mail.example', CURRENT_TIMESTAMP + INTERVAL '{days}' DAY)")
    };
    let users: Vec<String> = (1..=USERS + OTHERS).map(user).collect();
    scene.change(&format!(
        "INSERT INTO users (id, email, expires_at) VALUES {}",
        users.join(", ")
    ));
}

/// Logs which users are marked in the table, because the log does not show all of them.
fn note_marked(scene: &Scene) {
    let known = Mails::of(&scene.history).marked();
    for id in scene.numbers("SELECT id FROM users WHERE reminded_at IS NOT NULL") {
        if !known.contains(&id) {
            let line = format!("marked as sent id={id}");
            scene.history.note("table", &line);
        }
    }
}
