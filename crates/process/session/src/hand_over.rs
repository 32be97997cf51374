//! Scripts whose bodies at exits ask how long a call took or what it returned, of functions that are left by jumps: the
//! bodies run where the function behind the jump returns, for calls that came there by the jump.
//!
//! A thread keeps a second table of open calls for each such function, of those that were handed over. A jump enters the
//! call there and says where it leads; at the entry of that function a call that came otherwise takes out what an exception
//! left there; at its exits the bodies run if the call is in the table. All this is done by bodies like those of the script.
//!
//! Next: `tails`, which finds out what is followed; `script`, which asks.

use crate::prepared::Prepared;
use crate::request::ScriptRequest;
use std::collections::BTreeSet;
use trimtab_snippet::ir::{
    Area, Binary, Body, Expression, Kind, OPEN_CALLS_MAX, Register, Statement, Unit, Variable, When,
};
use trimtab_snippet::resolve::words;

/// Bound on the cost of a body that keeps the table.
const KEEPING_COST_MAX: u64 = 400;
/// Above any address of a program: what is added to the stack pointer to say which function a call was handed over to.
const NUMBER_SHIFT: u32 = 48;

impl Prepared {
    /// Lets bodies at exits that ask for ends run where the functions return behind jumps.
    pub(crate) fn hand_over(&mut self, requests: &[ScriptRequest], unit: &mut Unit) {
        let asking_at = |index: usize| -> BTreeSet<usize> {
            let of_function = requests.iter().filter(|request| Some(request.address) == self.probes[index].address);
            of_function.flat_map(|request| request.asking.iter().copied()).collect()
        };
        let asking: Vec<BTreeSet<usize>> = (0..self.functions.len()).map(asking_at).collect();
        let own =
            |index: usize| self.functions[index].bodies.as_ref().map(|bodies| bodies.exit.clone()).unwrap_or_default();
        let exits: Vec<Vec<usize>> = (0..self.functions.len()).map(own).collect();
        for (from, site, _) in &self.edges {
            let at_jump = if asking[*from].is_empty() { exits[*from].clone() } else { Vec::new() };
            self.functions[*from].sites[*site].exit_bodies = Some(at_jump);
        }
        for index in 0..self.functions.len() {
            let is_left_by_jump = self.edges.iter().any(|(from, ..)| *from == index);
            if is_left_by_jump && !asking[index].is_empty() && !exits[index].is_empty() {
                self.hand_calls_over(index, &exits[index], &asking[index], unit);
            }
        }
    }

    fn hand_calls_over(&mut self, index: usize, exits: &[usize], asking: &BTreeSet<usize>, unit: &mut Unit) {
        let behind = self.behind(index);
        // A call that comes back by jumps begins anew there, so nobody knows how long all of it took.
        let is_followed = !behind.is_empty() && !behind.contains(&index);
        let careless: Vec<usize> = exits.iter().filter(|body| !asking.contains(body)).copied().collect();
        let handed = is_followed.then(|| Handed::new(unit, exits, &careless));
        for (from, site, next) in self.edges.clone() {
            let added = match (&handed, next) {
                (Some(handed), Some(next)) if from == index => vec![handed.enter(unit, next)],
                (Some(handed), Some(next)) if behind.contains(&from) => vec![handed.sweep, handed.pass_on(unit, next)],
                (Some(handed), None) if behind.contains(&from) => handed.lost.clone(),
                _ if from == index => careless.clone(),
                _ => continue,
            };
            self.functions[from].sites[site].exit_bodies.get_or_insert_default().extend(added);
        }
        let Some(handed) = handed else { return };
        for target in behind {
            let arrives = handed.arrive(unit, target as u32);
            let bodies = self.functions[target].bodies.get_or_insert_default();
            bodies.entry.insert(0, arrives);
            bodies.exit.extend(&handed.ends);
        }
    }

    /// Functions in which calls of one go on.
    fn behind(&self, index: usize) -> BTreeSet<usize> {
        let (mut work, mut seen) = (vec![index], BTreeSet::new());
        while let Some(from) = work.pop() {
            let next = self.edges.iter().filter(|(index, ..)| *index == from).filter_map(|(_, _, next)| *next);
            for next in next.map(|next| next as usize) {
                if seen.insert(next) {
                    work.push(next);
                }
            }
        }
        seen
    }
}

