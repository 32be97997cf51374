//! Variables: global and static ones, parameters, and local ones with the addresses at which they can be seen.
//!
//! Next: `place` for where they are, `function` for parameters.

use super::error::LookupError;
use super::expression::{Expression, ValueLocation};
use super::names::Chain;
use super::place::PlaceInRange;
use super::program::{EntryId, Program};
use super::types::{TypeId, Types};
use serde::{Deserialize, Serialize};
use trimtab_types::FileAddr;

/// Variables listed for one address at most.
const VISIBLE_MAX: usize = 1 << 14;

/// A variable.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Variable {
    /// Its entry.
    pub id: EntryId,
    /// Its own name; empty for parameters that were given none.
    pub name: String,
    /// Its type.
    pub type_id: TypeId,
    /// Where it is; empty if the compiler dropped it altogether.
    pub places: Vec<PlaceInRange>,
    /// The function or module counts on the compiler for it (`this`, lengths of Fortran's texts).
    pub is_artificial: bool,
    /// Other units can use it by name.
    pub is_external: bool,
    /// The linker's name of it, where that is another name.
    pub linkage_name: Option<String>,
}

impl Variable {
    /// Where it is when the instruction at `addr` is about to run; `None` if it is nowhere then.
    pub fn place_at(&self, addr: FileAddr) -> Option<&ValueLocation> {
        // A narrower statement beats one for all addresses.
        let listed = self.places.iter().find(|place| place.range.is_some() && place.holds_at(addr));
        let found = listed.or_else(|| self.places.iter().find(|place| place.holds_at(addr)));
        found.map(|place| &place.place).filter(|place| **place != ValueLocation::Gone)
    }

    /// Its address, if it has one and keeps it: global and static variables.
    pub fn fixed_address(&self) -> Option<FileAddr> {
        match self.places.first().map(|place| &place.place) {
            Some(ValueLocation::Memory(Expression::Address(addr))) => Some(*addr),
            _ => None,
        }
    }
}

/// A parameter of a function.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Parameter {
    /// The variable, and where it is while the function runs.
    pub variable: Variable,
    /// Where it is at the function's very first instruction, before anything is saved; `None` if not known.
    pub at_entry: Option<ValueLocation>,
}

impl<'a> Program<'a> {
    /// A global or static variable.
    ///
    /// # Errors
    /// [`LookupError::Damaged`].
    pub fn variable(&self, id: EntryId, types: &mut Types) -> Result<Variable, LookupError> {
        let chain = self.chain(id.0)?;
        self.variable_of(&chain, &Expression::FunctionBase, types, &mut self.units.list_budget())
    }

    /// Parameters and local variables that the source at `addr` can see, the innermost first; of several of one name
    /// the first one is meant. Within a copy of an inlined function these are that function's.
    ///
    /// # Errors
    /// [`LookupError::Damaged`].
    pub fn variables_at(&self, addr: FileAddr, types: &mut Types) -> Result<Vec<Variable>, LookupError> {
        let Some(function) = self.function_at(addr) else { return Ok(Vec::new()) };
        let base = self.function_base(function)?;
        let around = self.blocks_around(function, addr)?;
        let copy = around.iter().rposition(|die| die.tag == gimli::DW_TAG_inlined_subroutine);
        let mut blocks: Vec<u32> = around[copy.unwrap_or(0)..].iter().map(|die| die.id).collect();
        if copy.is_none() {
            blocks.insert(0, function.0);
        }
        let mut variables = Vec::new();
        let mut budget = self.units.list_budget();
        for block in blocks.into_iter().rev() {
            for entry in self.variables_directly_in(block)? {
                if variables.len() < VISIBLE_MAX {
                    variables.push(self.variable_of(&self.chain(entry)?, &base, types, &mut budget)?);
                }
            }
        }
        Ok(variables)
    }

    /// Entries of parameters and variables directly below a function or block.
    pub(crate) fn variables_directly_in(&self, block: u32) -> Result<Vec<u32>, LookupError> {
        let mut walk = self.units.walk(block)?;
        let mut found = Vec::new();
        while let Some(depth) = walk.next()? {
            let is_variable = matches!(walk.die.tag, gimli::DW_TAG_variable | gimli::DW_TAG_formal_parameter);
            if depth == 1 && is_variable {
                found.push(walk.die.id);
            }
            if depth > 0 {
                walk.skip_children(depth);
            }
        }
        Ok(found)
    }

    /// A variable from its entry and those it completes.
    pub(crate) fn variable_of(
        &self,
        chain: &Chain<'_, 'a>,
        function_base: &Expression,
        types: &mut Types,
        budget: &mut usize,
    ) -> Result<Variable, LookupError> {
        let id = EntryId(chain.links.first().map_or(0, |(die, _)| die.id));
        let located = chain.with(gimli::DW_AT_location).or_else(|| chain.with(gimli::DW_AT_const_value));
        let places = located.map(|(die, unit)| self.places(unit, die, function_base, budget)).unwrap_or_default();
        let flag = |name| chain.links.iter().any(|(die, _)| die.flag(name));
        Ok(Variable {
            id,
            name: self.chain_text(chain, gimli::DW_AT_name).unwrap_or_default(),
            type_id: self.chain_type(chain, types)?,
            places,
            is_artificial: flag(gimli::DW_AT_artificial),
            is_external: flag(gimli::DW_AT_external),
            linkage_name: self.linkage_name(chain),
        })
    }

    pub(crate) fn chain_type(&self, chain: &Chain<'_, 'a>, types: &mut Types) -> Result<TypeId, LookupError> {
        let typed = chain.with(gimli::DW_AT_type).or(chain.links.first());
        match typed {
            Some((die, unit)) => self.type_of(unit, die, types),
            None => Err(LookupError::Damaged { what: "an entry without itself".to_string() }),
        }
    }
}
