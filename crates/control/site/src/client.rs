//! Asking the controller: one connection per question, both ends proved, no thread left behind.
//!
//! Next: `api` for what can be asked, `refusal` for why it is not answered.

use crate::API_PORT;
use crate::api::{BODY_BYTES_MAX, Problem, REPORT_BYTES_MAX};
use crate::error::SiteError;
use crate::identity::Identity;
use crate::refusal::{Times, alert_of, distrust};
use crate::role::Role;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use trimtab_types::one_line;

/// Longest time for an answer: the controller asks all agents for at most a second.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// The same for a long report, which is behind others at the controller.
const KEPT_MAX: Duration = Duration::from_secs(60);

/// Somebody who can ask the controller.
#[derive(Clone)]
pub struct Client {
    name: String,
    tls: Arc<ClientConfig>,
    times: Times,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Client {
    /// For a controller, `HOST` or `HOST:PORT`, which is not asked yet.
    ///
    /// # Errors
    /// An identity that can't be used.
    pub fn new(controller: &str, identity: &Identity) -> Result<Self, SiteError> {
        Ok(Client { name: controller.to_owned(), tls: Arc::new(identity.client()?), times: Times::of(identity) })
    }

    /// Where the controller is; of several addresses the first of the older kind, which every cluster has.
    ///
    /// # Errors
    /// A name without address.
    pub fn address(&self) -> Result<SocketAddr, SiteError> {
        let missing = || SiteError::NoAddress { name: self.name.clone() };
        if let Ok(address) = self.name.parse::<IpAddr>() {
            return Ok(SocketAddr::new(address, API_PORT));
        }
        let is_with_port = self.name.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let name = if is_with_port { self.name.clone() } else { format!("{}:{API_PORT}", self.name) };
        let all: Vec<SocketAddr> = name.to_socket_addrs().map_err(|_| missing())?.collect();
        all.iter().copied().find(SocketAddr::is_ipv4).or(all.first().copied()).ok_or_else(missing)
    }

    /// Asks for something.
    ///
    /// # Errors
    /// The controller can't be reached, isn't one of this site, or refuses.
    pub fn get<A: DeserializeOwned>(&self, path: &str) -> Result<A, SiteError> {
        self.ask(Method::GET, path, Vec::new(), ANSWER_MAX)
    }

    /// Asks for something that is text.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn text(&self, path: &str) -> Result<String, SiteError> {
        let (_, answer) = self.bytes(Method::GET, path, Vec::new(), ANSWER_MAX)?;
        Ok(String::from_utf8_lossy(&answer).into_owned())
    }

    /// Gives something, for an answer.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn post<A: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<A, SiteError> {
        self.ask(Method::POST, path, bounded(body, BODY_BYTES_MAX)?, ANSWER_MAX)
    }

    /// Gives a report to be kept, which may be longer than anything else.
    ///
    /// # Errors
    /// As [`Client::get`]; [`SiteError::TooLong`].
    pub fn file<A: DeserializeOwned>(&self, path: &str, report: &impl Serialize) -> Result<A, SiteError> {
        self.ask(Method::POST, path, bounded(report, REPORT_BYTES_MAX)?, KEPT_MAX)
    }

    /// Ends something.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn delete(&self, path: &str) -> Result<(), SiteError> {
        self.ask(Method::DELETE, path, Vec::new(), ANSWER_MAX)
    }

    fn ask<A: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Vec<u8>,
        time_max: Duration,
    ) -> Result<A, SiteError> {
        let (address, answer) = self.bytes(method, path, body, time_max)?;
        let broken = |error: serde_json::Error| SiteError::Broken {
            address: address.to_string(),
            what: format!("{error}; does it run the same version?"),
        };
        serde_json::from_slice(&answer).map_err(broken)
    }

    fn bytes(
        &self,
        method: Method,
        path: &str,
        body: Vec<u8>,
        time_max: Duration,
    ) -> Result<(SocketAddr, Bytes), SiteError> {
        let address = self.address()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let answer = runtime.block_on(async {
            let asked = tokio::time::timeout(time_max, self.exchange(address, method, path, body)).await;
            asked.unwrap_or_else(|_| Err(SiteError::Slow { address: address.to_string(), seconds: time_max.as_secs() }))
        })?;
        Ok((address, answer))
    }

    async fn exchange(
        &self,
        address: SocketAddr,
        method: Method,
        path: &str,
        body: Vec<u8>,
    ) -> Result<Bytes, SiteError> {
        let broken = |what: String| SiteError::Broken { address: address.to_string(), what };
        let unreachable = |source| SiteError::Unreachable { address: address.to_string(), source };
        let stream = TcpStream::connect(address).await.map_err(unreachable)?;
        // Only a certificate of the controller's has this name, whatever its host is called.
        let name = ServerName::try_from(Role::Controller.name()).map_err(|error| broken(error.to_string()))?;
        let stream = TlsConnector::from(self.tls.clone()).connect(name, stream).await;
        let stream = stream.map_err(|error| distrust(address, &error))?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| broken(one_line(&error)))?;
        tokio::spawn(connection);
        let request = Request::builder().method(method).uri(path).header(HOST, address.to_string());
        let request = request.header(CONTENT_TYPE, "application/json").body(Full::new(Bytes::from(body)));
        let request = request.map_err(|error| broken(error.to_string()))?;
        // In TLS 1.3 the other end's refusal of our certificate arrives only with the first answer.
        let answer = sender.send_request(request).await.map_err(|error| {
            let why = self.times.why_not_taken(alert_of(&error).as_deref());
            why.map_or_else(
                || broken(one_line(&error)),
                |why| SiteError::NotTaken { address: address.to_string(), why },
            )
        })?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), REPORT_BYTES_MAX).collect().await;
        let body = body.map_err(|error| broken(error.to_string()))?.to_bytes();
        if status.is_success() {
            return Ok(if body.is_empty() { Bytes::from_static(b"null") } else { body });
        }
        let what =
            serde_json::from_slice::<Problem>(&body).map_or_else(|_| status.to_string(), |problem| problem.error);
        Err(SiteError::Refused { status: status.as_u16(), what })
    }
}

fn bounded(body: &impl Serialize, byte_count_max: usize) -> Result<Vec<u8>, SiteError> {
    let body = serde_json::to_vec(body).map_err(|error| SiteError::Io(error.into()))?;
    match body.len() {
        byte_count if byte_count > byte_count_max => Err(SiteError::TooLong { byte_count, byte_count_max }),
        _ => Ok(body),
    }
}