/// Words kept of a function's calls that were handed over, and the bodies that keep them.
struct Handed {
    /// Their table.
    table: usize,
    /// Stack pointer and function of the call that was handed over last and has not arrived.
    under_way: usize,
    /// Takes out what was left below.
    sweep: usize,
    /// Run where a call ends.
    ends: Vec<usize>,
    /// Run where a call goes on where nobody follows.
    lost: Vec<usize>,
}

impl Handed {
    fn new(unit: &mut Unit, exits: &[usize], careless: &[usize]) -> Handed {
        let table = add_variable(unit, Kind::OpenCalls);
        let under_way = add_variable(unit, Kind::Last);
        let is_left = |at_exit| Expression::CallWasLeft { variable: table, at_exit };
        let drop_left = vec![Statement::DropCall { variable: table }];
        let sweep = add(
            unit,
            When::Exit,
            vec![Statement::While { condition: is_left(true), bound: OPEN_CALLS_MAX, body: drop_left }],
        );
        // Calls that were left below are out: the innermost call is this one, or further out.
        let guarded = |unit: &mut Unit, body: &usize| {
            let Body { probe, statements, cost_max, .. } = unit.bodies[*body].clone();
            let guard = Statement::If { condition: is_left(false), then: statements, otherwise: Vec::new() };
            unit.bodies.push(Body {
                probe,
                when: When::Exit,
                statements: vec![guard],
                cost_max: cost_max + KEEPING_COST_MAX,
            });
            unit.bodies.len() - 1
        };
        let close = add(unit, When::Exit, vec![Statement::CloseCall { variable: table }]);
        let mut all = |bodies: &[usize]| {
            let guarded: Vec<usize> = bodies.iter().map(|body| guarded(unit, body)).collect();
            [&[sweep], &guarded[..], &[close]].concat()
        };
        let (ends, lost) = (all(exits), all(careless));
        Handed { table, under_way, sweep, ends, lost }
    }

    /// At a jump of the function: the call is handed over.
    fn enter(&self, unit: &mut Unit, next: u32) -> usize {
        let open = Statement::OpenCall { variable: self.table };
        let statements = vec![open, self.set_under_way(place(next))];
        add(unit, When::Exit, statements)
    }

    /// At a jump of a function behind it: the call is handed on, if there is one.
    fn pass_on(&self, unit: &mut Unit, next: u32) -> usize {
        let condition = Expression::CallWasLeft { variable: self.table, at_exit: false };
        let then = vec![self.set_under_way(place(next))];
        add(unit, When::Exit, vec![Statement::If { condition, then, otherwise: Vec::new() }])
    }

    /// At the entry of a function behind it: the call arrives, or another one is made at its place.
    fn arrive(&self, unit: &mut Unit, target: u32) -> usize {
        let under_way = Expression::Variable { variable: self.under_way };
        let condition = Expression::Binary(Binary::Equal, Box::new(under_way), Box::new(place(target)));
        let then = vec![self.set_under_way(Expression::Int(0))];
        let otherwise = vec![Statement::CloseCall { variable: self.table }];
        add(unit, When::Entry, vec![Statement::If { condition, then, otherwise }])
    }

    fn set_under_way(&self, value: Expression) -> Statement {
        Statement::Set { variable: self.under_way, value }
    }
}

/// Stands for a call at this stack pointer in the function with that number.
fn place(function: u32) -> Expression {
    let stack = Expression::Register(Register::Rsp);
    let number = Expression::Int((i64::from(function) + 1) << NUMBER_SHIFT);
    Expression::Binary(Binary::Add, Box::new(stack), Box::new(number))
}

fn add(unit: &mut Unit, when: When, statements: Vec<Statement>) -> usize {
    unit.bodies.push(Body { probe: usize::MAX, when, statements, cost_max: KEEPING_COST_MAX });
    unit.bodies.len() - 1
}

fn add_variable(unit: &mut Unit, kind: Kind) -> usize {
    let offset = unit.thread_bytes;
    unit.thread_bytes += 8 * words(kind);
    let name = format!("(handed over {offset})");
    unit.variables.push(Variable { name, area: Area::Thread, offset, kind });
    unit.variables.len() - 1
}
