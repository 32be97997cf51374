//! Connections of one host through memory: bytes that a reader who is awake finds without the kernel's help.
//!
//! The socket stays: on it both ends have proved who they are, by it each learns at once that the other one is gone, and
//! over it the files come. Of what is said behind the hello nothing goes there any more. It is sealed as on any other
//! connection; the other end is a process of this user, and more than that is not believed of it: its files are checked
//! to be what they should be and to stay so, and [`crate::ring`] checks what stands in them.
//!
//! Whoever is about to wait says so on its *board*, looks once more, and waits; whoever then writes takes the sign down
//! and rings the *bell* of the one who waits. A node has a *gong* besides, which all who called it hear: one call of the
//! kernel wakes all children for a multicast. A bell that is never rung costs a beat, in which each node looks anyway.
//!
//! Next: `line`, which is one or the other; `greet`, by which the files come.

use crate::events::{Events, Heard};
use crate::limits::SHARED_COUNT_MAX;
use crate::ring::{RING_WORDS, Reader, Writer};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};
use trimtab_os::SharedMapping;

/// One ring each way.
const MEMORY_BYTES: usize = 2 * RING_WORDS * size_of::<AtomicU64>();
const BOARD_BYTES: usize = 4096;
/// So many files go with a greeting, either way.
pub(crate) const FILE_COUNT: usize = 3;
/// What nobody may do to a file that others map.
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

/// What a node has for all its connections through memory.
#[derive(Debug)]
pub(crate) struct Post {
    board: SharedMapping,
    board_file: OwnedFd,
    bell: OwnedFd,
    gong: OwnedFd,
    /// How many connections through memory there are.
    count: AtomicUsize,
    /// How many of their other ends called, and hear the gong.
    caller_count: AtomicUsize,
}

impl Post {
    /// # Errors
    /// When the kernel has no room, or this process may not have such files.
    pub(crate) fn new(events: &Events) -> io::Result<Self> {
        let (board_file, board) = make(BOARD_BYTES)?;
        let ring = || eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let (bell, gong) = (ring()?, ring()?);
        events.add_near(&bell)?;
        let (count, caller_count) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Ok(Post { board, board_file, bell, gong, count, caller_count })
    }

    /// Says that this node is about to wait, or doesn't any more. Who says that it will looks once more.
    pub(crate) fn says_it_waits(&self, waits: bool) {
        let sign = &self.board.words()[0];
        if waits {
            sign.store(1, Ordering::SeqCst);
            fence(Ordering::SeqCst);
        } else {
            sign.store(0, Ordering::Relaxed);
        }
    }

    /// How many connections through memory there are.
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// True if there are any.
    pub(crate) fn is_in_use(&self) -> bool {
        self.count() > 0
    }

    /// True if there may be another one.
    pub(crate) fn has_room(&self) -> bool {
        self.count() < SHARED_COUNT_MAX
    }

    /// True if one gong is better than so many bells: not if it wakes more who have nothing to hear.
    pub(crate) fn is_gong_better(&self, bell_count: usize) -> bool {
        bell_count >= 2 && 2 * bell_count >= self.caller_count.load(Ordering::Relaxed)
    }

    /// Wakes all who called.
    pub(crate) fn ring_gong(&self) {
        ring(&self.gong);
    }

    /// What a node that was called lends.
    pub(crate) fn files(&self) -> [BorrowedFd<'_>; FILE_COUNT] {
        [self.board_file.as_fd(), self.bell.as_fd(), self.gong.as_fd()]
    }
}

fn ring(bell: &OwnedFd) {
    // It can only be full, and then it rings.
    let _rings = rustix::io::write(bell, &1_u64.to_ne_bytes());
}

