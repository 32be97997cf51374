//! An image as bytes for a cache on disk, and back: a header with version and checksum, then postcard.
//!
//! A cached image decides where a program is patched, so damage must be noticed: the checksum tells accidents, and
//! the order that look-ups rely on is checked again. Where the bytes are kept is the caller's business.
//!
//! Next: [`crate::image`] for what is stored.

use crate::{Error, Function, Image};
use trimtab_types::FileAddr;
use twox_hash::XxHash3_128;

const MAGIC: &[u8; 8] = b"trimtabI";
/// Begins a cached index of debugging information.
pub(crate) const INDEX_MAGIC: &[u8; 8] = b"trimtabD";
/// Raise it with every change to what [`Image`] or its parts hold or mean.
const VERSION: u32 = 5;
const HEADER_BYTES: usize = MAGIC.len() + size_of::<u32>() + size_of::<u128>();

impl Image {
    /// The image as bytes for a cache; see [`Image::from_cache`].
    pub fn to_cache(&self) -> Vec<u8> {
        // Serialising plain data into memory has no way to fail; were it to, the header alone is refused on reading.
        seal(&postcard::to_stdvec(self).unwrap_or_default())
    }

    /// An image from the bytes that [`Image::to_cache`] made.
    ///
    /// # Errors
    /// [`Error::BadCache`] for damaged bytes and those of another version.
    pub fn from_cache(bytes: &[u8]) -> Result<Image, Error> {
        let payload = unseal_as(MAGIC, VERSION, bytes).map_err(bad)?;
        let (image, rest) = postcard::take_from_bytes::<Image>(payload).map_err(bad)?;
        if !rest.is_empty() {
            return Err(bad(format!("{} bytes too many", rest.len())));
        }
        check_order(&image)?;
        Ok(image)
    }
}

/// Puts the header before a payload. Public for fuzzing only: with it, inputs get past the checksum.
#[doc(hidden)]
pub fn seal(payload: &[u8]) -> Vec<u8> {
    seal_as(MAGIC, VERSION, payload)
}

/// Puts the header of any kind of cache before a payload: what it is, its version, and a checksum.
pub fn seal_as(magic: &[u8; 8], version: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER_BYTES + payload.len());
    bytes.extend_from_slice(magic);
    bytes.extend_from_slice(&version.to_le_bytes());
    bytes.extend_from_slice(&XxHash3_128::oneshot(payload).to_le_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

/// Why bytes are no cache of a kind and version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotSealed {
    /// They end before its header does.
    #[error("{0} bytes are no header")]
    Short(usize),
    /// They are of another kind.
    #[error("it is something else")]
    OtherKind,
    /// They are not of this version.
    #[error("its version is not {0}")]
    OtherVersion(u32),
    /// They are damaged.
    #[error("its checksum is wrong")]
    Checksum,
}

/// The payload behind a header of this kind and version.
///
/// # Errors
/// [`NotSealed`].
pub fn unseal_as<'a>(magic: &[u8; 8], version: u32, bytes: &'a [u8]) -> Result<&'a [u8], NotSealed> {
    let (header, payload) = bytes.split_at_checked(HEADER_BYTES).ok_or(NotSealed::Short(bytes.len()))?;
    let (found_magic, rest) = header.split_at(MAGIC.len());
    let (found_version, checksum) = rest.split_at(size_of::<u32>());
    if found_magic != magic {
        return Err(NotSealed::OtherKind);
    }
    if found_version != version.to_le_bytes() {
        return Err(NotSealed::OtherVersion(version));
    }
    if checksum != XxHash3_128::oneshot(payload).to_le_bytes() {
        return Err(NotSealed::Checksum);
    }
    Ok(payload)
}

/// A number that stands for these bytes, so that later it can be seen that they are the same.
pub fn fingerprint(bytes: &[u8]) -> u64 {
    XxHash3_128::oneshot(bytes) as u64
}

fn check_order(image: &Image) -> Result<(), Error> {
    let ascending = |addrs: &mut dyn Iterator<Item = FileAddr>| addrs.is_sorted_by(|a, b| a < b);
    let functions = |list: &[Function]| ascending(&mut list.iter().map(|function| function.addr));
    let frames = image.frames();
    let frames_apart =
        frames.windows(2).all(|pair| pair[0].addr.0.checked_add(pair[0].size).is_some_and(|end| end <= pair[1].addr.0));
    let last_fits = frames.last().is_none_or(|frame| frame.addr.0.checked_add(frame.size).is_some());
    let in_order = functions(&image.functions)
        && functions(&image.fragments)
        && ascending(&mut image.objects.iter().map(|object| object.addr))
        && ascending(&mut image.slots.iter().map(|slot| slot.addr))
        && ascending(&mut image.stubs.iter().map(|stub| stub.addr))
        && frames.is_sorted_by(|a, b| a.addr < b.addr)
        && frames_apart
        && last_fits;
    if in_order { Ok(()) } else { Err(bad("its lists are not in order")) }
}

fn bad(what: impl ToString) -> Error {
    Error::BadCache { what: what.to_string() }
}
