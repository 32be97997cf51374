//! A small program's facts, and a way to run a script's bodies at its places.
//!
//! Next: the tests beside this folder.
#![allow(dead_code, reason = "each test program uses its own part")]

pub mod survive;

use std::collections::BTreeMap;
use trimtab_snippet::facts::{DatatypeSize, FunctionId, Location, Object, SiteId};
use trimtab_snippet::ir::{Area, Kind, Register, Variable};
use trimtab_snippet::reference::{Machine, run};
use trimtab_snippet::table::{ARGUMENT_REGISTERS, Table};
use trimtab_snippet::types::{Bits, Member, Struct, Type};
use trimtab_snippet::values::{Named, RankAreas, Value, collect};
use trimtab_snippet::{BodyPlace, Compiled, Permissions, compile};
use trimtab_types::ProcAddr;

/// Where the program's stack lies.
pub const STACK: u64 = 0x7fff_0000;
/// Where its global variables lie.
pub const GLOBALS: u64 = 0x60_0000;

/// A program: a solver with a struct, some MPI functions, one function of which nothing is known.
pub fn facts() -> Table {
    let mut table = Table::default();
    let particle = table.add_struct(Struct { name: "particle".into(), bytes: 48, members: particle_members() });
    let pointer = particle.clone().pointer();
    let text = Type::CHAR.pointer();
    let datatype = Type::Datatype(trimtab_snippet::ir::Width::W32);
    table.types.insert("MPI_Datatype".into(), datatype.clone());
    table.datatype_size = Some(DatatypeSize::Bits { mask: 0xff00_0000, kind: 0x4c00_0000, shift: 8, size_mask: 0xff });
    let send: &[(&str, Type)] = &[
        ("buf", Type::Void.pointer()),
        ("count", Type::INT),
        ("datatype", datatype),
        ("dest", Type::INT),
        ("tag", Type::INT),
        ("comm", Type::INT),
    ];
    table.add_function("MPI_Send", Some(send), Some(Type::INT));
    table.add_function("MPI_Recv", Some(send), Some(Type::INT));
    table.add_function("solve", Some(&[("count", Type::INT), ("tolerance", Type::DOUBLE)]), Some(Type::INT));
    table.add_function("norm", Some(&[("v", Type::DOUBLE.pointer()), ("n", Type::LONG)]), Some(Type::DOUBLE));
    table.add_function("move", Some(&[("p", pointer.clone())]), Some(Type::Void));
    table.add_function("log_line", Some(&[("text", text)]), Some(Type::INT));
    let mut many: Vec<(&str, Type)> = vec![("a", Type::LONG); 6];
    many.push(("g", Type::LONG));
    table.add_function("many", Some(&many), Some(Type::LONG));
    table.add_function("stripped", None, None);
    table.add_function("fflush", None, None);
    add_sites(&mut table);
    table.add_global("phase", Type::INT, ProcAddr(GLOBALS));
    table.add_global("solver.c::residual", Type::DOUBLE, ProcAddr(GLOBALS + 8));
    table.add_global("list", pointer, ProcAddr(GLOBALS + 16));
    table.add_global("grid", Type::Array(Box::new(Type::DOUBLE), Some(4)), ProcAddr(GLOBALS + 32));
    table.add_global("title", Type::Array(Box::new(Type::CHAR), Some(16)), ProcAddr(GLOBALS + 64));
    table.add_global("one.c::twice", Type::INT, ProcAddr(GLOBALS + 80));
    table.add_global("two.c::twice", Type::INT, ProcAddr(GLOBALS + 84));
    table.add_global("first", particle, ProcAddr(GLOBALS + 96));
    table.enumerators.insert("PHASE_SOLVE".into(), 2);
    table
}

fn particle_members() -> Vec<Member> {
    let member = |name: &str, offset, kind| Member { name: name.into(), offset, kind, bits: None };
    let this = Type::Struct(trimtab_snippet::types::StructId(0));
    let mut members = vec![
        member("x", 0, Type::DOUBLE),
        member("mass", 8, Type::Float(trimtab_snippet::ir::Width::W32)),
        member("id", 12, Type::INT),
        member("next", 16, this.pointer()),
        member("flags", 24, Type::Int { width: trimtab_snippet::ir::Width::W32, signed: false }),
        member("name", 28, Type::Array(Box::new(Type::CHAR), Some(8))),
        member("size", 40, Type::UNSIGNED_LONG),
    ];
    members[4].bits = Some(Bits { shift: 3, count: 5 });
    members
}

