//! Which MPI library does a process have, and what do its handles look like?
//!
//! The caller supplies facts about the mapped modules ([`LibraryFacts`]); nothing is read here. The facts that come
//! back are what the counting routine inside the target needs to understand raw arguments.
//!
//! Next: [`accounting`](crate::accounting) says how they are used.

/// Facts that the caller knows about a process.
pub trait LibraryFacts {
    /// Paths of all mapped files, the program first.
    fn modules(&self) -> Vec<String>;

    /// True if any module defines this symbol.
    fn defines(&self, symbol: &str) -> bool;

    /// The text up to the zero byte at this symbol, read from the module's file or the process.
    fn text_at(&self, symbol: &str) -> Option<String>;

    /// The text that follows the first `prefix` in the read-only data of the MPI library (or of the program, if it is
    /// static), up to the first zero or control byte. May be slow; called only when symbols did not answer.
    fn text_after(&self, prefix: &str) -> Option<String>;
}

/// An MPI library, with its version where it could be found.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Library {
    /// MPICH itself.
    Mpich {
        /// Such as "4.0.2".
        version: Option<String>,
    },
    /// MVAPICH, of the MPICH family.
    Mvapich {
        /// Such as "2.3.7".
        version: Option<String>,
    },
    /// Intel MPI, of the MPICH family.
    Intel {
        /// Such as "2021.10".
        version: Option<String>,
    },
    /// Cray or HPE MPICH, of the MPICH family.
    Cray {
        /// Such as "8.1.28".
        version: Option<String>,
    },
    /// Open MPI and libraries made from it.
    OpenMpi {
        /// Such as "4.1.4".
        version: Option<String>,
    },
    /// The standard binary interface of MPI 5 (`libmpi_abi.so`), whoever implements it.
    MpiAbi,
    /// An MPI library that is none of these.
    Unknown {
        /// Path of the file that looks like MPI.
        module: String,
    },
}

/// Libraries whose handles look alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// Handles are 32-bit integers with meaning in their bits.
    Mpich,
    /// Handles are pointers to objects.
    OpenMpi,
    /// Handles are pointer-wide; predefined ones are small constants.
    Abi,
    /// Handles can't be understood.
    Unknown,
}

impl Library {
    /// The MPI library of a process; `None` if nothing looks like MPI.
    pub fn identify(facts: &dyn LibraryFacts) -> Option<Library> {
        let modules = facts.modules();
        if modules.iter().any(|path| file_name(path).starts_with("libmpi_abi.so")) {
            return Some(Library::MpiAbi);
        }
        if facts.defines("ompi_mpi_comm_world") {
            let version = facts.text_at("ompi_version_string").or_else(|| facts.text_after("Open MPI v"));
            return Some(Library::OpenMpi { version: version.and_then(|text| leading_version(&text)) });
        }
        if MPICH_SYMBOLS.iter().any(|symbol| facts.defines(symbol)) {
            return Some(mpich_kind(facts, &modules));
        }
        let module = modules.into_iter().find(|path| is_mpi_module(path))?;
        Some(Library::Unknown { module })
    }

    /// Which family's handles it uses.
    pub fn family(&self) -> Family {
        match self {
            Library::Mpich { .. } | Library::Mvapich { .. } | Library::Intel { .. } | Library::Cray { .. } => {
                Family::Mpich
            }
            Library::OpenMpi { .. } => Family::OpenMpi,
            Library::MpiAbi => Family::Abi,
            Library::Unknown { .. } => Family::Unknown,
        }
    }

    /// Name and version for a person: "MPICH 4.0.2", "Open MPI 4.1.4".
    pub fn title(&self) -> String {
        let (name, version) = match self {
            Library::Mpich { version } => ("MPICH", version),
            Library::Mvapich { version } => ("MVAPICH", version),
            Library::Intel { version } => ("Intel MPI", version),
            Library::Cray { version } => ("Cray MPICH", version),
            Library::OpenMpi { version } => ("Open MPI", version),
            Library::MpiAbi => return "MPI standard ABI".to_owned(),
            Library::Unknown { module } => return format!("unknown MPI ({module})"),
        };
        version.as_ref().map_or_else(|| name.to_owned(), |version| format!("{name} {version}"))
    }

