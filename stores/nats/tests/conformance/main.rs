//! The laws over real NATS servers: 2.9; 2.10, which begins a bucket with the clock; and 2.12, which writes both keys
//! of a lock in one step.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_nats::{Client, HeaderMap};
use serde_json::{Value, json};
use shedlock_conformance::contention::{self, CLIENTS, ROUNDS};
use shedlock_conformance::support::{address, unique};
use shedlock_conformance::{
    BoxError, Cost, Harness, JavaRecord, Namespace, OptionalAction, Provider, RoundTrips, Scope,
    Stop, StoreProfile, Tag, Verdict, action, prefixed,
};
use shedlock_core::{BoxFuture, Clock, LockName, Owner};
use shedlock_nats::NatsProvider;
use shedlock_rig::OwnServer;
use shedlock_rig::given::{needs_store, server_if_any};
use shedlock_torture::TortureNamespace;

/// The tolerated skew here: less than the default, because cases wait for it.
const SKEW: Duration = Duration::from_millis(100);

/// The names of the servers.
const SERVERS: [&str; 3] = ["nats", "nats210", "nats212"];

fn main() -> ExitCode {
    let found: Vec<_> = SERVERS
        .into_iter()
        .filter_map(|name| {
            Some(Arc::new(Nats {
                name,
                server: server_if_any(name)?,
                version: OnceLock::new(),
            }))
        })
        .collect();
    if found.is_empty() {
        needs_store("nats");
    }
    let races = found.clone();
    let race = async move {
        for nats in &races {
            race(nats).await?;
        }
        Ok(())
    };
    let mut harnesses: Vec<Arc<dyn Harness>> = Vec::new();
    for nats in found {
        harnesses.push(nats);
        // One of them also runs behind a prefix.
        if let [straight] = &harnesses[..] {
            let prefixed = prefixed(straight);
            harnesses.push(Arc::new(prefixed));
        }
    }
    shedlock_torture::main_after::<Bucket>(race, harnesses)
}

/// Raw clients race for one subject. Each names the subject's last sequence, as attempts do.
async fn race(nats: &Nats) -> Verdict {
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(async_nats::connect(&nats.server).await?);
    }
    let version = clients[0].server_info().version;
    let mut numbers = version.split('.').map_while(|part| part.parse().ok());
    let version = numbers.next().zip(numbers.next());
    let _ = nats.version.set(version.unwrap_or_default());
    let stream = unique("race");
    let settings = json!({ "name": stream, "subjects": [stream], "storage": "file" });
    let create = format!("$JS.API.STREAM.CREATE.{stream}");
    let made = clients[0].request(create, settings.to_string().into());
    let made: Value = serde_json::from_slice(&made.await?.payload)?;
    if made.get("error").is_some() {
        return Err(Stop::failed(format!("no stream could be made: {made}")));
    }
    let verdict = contention::judge(ROUNDS, &clients, |client, round| {
        let mut headers = HeaderMap::new();
        let last = (round - 1).to_string();
        headers.insert("Nats-Expected-Last-Subject-Sequence", &*last);
        let subject = stream.clone();
        async move {
            let sent = client.request_with_headers(subject, headers, "mine".into());
            let answer: Value = serde_json::from_slice(&sent.await?.payload)?;
            Ok(answer.get("error").is_none())
        }
    });
    let verdict = verdict.await;
    let delete = format!("$JS.API.STREAM.DELETE.{stream}");
    clients[0].request(delete, "".into()).await?;
    verdict
}

/// For servers that are stopped, and connections that are cut. A server that is only busy gets the default limits.
const LIMITS: &str = "&connect_timeout=1500ms&response_timeout=2500ms";

/// Asserts that the server keeps everything it has confirmed.
const SYNC_ALWAYS: &str = "&sync_always=true";

struct Nats {
    name: &'static str,
    server: String,
    /// The first two numbers of the server's version.
    version: OnceLock<(u32, u32)>,
}

impl Nats {
    /// Whether the server writes both keys of a lock in one step.
    fn is_atomic(&self) -> bool {
        self.version.get() >= Some(&(2, 12))
    }
}

impl Harness for Nats {
    fn name(&self) -> &str {
        self.name
    }

    /// The oldest and the newest server run the whole kit. The one between them writes as the oldest does, into buckets
    /// that begin as the newest's do.
    fn scope(&self) -> Scope {
        if self.name == "nats210" {
            Scope::About(&[Tag::Fencing, Tag::Slots, Tag::Record, Tag::Declared])
        } else {
            Scope::Whole
        }
    }

