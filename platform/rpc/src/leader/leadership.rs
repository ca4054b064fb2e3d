//! Answers of parts about who leads, and their requests for a delay.

use std::time::Duration;

use fabricast_proto::v1;
use fabricast_proto::v1::administration_service_client::AdministrationServiceClient;
use tonic::Status;
use tonic::body::Body;

use crate::client::{MOST_ASKED, Peer};
use fabricast_status::{Reason, reason_of, retry_after};

/// Asks one part who leads; a part without others leads.
pub(super) async fn ask_leadership(peer: &Peer) -> Option<v1::Leadership> {
    let mut client = AdministrationServiceClient::new(peer.channel());
    let answer = client.get_server_info(v1::GetServerInfoRequest {}).await.ok()?;
    let alone = || v1::Leadership { leads: true, ..v1::Leadership::default() };
    Some(answer.into_inner().leadership.unwrap_or_else(alone))
}

/// Picks the answer with the newest term: term, address, and true if the leader itself gave it.
///
/// - `ours`: the addresses that the caller was given. Names that parts have for each other may not
///   be reachable from the caller.
pub(super) fn best(
    answers: Vec<(String, Option<v1::Leadership>)>,
    ours: &[String],
) -> Option<(u64, String, bool)> {
    let named = answers.into_iter().filter_map(|(asked, said)| {
        let v1::Leadership { leads, address, term } = said?;
        let address = if leads { asked } else { address };
        (leads || ours.contains(&address)).then_some((term, leads, address))
    });
    named.max().map(|(term, leads, address)| (term, address, leads))
}

/// The refusal of a part that does not lead, or is stopping.
pub(super) fn not_leading(response: &http::Response<Body>) -> Option<Status> {
    let status = Status::from_header_map(response.headers())?;
    let reason = reason_of(&status)?;
    let reasons = [Reason::NotLeader, Reason::ShuttingDown];
    reasons.iter().any(|one| one.text() == reason).then_some(status)
}

/// The delay that a refusal for too many calls asks for. Other refusals may say when there will be
/// room, which no call waits for.
pub(super) fn requested_delay(response: &http::Response<Body>) -> Option<Duration> {
    let status = Status::from_header_map(response.headers())?;
    let wait = retry_after(&status)?;
    let reason = reason_of(&status)?;
    let reasons = [Reason::RateLimited, Reason::TooManyOpenCalls, Reason::TooManyRequestBytes];
    reasons.iter().any(|one| one.text() == reason).then(|| wait.min(MOST_ASKED))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(leads: bool, address: &str, term: u64) -> Option<v1::Leadership> {
        Some(v1::Leadership { leads, address: address.to_owned(), term })
    }

    fn choose(answers: [Option<v1::Leadership>; 3]) -> Option<(u64, String, bool)> {
        let asked = ["a:1", "b:1", "c:1"].map(str::to_owned);
        best(asked.clone().into_iter().zip(answers).collect(), &asked)
    }

    #[test]
    fn only_a_client_with_too_many_calls_is_made_to_wait() {
        let delay = |reason: Reason| {
            let status = reason.status_after("", Duration::from_millis(5));
            requested_delay(&status.into_http())
        };
        assert_eq!(delay(Reason::RateLimited), Some(Duration::from_millis(5)));
        assert_eq!(delay(Reason::NoRoom), None, "room for a job comes in hours");
    }

    #[test]
    fn the_newest_term_wins_and_a_leader_is_asked_where_it_answered() {
        let answers = [said(false, "c:1", 7), None, said(true, "10.0.0.3:1", 7)];
        assert_eq!(choose(answers), Some((7, "c:1".to_owned(), true)));
        // A leader that does not know yet that it was deposed.
        let answers = [said(true, "a:1", 7), said(false, "c:1", 9), None];
        assert_eq!(choose(answers), Some((9, "c:1".to_owned(), false)));
        assert_eq!(choose([None, said(false, "", 0), None]), None, "no part knows");
        assert_eq!(choose([None, said(false, "inside:1", 8), None]), None, "not a given address");
    }
}
