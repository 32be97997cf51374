//! Connections of callers that go on, each with the certificate that was proved at its beginning, and their end.
//!
//! A caller may keep a connection for many requests, or wait on one for a call. If its certificate is revoked meanwhile,
//! it is cut: whoever reads from it, or waits to, gets an error.
//!
//! Next: `listener`, which makes them.

use rustls::pki_types::CertificateDer;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

/// All of them.
#[derive(Default)]
pub(crate) struct Live {
    all: Mutex<Vec<Weak<Cut>>>,
}

/// Ends one connection.
struct Cut {
    certificate: CertificateDer<'static>,
    is_cut: AtomicBool,
    /// Whoever waits for bytes of it.
    reader: Mutex<Option<Waker>>,
}

/// A connection that can be cut.
pub struct Cuttable {
    stream: TlsStream<TcpStream>,
    cut: Arc<Cut>,
}

impl Live {
    /// A connection that goes on from now on.
    pub(crate) fn add(&self, stream: TlsStream<TcpStream>, certificate: CertificateDer<'static>) -> Cuttable {
        let cut = Arc::new(Cut { certificate, is_cut: AtomicBool::new(false), reader: Mutex::default() });
        let mut all = self.lock();
        all.retain(|cut| cut.strong_count() > 0);
        all.push(Arc::downgrade(&cut));
        Cuttable { stream, cut }
    }

    /// Cuts those with such a certificate; how many.
    pub(crate) fn cut(&self, is_bad: impl Fn(&CertificateDer<'static>) -> bool) -> usize {
        let all: Vec<Arc<Cut>> = self.lock().iter().filter_map(Weak::upgrade).collect();
        let goes_on = |cut: &&Arc<Cut>| !cut.is_cut.load(Ordering::Acquire);
        let bad: Vec<&Arc<Cut>> = all.iter().filter(goes_on).filter(|cut| is_bad(&cut.certificate)).collect();
        for cut in &bad {
            cut.is_cut.store(true, Ordering::Release);
            cut.reader().take().into_iter().for_each(Waker::wake);
        }
        bad.len()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Weak<Cut>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Cut {
    fn reader(&self) -> MutexGuard<'_, Option<Waker>> {
        self.reader.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check(&self) -> io::Result<()> {
        match self.is_cut.load(Ordering::Acquire) {
            true => Err(io::Error::new(io::ErrorKind::ConnectionAborted, "the caller's certificate was revoked")),
            false => Ok(()),
        }
    }
}

impl AsyncRead for Cuttable {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // First the waker, then the look: whoever cuts in between wakes it.
        *self.cut.reader() = Some(context.waker().clone());
        self.cut.check()?;
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Cuttable {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.cut.check()?;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.cut.check()?;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
