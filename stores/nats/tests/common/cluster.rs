//! Three servers that keep one bucket.

use std::time::Duration;

use async_nats::Client;
use serde_json::{Value, json};
use shedlock_conformance::support::unique;
use shedlock_rig::port;
use shedlock_rig::wait::found_async;

use super::{Own, until};

pub(crate) struct Cluster {
    pub(crate) servers: Vec<Own>,
}

impl Cluster {
    /// Starts the servers, and waits until they can keep buckets.
    pub(crate) async fn start() -> Self {
        let routes = [(); 3].map(|()| port::free().unwrap());
        let all = routes
            .map(|port| format!("\"nats://127.0.0.1:{port}\""))
            .join(", ");
        let name = unique("cluster");
        let mut servers = Vec::new();
        for (i, route) in routes.into_iter().enumerate() {
            let settings = format!(
                "server_name: node-{i}\n\
                 jetstream {{ store_dir: \"$DIR\" }}\n\
                 cluster {{ name: {name}, listen: \"127.0.0.1:{route}\", routes: [{all}] }}"
            );
            servers.push(Own::start(&settings).await);
        }
        let cluster = Self { servers };
        // Only a stream that is kept by all three servers shows that all three are up.
        let client = cluster.client(0).await;
        until("three servers keep a stream", async || {
            let probe = json!({ "name": "probe", "subjects": ["probe"], "num_replicas": 3 });
            let answer = ask(&client, "CREATE.probe", &probe).await;
            answer.is_some_and(|it| it.get("error").is_none())
        })
        .await;
        ask(&client, "DELETE.probe", &Value::Null).await;
        cluster
    }

    /// Returns a client that uses one server only.
    pub(crate) async fn client(&self, server: usize) -> Client {
        let options = async_nats::ConnectOptions::new()
            .ignore_discovered_servers()
            .request_timeout(Some(Duration::from_secs(1)));
        let client = options.connect(self.servers[server].address()).await;
        client.unwrap()
    }

    /// Returns the URL of these servers.
    pub(crate) fn url(&self, servers: &[usize], options: &str) -> String {
        let hosts = servers.iter().map(|i| self.servers[*i].address());
        let hosts: Vec<_> = hosts.collect();
        format!("nats://{}?{options}", hosts.join(","))
    }

    /// Returns the server that leads the bucket, as reported by the server `asked`, once there is one.
    pub(crate) async fn leader(&self, bucket: &str, asked: usize) -> usize {
        let client = self.client(asked).await;
        found_async("a server leads the bucket", async || {
            let info = ask(&client, &format!("INFO.KV_{bucket}"), &Value::Null).await?;
            let leader = info["cluster"]["leader"].as_str()?;
            leader.strip_prefix("node-")?.parse().ok()
        })
        .await
    }
}

async fn ask(client: &Client, call: &str, question: &Value) -> Option<Value> {
    let question = match question {
        Value::Null => String::new(),
        question => question.to_string(),
    };
    let answer = client.request(format!("$JS.API.STREAM.{call}"), question.into());
    serde_json::from_slice(&answer.await.ok()?.payload).ok()
}
