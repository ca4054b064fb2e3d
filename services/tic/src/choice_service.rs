//! `RouteChoiceService`: reports are checked here and decided by the writer, which also answers.

use fabricast_groups::ids::Gn;
use fabricast_proto::v1;
use tonic::{Request, Response, Status, Streaming};

use crate::choices::report::{Reading, Yardstick};
use crate::choices::{Topic, text};
use crate::fields;
use crate::orders::{Done, Orders, Work};
use crate::pages;
use crate::service::mismatch;

/// The service; cloning it is cheap.
#[derive(Clone, Debug)]
pub(crate) struct RouteChoices {
    pub(crate) orders: Orders,
    pub(crate) yardstick: Yardstick,
}

#[tonic::async_trait]
impl v1::route_choice_service_server::RouteChoiceService for RouteChoices {
    async fn record_route_choices(
        &self,
        request: Request<Streaming<v1::RecordRouteChoicesRequest>>,
    ) -> Result<Response<v1::RecordRouteChoicesResponse>, Status> {
        let mut messages = request.into_inner();
        let mut message = messages.message().await?.ok_or_else(|| fields::missing("fence"))?;
        let mut reading = Reading::start(&self.yardstick, &message)?;
        reading.take_in(&message)?;
        while !message.last {
            // Whoever died on the way has not said all of it.
            message = messages.message().await?.ok_or_else(|| fields::missing("last"))?;
            reading.take_in(&message)?;
        }
        let work = Work::RecordChoices(Box::new(reading.end()));
        let Done::ChoicesRecorded { groups } = self.orders.place(work).await? else {
            return Err(mismatch());
        };
        let group_count = u32::try_from(groups).unwrap_or(u32::MAX);
        Ok(Response::new(v1::RecordRouteChoicesResponse { group_count }))
    }

    async fn list_route_choices(
        &self,
        request: Request<v1::ListRouteChoicesRequest>,
    ) -> Result<Response<v1::ListRouteChoicesResponse>, Status> {
        let request = request.into_inner();
        let from = pages::read_gn(&request.page_token)?;
        let Done::Choices(texts) = self.orders.place(Work::ViewChoices).await? else {
            return Err(mismatch());
        };
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
