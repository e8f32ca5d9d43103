//! URLs of SQLite files.

use std::path::{Path, PathBuf};

use percent_encoding::percent_decode_str;

use super::url::with_option;
use crate::exit::Failure;

/// Refuses a path that depends on the current directory.
///
/// cron, systemd and a shell start commands in different directories. Each would lock in a file of
/// its own, and the command would run more than once at a time.
pub(super) fn check(url: &str, from: &str) -> Result<(), Failure> {
    let Some((path, options)) = split(url) else {
        return Ok(());
    };
    let is_absolute = path.starts_with('/') || path.to_ascii_lowercase().starts_with("%2f");
    // The provider refuses these.
    let is_no_path = path.is_empty() || path.contains(":memory:");
    if is_absolute || is_no_path {
        return Ok(());
    }
    // Two slashes before a path that exists at the root: the third is missing.
    let at_root = Path::new("/").join(path);
    let is_at_root = url.contains("://") && at_root.parent().is_some_and(is_folder_below_root);
    let folder = if is_at_root {
        String::new()
    } else {
        let folder = std::env::current_dir().unwrap_or_default();
        encoded(&folder.to_string_lossy())
    };
    let path = path.strip_prefix("./").unwrap_or(path);
    Err(Failure::usage(format!(
        "{from}: the path {path:?} is relative, so commands started in different directories would use \
         different files; write an absolute path, like \
         sqlite:{folder}/{path}{options}"
    )))
}

fn is_folder_below_root(path: &Path) -> bool {
    path.parent().is_some() && path.is_dir()
}

/// The URL with which a missing file or table is not created. `None` if it is another store's.
pub(super) fn existing(url: &str) -> Option<String> {
    split(url)?;
    Some(with_option(url, "create", "false"))
}

/// The URL of this file. `None` if the path is not UTF-8.
pub(super) fn url_of(file: &Path) -> Option<String> {
    Some(format!("sqlite:{}", encoded(file.to_str()?)))
}

/// The file of this URL. `None` if it is another store's.
pub(super) fn file(url: &str) -> Option<PathBuf> {
    let (path, _) = split(url)?;
    let path = percent_decode_str(path).decode_utf8().ok()?;
    Some(PathBuf::from(&*path))
}

fn encoded(path: &str) -> String {
    let path = path.replace('%', "%25");
    path.replace('?', "%3F").replace('#', "%23")
}

/// The path as it is written, and the options with their `?`. `None` if it is another store's URL.
fn split(url: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = url.split_once(':')?;
    if !scheme.eq_ignore_ascii_case("sqlite") {
        return None;
    }
    let (path, options) = rest.split_at(rest.find('?').unwrap_or(rest.len()));
    Some((path.strip_prefix("//").unwrap_or(path), options))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_url_of_an_existing_file_keeps_its_options() {
        for (url, other) in [
            ("sqlite:/a.db", Some("sqlite:/a.db?create=false")),
            ("sqlite:///a.db?", Some("sqlite:///a.db?create=false")),
            (
                "SQLite:/a.db?create=true&table=t",
                Some("SQLite:/a.db?table=t&create=false"),
            ),
            ("postgres://h/d", None),
            ("nonsense", None),
        ] {
            assert_eq!(existing(url).as_deref(), other, "{url}");
        }
        assert_eq!(
            url_of(Path::new("/ä s?/50%#.db")).unwrap(),
            "sqlite:/ä s%3F/50%25%23.db"
        );
    }

    #[test]
    fn the_file_of_a_url_has_no_options() {
        let file = |url| file(url).map(|file| file.display().to_string());
        assert_eq!(file("sqlite:/a%20b.db?table=t").as_deref(), Some("/a b.db"));
        assert_eq!(file("sqlite:///a.db").as_deref(), Some("/a.db"));
        assert_eq!(file("postgres://h/d"), None);
    }

    #[test]
    fn paths_that_depend_on_the_directory_are_refused() {
        for url in [
            "sqlite:a.db",
            "sqlite://a.db?table=t",
            "sqlite:~/a.db",
            "SQLITE:./a",
        ] {
            let failure = check(url, "--store").unwrap_err();
            assert!(failure.message().starts_with("--store: the path"), "{url}");
        }
        for url in [
            "sqlite:/a.db",
            "sqlite:///a",
            "sqlite:%2fa",
            "sqlite:",
            "mysql:a",
            "",
        ] {
            assert!(check(url, "--store").is_ok(), "{url}");
        }
    }
}
