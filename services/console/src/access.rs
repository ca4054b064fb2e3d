//! Admission to the console: the `Host` header against DNS rebinding, sessions, and proofs against
//! requests that another site makes in a viewer's name (CONSOLE-1, CONSOLE-3).
//!
//! A session is a cookie that names the person, what they may do and when it ends, with a proof
//! that only this process can make; nothing is kept for it.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, SystemTime};

use http::{HeaderMap, header};
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use tokio::time::Instant;

/// Name of the cookie of a signed-in viewer.
const COOKIE: &str = "fabricast_console";
/// Time for which a session lasts.
const SESSION: Duration = Duration::from_secs(12 * 3600);
/// Wrong tokens of one address within [`WINDOW`], after which it may not try until that ends.
const MAX_FAILURES: u32 = 10;
const WINDOW: Duration = Duration::from_secs(60);
/// Most addresses whose failures are counted; while all are taken no others may try (CONSOLE-2).
const MAX_COUNTED: usize = 1024;

/// Extent of what a viewer may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Look at everything.
    Reader,
    /// Change the fabric and the nodes, too.
    Administrator,
}

/// A token that a person signs in with.
#[derive(Clone, Debug)]
pub struct Token {
    /// Name of the person, for the audit.
    pub person: String,
    /// The text that they show.
    pub secret: String,
    /// Extent of what they may do.
    pub level: Level,
}

/// A person who has signed in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Session {
    pub(crate) person: String,
    pub(crate) level: Level,
    /// Means by which they have proved who they are.
    pub(crate) by: SignedIn,
}

/// Means of a sign-in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SignedIn {
    Token,
    Certificate,
}

/// Reason why nobody is signed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SignInError {
    WrongToken,
    /// Too many wrong tokens came from this address.
    TooMany,
}

/// Rules of admission.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    /// More names of the console, beside its address and those of this machine.
    pub(crate) hosts: Vec<String>,
    pub(crate) tokens: Vec<Token>,
    /// Everybody may look without signing in.
    pub(crate) is_open: bool,
    /// Random bytes of this start.
    pub(crate) secret: [u8; 32],
    /// Cookies travel over TLS only.
    pub(crate) is_encrypted: bool,
}

/// Checks of every request.
#[derive(Debug)]
pub(crate) struct Access {
    /// Names that the console is called by, without port.
    hosts: Vec<String>,
    tokens: Vec<KnownToken>,
    is_open: bool,
    secret: [u8; 32],
    is_encrypted: bool,
    failures: Mutex<BTreeMap<IpAddr, Failures>>,
}

#[derive(Debug)]
struct KnownToken {
    digest: [u8; 32],
    person: String,
    level: Level,
}

/// Wrong tokens of one address.
#[derive(Clone, Copy, Debug)]
struct Failures {
    since: Instant,
    count: u32,
}

impl Access {
    pub(crate) fn new(listen: SocketAddr, rules: Rules) -> Self {
        let mut all: Vec<String> = ["localhost", "127.0.0.1", "[::1]"].map(str::to_owned).into();
        all.push(match listen.ip() {
            IpAddr::V4(address) => address.to_string(),
            IpAddr::V6(address) => format!("[{address}]"),
        });
        let Rules { hosts, tokens, is_open, secret, is_encrypted } = rules;
        all.extend(hosts.iter().map(|host| host.to_ascii_lowercase()));
        let known = tokens.into_iter().map(|Token { person, secret, level }| KnownToken {
            digest: digest(secret.trim()),
            person,
            level,
        });
        let (tokens, failures) = (known.collect(), Mutex::default());
        Self { hosts: all, tokens, is_open, secret, is_encrypted, failures }
    }

