//! Where a value is: in memory, in a register, in pieces, or nowhere; and for which addresses of the code that holds.
//!
//! Next: `expression` for calculations, `variable` for whose place it is.

use super::expression::{Expression, Reader, ValueLocation};
use super::program::Program;
use super::units::{Die, Slice, Unit};
use gimli::AttributeValue;
use serde::{Deserialize, Serialize};
use std::ops::Range;
use trimtab_types::FileAddr;

/// A place, and where in the code it holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlaceInRange {
    /// The addresses; `None` for all in which the variable is visible.
    pub range: Option<Range<FileAddr>>,
    /// The place there.
    pub place: ValueLocation,
}

impl PlaceInRange {
    /// True if it holds at `addr`.
    pub fn holds_at(&self, addr: FileAddr) -> bool {
        self.range.as_ref().is_none_or(|range| range.contains(&addr))
    }
}

impl<'a> Program<'a> {
    /// The places an entry's location attribute (or constant value) lists. `budget`: entries of lists still to read.
    pub(crate) fn places(
        &self,
        unit: &Unit<'a>,
        die: &Die<'a>,
        function_base: &Expression,
        budget: &mut usize,
    ) -> Vec<PlaceInRange> {
        let reader = Reader { units: &self.units, unit, function_base };
        let everywhere = |place| vec![PlaceInRange { range: None, place }];
        match die.attr(gimli::DW_AT_location) {
            Some(AttributeValue::Exprloc(expression)) => everywhere(reader.place(expression, None)),
            Some(list) => self.listed(&reader, list, budget).unwrap_or_default(),
            None => constant(die).map(everywhere).unwrap_or_default(),
        }
    }

    fn listed(
        &self,
        reader: &Reader<'_, '_, 'a>,
        list: AttributeValue<Slice<'a>>,
        budget: &mut usize,
    ) -> Option<Vec<PlaceInRange>> {
        let mut list = self.units.dwarf.attr_locations(&reader.unit.inner, list).ok()??;
        let mut places = Vec::new();
        loop {
            *budget = budget.checked_sub(1)?;
            let Some(raw) = list.next_raw().ok()? else { return Some(places) };
            let Some(entry) = list.convert_raw(raw).ok()? else { continue };
            if entry.range.begin < entry.range.end {
                let range = Some(FileAddr(entry.range.begin)..FileAddr(entry.range.end));
                places.push(PlaceInRange { range, place: reader.place(entry.data, None) });
            }
        }
    }
}

/// The place of what is the same number wherever it is visible.
fn constant(die: &Die<'_>) -> Option<ValueLocation> {
    match die.attr(gimli::DW_AT_const_value)? {
        AttributeValue::Block(bytes) | AttributeValue::String(bytes) => {
            Some(ValueLocation::Bytes(bytes.slice().to_vec()))
        }
        AttributeValue::Sdata(value) => Some(ValueLocation::Value(Expression::Constant(value.cast_unsigned()))),
        AttributeValue::Data16(value) => Some(ValueLocation::Bytes(value.to_le_bytes().to_vec())),
        value => Some(ValueLocation::Value(Expression::Constant(value.udata_value()?))),
    }
}
