//! Global and static variables: which one a name means, and where it is in the process.
//!
//! As in C, the nearest one is meant: of the function itself, then of its file, then what all files can use. Several
//! that are equally near are ambiguous, and the answer says how to tell them apart.
//!
//! Next: `places` for where a value is.

use super::places::{Locator, Moment};
use super::{DebugFacts, Opened};
use std::collections::BTreeSet;
use trimtab_snippet::facts::{Location, NoObject, Object};
use trimtab_snippet::syntax::Name;
use trimtab_symbols::dwarf::{Types, Variable};
use trimtab_types::{FileAddr, ProcAddr};

/// Joins the names of scopes.
const SEPARATOR: &str = "::";
/// Variables listed where a name is ambiguous.
const LISTED_MAX: usize = 8;

/// A variable that a name may mean.
struct Candidate {
    variable: Variable,
    /// With scopes.
    full_name: String,
    /// The source file that was compiled.
    unit: String,
    /// The one that declares it, which may be a header.
    declared_in: Option<String>,
}

impl Candidate {
    fn is_of_file(&self, file: &str) -> bool {
        let ends_with = |path: &str| {
            let before = path.strip_suffix(file);
            before.is_some_and(|before| before.is_empty() || before.ends_with('/') || file.starts_with('/'))
        };
        ends_with(&self.unit) || self.declared_in.as_deref().is_some_and(ends_with)
    }
}

/// Where a name is used.
struct From {
    unit: String,
    function: String,
}

impl<'a> DebugFacts<'a> {
    /// The variable that a name means, seen from a function.
    pub(crate) fn global(&self, name: &Name, from: Option<ProcAddr>) -> Result<Object, NoObject> {
        for opened in self.all(from) {
            let here =
                from.filter(|from| opened.module.text.contains(&from.0)).and_then(|from| of_function(opened, from));
            match self.global_in(opened, name, here.as_ref()) {
                Err(NoObject::Unknown) => {}
                found => return found,
            }
        }
        Err(NoObject::Unknown)
    }

    fn global_in(&self, opened: &Opened<'a>, name: &Name, from: Option<&From>) -> Result<Object, NoObject> {
        let (Name::Plain(plain) | Name::Global(plain) | Name::Static { name: plain, .. }) = name;
        let mut types = opened.types.borrow_mut();
        let mut all = candidates(opened, plain, &mut types);
        if let Name::Static { file, .. } = name {
            all.retain(|candidate| candidate.is_of_file(file));
        }
        let (placed, declared): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|candidate| !candidate.variable.places.is_empty());
        match nearest(&placed, plain, from)? {
            Some(found) => self.placed(opened, &types, plain, &found.variable),
            None => self.declared(opened, &types, plain, &declared),
        }
    }

    fn placed(&self, opened: &Opened<'a>, types: &Types, name: &str, variable: &Variable) -> Result<Object, NoObject> {
        let kind = self.kind(opened, types, variable.type_id);
        if variable.is_external
            && let Some(address) = self.taken_over(opened, variable)
        {
            return Ok(Object { kind, location: Location::Address(address) });
        }
        let Some(place) = variable.places.first().map(|place| &place.place) else { return Err(NoObject::Unknown) };
        let locator = Locator { name, moment: Moment::Always, bias: opened.module.bias };
        match locator.object(place, kind) {
            Object { location: Location::Gone(reason), .. } => Err(NoObject::Unusable(reason)),
            object => Ok(object),
        }
    }

    /// A variable that this module only declares: where the symbol tables say that it is.
    fn declared(
        &self,
        opened: &Opened<'a>,
        types: &Types,
        name: &str,
        declared: &[Candidate],
    ) -> Result<Object, NoObject> {
        let Some(first) = declared.first().map(|candidate| &candidate.variable) else { return Err(NoObject::Unknown) };
        let symbol = first.linkage_name.as_deref().unwrap_or(&first.name);
        let found = self.modules.iter().find_map(|module| {
            let (address, _) = module.loaded.image.object_named(symbol)?;
            Some(module.bias.to_proc(address))
        });
        match found.filter(|_| first.is_external) {
            Some(address) => {
                let kind = self.kind(opened, types, first.type_id);
                Ok(Object { kind, location: Location::Address(address) })
            }
            None => Err(NoObject::Unusable(format!("`{name}` has no place in the program: the compiler dropped it"))),
        }
    }

    /// The address of what a module loaded earlier has in place of an external variable: programs hold copies of their
    /// libraries' variables.
    fn taken_over(&self, opened: &Opened<'a>, variable: &Variable) -> Option<ProcAddr> {
        let symbol = variable.linkage_name.as_deref().unwrap_or(&variable.name);
        self.modules[..opened.at].iter().find_map(|module| {
            let objects = module.loaded.image.objects.iter();
            let is_it = |name: &String| name.split('@').next() == Some(symbol);
            let mut matching = objects.filter(|object| object.exported && object.names.iter().any(is_it));
            Some(module.bias.to_proc(matching.next()?.addr))
        })
    }
}

