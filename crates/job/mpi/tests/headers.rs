//! Checks every argument position in the catalogue against the prototypes of the installed MPIs.
//!
//! A wrong position would silently count wrong bytes, so nothing here is taken on trust: names and types of the
//! parameters must fit, in both directions (no position is wrong, none is missing).

mod common;

use std::collections::BTreeMap;
use trimtab_mpi::{ABSENT, AccountingKind, Class, Counted, MpiFunction, catalogue, find};

/// One parameter of a prototype: its type without the name, and its name.
#[derive(Clone, Debug)]
struct Parameter {
    kind: String,
    name: String,
}

impl Parameter {
    fn parse(text: &str) -> Option<Parameter> {
        let text = text.replace("const ", "").replace('\n', " ");
        let (arrays, plain) = (text.matches('[').count(), text.split('[').next()?.trim().to_owned());
        let at = plain.rfind(|c: char| !c.is_alphanumeric() && c != '_').map_or(0, |at| at + 1);
        let (kind, name) = plain.split_at(at);
        let kind = format!("{}{}", kind.replace(' ', ""), "*".repeat(arrays));
        Some(Parameter { kind, name: name.to_lowercase() })
    }
}

type Prototypes = BTreeMap<String, Vec<Parameter>>;

fn prototypes(compiler: &str) -> Prototypes {
    let text = common::preprocess(compiler, "#include <mpi.h>\n").replace('\n', " ");
    without_attributes(&text).split(';').filter_map(prototype).collect()
}

/// The text without `__attribute__((...))`, which may stand before or after a prototype and hold any text.
fn without_attributes(text: &str) -> String {
    let mut parts = text.split("__attribute__");
    let mut kept = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let mut depth = 0;
        let end = part.find(|c: char| {
            depth += i32::from(c == '(') - i32::from(c == ')');
            depth == 0 && c == ')'
        });
        kept.push_str(end.map_or("", |end| &part[end + 1..]));
    }
    kept
}

fn prototype(declaration: &str) -> Option<(String, Vec<Parameter>)> {
    let declaration = declaration.trim();
    if declaration.contains("typedef") || declaration.contains('{') {
        return None;
    }
    let (head, rest) = declaration.split_once('(')?;
    let name = head.rsplit(' ').next()?.trim_start_matches('*');
    if !name.starts_with("MPI_") && !name.starts_with("MPIX_") {
        return None;
    }
    let inside = rest.rsplit_once(')')?.0;
    let parameters = inside.split(',').filter(|text| text.trim() != "void").filter_map(Parameter::parse).collect();
    Some((name.to_owned(), parameters))
}

#[test]
fn every_prototype_is_in_the_catalogue() {
    for mpi in common::installed() {
        let prototypes = prototypes(mpi.compiler);
        assert!(prototypes.len() > 380, "{}: only {} prototypes found", mpi.compiler, prototypes.len());
        let missing: Vec<_> = prototypes
            .keys()
            .filter(|name| !name.ends_with("_FN") && !name.ends_with("_fn") && find(name).is_none())
            .collect();
        assert!(missing.is_empty(), "{}: not in the catalogue: {missing:?}", mpi.compiler);
    }
}

#[test]
fn every_position_fits_the_prototype() {
    for mpi in common::installed() {
        let prototypes = prototypes(mpi.compiler);
        let checked: Vec<_> =
            catalogue().iter().filter_map(|function| Some((function, prototypes.get(function.name)?))).collect();
        let wrong: Vec<_> =
            checked.iter().flat_map(|(function, parameters)| complaints(function, parameters)).collect();
        assert!(wrong.is_empty(), "{}:\n{}", mpi.compiler, wrong.join("\n"));
        eprintln!("{}: {} functions checked", mpi.compiler, checked.len());
    }
}

/// The faults of one entry; empty if it fits its prototype.
fn complaints(function: &MpiFunction, parameters: &[Parameter]) -> Vec<String> {
    let mut found = misplaced(function, parameters);
    found.extend(missing(function, parameters));
    found.into_iter().map(|complaint| format!("{}: {complaint}", function.name)).collect()
}

