//! The manifests, decoded as the types of the Kubernetes API, and their commands run.

use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::CronJob;
use k8s_openapi::api::core::v1::{PodSpec, Secret};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use shedlock_documentation::succeed;
use shedlock_rig::wait::{PATIENCE, eventually, pause};
use shedlock_rig::{Running, Signal};

use super::{Site, recipe};

fn manifest(name: &str) -> Value {
    serde_saphyr::from_str(&recipe(name)).unwrap()
}

/// Decodes the manifest, and encodes it again: a field that the API does not have is missing then.
fn strict<T: DeserializeOwned + Serialize>(manifest: &Value) -> T {
    let decoded: T = serde_json::from_value(manifest.clone()).unwrap();
    assert_eq!(&serde_json::to_value(&decoded).unwrap(), manifest);
    decoded
}

fn cron_job() -> CronJob {
    strict(&manifest("cronjob.yaml"))
}

fn deployment() -> Deployment {
    strict(&manifest("deployment.yaml"))
}

fn pods() -> [PodSpec; 2] {
    let job = cron_job().spec.unwrap().job_template.spec.unwrap();
    let deployment = deployment().spec.unwrap();
    [
        job.template.spec.unwrap(),
        deployment.template.spec.unwrap(),
    ]
}

#[test]
fn the_manifests_are_objects_of_the_api_and_have_no_other_fields() {
    let secret: Secret = strict(&manifest("secret.yaml"));
    let name = secret.metadata.name.unwrap();
    for pod in pods() {
        let volume = &pod.volumes.as_ref().unwrap()[0];
        let source = volume.secret.as_ref().unwrap();
        assert_eq!(source.secret_name.as_ref(), Some(&name));
        assert_eq!(source.default_mode, Some(0o440));
    }
    let job = cron_job();
    assert_eq!(job.metadata.name.as_deref(), Some("report"));
    let deployment = deployment().spec.unwrap();
    let labels = deployment.template.metadata.unwrap().labels;
    assert_eq!(deployment.selector.match_labels, labels);
}

#[test]
#[should_panic(expected = "assertion")]
fn a_field_that_the_api_does_not_have_is_found() {
    let mut manifest = manifest("cronjob.yaml");
    manifest["spec"]["jobTemplate"]["spec"]["backOffLimit"] = 3.into();
    strict::<CronJob>(&manifest);
}

#[test]
fn pods_read_the_store_from_the_mounted_file_and_get_time_to_stop() {
    for pod in pods() {
        let container = &pod.containers[0];
        let mount = &container.volume_mounts.as_ref().unwrap()[0];
        assert_eq!(mount.name, pod.volumes.as_ref().unwrap()[0].name);
        let variable = &container.env.as_ref().unwrap()[0];
        assert_eq!(variable.name, "SHEDLOCK_STORE_FILE");
        let file = format!("{}/url", mount.mount_path);
        assert_eq!(variable.value.as_ref(), Some(&file));
        let command = container.command.as_ref().unwrap();
        let grace = command
            .iter()
            .find_map(|it| it.strip_prefix("--stop-grace="));
        let grace = grace.and_then(|it| it.strip_suffix('s')).unwrap();
        assert!(pod.termination_grace_period_seconds > Some(grace.parse().unwrap()));
    }
}

/// The command of a pod, as Kubernetes would start it here.
fn start(site: &Site, pod: &PodSpec) -> Command {
    let arguments = pod.containers[0].command.as_ref().unwrap();
    let arguments: Vec<String> = arguments.iter().map(|it| site.adapted(it)).collect();
    let mut command = Command::new(&arguments[0]);
    command
        .args(&arguments[1..])
        .env_clear()
        .env("KUBERNETES_SERVICE_HOST", "10.0.0.1")
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("SHEDLOCK_STORE_FILE", site.path("store"));
    command
}

#[test]
fn the_cron_job_runs_its_command_once_for_each_slot() {
    let spec = cron_job().spec.unwrap();
    let site = Site::new();
    let [pod, _] = pods();
    let schedule = format!("--schedule={}", spec.schedule);
    assert!(
        pod.containers[0]
            .command
            .as_ref()
            .unwrap()
            .contains(&schedule)
    );
    assert_eq!(spec.time_zone.as_deref(), Some("Etc/UTC"));
    for _ in 0..3 {
        succeed(&mut start(&site, &pod));
    }
    assert!((1..=2).contains(&site.reports()), "{}", site.reports());
}

#[test]
fn one_pod_of_the_deployment_is_active_and_the_other_one_takes_over() {
    let site = Site::new();
    let report = format!(
        "#!/bin/sh\necho active >> {}\nexec sleep 600\n",
        site.shown("reports")
    );
    fs::write(site.path("report"), report).unwrap();
    let [_, pod] = pods();
    let run = || Running::start(start(&site, &pod).stdin(Stdio::null())).unwrap();
    let mut first = run();
    eventually("the first pod is active", || site.reports() == 1);
    let _second = run();
    // As Kubernetes does: SIGTERM, and the lock is released within the grace period.
    pause(Duration::from_millis(500));
    assert_eq!(site.reports(), 1, "the second pod waits");
    first.signal(Signal::TERM);
    eventually("the second pod is active", || site.reports() == 2);
    first.wait(PATIENCE).unwrap();
}
