//! What sqlx 0.8 takes as a text.

/// A text, as sqlx takes it. It is never freed.
pub(crate) fn text(text: String) -> &'static str {
    text.leak()
}
