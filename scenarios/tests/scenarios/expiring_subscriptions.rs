//! Story 1: the hourly mails to users whose subscriptions expire. An hour is six seconds here.

use std::time::Duration;

use crate::common::{MailServer, Mails, Scene, Store, say};

const USERS: i64 = 40;

pub(crate) fn nobody_is_lost_or_repeated(store: Store) {
    let scene = Scene::open("expiring subscriptions", store);
    scene.change(
        "CREATE TABLE users (id BIGINT PRIMARY KEY, email VARCHAR(100) NOT NULL, \
         expires_at TIMESTAMP NOT NULL, reminded_at TIMESTAMP NULL)",
    );
    for id in 1..=USERS + 3 {
        // The last ones have time.
        let days = if id > USERS { 30 } else { 0 };
        scene.change(&format!(
            "INSERT INTO users (id, email, expires_at) VALUES ({id}, 'user{id}@mail.example', \
             CURRENT_TIMESTAMP + INTERVAL '{days}' DAY)"
        ));
    }
    let post = MailServer::start(&scene.history, Duration::from_millis(40), true);
    let args = [
        "subscriptions",
        "--cron=*/6 * * * * *",
        "--lock-at-most-for=5s",
        &format!("--smtp={}", post.address()),
    ];
    let mut replicas = ["a", "b", "c"].map(|name| scene.replica(name, &args));

    // Killed in the middle, and between the mail server's yes and the mark in the table.
    let caught = post.catch(10);
    let runner = replicas.iter_mut().find(|it| it.name() == caught.sender);
    runner.unwrap().kill();
    let killed = caught.sender.clone();
    drop(caught);
    note_marked(&scene);

    scene.history.wait_for("all are reminded", |_| {
        let left = scene.numbers("SELECT id FROM users WHERE reminded_at IS NULL");
        (left.len() == 3).then_some(())
    });
    for replica in replicas {
        if replica.name() != killed {
            replica.stop();
        }
    }
    let mails = Mails::of(&scene.history);
    say(&format!(
        "expiring subscriptions on {}: {mails}",
        store.name()
    ));
    mails.assert_no_complaints();
    mails.assert_all_came(1..=USERS);
    // The ones that have time were left alone.
    assert_eq!(mails.taken, usize::try_from(USERS).unwrap());
    assert_eq!(mails.kills, 1);
    // The one that was caught, sent, and nobody had come to know; and what was in flight when a
    // machine was so slow that a lease was lost.
    assert!(mails.repeated >= 1 && mails.repeated <= 1 + mails.stopped);
}

/// Notes who is marked in the table, also where the log does not tell.
fn note_marked(scene: &Scene) {
    let known = Mails::of(&scene.history).marked();
    for id in scene.numbers("SELECT id FROM users WHERE reminded_at IS NOT NULL") {
        if !known.contains(&id) {
            scene
                .history
                .note("table", &format!("marked as sent id={id}"));
        }
    }
}
