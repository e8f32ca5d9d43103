//! What a replay of a page convicts, and what it records.

#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use shedlock_transcripts::Mode;
use support::{Fixed, examples, played, replayed};

fn page(block: &str) -> String {
    format!("# A page\n\nProse.\n\n## A scene\n\nMore.\n\n```console\n{block}```\n\nThe end.\n")
}

/// A block that is replayed as it stands, in a shell.
fn is_so(block: &str) -> bool {
    replayed(&page(block), &Fixed::new(&[])).is_ok()
}

#[test]
fn each_line_and_the_exit_code_are_compared() {
    assert!(is_so("$ echo a; echo b\na\nb\n"));
    for differing in [
        "a\n",
        "b\na\n",
        "a\nb\nc\n",
        "a\nB\n",
        "a\n\nb\n",
        " a\nb\n",
        "",
    ] {
        assert!(
            !is_so(&format!("$ echo a; echo b\n{differing}")),
            "{differing:?}"
        );
    }
    assert!(is_so("$ exit 3\n[exit 3]\n"));
    assert!(is_so("$ echo a; exit 3\na\n[exit 3]\n"));
    assert!(!is_so("$ exit 3\n"));
    assert!(!is_so("$ exit 3\n[exit 4]\n"));
    assert!(!is_so("$ true\n[exit 3]\n"));
    assert!(!is_so("$ true\n[exit ?]\n"), "that is for the recorder");
    assert!(!is_so("$ kill -9 $$\n"), "a signal is no success");
}

#[test]
fn a_message_on_the_wrong_stream_is_found() {
    assert!(is_so("$ echo a; echo shedlock: b >&2\na\nshedlock: b\n"));
    assert!(!is_so("$ echo a; echo shedlock: b\na\nshedlock: b\n"));
    assert!(is_so("$ echo b >&2\n[stderr]\nb\n"));
    assert!(!is_so("$ echo b >&2\nb\n"));
    assert!(!is_so("$ echo b\n[stderr]\nb\n"));
}

#[test]
fn widths_differ_only_where_a_value_stands_and_columns_stay_straight() {
    let shown =
        "$ print\nNAME  OWNER      AGE\na     {owner:a}  {duration}\nb     {owner:b}  {duration}\n";
    let head = "NAME  OWNER                        AGE\n";
    let (a, b) = ("web-1/4711/b01aab2164782358", "web-1/4711/b01aab2164782359");
    let is = |printed: &str| replayed(&page(shown), &Fixed::new(&[printed])).is_ok();
    assert!(is(&format!("{head}a     {a}  0s\nb     {b}  0s\n")));
    assert!(
        !is(&format!("{head}a     {a}   0s\nb     {b}  0s\n")),
        "one cell is shifted"
    );
    assert!(
        !is(&format!("{head}a     {a}  0s\nb     {b} 0s\n")),
        "a blank is no gap"
    );
    assert!(!is(&format!(
        "NAME   OWNER  AGE\na     {a}  0s\nb     {b}  0s\n"
    )));
    // Without a value, each blank counts.
    assert!(!is_so("$ echo 'a  b'\na   b\n"));
}

#[test]
fn a_captured_value_can_be_typed() {
    assert!(is_so(
        "$ echo 17; echo {host}\n{number:a}\nweb-1\n$ echo {number:a} {dir}\n17 /home/of/scene\n"
    ));
    assert!(!is_so("$ echo {number:a}\n17\n"));
}

#[test]
fn the_steps_of_a_scene_share_a_folder_and_may_span_lines() {
    assert!(is_so(
        "$ cat >file <<'EOF'\n> a\n>\n> b\n> EOF\n$ cat file\na\n\nb\n"
    ));
}

#[test]
fn no_screen_shows_the_password() {
    for stream in ["", " >&2"] {
        let block = format!("$ echo ge''heim{stream}\n[exit ?]\n");
        let (result, after) = played(&page(&block), &Fixed::new(&[]), Mode::Record);
        assert!(result.unwrap_err().contains("password"));
        assert_eq!(after, page(&block));
    }
}

#[test]
fn a_failure_shows_the_scene_and_both_screens() {
    let wrong = replayed(
        &page("$ printf 'a\\nb\\nc\\n'\na\nB\nc\n"),
        &Fixed::new(&[]),
    )
    .unwrap_err();
    assert!(wrong.contains("page.md:10: A scene\n"), "{wrong}");
    assert!(wrong.contains("    a\n  - B\n  + b\n    c\n"), "{wrong}");
}

#[test]
fn recording_keeps_what_still_matches_and_never_changes_a_code() {
    let stage = Fixed::new(&["new\n17 {number} \nold\n"]);
    let block = "$ print\n{number:a} {number} \nold\n$ exit 3\nx\n[exit 3]\n";
    let (result, _) = played(&page(block), &stage, Mode::Record);
    assert!(
        result.is_err(),
        "a placeholder in the output would not match itself"
    );

    let stage = Fixed::new(&["new\n17 files\nold\n"]);
    let block = "$ print\n{number} files\nold\n$ exit 3\nx\n[exit 3]\n";
    let (result, after) = played(&page(block), &stage, Mode::Record);
    result.unwrap();
    assert_eq!(
        after,
        page("$ print\nnew\n{number} files\nold\n$ exit 3\n[exit 3]\n")
    );

    let block = "$ echo a; exit 3\nb\n[exit 4]\n";
    let (result, after) = played(&page(block), &Fixed::new(&[]), Mode::Record);
    assert!(result.unwrap_err().contains("exit 3, not 4"));
    assert_eq!(after, page(block));

    let (result, after) = played(
        &page("$ exit 3\n[exit ?]\n"),
        &Fixed::new(&[]),
        Mode::Record,
    );
    result.unwrap();
    assert_eq!(after, page("$ exit 3\n[exit 3]\n"));
}

