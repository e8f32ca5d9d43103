//! Law 10: a name that is accepted round-trips exactly; two names never share a record.

use shedlock_core::{Attempt, Error, ErrorKind, Lease, LockName, SkipReason};

use crate::case::cases;
use crate::context::name;
use crate::steps::{abandon, acquire, is_free, record, skipped_as, still_holds, unlock};
use crate::verdict::ensure;
use crate::{Provider, Stop, TestContext, Verdict};

cases!("law10_names" [Names]:
    names_round_trip_exactly [Smoke],
    names_with_special_characters_are_only_names,
    names_that_look_alike_are_two_locks,
    names_that_are_one_path_are_two_locks,
    names_that_begin_alike_are_two_locks,
    names_up_to_the_declared_length_are_accepted,
    longer_names_are_refused_or_round_trip,
    the_names_of_companions_are_free,
);

/// Names up to the declared length round-trip exactly: letters of many scripts, blanks, separators,
/// quotes.
pub async fn names_round_trip_exactly(context: &TestContext) -> Verdict {
    let names = [
        "a",
        "payroll",
        "com.example.Job#run(java.lang.String)",
        "sync-42_b:c/d\\e|f@g$h&i=j+k,l;m",
        "two words",
        " a blank on both sides ",
        "'single' \"double\" `back` ´acute´",
        "Straße Ærøskøbing Łódź",
        "задание",
        "作業",
        "وظيفة",
        "e\u{301} is not é",
        "👩‍👩‍👧 family",
        "0",
        "-1",
        "~!@#$%^&*()_+{}|:<>?[]",
    ];
    round_trip(context, &names).await
}

/// Patterns, quotes and words that a store or its driver might interpret are only names.
pub async fn names_with_special_characters_are_only_names(context: &TestContext) -> Verdict {
    let names = [
        "'; DROP TABLE shedlock; --",
        "%",
        "_",
        "*",
        "?",
        "$1",
        "{}",
        "%s",
        "#{name}",
        "${name}",
        "NULL",
        "true",
        "..",
        "/",
        "a//b",
        "/a/",
        "*.>",
        "\\",
        "\\x00",
        "\u{200b}zero width",
        "right\u{202e}to left",
    ];
    round_trip(context, &names).await
}

/// Names that differ only by case, accents, blanks, or what a collation treats as equal are two
/// locks, or one of them is refused with an error that names the clash.
pub async fn names_that_look_alike_are_two_locks(context: &TestContext) -> Verdict {
    let pairs = [
        ("job", "JOB"),
        ("job", "Job"),
        ("job", "job "),
        ("job", " job"),
        ("job", "job\u{a0}"),
        ("job", "job\u{200b}"),
        ("job", "ｊｏｂ"),
        ("resume", "résumé"),
        ("caf\u{e9}", "cafe\u{301}"),
        ("strasse", "straße"),
        ("istanbul", "İstanbul"),
        ("kelvin", "\u{212a}elvin"),
        ("ae", "æ"),
        ("👍", "👎"),
        ("👍", "👍🏽"),
        ("a/b", "a_b"),
        ("a/b", "a\\b"),
        ("a.b", "a:b"),
        ("a-b", "a\u{2010}b"),
        ("a b", "a+b"),
        ("a b", "a%20b"),
        ("a", "'a'"),
        ("1", "01"),
        ("1", "1.0"),
    ];
    two_locks_each(context, &pairs).await
}

/// A name in a path or a URL must not be normalized, and must not end at a delimiter.
pub async fn names_that_are_one_path_are_two_locks(context: &TestContext) -> Verdict {
    let pairs = [
        ("a/b", "a//b"),
        ("a/b", "a/b/"),
        ("a/b", "a/./b"),
        ("a/b", "a/c/../b"),
        ("a/b", "a%2Fb"),
        ("a/b", "a%2fb"),
        ("a", "a/"),
        ("a", "a/."),
        ("a", "a?b"),
        ("a", "a#b"),
        ("a", "a;b"),
        ("a", "a%00"),
    ];
    two_locks_each(context, &pairs).await
}

/// Names that differ only at their end are two locks, even in a store that truncates names.
pub async fn names_that_begin_alike_are_two_locks(context: &TestContext) -> Verdict {
    let provider = context.provider().await?;
    for shared in [63, 64, 127, 128, 249, 254, 255, 256, 511, 512, 1_023, 1_024] {
        let pair = ["a", "b"].map(|end| format!("{}{end}", "x".repeat(shared)));
        two_locks(context, &provider, &pair).await?;
    }
    Ok(())
}

/// Names up to the declared length are accepted: ASCII and, if they fit, multi-byte characters.
pub async fn names_up_to_the_declared_length_are_accepted(context: &TestContext) -> Verdict {
    let longest = context.capabilities().longest_name.min(4_096);
    let provider = context.provider().await?;
    for text in [
        "x".repeat(longest.min(64)),
        "x".repeat(longest - 1),
        "x".repeat(longest),
        "é".repeat(longest / 2),
        "👍".repeat(longest / 4),
    ] {
        let lease = acquire(&provider, &context.request(&name(&text))).await?;
        its_own(&provider, &lease).await?;
        unlock(&provider, &lease).await?;
    }
    Ok(())
}

