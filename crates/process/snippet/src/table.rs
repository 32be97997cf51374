//! Facts held in memory: for tests, for recordings, and as the simplest answer to every question.
//!
//! Next: `facts`, the questions.

use crate::facts::{
    Argument, DatatypeSize, Facts, FunctionId, Location, NoObject, NoSites, Object, PointSite, Signature, SiteId,
};
use crate::ir::Register;
use crate::syntax::{FunctionPattern, Name, PointKind};
use crate::types::{Struct, StructId, Type};
use std::collections::BTreeMap;
use trimtab_types::ProcAddr;

/// Registers of integer arguments, in the order of the System V ABI.
pub const ARGUMENT_REGISTERS: [Register; 6] =
    [Register::Rdi, Register::Rsi, Register::Rdx, Register::Rcx, Register::R8, Register::R9];

/// Facts in tables.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// Functions; [`FunctionId`] counts them.
    pub functions: Vec<Function>,
    /// Points with the sites each means, as [`crate::syntax::Point`] prints them; [`SiteId`] counts these entries.
    pub sites: Vec<(String, Option<FunctionId>, Option<FunctionId>)>,
    /// Local variables at sites.
    pub locals: BTreeMap<(SiteId, String), Object>,
    /// Global variables, by `name` or `file.c::name`.
    pub globals: BTreeMap<String, Object>,
    /// Structs; [`StructId`] counts them.
    pub structs: Vec<Struct>,
    /// Types by name.
    pub types: BTreeMap<String, Type>,
    /// Enumerators.
    pub enumerators: BTreeMap<String, i64>,
    /// How sizes of MPI datatypes are learnt.
    pub datatype_size: Option<DatatypeSize>,
}

/// A function of a [`Table`].
#[derive(Clone, Debug, Default)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// Its library; empty for the program itself.
    pub library: String,
    /// Its address, where probes may call it.
    pub address: ProcAddr,
    /// Its interface.
    pub signature: Signature,
}

impl Table {
    /// Adds a function with these arguments where the ABI puts them, and what it returns; of `None` nothing is known.
    pub fn add_function(
        &mut self,
        name: &str,
        arguments: Option<&[(&str, Type)]>,
        returned: Option<Type>,
    ) -> FunctionId {
        let arguments = arguments.map(place_arguments);
        let returned = returned.map(|kind| {
            let location =
                if matches!(kind, Type::Float(_)) { Location::Vector(0) } else { Location::Register(Register::Rax) };
            Object { kind, location }
        });
        let id = FunctionId(self.functions.len() as u32);
        self.functions.push(Function {
            name: name.to_string(),
            library: String::new(),
            address: ProcAddr(0x1000 * (u64::from(id.0) + 1)),
            signature: Signature { arguments, returned, by_number: false },
        });
        id
    }

    /// Adds a site that a point means, written as it prints.
    pub fn add_site(&mut self, point: &str, function: Option<FunctionId>, callee: Option<FunctionId>) -> SiteId {
        self.sites.push((point.to_string(), function, callee));
        SiteId(self.sites.len() as u32 - 1)
    }

    /// Adds a global variable, by `name` or `file.c::name`.
    pub fn add_global(&mut self, name: &str, kind: Type, address: ProcAddr) {
        self.globals.insert(name.to_string(), Object { kind, location: Location::Address(address) });
    }

    /// Adds a struct under its name and as `struct NAME`.
    pub fn add_struct(&mut self, structure: Struct) -> Type {
        let kind = Type::Struct(StructId(self.structs.len() as u32));
        self.types.insert(structure.name.clone(), kind.clone());
        self.types.insert(format!("struct {}", structure.name), kind.clone());
        self.structs.push(structure);
        kind
    }
}

impl Facts for Table {
    fn functions(&self, pattern: &FunctionPattern) -> Vec<FunctionId> {
        let library = pattern.library.as_deref();
        let found = self.functions.iter().zip(0..).filter(|(function, _)| {
            glob(&pattern.name, &function.name) && library.is_none_or(|end| function.library.ends_with(end))
        });
        found.map(|(_, index)| FunctionId(index)).collect()
    }