/// A file in memory that stays as long as it is, and our view of it.
fn make(length: usize) -> io::Result<(OwnedFd, SharedMapping)> {
    let file = memfd_create("trimtab", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    ftruncate(&file, length as u64)?;
    fcntl_add_seals(&file, SEALS)?;
    let mapping = SharedMapping::map(&file, length)?;
    Ok((file, mapping))
}

/// Our view of such a file of the other end's.
fn view(file: &OwnedFd, length: usize) -> io::Result<SharedMapping> {
    if !fcntl_get_seals(file)?.contains(SEALS) || fstat(file)?.st_size as u64 != length as u64 {
        return Err(wrong("a file in memory that may shrink"));
    }
    SharedMapping::map(file, length)
}

/// Only a write to a bell never waits and changes nothing else.
fn check_bell(file: &OwnedFd) -> io::Result<()> {
    let own = format!("/proc/self/fd/{}", file.as_raw_fd());
    if std::fs::read_link(own)? == Path::new("anon_inode:[eventfd]") { Ok(()) } else { Err(wrong("no bell")) }
}

fn wrong(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// Memory that a caller has made for a connection that is not yet one.
pub(crate) struct Offer {
    file: OwnedFd,
    words: SharedMapping,
    post: Arc<Post>,
}

impl Offer {
    /// # Errors
    /// As [`Post::new`].
    pub(crate) fn new(post: &Arc<Post>) -> io::Result<Self> {
        let (file, words) = make(MEMORY_BYTES)?;
        Ok(Offer { file, words, post: post.clone() })
    }

    /// What a caller lends.
    pub(crate) fn files(&self) -> [BorrowedFd<'_>; FILE_COUNT] {
        [self.file.as_fd(), self.post.board_file.as_fd(), self.post.bell.as_fd()]
    }

    /// The connection, by what the other end lent when it answered; none if it lent nothing.
    pub(crate) fn taken(self, lent: Vec<OwnedFd>) -> io::Result<Option<Memory>> {
        if lent.is_empty() {
            return Ok(None);
        }
        let [board, bell, gong] = three(lent)?;
        check_bell(&gong)?;
        Memory::new(self.words, &board, bell, self.post, Side::Caller { gong: Some(gong), heard: None }).map(Some)
    }
}

fn three(files: Vec<OwnedFd>) -> io::Result<[OwnedFd; FILE_COUNT]> {
    files.try_into().map_err(|_| wrong("another number of files"))
}

/// Which end of a connection this is.
enum Side {
    /// It called, and hears the other one's gong as soon as it has a place among a node's connections.
    Caller {
        gong: Option<OwnedFd>,
        heard: Option<Heard>,
    },
    Called,
}

/// One connection through memory.
pub(crate) struct Memory {
    words: SharedMapping,
    writer: Writer,
    reader: Reader,
    side: Side,
    /// The other end's board and bell.
    board: SharedMapping,
    bell: OwnedFd,
    post: Arc<Post>,
    /// True if the other end may wait for what was done since it was last looked after.
    owes_ring: bool,
}

impl Memory {
    /// The connection, by what a caller lent.
    ///
    /// # Errors
    /// When that isn't what it should be.
    pub(crate) fn answer(post: &Arc<Post>, lent: Vec<OwnedFd>) -> io::Result<Memory> {
        let [file, board, bell] = three(lent)?;
        let memory = Memory::new(view(&file, MEMORY_BYTES)?, &board, bell, post.clone(), Side::Called)?;
        post.caller_count.fetch_add(1, Ordering::Relaxed);
        Ok(memory)
    }

    fn new(words: SharedMapping, board: &OwnedFd, bell: OwnedFd, post: Arc<Post>, side: Side) -> io::Result<Memory> {
        check_bell(&bell)?;
        let board = view(board, BOARD_BYTES)?;
        post.count.fetch_add(1, Ordering::Relaxed);
        let (writer, reader) = (Writer::default(), Reader::default());
        Ok(Memory { words, writer, reader, side, board, bell, post, owes_ring: false })
    }

    /// From now on the node is woken by the gong of the one it called.
    pub(crate) fn listen(&mut self, events: &Arc<Events>) -> io::Result<()> {
        if let Side::Caller { gong, heard } = &mut self.side
            && let Some(gong) = gong.take()
        {
            *heard = Some(Heard::new(events, gong)?);
        }
        Ok(())
    }

    /// The rings: what is written here, what is read.
    fn rings(words: &SharedMapping, side: &Side) -> [std::ops::Range<usize>; 2] {
        let both = [0..RING_WORDS, RING_WORDS..2 * RING_WORDS];
        debug_assert!(words.words().len() >= 2 * RING_WORDS);
        match side {
            Side::Caller { .. } => both,
            Side::Called => {
                let [first, second] = both;
                [second, first]
            }
        }
    }

    /// Writes as much as there is room for; `WouldBlock` when there is none.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let [out, _] = Memory::rings(&self.words, &self.side);
        let count = self.writer.put(&self.words.words()[out], bytes)?;
        self.owes_ring = true;
        Ok(count)
    }

    /// Reads what is there; `WouldBlock` when there is nothing.
    pub(crate) fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let [_, ring] = Memory::rings(&self.words, &self.side);
        let ring = &self.words.words()[ring];
        let count = self.reader.take(ring, bytes)?;
        self.owes_ring |= Reader::is_awaited(ring);
        Ok(count)
    }

    /// True if there is something to read.
    pub(crate) fn has_come(&self) -> bool {
        let [_, ring] = Memory::rings(&self.words, &self.side);
        self.reader.has_come(&self.words.words()[ring])
    }

    /// True if the other end may have to be woken, once for all that was done since it was last asked.
    pub(crate) fn takes_debt(&mut self) -> bool {
        std::mem::take(&mut self.owes_ring)
    }

    /// True if the other end waits, of which the sign is taken down: who is told so must ring.
    pub(crate) fn must_ring(&self) -> bool {
        fence(Ordering::SeqCst);
        let sign = &self.board.words()[0];
        sign.load(Ordering::Relaxed) != 0 && sign.swap(0, Ordering::SeqCst) != 0
    }

    /// True if the other end hears this node's gong.
    pub(crate) fn hears_gong(&self) -> bool {
        matches!(self.side, Side::Called)
    }

    /// Wakes the other end.
    pub(crate) fn ring(&self) {
        ring(&self.bell);
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.post.count.fetch_sub(1, Ordering::Relaxed);
        if self.hears_gong() {
            self.post.caller_count.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn post() -> (Arc<Events>, Arc<Post>) {
        let events = Arc::new(Events::new().unwrap());
        let post = Arc::new(Post::new(&events).unwrap());
        (events, post)
    }

    fn owned(files: [BorrowedFd<'_>; FILE_COUNT]) -> Vec<OwnedFd> {
        files.iter().map(|file| file.try_clone_to_owned().unwrap()).collect()
    }

    fn heard(events: &Events) -> usize {
        let mut count = 0;
        events.take(false, |what| count += usize::from(what == crate::events::What::Near)).unwrap();
        count
    }

    #[test]
    fn two_ends_read_what_the_other_one_wrote_and_wake_it_if_it_waits() {
        let ([(called_events, called_post), (caller_events, caller_post)], mut bytes) =
            ([post(), post()], vec![0; 65_536]);
        let offer = Offer::new(&caller_post).unwrap();
        let mut called = Memory::answer(&called_post, owned(offer.files())).unwrap();
        let mut caller = offer.taken(owned(called_post.files())).unwrap().unwrap();
        caller.listen(&caller_events).unwrap();
        assert_eq!((called_post.count(), caller_post.count()), (1, 1));
        let (mut one, mut other) = (&mut caller, &mut called);
        for (post, events) in [(&called_post, &called_events), (&caller_post, &caller_events)] {
            assert!(!other.has_come() && !one.takes_debt());
            assert_eq!(one.write(b"four").unwrap(), 4);
            assert!(one.takes_debt() && !one.takes_debt() && other.has_come());
            assert!(!one.must_ring(), "it is awake");
            post.says_it_waits(true);
            assert!(one.must_ring() && !one.must_ring(), "once");
            assert_eq!(heard(events), 0);
            one.ring();
            assert_eq!((heard(events), heard(events)), (1, 0));
            assert_eq!(other.read(&mut bytes).unwrap(), 4);
            assert_eq!((&bytes[..4], other.takes_debt()), (&b"four"[..], false));
            (one, other) = (other, one);
        }
        called_post.ring_gong();
        assert_eq!((heard(&caller_events), heard(&called_events)), (1, 0));
        drop(caller);
        called_post.ring_gong();
        assert_eq!(heard(&caller_events), 0, "who left hears it no more");
        drop(called);
        assert!(!called_post.is_in_use() && !caller_post.is_in_use());
    }

    /// What a process of the same user might lend instead of what it should.
    #[test]
    fn files_that_may_change_or_make_one_wait_are_not_shared() {
        let ((_, called_post), (_, caller_post)) = (post(), post());
        let good = || owned(Offer::new(&caller_post).unwrap().files());
        let unsealed = memfd_create("x", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&unsealed, MEMORY_BYTES as u64).unwrap();
        let (short, _) = make(BOARD_BYTES).unwrap();
        let (long, _) = make(2 * MEMORY_BYTES).unwrap();
        let ordinary = OwnedFd::from(tempfile::tempfile().unwrap());
        let (_end, pipe) = std::io::pipe().unwrap();
        let pipe = OwnedFd::from(pipe);
        for (index, bad) in
            [(0, &unsealed), (0, &short), (0, &long), (0, &ordinary), (0, &pipe), (1, &long), (1, &pipe)]
        {
            let mut files = good();
            files[index] = bad.try_clone().unwrap();
            assert!(Memory::answer(&called_post, files).is_err());
        }
        for bad in [&pipe, &unsealed] {
            let mut files = good();
            files[2] = bad.try_clone().unwrap();
            assert!(Memory::answer(&called_post, files).is_err());
        }
        assert!(Memory::answer(&called_post, good().split_off(1)).is_err());
        assert!(Memory::answer(&called_post, Vec::new()).is_err());
        let offer = || Offer::new(&caller_post).unwrap();
        assert!(offer().taken(Vec::new()).unwrap().is_none(), "the socket will do");
        let mut files = owned(called_post.files());
        files[2] = pipe;
        assert!(offer().taken(files).is_err());
        assert!(!called_post.is_in_use() && !caller_post.is_in_use());
        assert!(Memory::answer(&called_post, good()).is_ok());
    }
}
