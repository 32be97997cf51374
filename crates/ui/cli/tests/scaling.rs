//! `report A B C --scaling`: a function that one rank does alone is named among 1 to 16 ranks.
//!
//! Next: `trimtab_types::scaling` for the numbers; `trimtab-window`'s tests for the laws.

mod common;

use common::{Home, LIMIT, alone};
use std::path::{Path, PathBuf};
use std::process::Command;
use trimtab_specimens::{Launch, Mpi, TextSnapshot};
use trimtab_types::report::{FunctionGroup, Report};
use trimtab_types::scaling::{Growth, Scaling};

const RANKS: [u32; 3] = [16, 1, 4];

fn compiled(home: &Home) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scaling/serial.c");
    let output = home.path("serial");
    let compiled = Command::new("mpicc.openmpi").args(["-O2", "-g", "-o"]).args([&output, &source]).output();
    let compiled = compiled.expect("the compiler runs");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    output
}

/// A window of ten iterations on so many ranks.
fn window(home: &Home, program: &Path, ranks: u32) -> Report {
    let mut job = Launch::mpi(Mpi::OpenMpi, ranks, program).start().expect("it starts");
    let pids = job.rank_pids(LIMIT).expect("its ranks");
    job.wait_for_output("at work", LIMIT).expect("it works");
    let texts: Vec<TextSnapshot> = pids.iter().map(|pid| TextSnapshot::of(*pid).expect("its text")).collect();
    let (code, report) = home
        .attach(job.pid(), "--loop steps --iterations 10 --function advance --function gather_statistics --group comm")
        .expect("a report");
    assert!(code == 0 && report.window.valid, "{:?}", report.warnings);
    for text in &texts {
        assert_eq!(text.difference_now().expect("it runs"), None, "restored");
    }
    report
}

#[test]
fn a_function_that_one_rank_does_alone_is_named() {
    let _alone = alone();
    let home = Home::new();
    let program = compiled(&home);
    let reports = RANKS.map(|ranks| window(&home, &program, ranks));
    let [many, one, few] = &reports;
    let file = home.path("few.json");
    std::fs::write(&file, serde_json::to_string(few).expect("JSON")).expect("a file");
    let (many, one, few) = (many.job.id.as_str(), format!("{}/0", one.job.id), file.display().to_string());

    let said = home.trimtab(&["report", many, &one, &few, "--scaling", "--json"]);
    assert_eq!(said.code, 0, "{said:?}");
    let scaling: Scaling = serde_json::from_str(&said.stdout).expect("JSON");
    assert_eq!(scaling.points.iter().map(|point| point.ranks).collect::<Vec<_>>(), [1, 4, 16], "{scaling:?}");
    let last = &scaling.points[2];
    assert!(last.speed_up > 1.0 && last.efficiency < 0.95 && last.load_balance.is_some(), "{last:?}");
    let named = scaling.functions.iter().find(|function| function.group != FunctionGroup::Comm).expect("one is named");
    assert_eq!((named.name.as_str(), named.only_rank), ("gather_statistics", Some(0)), "{scaling:?}");
    assert!(matches!(named.growth, Growth::Stays | Growth::Grows), "{named:?}");

    let page = home.trimtab(&["report", many, &one, &few, "--scaling"]);
    assert_eq!(page.code, 0, "{page:?}");
    assert!(page.stdout.replace('\n', " ").contains("Look at gather_statistics first"), "{}", page.stdout);
    println!("{}", page.stdout);

    let alone = home.trimtab(&["report", many, "--scaling"]);
    assert!(alone.code == 2 && alone.stderr.contains("at least two numbers of ranks"), "{alone:?}");
    let unknown = home.trimtab(&["report", many, "no-such-job", "--scaling"]);
    assert!(unknown.code == 2 && unknown.stderr.contains("no-such-job"), "{unknown:?}");
}
