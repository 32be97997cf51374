//! The API's port: whoever has no certificate of the site's is not heard.
//!
//! TLS is finished before the request is looked at. Callers that haven't proved themselves are bounded in number and
//! time, and the oldest goes for a new one, so that silent ones keep nobody out.
//!
//! Next: `routes`, which gets the caller's role.

use crate::error::Error;
use crate::live::{Cuttable, Live};
use axum::extract::connect_info::Connected;
use axum::serve::IncomingStream;
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use trimtab_site::Role;

/// How long a caller may take to prove who it is.
const HANDSHAKE_TIME_MAX: Duration = Duration::from_secs(5);
/// Callers at once who have not.
const HANDSHAKE_COUNT_MAX: usize = 256;
/// Callers who have, and wait to be served.
const WAITING_COUNT_MAX: usize = 64;
/// After the kernel refused to give a connection, as when there are no more file numbers.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The caller of a request.
#[derive(Clone, Debug)]
pub struct Peer {
    /// From where.
    pub address: SocketAddr,
    /// The role that their certificate gives them.
    pub role: Role,
}

impl Connected<IncomingStream<'_, TlsListener>> for Peer {
    fn connect_info(stream: IncomingStream<'_, TlsListener>) -> Self {
        stream.remote_addr().clone()
    }
}

/// Connections whose other end has proved who it is.
pub struct TlsListener {
    address: SocketAddr,
    proved: mpsc::Receiver<(Cuttable, Peer)>,
    /// Stands in for the last caller once nobody accepts any more.
    last: Peer,
}

impl TlsListener {
    /// Listens.
    ///
    /// # Errors
    /// When the address can't be had.
    pub(crate) async fn bind(address: SocketAddr, tls: Arc<ServerConfig>, live: Arc<Live>) -> Result<Self, Error> {
        let failed = |source| Error::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let (sender, proved) = mpsc::channel(WAITING_COUNT_MAX);
        tokio::spawn(accepting(listener, TlsAcceptor::from(tls), sender, live));
        Ok(TlsListener { address, proved, last: Peer { address, role: Role::Controller } })
    }

    /// Where.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl axum::serve::Listener for TlsListener {
    type Io = Cuttable;
    type Addr = Peer;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        match self.proved.recv().await {
            Some(proved) => proved,
            // The task that accepts never ends before this.
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        Ok(self.last.clone())
    }
}

async fn accepting(listener: TcpListener, tls: TlsAcceptor, proved: mpsc::Sender<(Cuttable, Peer)>, live: Arc<Live>) {
    let mut handshakes: VecDeque<AbortHandle> = VecDeque::new();
    loop {
        let Ok((stream, address)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        handshakes.retain(|handshake| !handshake.is_finished());
        if handshakes.len() >= HANDSHAKE_COUNT_MAX
            && let Some(oldest) = handshakes.pop_front()
        {
            oldest.abort();
        }
        let (tls, proved, live) = (tls.clone(), proved.clone(), live.clone());
        let handshake = tokio::spawn(async move {
            let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE_TIME_MAX, tls.accept(stream)).await else { return };
            let certificate = match stream.get_ref().1.peer_certificates() {
                Some([certificate, ..]) => certificate.clone(),
                _ => return,
            };
            if let Ok(role) = Role::of(&certificate) {
                // Nobody serves any more if this fails.
                let _over = proved.send((live.add(stream, certificate), Peer { address, role })).await;
            }
        });
        handshakes.push_back(handshake.abort_handle());
    }
}
