//! Requests and responses: which page answers which address, and the headers of all of them.

mod kept_pages;
mod query;

use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Either, Full, Limited, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use maud::Markup;
use tokio::sync::Semaphore;
use tokio_stream::wrappers::{IntervalStream, WatchStream};
use tokio_stream::{Stream, StreamExt};

use crate::access::{Access, Session, SignInError, SignedIn, is_same_site};
use crate::changes::{Action, Changes};
use crate::details::Details;
use crate::pages::{self, Confirmation, Page, Viewer};
use crate::poller::Shared;
use crate::results::Results;
use crate::snapshot::Snapshot;

use kept_pages::KeptPages;

pub(crate) use query::{Query, encoded};

/// Most streams of events at once (CONSOLE-2).
const MAX_STREAMS: usize = 256;
/// Time between two signs of life in a stream of events.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// Cookie that ends a session.
const NO_SESSION: &str = "fabricast_console=; HttpOnly; SameSite=Strict; Path=/; Max-Age=0";
/// Delay of the answer to a wrong token, and attempts that may wait for it at once.
const WRONG_TOKEN_DELAY: Duration = Duration::from_millis(500);
const MAX_ATTEMPTS: usize = 4;
/// Answer to whom has to wait.
const TOO_MANY: &str = "Too many wrong tokens; try again in a minute.";
const MAX_FORM_BYTES: usize = 8192;
/// Longest address of a page.
const MAX_URI_BYTES: usize = 4096;

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
     connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";
const HEADERS: [(header::HeaderName, &str); 5] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    // With "no-referrer" browsers would not say where a form of this console comes from.
    (header::REFERRER_POLICY, "same-origin"),
    (header::CACHE_CONTROL, "no-store"),
];

const STYLE: &str = include_str!("assets/console.css");
const SCRIPT: &str = include_str!("assets/console.js");
const ICON: &str = include_str!("assets/icon.svg");

/// Media type of pages.
const HTML: &str = "text/html; charset=utf-8";

type Parts = Pin<Box<dyn Stream<Item = Result<Frame<Bytes>, io::Error>> + Send>>;
/// Body of a response: a page, or a stream of events or of parts of a file.
pub(crate) type Body = Either<Full<Bytes>, StreamBody<Parts>>;

/// Everything that requests are answered with.
#[derive(Debug)]
pub(crate) struct Console {
    shared: Shared,
    details: Details,
    access: Access,
    changes: Option<Changes>,
    results: Results,
    pages: KeptPages,
    streams: Arc<Semaphore>,
    attempts: Semaphore,
    /// Permit to download a recording.
    recordings: Arc<Semaphore>,
}

/// The far end of a connection.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    pub(crate) address: IpAddr,
    /// The holder of the certificate that it has shown.
    pub(crate) session: Option<Session>,
}

/// Reason why somebody may not change something.
#[derive(Clone, Copy, Debug)]
enum Forbidden {
    UntilSignedIn,
    Because(&'static str),
}

impl Console {
    pub(crate) fn new(
        shared: Shared,
        details: Details,
        access: Access,
        changes: Option<Changes>,
        results: Results,
    ) -> Self {
        let streams = Arc::new(Semaphore::new(MAX_STREAMS));
        let attempts = Semaphore::new(MAX_ATTEMPTS);
        let recordings = Arc::new(Semaphore::new(1));
        let pages = KeptPages::new();
        Self { shared, details, access, changes, results, pages, streams, attempts, recordings }
    }