/// Positions whose parameter has another name or type.
fn misplaced(function: &MpiFunction, parameters: &[Parameter]) -> Vec<String> {
    let a = function.accounting;
    let kind = a.kind;
    let stars = |array: bool| if array { "*" } else { "" };
    let integer = if a.large_count { "MPI_Count" } else { "int" };
    let count_integer = if kind == AccountingKind::None || kind == AccountingKind::Startall { "int" } else { integer };
    let count = format!("{count_integer}{}", stars(kind.has_count_array()));
    let recv_count = format!("{integer}{}", stars(kind.has_recv_count_array()));
    let datatype = format!("MPI_Datatype{}", stars(kind.has_datatype_array()));
    let created = ["MPI_Comm*", "MPI_Win*", "MPI_File*"];
    let checks: [(&str, u8, &[&str], &[&str]); 13] = [
        ("buffer", a.buffer, &["void*"], &["buf", "ibuf", "buffer", "sendbuf", "origin_addr"]),
        ("count", a.count, &[&count], COUNTS),
        ("datatype", a.datatype, &[&datatype], &["datatype", "sendtype", "sendtypes", "origin_datatype", "type"]),
        ("factor", a.factor, &["int"], &["partitions"]),
        ("peer_or_root", a.peer_or_root, &["int"], &["dest", "source", "root", "target_rank", "rank"]),
        ("comm", a.comm, &["MPI_Comm"], &["comm", "comm_old", "old_comm", "oldcomm", "local_comm", "intercomm"]),
        ("window", a.window, &["MPI_Win"], &["win"]),
        ("request", a.request, &["MPI_Request*"], &["request", "array_of_requests"]),
        ("recv_buffer", a.recv_buffer, &["void*"], &["recvbuf", "result_addr"]),
        ("recv_count", a.recv_count, &[&recv_count], &["recvcount", "recvcounts", "result_count"]),
        ("recv_datatype", a.recv_datatype, &[&datatype], &["recvtype", "recvtypes", "result_datatype"]),
        ("source", a.source, &["int"], &["source"]),
        (
            "created",
            a.created,
            &created,
            &["newcomm", "win", "fh", "intercomm", "newintercomm", "newintracomm", "new_comm"],
        ),
    ];
    let wrong = |(field, index, kinds, names): (&str, u8, &[&str], &[&str])| {
        if index == ABSENT {
            return None;
        }
        let parameter = parameters.get(usize::from(index));
        let created = field == "created"
            && parameter.is_some_and(|p| p.name.starts_with("comm_") || names.contains(&p.name.as_str()));
        let fits = parameter
            .is_some_and(|p| kinds.contains(&p.kind.as_str()) && (created || names.contains(&p.name.as_str())));
        (!fits).then(|| format!("{field} = {index} is {parameter:?}, not one of {kinds:?} {names:?}"))
    };
    checks.into_iter().filter_map(wrong).collect()
}

const COUNTS: &[&str] = &["count", "sendcount", "sendcounts", "recvcount", "recvcounts", "origin_count", "incount"];

/// Parameters that the entry should have named.
fn missing(function: &MpiFunction, parameters: &[Parameter]) -> Vec<String> {
    if function.class == Class::Local {
        return Vec::new();
    }
    let a = function.accounting;
    let absent = |index: u8, kind: &str| index == ABSENT && parameters.iter().any(|parameter| parameter.kind == kind);
    let named = |name: &str| parameters.iter().any(|parameter| parameter.name == name && parameter.kind == "int");
    let data = parameters.iter().any(|parameter| parameter.kind.starts_with("MPI_Datatype"));
    let carries = data && function.name != "MPI_File_set_view";
    let last = parameters.len().saturating_sub(1);
    let persistent = function.name.contains("_init") && a.request != ABSENT;
    let rules = [
        ("request", absent(a.request, "MPI_Request*")),
        ("comm", absent(a.comm, "MPI_Comm")),
        ("window", absent(a.window, "MPI_Win")),
        ("created communicator", absent(a.created, "MPI_Comm*") && function.invalidates.is_none()),
        ("kind", carries && a.kind == AccountingKind::None),
        ("destination", named("dest") && a.peer_or_root == ABSENT),
        ("root", named("root") && a.peer_or_root == ABSENT),
        ("source", named("source") && a.peer_or_root == ABSENT),
        ("target", named("target_rank") && a.peer_or_root == ABSENT),
        ("start", persistent != (a.counted == Counted::AtStart)),
        ("last argument", a.last_argument().is_some_and(|index| usize::from(index) > last)),
    ];
    rules.into_iter().filter(|(_, wrong)| *wrong).map(|(rule, _)| format!("{rule} is missing")).collect()
}

#[test]
fn a_wrong_position_is_noticed() {
    let send = find("MPI_Send").expect("in the catalogue");
    let text = "int MPI_Send(const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm)";
    let (_, parameters) = prototype(text).expect("a prototype");
    assert_eq!(complaints(send, &parameters), Vec::<String>::new());
    let mut shifted = *send;
    shifted.accounting.peer_or_root = 4;
    shifted.accounting.comm = ABSENT;
    shifted.accounting.large_count = true;
    assert_eq!(complaints(&shifted, &parameters).len(), 3);
}
