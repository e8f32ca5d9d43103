//! The laws over a real Consul server.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use reqwest::Client;
use serde_json::{Value, json};
use shedlock_conformance::contention::{self, CLIENTS, ROUNDS};
use shedlock_conformance::support::{address, unique};
use shedlock_conformance::{
    BoxError, Cost, Harness, Namespace, OptionalAction, Provider, RoundTrips, Stop, StoreProfile,
    Verdict, action, prefixed,
};
use shedlock_consul::ConsulProvider;
use shedlock_core::{BoxFuture, Clock, LockName};
use shedlock_rig::OwnServer;
use shedlock_rig::given::server;
use shedlock_torture::TortureNamespace;

/// The tolerated skew here: less than the default, because cases wait for it.
const SKEW: Duration = Duration::from_millis(100);

fn main() -> ExitCode {
    // With TLS, clients use the crypto library that the program has chosen.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let server = server("consul");
    let race = race(server.clone());
    let straight = Arc::new(Consul { server }) as Arc<dyn Harness>;
    shedlock_torture::main_after::<Keys>(race, [Arc::new(prefixed(&straight)), straight])
}

/// Sends one operation, as a person would.
async fn transact(client: &Client, server: &str, operation: Value) -> Result<Value, BoxError> {
    let url = format!("{}/v1/txn", server.replace("consul://", "http://"));
    let answer = client.put(url).json(&json!([{ "KV": operation }]));
    Ok(answer.send().await?.json().await?)
}

/// Raw clients race for one key. Each names the key's index, as attempts do.
async fn race(server: String) -> Verdict {
    let clients: Vec<_> = (0..CLIENTS).map(|_| Client::new()).collect();
    let key = unique("race");
    let index = Arc::new(AtomicU64::new(0));
    let verdict = contention::judge(ROUNDS, &clients, |client, _| {
        let (server, key, index) = (server.clone(), key.clone(), Arc::clone(&index));
        let before = index.load(Ordering::SeqCst);
        async move {
            let value = unique("d29u").replace('_', "");
            let value = &value[..value.len() / 4 * 4];
            let write = json!({ "Verb": "cas", "Key": key, "Value": value, "Index": before });
            let answer = transact(&client, &server, write).await?;
            let written = answer["Results"][0]["KV"]["ModifyIndex"].as_u64();
            if let Some(written) = written {
                index.store(written, Ordering::SeqCst);
            }
            Ok(written.is_some())
        }
    });
    let verdict = verdict.await;
    let delete = json!({ "Verb": "delete", "Key": key });
    let deleted = transact(&clients[0], &server, delete).await;
    deleted.map_err(|error| Stop::failed(error.to_string()))?;
    verdict
}

struct Consul {
    server: String,
}

impl Harness for Consul {
    fn name(&self) -> &str {
        "consul"
    }

    fn namespace(&self) -> BoxFuture<'_, Result<Arc<dyn Namespace>, BoxError>> {
        Box::pin(async { Ok(Arc::new(Keys::new(&self.server, None)) as Arc<dyn Namespace>) })
    }

    fn open_child<'a>(&'a self, spec: &'a str) -> OptionalAction<'a, Provider> {
        action(open(spec))
    }

    fn namespace_on_own_store(&self) -> OptionalAction<'_, Arc<dyn Namespace>> {
        action(async {
            let own = OwnServer::start("consul", &[])?;
            let server = own.url().to_owned();
            Ok(Arc::new(Keys::new(&server, Some(own))) as Arc<dyn Namespace>)
        })
    }

    /// The profile of a provider with the default tolerated skew.
    fn profile(&self) -> OptionalAction<'_, StoreProfile> {
        action(async {
            let provider = Arc::new(ConsulProvider::connect(&self.server).await?);
            Ok(StoreProfile::new("Consul", "tests/profiles/consul.json")
                .of_provider(provider)
                .says("law12", "–")
                .says("tested_on", "1.8"))
        })
    }

    fn round_trips(&self) -> Option<RoundTrips> {
        Some(RoundTrips::COMPARE_AND_SWAP)
    }

    fn cost(&self) -> Cost {
        Cost::COMPARE_AND_SWAP
    }
}

