//! Functions: where their code is, what they take and return, and where both are at entry and exit.
//!
//! Next: `abi` for where arguments are by convention, `variable` for what parameters are.

use super::abi::{self, Argument, STACK_POINTER};
use super::blocks::SourcePlace;
use super::error::LookupError;
use super::expression::{Expression, Reader, ValueLocation};
use super::names::Chain;
use super::program::{EntryId, Program};
use super::types::{TypeId, Types};
use super::units::{Die, Unit, is_fortran};
use super::variable::{Parameter, Variable};
use crate::demangle::demangle;
use serde::{Deserialize, Serialize};
use std::ops::Range;
use trimtab_types::FileAddr;

/// Parameters of one function at most: more than compilers accept.
const PARAMETERS_MAX: usize = 4096;

/// The mark of a function that is not called as the ABI says.
const NO_CONVENTION: gimli::AttributeValue<super::units::Slice<'static>> =
    gimli::AttributeValue::CallingConvention(gimli::DW_CC_nocall);

/// The facts of one function.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Function {
    /// Its entry.
    pub id: EntryId,
    /// Its own name.
    pub name: String,
    /// Its name with scopes: `ns::Class::f`, `module::procedure`.
    pub full_name: String,
    /// The linker's name of it, where that is another name.
    pub linkage_name: Option<String>,
    /// The linker's name in words, with parameters: `ns::Class::f(int)`.
    pub demangled: Option<String>,
    /// The source file that was compiled.
    pub unit: String,
    /// Where it is declared.
    pub declared: Option<SourcePlace>,
    /// Its first instruction; `None` if it has no code of its own, only inlined copies.
    pub entry: Option<FileAddr>,
    /// Its code; a cold part lies elsewhere.
    pub ranges: Vec<Range<FileAddr>>,
    /// Other units can call it by name.
    pub is_external: bool,
    /// The type it returns; `void` for nothing.
    pub result: TypeId,
    /// Where the result is when it returns; `None` for none, or if not known.
    pub result_at_exit: Option<ValueLocation>,
    /// It is called as the ABI says; the compiler's clones (`f.isra.0`) may get arguments in other registers, and only
    /// some of them.
    pub is_conventional: bool,
    /// Its parameters in order, with those the compiler added (`this`, lengths of Fortran's texts).
    pub parameters: Vec<Parameter>,
    /// And further arguments (`...`).
    pub is_variadic: bool,
    /// Nothing of what it takes and returns lies in a file that is not read.
    pub is_whole: bool,
}

impl<'a> Program<'a> {
    /// The facts of a function.
    ///
    /// Parameters are where the calling convention puts them when the function is entered, unless the compiler says
    /// otherwise for that address, as it does for the clones it makes (`f.isra.0`, `f.constprop.0`).
    ///
    /// # Errors
    /// [`LookupError::Damaged`].
    pub fn function(&self, id: EntryId, types: &mut Types) -> Result<Function, LookupError> {
        let chain = self.chain(id.0)?;
        let Some((die, unit)) = chain.links.first() else {
            return Err(LookupError::Damaged { what: "an entry without itself".to_string() });
        };
        let ranges = self.file_ranges(unit, die);
        let entry = self.entry_of(unit, die, &ranges);
        let result = self.chain_type(&chain, types)?;
        let (variables, is_variadic) = self.parameters(&chain, types)?;
        let is_fortran = is_fortran(unit);
        let by_address: Vec<bool> = variables
            .iter()
            .map(|variable| by_address(variable).unwrap_or(is_fortran && !variable.is_artificial))
            .collect();
        let arguments = variables
            .iter()
            .zip(&by_address)
            .map(|(variable, by_address)| Argument { type_id: variable.type_id, by_address: *by_address });
        let signature = abi::signature(self.machine(), types, arguments, result);
        let stated: Vec<Option<ValueLocation>> =
            variables.iter().map(|variable| stated_at_entry(variable, entry?)).collect();
        let is_conventional = entry.is_some()
            && die.attr(gimli::DW_AT_calling_convention) != Some(NO_CONVENTION)
            && stated.iter().zip(&signature.arguments).all(|(stated, conventional)| agree(stated, conventional));
        let places = stated.into_iter().zip(signature.arguments);
        let parameters = variables.into_iter().zip(places).map(|(variable, (stated, conventional))| Parameter {
            variable,
            at_entry: stated.or(conventional.filter(|_| is_conventional)),
        });
        let linkage_name = self.linkage_name(&chain);
        Ok(Function {
            id,
            name: self.chain_text(&chain, gimli::DW_AT_name).unwrap_or_default(),
            full_name: self.full_name(id)?,
            demangled: linkage_name.as_deref().and_then(demangle),
            linkage_name,
            unit: unit.inner.name.map_or_else(String::new, |name| name.to_string_lossy().into_owned()),
            declared: self.declared(&chain),
            entry,
            ranges,
            is_external: chain.links.iter().any(|(die, _)| die.flag(gimli::DW_AT_external)),
            result,
            result_at_exit: signature.result.filter(|_| is_conventional),
            is_conventional,
            parameters: parameters.collect(),
            is_variadic,
            is_whole: self.is_whole(&chain)?,
        })
    }

