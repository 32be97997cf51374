//! Slurm 22.05's own words, recorded, and what is made of them.

use super::*;

const REQUEUED: &str = include_str!("../../tests/slurm/requeued.txt");
const ARRAY: &str = include_str!("../../tests/slurm/array.txt");
const ARRAY_TASK: &str = include_str!("../../tests/slurm/array_task.txt");
const HET: &str = include_str!("../../tests/slurm/het.txt");
const PENDING: &str = include_str!("../../tests/slurm/pending.txt");
const ENDED: &str = include_str!("../../tests/slurm/ended.txt");
const SUSPENDED: &str = include_str!("../../tests/slurm/suspended.txt");
const STEPS: &str = include_str!("../../tests/slurm/steps.txt");
const ARRAY_STEPS: &str = include_str!("../../tests/slurm/array_steps.txt");
const UNKNOWN: &str = include_str!("../../tests/slurm/unknown.txt");
const UNKNOWN_TASK: &str = include_str!("../../tests/slurm/unknown_task.txt");
const NO_STEP: &str = include_str!("../../tests/slurm/no_step.txt");

fn id(text: &str) -> SlurmId {
    text.parse().expect("an id")
}

/// A cluster with a job that was requeued (1), an array (8), a heterogeneous job (10), and jobs 13 and 14.
fn cluster() -> Recording {
    Recording::default()
        .answer("show job 1", REQUEUED)
        .answer("show job 8", ARRAY)
        .answer("show job 8_1", ARRAY_TASK)
        .answer("show job 9", ARRAY_TASK)
        .answer("show job 13", PENDING)
        .answer("show job 15", ENDED)
        .answer("show job 14", SUSPENDED)
        .answer("show step 1", STEPS)
        .answer("show step 9", ARRAY_STEPS)
        .answer("show hostnames n1", "n1\n")
        .failure("show job 99", UNKNOWN.trim())
        .failure("show job 8_9", UNKNOWN_TASK.trim())
        .failure("show job 7", "slurm_load_jobs error: Unable to contact slurm controller (connect failure)")
}

fn refused(scontrol: &Recording, text: &str) -> String {
    find(scontrol, id(text), 0).expect_err(text).to_string()
}

#[test]
fn a_job_is_understood_whatever_its_name_pretends() {
    let jobs = parse_jobs(REQUEUED).expect("a job");
    assert_eq!(jobs.len(), 1);
    let job = &jobs[0];
    assert_eq!((job.job, job.user.as_str(), job.uid, job.restarts), (1, "root", 0, 1));
    assert_eq!((job.nodes.as_str(), job.node_count, job.tasks), ("n1", 1, Some(2)));
    assert_eq!(job.state, JobState::Running);
}

#[test]
fn a_fact_that_is_said_twice_is_believed_from_nobody() {
    let forged = REQUEUED.replace("JobName=a b", "JobName=a\n   JobState=COMPLETED\n");
    assert!(parse_jobs(&forged).is_err());
    assert!(parse_jobs(&REQUEUED.replace("UserId=root(0)", "UserId=root")).is_err());
}

#[test]
fn a_requeued_job_is_found_with_its_run() {
    let found = find(&cluster(), id("1"), 0).expect("it runs");
    assert_eq!(found.run, SlurmRun { jobs: BTreeSet::from([1]), step: None, restarts: 1, listed: None });
    assert_eq!(found.nodes, ["n1"]);
    let steps: Vec<String> = parse_steps(STEPS)
        .expect("its steps")
        .iter()
        .map(|step| format!("{} {} {:?}", step.step, step.name, step.tasks))
        .collect();
    assert_eq!(steps, ["batch batch Some(1)", "0 sleep Some(2)"]);
    let step = find(&cluster(), id("1.0"), 0).expect("it runs");
    assert_eq!((step.run.step, step.nodes), (Some(Step::Number(0)), vec!["n1".to_owned()]));
}

#[test]
fn steps_are_asked_for_where_one_is_wanted() {
    assert_eq!(questions(id("1")), ["show job 1"]);
    assert_eq!(questions(id("1.0")), ["show job 1", "show step 1"]);
    let without = Recording::default().answer("show job 1", REQUEUED).answer("show hostnames n1", "n1\n");
    assert_eq!(find(&without, id("1"), 0).expect("it runs").nodes, ["n1"]);
    assert!(refused(&without, "1.0").contains("has no running step 0"), "{}", refused(&without, "1.0"));
}

#[test]
fn a_task_of_an_array_is_found_by_both_of_its_ids() {
    for text in ["8_1", "9"] {
        let found = find(&cluster(), id(text), 0).expect(text);
        assert_eq!((found.id, found.run.jobs), (id("8_1"), BTreeSet::from([9])), "{text}");
    }
    assert_eq!(find(&cluster(), id("8_1.0"), 0).expect("it runs").id, id("8_1.0"));
}

#[test]
fn a_heterogeneous_job_is_all_of_its_components() {
    let jobs = parse_jobs(HET).expect("two components");
    assert_eq!(jobs.iter().map(|job| (job.job, job.id)).collect::<Vec<_>>(), [(10, id("10+0")), (11, id("10+1"))]);
    // Recorded while it waited: one node can't run two components.
    let running = HET.replace("JobState=PENDING", "JobState=RUNNING").replace("   NodeList=", "   NodeList=n1");
    let scontrol = cluster().answer("show job 10", &running);
    let found = find(&scontrol, id("10"), 0).expect("it runs");
    assert_eq!((found.id, found.run.jobs), (id("10"), BTreeSet::from([10, 11])));
}

