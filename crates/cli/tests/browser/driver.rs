//! Chromium, driven over WebDriver.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use shedlock_rig::process::Process;
use shedlock_rig::wait::{PATIENCE, eventually};
use shedlock_rig::{Running as Program, Signal};
use tempfile::TempDir;
use thirtyfour::common::capabilities::chromium::ChromiumLikeCapabilities as _;
use thirtyfour::{By, CapabilitiesHelper as _, DesiredCapabilities, WebDriver, WebElement};
use tokio::runtime::Runtime;

/// What `cargo xtask` found or installed.
#[derive(Default)]
pub(crate) struct Programs {
    chromium: PathBuf,
    chromedriver: PathBuf,
    pub(crate) axe: PathBuf,
}

impl Programs {
    /// `None` if there is no browser on this machine.
    pub(crate) fn find() -> Result<Option<Self>, String> {
        let mut found = Vec::new();
        for variable in ["CHROMIUM", "CHROMEDRIVER", "AXE"] {
            let variable = format!("SHEDLOCK_TEST_{variable}");
            let path = std::env::var(&variable)
                .map_err(|_| format!("{variable} is not set: run `cargo xtask test`"))?;
            if path == "unavailable" {
                return Ok(None);
            }
            found.push(PathBuf::from(path));
        }
        let [chromium, chromedriver, axe] = found.try_into().unwrap();
        Ok(Some(Self {
            chromium,
            chromedriver,
            axe,
        }))
    }
}

/// The driver of all browsers of this program.
pub(crate) struct Driver {
    programs: Arc<Programs>,
    running: Mutex<Option<Running>>,
}

struct Running {
    process: Program,
    url: String,
    /// Of all browsers.
    folder: TempDir,
}

impl Driver {
    pub(crate) fn new(programs: Arc<Programs>) -> Self {
        Self {
            programs,
            running: Mutex::default(),
        }
    }

    /// Opens a browser without a history. The first one starts the driver.
    pub(crate) fn open(&self) -> Result<Browser<'_>, String> {
        Programs::find()?;
        let mut running = self.running();
        let running = running.get_or_insert_with(|| Running::start(&self.programs));
        let profile = TempDir::new_in(running.folder.path()).unwrap();
        let runtime = Runtime::new().unwrap();
        let capabilities = capabilities(&self.programs, profile.path());
        let start = WebDriver::builder(&running.url, capabilities).request_timeout(PATIENCE);
        let driver = runtime.block_on(start.connect()).unwrap();
        Ok(Browser {
            programs: &self.programs,
            runtime,
            driver,
            _profile: profile,
        })
    }

    fn running(&self) -> MutexGuard<'_, Option<Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stops the driver, and browsers that are left.
    pub(crate) fn stop(&self) {
        let Some(mut running) = self.running().take() else {
            return;
        };
        running.process.signal(Signal::TERM);
        running.process.wait(PATIENCE).unwrap();
        // Their profiles identify our browsers.
        let left = || using(running.folder.path());
        left()
            .iter()
            .for_each(|browser| browser.signal(Signal::KILL));
        eventually("the end of all browsers", || left().is_empty());
    }
}

impl Running {
    fn start(programs: &Programs) -> Self {
        let folder = TempDir::new().unwrap();
        let mut command = Command::new(&programs.chromedriver);
        command
            .arg("--port=0")
            .env("HOME", folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let process = Program::start(&mut command);
        let process = process.expect("`cargo xtask test` installs chromedriver on Debian");
        let port = process.output.find(|line| {
            let (_, port) = line.split_once("started successfully on port ")?;
            port.trim_end_matches('.').parse::<u16>().ok()
        });
        Self {
            process,
            url: format!(
                "http://127.0.0.1:{}",
                port.expect("no port of chromedriver")
            ),
            folder,
        }
    }
}

/// Processes with this path in their command line.
fn using(path: &Path) -> Vec<Process> {
    let path = path.to_str().unwrap();
    let processes = fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let pid = entry.ok()?.file_name().to_str()?.parse().ok()?;
        let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let is_using = String::from_utf8_lossy(&line).contains(path);
        is_using.then(|| Process::find(pid))?
    });
    processes.collect()
}