/// Longer names are refused as invalid input before anything is written, or accepted whole.
pub async fn longer_names_are_refused_or_round_trip(context: &TestContext) -> Verdict {
    let longest = context.capabilities().longest_name;
    let provider = context.provider().await?;
    for length in [longest.saturating_add(1), 300, 1_100, 5_000, 70_000] {
        if length > 100_000 {
            continue;
        }
        let long = name(&"y".repeat(length));
        if let Some(lease) = try_name(context, &provider, &long).await? {
            its_own(&provider, &lease).await?;
            skipped_as(&provider, &context.request(&long), SkipReason::Held).await?;
            unlock(&provider, &lease).await?;
        }
    }
    Ok(())
}

/// Data that a provider keeps next to a record (token, slot, history) must not clash with a lock of
/// that name.
pub async fn the_names_of_companions_are_free(context: &TestContext) -> Verdict {
    let provider = context.provider().await?;
    let job = name("job");
    let mut request = context.request(&job);
    if context.capabilities().slots {
        let slot = context
            .slot_before_now(&provider, std::time::Duration::from_secs(60))
            .await?;
        request = request.with_slot(slot);
    }
    let lease = acquire(&provider, &request).await?;
    let words = [
        "token",
        "fence",
        "fencing",
        "fencing_token",
        "slot",
        "meta",
        "lock",
        "shedlock",
    ];
    for word in words {
        for separator in [":", "/", ".", "_", "-", " ", "#", "@"] {
            for other in [
                format!("job{separator}{word}"),
                format!("{word}{separator}job"),
            ] {
                let other = name(&other);
                is_free(&provider, &other).await?;
                abandon(&provider, &context.request(&other)).await?;
            }
        }
    }
    still_holds(&provider, &lease).await?;
    unlock(&provider, &lease).await
}

async fn round_trip(context: &TestContext, names: &[&str]) -> Verdict {
    let (first, second) = context.two().await?;
    let mut leases = Vec::new();
    for text in names {
        leases.push(acquire(&first, &context.request(&name(text))).await?);
    }
    // All are held at once: none took another's record.
    for lease in &leases {
        its_own(&second, lease).await?;
        let request = context.request(lease.name());
        skipped_as(&second, &request, SkipReason::Held).await?;
    }
    for lease in &leases {
        unlock(&first, lease).await?;
    }
    Ok(())
}

/// Checks that the record has exactly this name and is held by this lease.
async fn its_own(provider: &Provider, lease: &Lease) -> Verdict {
    still_holds(provider, lease).await?;
    let found = record(provider, lease.name()).await?;
    ensure!(
        found.name == *lease.name(),
        "requested the record of {:?}, but got that of {:?}",
        lease.name(),
        found.name
    );
    Ok(())
}

async fn two_locks_each(context: &TestContext, pairs: &[(&str, &str)]) -> Verdict {
    let provider = context.provider().await?;
    for (i, (left, right)) in pairs.iter().enumerate() {
        // The number keeps the pairs distinct.
        let pair = [format!("{i}.{left}"), format!("{i}.{right}")];
        two_locks(context, &provider, &pair).await?;
    }
    Ok(())
}

async fn two_locks(context: &TestContext, provider: &Provider, pair: &[String; 2]) -> Verdict {
    let mut leases = Vec::new();
    for text in pair {
        leases.extend(try_name(context, provider, &name(text)).await?);
    }
    for lease in &leases {
        its_own(provider, lease).await?;
    }
    for (i, lease) in leases.iter().enumerate() {
        unlock(provider, lease).await?;
        for other in &leases[i + 1..] {
            its_own(provider, other).await?;
        }
    }
    Ok(())
}

/// Returns a lease, or `None` if the name was refused with a permitted error. A skip is always
/// wrong: no other owner attempts this name.
async fn try_name(
    context: &TestContext,
    provider: &Provider,
    name: &LockName,
) -> Result<Option<Lease>, Stop> {
    match provider.attempt(&context.request(name)).await {
        Ok(Attempt::Acquired(lease)) => Ok(Some(lease)),
        Ok(answer) => Err(Stop::failed(format!(
            "no one holds {name:?}, but the attempt returned {answer:?}: it shares the record of \
             another name"
        ))),
        Err(error) => {
            names_are_at_fault(&error)?;
            let length = name.as_str().len();
            ensure!(
                length > context.capabilities().longest_name || error.kind() == ErrorKind::Conflict,
                "names of up to {} bytes are declared as accepted, but one of {length} bytes was \
                 refused: {error}",
                context.capabilities().longest_name
            );
            Ok(None)
        }
    }
}

fn names_are_at_fault(error: &Error) -> Verdict {
    ensure!(
        matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::Conflict),
        "a name that the store cannot hold should be refused as invalid input or as a conflict, \
         but got {error:?}"
    );
    Ok(())
}
