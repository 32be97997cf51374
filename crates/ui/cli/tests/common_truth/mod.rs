//! Shared by tests of whole runs: a report beside what the wrapper in each rank saw of the same run.
//!
//! Next: `first_call.rs` for jobs on this machine, `site_whole.rs` for jobs of several nodes.

use std::collections::BTreeMap;
use trimtab_specimens::GroundTruth;
use trimtab_types::report::{Link, Report};

/// Calls that the wrapper does not look at.
const LEFT_OUT: [&str; 5] = ["MPI_Comm_", "MPI_Cart_", "MPI_Intercomm_", "MPI_Request_free", "MPI_Type_"];

/// Calls and bytes of each function, from the end of `MPI_Init` to before `MPI_Finalize`.
pub fn check_functions(report: &Report, truths: &[GroundTruth], name: &str) {
    let mut expected: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for function in truths.iter().flat_map(|truth| &truth.functions).filter(|function| function.calls > 0) {
        let sum = expected.entry(&function.name).or_default();
        (sum.0, sum.1) = (sum.0 + function.calls, sum.1 + function.bytes);
    }
    assert!(!expected.is_empty(), "{name}");
    for (function, (calls, bytes)) in &expected {
        let row = report.functions.iter().find(|row| row.name == *function);
        let row = row.unwrap_or_else(|| panic!("{name}: {function} is missing"));
        assert_eq!((row.calls_counted(), row.bytes.unwrap_or(0)), (*calls, *bytes), "{name}: {function}: {row:?}");
    }
    let more = report.functions.iter().map(|row| row.name.as_str()).filter(|function| !expected.contains_key(function));
    let more: Vec<&str> = more.filter(|function| !LEFT_OUT.iter().any(|part| function.starts_with(part))).collect();
    assert!(more.is_empty(), "{name}: {more:?}");
    println!("{name}: {} functions equal, {} calls", expected.len(), expected.values().map(|sum| sum.0).sum::<u64>());
}

/// Messages and bytes from each rank to each other one.
pub fn check_links(report: &Report, truths: &[GroundTruth], name: &str) {
    let of_rank = |truth: &GroundTruth| -> Vec<Link> {
        let links = truth.links.iter().filter(|link| link.messages > 0);
        let link = |link: &trimtab_specimens::LinkTruth| Link {
            from: truth.rank,
            to: link.to,
            messages: link.messages,
            bytes: link.bytes,
            collective_messages: link.collective_messages,
            collective_bytes: link.collective_bytes,
        };
        links.map(link).collect()
    };
    let expected: Vec<Link> = truths.iter().flat_map(of_rank).collect();
    assert_eq!(report.links, expected, "{name}");
}