    fn function_name(&self, function: FunctionId) -> String {
        self.functions.get(function.0 as usize).map_or_else(String::new, |function| function.name.clone())
    }

    fn function_names(&self, _like: &str) -> Vec<String> {
        self.functions.iter().map(|function| function.name.clone()).collect()
    }

    fn sites(&self, point: &PointKind) -> Result<Vec<PointSite>, NoSites> {
        let text = crate::syntax::Point { kind: point.clone(), span: crate::error::Span::default() }.to_string();
        let found = self.sites.iter().zip(0..).filter(|((known, _, _), _)| *known == text);
        let sites: Vec<PointSite> = found
            .map(|((_, function, callee), id)| PointSite { id: SiteId(id), function: *function, callee: *callee })
            .collect();
        if sites.is_empty() { Err(format!("no instruction is known for {text}").into()) } else { Ok(sites) }
    }

    fn signature(&self, function: FunctionId) -> Signature {
        self.functions.get(function.0 as usize).map(|function| function.signature.clone()).unwrap_or_default()
    }

    fn local(&self, site: SiteId, name: &str) -> Option<Object> {
        self.locals.get(&(site, name.to_string())).cloned()
    }

    fn local_names(&self, site: SiteId) -> Vec<String> {
        self.locals.keys().filter(|(at, _)| *at == site).map(|(_, name)| name.clone()).collect()
    }

    fn global(&self, name: &Name, _from: Option<FunctionId>) -> Result<Object, NoObject> {
        let wanted = match name {
            Name::Plain(name) | Name::Global(name) => name.clone(),
            Name::Static { file, name } => format!("{file}::{name}"),
        };
        if let Some(object) = self.globals.get(&wanted) {
            return Ok(object.clone());
        }
        let ending = format!("::{wanted}");
        let statics: Vec<&String> = self.globals.keys().filter(|known| known.ends_with(&ending)).collect();
        match statics.as_slice() {
            [] => Err(NoObject::Unknown),
            [one] => Ok(self.globals[*one].clone()),
            several => Err(NoObject::Ambiguous(several.iter().map(ToString::to_string).collect())),
        }
    }

    fn global_names(&self, _like: &str) -> Vec<String> {
        self.globals.keys().cloned().collect()
    }

    fn structure(&self, id: StructId) -> Option<Struct> {
        self.structs.get(id.0 as usize).cloned()
    }

    fn type_named(&self, name: &str) -> Option<Type> {
        self.types.get(name).cloned()
    }

    fn type_names(&self, _like: &str) -> Vec<String> {
        self.types.keys().cloned().collect()
    }

    fn enumerator(&self, name: &str) -> Option<i64> {
        self.enumerators.get(name).copied()
    }

    fn call_address(&self, name: &str) -> Option<ProcAddr> {
        self.functions.iter().find(|function| function.name == name).map(|function| function.address)
    }

    fn datatype_size(&self) -> Option<DatatypeSize> {
        self.datatype_size
    }
}

/// Where the System V ABI puts arguments of these types: integers and floats in registers, the rest on the stack.
pub fn place_arguments(arguments: &[(&str, Type)]) -> Vec<Argument> {
    let (mut general, mut vectors, mut stack) = (0_usize, 0_u8, 0_i64);
    let mut placed = Vec::new();
    for (name, kind) in arguments {
        let location = match kind {
            Type::Float(_) if vectors < 8 => {
                vectors += 1;
                Location::Vector(vectors - 1)
            }
            Type::Int { .. } | Type::Pointer(_) | Type::Datatype(_) if general < ARGUMENT_REGISTERS.len() => {
                general += 1;
                Location::Register(ARGUMENT_REGISTERS[general - 1])
            }
            _ => {
                stack += 8;
                Location::Stack(stack - 8)
            }
        };
        placed.push(Argument { name: name.to_string(), object: Object { kind: kind.clone(), location } });
    }
    placed
}

/// True if `text` matches a pattern with `*` and `?`.
pub fn glob(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(c) if *c == '?' || *c == text[t] => {
                p += 1;
                t += 1;
            }
            _ => match star {
                Some((star_p, star_t)) => {
                    p = star_p + 1;
                    t = star_t + 1;
                    star = Some((star_p, t));
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}