    fn namespace(&self) -> BoxFuture<'_, Result<Arc<dyn Namespace>, BoxError>> {
        Box::pin(async {
            Ok(Arc::new(Bucket::make(&self.server, None).await?) as Arc<dyn Namespace>)
        })
    }

    fn open_child<'a>(&'a self, spec: &'a str) -> OptionalAction<'a, Provider> {
        action(open(spec.to_owned()))
    }

    fn namespace_on_own_store(&self) -> OptionalAction<'_, Arc<dyn Namespace>> {
        action(async move {
            let own = OwnServer::start(self.name, &[])?;
            let url = own.url().to_owned();
            Ok(Arc::new(Bucket::make(&url, Some(own)).await?) as Arc<dyn Namespace>)
        })
    }

    /// The limit is the bucket's own.
    fn namespace_to_fill(&self) -> OptionalAction<'_, Arc<dyn Namespace>> {
        Some(self.namespace())
    }

    /// The profile of a provider with the default tolerated skew.
    fn profile(&self) -> OptionalAction<'_, StoreProfile> {
        // One profile covers all servers.
        if self.name != "nats" {
            return None;
        }
        action(async {
            let bucket = Bucket::make(&self.server, None).await?;
            let builder = NatsProvider::builder(bucket.admin.clone());
            let provider = Arc::new(builder.bucket(&bucket.name).build()?);
            Ok(StoreProfile::new("NATS", "tests/profiles/nats.json")
                .of_provider(provider)
                .shares_records()
                .says("durable", "only with `sync_interval: always`")
                .says(
                    "law13",
                    "3 / 3 / 1 / 2 / 2; 2.12 and later: 2 / 2 / 1 / 2 / 2",
                )
                .says("tested_on", "2.9, 2.10, 2.12; by hand 2.15"))
        })
    }

    /// An acquisition reads both keys, writes the companion key and writes the lock; the two writes are one step if the
    /// server supports that. An extension and an unlock read what they replace, because its sequence can repeat.
    fn round_trips(&self) -> Option<RoundTrips> {
        let won = if self.is_atomic() { 2 } else { 3 };
        Some(RoundTrips {
            won,
            first: won,
            lost: 1,
            extend: 2,
            unlock: 2,
        })
    }

    /// The lock and its companion key are read together, and written one after the other when the lock is taken.
    fn cost(&self) -> Cost {
        Cost {
            won: 4,
            first: 4,
            lost: 2,
            extend: 3,
            unlock: 3,
        }
    }
}

/// A bucket of its own.
struct Bucket {
    admin: Client,
    url: String,
    name: String,
    own: Option<OwnServer>,
}

impl Bucket {
    async fn make(server: &str, own: Option<OwnServer>) -> Result<Self, BoxError> {
        let owner = Owner::generate();
        let random = owner.as_str().rsplit('/').next().unwrap_or_default();
        let name = format!("space-{random}");
        let admin = async_nats::connect(server).await?;
        let mut options = format!("tolerated_skew={}ms", SKEW.as_millis());
        if own.is_some() {
            options.push_str(LIMITS);
            // The server is killed, but does not lose power: everything it wrote remains.
            options.push_str(SYNC_ALWAYS);
        }
        let url = format!("{server}?bucket={name}&{options}");
        open(url.clone()).await?.migrate().await?;
        Ok(Self {
            admin,
            url,
            name,
            own,
        })
    }

    /// Converts a name to a subject, for the names that the cases use here.
    fn subject(&self, name: &LockName) -> String {
        let key: String = name
            .as_str()
            .bytes()
            .map(|byte| match byte {
                b'-' | b'_' | b'/' => char::from(byte).to_string(),
                byte if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
                byte => format!("={byte:02X}"),
            })
            .collect();
        format!("$KV.{}.{key}", self.name)
    }

    async fn api(&self, call: &str, question: Value) -> Result<Value, BoxError> {
        let subject = format!("$JS.API.STREAM.{call}.KV_{}", self.name);
        let question = match question {
            Value::Null => String::new(),
            question => question.to_string(),
        };
        let answer = self.admin.request(subject, question.into());
        Ok(serde_json::from_slice(&answer.await?.payload)?)
    }

    /// Writes as ShedLock does.
    async fn put(&self, name: &LockName, until: SystemTime) -> Result<(), BoxError> {
        let millis = i64::try_from(until.duration_since(UNIX_EPOCH)?.as_millis())?;
        self.put_data(name, &millis.to_be_bytes()).await
    }

    /// Limits the bucket to what it contains, or not at all.
    async fn limit(&self, is_full: bool) -> Result<(), BoxError> {
        let mut info = self.api("INFO", Value::Null).await?;
        let bytes = info["state"]["bytes"].as_i64().unwrap_or_default();
        let mut settings = info["config"].take();
        settings["max_bytes"] = json!(if is_full { bytes.max(1) } else { -1 });
        let answer = self.api("UPDATE", settings).await?;
        match answer.get("error") {
            Some(error) => Err(error.to_string().into()),
            None => Ok(()),
        }
    }

    async fn put_data(&self, name: &LockName, data: &[u8]) -> Result<(), BoxError> {
        let data = data.to_vec().into();
        let answer = self.admin.request(self.subject(name), data).await?;
        let answer: Value = serde_json::from_slice(&answer.payload)?;
        if answer.get("error").is_some() {
            return Err(answer.to_string().into());
        }
        Ok(())
    }
}

async fn open(url: String) -> Result<Provider, BoxError> {
    Ok(Arc::new(NatsProvider::connect(&url).await?))
}

