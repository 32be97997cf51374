//! Hostile scripts: what they are made of, and what must hold of each.
//!
//! Next: `hostile` and the fuzzing of `testing/fuzz`, which make them.

use super::{GLOBALS, STACK};
use std::sync::OnceLock;
use trimtab_snippet::reference::{Machine, run};
use trimtab_snippet::resolve::COST_MAX;
use trimtab_snippet::table::Table;
use trimtab_snippet::{Permissions, compile};

pub const ALL: Permissions = Permissions { write: true, call: true };

/// Words of scripts; joined at random they come near enough to sense to reach every part.
pub const WORDS: &[&str] = &[
    "entry ",
    "exit ",
    "call ",
    "loop ",
    "at ",
    "block ",
    "every ",
    "once ",
    "solve ",
    "norm ",
    "move ",
    "MPI_Send ",
    "log_line ",
    "many ",
    "stripped ",
    "solve:1 ",
    "solve:norm ",
    "solve:3 ",
    "solver.c:214 ",
    "0x401234 ",
    "solve+0x10 ",
    "100ms ",
    "when ",
    "start ",
    "stop ",
    "after ",
    "before ",
    "hits ",
    "of ",
    "record ",
    "while ",
    "for ",
    "sum ",
    "thread ",
    "process ",
    "int ",
    "double ",
    "{ ",
    "} ",
    "( ",
    ") ",
    "[ ",
    "] ",
    "; ",
    "; ",
    ", ",
    "n",
    "m ",
    "x ",
    "x",
    "++",
    "--",
    "+= ",
    "= ",
    "= ",
    "== ",
    "+ ",
    "- ",
    "* ",
    "/ ",
    "% ",
    "& ",
    "&& ",
    "| ",
    "|| ",
    "<< ",
    ">> ",
    "< ",
    ">= ",
    "! ",
    "~ ",
    "? ",
    ": ",
    ":: ",
    ". ",
    "-> ",
    "$count ",
    "$p ",
    "$text ",
    "$ret ",
    "$0 ",
    "$1 ",
    "$v ",
    "$datatype ",
    "$rdi ",
    "$f0 ",
    "elapsed ",
    "now ",
    "rank ",
    "hist",
    "min",
    "max",
    "mean",
    "last",
    "count",
    "stack",
    "abs",
    "sizeof",
    "send(\"a\", ",
    "stop()",
    "let ",
    "if ",
    "else ",
    "repeat ",
    "limit ",
    "return ",
    "break ",
    "call fflush(",
    "phase ",
    "grid ",
    "residual ",
    "list ",
    "first ",
    "next ",
    "id ",
    "mass ",
    "flags ",
    "1 ",
    "3 ",
    "0.5 ",
    "100 ",
    "\"idle\" ",
    "'c' ",
    "(int) ",
    "(double) ",
    "(struct particle *) ",
    "(char *) ",
    "// c\n",
    "\n",
];

/// A sound script to spoil.
pub const SOUND: &str = "sum int sent; start after 2 hits of solve; stop when (n > 5);
entry MPI_Send when ($count > 3) { sent += $count * sizeof($datatype); big = hist($count); if ($dest == rank) { n++ } }
exit solve { time = hist(elapsed); for (let i = 0; i < 4; i++) { m += grid[i] } send(\"done\", n, title) }
entry move { let p = $p; while (p != 0) limit 8 { far = max(p->x); p = p->next } }
entry log_line when ($text != \"idle\") { lines++ } every 100ms { send(\"progress\", n) }";

/// The facts of the small program, made once.
pub fn facts() -> &'static Table {
    static FACTS: OnceLock<Table> = OnceLock::new();
    FACTS.get_or_init(super::facts)
}

/// Compiles, and runs what compiles on a machine with some memory.
pub fn survive(script: &str) -> bool {
    match compile(script, facts(), ALL) {
        Err(refused) => {
            assert!(!refused.problems.is_empty());
            assert!(refused.problems.iter().all(|problem| problem.line > 0 && problem.span.end <= script.len()));
            assert!(!refused.render(script).is_empty());
            false
        }
        Ok(compiled) => {
            let mut machine = Machine::new(&compiled.unit);
            machine.memory.insert(GLOBALS, vec![1; 256]);
            machine.memory.insert(STACK, vec![2; 256]);
            machine.registers = [STACK; 17];
            for body in &compiled.unit.bodies {
                assert!(body.cost_max <= COST_MAX);
                let before = machine.operations;
                run(&compiled.unit, body, &mut machine).expect("the front end makes well-formed trees");
                assert!(machine.operations - before <= body.cost_max, "more than was promised");
            }
            true
        }
    }
}
