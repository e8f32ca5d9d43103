//! The person who runs this command, as the environment claims.

/// The user's name.
pub(crate) fn user() -> String {
    ["SUDO_USER", "USER", "LOGNAME"]
        .into_iter()
        .find_map(|name| std::env::var(name).ok().filter(|user| !user.is_empty()))
        .unwrap_or_else(|| format!("uid-{}", rustix::process::getuid().as_raw()))
}

/// The user and this host.
pub(crate) fn at_host() -> String {
    let system = rustix::system::uname();
    format!("{}@{}", user(), system.nodename().to_string_lossy())
}