    /// True if all that a function and its parameters refer to can be followed.
    fn is_whole(&self, chain: &Chain<'_, 'a>) -> Result<bool, LookupError> {
        let is_followed = |(die, unit): &(Die<'a>, &Unit<'a>)| {
            let names = [gimli::DW_AT_type, gimli::DW_AT_abstract_origin, gimli::DW_AT_specification];
            names.iter().all(|name| !die.has(*name) || self.units.follow(unit, die, *name).is_some())
        };
        let mut is_whole = chain.links.iter().all(is_followed);
        for (die, _) in &chain.links {
            for (parameter, _) in self.listed_parameters(die.id)?.0 {
                is_whole &= self.chain(parameter)?.links.iter().all(is_followed);
            }
        }
        Ok(is_whole)
    }

    /// The base from which `DW_OP_fbreg` counts in a function.
    pub(crate) fn function_base(&self, function: EntryId) -> Result<Expression, LookupError> {
        let (die, unit) = self.units.die(function.0)?;
        let reader = Reader { units: &self.units, unit, function_base: &Expression::FunctionBase };
        let place = die.attr(gimli::DW_AT_frame_base).and_then(|value| value.exprloc_value());
        Ok(match place.map(|expression| reader.place(expression, None)) {
            Some(ValueLocation::Memory(base) | ValueLocation::Value(base)) => base,
            Some(ValueLocation::Register(register)) => Expression::Register(register),
            // Lists of frame bases are of compilers of the last century.
            _ => Expression::FunctionBase,
        })
    }

    /// The parameters in the order of the declaration, with those that only this instance has; and whether more follow.
    fn parameters(&self, chain: &Chain<'_, 'a>, types: &mut Types) -> Result<(Vec<Variable>, bool), LookupError> {
        let own = chain.links.first().map_or(0, |(die, _)| die.id);
        let base = self.function_base(EntryId(own))?;
        let mut budget = self.units.list_budget();
        let mut entries: Vec<(u32, u32)> = Vec::new();
        let mut is_variadic = false;
        for (die, _) in &chain.links {
            let (listed, more) = self.listed_parameters(die.id)?;
            is_variadic |= more;
            if entries.is_empty() {
                entries = listed;
                continue;
            }
            // An instance may lack parameters it can do without, and list those it does not use last.
            if die.has(gimli::DW_AT_inline) {
                let of_this = |origin: u32| entries.iter().find(|(_, from)| *from == origin).copied();
                let is_new = |entry: &&(u32, u32)| !listed.iter().any(|(origin, _)| *origin == entry.1);
                let further: Vec<(u32, u32)> = entries.iter().filter(is_new).copied().collect();
                let ordered = listed.iter().map(|&(entry, from)| of_this(entry).unwrap_or((entry, from)));
                entries = ordered.chain(further).collect();
            }
        }
        let mut variables = Vec::new();
        for (entry, _) in entries {
            variables.push(self.variable_of(&self.chain(entry)?, &base, types, &mut budget)?);
        }
        Ok((variables, is_variadic))
    }

    /// The parameters directly below a function, each with the entry it completes; and whether more follow.
    fn listed_parameters(&self, function: u32) -> Result<(Vec<(u32, u32)>, bool), LookupError> {
        let mut walk = self.units.walk(function)?;
        let (mut listed, mut is_variadic) = (Vec::new(), false);
        while let Some(depth) = walk.next()? {
            if depth == 0 {
                continue;
            }
            walk.skip_children(depth);
            match walk.die.tag {
                gimli::DW_TAG_formal_parameter if listed.len() < PARAMETERS_MAX => {
                    let origin = self.units.follow(walk.unit, &walk.die, gimli::DW_AT_abstract_origin);
                    listed.push((walk.die.id, origin.unwrap_or(walk.die.id)));
                }
                gimli::DW_TAG_unspecified_parameters => is_variadic = true,
                _ => {}
            }
        }
        Ok((listed, is_variadic))
    }
}

/// Where the compiler says a parameter is at the function's first instruction: what a list says for that very address.
/// A place for all addresses is one in the frame, which is not set up yet.
fn stated_at_entry(variable: &Variable, entry: FileAddr) -> Option<ValueLocation> {
    let listed = variable.places.iter().find(|place| place.range.is_some() && place.holds_at(entry))?;
    match &listed.place {
        ValueLocation::Unsupported(_) | ValueLocation::Gone => None,
        // Here and now, what a register held at entry is what it holds.
        ValueLocation::Value(Expression::RegisterAtEntry(register)) => Some(ValueLocation::Register(*register)),
        place => Some(place.clone()),
    }
}

/// True if what the compiler says of an argument is what the convention says, as far as both say something.
fn agree(stated: &Option<ValueLocation>, conventional: &Option<ValueLocation>) -> bool {
    match (stated, conventional) {
        (Some(ValueLocation::Register(stated)), Some(ValueLocation::Register(conventional))) => stated == conventional,
        (Some(ValueLocation::Register(_)), Some(ValueLocation::Memory(_))) => false,
        // A constant, or what can be calculated from others, is no argument any more.
        (Some(ValueLocation::Value(_) | ValueLocation::Bytes(_)), _) => false,
        _ => true,
    }
}

/// True if an argument is passed by its address, as Fortran's are and those of C++ classes that need copying: then its
/// places are reached through one. `None` if it has no place that tells.
fn by_address(variable: &Variable) -> Option<bool> {
    let tells = |place: &ValueLocation| match place {
        ValueLocation::Memory(Expression::Load { .. } | Expression::RegisterAtEntry(_)) => Some(true),
        ValueLocation::Memory(Expression::Register(register)) => Some(*register != STACK_POINTER),
        ValueLocation::Memory(_) | ValueLocation::Register(_) | ValueLocation::Pieces(_) => Some(false),
        _ => None,
    };
    variable.places.iter().find_map(|place| tells(&place.place))
}
