//! `RouteChoiceService`: the choices of engines that cannot be computed again.

use std::sync::Arc;

use fabricast_groups::ids::Gn;
use fabricast_proto::v1;
use fabricast_rpc::{CallCost, Caller, CollectedBytes};
use tonic::{Request, Response, Status, Streaming};

use crate::api::batch_limits::{PacedMessages, UPLOAD_TIMEOUT};
use crate::api::choice_report::{ReportContext, ReportReader};
use crate::api::term_holder::TermHolder;
use crate::api::{fields, pages};
use crate::domain::choices::text::{self, Topic};
use crate::records::choices::ChoiceStore;

/// The service; cloning it is cheap.
#[derive(Clone, Debug)]
pub(crate) struct RouteChoices {
    pub(crate) store: Arc<ChoiceStore>,
    pub(crate) context: ReportContext,
    pub(crate) term_holder: TermHolder,
}

#[tonic::async_trait]
impl v1::route_choice_service_server::RouteChoiceService for RouteChoices {
    async fn record_route_choices(
        &self,
        request: Request<Streaming<v1::RecordRouteChoicesRequest>>,
    ) -> Result<Response<v1::RecordRouteChoicesResponse>, Status> {
        let caller = Caller::of(request.extensions());
        let collected = CollectedBytes::of(request.extensions());
        let mut messages = PacedMessages::within(UPLOAD_TIMEOUT, Box::pin(request.into_inner()));
        let mut message = messages.next().await?.ok_or_else(|| fields::missing("fence"))?;
        self.term_holder.check(message.fence.unwrap_or_default().term, &caller)?;
        let mut reader = ReportReader::start(&self.context, &message)?;
        reader.read(&message)?;
        while !message.last {
            // A report that breaks off is not complete.
            message = messages.next().await?.ok_or_else(|| fields::missing("last"))?;
            reader.read(&message)?;
            collected.hold(reader.bytes())?;
        }
        let groups = self.store.record(reader.end()).await?;
        let group_count = u32::try_from(groups).unwrap_or(u32::MAX);
        Ok(Response::new(v1::RecordRouteChoicesResponse { group_count }))
    }

    async fn list_route_choices(
        &self,
        request: Request<v1::ListRouteChoicesRequest>,
    ) -> Result<Response<v1::ListRouteChoicesResponse>, Status> {
        let request = request.into_inner();
        let from = pages::read_gn(&request.page_token)?;
        let choices = self.store.read().await?;
        // Very many calls may have waited.
        CallCost::current().room_for_answer().await?;
        let texts = choices.texts();
        let text = |topic| texts.get(&topic);
        let choices = texts.range(Topic::Group(from)..).filter_map(|(topic, text)| match topic {
            Topic::Group(Gn(gn)) => text::read_choice(*gn, text),
            Topic::Scheme | Topic::Failed => None,
        });
        let (choices, next) = pages::fill(request.page_size, choices);
        let next_page_token = next.map(|choice| pages::gn_token(Gn(choice.gn)));
        Ok(Response::new(v1::ListRouteChoicesResponse {
            scheme: text(Topic::Scheme).and_then(|scheme| text::read_scheme(scheme)),
            failed_elements: text(Topic::Failed)
                .and_then(|failed| text::read_failed(failed))
                .unwrap_or_default(),
            choices,
            next_page_token: next_page_token.unwrap_or_default(),
        }))
    }
}
