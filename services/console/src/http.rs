//! Requests and responses: which page answers which address, and the headers of all of them.

mod query;

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Either, Full, Limited, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use maud::Markup;
use tokio::sync::Semaphore;
use tokio_stream::wrappers::{IntervalStream, WatchStream};
use tokio_stream::{Stream, StreamExt};

use crate::access::Access;
use crate::details::Details;
use crate::pages::{self, Page};
use crate::poller::Shared;

pub(crate) use query::{Query, encoded};

/// Most streams of events at once (CONSOLE-2).
const MAX_STREAMS: usize = 256;
/// Time between two signs of life in a stream of events.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// Delay of the answer to a wrong token, and attempts that may wait for it at once.
const WRONG_TOKEN_DELAY: Duration = Duration::from_millis(500);
const MAX_ATTEMPTS: usize = 4;
/// Longest form of a sign-in.
const MAX_FORM_BYTES: usize = 2048;
/// Longest address of a page.
const MAX_URI_BYTES: usize = 4096;

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
     connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";
const HEADERS: [(header::HeaderName, &str); 5] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
];

const STYLE: &str = include_str!("assets/console.css");
const SCRIPT: &str = include_str!("assets/console.js");
const ICON: &str = include_str!("assets/icon.svg");

type Events = Pin<Box<dyn Stream<Item = Result<Frame<Bytes>, Infallible>> + Send + Sync>>;
/// Body of a response: a page, or a stream of events.
pub(crate) type Body = Either<Full<Bytes>, StreamBody<Events>>;

/// Everything that requests are answered with.
#[derive(Debug)]
pub(crate) struct Console {
    shared: Shared,
    details: Details,
    access: Access,
    streams: Arc<Semaphore>,
    attempts: Semaphore,
}

impl Console {
    pub(crate) fn new(shared: Shared, details: Details, access: Access) -> Self {
        let streams = Arc::new(Semaphore::new(MAX_STREAMS));
        Self { shared, details, access, streams, attempts: Semaphore::new(MAX_ATTEMPTS) }
    }

    /// Answers a request (CONSOLE-1).
    pub(crate) async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        let mut response = self.route(request).await;
        for (name, value) in HEADERS {
            response.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        response
    }

    async fn route(&self, request: Request<Incoming>) -> Response<Body> {
        if !self.access.knows_host(request.headers()) {
            return refusal(StatusCode::MISDIRECTED_REQUEST, "unknown Host; see --host");
        }
        if request.uri().path_and_query().is_some_and(|uri| uri.as_str().len() > MAX_URI_BYTES) {
            return refusal(StatusCode::URI_TOO_LONG, "the address is too long");
        }
        let (path, method) = (request.uri().path().to_owned(), request.method().clone());
        if path == "/sign-in" && self.access.has_token() {
            return match method {
                Method::POST => self.sign_in(request).await,
                _ => html(StatusCode::OK, &pages::sign_in(false)),
            };
        }
        if method != Method::GET && method != Method::HEAD {
            return refusal(StatusCode::METHOD_NOT_ALLOWED, "only GET is answered");
        }
        match path.as_str() {
            "/assets/console.css" => {
                let style = format!("{STYLE}{}", fabricast_drawing::STYLE);
                return body(StatusCode::OK, "text/css; charset=utf-8", style);
            }
            "/assets/console.js" => {
                return body(StatusCode::OK, "text/javascript; charset=utf-8", SCRIPT);
            }
            "/assets/icon.svg" | "/favicon.ico" => {
                return body(StatusCode::OK, "image/svg+xml", ICON);
            }
            _ => {}
        }
        if !self.access.admits(request.headers()) {
            return match path.as_str() {
                "/events" => refusal(StatusCode::UNAUTHORIZED, "sign in"),
                _ => redirect("/sign-in", None),
            };
        }
        let query = Query::of(request.uri().query().unwrap_or_default());
        match path.as_str() {
            "/" => redirect("/fabric", None),
            "/events" => self.events(),
            _ => self.page(&path, &query).await,
        }
    }

    async fn page(&self, path: &str, query: &Query) -> Response<Body> {
        let now = self.shared.now();
        let page = match path {
            "/fabric" => pages::fabric(&now, &self.details, query).await,
            "/groups" => pages::groups(&now, query),
            "/group" => pages::group(&now, &self.details, query).await,
            "/tables" => pages::tables(&now, query),
            "/switch" => pages::switch(&now, &self.details, query).await,
            "/nodes" => pages::nodes(&now, query),
            "/node" => pages::node(&now, &self.details, query).await,
            "/health" => pages::health(&now),
            "/what-if" => pages::what_if(&now, &self.details, query).await,
            _ => Page::not_found("there is no such page"),
        };
        let status = if page.is_found { StatusCode::OK } else { StatusCode::NOT_FOUND };
        html(status, &pages::layout(&now, &page))
    }

    /// Streams the version of the state with each change.
    fn events(&self) -> Response<Body> {
        let Ok(permit) = Arc::clone(&self.streams).try_acquire_owned() else {
            return refusal(StatusCode::SERVICE_UNAVAILABLE, "too many viewers; reload later");
        };
        let versions = WatchStream::new(self.shared.subscribe());
        let versions = versions.map(|now| format!("data: {}\n\n", now.version));
        let beats = IntervalStream::new(tokio::time::interval(HEARTBEAT));
        let events = versions.merge(beats.map(|_| ": still here\n\n".to_owned()));
        let events = events.map(move |text| {
            let _held = &permit;
            Ok(Frame::data(Bytes::from(text)))
        });
        let mut response =
            Response::new(Either::Right(StreamBody::new(Box::pin(events) as Events)));
        let kind = HeaderValue::from_static("text/event-stream");
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
        response
    }

    async fn sign_in(&self, request: Request<Incoming>) -> Response<Body> {
        let Ok(form) = Limited::new(request.into_body(), MAX_FORM_BYTES).collect().await else {
            return refusal(StatusCode::PAYLOAD_TOO_LARGE, "the form is too long");
        };
        // Taken before the token is looked at, so that nobody can try many.
        let Ok(_permit) = self.attempts.try_acquire() else {
            return refusal(StatusCode::TOO_MANY_REQUESTS, "too many attempts; try again");
        };
        let form = Query::of(&String::from_utf8_lossy(&form.to_bytes()));
        if let Some(cookie) = self.access.sign_in(form.get("token")) {
            return redirect("/fabric", Some(&cookie));
        }
        tokio::time::sleep(WRONG_TOKEN_DELAY).await;
        html(StatusCode::UNAUTHORIZED, &pages::sign_in(true))
    }
}

fn html(status: StatusCode, page: &Markup) -> Response<Body> {
    body(status, "text/html; charset=utf-8", page.0.clone())
}

fn refusal(status: StatusCode, text: &str) -> Response<Body> {
    body(status, "text/plain; charset=utf-8", format!("{text}\n"))
}

fn redirect(to: &'static str, cookie: Option<&str>) -> Response<Body> {
    let mut response = refusal(StatusCode::SEE_OTHER, to);
    response.headers_mut().insert(header::LOCATION, HeaderValue::from_static(to));
    if let Some(cookie) = cookie.and_then(|cookie| HeaderValue::from_str(cookie).ok()) {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    response
}

fn body(status: StatusCode, kind: &'static str, text: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(Either::Left(Full::new(text.into())));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