fn add_sites(table: &mut Table) {
    let find = |table: &Table, name: &str| {
        table.functions.iter().position(|function| function.name == name).map(|index| FunctionId(index as u32))
    };
    let (main, norm) = (find(table, "solve"), find(table, "norm"));
    table.add_site("at \"solver.c:214\"", main, None);
    table.add_site("loop pass \"solve:1\"", main, None);
    table.add_site("loop pass \"solve:1.2\"", main, None);
    table.add_site("loop exit \"solve:1\"", main, None);
    table.add_site("call before \"solve:norm\"", main, norm);
    table.add_site("call after \"solve:norm\"", main, norm);
    table.add_site("block \"solve:3\"", main, None);
    table.add_site("at 0x401234", main, None);
    table.add_site("at \"solve+0x10\"", main, None);
    table.add_site("at \"libm.so.6:0x40\"", None, None);
    let local = Object { kind: Type::INT, location: Location::Relative(Register::Rbp, -4) };
    table.locals.insert((SiteId(0), "i".into()), local);
}

/// A compiled script on a machine with one thread.
pub struct Run {
    pub compiled: Compiled,
    pub machine: Machine,
    table: Table,
}

impl Run {
    /// Compiles without permissions; panics with the rendered problems.
    pub fn new(script: &str) -> Run {
        Run::with(script, Permissions::default())
    }

    pub fn with(script: &str, permissions: Permissions) -> Run {
        let table = facts();
        let compiled = compile(script, &table, permissions)
            .unwrap_or_else(|refused| panic!("{script}\n{}", refused.render(script)));
        let mut machine = Machine::new(&compiled.unit);
        machine.memory.insert(GLOBALS, vec![0; 0x1000]);
        machine.memory.insert(STACK, vec![0; 0x1000]);
        machine.set_register(Register::Rsp, STACK + 0x800);
        machine.set_register(Register::Rbp, STACK + 0x900);
        Run { compiled, machine, table }
    }

    pub fn function(&self, name: &str) -> FunctionId {
        let index = self.table.functions.iter().position(|function| function.name == name);
        FunctionId(index.unwrap_or_else(|| panic!("no function {name}")) as u32)
    }

    /// Runs all bodies at one place, in order.
    pub fn at(&mut self, place: BodyPlace) {
        for (body, places) in self.compiled.unit.bodies.iter().zip(&self.compiled.places) {
            if places.contains(&place) {
                run(&self.compiled.unit, body, &mut self.machine).expect("the front end makes well-formed trees");
            }
        }
    }

    pub fn entry(&mut self, function: &str, arguments: &[u64]) {
        for (register, value) in ARGUMENT_REGISTERS.into_iter().zip(arguments) {
            self.machine.set_register(register, *value);
        }
        self.at(BodyPlace::Entry(self.function(function)));
    }

    pub fn exit(&mut self, function: &str, returned: u64) {
        self.machine.set_register(Register::Rax, returned);
        self.at(BodyPlace::Exit(self.function(function)));
    }

    pub fn variable(&self, name: &str) -> &Variable {
        let found = self.compiled.unit.variables.iter().find(|variable| variable.name == name);
        found.unwrap_or_else(|| panic!("no variable {name}"))
    }

    pub fn kind(&self, name: &str) -> Kind {
        self.variable(name).kind
    }

    pub fn int(&self, name: &str) -> i64 {
        let variable = self.variable(name);
        self.machine.word(variable.area, variable.offset) as i64
    }

    pub fn float(&self, name: &str) -> f64 {
        f64::from_bits(self.int(name) as u64)
    }

    /// The results as the command line would show them.
    pub fn results(&self) -> BTreeMap<String, Value> {
        let rank = RankAreas { rank: 0, process: &self.machine.process, threads: &[&self.machine.thread] };
        let value = |named: Named| (named.name, named.value.expect("nothing is missing"));
        collect(&self.compiled.unit, &[rank]).into_iter().map(value).collect()
    }

    pub fn poke(&mut self, address: u64, bytes: &[u8]) {
        let (start, memory) = self.machine.memory.range_mut(..=address).next_back().expect("mapped");
        let first = (address - start) as usize;
        memory[first..first + bytes.len()].copy_from_slice(bytes);
    }

    pub fn peek(&self, address: u64, count: usize) -> Vec<u8> {
        let (start, memory) = self.machine.memory.range(..=address).next_back().expect("mapped");
        let first = (address - start) as usize;
        memory[first..first + count].to_vec()
    }

    pub fn word(&self, area: Area, offset: u32) -> u64 {
        self.machine.word(area, offset)
    }
}