    /// Answers a request (CONSOLE-1).
    pub(crate) async fn answer(
        &self,
        request: Request<Incoming>,
        client: &Client,
    ) -> Response<Body> {
        let mut response = self.route(request, client).await;
        for (name, value) in HEADERS {
            response.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        response
    }

    async fn route(&self, request: Request<Incoming>, client: &Client) -> Response<Body> {
        if !self.access.knows_host(request.headers()) {
            return refusal(StatusCode::MISDIRECTED_REQUEST, "unknown Host; see --host");
        }
        if request.uri().path_and_query().is_some_and(|uri| uri.as_str().len() > MAX_URI_BYTES) {
            return refusal(StatusCode::URI_TOO_LONG, "the address is too long");
        }
        let (path, method) = (request.uri().path().to_owned(), request.method().clone());
        let is_form = matches!(path.as_str(), "/sign-in" | "/sign-out" | "/act");
        if method == Method::POST && is_form {
            return match is_same_site(request.headers()) {
                true => self.form(&path, request, client).await,
                false => refusal(StatusCode::FORBIDDEN, "the form is of another site"),
            };
        }
        if method != Method::GET && method != Method::HEAD {
            return refusal(StatusCode::METHOD_NOT_ALLOWED, "only GET is answered");
        }
        match path.as_str() {
            "/assets/console.css" => {
                let drawings = [fabricast_drawing::STYLE, fabricast_drawing::CHART_STYLE];
                let style = format!("{STYLE}{}", drawings.concat());
                return body(StatusCode::OK, "text/css; charset=utf-8", style);
            }
            "/assets/console.js" => {
                return body(StatusCode::OK, "text/javascript; charset=utf-8", SCRIPT);
            }
            "/assets/icon.svg" | "/favicon.ico" => {
                return body(StatusCode::OK, "image/svg+xml", ICON);
            }
            "/sign-in" if self.access.has_tokens() => {
                return html(StatusCode::OK, pages::sign_in(None));
            }
            _ => {}
        }
        let viewer = self.viewer(&request, client);
        if viewer.session.is_none() && !self.access.is_open() {
            return match path.as_str() {
                _ if !self.access.has_tokens() => {
                    refusal(StatusCode::UNAUTHORIZED, "show the certificate of a reader or admin")
                }
                "/events" => refusal(StatusCode::UNAUTHORIZED, "sign in"),
                _ => redirect("/sign-in", None),
            };
        }
        let query = Query::of(request.uri().query().unwrap_or_default());
        match path.as_str() {
            "/" => redirect("/fabric", None),
            "/events" => self.events(),
            "/recording" => self.recording().await,
            "/plot" => match self.results.plot(query.get("name"), query.get("file")).await {
                Some(plot) => body(StatusCode::OK, "image/svg+xml", plot),
                None => refusal(StatusCode::NOT_FOUND, "there is no such plot"),
            },
            "/act" => self.dry_run(&query, &viewer, None).await,
            _ => {
                let address = request.uri().path_and_query().map_or("", |uri| uri.as_str());
                let now = self.shared.now();
                let page = Box::pin(self.page(&path, &query, &now));
                let shared = self.pages.get(address, now.version, page).await;
                let page = &shared.page;
                let status = if page.is_found { StatusCode::OK } else { StatusCode::NOT_FOUND };
                let make = || pages::layout(&now, page, &viewer);
                body(status, HTML, shared.text(viewer.session.as_ref(), make))
            }
        }
    }

    fn viewer(&self, request: &Request<Incoming>, client: &Client) -> Viewer {
        let by_cookie = || self.access.session(request.headers(), SystemTime::now());
        Viewer {
            session: client.session.clone().or_else(by_cookie),
            can_sign_in: self.access.has_tokens(),
            has_actions: self.changes.is_some(),
        }
    }

    /// Answers a form of this console.
    async fn form(
        &self,
        path: &str,
        request: Request<Incoming>,
        client: &Client,
    ) -> Response<Body> {
        let viewer = self.viewer(&request, client);
        let Ok(form) = Limited::new(request.into_body(), MAX_FORM_BYTES).collect().await else {
            return refusal(StatusCode::PAYLOAD_TOO_LARGE, "the form is too long");
        };
        let form = Query::of(&String::from_utf8_lossy(&form.to_bytes()));
        match path {
            "/sign-in" => self.sign_in(&form, client).await,
            "/act" => self.act(&form, &viewer, client).await,
            _ => redirect("/", Some(NO_SESSION)),
        }
    }

    /// The person who may change something.
    fn administrator<'a>(&self, viewer: &'a Viewer) -> Result<(&'a Session, &Changes), Forbidden> {
        let Some(changes) = &self.changes else {
            return Err(Forbidden::Because("This console only reads; see --admin-certificates."));
        };
        match &viewer.session {
            Some(session) if viewer.may_change() => Ok((session, changes)),
            Some(_) => Err(Forbidden::Because("Only administrators may change something.")),
            None if self.access.has_tokens() => Err(Forbidden::UntilSignedIn),
            None => Err(Forbidden::Because("Show the certificate of an administrator.")),
        }
    }

    /// The answer to whom a change is not allowed.
    fn forbid(&self, forbidden: Forbidden, viewer: &Viewer) -> Response<Body> {
        match forbidden {
            Forbidden::UntilSignedIn => redirect("/sign-in", None),
            Forbidden::Because(why) => {
                let page = pages::layout(&self.shared.now(), &pages::forbidden(why), viewer);
                html(StatusCode::FORBIDDEN, page)
            }
        }
    }

    /// Shows what a change would do.
    async fn dry_run(
        &self,
        query: &Query,
        viewer: &Viewer,
        problem: Option<&'static str>,
    ) -> Response<Body> {
        let (session, _) = match self.administrator(viewer) {
            Ok(found) => found,
            Err(forbidden) => return self.forbid(forbidden, viewer),
        };
        let now = self.shared.now();
        let page = match Action::read(query) {
            None => Page::not_found("This is no change that the console can make."),
            Some(action) => {
                let proof = self.access.form_proof(session, &action.to_string());
                let confirmation = Confirmation { proof, by: session.by, problem };
                pages::dry_run(&now, &self.details, &action, &confirmation).await
            }
        };
        let status = match (page.is_found, problem) {
            (false, _) => StatusCode::NOT_FOUND,
            (true, Some(_)) => StatusCode::UNAUTHORIZED,
            (true, None) => StatusCode::OK,
        };
        html(status, pages::layout(&now, &page, viewer))
    }