    /// The form of its handles and special values; `None` for an unknown library.
    pub fn handles(&self) -> Option<HandleFacts> {
        self.family().handles()
    }
}

/// How far a process is with `MPI_Init`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// It has not called it.
    Before,
    /// It is in it.
    Within,
    /// It has come out of it, or is in or behind `MPI_Finalize`.
    Behind,
}

impl Start {
    /// Symbols of the words that say it in Open MPI: the state since 4.0, two truths before that.
    pub const WORDS: [&'static str; 3] = ["ompi_mpi_state", "ompi_mpi_init_started", "ompi_mpi_initialized"];

    /// The functions by which a library tells it, the profiling name first: `int f(int *is_initialized)`. They say nothing of
    /// a process that is in `MPI_Init`.
    pub const FUNCTIONS: [&'static str; 2] = ["PMPI_Initialized", "MPI_Initialized"];

    /// From the lowest bytes of those words; `None` where the library keeps none of them.
    pub fn of(words: [Option<u8>; 3]) -> Option<Start> {
        Some(match words {
            [Some(0), ..] => Start::Before,
            [Some(1), ..] => Start::Within,
            [Some(_), ..] => Start::Behind,
            [None, Some(0), Some(_)] => Start::Before,
            [None, Some(_), Some(0)] => Start::Within,
            [None, Some(_), Some(_)] => Start::Behind,
            _ => return None,
        })
    }
}

/// True if a mapped file looks like an MPI library by its name (`libmpi.so.40`, `libmpich.so.12`, `libmpi_cray.so`).
/// Language bindings alone (`libmpi_cxx.so`, `libmpi_mpifh.so`) count too: they never come without the library.
pub fn is_mpi_module(path: &str) -> bool {
    let name = file_name(path);
    let Some((stem, _)) = name.split_once(".so") else { return false };
    ["libmpi", "libmpich", "libmpichfort", "libmpichcxx", "libpmpich", "libfmpich", "libmpicxx"].contains(&stem)
        || stem.starts_with("libmpi_")
        || stem.starts_with("libmpich-")
        || stem.starts_with("libmpi-")
}

/// True if a symbol is a function that begins MPI (`MPI_Init`, `mpi_init_thread_`, `PMPI_Session_init`): a module that asks for one means
/// to become a rank, who has merely an MPI library in memory does not.
pub fn begins_mpi(symbol: &str) -> bool {
    let name = symbol.to_ascii_lowercase();
    let name = name.strip_prefix('p').unwrap_or(&name);
    (name.starts_with("mpi_init") && !name.starts_with("mpi_initialized")) || name.starts_with("mpi_session_init")
}

/// Special values and layout of a family's handles, on 64-bit Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandleFacts {
    /// Bytes that count in an argument register or array element: 4 (mask off the rest) or 8.
    pub handle_bytes: u8,
    /// `MPI_COMM_WORLD`.
    pub comm_world: WorldHandle,
    /// `MPI_COMM_SELF`.
    pub comm_self: WorldHandle,
    /// `MPI_COMM_NULL`.
    pub comm_null: WorldHandle,
    /// `MPI_REQUEST_NULL`.
    pub request_null: WorldHandle,
    /// The handle of requests that were over when the call which made them returned, and which of its bits tell it; `None`: not known.
    pub request_over: Option<(WorldHandle, u64)>,
    /// `MPI_IN_PLACE`, as the pointer's value.
    pub in_place: u64,
    /// `MPI_STATUS_IGNORE` and `MPI_STATUSES_IGNORE`, as the pointer's value.
    pub status_ignore: u64,
    /// `MPI_PROC_NULL`.
    pub proc_null: i32,
    /// `MPI_ANY_SOURCE`.
    pub any_source: i32,
    /// `MPI_ANY_TAG`.
    pub any_tag: i32,
    /// `MPI_ROOT`, the root's own root argument on an intercommunicator.
    pub root: i32,
    /// `MPI_UNDEFINED`.
    pub undefined: i32,
    /// Byte offset of `MPI_SOURCE` in `MPI_Status`.
    pub status_source_offset: u8,
    /// How to learn a datatype's size from its handle.
    pub datatype_sizes: DatatypeSizes,
    /// The answer of `MPI_Topo_test`; `None`: not known.
    pub topologies: Option<Topologies>,
}

/// The numbers of the kinds of topologies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Topologies {
    /// `MPI_CART`.
    pub grid: u64,
    /// `MPI_GRAPH`.
    pub graph: u64,
    /// `MPI_DIST_GRAPH`.
    pub distributed_graph: u64,
}