    /// True if the request names this console: a page of another site that has its name point here
    /// does not.
    pub(crate) fn knows_host(&self, headers: &HeaderMap) -> bool {
        let mut hosts = headers.get_all(header::HOST).iter();
        let (Some(host), None) = (hosts.next(), hosts.next()) else { return false };
        let Ok(host) = host.to_str() else { return false };
        let name = match host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
            Some(_) | None => host,
        };
        self.hosts.iter().any(|known| known.eq_ignore_ascii_case(name))
    }

    /// True if there is something to sign in with.
    pub(crate) fn has_tokens(&self) -> bool {
        !self.tokens.is_empty()
    }

    /// True if viewers may look without signing in.
    pub(crate) fn is_open(&self) -> bool {
        self.is_open
    }

    /// The session that a request shows a cookie of.
    pub(crate) fn session(&self, headers: &HeaderMap, now: SystemTime) -> Option<Session> {
        let cookies =
            headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
        let values = cookies.flat_map(|line| line.split(';'));
        let mut own = values.filter_map(|pair| pair.trim().split_once('='));
        own.find_map(|(name, value)| if name == COOKIE { self.read(value, now) } else { None })
    }

    fn read(&self, value: &str, now: SystemTime) -> Option<Session> {
        let (claim, proof) = value.rsplit_once('.')?;
        if !is_equal(&self.proof("session", claim), proof) {
            return None;
        }
        let mut parts = claim.splitn(3, '.');
        let level = match parts.next()? {
            "admin" => Level::Administrator,
            "reader" => Level::Reader,
            _ => return None,
        };
        let ends = Duration::from_secs(parts.next()?.parse().ok()?);
        let person = percent_encoding::percent_decode_str(parts.next()?).decode_utf8().ok()?;
        let is_over = now.duration_since(SystemTime::UNIX_EPOCH).ok()? >= ends;
        let by = SignedIn::Token;
        (!is_over).then(|| Session { person: person.into_owned(), level, by })
    }

    /// Checks a token; returns the cookie of its bearer.
    pub(crate) fn sign_in(
        &self,
        shown: &str,
        from: IpAddr,
        now: SystemTime,
    ) -> Result<String, SignInError> {
        let token = self.checked(shown, from)?;
        let ends = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default() + SESSION;
        let level = match token.level {
            Level::Administrator => "admin",
            Level::Reader => "reader",
        };
        let person = crate::http::encoded(&token.person);
        let claim = format!("{level}.{}.{person}", ends.as_secs());
        let proof = self.proof("session", &claim);
        let secure = if self.is_encrypted { "; Secure" } else { "" };
        Ok(format!("{COOKIE}={claim}.{proof}; HttpOnly; SameSite=Strict; Path=/{secure}"))
    }

    /// True if the token is that of the person who has signed in, who is asked for it again.
    pub(crate) fn confirms(
        &self,
        session: &Session,
        shown: &str,
        from: IpAddr,
    ) -> Result<(), SignInError> {
        let token = self.checked(shown, from)?;
        let is_theirs = token.person == session.person && token.level >= session.level;
        if is_theirs { Ok(()) } else { Err(SignInError::WrongToken) }
    }

    fn checked(&self, shown: &str, from: IpAddr) -> Result<&KnownToken, SignInError> {
        if !self.may_try(from) {
            return Err(SignInError::TooMany);
        }
        let shown = digest(shown.trim());
        // All are compared, so that the time does not tell which was nearly right.
        let found = self.tokens.iter().fold(None, |found, token| {
            if token.digest.ct_eq(&shown).into() { Some(token) } else { found }
        });
        found.ok_or_else(|| {
            self.count_failure(from);
            SignInError::WrongToken
        })
    }

    fn may_try(&self, from: IpAddr) -> bool {
        let mut failures = self.failures.lock();
        failures.retain(|_, of| of.since.elapsed() < WINDOW);
        match failures.get(&from) {
            Some(of) => of.count < MAX_FAILURES,
            None => failures.len() < MAX_COUNTED,
        }
    }

    fn count_failure(&self, from: IpAddr) {
        let mut failures = self.failures.lock();
        let of = failures.entry(from).or_insert(Failures { since: Instant::now(), count: 0 });
        of.count += 1;
    }

    /// Proof that a form was made by this process, for this person and this purpose.
    pub(crate) fn form_proof(&self, session: &Session, purpose: &str) -> String {
        let Session { person, level, by } = session;
        self.proof("form", &format!("{level:?} {by:?} {} {purpose}", crate::http::encoded(person)))
    }

    /// True if a form has the proof of [`Self::form_proof`].
    pub(crate) fn is_own_form(&self, session: &Session, purpose: &str, shown: &str) -> bool {
        is_equal(&self.form_proof(session, purpose), shown)
    }

    /// A keyed digest; the outer one keeps anybody from extending the text.
    fn proof(&self, kind: &str, text: &str) -> String {
        let keyed =
            |part: &[u8]| Sha256::new().chain_update(self.secret).chain_update(part).finalize();
        let inner = keyed(format!("{kind}\n{text}").as_bytes());
        keyed(&inner).iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// True if a request that changes something comes from a page of this console, as the browser says.
pub(crate) fn is_same_site(headers: &HeaderMap) -> bool {
    let text = |name| headers.get(name).map(|value: &http::HeaderValue| value.to_str());
    match (text("sec-fetch-site"), text("origin")) {
        (Some(site), _) => site.is_ok_and(|site| site == "same-origin" || site == "none"),
        (None, Some(origin)) => {
            let origin = origin.ok().and_then(|origin| origin.split_once("://"));
            let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
            origin.is_some_and(|(_, name)| host.is_some_and(|host| host == name))
        }
        // Not a browser: there is nobody whose cookie it could misuse.
        (None, None) => true,
    }
}

fn digest(text: &str) -> [u8; 32] {
    Sha256::digest(text.as_bytes()).into()
}

fn is_equal(own: &str, shown: &str) -> bool {
    own.as_bytes().ct_eq(shown.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn with(name: header::HeaderName, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(name, HeaderValue::from_str(value).unwrap())])
    }

    fn access(secret: u8) -> Access {
        let token = |person: &str, secret: &str, level| Token {
            person: person.to_owned(),
            secret: secret.to_owned(),
            level,
        };
        let rules = Rules {
            hosts: vec!["console.example".to_owned()],
            tokens: vec![
                token("rita", "look", Level::Reader),
                token("ann.b", "change", Level::Administrator),
            ],
            is_open: false,
            secret: [secret; 32],
            is_encrypted: false,
        };
        Access::new("127.0.0.1:7480".parse().unwrap(), rules)
    }

    #[test]
    fn only_its_own_names_are_answered() {
        let access = access(1);
        for good in
            ["127.0.0.1:7480", "localhost", "LOCALHOST:1", "[::1]:80", "console.example:443"]
        {
            assert!(access.knows_host(&with(header::HOST, good)), "{good}");
        }
        for bad in ["", "evil.example", "localhost.evil.example:7480", "127.0.0.1:7480.evil", "::1"]
        {
            assert!(!access.knows_host(&with(header::HOST, bad)), "{bad}");
        }
        assert!(!access.knows_host(&HeaderMap::new()), "no host at all");
    }

    #[test]
    fn a_cookie_says_who_has_signed_in_until_it_ends() {
        let (access, now) = (access(1), SystemTime::now());
        assert_eq!(access.session(&HeaderMap::new(), now), None);
        assert_eq!(access.sign_in("loo", HERE, now), Err(SignInError::WrongToken));
        let cookie = access.sign_in(" change\n", HERE, now).unwrap();
        assert!(cookie.contains("HttpOnly; SameSite=Strict"), "{cookie}");
        let pair = cookie.split(';').next().unwrap();
        let shown = with(header::COOKIE, &format!("a=b; {pair}"));
        let session = access.session(&shown, now).unwrap();
        assert_eq!((session.person.as_str(), session.level), ("ann.b", Level::Administrator));
        assert_eq!(access.session(&shown, now + SESSION), None, "it has ended");
        assert_eq!(tests::access(2).session(&shown, now), None, "of another start");
    }

    #[test]
    fn no_forged_cookie_is_a_session() {
        let (access, now) = (access(1), SystemTime::now());
        let cookie = access.sign_in("look", HERE, now).unwrap();
        let value = cookie.split(';').next().unwrap().split_once('=').unwrap().1;
        let good = |value: &str| {
            access.session(&with(header::COOKIE, &format!("{COOKIE}={value}")), now).is_some()
        };
        assert!(good(value));
        for forged in [
            value.replace("reader", "admin"),
            value.replace("rita", "ann"),
            value[..value.len() - 1].to_owned(),
            format!("{value}0"),
            "look".to_owned(),
            String::new(),
            "..".to_owned(),
        ] {
            assert!(!good(&forged), "{forged}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_that_guesses_has_to_wait() {
        let (access, now) = (access(1), SystemTime::now());
        for _ in 0..MAX_FAILURES {
            assert_eq!(access.sign_in("guess", HERE, now), Err(SignInError::WrongToken));
        }
        assert_eq!(access.sign_in("look", HERE, now), Err(SignInError::TooMany));
        let other = "192.0.2.1".parse().unwrap();
        assert!(access.sign_in("look", other, now).is_ok(), "another address may");
        tokio::time::advance(WINDOW).await;
        assert!(access.sign_in("look", HERE, now).is_ok());
        for number in 0..2 * MAX_COUNTED {
            let from = IpAddr::V4(u32::try_from(number).unwrap().into());
            let _ = access.sign_in("guess", from, now);
        }
        assert!(access.failures.lock().len() <= MAX_COUNTED);
    }

    #[test]
    fn a_form_is_of_one_person_and_purpose() {
        let access = access(1);
        let session =
            |person: &str, level| Session { person: person.to_owned(), level, by: SignedIn::Token };
        let ann = session("ann.b", Level::Administrator);
        let proof = access.form_proof(&ann, "fail s1");
        assert!(access.is_own_form(&ann, "fail s1", &proof));
        assert!(!access.is_own_form(&ann, "fail s2", &proof));
        assert!(!access.is_own_form(&session("bob", Level::Administrator), "fail s1", &proof));
        assert!(!access.is_own_form(&session("ann.b", Level::Reader), "fail s1", &proof));
        assert!(access.confirms(&ann, "change", HERE).is_ok());
        assert_eq!(access.confirms(&ann, "look", HERE), Err(SignInError::WrongToken));
    }

    #[test]
    fn a_page_of_another_site_changes_nothing() {
        let of = |pairs: &[(&'static str, &str)]| {
            let mut headers = with(header::HOST, "127.0.0.1:7480");
            for (name, value) in pairs {
                headers.insert(*name, HeaderValue::from_str(value).unwrap());
            }
            is_same_site(&headers)
        };
        assert!(of(&[]) && of(&[("sec-fetch-site", "same-origin")]));
        assert!(of(&[("origin", "http://127.0.0.1:7480")]));
        for bad in ["http://evil.example", "null", "http://127.0.0.1:7481", ""] {
            assert!(!of(&[("origin", bad)]), "{bad}");
        }
        for bad in ["cross-site", "same-site", ""] {
            assert!(!of(&[("sec-fetch-site", bad), ("origin", "http://127.0.0.1:7480")]), "{bad}");
        }
    }
}