/// Keys under a prefix of their own.
struct Keys {
    server: String,
    prefix: String,
    url: String,
    own: Option<OwnServer>,
}

async fn open(url: &str) -> Result<Provider, BoxError> {
    Ok(Arc::new(ConsulProvider::connect(url).await?))
}

/// For servers that are stopped, and connections that are cut. A server that is only busy gets the default limits.
const LIMITS: &str = "&connect_timeout=1s&response_timeout=2500ms";

impl Keys {
    fn new(server: &str, own: Option<OwnServer>) -> Self {
        let space = unique("space");
        Self {
            server: server.to_owned(),
            url: format!(
                "{server}/tests/{space}?tolerated_skew={}ms{}",
                SKEW.as_millis(),
                own.as_ref().map_or("", |_| LIMITS)
            ),
            prefix: format!("tests/{space}/"),
            own,
        }
    }

    async fn ask(&self, operation: Value) -> Result<(), BoxError> {
        let answer = transact(&Client::new(), &self.server, operation).await?;
        if answer["Errors"].is_null() {
            return Ok(());
        }
        Err(answer.to_string().into())
    }
}

impl Namespace for Keys {
    fn provider(&self) -> BoxFuture<'_, Result<Provider, BoxError>> {
        Box::pin(open(&self.url))
    }

    fn close(&self) -> BoxFuture<'_, Result<(), BoxError>> {
        Box::pin(async {
            if self.own.is_some() {
                return Ok(());
            }
            self.ask(json!({ "Verb": "delete-tree", "Key": self.prefix }))
                .await
        })
    }

    fn delete_record<'a>(&'a self, name: &'a LockName) -> OptionalAction<'a, ()> {
        let key = format!("{}{name}", self.prefix);
        action(self.ask(json!({ "Verb": "delete", "Key": key })))
    }

    fn write_foreign<'a>(&'a self, name: &'a LockName, data: &'a [u8]) -> OptionalAction<'a, ()> {
        use base64::Engine as _;
        let value = base64::engine::general_purpose::STANDARD.encode(data);
        let key = format!("{}{name}", self.prefix);
        action(self.ask(json!({ "Verb": "set", "Key": key, "Value": value })))
    }

    /// The keys themselves are the only container.
    fn drop_container(&self) -> OptionalAction<'_, ()> {
        action(self.ask(json!({ "Verb": "delete-tree", "Key": self.prefix })))
    }

    fn restore_container(&self) -> OptionalAction<'_, ()> {
        action(async { Ok(()) })
    }

    fn provider_with_clock(&self, clock: Arc<dyn Clock>) -> OptionalAction<'_, Provider> {
        action(async {
            let builder = ConsulProvider::builder(Client::new())
                .agent(self.server.replace("consul://", "http://"))
                .key_prefix(&self.prefix);
            let provider = builder.tolerated_skew(SKEW).clock(clock).build()?;
            Ok(Arc::new(provider) as Provider)
        })
    }

    fn store_addr(&self) -> Option<SocketAddr> {
        address(&self.server, 8500)
    }

    fn provider_via(&self, addr: SocketAddr) -> OptionalAction<'_, Provider> {
        let url = self.child_spec_via(addr)?;
        action(async move { open(&url).await })
    }

    fn child_spec(&self) -> Option<String> {
        Some(self.url.clone())
    }

    fn stop_store(&self) -> OptionalAction<'_, ()> {
        let own = self.own.as_ref()?;
        action(async { own.kill() })
    }

    fn start_store(&self) -> OptionalAction<'_, ()> {
        let own = self.own.as_ref()?;
        action(async { own.start_again() })
    }
}

impl TortureNamespace for Keys {
    fn child_spec_via(&self, addr: SocketAddr) -> Option<String> {
        let through = self.url.replace(&self.server, &format!("consul://{addr}"));
        let limits = if self.own.is_some() { "" } else { LIMITS };
        Some(through + limits)
    }

    fn store_version(&self) -> OptionalAction<'_, String> {
        action(async {
            let url = self.server.replace("consul://", "http://") + "/v1/agent/self";
            let told: Value = Client::new().get(url).send().await?.json().await?;
            let version = told["Config"]["Version"].as_str();
            Ok(format!("Consul {}", version.ok_or("no version")?))
        })
    }
}
