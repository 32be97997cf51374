//! Nests of made-up programs, and the rule on made-up counts.
//!
//! Next: `nest` itself.

use super::*;

const MAIN: u64 = 0x1000;
const STEP: u64 = 0x2000;
const SOLVE: u64 = 0x3000;
const COMPUTE: u64 = 0x4000;
const SEND: u64 = 0x8000;
const EVAL: u64 = 0x9000;
const START: u64 = 0xa000;

/// A program whose functions are known by where they begin.
#[derive(Default)]
struct Program {
    loops: BTreeMap<u64, Vec<FunctionLoop>>,
    origins: BTreeMap<u64, Origin>,
    alternatives: Vec<(Vec<u32>, Vec<u32>)>,
}

impl Program {
    /// `main` has one loop, `step` one with another inside, `solve` one, `compute` one.
    fn nested() -> Self {
        let at = |number: &[u32], first: u64, end: u64| FunctionLoop {
            number: number.to_vec(),
            header: FileAddr(first),
            backs: Vec::new(),
            blocks: vec![FileAddr(first)..FileAddr(end)],
        };
        let loops = BTreeMap::from([
            (MAIN, vec![at(&[1], MAIN + 0x10, MAIN + 0x80)]),
            (STEP, vec![at(&[1], STEP + 0x10, STEP + 0x80), at(&[1, 1], STEP + 0x20, STEP + 0x40)]),
            (SOLVE, vec![at(&[1], SOLVE + 0x10, SOLVE + 0x80)]),
            (COMPUTE, vec![at(&[1], COMPUTE + 0x10, COMPUTE + 0x80)]),
        ]);
        let origins = BTreeMap::from([(SEND, Origin::Mpi), (EVAL, Origin::Interpreter), (START, Origin::System)]);
        Program { loops, origins, alternatives: Vec::new() }
    }
}

impl Binary for Program {
    fn origin(&self, function: FunctionId) -> Origin {
        self.origins.get(&function.start.0).copied().unwrap_or(Origin::Program)
    }

    fn loops(&self, function: FunctionId) -> Option<Vec<FunctionLoop>> {
        Some(self.loops.get(&function.start.0).cloned().unwrap_or_default())
    }

    fn are_alternatives(&self, _: FunctionId, one: &[u32], other: &[u32]) -> bool {
        self.alternatives.contains(&(one.to_vec(), other.to_vec()))
            || self.alternatives.contains(&(other.to_vec(), one.to_vec()))
    }
}

fn stack(rank: u32, calls: &[u64]) -> SeenStack {
    let call = |at: &u64| {
        let function = FunctionId { module: 0, start: FileAddr(at & !0xfff) };
        StackCall { function, at: FileAddr(*at) }
    };
    SeenStack { rank, calls: calls.iter().map(call).collect() }
}

fn names(nest: &Nest) -> Vec<String> {
    let name = |one: &NestLoop| format!("{:x}:{:?} {:.2}", one.function.start.0, one.number, one.share);
    nest.loops.iter().map(name).collect()
}

#[test]
fn loops_are_found_from_the_outermost_function_to_the_innermost_common_one() {
    let mut stacks = vec![stack(0, &[START, MAIN + 0x20, STEP + 0x30, SEND + 4]); 6];
    stacks.extend(vec![stack(0, &[START, MAIN + 0x20, STEP + 0x50, COMPUTE + 0x20]); 4]);
    let nest = find_nest(&stacks, &Program::nested());
    assert_eq!(names(&nest), ["1000:[1] 1.00", "2000:[1] 1.00", "2000:[1, 1] 0.60"]);
    assert!(nest.unusable.is_empty() && nest.loops.iter().all(|one| one.is_seen_in_mpi));
    assert_eq!(nest.path.len(), 3, "what is below MPI is not the program's");
}

#[test]
fn a_call_outside_of_a_loop_shows_no_loop() {
    let nest = find_nest(&vec![stack(0, &[START, MAIN + 4, SOLVE + 0x20, SEND]); 5], &Program::nested());
    assert_eq!(names(&nest), ["3000:[1] 1.00"]);
}

#[test]
fn ranks_that_are_elsewhere_are_named() {
    let mut stacks = vec![stack(0, &[MAIN + 0x20, SOLVE + 0x20, SEND]); 2];
    stacks.extend((1..4).flat_map(|rank| vec![stack(rank, &[MAIN + 0x20, STEP + 0x50, SEND]); 2]));
    let nest = find_nest(&stacks, &Program::nested());
    assert_eq!(names(&nest), ["1000:[1] 1.00", "2000:[1] 0.75"]);
    assert_eq!(nest.loops[0].ranks_without, []);
    assert_eq!(nest.loops[1].ranks_without, [0]);
}

