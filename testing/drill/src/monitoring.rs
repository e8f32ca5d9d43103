//! Two exporters, Prometheus with the rules of docs/alerts as they are, and Alertmanager.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::bail;
use shedlock_rig::{Running, port};

use crate::alerts::Alerts;

/// All processes, and what they tell people.
#[derive(Debug)]
pub(crate) struct Monitoring {
    processes: Vec<(&'static str, Running)>,
    pub(crate) alerts: Alerts,
}

const RULES: &str = include_str!(concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../docs/alerts/shedlock.rules.yml"
));

impl Monitoring {
    pub(crate) fn start(folder: &Path, command: &Path, store: &str) -> anyhow::Result<Self> {
        let (webhook, manager, prometheus) = (port::free()?, port::free()?, port::free()?);
        let exporters = [port::free()?, port::free()?];
        let mut monitoring = Self {
            processes: Vec::new(),
            alerts: Alerts::receive(webhook)?,
        };
        for exporter in exporters {
            let mut ui = Command::new(command);
            ui.args(["ui", "--read-only", "--store", store])
                .args(["--listen", &format!("127.0.0.1:{}", port::free()?)])
                .args(["--metrics-listen", &format!("127.0.0.1:{exporter}")])
                .env_clear()
                .env("HOME", folder);
            monitoring.add(
                "an exporter",
                &folder.join(format!("exporter-{exporter}.log")),
                &mut ui,
            )?;
        }
        let settings = folder.join("alertmanager.yml");
        fs::write(
            &settings,
            format!(
                "route: {{receiver: webhook, group_by: ['...'], group_wait: 1s, group_interval: 5s, repeat_interval: 12h}}\n\
                 receivers:\n- name: webhook\n  webhook_configs: [{{url: 'http://127.0.0.1:{webhook}/', send_resolved: true}}]\n"
            ),
        )?;
        let mut alertmanager = Command::new("prometheus-alertmanager");
        alertmanager
            .arg(format!("--config.file={}", settings.display()))
            .arg(format!("--web.listen-address=127.0.0.1:{manager}"))
            .arg(format!(
                "--storage.path={}",
                folder.join("alertmanager").display()
            ))
            .arg("--cluster.listen-address=");
        monitoring.add(
            "Alertmanager",
            &folder.join("alertmanager.log"),
            &mut alertmanager,
        )?;
        fs::write(folder.join("rules.yml"), RULES)?;
        let settings = folder.join("prometheus.yml");
        let targets = exporters.map(|port| format!("127.0.0.1:{port}"));
        fs::write(
            &settings,
            format!(
                "global: {{scrape_interval: 5s, evaluation_interval: 5s}}\n\
                 rule_files: [rules.yml]\n\
                 alerting: {{alertmanagers: [{{static_configs: [{{targets: ['127.0.0.1:{manager}']}}]}}]}}\n\
                 scrape_configs:\n- job_name: shedlock\n  static_configs: [{{targets: {targets:?}}}]\n"
            ),
        )?;
        let mut command = Command::new("prometheus");
        command
            .arg(format!("--config.file={}", settings.display()))
            .arg(format!("--web.listen-address=127.0.0.1:{prometheus}"))
            .arg(format!(
                "--storage.tsdb.path={}",
                folder.join("prometheus").display()
            ));
        monitoring.add("Prometheus", &folder.join("prometheus.log"), &mut command)?;
        Ok(monitoring)
    }

    fn add(&mut self, name: &'static str, log: &Path, command: &mut Command) -> anyhow::Result<()> {
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(fs::File::create(log)?);
        self.processes.push((name, Running::start(command)?));
        Ok(())
    }

    /// Fails if one of them has ended.
    pub(crate) fn check(&mut self) -> anyhow::Result<()> {
        for (name, process) in &mut self.processes {
            if let Some(status) = process.ended() {
                bail!("{name} has ended: {status}");
            }
        }
        Ok(())
    }
}
