//! Taking the symbols of a separate debug file over into the image of the stripped program it belongs to.
//!
//! Next: `settle`, which does the merging, as it does for the tables of one file.

use crate::image::NameIndex;
use crate::settle::{self, CodeSpace};
use crate::symtab::{Claim, ClaimKind};
use crate::{Error, Function, Image, Source};
use std::borrow::Cow;
use trimtab_types::FileAddr;

impl Image {
    /// This image, with names (and what they tell about fragments and sizes) of its separate debug file.
    ///
    /// Functions of hand-written assembly without a type are lost if the debug file alone names them.
    ///
    /// # Errors
    /// [`Error::OtherBuild`] if the debug file is not of the same build: other build id, or, where one of them has
    /// none, other addresses of code.
    pub fn with_symbols_of(&self, debug: &Image) -> Result<Image, Error> {
        if !is_same_build(self, debug) {
            return Err(Error::OtherBuild { image: self.build_id.clone(), debug: debug.build_id.clone() });
        }
        let space = CodeSpace::new(&self.segments, Vec::new());
        let mut claims = claims_of(self);
        claims.extend(claims_of(debug).into_iter().filter(|claim| !claim.name.is_empty()));
        let settled = settle::settle(claims, &space, &self.unwind.frames);
        Ok(Image {
            functions: settled.functions,
            fragments: settled.fragments,
            objects: settled.objects,
            thread_locals: settled.thread_locals,
            problems: self.problems.iter().chain(&debug.problems).cloned().collect(),
            names: NameIndex::default(),
            ..self.clone()
        })
    }
}

fn is_same_build(image: &Image, debug: &Image) -> bool {
    let has_note = |image: &Image| !image.build_id.0.starts_with("text-");
    if has_note(image) && has_note(debug) {
        return image.build_id == debug.build_id;
    }
    let code = |image: &Image| -> Vec<(FileAddr, u64)> {
        let executable = image.segments.iter().filter(|segment| segment.executable);
        executable.map(|segment| (segment.addr, segment.mem_size)).collect()
    };
    image.machine == debug.machine && code(image) == code(debug)
}

/// The contents of `image`, as claims; names keep their order by their rank.
fn claims_of(image: &Image) -> Vec<Claim<'_>> {
    let functions = image.functions.iter().flat_map(|function| {
        let named = if function.is_ifunc { ClaimKind::Ifunc } else { ClaimKind::Function };
        code_claims(function, named, ClaimKind::FrameEntry)
    });
    let fragments =
        image.fragments.iter().flat_map(|fragment| code_claims(fragment, ClaimKind::Fragment, ClaimKind::FramePart));
    let objects = image
        .objects
        .iter()
        .flat_map(|object| data_claims(ClaimKind::Object, object.addr.0, object.size, &object.names, object.exported));
    let thread_locals = image
        .thread_locals
        .iter()
        .flat_map(|local| data_claims(ClaimKind::ThreadLocal, local.offset, local.size, &local.names, local.exported));
    functions.chain(fragments).chain(objects).chain(thread_locals).collect()
}

fn data_claims(
    kind: ClaimKind,
    addr: u64,
    size: u64,
    names: &[String],
    exported: bool,
) -> impl Iterator<Item = Claim<'_>> {
    names.iter().zip(ranks()).map(move |(name, rank)| Claim {
        addr,
        size,
        name: Cow::Borrowed(name.as_str()),
        kind,
        rank,
        source: Source::Symtab,
        exported,
    })
}

fn code_claims(function: &Function, named: ClaimKind, unnamed: ClaimKind) -> Vec<Claim<'_>> {
    let claim = |name, kind, rank| Claim {
        addr: function.addr.0,
        size: function.size,
        name,
        kind,
        rank,
        source: function.source,
        exported: function.exported,
    };
    if function.names.is_empty() {
        return vec![claim(Cow::Borrowed(""), unnamed, u8::MAX)];
    }
    function.names.iter().zip(ranks()).map(|(name, rank)| claim(Cow::Borrowed(name.as_str()), named, rank)).collect()
}

fn ranks() -> impl Iterator<Item = u8> {
    (0..u8::MAX).chain(std::iter::repeat(u8::MAX))
}
