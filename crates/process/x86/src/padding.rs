//! Bytes that nothing ever executes and that patches may therefore use.
//!
//! Only what assemblers and linkers fill gaps with counts: no-ops and breakpoints that no path leads to. Zeros do
//! not: behind hand-written code they may be constants. Next: `springboard`, which hands them out.

use crate::instruction::filler_len;
use crate::{Analysis, FunctionCode};
use std::ops::Range;
use trimtab_types::ProcAddr;

/// Alignment that gaps inside an unfollowed function must end at to count as filler.
const GAP_ALIGNMENT: u64 = 8;

/// One past the last padding byte that begins right behind the terminator that ends at `after`.
pub(crate) fn padding_end(code: &FunctionCode<'_>, analysis: &Analysis, after: ProcAddr) -> ProcAddr {
    let inner = inner_padding_end(analysis, after);
    let end = match code.ranges.iter().find(|range| range.end() == inner) {
        Some(range) => inner + filler_len(range.after, inner) as u64,
        None => inner,
    };
    // The mark of a restartable sequence may be a no-op's operand.
    code.first_restartable(inner).map_or(end, |first| first.clamp(inner, end))
}

/// All padding of a function: the gaps inside and what follows its ranges.
pub(crate) fn padding_runs(code: &FunctionCode<'_>, analysis: &Analysis) -> Vec<Range<ProcAddr>> {
    let mut runs = Vec::new();
    for step in &analysis.steps {
        if !step.continues() {
            let end = padding_end(code, analysis, step.end());
            runs.push(step.end()..end);
        }
    }
    for range in &code.ranges {
        // Behind a call that never returns there is no terminator, yet nothing enters the padding.
        let end = padding_end(code, analysis, range.end());
        if !runs.iter().any(|run| run.end == end) {
            runs.push(range.end()..end);
        }
    }
    runs.retain(|run| run.start < run.end);
    runs
}

fn inner_padding_end(analysis: &Analysis, after: ProcAddr) -> ProcAddr {
    let Ok(first) = analysis.steps.binary_search_by_key(&after, |step| step.at) else { return after };
    let mut end = after;
    for (index, step) in analysis.steps.iter().enumerate().skip(first) {
        let is_free = step.at == end && step.is_filler && !analysis.reached[index];
        if !is_free || analysis.first_target(step.at..step.end()).is_some() {
            break;
        }
        end = step.end();
    }
    let is_known = analysis.unresolved_indirect.is_empty();
    let is_gap = end.0.is_multiple_of(GAP_ALIGNMENT) || analysis.steps.last().is_some_and(|step| step.end() == end);
    if is_known || is_gap { end } else { after }
}
