//! For schedulers: a program in C that starts a measured job, measures it again and asks when it ends; and the example that lowers a
//! job's limit in Slurm.
//!
//! Next: `crates/ui/capi` for the library, docs/slurm.md for the example; `access/forecasts.rs` of the controller for HTTP.

mod common;

use common::{Home, LIMIT, alone};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Instant;

/// Steps of the measured program: it outlives its windows.
const STEPS: &str = "3000";
/// Rounds of each.
const ROUNDS: &str = "1500000";
/// The time that has passed of the job of the example, and its limit, seconds.
const PASSED_S: u64 = 3600;
/// See [`PASSED_S`].
const LIMIT_S: u64 = 4 * 3600;

/// The folder in which the library is, beside the tests.
fn built() -> PathBuf {
    let own = std::env::current_exe().expect("this program");
    let folder = own.parent().expect("a folder").to_owned();
    let all = [folder.clone(), folder.parent().expect("a folder").to_owned()];
    all.into_iter().find(|folder| folder.join("libtrimtab.so").is_file()).expect("the library was built")
}

fn source(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn compiled(home: &Home, compiler: &str, source_path: &Path, output: &str, options: &[String]) -> PathBuf {
    let output = home.path(output);
    let made = Command::new(compiler).arg("-o").arg(&output).arg(source_path).args(options).output();
    let made = made.expect("the compiler runs");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    output
}

fn measured(home: &Home) -> PathBuf {
    let built = built().display().to_string();
    let include = source("../capi/include").display().to_string();
    let options =
        ["-Wall", "-Wextra", "-Werror", "-I", &include, "-L", &built, "-ltrimtab", &format!("-Wl,-rpath,{built}")];
    compiled(home, "gcc", &source("../capi/example/measured.c"), "measured", &options.map(str::to_owned))
}

/// A program with the variables of a home's `trimtab`.
fn in_home(home: &Home, program: &Path) -> Command {
    let mut command = Command::new(program);
    for (name, value) in home.command(&[]).get_envs() {
        command.env(name, value.unwrap_or_default());
    }
    command.env("TRIMTAB_BINARY", env!("CARGO_BIN_EXE_trimtab")).env_remove("TRIMTAB_CONTROLLER").stdin(Stdio::null());
    command
}

fn text(output: &Output) -> (String, String) {
    let of = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (of(&output.stdout), of(&output.stderr))
}

#[test]
fn a_program_in_c_measures_twice_and_asks_for_the_end() {
    let _alone = alone();
    let home = Home::new();
    let flags = ["-g", "-O1", "-fno-inline-functions-called-once", "-Wl,--build-id"].map(str::to_owned);
    let turns = compiled(&home, "mpicc.mpich", &source("tests/corun_live/turns.c"), "turns", &flags);
    let mut command = in_home(&home, &measured(&home));
    // Its output would stand among the reports.
    let words = format!("exec mpiexec.mpich -n 2 {} {STEPS} {ROUNDS} >/dev/null", turns.display());
    command.args(["sh", "-c", &words]);
    let begun = Instant::now();
    let output = command.output().expect("it runs");
    let (said, why) = text(&output);
    assert!(output.status.success() && begun.elapsed() < LIMIT, "{said}\n{why}");
    let answer = |name: &str| -> Value {
        let at = said.find(&format!("{name}: {{")).unwrap_or_else(|| panic!("{name}: {said}\n{why}"));
        let answers = serde_json::Deserializer::from_str(&said[at + name.len() + 2..]).into_iter().next();
        answers.expect("an answer").expect("JSON")
    };
    let (first, second, end) = (answer("first"), answer("second"), answer("end"));
    for (report, iterations) in [(&first, 10), (&second, 5)] {
        assert_eq!(report["window"]["iterations"], iterations, "{report}");
        assert_eq!((&report["window"]["valid"], &report["job"]["ranks"]), (&true.into(), &2.into()), "{report}");
    }
    assert_eq!(first["job"]["id"], second["job"]["id"]);
    assert_eq!(second["window"]["groups"], serde_json::json!(["comm", "io"]), "another subset");
    assert_eq!(end["job"], first["job"]["id"]);
    assert!(end["end"]["late_s"].as_f64().is_some_and(|late_s| late_s > 0.0) || end["no_claim"].is_string(), "{end}");
    // A program that is not there is one error.
    let output = in_home(&home, &measured(&home)).arg("/no/such/program").output().expect("it runs");
    let (_, why) = text(&output);
    assert!(!output.status.success() && why.contains("can't start /no/such/program"), "{why}");
}

/// A folder with programs that stand for Slurm's and for trimtab.
fn stand_ins(home: &Home, answer: &str) -> PathBuf {
    let folder = home.path("bin");
    std::fs::create_dir_all(&folder).expect("a folder");
    let log = folder.join("log").display().to_string();
    let scontrol = format!(
        "#!/bin/sh\nif [ \"$1\" = update ]; then echo \"$@\" >>{log}; exit; fi\n\
         now=$(date +%s)\nat() {{ date -d @$1 +%Y-%m-%dT%H:%M:%S; }}\n\
         echo \"   StartTime=$(at $((now - {PASSED_S}))) EndTime=$(at $((now - {PASSED_S} + {LIMIT_S}))) Deadline=N/A\"\n"
    );
    for (name, script) in [("scontrol", scontrol), ("trimtab", format!("#!/bin/sh\ncat <<'E'\n{answer}\nE\n"))] {
        let path = folder.join(name);
        std::fs::write(&path, script).expect("it is written");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("it may run");
    }
    folder
}

/// Runs the example; its code and the update that it made.
fn limited(answer: &str) -> (Option<i32>, String) {
    let home = Home::new();
    let folder = stand_ins(&home, answer);
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap_or_default());
    let mut command = Command::new(source("../../../packaging/trimtab-limit"));
    let output = command.args(["4711", "5"]).env("PATH", path).output().expect("it runs");
    (output.status.code(), std::fs::read_to_string(folder.join("log")).unwrap_or_default())
}

#[test]
fn a_limit_comes_from_the_99_percent_quantile_and_never_from_the_mean() {
    let answer = |remaining_s: u64, late_s: u64| {
        let end = serde_json::json!({ "remaining_s": remaining_s, "upper_s": late_s - 1, "late_s": late_s });
        serde_json::to_string_pretty(&serde_json::json!({ "end": end, "no_claim": null })).expect("JSON")
    };
    let (code, update) = limited(&answer(600, 1800));
    // An hour has passed, half an hour comes, 5 minutes more; and a minute that is not whole.
    let minutes: u64 = update.trim().rsplit('=').next().and_then(|text| text.parse().ok()).expect("minutes");
    assert!(
        code == Some(0) && update.starts_with("update JobId=4711 TimeLimit=") && (96..=97).contains(&minutes),
        "{update}"
    );
    assert_eq!(
        limited(&answer(600, 4 * 3600)),
        (Some(1), String::new()),
        "it needs its limit, though the mean is below it"
    );
    let none = "{\n  \"end\": null,\n  \"no_claim\": \"why\"\n}";
    assert_eq!(limited(none), (Some(1), String::new()), "without an end the limit stays");
}
