//! Follows the groups of programs that use IP multicast, and has the driver lead their packets.
//!
//! For these packets the first switch is the sender: it has to learn the color of the group, as an
//! operating agent does for the packets of its processes. It learns it in the same way, from the
//! route that the route service has reported to the TIC, and within the same drain time, in which
//! the entries of the former color still stand.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;

use fabricast_groups::names::GroupName;
use fabricast_proto::v1;
use fabricast_proto::v1::directory_change::Kind;
use fabricast_proto::v1::tic_service_client::TicServiceClient;
use fabricast_rpc::{Backoff, Leader, Reason, RpcError};
use tokio::sync::watch;

use crate::driver::Driver;

/// Failures in a row after which somebody has to look; a TIC that starts or stops causes fewer.
const MANY: u32 = 5;

/// Color by address, as far as groups are routed.
type Programs = BTreeMap<Ipv4Addr, u16>;

/// Follows until dropped, if the driver carries packets of programs.
pub(crate) async fn follow(driver: Arc<dyn Driver>, tic: Leader) {
    if !driver.carries_programs() {
        return;
    }
    let (newest, mut programs) = watch::channel(Programs::new());
    let read = async {
        let (mut backoff, mut failures) = (Backoff::default(), 0_u32);
        loop {
            let error = match watch_groups(&tic, &newest, &mut backoff, &mut failures).await {
                Ok(()) => Reason::PeerUnavailable.status("the TIC ended the watch", &[]).into(),
                Err(error) => error,
            };
            failures += 1;
            if failures == MANY {
                let error = error.message();
                tracing::warn!(error, "groups of programs not followed, colors may be outdated");
            }
            tokio::time::sleep(backoff.delay_after_error(&error)).await;
        }
    };
    let write = async {
        // Nothing before the first snapshot: a driver would take addresses away that are in use.
        while programs.changed().await.is_ok() {
            let programs = programs.borrow_and_update().clone();
            driver.carry_programs(programs).await;
        }
    };
    tokio::join!(read, write);
}

/// Reads one watch of the directory to its end.
async fn watch_groups(
    tic: &Leader,
    newest: &watch::Sender<Programs>,
    backoff: &mut Backoff,
    failures: &mut u32,
) -> Result<(), RpcError> {
    let leader = tic.address();
    let mut client = TicServiceClient::new(tic.channel());
    let mut stream = client.watch_directory(v1::WatchDirectoryRequest {}).await?.into_inner();
    let (mut groups, mut is_first) = (Groups::default(), true);
    loop {
        let message = tokio::select! {
            message = stream.message() => message?,
            // A frozen leader's stream stays open, but misses the changes of the new leader.
            () = tic.left(&leader) => {
                return Err(Reason::NotLeader.status("another TIC leads", &[]).into());
            }
        };
        let Some(message) = message else { return Ok(()) };
        let changed = groups.take(message.changes);
        if message.snapshot && !message.snapshot_end {
            continue;
        }
        (*backoff, *failures) = (Backoff::default(), 0);
        if std::mem::take(&mut is_first) || changed {
            newest.send_replace(groups.programs());
        }
    }
}

/// Address and color of each group of programs, by GN.
#[derive(Debug, Default)]
struct Groups(BTreeMap<u64, (Ipv4Addr, Option<u16>)>);

impl Groups {
    /// Takes changes of the directory; true if an address has another color now.
    fn take(&mut self, changes: Vec<v1::DirectoryChange>) -> bool {
        let mut changed = false;
        for change in changes {
            match change.kind {
                Some(Kind::Group(group)) => {
                    let name = GroupName::new(&group.name).ok();
                    let Some(address) = name.and_then(|name| name.program_address()) else {
                        continue;
                    };
                    let routed = |route: &v1::Route| route.state() == v1::RouteState::Routed;
                    let route = group.route.filter(routed);
                    let color = route.and_then(|route| u16::try_from(route.color).ok());
                    changed |= self.0.insert(group.gn, (address, color)) != Some((address, color));
                }
                Some(Kind::DeletedGn(gn)) => changed |= self.0.remove(&gn).is_some(),
                _ => {}
            }
        }
        changed
    }

    fn programs(&self) -> Programs {
        self.0.values().filter_map(|(address, color)| Some((*address, (*color)?))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(gn: u64, name: &str, color: Option<u32>) -> v1::DirectoryChange {
        let state = color.map_or(v1::RouteState::UnicastOnly, |_| v1::RouteState::Routed).into();
        let route = v1::Route { state, color: color.unwrap_or(0), ..<_>::default() };
        let group = v1::Group { gn, name: name.to_owned(), route: Some(route), ..<_>::default() };
        v1::DirectoryChange { kind: Some(Kind::Group(group)) }
    }

    #[test]
    fn an_address_has_the_color_of_its_group_while_that_is_routed() {
        let address = Ipv4Addr::new(239, 1, 2, 3);
        let mut groups = Groups::default();
        assert!(
            !groups.take(vec![change(1, "rows/0", Some(4)), change(2, "ip/10.0.0.1", Some(4))])
        );
        assert!(groups.take(vec![change(7, "ip/239.1.2.3", Some(4))]));
        assert!(!groups.take(vec![change(7, "ip/239.1.2.3", Some(4))]));
        assert_eq!(groups.programs(), Programs::from([(address, 4)]));
        assert!(groups.take(vec![change(7, "ip/239.1.2.3", None)]));
        assert_eq!(groups.programs(), Programs::new());
        // The group is gone, and another one of the name has come.
        let gone = v1::DirectoryChange { kind: Some(Kind::DeletedGn(7)) };
        assert!(groups.take(vec![gone, change(9, "ip/239.1.2.3", Some(0))]));
        assert_eq!(groups.programs(), Programs::from([(address, 0)]));
    }
}
