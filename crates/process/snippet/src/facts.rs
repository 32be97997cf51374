//! The facts of the program that a script needs, as questions. The caller answers them from symbol tables, debug
//! information and tables of MPI functions; nothing here opens a file.
//!
//! Next: `table`, answers held in memory; `resolve`, which asks.

use crate::ir::Register;
use crate::syntax::{FunctionPattern, Name, PointKind};
use crate::types::{Struct, StructId, Type};
use trimtab_types::ProcAddr;

/// A function of the program, as the facts count them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FunctionId(pub u32);

/// An instruction where a probe goes, as the facts count them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SiteId(pub u32);

/// One place that a point other than a function's entry or exit means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PointSite {
    /// Which.
    pub id: SiteId,
    /// The function it lies in, if known.
    pub function: Option<FunctionId>,
    /// At calls: the function that is called, if known.
    pub callee: Option<FunctionId>,
}

/// A value's type and where it is when a body runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// Its type.
    pub kind: Type,
    /// Its place.
    pub location: Location,
}

/// Where a value is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// In a general register; narrower types in its low bits.
    Register(Register),
    /// In the low bits of `xmmN`.
    Vector(u8),
    /// In memory, so many bytes behind the first argument that is passed on the stack. Entries and calls only.
    Stack(i64),
    /// In memory, so many bytes from what a register holds.
    Relative(Register, i64),
    /// In memory, at this address of the process.
    Address(ProcAddr),
    /// Nowhere: the compiler knew it.
    Constant(i64),
    /// Not available, and why.
    Gone(String),
}

/// An argument of a function at its entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument {
    /// Its name; empty if it has none.
    pub name: String,
    /// Its type and place at the entry.
    pub object: Object,
}

/// The known interface of a function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Signature {
    /// Its arguments; `None` if they are not known.
    pub arguments: Option<Vec<Argument>>,
    /// The result and where it is at the exit; `None` if that is not known.
    pub returned: Option<Object>,
    /// Not all that it takes is described: an argument whose place is not known may be asked for by number, as one of a
    /// function of which nothing is known.
    pub by_number: bool,
}

/// Why a global variable was not found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoObject {
    /// There is none of that name.
    Unknown,
    /// There are several; how to tell them apart, as in `file.c::name`.
    Ambiguous(Vec<String>),
    /// There is one, but it cannot be used, and why.
    Unusable(String),
}

/// How to learn the size of what an MPI datatype handle describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatatypeSize {
    /// `(handle & mask) == kind`: the size is `(handle >> shift) & size_mask`. Of other handles it is not known: the
    /// size is 0 and the thread's count of unreadable loads goes up.
    Bits {
        /// Bits that say what kind of handle it is.
        mask: u64,
        /// Their value for handles that tell their size.
        kind: u64,
        /// Where the size begins.
        shift: u8,
        /// Its bits.
        size_mask: u64,
    },
    /// The handle is an address; the size is the 64-bit word so many bytes behind it.
    WordAt(i64),
}

/// Why a point means no place: an error of the program that knows the processes, whose words the reader gets.
pub type NoSites = Box<dyn std::error::Error + Send + Sync>;

/// Facts about one program at one moment. Types nest a few levels only (pointers of pointers, arrays of arrays): whoever
/// makes them from debug information bounds that; structs are named by number, so they may refer to themselves.
pub trait Facts {
    /// The functions that match, each once; empty if none does.
    fn functions(&self, pattern: &FunctionPattern) -> Vec<FunctionId>;
    /// A stand-in for the functions that a pattern will mean once its library is loaded, if that is waited for. Nothing is
    /// known of it but its name.
    fn awaited(&self, _pattern: &FunctionPattern) -> Option<FunctionId> {
        None
    }
    /// The name of a function, for messages.
    fn function_name(&self, function: FunctionId) -> String;
    /// Names of functions to suggest for one that is not there; may be a selection.
    fn function_names(&self, like: &str) -> Vec<String>;
    /// The places that a point other than an entry or exit means.
    ///
    /// # Errors
    /// Why there is none.
    fn sites(&self, point: &PointKind) -> Result<Vec<PointSite>, NoSites>;
    /// Arguments and return value of a function.
    fn signature(&self, function: FunctionId) -> Signature;
    /// A local variable or argument at a site, by name.
    fn local(&self, site: SiteId, name: &str) -> Option<Object>;
    /// The names that `local` knows at a site.
    fn local_names(&self, site: SiteId) -> Vec<String>;
    /// A global or static variable as seen from a function.
    ///
    /// # Errors
    /// Why there is none.
    fn global(&self, name: &Name, from: Option<FunctionId>) -> Result<Object, NoObject>;
    /// Names of global variables to suggest for one that is not there.
    fn global_names(&self, like: &str) -> Vec<String>;
    /// A struct.
    fn structure(&self, id: StructId) -> Option<Struct>;
    /// A type by its name, as `particle_t`, `struct particle` or `MPI_Datatype`.
    fn type_named(&self, name: &str) -> Option<Type>;
    /// Names of types to suggest for one that is not there.
    fn type_names(&self, like: &str) -> Vec<String>;
    /// The value of an enumerator.
    fn enumerator(&self, name: &str) -> Option<i64>;
    /// Why names of a function's arguments and variables are not known, where that is for want of a file.
    fn missing(&self, function: FunctionId) -> Option<String> {
        let _no_file_is_missing = function;
        None
    }
    /// Why there is no function of a name, where more is known than that: it was inlined, say, and where.
    fn why_no_function(&self, name: &str) -> Option<String> {
        let _nothing_is_known = name;
        None
    }
    /// The address of a function that a probe may call.
    fn call_address(&self, name: &str) -> Option<ProcAddr>;
    /// How sizes of MPI datatypes are learnt; `None` if no MPI library is known.
    fn datatype_size(&self) -> Option<DatatypeSize>;
}
