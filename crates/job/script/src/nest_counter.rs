//! The counters of loops whose passes a script counts: read in each pass, from which it follows how far each loop is.
//!
//! A loop that begins anew is seen by its counter, which has its first value again: the reading that later ones are held
//! against is then taken anew. Where it begins with something else than a number, it must not begin anew while it is counted.
//!
//! Next: `nest`, which asks; `trimtab-session`'s `LoopCounter`, which says where to read and what the readings mean.

use std::collections::BTreeMap;
use trimtab_session::{LoopCounter, LoopProgress, Modules, NoReading, Read};
use trimtab_types::ProcAddr;
use trimtab_x86::ReadablePlace;

/// Loops of a nest whose counters are read, outermost first: a script has no room for the variables of more.
const READ_MAX: usize = 8;
/// Processes differ in where a file lies by whole pages.
const PAGE_BYTES: u64 = 4096;
/// The letters of the variables with the latest reading, and with the one that it is held against.
const LATEST: [char; 3] = ['c', 'd', 'e'];
const FIRST: [char; 3] = ['x', 'y', 'z'];
/// That of the passes before that one.
const BEFORE: char = 'q';
/// The same of the run of the loop before this one, with its passes.
const FIRST_BEFORE: [char; 3] = ['i', 'j', 'k'];
const LATEST_BEFORE: [char; 3] = ['g', 'h', 'm'];
const RUN_BEFORE: [char; 2] = ['t', 'u'];
/// That of the address of the probe.
const SITE: char = 'r';
const REGISTERS: [&str; 16] =
    ["rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15"];

/// Why it is not known how far ranks are in a loop.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoProgress {
    /// Its code or its readings do not say it.
    #[error(transparent)]
    Reading(#[from] NoReading),
    /// A script has no room for more.
    #[error("only the outermost {READ_MAX} loops are read")]
    NotRead,
    /// The loop is named otherwise.
    #[error("its function is not known by its address")]
    NoAddress,
    /// Each thread has a counter of its own.
    #[error("several threads pass it")]
    SeveralThreads,
    /// Another copy of its code runs than the one that was looked at.
    #[error("its passes are counted elsewhere than its counter is known")]
    Elsewhere,
    /// No pass was seen.
    #[error("no rank passed it")]
    NotPassed,
}

/// A loop's counter, as a script reads it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CounterRead(LoopCounter);

impl CounterRead {
    /// Those of all loops of a nest, in the first of its processes: by the beginnings of their functions, and numbers.
    pub(crate) fn of_all<'p>(
        modules: &Modules,
        loops: impl Iterator<Item = (Option<ProcAddr>, &'p [u32])>,
    ) -> Vec<Result<CounterRead, NoProgress>> {
        let of = |(index, (begins, number)): (usize, (Option<ProcAddr>, &[u32]))| match begins {
            Some(begins) if index < READ_MAX => Ok(CounterRead(LoopCounter::of(modules, begins, number)?)),
            Some(_) => Err(NoProgress::NotRead),
            None => Err(NoProgress::NoAddress),
        };
        loops.enumerate().map(of).collect()
    }

    /// The declarations of the variables of loop `n`.
    pub(crate) fn variables(n: &usize) -> String {
        let one = |letter| format!("thread int nest_{letter}{n};");
        let of_runs = LATEST.into_iter().chain(FIRST).chain(FIRST_BEFORE).chain(LATEST_BEFORE).chain(RUN_BEFORE);
        of_runs.chain([BEFORE, SITE]).map(one).collect::<Vec<_>>().join(" ")
    }

    /// The statements that read it in a pass of loop `n`, before that pass is counted.
    pub(crate) fn text(&self, n: &usize) -> String {
        let places = self.0.places();
        let read = |index: usize| places[index].map_or("0".to_owned(), |place| self.expression(place));
        let set = |to: char, value: &str| format!("nest_{to}{n} = {value}; ");
        let all = |to: [char; 3], from: [char; 3]| -> String {
            to.into_iter().zip(from).map(|(to, from)| set(to, &format!("nest_{from}{n}"))).collect()
        };
        let reads: String = (0..3).map(|index| format!("let read{index} = {}; ", read(index))).collect();
        let put = |to: [char; 3]| -> String { (0..3).map(|index| set(to[index], &format!("read{index}"))).collect() };
        let anew = self.0.begins_with().map(|(index, value, is_narrow)| {
            let kind = if is_narrow { "(unsigned int)" } else { "" };
            format!(" || {kind}read{index} == {}", value as i64)
        });
        let kept = all(FIRST_BEFORE, FIRST) + &all(LATEST_BEFORE, LATEST);
        let [before, passes] = RUN_BEFORE;
        let kept = kept + &set(before, &format!("nest_{BEFORE}{n}")) + &set(passes, &format!("nest_p{n}"));
        format!(
            "{reads}nest_{SITE}{n} = $rip; if (nest_p{n} == 0{}) {{ {kept}{}nest_{BEFORE}{n} = nest_p{n} }}\n{}\n",
            anew.unwrap_or_default(),
            put(FIRST),
            put(LATEST),
        )
    }

