//! Functions: arguments at the entry, the result at the exit, local variables in between.
//!
//! Next: `places` for where a value is.

use super::places::{Locator, Moment, general};
use super::{DebugFacts, Opened};
use trimtab_snippet::facts::{Argument, Location, Object, Signature};
use trimtab_snippet::ir::Register;
use trimtab_snippet::types::Type;
use trimtab_symbols::dwarf::{Function, Parameter, Types, ValueLocation, Variable};
use trimtab_symbols::fde_at;
use trimtab_types::{FileAddr, ProcAddr};

/// In names of functions that the compiler made from others, which get their arguments as it likes.
const CLONES: [&str; 3] = [".isra.", ".constprop.", ".part."];

impl<'a> DebugFacts<'a> {
    /// Parameters and result of a function; `None` if there is no debugging information of it. Of one that may be described in a
    /// file that is not read, nobody knows in which register its result is.
    pub(crate) fn signature(&self, function: ProcAddr) -> Option<Signature> {
        let opened = self.open_at(function)?;
        self.described(opened, function).or_else(|| {
            let location = Location::Gone(self.missing(function)?);
            let returned = Some(Object { kind: Type::Opaque(None), location });
            Some(Signature { arguments: None, returned, by_number: true })
        })
    }

    fn described(&self, opened: &Opened<'a>, function: ProcAddr) -> Option<Signature> {
        let entry = opened.to_file(function);
        let id = opened.program.function_at(entry)?;
        let mut types = opened.types.borrow_mut();
        let found = opened.program.function(id, &mut types).ok().filter(|found| found.entry == Some(entry))?;
        let is_clone = is_clone(opened, entry);
        let elsewhere = self.missing(function).filter(|_| !found.is_whole);
        let parameters = found.parameters.iter();
        let arguments = parameters.map(|parameter| self.argument(opened, &types, parameter, entry, is_clone));
        let mut arguments: Vec<Argument> = arguments.collect();
        let mut returned = self.returned(opened, &types, &found, is_clone);
        if let Some(reason) = &elsewhere {
            arguments.iter_mut().for_each(|argument| argument.object.explain(reason));
            returned.explain(reason);
        }
        Some(Signature { arguments: Some(arguments), returned: Some(returned), by_number: elsewhere.is_some() })
    }

    /// Why little is known of a function although its file has debugging information: the rest of that is elsewhere.
    pub(crate) fn missing(&self, function: ProcAddr) -> Option<String> {
        let opened = self.open_at(function);
        let Some(opened) = opened else {
            let module = self.modules.iter().find(|module| module.text.contains(&function.0))?;
            let link = module.loaded.image.debug_link.as_ref()?;
            let name = module.file_name();
            return Some(format!(
                "the debugging information of {name} is in {link}, which was not found; `$0` (by number) and `$rax` need none"
            ));
        };
        let files = opened.program.files_elsewhere();
        let name = opened.module.file_name();
        let files = (!files.is_empty()).then(|| files.join(", "))?;
        Some(format!(
            "a part of the debugging information of {name} is in {files}, which trimtab does not read; `$0` (by number), `$rax` and `$fret` need none"
        ))
    }

    fn argument(
        &self,
        opened: &Opened<'a>,
        types: &Types,
        parameter: &Parameter,
        entry: FileAddr,
        is_clone: bool,
    ) -> Argument {
        let variable = &parameter.variable;
        let name = variable.name.clone();
        let shown = if name.is_empty() { "this argument" } else { &name };
        let is_certain = !is_clone || is_stated(variable, entry);
        let place = parameter.at_entry.as_ref().filter(|_| is_certain);
        let locator = Locator { name: shown, moment: Moment::Entry, bias: opened.module.bias };
        let object = match place {
            Some(place) => self.object(opened, types, variable, place, &locator),
            None => Object {
                kind: self.kind(opened, types, variable.type_id),
                location: Location::Gone(format!(
                    "where `{shown}` is at the entry is not known: the compiler changed how this function is called"
                )),
            },
        };
        Argument { name, object }
    }