fn of_function(opened: &Opened<'_>, function: ProcAddr) -> Option<From> {
    let id = opened.program.function_at(opened.to_file(function))?;
    let (unit, _) = opened.program.source_files_of(id).ok()?;
    Some(From { unit, function: opened.program.full_name(id).ok()? })
}

fn candidates(opened: &Opened<'_>, name: &str, types: &mut Types) -> Vec<Candidate> {
    let program = &opened.program;
    let found = program.variables_named(name).into_iter().filter_map(|id| {
        let variable = program.variable(id, types).ok()?;
        let (unit, declared_in) = program.source_files_of(id).ok()?;
        Some(Candidate { variable, full_name: program.full_name(id).ok()?, unit, declared_in })
    });
    found.collect()
}

/// The one nearest to where the name is used; an error if several are equally near.
fn nearest<'c>(all: &'c [Candidate], name: &str, from: Option<&From>) -> Result<Option<&'c Candidate>, NoObject> {
    let own = from.map(|from| format!("{}{SEPARATOR}{name}", from.function));
    let is_here = |one: &Candidate| from.is_some_and(|from| from.unit == one.unit);
    let is_named = |one: &Candidate| one.full_name == name;
    let rings: [&dyn Fn(&Candidate) -> bool; 5] = [
        &|one| is_here(one) && own.as_ref() == Some(&one.full_name),
        &|one| is_here(one) && is_named(one),
        &|one| one.variable.is_external && is_named(one),
        &is_named,
        &|_| true,
    ];
    for ring in rings {
        let mut seen: BTreeSet<Option<FileAddr>> = BTreeSet::new();
        let within = all.iter().filter(|one| ring(one));
        let different: Vec<&Candidate> = within.filter(|one| seen.insert(one.variable.fixed_address())).collect();
        match different.as_slice() {
            [] => {}
            [one] => return Ok(Some(one)),
            several => return Err(NoObject::Ambiguous(told_apart(several, name))),
        }
    }
    Ok(None)
}

/// How to write each of several variables so that it alone is meant.
fn told_apart(several: &[&Candidate], name: &str) -> Vec<String> {
    let count = |texts: &[String]| texts.iter().collect::<BTreeSet<_>>().len();
    let written = |text: &dyn Fn(&Candidate) -> String| several.iter().map(|one| text(one)).collect::<Vec<_>>();
    let scoped = written(&|one| match one.full_name.contains(SEPARATOR) {
        true => one.full_name.clone(),
        false => format!("{SEPARATOR}{}", one.full_name),
    });
    let by_file = written(&|one| {
        let file = one.unit.rsplit('/').next().unwrap_or(&one.unit);
        format!("{file}{SEPARATOR}{name}")
    });
    let by_path = written(&|one| format!("\"{}\"{SEPARATOR}{name}", one.unit));
    let ways = [scoped, by_file];
    let clear = ways.into_iter().find(|way| count(way) == several.len()).unwrap_or(by_path);
    clear.into_iter().take(LISTED_MAX).collect()
}