fn capabilities(programs: &Programs, profile: &Path) -> thirtyfour::ChromeCapabilities {
    let mut chrome = DesiredCapabilities::chrome();
    chrome
        .set_binary(programs.chromium.to_str().unwrap())
        .unwrap();
    let mut arguments = vec![
        "--headless=new".to_owned(),
        format!("--user-data-dir={}", profile.display()),
        "--disable-gpu".to_owned(),
        "--disable-dev-shm-usage".to_owned(),
        "--disable-background-networking".to_owned(),
        "--disable-component-update".to_owned(),
        "--no-first-run".to_owned(),
        // Only these names exist.
        "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost".to_owned(),
    ];
    if rustix::process::geteuid().is_root() {
        arguments.push("--no-sandbox".to_owned());
    }
    for argument in arguments {
        chrome.add_arg(&argument).unwrap();
    }
    let logs = json!({"browser": "ALL", "performance": "ALL"});
    chrome.set("goog:loggingPrefs", logs).unwrap();
    chrome
}

/// A browser with one window. Its methods fail the test if something is not as expected.
pub(crate) struct Browser<'a> {
    programs: &'a Programs,
    runtime: Runtime,
    driver: WebDriver,
    _profile: TempDir,
}

impl Browser<'_> {
    pub(crate) fn open(&self, url: &str) {
        self.runtime.block_on(self.driver.goto(url)).unwrap();
    }

    pub(crate) fn url(&self) -> String {
        let url = self.runtime.block_on(self.driver.current_url());
        url.unwrap().to_string()
    }

    pub(crate) fn source(&self) -> String {
        self.runtime.block_on(self.driver.source()).unwrap()
    }

    /// The text of the page as a user sees it.
    pub(crate) fn text(&self) -> String {
        self.run("return document.body.innerText")
    }

    pub(crate) fn heading(&self) -> String {
        self.text_of(&self.find("h1"))
    }

    pub(crate) fn find(&self, selector: &str) -> WebElement {
        let found = self.runtime.block_on(self.driver.find(By::Css(selector)));
        found.unwrap_or_else(|error| panic!("{selector}: {error}\n{}", self.source()))
    }

    pub(crate) fn text_of(&self, element: &WebElement) -> String {
        self.runtime.block_on(element.text()).unwrap()
    }

    pub(crate) fn attribute(&self, element: &WebElement, name: &str) -> Option<String> {
        self.runtime.block_on(element.attr(name)).unwrap()
    }

    /// Clicks what the selector finds, which leads to another page, and waits for that page.
    pub(crate) fn follow(&self, selector: &str) {
        let element = self.find(selector);
        self.run::<Value>("document.documentElement.dataset.left = ''; return null");
        self.click(&element);
        // In between there may be no page.
        let script = "return document.readyState === 'complete' &&
                      !('left' in document.documentElement.dataset)";
        eventually("the next page", || {
            let result = self.runtime.block_on(self.driver.execute(script, []));
            result.is_ok_and(|it| it.json() == &Value::Bool(true))
        });
    }

    pub(crate) fn click(&self, element: &WebElement) {
        self.runtime.block_on(element.click()).unwrap();
    }

    /// Clicks what the selector finds, such as a checkbox, and stays on the page.
    pub(crate) fn tick(&self, selector: &str) {
        self.click(&self.find(selector));
    }

    pub(crate) fn write(&self, selector: &str, text: &str) {
        let element = self.find(selector);
        self.runtime.block_on(element.send_keys(text)).unwrap();
    }

    /// Runs the body of a function in the page.
    pub(crate) fn run<T: DeserializeOwned>(&self, script: &str) -> T {
        let result = self.runtime.block_on(self.driver.execute(script, []));
        let result = result.unwrap_or_else(|error| panic!("{script}: {error}"));
        result.convert().unwrap()
    }

    /// The same for a function that calls its last argument with the result.
    pub(crate) fn run_async<T: DeserializeOwned>(&self, script: &str) -> T {
        let patience = self.driver.set_script_timeout(PATIENCE);
        self.runtime.block_on(patience).unwrap();
        let result = self.runtime.block_on(self.driver.execute_async(script, []));
        result.unwrap().convert().unwrap()
    }

    /// A command of Chromium's own protocol.
    pub(crate) fn devtools(&self, command: &str, parameters: Value) -> Value {
        let cdp = self.driver.cdp();
        let reply = self.runtime.block_on(cdp.send_raw(command, parameters));
        reply.unwrap_or_else(|error| panic!("{command}: {error}"))
    }

    pub(crate) fn set_scheme(&self, scheme: &str) {
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.devtools("Emulation.setEmulatedMedia", json!({"features": features}));
    }

    pub(crate) fn set_width(&self, width: u32) {
        let size = json!({
            "width": width, "height": 800, "deviceScaleFactor": 1, "mobile": false
        });
        self.devtools("Emulation.setDeviceMetricsOverride", size);
        // As on a telephone.
        self.devtools("Emulation.setScrollbarsHidden", json!({"hidden": true}));
    }

    /// The source of axe-core.
    pub(crate) fn axe(&self) -> String {
        fs::read_to_string(&self.programs.axe).unwrap()
    }

    /// What Chromium has written to the console since the last call: errors, and violations of the
    /// Content-Security-Policy.
    pub(crate) fn console(&self) -> Vec<String> {
        let entries = self.runtime.block_on(self.driver.get_log("browser"));
        let entries = entries.unwrap().into_iter();
        let texts = entries.map(|entry| format!("{}: {}", entry.level, entry.message));
        texts.collect()
    }

    /// The URLs that were requested since the last call.
    pub(crate) fn requests(&self) -> Vec<String> {
        let entries = self.runtime.block_on(self.driver.get_log("performance"));
        let entries = entries.unwrap().into_iter();
        let urls = entries.filter_map(|entry| {
            let event: Value = serde_json::from_str(&entry.message).unwrap();
            let event = &event["message"];
            let is_request = event["method"] == "Network.requestWillBeSent";
            let url = event["params"]["request"]["url"].as_str()?;
            is_request.then(|| url.to_owned())
        });
        urls.filter(|url| url.contains("://") && !url.starts_with("chrome"))
            .collect()
    }

    /// Writes a picture of the whole page.
    pub(crate) fn picture(&self, file: &str) {
        let size: (f64, f64) = self.run(
            "const page = document.documentElement;
             return [page.clientWidth, Math.max(page.scrollHeight, 400)]",
        );
        let clip = json!({"x": 0, "y": 0, "width": size.0, "height": size.1, "scale": 1});
        let picture = self.devtools(
            "Page.captureScreenshot",
            json!({"format": "png", "captureBeyondViewport": true, "clip": clip}),
        );
        let picture = base64::Engine::decode(
            &base64::engine::general_purpose::STANDARD,
            picture["data"].as_str().unwrap(),
        );
        let folder = artifacts();
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(file), picture.unwrap()).unwrap();
    }

    /// Of a test that failed.
    pub(crate) fn keep_evidence(&self, name: &str) {
        let file = format!("failed-{name}.png");
        let picture = self.runtime.block_on(self.driver.screenshot_as_png());
        let Ok(picture) = picture else { return };
        let path = artifacts().join(file);
        let written = fs::create_dir_all(artifacts()).and_then(|()| fs::write(&path, picture));
        if written.is_ok() {
            eprintln!("at {}: {}", self.url(), path.display());
        }
    }

    pub(crate) fn close(self) {
        // The driver ends browsers that do not end on request.
        let _ = self.runtime.block_on(self.driver.quit());
    }
}

/// The folder of pictures.
fn artifacts() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("dashboard")
}