impl Namespace for Bucket {
    fn provider(&self) -> BoxFuture<'_, Result<Provider, BoxError>> {
        Box::pin(open(self.url.clone()))
    }

    fn close(&self) -> BoxFuture<'_, Result<(), BoxError>> {
        Box::pin(async {
            if self.own.is_some() {
                // The server goes with everything in it.
                return Ok(());
            }
            self.api("DELETE", Value::Null).await.map(drop)
        })
    }

    /// Leaves the deletion marker that `nats kv del` leaves.
    fn delete_record<'a>(&'a self, name: &'a LockName) -> OptionalAction<'a, ()> {
        action(async {
            let mut headers = HeaderMap::new();
            headers.insert("KV-Operation", "DEL");
            let nothing = bytes::Bytes::new();
            let subject = self.subject(name);
            let sent = self.admin.request_with_headers(subject, headers, nothing);
            sent.await?;
            Ok(())
        })
    }

    fn drop_container(&self) -> OptionalAction<'_, ()> {
        action(async { self.api("DELETE", Value::Null).await.map(drop) })
    }

    fn restore_container(&self) -> OptionalAction<'_, ()> {
        action(async {
            open(self.url.clone()).await?.migrate().await?;
            Ok(())
        })
    }

    /// Keys vanish three seconds after they were written, including held locks.
    fn weaken_container(&self) -> OptionalAction<'_, ()> {
        action(async {
            let mut settings = self.api("INFO", Value::Null).await?["config"].take();
            settings["max_age"] = json!(3_000_000_000_u64);
            // The server does not allow a duplicate window longer than the maximum age.
            settings["duplicate_window"] = json!(3_000_000_000_u64);
            let answer = self.api("UPDATE", settings).await?;
            if answer.get("error").is_some() {
                return Err(answer.to_string().into());
            }
            Ok(())
        })
    }

    fn write_foreign<'a>(&'a self, name: &'a LockName, data: &'a [u8]) -> OptionalAction<'a, ()> {
        action(self.put_data(name, data))
    }

    fn write_as_shedlock<'a>(
        &'a self,
        name: &'a LockName,
        record: &'a JavaRecord,
    ) -> OptionalAction<'a, ()> {
        action(self.put(name, record.lock_until))
    }

    fn read_as_shedlock<'a>(
        &'a self,
        name: &'a LockName,
    ) -> OptionalAction<'a, Option<JavaRecord>> {
        action(async {
            let question = json!({ "last_by_subj": self.subject(name) });
            let answer = self.api("MSG.GET", question).await?;
            let Some(data) = answer["message"]["data"].as_str() else {
                return Ok(None);
            };
            use base64::Engine as _;
            let data = base64::engine::general_purpose::STANDARD.decode(data)?;
            let millis = i64::from_be_bytes(data[..].try_into()?);
            // Owner and start are in headers, which ShedLock does not read, so take them from our own view.
            let seen = open(self.url.clone()).await?.inspect(name).await?;
            let seen = seen.ok_or("the record is gone")?;
            Ok(Some(JavaRecord {
                locked_by: seen.owner.unwrap_or_default(),
                locked_at: seen.locked_at.ok_or("no beginning")?,
                lock_until: UNIX_EPOCH + Duration::from_millis(millis.unsigned_abs()),
            }))
        })
    }

    fn provider_with_clock(&self, clock: Arc<dyn Clock>) -> OptionalAction<'_, Provider> {
        action(async {
            let server = self.url.split('?').next().unwrap_or_default();
            let builder = NatsProvider::builder(async_nats::connect(server).await?);
            let builder = builder.bucket(&self.name).tolerated_skew(SKEW);
            Ok(Arc::new(builder.clock(clock).build()?) as Provider)
        })
    }

    fn store_addr(&self) -> Option<SocketAddr> {
        address(&self.url, 4222)
    }

    fn provider_via(&self, addr: SocketAddr) -> OptionalAction<'_, Provider> {
        let url = self.child_spec_via(addr)?;
        action(open(url))
    }

    /// Leaves out the `sync_always` assertion: a worker of an earlier version may not support the option.
    fn child_spec(&self) -> Option<String> {
        Some(self.url.replace(SYNC_ALWAYS, ""))
    }

    fn fill(&self) -> OptionalAction<'_, ()> {
        action(self.limit(true))
    }

    fn make_space(&self) -> OptionalAction<'_, ()> {
        action(self.limit(false))
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

impl TortureNamespace for Bucket {
    fn child_spec_via(&self, addr: SocketAddr) -> Option<String> {
        let spec = self.child_spec()?;
        let options = spec.split('?').nth(1).unwrap_or_default();
        let limits = match self.own {
            Some(_) => "",
            None => LIMITS,
        };
        Some(format!("nats://{addr}?{options}{limits}"))
    }

    fn store_version(&self) -> OptionalAction<'_, String> {
        action(async { Ok(format!("NATS {}", self.admin.server_info().version)) })
    }
}
