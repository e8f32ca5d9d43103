//! etcd: its alarms.

use shedlock_etcd::etcd_client::{AlarmAction, AlarmOptions, AlarmType, Client};
use shedlock_rig::OwnServer;
use shedlock_rig::given::server_if_any;

use super::{cannot_run, doctor};

#[tokio::test(flavor = "multi_thread")]
async fn no_alarm_is_missed() {
    if server_if_any("etcd").is_none() {
        return;
    }
    let server = OwnServer::start("etcd", &["--quota-backend-bytes", "1048576"]).unwrap();
    doctor(server.url()).is_healthy();
    let address = server.url().replacen("etcd://", "http://", 1);
    let mut client = Client::connect([address], None).await.unwrap();
    let member = client.member_list().await.unwrap().members()[0].id();
    let mut of_member = AlarmOptions::new();
    of_member.with_member(member);

    let (raise, clear) = (AlarmAction::Activate, AlarmAction::Deactivate);
    let mut set = async |action| {
        let alarm = (AlarmType::Corrupt, Some(of_member.clone()));
        client.alarm(action, alarm.0, alarm.1).await.unwrap();
    };
    set(raise).await;
    let corrupt = "the store reports that its data is corrupt";
    doctor(server.url()).has_only("setup", "error", corrupt);
    cannot_run(server.url(), "a", corrupt);
    set(clear).await;
    doctor(server.url()).is_healthy();

    let filler = || vec![b'x'; 65_536];
    while client.put("filler", filler(), None).await.is_ok() {}
    let full = "the store has reached its space quota";
    doctor(server.url()).has_only("alarms", "error", "NOSPACE");
    doctor(server.url()).has_only("alarms", "error", "compact and defragment");
    cannot_run(server.url(), "a", full);
}
