//! Functions of a file that never return, as far as the file itself tells.
//!
//! Their names say it, or their code: whatever way is taken in it ends in a call of such a function. Only what the file holds
//! is asked, so that loops have the same numbers whether they are looked for in a file or in a process.
//!
//! Next: `trimtab-x86`'s `last_calls`, which draws the graph with this.

use crate::subject::Subject;
use std::cell::RefCell;
use std::collections::HashMap;
use trimtab_symbols::{Image, SlotTarget};
use trimtab_types::{FileAddr, ProcAddr};
use trimtab_x86::{Analysis, ControlFlow, FunctionCode};

/// Functions of the C library and of languages' runtimes that never come back to their caller.
const NAMES: [&str; 34] = [
    "abort",
    "exit",
    "_exit",
    "_Exit",
    "quick_exit",
    "pthread_exit",
    "longjmp",
    "siglongjmp",
    "__longjmp_chk",
    "__assert_fail",
    "__assert_perror_fail",
    "__stack_chk_fail",
    "__chk_fail",
    "__fortify_fail",
    "__cxa_throw",
    "__cxa_rethrow",
    "__cxa_bad_cast",
    "__cxa_bad_typeid",
    "__cxa_throw_bad_array_new_length",
    "__cxa_throw_bad_array_length",
    "__cxa_call_unexpected",
    "__cxa_call_terminate",
    "__cxa_pure_virtual",
    "_ZSt9terminatev",
    "_ZSt10unexpectedv",
    "_Unwind_Resume",
    "_gfortran_runtime_error",
    "_gfortran_runtime_error_at",
    "_gfortran_os_error",
    "_gfortran_os_error_at",
    "_gfortran_stop_numeric",
    "_gfortran_stop_string",
    "_gfortran_error_stop_numeric",
    "_gfortran_error_stop_string",
];
/// Functions that may return a second time.
const TWICE: [&str; 6] = ["setjmp", "_setjmp", "sigsetjmp", "__sigsetjmp", "getcontext", "__builtin_setjmp"];
/// `std::__throw_length_error` and its like.
const STD_THROW: &str = "_ZSt";
const THROW: &str = "__throw_";

/// Functions that end a program are short; longer ones are taken to return.
const BYTES_MAX: u64 = 4096;
/// Calls within calls that are looked at.
const DEPTH_MAX: u32 = 4;

/// The functions of one file, with an answer for each that was asked for.
struct Returns<'s> {
    subject: &'s Subject<'s>,
    known: RefCell<HashMap<FileAddr, bool>>,
}

impl<'s> Returns<'s> {
    fn of(subject: &'s Subject<'s>) -> Self {
        Returns { subject, known: RefCell::default() }
    }

    /// True if what is called at this address of the process is known never to return.
    fn never(&self, target: ProcAddr) -> bool {
        self.never_at(self.subject.module.bias.to_file(target), 0)
    }

    fn never_at(&self, called: FileAddr, depth: u32) -> bool {
        let image = &self.subject.module.loaded.image;
        let Some(function) = meant(image, called) else { return false };
        let begins = match function {
            Meant::Import(name) if is_known(name) => return true,
            Meant::Import(name) => match image.function_named(name) {
                Some(function) => function.addr,
                None => return false,
            },
            Meant::Here(begins) => begins,
        };
        if let Some(known) = self.known.borrow().get(&begins) {
            return *known;
        }
        // One that calls itself may return.
        self.known.borrow_mut().insert(begins, false);
        let never = self.ends(begins, depth);
        self.known.borrow_mut().insert(begins, never);
        never
    }

    /// By its name, or by its code.
    fn ends(&self, begins: FileAddr, depth: u32) -> bool {
        let image = &self.subject.module.loaded.image;
        let Some(function) = image.function_at(begins).filter(|function| function.addr == begins) else { return false };
        if function.names.iter().any(|name| is_known(name)) {
            return true;
        }
        if function.size == 0 || function.size > BYTES_MAX || depth == DEPTH_MAX {
            return false;
        }
        let bias = self.subject.module.bias;
        let never = |target: ProcAddr| self.never_at(bias.to_file(target), depth + 1);
        let may_return = self.subject.analysed(bias.to_proc(begins), |_, analysis| Ok(analysis.may_return(&never)));
        !may_return.unwrap_or(true)
    }
}

/// Blocks, loops and calls of a function of the module, which end at calls that never return; with loops joined of which a compiler
/// has made two.
pub(crate) fn flow_of(code: &FunctionCode<'_>, analysis: &Analysis, subject: &Subject<'_>) -> ControlFlow {
    let returns = Returns::of(subject);
    ControlFlow::ending_at(analysis, &|target| returns.never(target)).rejoined(code, analysis)
}

/// True if what is called at this address of the process may return a second time.
pub(crate) fn returns_twice(subject: &Subject<'_>, target: ProcAddr) -> bool {
    let image = &subject.module.loaded.image;
    let is_one = |name: &str| TWICE.contains(&name.split('@').next().unwrap_or(name));
    match meant(image, subject.module.bias.to_file(target)) {
        Some(Meant::Import(name)) => is_one(name),
        Some(Meant::Here(begins)) => {
            image.function_at(begins).is_some_and(|function| function.names.iter().any(|name| is_one(name)))
        }
        None => false,
    }
}

/// The name of the function that is called at this address of the process, if the file has it from another module.
pub(crate) fn imported(subject: &Subject<'_>, target: ProcAddr) -> Option<String> {
    let image = &subject.module.loaded.image;
    match meant(image, subject.module.bias.to_file(target))? {
        Meant::Import(name) => image.function_named(name).is_none().then(|| name.to_owned()),
        Meant::Here(_) => None,
    }
}

/// The function that a call means.
enum Meant<'i> {
    /// The one that the loader finds under this name.
    Import(&'i str),
    /// The one that begins here.
    Here(FileAddr),
}

fn meant(image: &Image, called: FileAddr) -> Option<Meant<'_>> {
    match image.stub_at(called) {
        Some((_, Some(slot))) => match &slot.target {
            SlotTarget::Import(name) => Some(Meant::Import(name.split('@').next().unwrap_or(name))),
            SlotTarget::Resolved(_) => None,
        },
        Some((_, None)) => None,
        None => Some(Meant::Here(called)),
    }
}

fn is_known(name: &str) -> bool {
    let name = name.split('@').next().unwrap_or(name);
    NAMES.contains(&name) || (name.starts_with(STD_THROW) && name.contains(THROW))
}
