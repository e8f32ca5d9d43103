//! A look at the server and the collection: are they such that locks can be kept there.

use mongodb::bson::doc;
use shedlock_core::{Error, ErrorKind};

use crate::send::{Commands, is_weak};

/// Asks the server. Warns of what works, but not as its users may think.
///
/// # Errors
/// `Configuration` for what is no collection of documents of its own, and where it may not be read.
pub(crate) async fn check(commands: &Commands) -> Result<(), Error> {
    // Also that the collection may be read.
    commands.ask(vec![doc! { "$limit": 1 }], None).await?;
    let concern = commands.collection().write_concern();
    if is_weak(concern) {
        tracing::warn!(
            collection = commands.collection().name(),
            "the collection's write concern is weaker than a majority that has the write in its \
             journal: a new primary may not know a lock that was taken, and somebody else takes it \
             again"
        );
    }
    // Who may use a collection need not be allowed to ask what it is.
    let Ok(Some(described)) = commands.describe().await else {
        return Ok(());
    };
    if described
        .get_str("type")
        .is_ok_and(|kind| kind != "collection")
    {
        return Err(Error::new(
            ErrorKind::Configuration,
            format!(
                "{} is a {}, in which no locks can be kept: use another collection",
                commands.collection().name(),
                described.get_str("type").unwrap_or_default()
            ),
        ));
    }
    let options = described.get_document("options");
    let collation = options.and_then(|options| options.get_document("collation"));
    if collation.is_ok_and(|collation| {
        collation
            .get_str("locale")
            .is_ok_and(|locale| locale != "simple")
    }) {
        tracing::warn!(
            collection = commands.collection().name(),
            "the collection was made with a collation: names that it takes for the same cannot both \
             be locks, and finding a lock may take longer; use a collection without one"
        );
    }
    Ok(())
}
