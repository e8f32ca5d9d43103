//! Chromium, and the program that drives it.

use std::io::{BufRead as _, BufReader};
use std::ops::Deref;
use std::process::{Child, Command, Stdio};

use fantoccini::wd::WebDriverCompatibleCommand;
use fantoccini::{Client, ClientBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Map, Value, json};

/// A chromedriver that stops with the test.
pub(crate) struct Driver {
    child: Child,
    url: String,
}

/// How the browser is set up.
pub(crate) struct Look {
    options: Value,
}

/// A browser that is open.
pub(crate) struct Browser(Client);

impl Look {
    pub(crate) fn of_width(width: u32) -> Self {
        // A window of Chromium cannot be as narrow as a telephone.
        let metrics = json!({ "width": width, "height": 900, "pixelRatio": 1.0, "mobile": false });
        Self::new(json!({ "mobileEmulation": { "deviceMetrics": metrics } }))
    }

    pub(crate) fn without_scripts() -> Self {
        let off = json!({ "profile.managed_default_content_settings.javascript": 2 });
        Self::new(json!({ "prefs": off }))
    }

    fn new(mut options: Value) -> Self {
        // Root has no sandbox, and containers have little shared memory.
        options["args"] = json!([
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--window-size=1440,900"
        ]);
        Self { options }
    }
}

impl Driver {
    pub(crate) fn start() -> Self {
        let needed = "Chromium is needed: on Debian `apt-get install -y chromium chromium-driver`";
        let mut child = Command::new("chromedriver")
            .arg("--port=0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect(needed);
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let started = "started successfully on port ";
        let port = lines.map(Result::unwrap).find_map(|line| {
            let (_, port) = line.split_once(started)?;
            Some(port.trim_end_matches('.').to_owned())
        });
        let url = format!("http://localhost:{}", port.expect("chromedriver starts"));
        Self { child, url }
    }

    pub(crate) async fn open(&self, look: &Look) -> Browser {
        let mut wanted = Map::new();
        wanted.insert("goog:chromeOptions".to_owned(), look.options.clone());
        wanted.insert("goog:loggingPrefs".to_owned(), json!({ "browser": "ALL" }));
        let mut builder = ClientBuilder::new(HttpConnector::new());
        let opened = builder.capabilities(wanted).connect(&self.url).await;
        Browser(opened.unwrap())
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Browser {
    /// Sets the colour scheme that the reader prefers.
    pub(crate) async fn prefer(&self, scheme: &str) {
        let feature = json!({ "name": "prefers-color-scheme", "value": scheme });
        let body = json!({
            "cmd": "Emulation.setEmulatedMedia",
            "params": { "features": [feature] },
        });
        let path = "goog/cdp/execute";
        self.0.issue_cmd(Extension { path, body }).await.unwrap();
    }

    /// What the browser has reported since the last call, such as violations of the policy.
    pub(crate) async fn console(&self) -> Vec<String> {
        let body = json!({ "type": "browser" });
        let lines = self
            .0
            .issue_cmd(Extension {
                path: "se/log",
                body,
            })
            .await;
        let lines = lines.unwrap();
        let lines = lines.as_array().unwrap().iter();
        lines.map(|line| line["message"].to_string()).collect()
    }

    pub(crate) async fn end(self) {
        self.0.close().await.unwrap();
    }
}

impl Deref for Browser {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.0
    }
}

/// A command that only chromedriver has.
#[derive(Debug)]
struct Extension {
    path: &'static str,
    body: Value,
}

impl WebDriverCompatibleCommand for Extension {
    fn endpoint(
        &self,
        base: &url::Url,
        session: Option<&str>,
    ) -> Result<url::Url, url::ParseError> {
        let session = session.unwrap_or_default();
        base.join(&format!("session/{session}/{}", self.path))
    }

    fn method_and_body(&self, _: &url::Url) -> (http::Method, Option<String>) {
        (http::Method::POST, Some(self.body.to_string()))
    }
}