    /// The value of a place at the probe.
    fn expression(&self, place: ReadablePlace) -> String {
        let plus = |more: i64| if more < 0 { format!("- {}", more.unsigned_abs()) } else { format!("+ {more}") };
        let kind = |bytes: u32| if bytes == 4 { "unsigned int" } else { "long" };
        let register = |number: u8| format!("${}", REGISTERS[usize::from(number) % REGISTERS.len()]);
        match place {
            ReadablePlace::Register(number) => register(number),
            ReadablePlace::Frame { register: number, offset, bytes } => {
                format!("*({} *)({} {})", kind(bytes), register(number), plus(offset))
            }
            ReadablePlace::Behind { register: number, slot, offset, bytes } => {
                format!("*({} *)(*(long *)({} {}) {})", kind(bytes), register(number), plus(slot), plus(offset))
            }
            // Counted from the probe, which lies elsewhere in each process.
            ReadablePlace::Fixed { address, bytes } => {
                format!("*({} *)($rip {})", kind(bytes), plus(address.0.wrapping_sub(self.0.site().0) as i64))
            }
        }
    }

    /// How far each rank was in its latest pass of the loop: `read` says what the threads of each have in a variable.
    ///
    /// # Errors
    /// Why that is not known of all ranks that passed it.
    pub(crate) fn progress(
        &self,
        read: &dyn Fn(char) -> BTreeMap<i64, Vec<i64>>,
    ) -> Result<BTreeMap<i64, LoopProgress>, NoProgress> {
        let ranks = read('p');
        let of_rank = |(rank, passes): (&i64, &Vec<i64>)| {
            let own = |letter: char| match read(letter).get(rank).map(Vec::as_slice) {
                Some([value]) => Ok(*value as u64),
                _ => Err(NoProgress::SeveralThreads),
            };
            let [passes] = passes[..] else { return Err(NoProgress::SeveralThreads) };
            let reading = |pass: u64, letters: [char; 3]| -> Result<Read, NoProgress> {
                Ok((
                    pass,
                    [self.cut(0, own(letters[0])?), self.cut(1, own(letters[1])?), self.cut(2, own(letters[2])?)],
                ))
            };
            if own(SITE)?.wrapping_sub(self.0.site().0) % PAGE_BYTES != 0 {
                return Err(NoProgress::Elsewhere);
            }
            let (mut first, mut latest) = (reading(own(BEFORE)? + 1, FIRST)?, reading(passes as u64, LATEST)?);
            let [before, passes] = RUN_BEFORE;
            if first.0 == latest.0 && own(passes)? > 0 {
                // This run has only begun.
                (first, latest) = (reading(own(before)? + 1, FIRST_BEFORE)?, reading(own(passes)?, LATEST_BEFORE)?);
            }
            let progress = self.0.progress(first, latest)?;
            Ok((*rank, progress))
        };
        let all: BTreeMap<i64, LoopProgress> = ranks.iter().map(of_rank).collect::<Result<_, NoProgress>>()?;
        if all.is_empty() { Err(NoProgress::NotPassed) } else { Ok(all) }
    }

    /// A value as it was read: of a word of four bytes no more than these.
    fn cut(&self, place: usize, value: u64) -> u64 {
        let bytes = match self.0.places()[place] {
            Some(
                ReadablePlace::Frame { bytes, .. }
                | ReadablePlace::Behind { bytes, .. }
                | ReadablePlace::Fixed { bytes, .. },
            ) => bytes,
            _ => 8,
        };
        if bytes == 4 { u64::from(value as u32) } else { value }
    }
}