/// Rank 0 receives in a loop of its own what the others send in another.
#[test]
fn loops_in_which_other_ranks_are_instead_are_named() {
    let mut program = Program::nested();
    let second = FunctionLoop {
        number: vec![2],
        blocks: vec![FileAddr(SOLVE + 0x80)..FileAddr(SOLVE + 0xf0)],
        ..program.loops[&SOLVE][0].clone()
    };
    program.loops.get_mut(&SOLVE).expect("it has a loop").push(second);
    let mut stacks = vec![stack(0, &[MAIN + 0x20, SOLVE + 0x20, SEND]); 2];
    stacks.extend((1..3).flat_map(|rank| vec![stack(rank, &[MAIN + 0x20, SOLVE + 0x90, SEND]); 2]));
    let instead = |program: &Program, stacks: &[SeenStack]| -> Vec<Vec<Vec<u32>>> {
        find_nest(stacks, program).loops.into_iter().map(|one| one.instead).collect()
    };
    assert_eq!(instead(&program, &stacks), [vec![], vec![]] as [Vec<Vec<u32>>; 2], "one may come after the other");
    program.alternatives = vec![(vec![1], vec![2])];
    assert_eq!(instead(&program, &stacks), [vec![], vec![vec![1]]]);
    stacks.push(stack(3, &[MAIN + 0x20, SOLVE + 0xff, SEND]));
    assert_eq!(instead(&program, &stacks), [vec![], vec![]] as [Vec<Vec<u32>>; 2], "a rank is in none of them");
}

/// A rank that does something at the end of each pass has a way back of its own: what the others do before the beginning of
/// that inner loop is part of its passes, too.
#[test]
fn a_loop_that_has_all_of_a_rank_is_shown_with_what_lies_around_it() {
    let mut stacks = vec![stack(0, &[STEP + 0x30, SEND]); 4];
    stacks.extend((1..4).flat_map(|rank| vec![stack(rank, &[STEP + 0x14, SEND]); 4]));
    let nest = find_nest(&stacks, &Program::nested());
    assert_eq!(names(&nest), ["2000:[1] 1.00", "2000:[1, 1] 0.25"]);
    assert_eq!(nest.loops[1].ranks_without, []);
    stacks[0] = stack(0, &[STEP + 0x14, SEND]);
    let nest = find_nest(&stacks, &Program::nested());
    assert_eq!(names(&nest), ["2000:[1] 1.00"], "a loop that is as seldom on all ranks is none of those that run most");
}

#[test]
fn functions_around_whose_loops_are_not_known_are_told() {
    let function = |start| FunctionId { module: 0, start: FileAddr(start) };
    let around = [MAIN + 4, MAIN + 4, SOLVE + 0x20, SEND];
    let nest = find_nest(&vec![stack(0, &around); 5], &Program::nested());
    assert_eq!(names(&nest), ["3000:[1] 1.00"]);
    assert_eq!(nest.unknown_around(), Some(&Unusable::Recursive(function(MAIN))));
    let inside = [MAIN + 0x20, SOLVE + 4, SOLVE + 4, SEND];
    assert_eq!(find_nest(&vec![stack(0, &inside); 5], &Program::nested()).unknown_around(), None);
}

/// As of a solver that works on planes by calling itself for them: their loops are parts of a step.
#[test]
fn loops_between_which_and_a_known_one_a_function_calls_itself_are_told() {
    let function = |start| FunctionId { module: 0, start: FileAddr(start) };
    let calls = [MAIN + 0x20, SOLVE + 4, SOLVE + 4, COMPUTE + 0x20, SEND];
    let nest = find_nest(&vec![stack(0, &calls); 5], &Program::nested());
    assert_eq!(names(&nest), ["1000:[1] 1.00", "4000:[1] 1.00"]);
    let between = |nest: &Nest| nest.loops.iter().map(|one| one.in_recursion).collect::<Vec<Option<FunctionId>>>();
    assert_eq!(between(&nest), [None, Some(function(SOLVE))]);
    // Around all known loops it may run a script.
    let nest = find_nest(&vec![stack(0, &calls[1..]); 5], &Program::nested());
    assert_eq!(between(&nest), [None]);
}

#[test]
fn loops_that_mean_something_else_are_named_as_such() {
    let function = |start| FunctionId { module: 0, start: FileAddr(start) };
    let interpreted = find_nest(&vec![stack(0, &[START, EVAL, EVAL + 8, SEND]); 5], &Program::nested());
    assert_eq!(interpreted.interpreter(), Some(function(EVAL)));
    assert!(interpreted.loops.is_empty());
    let calls = [START, MAIN + 0x20, SOLVE + 0x20, SOLVE + 0x20, SOLVE + 0x20, SEND];
    let recursive = find_nest(&vec![stack(0, &calls); 5], &Program::nested());
    assert_eq!(names(&recursive), ["1000:[1] 1.00"], "what is around it still counts");
    assert_eq!(recursive.unusable, [Unusable::Recursive(function(SOLVE))]);
    assert_eq!(find_nest(&[], &Program::nested()).unusable, [Unusable::NothingInCommon]);
}