/// How a predefined handle is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorldHandle {
    /// It is this number.
    Value(u64),
    /// It is the address of this symbol in the process.
    AddressOf(&'static str),
}

/// How to learn a datatype's size from its handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatatypeSizes {
    /// MPICH: bits 8 to 15 where the top byte is 0x4c; derived and pair types must be asked for.
    MpichBits,
    /// Open MPI: a `size_t` at this offset behind the handle; calibrate it first ([`DatatypeSizes::calibrated`]).
    AtOffset(u8),
    /// Standard ABI: sizes of predefined types follow from their numbers; derived types must be asked for.
    AbiBits,
}

impl DatatypeSizes {
    /// Symbols that calibrate [`DatatypeSizes::AtOffset`], and the size each must show.
    pub const CALIBRATION: [(&'static str, u64); 3] =
        [("ompi_mpi_byte", 1), ("ompi_mpi_int", 4), ("ompi_mpi_double", 8)];

    /// The size in bytes of a predefined datatype as its handle tells it; `None` if the handle does not tell.
    pub fn from_handle(self, handle: u64) -> Option<u32> {
        match self {
            DatatypeSizes::MpichBits => mpich_size(handle as u32),
            DatatypeSizes::AtOffset(_) => None,
            DatatypeSizes::AbiBits => abi_size(handle),
        }
    }

    /// The same rule with the offset that this process really has: `word(symbol, offset)` reads the eight bytes at
    /// `offset` behind `symbol`. `None` if no offset up to 64 shows the three known sizes (then sizes must be asked for).
    pub fn calibrated(self, word: impl Fn(&str, u8) -> Option<u64>) -> Option<DatatypeSizes> {
        let DatatypeSizes::AtOffset(usual) = self else { return Some(self) };
        let fits = |offset: &u8| Self::CALIBRATION.iter().all(|(symbol, size)| word(symbol, *offset) == Some(*size));
        std::iter::once(usual).chain((8..=64).step_by(8)).find(fits).map(DatatypeSizes::AtOffset)
    }
}

impl Family {
    /// The family as the names of mapped files tell it, for a first guess before symbols are read; the version in
    /// `libmpi.so.12` (MPICH's) and `libmpi.so.40` (Open MPI's) keeps them apart.
    pub fn from_modules<'a>(paths: impl IntoIterator<Item = &'a str>) -> Option<Family> {
        let of_name = |name: &str| match name {
            name if name.starts_with("libmpi_abi.so") => Family::Abi,
            name if name.starts_with("libmpi.so.12") || name.starts_with("libmpich") => Family::Mpich,
            name if ["libmpi.so.40", "libmpi.so.20", "libmpi.so.80"].iter().any(|start| name.starts_with(start)) => {
                Family::OpenMpi
            }
            _ => Family::Unknown,
        };
        let mut best = None;
        for path in paths.into_iter().filter(|path| is_mpi_module(path)) {
            match of_name(file_name(path)) {
                Family::Unknown => best = best.or(Some(Family::Unknown)),
                known => return Some(known),
            }
        }
        best
    }

    /// The form of this family's handles and special values; `None` if unknown.
    pub fn handles(self) -> Option<HandleFacts> {
        match self {
            Family::Mpich => Some(MPICH),
            Family::OpenMpi => Some(OPEN_MPI),
            Family::Abi => Some(ABI),
            Family::Unknown => None,
        }
    }
}

const MPICH: HandleFacts = HandleFacts {
    handle_bytes: 4,
    comm_world: WorldHandle::Value(0x4400_0000),
    comm_self: WorldHandle::Value(0x4400_0001),
    comm_null: WorldHandle::Value(0x0400_0000),
    request_null: WorldHandle::Value(0x2c00_0000),
    // A request that is built in.
    request_over: Some((WorldHandle::Value(0x6c00_0000), 0xfc00_0000)),
    in_place: u64::MAX,
    status_ignore: 1,
    proc_null: -1,
    any_source: -2,
    any_tag: -1,
    root: -3,
    undefined: -32766,
    status_source_offset: 8,
    datatype_sizes: DatatypeSizes::MpichBits,
    topologies: Some(Topologies { grid: 2, graph: 1, distributed_graph: 3 }),
};

const OPEN_MPI: HandleFacts = HandleFacts {
    handle_bytes: 8,
    comm_world: WorldHandle::AddressOf("ompi_mpi_comm_world"),
    comm_self: WorldHandle::AddressOf("ompi_mpi_comm_self"),
    comm_null: WorldHandle::AddressOf("ompi_mpi_comm_null"),
    request_null: WorldHandle::AddressOf("ompi_request_null"),
    request_over: Some((WorldHandle::AddressOf("ompi_request_empty"), u64::MAX)),
    in_place: 1,
    status_ignore: 0,
    proc_null: -2,
    any_source: -1,
    any_tag: -1,
    root: -4,
    undefined: -32766,
    status_source_offset: 0,
    datatype_sizes: DatatypeSizes::AtOffset(24),
    topologies: Some(Topologies { grid: 1, graph: 2, distributed_graph: 3 }),
};

const ABI: HandleFacts = HandleFacts {
    handle_bytes: 8,
    comm_world: WorldHandle::Value(0x101),
    comm_self: WorldHandle::Value(0x102),
    comm_null: WorldHandle::Value(0x100),
    request_null: WorldHandle::Value(0x180),
    request_over: None,
    in_place: 1,
    status_ignore: 0,
    proc_null: -3,
    any_source: -1,
    any_tag: -2,
    root: -4,
    undefined: -32766,
    status_source_offset: 0,
    datatype_sizes: DatatypeSizes::AbiBits,
    topologies: None,
};

const MPICH_SYMBOLS: [&str; 4] = ["MPII_Version_string", "MPIR_Version_string", "MPIR_Process", "MPIR_Err_return_comm"];

/// Intel MPI may lie anywhere; only it has these.
const INTEL_SYMBOLS: [&str; 3] = ["I_MPI_Version_string", "I_MPI_Check_image_status", "I_MPI_PW_Sched_yield"];
/// The format that it prints its version with, right behind which it keeps that.
const INTEL_VERSION_FORMAT: &str = "Intel(R) MPI Library %s for Linux* OS\n\0";

fn mpich_kind(facts: &dyn LibraryFacts, modules: &[String]) -> Library {
    let path_has = |word: &str| modules.iter().any(|path| is_mpi_module(path) && path.to_lowercase().contains(word));
    let after = |prefix: &str| facts.text_after(prefix).and_then(|text| leading_version(&text));
    if path_has("mvapich") || facts.defines("MVAPICH2_Version_string") || facts.defines("MVAPICH_Version_string") {
        return Library::Mvapich { version: after("MVAPICH2 Version:\t").or_else(|| after("MVAPICH Version:\t")) };
    }
    if path_has("intel/") || path_has("oneapi") || INTEL_SYMBOLS.iter().any(|symbol| facts.defines(symbol)) {
        return Library::Intel { version: after("Intel(R) MPI Library ").or_else(|| after(INTEL_VERSION_FORMAT)) };
    }
    if path_has("cray") || path_has("libmpi_gnu") || path_has("libmpi_intel") {
        return Library::Cray { version: after("CRAY MPICH version ") };
    }
    let symbols = ["MPII_Version_string", "MPIR_Version_string"];
    let text = symbols.iter().find_map(|symbol| facts.text_at(symbol)).or_else(|| facts.text_after("MPICH Version:\t"));
    Library::Mpich { version: text.and_then(|text| leading_version(&text)) }
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The version that a text begins with, up to the first blank or comma; `None` if it begins with no digit.
fn leading_version(text: &str) -> Option<String> {
    let text = text.trim_start();
    let version = text.split([' ', ',', '\t', '\n', '(']).next()?;
    version.starts_with(|first: char| first.is_ascii_digit()).then(|| version.to_owned())
}

fn mpich_size(handle: u32) -> Option<u32> {
    (handle >> 24 == 0x4c).then_some((handle >> 8) & 0xff)
}

/// Fixed-size types carry log2 of their size in bits 3 to 5; the others are the C types of 64-bit Linux. Default
/// Fortran types depend on the compiler's options and must be asked for.
fn abi_size(handle: u64) -> Option<u32> {
    Some(match handle {
        0x240..=0x27f | 0x2c0..=0x2ff => 1 << ((handle >> 3) & 7),
        0x207 | 0x238 | 0x239 => 1,
        0x208 | 0x20c => 2,
        0x209 | 0x20d | 0x210 | 0x23c => 4,
        0x22c => 6,
        0x201..=0x203 | 0x20a | 0x20b | 0x20e | 0x20f | 0x212..=0x214 | 0x228 | 0x22b => 8,
        0x229 | 0x22a => 12,
        0x216 | 0x217 | 0x220 => 16,
        0x22d => 20,
        0x224 | 0x225 => 32,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Modules, symbols with their text, and the library's read-only text.
    struct Fake {
        modules: &'static [&'static str],
        symbols: &'static [(&'static str, &'static str)],
        text: &'static str,
    }

    impl LibraryFacts for Fake {
        fn modules(&self) -> Vec<String> {
            self.modules.iter().map(|path| (*path).to_owned()).collect()
        }

        fn defines(&self, symbol: &str) -> bool {
            self.symbols.iter().any(|(name, _)| *name == symbol)
        }

        fn text_at(&self, symbol: &str) -> Option<String> {
            let (_, text) = self.symbols.iter().find(|(name, text)| *name == symbol && !text.is_empty())?;
            Some((*text).to_owned())
        }

        fn text_after(&self, prefix: &str) -> Option<String> {
            Some(self.text.split_once(prefix)?.1.split('\0').next()?.to_owned())
        }
    }

    #[test]
    fn where_a_process_is_in_its_start_is_told() {
        for (words, start) in [
            ([None, None, None], None),
            ([Some(0), None, None], Some(Start::Before)),
            ([Some(1), None, None], Some(Start::Within)),
            ([Some(2), None, None], Some(Start::Behind)),
            ([Some(5), None, None], Some(Start::Behind)),
            ([None, Some(0), Some(0)], Some(Start::Before)),
            ([None, Some(1), Some(0)], Some(Start::Within)),
            ([None, Some(1), Some(1)], Some(Start::Behind)),
            ([None, Some(1), None], None),
        ] {
            assert_eq!(Start::of(words), start, "{words:?}");
        }
    }

    #[test]
    fn libraries_are_told_apart() {
        #[rustfmt::skip]
        let cases: &[(&str, Fake, Option<&str>, Family)] = &[
            ("none", Fake { modules: &["/bin/app", "/lib/libc.so.6"], symbols: &[], text: "" }, None, Family::Unknown),
            ("mpich_4", Fake { modules: &["/bin/app", "/lib/libmpich.so.12.2.2"], symbols: &[("MPII_Version_string", "4.0.2")], text: "" }, Some("MPICH 4.0.2"), Family::Mpich),
            ("mpich_3", Fake { modules: &["/lib/libmpi.so.12"], symbols: &[("MPIR_Process", "")], text: "MPICH Version:\t3.4.1\0" }, Some("MPICH 3.4.1"), Family::Mpich),
            ("mpich_format_only", Fake { modules: &["/lib/libmpich.so.12"], symbols: &[("MPIR_Process", "")], text: "MPICH Version:\t%s\0" }, Some("MPICH"), Family::Mpich),
            ("mpich_static", Fake { modules: &["/bin/app"], symbols: &[("MPII_Version_string", "4.2")], text: "" }, Some("MPICH 4.2"), Family::Mpich),
            ("open_mpi", Fake { modules: &["/lib/libmpi.so.40"], symbols: &[("ompi_mpi_comm_world", ""), ("ompi_version_string", "4.1.4")], text: "" }, Some("Open MPI 4.1.4"), Family::OpenMpi),
            ("open_mpi_text", Fake { modules: &["/lib/libmpi.so.40"], symbols: &[("ompi_mpi_comm_world", "")], text: "x\0Open MPI v5.0.1, package\0" }, Some("Open MPI 5.0.1"), Family::OpenMpi),
            ("intel", Fake { modules: &["/opt/intel/oneapi/mpi/latest/lib/libmpi.so.12"], symbols: &[("MPIR_Process", "")], text: "Intel(R) MPI Library 2021.10 for Linux\0" }, Some("Intel MPI 2021.10"), Family::Mpich),
            ("intel_elsewhere", Fake { modules: &["/opt/venv/lib/libmpi.so.12"], symbols: &[("MPII_Version_string", "3.4a2"), ("I_MPI_Check_image_status", "")], text: "Intel(R) MPI Library provides\0Intel(R) MPI Library %s for Linux* OS\n\x002021.18.1\0" }, Some("Intel MPI 2021.18.1"), Family::Mpich),
            ("mvapich", Fake { modules: &["/opt/mvapich2/lib/libmpi.so.12"], symbols: &[("MPIR_Process", "")], text: "MVAPICH2 Version:\t2.3.7\0" }, Some("MVAPICH 2.3.7"), Family::Mpich),
            ("cray", Fake { modules: &["/opt/cray/pe/lib64/libmpi_gnu_91.so.12"], symbols: &[("MPIR_Process", "")], text: "CRAY MPICH version 8.1.28 (ANL base 3.4)\0" }, Some("Cray MPICH 8.1.28"), Family::Mpich),
            ("abi", Fake { modules: &["/lib/libmpi_abi.so.0", "/lib/libmpich.so.12"], symbols: &[("MPIR_Process", "")], text: "" }, Some("MPI standard ABI"), Family::Abi),
            ("unknown", Fake { modules: &["/lib/libmpi.so.1"], symbols: &[], text: "" }, Some("unknown MPI (/lib/libmpi.so.1)"), Family::Unknown),
        ];
        for (case, fake, title, family) in cases {
            let library = Library::identify(fake);
            assert_eq!(library.as_ref().map(Library::title).as_deref(), *title, "{case}");
            assert_eq!(library.map_or(Family::Unknown, |library| library.family()), *family, "{case}");
        }
    }

    #[test]
    fn functions_that_begin_mpi_are_known() {
        #[rustfmt::skip]
        let cases = [
            ("MPI_Init", true), ("PMPI_Init", true), ("MPI_Init_thread", true), ("mpi_init_", true), ("mpi_init_f08_", true),
            ("mpi_init_thread__", true), ("MPI_Session_init", true), ("MPI_Initialized", false), ("mpi_initialized_", false),
            ("PMPI_Initialized", false), ("MPI_Info_create", false), ("pmpi", false), ("", false),
        ];
        for (symbol, expected) in cases {
            assert_eq!(begins_mpi(symbol), expected, "{symbol}");
        }
    }

    #[test]
    fn module_names_tell_mpi() {
        #[rustfmt::skip]
        let cases = [
            ("/usr/lib/libmpi.so.40.30.4", true), ("/usr/lib/libmpich.so.12.2.2", true), ("libmpi_mpifh.so.40", true),
            ("/x/libmpi_gnu_91.so", true), ("/usr/lib/libmpl.so", false), ("/usr/lib/libmpfr.so.6", false),
            ("/usr/lib/libopen-rte.so.40", false), ("/opt/libmpi.so.40/app", false), ("/bin/libmpi", false), ("", false),
        ];
        for (path, expected) in cases {
            assert_eq!(is_mpi_module(path), expected, "{path}");
        }
    }

    #[test]
    fn module_names_tell_the_family() {
        let cases: [(&str, &[&str], Option<Family>); 6] = [
            ("mpich", &["/bin/a", "/lib/libmpichfort.so.12", "/lib/libmpich.so.12.2.2"], Some(Family::Mpich)),
            ("mpich_abi", &["/lib/libmpi.so.12.1.8"], Some(Family::Mpich)),
            ("open_mpi", &["/lib/libmpi_mpifh.so.40", "/lib/libmpi.so.40.30.4"], Some(Family::OpenMpi)),
            ("standard_abi", &["/lib/libmpi_abi.so.1"], Some(Family::Abi)),
            ("unknown", &["/lib/libmpi.so"], Some(Family::Unknown)),
            ("none", &["/bin/a", "/lib/libopen-rte.so.40"], None),
        ];
        for (case, paths, expected) in cases {
            assert_eq!(Family::from_modules(paths.iter().copied()), expected, "{case}");
        }
    }

    #[test]
    fn handles_tell_sizes() {
        #[rustfmt::skip]
        let cases = [
            ("mpich_int", DatatypeSizes::MpichBits, 0x4c00_0405, Some(4)),
            ("mpich_double", DatatypeSizes::MpichBits, 0x4c00_080b, Some(8)),
            ("mpich_garbage_above", DatatypeSizes::MpichBits, 0xdead_beef_4c00_0101, Some(1)),
            ("mpich_pair", DatatypeSizes::MpichBits, 0x8c00_0000, None),
            ("mpich_derived", DatatypeSizes::MpichBits, 0xcc00_0001, None),
            ("abi_byte", DatatypeSizes::AbiBits, 0x247, Some(1)),
            ("abi_int64", DatatypeSizes::AbiBits, 0x258, Some(8)),
            ("abi_complex32", DatatypeSizes::AbiBits, 0x2eb, Some(32)),
            ("abi_int", DatatypeSizes::AbiBits, 0x209, Some(4)),
            ("abi_fortran_integer", DatatypeSizes::AbiBits, 0x219, None),
            ("abi_derived", DatatypeSizes::AbiBits, 0x5555_0000_1000, None),
            ("open_mpi", DatatypeSizes::AtOffset(24), 0x1000, None),
        ];
        for (case, rule, handle, expected) in cases {
            assert_eq!(rule.from_handle(handle), expected, "{case}");
        }
    }

    #[test]
    fn the_offset_of_the_size_is_calibrated() {
        let object = |at: u8| {
            move |symbol: &str, offset: u8| {
                let size = DatatypeSizes::CALIBRATION.iter().find(|(name, _)| *name == symbol)?.1;
                Some(if offset == at { size } else { 1 })
            }
        };
        let rule = DatatypeSizes::AtOffset(24);
        assert_eq!(rule.calibrated(object(24)), Some(DatatypeSizes::AtOffset(24)), "release_build");
        assert_eq!(rule.calibrated(object(40)), Some(DatatypeSizes::AtOffset(40)), "debug_build");
        assert_eq!(rule.calibrated(object(200)), None, "no_offset_fits");
        assert_eq!(rule.calibrated(|_, _| None), None, "unreadable");
        assert_eq!(DatatypeSizes::MpichBits.calibrated(|_, _| None), Some(DatatypeSizes::MpichBits), "nothing_to_do");
    }
}