    fn returned(&self, opened: &Opened<'a>, types: &Types, function: &Function, is_clone: bool) -> Object {
        let kind = self.kind(opened, types, function.result);
        let locator = Locator { name: "$ret", moment: Moment::Exit, bias: opened.module.bias };
        let place = function.result_at_exit.as_ref().filter(|_| !is_clone);
        match place {
            _ if kind == Type::Void => Object { kind, location: Location::Register(Register::Rax) },
            Some(place) => match self.reference_target(opened, types, function.result) {
                Some(target) => locator.referred(place, target),
                None => locator.object(place, kind),
            },
            None => {
                let reason = "where the result is is not known: the compiler changed how this function is called";
                Object { kind, location: Location::Gone(reason.into()) }
            }
        }
    }

    fn object(
        &self,
        opened: &Opened<'a>,
        types: &Types,
        variable: &Variable,
        place: &ValueLocation,
        locator: &Locator<'_>,
    ) -> Object {
        match self.reference_target(opened, types, variable.type_id) {
            Some(target) => locator.referred(place, target),
            None => locator.object(place, self.kind(opened, types, variable.type_id)),
        }
    }

    /// A parameter or local variable that the source can see at an instruction.
    pub(crate) fn local(&self, at: ProcAddr, name: &str) -> Option<Object> {
        let opened = self.open_at(at)?;
        let addr = opened.to_file(at);
        let mut types = opened.types.borrow_mut();
        let variables = opened.program.variables_at(addr, &mut types).ok()?;
        let variable = variables.into_iter().find(|variable| variable.name == name)?;
        if variable.places.is_empty() && variable.is_external {
            return None;
        }
        let place = variable.place_at(addr).cloned().unwrap_or(ValueLocation::Gone);
        let moment = Moment::Inside(frame_base(opened, addr));
        let locator = Locator { name, moment, bias: opened.module.bias };
        Some(self.object(opened, &types, &variable, &place, &locator))
    }

    /// Names of the parameters and local variables that the source can see at an instruction, innermost first.
    pub(crate) fn local_names(&self, at: ProcAddr) -> Vec<String> {
        let Some(opened) = self.open_at(at) else { return Vec::new() };
        let variables = opened.program.variables_at(opened.to_file(at), &mut opened.types.borrow_mut());
        let mut names: Vec<String> = Vec::new();
        for variable in variables.unwrap_or_default() {
            if !variable.name.is_empty() && !names.contains(&variable.name) {
                names.push(variable.name);
            }
        }
        names
    }
}

/// A value whose place is not known, for a reason that is.
trait Explain {
    fn explain(&mut self, reason: &str);
}

impl Explain for Object {
    fn explain(&mut self, reason: &str) {
        if let Location::Gone(text) = &mut self.location {
            *text = reason.to_owned();
        }
    }
}

/// True if the symbol table says that the compiler made this function from another one.
fn is_clone(opened: &Opened<'_>, entry: FileAddr) -> bool {
    let function = opened.module.loaded.image.function_at(entry);
    let mut names = function.into_iter().flat_map(|function| &function.names);
    names.any(|name| CLONES.iter().any(|mark| name.contains(mark)))
}

/// True if the compiler says where a variable is at that very address, not only in the function as a whole.
fn is_stated(variable: &Variable, addr: FileAddr) -> bool {
    variable.places.iter().any(|place| place.range.is_some() && place.holds_at(addr))
}

/// The frame's base at an instruction, from a register.
fn frame_base(opened: &Opened<'_>, addr: FileAddr) -> Option<(Register, i64)> {
    let loaded = &opened.module.loaded;
    let (number, offset) = fde_at(loaded.file.bytes(), &loaded.image, addr).ok()??.cfa_register_at?;
    Some((general(number)?, offset))
}