#[test]
fn what_does_not_run_here_is_said_with_a_next_step() {
    let cluster = cluster();
    for (text, expected) in [
        ("99", "Slurm knows no job 99"),
        ("8_9", "Slurm knows no job 8_9"),
        ("8", "has 2 parts that run; give one of: 8_2, 8_1"),
        ("13", "is not running yet (Priority)"),
        ("15", "has ended (COMPLETED)"),
        ("14", "scontrol resume 14"),
        ("1.7", "has no running step 7; `scontrol show step 1`"),
        ("7", "Unable to contact slurm controller"),
    ] {
        let said = refused(&cluster, text);
        assert!(said.contains(expected), "{text}: {said}");
    }
}

#[test]
fn somebody_elses_job_is_refused_and_root_may_have_all() {
    let theirs = REQUEUED.replace("UserId=root(0)", "UserId=ada(1001)");
    let cluster = cluster().answer("show job 1", &theirs);
    let said = find(&cluster, id("1"), 1002).expect_err("not ours").to_string();
    assert!(said.contains("belongs to ada (1001) and you are user 1002; run trimtab as ada or as root"), "{said}");
    assert!(find(&cluster, id("1"), 1001).is_ok() && find(&cluster, id("1"), 0).is_ok());
}

#[test]
fn a_job_of_other_nodes_is_named_with_them() {
    let found = find(&cluster(), id("1"), 0).expect("it runs");
    let here = |scontrol: &Recording, host: &str| check_here(scontrol, &found, host).map_err(|error| error.to_string());
    assert_eq!(here(&cluster(), "n1"), Ok(()));
    assert_eq!(here(&cluster(), "n1.cluster.example"), Ok(()));
    assert_eq!(here(&cluster().answer("show aliases machine", "n1\n"), "machine"), Ok(()));
    let elsewhere = here(&cluster(), "login").expect_err("not here");
    assert!(elsewhere.contains("runs on n1, not on this machine (login)"), "{elsewhere}");
}

#[test]
fn processes_here_are_those_that_slurm_lists() {
    let text = "PID      JOBID    STEPID   LOCALID GLOBALID\n31162    1        0        0       0       \n\
                31163    1        0        1       1       \n31132    1        batch    -       -       \n-1       1  x\n";
    let mut found = find(&cluster(), id("1"), 0).expect("it runs");
    locate(&cluster().answer("listpids 1", text), &mut found, "n1").expect("here");
    assert_eq!(found.run.listed, Some(BTreeSet::from([Pid(31132), Pid(31162), Pid(31163)])));
    locate(&cluster(), &mut found, "n1").expect("here");
    assert_eq!(found.run.listed, None, "nobody says");
}

#[test]
fn damaged_text_is_survived() {
    for text in [REQUEUED, ARRAY, HET, STEPS, ARRAY_STEPS] {
        for cut in (0..text.len()).step_by(7) {
            let _ = (parse_jobs(&text[..cut]), parse_steps(&text[..cut]));
            let _ = (parse_jobs(&text[cut..]), parse_steps(&text[cut..]));
        }
    }
}

#[test]
fn a_step_is_found_by_its_srun() {
    let scontrol = Recording::default().answer("show step", &format!("{STEPS}\n\n{ARRAY_STEPS}"));
    let step = |host: &str, pid| step_of_srun(&scontrol, host, Pid(pid)).expect("an answer").map(|id| id.to_string());
    assert_eq!(step("n1", 908).as_deref(), Some("1.0"));
    assert_eq!(step("n1.cluster", 904).as_deref(), Some("8_1.0"));
    for (case, host, pid) in [("another_host", "n2", 908), ("another_process", "n1", 909), ("a_batch_step", "n1", 0)] {
        assert_eq!(step(host, pid), None, "{case}");
    }
    let idle = Recording::default().failure("show step", NO_STEP.trim());
    assert_eq!(step_of_srun(&idle, "n1", Pid(908)).expect("an answer"), None);
}

#[test]
fn slurm_says_whose_a_job_is_that_has_no_process_here_yet() {
    let run = |job: u32, restarts: u32| SlurmRun { jobs: BTreeSet::from([job]), step: None, restarts, listed: None };
    let owner = |job, restarts, host: &str| owner_here(&cluster(), &run(job, restarts), host);
    assert_eq!(owner(1, 1, "n1.site").expect("it runs here"), 0);
    assert_eq!(owner(9, 0, "n1").expect("a task of an array"), 0);
    for (job, restarts, host, said) in [
        (1, 1, "n2", "runs on n1, not on this machine"),
        (1, 0, "n1", "has ended"),
        (13, 0, "n1", "is not running yet"),
        (15, 0, "n1", "knows no job 15"),
        (14, 0, "n1", "is suspended"),
        (99, 0, "n1", "knows no job 99"),
        (7, 0, "n1", "Unable to contact"),
    ] {
        let error = owner(job, restarts, host).expect_err(said).to_string();
        assert!(error.contains(said), "{job} {host}: {error}");
    }
    let ended = Recording::default().answer("show job 13", ENDED);
    let error = owner_here(&ended, &run(13, 0), "n1").expect_err("it has ended").to_string();
    assert!(error.contains("has ended"), "{error}");
}
