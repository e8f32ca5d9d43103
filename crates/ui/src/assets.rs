//! The style sheet, the script and the icon, which are part of the program.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::LazyLock;

use axum::extract::Path;
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};

pub(crate) struct Asset {
    /// Contains a hash of the text, so that a browser may keep it for ever.
    pub(crate) name: String,
    kind: &'static str,
    text: &'static str,
}

pub(crate) static STYLE: LazyLock<Asset> = LazyLock::new(|| {
    let text = include_str!("../assets/style.css");
    Asset::new("style", "css", "text/css; charset=utf-8", text)
});

pub(crate) static SCRIPT: LazyLock<Asset> = LazyLock::new(|| {
    let text = include_str!("../assets/script.js");
    Asset::new("script", "js", "text/javascript; charset=utf-8", text)
});

pub(crate) static ICON: LazyLock<Asset> = LazyLock::new(|| {
    let text = include_str!("../assets/icon.svg");
    Asset::new("icon", "svg", "image/svg+xml", text)
});

impl Asset {
    fn new(stem: &str, extension: &str, kind: &'static str, text: &'static str) -> Self {
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        let name = format!("{stem}.{:016x}.{extension}", hasher.finish());
        Self { name, kind, text }
    }
}

pub(crate) async fn asset(Path(name): Path<String>) -> Response {
    let assets = [&*STYLE, &*SCRIPT, &*ICON];
    let Some(asset) = assets.into_iter().find(|asset| asset.name == name) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let headers = [
        (CONTENT_TYPE, asset.kind),
        (CACHE_CONTROL, "public, max-age=31536000, immutable"),
    ];
    (headers, asset.text).into_response()
}