#[test]
fn recording_tells_values_by_their_form() {
    let owner = "web-1/4711/b01aab2164782358";
    let time = "%Y-%m-%dT%H:%M:%SZ";
    let printed = format!(
        "NAME  OWNER                        AGE  TOKEN\na     {owner}  0s   @(0 %s%6f)\n\
         held by {owner} until @(600 {time}), read @(0 {time}), by op@web-1 in /home/of/scene/x; 2020-01-01T00:00:00Z\n"
    );
    let stage = Fixed::new(&[&printed]);
    let block = "$ true 10m\n$ print\n";
    let (result, after) = played(&page(block), &stage, Mode::Record);
    result.unwrap();
    let expected = "$ true 10m\n$ print\nNAME  OWNER      AGE         TOKEN\na     {owner:a}  {duration}  {token}\n\
         held by {owner:a} until {time+10m}, read {time}, by op@{host} in {dir}/x; 2020-01-01T00:00:00Z\n";
    assert_eq!(after, page(expected));
}

#[test]
fn a_line_that_would_be_read_as_something_else_is_not_recorded() {
    for line in ["$ a", "> a", "```", "[exit 3]"] {
        let block = format!("$ echo '{line}'\n");
        let (result, after) = played(&page(&block), &Fixed::new(&[]), Mode::Record);
        assert!(result.unwrap_err().contains("cannot show"), "{line}");
        assert_eq!(after, page(&block));
    }
}

#[test]
fn nothing_is_recorded_under_ci() {
    assert_eq!(Mode::chosen(None, true), Ok(Mode::Compare));
    assert_eq!(Mode::chosen(Some("record"), false), Ok(Mode::Record));
    Mode::chosen(Some("record"), true).unwrap_err();
    Mode::chosen(Some("write"), false).unwrap_err();
}

#[test]
fn a_page_that_is_no_page_is_an_error() {
    for (text, why) in [
        ("## a\n```console\nb\n```\n", "begins with"),
        ("## a\n```console\n$ b\n", "not closed"),
        ("```console\n$ b\n```\n", "without a heading"),
        ("## a\n`colums: 80`\n", "no setting"),
        (
            "## a\n```console\n$ true\n```\n`columns: 80`\n",
            "above the first step",
        ),
    ] {
        let wrong = replayed(text, &Fixed::new(&[])).unwrap_err();
        assert!(wrong.contains(why), "{wrong}");
    }
}

#[test]
fn examples_move_with_the_replay() {
    let day = 86_400_000_000;
    let shown = "$ print\nOWNER                        AGE  UNTIL                 TOKEN\n\
                 web-2/4711/b01aab2164782358  0s   2026-11-24T03:00:00Z  1795489410269000\nsqlite 3.51.3\n";
    let of = |owner: &str, until: &str, token: &str| {
        format!(
            "OWNER                        AGE  UNTIL                 TOKEN\n{owner}  1h   {until}  {token}\nsqlite 3.52.0\n"
        )
    };
    let (owner, until, token) = (
        "web-2/4712/b01aab2164782359",
        "2026-11-25T03:01:00Z",
        "1795575810269001",
    );
    let is = |printed: &str| {
        let stage = Fixed::new(&[printed]).moved(-day);
        examples(&page(shown), &stage, Mode::Compare).0.is_ok()
    };
    assert!(is(&of(owner, until, token)));
    assert!(
        !is(&of(owner, "2026-11-24T03:00:00Z", token)),
        "a day too early"
    );
    assert!(!is(&of(owner, until, "1795489410269000")));
    assert!(!is(&of("web-2/4712/b01aab216478235", until, token)));

    let stage = Fixed::new(&["until 2026-11-25T03:01:00Z (1795575810269000)\n"]).moved(-day);
    let (result, after) = examples(&page("$ print\n"), &stage, Mode::Record);
    result.unwrap();
    assert_eq!(
        after,
        page("$ print\nuntil 2026-11-24T03:01:00Z (1795489410269000)\n")
    );

    // What is cut is cut anywhere in its last word.
    let cut = page("$ print\nuntil 2026-11-…\n");
    for (printed, is_accepted) in [
        ("until 2026…\n", true),
        ("until 2026-11-24\n", false),
        ("since 2026…\n", false),
    ] {
        let (result, _) = examples(&cut, &Fixed::new(&[printed]), Mode::Compare);
        assert_eq!(result.is_ok(), is_accepted, "{printed}");
    }

    // The same example is the same value.
    let twice = page("$ print\nweb-2/1/b01aab2164782358 web-2/1/b01aab2164782358\n");
    for (printed, is_accepted) in [
        ("web-2/2/b01aab2164782359 web-2/2/b01aab2164782359\n", true),
        ("web-2/2/b01aab2164782359 web-2/3/b01aab2164782359\n", false),
    ] {
        let (result, _) = examples(&twice, &Fixed::new(&[printed]), Mode::Compare);
        assert_eq!(result.is_ok(), is_accepted, "{printed}");
    }
}