#[test]
fn a_library_without_mpi_has_the_programs_loop_only_where_it_calls_back() {
    let mut program = Program::nested();
    program.origins.insert(SOLVE, Origin::Library);
    let alone = find_nest(&vec![stack(0, &[MAIN + 0x20, SOLVE + 0x20]); 5], &program);
    assert_eq!(names(&alone), ["1000:[1] 1.00"]);
    let back = find_nest(&vec![stack(0, &[MAIN + 4, SOLVE + 0x20, STEP + 4, SEND]); 5], &program);
    assert_eq!(names(&back), ["3000:[1] 1.00"]);
}

fn counted(passes: u64, with_mpi: u64) -> Counted {
    let passes = Some(Passes { passes, with_mpi });
    Counted {
        passes,
        is_seen_in_mpi: false,
        is_hidden: false,
        is_in_bursts: false,
        is_around_left: false,
        is_in_recursion: false,
    }
}

#[test]
fn the_outermost_loop_that_repeats_in_time_is_taken() {
    use LoopChoice::{Nothing, Take, Wait};
    let fast = Counted { passes: None, ..counted(0, 0) };
    let hidden = Counted { is_seen_in_mpi: true, is_hidden: true, ..fast };
    let around_left = |passes| Counted { is_seen_in_mpi: true, is_around_left: true, ..counted(passes, passes) };
    let bursts = Counted { is_in_bursts: true, ..counted(40, 40) };
    let in_recursion =
        |passes, with_mpi| Counted { is_seen_in_mpi: true, is_in_recursion: true, ..counted(passes, with_mpi) };
    for (name, loops, elapsed_s, max_s, choice) in [
        ("the outermost, at once", vec![counted(3, 3), counted(30, 30)], 0.1, 60.0, Take(0)),
        ("it may still come", vec![counted(1, 1), counted(30, 30)], 1.9, 60.0, Wait),
        ("it does not come in time", vec![counted(2, 2), counted(30, 30)], 2.0, 60.0, Take(1)),
        ("the inner one is passed once in each pass", vec![counted(2, 2), counted(3, 3)], 2.1, 60.0, Wait),
        ("once of none is one pass", vec![counted(0, 0), counted(4, 4)], 2.1, 60.0, Take(1)),
        ("stages of a step", vec![counted(2, 2), counted(8, 8)], 2.1, 60.0, Wait),
        ("stages of a slow step", vec![counted(1, 1), counted(4, 4)], 6.0, 60.0, Wait),
        ("too many to be stages", vec![counted(1, 1), counted(9, 9)], 6.0, 60.0, Take(1)),
        ("stages of one that is too slow", vec![counted(1, 1), counted(8, 8)], 20.0, 60.0, Take(1)),
        ("the innermost needs longer", vec![counted(0, 0), counted(2, 2)], 5.0, 60.0, Wait),
        ("a third of all", vec![counted(0, 0), counted(1, 1)], 20.0, 60.0, Nothing),
        ("the third pass is in sight", vec![counted(0, 0), counted(2, 2)], 20.0, 60.0, Wait),
        ("half of all", vec![counted(0, 0), counted(2, 2)], 30.0, 60.0, Nothing),
        ("a short window", vec![counted(1, 1), counted(9, 9)], 0.4, 1.2, Take(1)),
        ("calls in every fourth pass", vec![counted(40, 10)], 0.1, 60.0, Take(0)),
        ("no call inside", vec![counted(1, 1), counted(3000, 3)], 2.0, 6.0, Nothing),
        ("what is passed very often", vec![counted(3, 3), fast], 0.1, 60.0, Take(0)),
        ("nobody knows what is around", vec![hidden, counted(3, 3)], 0.1, 60.0, Nothing),
        ("around what can't be seen", vec![counted(3, 3), hidden, counted(9, 9)], 0.1, 60.0, Take(0)),
        ("below a function that calls itself", vec![in_recursion(40, 36)], 0.1, 60.0, Take(0)),
        ("one for all loops of a script", vec![in_recursion(40, 35)], 2.0, 6.0, Nothing),
        ("none", vec![], 2.0, 6.0, Nothing),
        ("in bursts around steps", vec![bursts, counted(3, 3)], 0.5, 60.0, Wait),
        ("in bursts around steps, later", vec![bursts, counted(3, 3)], 2.0, 60.0, Take(1)),
        ("nothing but bursts", vec![bursts, counted(2, 2)], 20.0, 60.0, Take(0)),
        ("it may be a burst", vec![counted(3, 3), counted(9, 9)], 0.01, 60.0, Wait),
        ("around one that was left", vec![around_left(0), counted(30, 30)], 2.0, 60.0, Wait),
        ("it comes around", vec![around_left(3), counted(30, 30)], 9.0, 60.0, Take(0)),
        ("it does not", vec![around_left(0), counted(30, 30)], 6.7, 60.0, Take(1)),
        ("it comes around once", vec![around_left(1), counted(30, 30)], 6.7, 60.0, Wait),
        ("too seldom", vec![around_left(1), counted(30, 30)], 13.4, 60.0, Take(1)),
        ("alone", vec![counted(3, 3)], 0.01, 60.0, Take(0)),
    ] {
        assert_eq!(choose_loop(&loops, elapsed_s, max_s), choice, "{name}");
    }
}
