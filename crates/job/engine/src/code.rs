//! The code of a process, or of a program that need not run: its functions, their points, and a script for it, explained.
//! Nothing is changed.
//!
//! Next: `explained` for scripts; `trimtab-script` and `trimtab-measure` for how functions are judged.

use crate::Engine;
use crate::error::Error;
use crate::explained::Explanation;
use std::path::Path;
use trimtab_measure::{Functions, list_functions};
use trimtab_script::{FunctionPoints, PointKind, ScriptOptions, explain, list_points, why_no_function};
use trimtab_session::{ImageCache, Modules};
use trimtab_types::Pid;

/// The code of a process or of a file.
pub struct Code {
    modules: Modules,
    cache: ImageCache,
}

impl Engine<'_> {
    /// Functions of a process that match, and whether each could be measured.
    ///
    /// # Errors
    /// The process can't be looked into.
    pub fn functions(&self, pid: Pid, pattern: &str) -> Result<Functions, Error> {
        Ok(list_functions(pid, self.cache, pattern)?)
    }

    /// The code of a process.
    ///
    /// # Errors
    /// It can't be looked into.
    pub fn code_of_process(&self, pid: Pid) -> Result<Code, Error> {
        Ok(Code { modules: Modules::read(pid, self.cache, &|_| true)?, cache: self.cache.clone() })
    }

    /// The code of a program or library that need not run.
    ///
    /// # Errors
    /// It can't be read.
    pub fn code_of_file(&self, path: &Path) -> Result<Code, Error> {
        Ok(Code { modules: Modules::of_file(path, self.cache)?, cache: self.cache.clone() })
    }
}

impl Code {
    /// The process; `None`: it is a file's, and every address is as in the file.
    pub fn pid(&self) -> Option<Pid> {
        (!self.modules.is_of_file()).then_some(self.modules.pid)
    }

    /// Programs and libraries that could not be looked at, each with the reason.
    pub fn unread(&self) -> &[(String, String)] {
        &self.modules.unreadable
    }

    /// Every function that matches, with its points of these kinds.
    ///
    /// # Errors
    /// The error that `each` returned.
    pub fn points<E>(
        &self,
        pattern: &str,
        kinds: &[PointKind],
        each: &mut dyn FnMut(FunctionPoints) -> Result<(), E>,
    ) -> Result<(), E> {
        list_points(&self.modules, pattern, kinds, each)
    }

    /// Why no function matches, if that is known.
    pub fn why_no_function(&self, pattern: &str) -> Option<String> {
        why_no_function(&self.modules, pattern)
    }

    /// The work that a script would do here.
    ///
    /// # Errors
    /// As for running it.
    pub fn explain(&self, options: &ScriptOptions) -> Result<Explanation<'_>, Error> {
        Ok(Explanation::of(explain(&self.modules, options)?, &self.modules, &self.cache))
    }
}

impl Error {
    /// Why no function was found where that was the error, if it is known.
    pub fn why_no_function(&self) -> Option<String> {
        let Error::Measure(trimtab_measure::Error::NoSuchFunction { pattern, pid }) = self else { return None };
        let modules = Modules::read(*pid, &ImageCache::of_user(), &|_| true).ok()?;
        why_no_function(&modules, pattern)
    }
}