    /// Makes a change that an administrator has confirmed (CONSOLE-3).
    async fn act(&self, form: &Query, viewer: &Viewer, client: &Client) -> Response<Body> {
        let (session, changes) = match self.administrator(viewer) {
            Ok(found) => found,
            Err(forbidden) => return self.forbid(forbidden, viewer),
        };
        let Some(action) = Action::read(form) else {
            return refusal(StatusCode::BAD_REQUEST, "this is no change that the console can make");
        };
        let what = action.to_string();
        if !self.access.is_own_form(session, &what, form.get("proof")) {
            return refusal(StatusCode::FORBIDDEN, "the form is not of this console, or too old");
        }
        let confirmed = match session.by {
            SignedIn::Certificate if form.get("again") == what => Ok(()),
            SignedIn::Certificate => Err("This is not what has to be typed."),
            SignedIn::Token => self.confirm(session, form.get("again"), client).await,
        };
        if let Err(problem) = confirmed {
            return self.dry_run(form, viewer, Some(problem)).await;
        }
        let now = self.shared.now();
        let fabric = now.servers.iter().find(|server| server.is("fabric"));
        let fabric = fabric.map(|server| server.address.as_str());
        let result = changes.make(&action, &session.person, fabric).await;
        let outcome = result.as_ref().map_or_else(String::as_str, String::as_str);
        tracing::info!(person = session.person, action = what, outcome, "action of the console");
        let status = if result.is_ok() { StatusCode::OK } else { StatusCode::BAD_GATEWAY };
        html(status, pages::layout(&self.shared.now(), &pages::done(&action, &result), viewer))
    }

    /// Checks the token of an administrator, who is asked for it again.
    async fn confirm(
        &self,
        session: &Session,
        shown: &str,
        client: &Client,
    ) -> Result<(), &'static str> {
        let Ok(_permit) = self.attempts.try_acquire() else { return Err(TOO_MANY) };
        match self.access.confirms(session, shown, client.address) {
            Ok(()) => Ok(()),
            Err(SignInError::TooMany) => Err(TOO_MANY),
            Err(SignInError::WrongToken) => {
                tokio::time::sleep(WRONG_TOKEN_DELAY).await;
                Err("This is not your token.")
            }
        }
    }

    async fn page(&self, path: &str, query: &Query, now: &Snapshot) -> Page {
        match path {
            "/fabric" => pages::fabric(now, &self.details, query).await,
            "/groups" => pages::groups(now, query),
            "/group" => pages::group(now, &self.details, query).await,
            "/tables" => pages::tables(now, query),
            "/switch" => pages::switch(now, &self.details, query).await,
            "/nodes" => pages::nodes(now, query),
            "/node" => pages::node(now, &self.details, query).await,
            "/capacity" => pages::capacity(now, &self.details).await,
            "/jobs" => pages::jobs(&self.details, query).await,
            "/job" => pages::job(now, &self.details, query).await,
            "/health" => pages::health(now, &self.details).await,
            "/evaluation" => pages::evaluation(&self.results, query).await,
            "/what-if" => pages::what_if(now, &self.details, query).await,
            _ => Page::not_found("there is no such page"),
        }
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
        stream(Box::pin(events), "text/event-stream")
    }

    /// Streams the recording of the route service, which may be long, to one viewer at a time.
    async fn recording(&self) -> Response<Body> {
        let Ok(permit) = Arc::clone(&self.recordings).try_acquire_owned() else {
            return refusal(StatusCode::SERVICE_UNAVAILABLE, "another viewer is downloading it");
        };
        let parts = match self.details.recording().await {
            Ok(parts) => parts,
            Err(problem) => return refusal(StatusCode::BAD_GATEWAY, &problem),
        };
        let parts = parts.map(move |part| {
            let _held = &permit;
            // An error breaks the connection, so that half a file does not look whole.
            let part = part.map_err(|status| io::Error::other(status.message().to_owned()));
            part.map(|part| Frame::data(Bytes::from(part.part)))
        });
        let mut response = stream(Box::pin(parts), "application/octet-stream");
        let name = HeaderValue::from_static("attachment; filename=\"fabricast.recording\"");
        response.headers_mut().insert(header::CONTENT_DISPOSITION, name);
        response
    }

    async fn sign_in(&self, form: &Query, client: &Client) -> Response<Body> {
        // Taken before the token is looked at, so that nobody can try many.
        let Ok(_permit) = self.attempts.try_acquire() else {
            return html(StatusCode::TOO_MANY_REQUESTS, pages::sign_in(Some(TOO_MANY)));
        };
        match self.access.sign_in(form.get("token"), client.address, SystemTime::now()) {
            Ok(cookie) => redirect("/fabric", Some(&cookie)),
            Err(SignInError::TooMany) => {
                html(StatusCode::TOO_MANY_REQUESTS, pages::sign_in(Some(TOO_MANY)))
            }
            Err(SignInError::WrongToken) => {
                tokio::time::sleep(WRONG_TOKEN_DELAY).await;
                html(StatusCode::UNAUTHORIZED, pages::sign_in(Some("This is not the token.")))
            }
        }
    }
}

fn html(status: StatusCode, page: Markup) -> Response<Body> {
    body(status, HTML, page.0)
}

fn stream(parts: Parts, kind: &'static str) -> Response<Body> {
    let mut response = Response::new(Either::Right(StreamBody::new(parts)));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
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
