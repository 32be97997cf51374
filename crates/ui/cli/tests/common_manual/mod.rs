//! The commands that README.md and docs/ tell people to type: taken from the text as they stand there, and how each is run.
//!
//! A test takes the commands that are its own one by one, in the order in which they stand, and puts real names in the place of
//! those that the text can't know. [`COMMANDS`] names for every other one the test that runs it in other words, or the reason why
//! none does. Next: `manual.rs`, which runs them.

use std::path::{Path, PathBuf};

/// How a command is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Run {
    /// As it stands, by this test.
    By(&'static str),
    /// With other words of the same meaning, by this test.
    Like(&'static str),
    /// By none, for this reason.
    Not(&'static str),
}
use Run::{By, Like, Not};

/// The tests that take commands from the text.
pub const SITE: &str = "a_site_is_set_up_as_the_manual_says";
pub const ONE_MACHINE: &str = "commands_of_the_manual_on_one_machine";

const SUITE: Run = Not("it runs these tests, or takes minutes; CI runs it");
const SAME_LINE: Run = Not("the same line of docs/commands.md is run");
const LAUNCHED_FAR: Run = Like("a_launch_over_ssh_is_measured");
const HELD: Run = Like("standing_agents_hold_ranks_from_their_first_call_on");
const CALLED: Run = Like("calls_and_signals_trigger_windows");
const OTHERS: Run = Like("another_job_that_comes_and_goes_triggers_windows");
const FITTED: Run = Like("memory_and_time_of_a_program_are_fitted_kept_and_asked");
const LED: Run = Like("standing_agents_keep_together_and_measure");
const TOGETHER: Run = Like("two_jobs_that_share_processors_are_measured_and_their_ends_forecast");
const PROFILED: Run = Like("a_job_is_profiled_with_its_owners_yes_and_no_probe_stays");
const LINKED: Run = Like("links_are_fitted_and_collectives_forecast_from_windows");
const SCALED: Run = Like("a_function_that_one_rank_does_alone_is_named");
const COMM: Run = Like("transfers_take_the_best_way_and_share_links");
const PLACED: Run = Like("a_routine_is_placed_with_its_data_and_its_result");
const PLANNED: Run = Like("fasts_product_is_planned_and_the_choice_flips_with_one_link");
const TIMES: Run = Like("times_loads_and_paces_trigger_windows");

/// All commands of each file, in their order; of one that is longer than a line its beginning.
pub const COMMANDS: &[(&str, &[(&str, Run)])] = &[
    (
        "README.md",
        &[
            ("cargo xtask demo", SUITE),
            ("cargo xtask test", SUITE),
            ("trimtab attach 4711", SAME_LINE),
            ("trimtab attach --slurm 4711", Not("the same line of docs/cluster.md is run")),
            (
                "trimtab run --follow -- mpirun -n 2 ./app",
                Like("a_whole_run_has_every_call_that_a_profiler_sees_with_mpich"),
            ),
            ("trimtab watch --name 'app*'", SAME_LINE),
            ("trimtab report JOB --compare 2 3", SAME_LINE),
            ("trimtab probe 'entry MPI_Send { n++; sizes = hist($count) }' 4711 --for 10", By(ONE_MACHINE)),
        ],
    ),
    (
        "docs/commands.md",
        &[
            ("trimtab run -- mpirun -n 2 ./app", By(ONE_MACHINE)),
            ("trimtab attach 4711", By(ONE_MACHINE)),
            ("trimtab attach --slurm 4711[_3][.0]", Like("tasks_of_arrays_and_requeued_jobs_are_told_apart")),
            ("trimtab watch --name 'app*'", Like("ranks_of_one_launch_are_one_start_and_a_later_launch_is_another")),
            ("trimtab measure JOB --group all", By(ONE_MACHINE)),
            ("trimtab attach --when job-start 4711", OTHERS),
            ("trimtab trigger 4711 [NAME]", CALLED),
            ("trimtab list", By(ONE_MACHINE)),
            ("trimtab report [JOB[/WINDOW]]", By(ONE_MACHINE)),
            ("trimtab report JOB --compare 2 3", By(ONE_MACHINE)),
            ("trimtab report A B C --scaling", SCALED),
            ("trimtab functions 4711 ['MPI_*']", By(ONE_MACHINE)),
            ("trimtab probe 'SCRIPT' 4711 [--for S]", By(ONE_MACHINE)),
            ("trimtab points 'solve*' 4711|JOB|FILE", By(ONE_MACHINE)),
            ("trimtab loops 4711", By(ONE_MACHINE)),
            ("trimtab explain 'SCRIPT' 4711", By(ONE_MACHINE)),
            ("trimtab undo 4711", By(ONE_MACHINE)),
            ("trimtab pack ./app -o ./app.trim", By(ONE_MACHINE)),
            ("trimtab weather [--nice N]", Like("this_host_has_weather_and_a_forecast")),
            ("trimtab forecast job 4711", Like("the_end_of_a_job_is_forecast_and_judged")),
            ("trimtab forecast corun 4711 4802", TOGETHER),
            ("trimtab forecast queue --nodes 4 --time 2h", Like("a_wait_in_the_queue_is_forecast_from_the_sites_past")),
            ("trimtab model fit NAME --run 'CMD {n}' --over n=100..10000", FITTED),
            ("trimtab model list", FITTED),
            ("trimtab model show NAME", FITTED),
            ("trimtab forecast comp NAME --args n=4096", FITTED),
            ("trimtab forecast comm --data A=bytes:1GB@n1 --to n2", COMM),
            ("trimtab forecast total NAME --host n2 --args n=4096 --data A=dense:double:4096x4096@n1", PLACED),
            ("trimtab forecast place NAME --args n=4096 --data A=dense:double:4096x4096@n1", PLACED),
            ("trimtab forecast plan FILE", PLANNED),
            ("trimtab model pressure 4711 --yes", PROFILED),
            ("trimtab model pairs", TOGETHER),
            ("trimtab model links", LINKED),
            ("trimtab forecast collective alltoall --bytes 1M --ranks 16", LINKED),
            ("trimtab backtest", Like("the_end_of_a_job_is_forecast_and_judged")),
            ("trimtab backtest --series FILE.csv", Like("a_series_is_forecast_and_judged")),
            (
                "trimtab backtest --jobs FILE",
                Like("a_log_is_the_same_in_each_format_and_history_is_better_than_simple_rules"),
            ),
            ("trimtab completions bash", By(ONE_MACHINE)),
            ("trimtab probe 'entry MPI_Send {", By(ONE_MACHINE)),
            ("trimtab probe 'loop solve:1 {", By(ONE_MACHINE)),
            ("trimtab probe 'exit solve {", By(ONE_MACHINE)),
        ],
    ),
    (
        "docs/api.md",
        &[
            ("identity=~/.config/trimtab/identity.pem", By(SITE)),
            ("awk '/BEGIN CERTIFICATE/ { n++ } n == 2' $identity > authority.pem", By(SITE)),
            ("curl --cacert authority.pem --cert $identity --key $identity \\", By(SITE)),
            ("trimtab site arguments keep --controller HOST", LED),
            ("trimtab site arguments hash --controller HOST", LED),
            ("trimtab site arguments --controller HOST", LED),
            ("curl --cacert authority.pem --cert $identity --key $identity --json", By(SITE)),
            ("curl --cacert authority.pem --cert $identity --key $identity --json", LED),
            ("trimtab site accept scheduler:990 --controller HOST", LED),
            ("trimtab site accepted --controller HOST", LED),
            ("trimtab site withdraw scheduler:990 --controller HOST", LED),
        ],
    ),
    (
        "docs/cluster.md",
        &[
            ("trimtab attach --slurm 4711", By(SITE)),
            ("trimtab run -- srun -N4 ./app", By(SITE)),
            ("trimtab attach PID", By(SITE)),
            ("trimtab probe 'SCRIPT' --slurm 4711", By(SITE)),
            ("trimtab undo --slurm 4711", By(SITE)),
            ("mpirun --host n1,n2 ./app &", Like("mpirun_over_ssh")),
            ("trimtab attach $!", Like("mpirun_over_ssh")),
            ("trimtab run -- mpirun --host n1,n2 ./app", LAUNCHED_FAR),
            ("trimtab site init ~/trimtab-site", By(SITE)),
            ("trimtab site issue ~/trimtab-site node:n1 node:n2 administrator:0", By(SITE)),
            ("trimtab site issue ~/trimtab-site user:1001 --days 30", By(SITE)),
            ("install -D -m 600 ~/trimtab-site/controller.pem /etc/trimtab/controller.pem", By(SITE)),
            ("install -D -m 600 ~/trimtab-site/node-n1.pem /etc/trimtab/identity.pem", By(SITE)),
            ("install -D -m 600 ~/trimtab-site/node-n2.pem /etc/trimtab/identity.pem", By(SITE)),
            ("install -D -m 600 ~/trimtab-site/administrator-0.pem ~/.config/trimtab/identity.pem", By(SITE)),
            (
                "install -D -m 600 -o ann -g ann ~/trimtab-site/user-1001.pem ~ann/.config/trimtab/identity.pem",
                By(SITE),
            ),
            ("chown ann: ~ann/.config ~ann/.config/trimtab", By(SITE)),
            ("trimtab controller", By(SITE)),
            ("trimtab agent --controller HOST", By(SITE)),
            ("export TRIMTAB_CONTROLLER=HOST", By(SITE)),
            ("trimtab doctor", By(SITE)),
            ("trimtab tree", By(SITE)),
            ("trimtab attach --slurm 4711", By(SITE)),
            ("trimtab list --controller HOST", By(SITE)),
            ("trimtab report app-12/0 --controller HOST", By(SITE)),
            ("trimtab site issue ~/trimtab-site user:1001 --days 1", By(SITE)),
            (
                "install -D -m 600 -o ann -g ann ~/trimtab-site/user-1001.pem ~ann/.config/trimtab/identity.pem",
                By(SITE),
            ),
            ("trimtab site issue ~/trimtab-site node:n1", By(SITE)),
            ("install -D -m 600 ~/trimtab-site/node-n1.pem /etc/trimtab/identity.pem", By(SITE)),
            (
                "systemctl restart trimtab-agent",
                Not("nodes of the testbed have no service manager: the test restarts it"),
            ),
            ("sbatch -N2 job.sh", HELD),
            ("trimtab attach --slurm 4711 --follow --hold 10 --wait 600", HELD),
            ("trimtab site revoke ~/trimtab-site user:1001", By(SITE)),
            ("install -D -m 644 ~/trimtab-site/revoked.pem /etc/trimtab/revoked.pem", By(SITE)),
            ("trimtab pack ./app -o ./app.trim -- --iterations 20", By(ONE_MACHINE)),
            ("mpirun -n 64 ./app.trim ARGUMENTS", By(ONE_MACHINE)),
        ],
    ),
    (
        "docs/events.md",
        &[
            ("trimtab attach --when job-start 4711", OTHERS),
            ("trimtab attach --when job-start,job-end --windows 0 4711", OTHERS),
            ("trimtab attach --when 'load>8' --windows 5 4711", TIMES),
            ("trimtab attach --when every=10m --windows 0 --json windows.jsonl 4711", TIMES),
            ("trimtab trigger 4711 \"before the restart\"", CALLED),
            ("trimtab report particle-3 --compare 2 3", By(ONE_MACHINE)),
            ("trimtab attach --slurm 4711 --when api:checkpoint --windows 0 --controller HOST", By(SITE)),
            ("trimtab trigger 4711 checkpoint --controller HOST", By(SITE)),
        ],
    ),
    (
        "docs/scaling.md",
        &[
            ("trimtab attach 4711 --function 'solve*' --function 'write*'", SCALED),
            ("trimtab report app-1 app-4 app-16 --scaling", SCALED),
            ("trimtab report app-1 app-4/2 other.json --scaling=weak --json", SCALED),
        ],
    ),
    (
        "docs/explain.md",
        &[
            ("trimtab explain 'SCRIPT' PID|JOB|FILE [--file FILE] [--limit N] [--routines] [--json]", By(ONE_MACHINE)),
            ("trimtab explain 'entry solve { n++ }' 4711", By(ONE_MACHINE)),
        ],
    ),
    (
        "docs/weather.md",
        &[
            (
                "trimtab weather [--nice N] [--for S] [--pid PID] [--no-probe] [--json FILE]",
                Like("this_host_has_weather_and_a_forecast"),
            ),
            (
                "trimtab weather --to HOST:PORT --secret FILE [--bytes N]",
                Like("limited_links_are_measured_as_they_are"),
            ),
            (
                "trimtab weather --host HOST [--nice N] [--to HOST2] [--controller HOST] [--json FILE]",
                Like("standing_agents_keep_together_and_measure"),
            ),
            (
                "trimtab weather --answer [ADDRESS:PORT] [--secret FILE] [--for S]",
                Like("limited_links_are_measured_as_they_are"),
            ),
            ("trimtab weather --for 15", Like("this_host_has_weather_and_a_forecast")),
        ],
    ),
    (
        "docs/links.md",
        &[
            ("trimtab model links [WINDOW ...] [--json FILE]", LINKED),
            ("trimtab model links", LINKED),
            (
                "trimtab forecast collective NAME --ranks N [--bytes BYTES] [--hosts A,B] [--mpi NAME] [--by WINDOW ...] [--json FILE]",
                LINKED,
            ),
            ("trimtab forecast collective alltoall --bytes 1M --ranks 16", LINKED),
        ],
    ),
    (
        "docs/forecasts.md",
        &[
            (
                "trimtab forecast job PID|JOB [--within S] [--newest S] [--until-end] [--json FILE]",
                Like("the_end_of_a_job_is_forecast_and_judged"),
            ),
            ("trimtab forecast job --slurm JOB", Like("all_commands_on_jobs_of_several_nodes")),
            ("trimtab forecast job 4711", Like("the_end_of_a_job_is_forecast_and_judged")),
            (
                "trimtab forecast corun A B [C ...] [--alone JOB=WINDOW|FILE] [--offset S,...] [--within S] [--json FILE]",
                Like("tables_7a_and_7b_come_out_as_printed"),
            ),
            ("trimtab forecast corun A B [C ...] --on NODES", Like("before_they_meet_processors_predict_it")),
            ("trimtab forecast corun A --with B C ... [--on NODES]", Like("the_better_partner_comes_first")),
            ("trimtab forecast corun 4711 4802 --alone A=is-3/0", TOGETHER),
            ("trimtab model pressure [--json FILE]", PROFILED),
            ("trimtab model pressure JOB --yes [--each S] [--within S] [--json FILE]", PROFILED),
            ("trimtab model pressure 4711 --yes", PROFILED),
            ("trimtab model pairs [WINDOW ...] [--json FILE]", TOGETHER),
            (
                "trimtab forecast queue --nodes N --time TIME [--partition P] [--qos Q] [--user U] [--days N] [--json FILE]",
                Like("a_wait_in_the_queue_is_forecast_from_the_sites_past"),
            ),
            (
                "trimtab forecast queue --jobs FILE --processors N --time TIME [--leave-out-wrong]",
                Like("a_wait_that_nothing_tells_of_is_not_claimed_and_wrong_questions_are_refused"),
            ),
            ("trimtab forecast queue --nodes 4 --time 2h", Like("a_wait_in_the_queue_is_forecast_from_the_sites_past")),
            ("trimtab backtest [--json FILE]", Like("the_end_of_a_job_is_forecast_and_judged")),
            ("trimtab backtest --series FILE [--from HALF] [--json FILE]", Like("a_series_is_forecast_and_judged")),
            ("trimtab backtest --series requests.csv --from half", Like("a_series_is_forecast_and_judged")),
            (
                "trimtab backtest --jobs FILE [--from HALF] [--leave-out-wrong] [--json FILE]",
                Like("a_log_is_the_same_in_each_format_and_history_is_better_than_simple_rules"),
            ),
            (
                "trimtab backtest --jobs hpc2n.swf",
                Like("a_log_is_the_same_in_each_format_and_history_is_better_than_simple_rules"),
            ),
            (
                "trimtab model fit NAME --run 'CMD {n} {m}' --over n=SIZES m=SIZES",
                Like("several_parameters_are_fitted_together"),
            ),
            ("trimtab model list", FITTED),
            ("trimtab model show NAME", FITTED),
            (
                "trimtab forecast comp NAME --host HOST --args n=4096",
                Like("a_host_that_is_not_alike_is_scaled_and_one_that_is_unknown_refused"),
            ),
            ("trimtab forecast size NAME --args n=4096", FITTED),
            (
                "trimtab model fit sort --run 'sort -o /dev/null /tmp/lines.{n}' --setup 'sh -c \"shuf -i 1-{n} >/tmp/lines.{n}\"' --over n=100000..3200000:8",
                FITTED,
            ),
            ("trimtab forecast comm --data NAME=DATA@HOST ... --to HOST", COMM),
            (
                "trimtab forecast total NAME --host HOST --args n=SIZE --data NAME=DATA@HOST ... [--result NAME=DATA@HOST]",
                PLACED,
            ),
            ("trimtab forecast place NAME --args n=SIZE --data NAME=DATA@HOST ... [--on HOSTS]", PLACED),
            ("trimtab forecast plan FILE", PLANNED),
            ("trimtab forecast plan complex-product.json --weather links.json", PLANNED),
        ],
    ),
    (
        "docs/loops.md",
        &[
            (
                "trimtab loops PID|JOB [--samples N] [--max-seconds S] [--process] [--seccomp-ok] [--json]",
                By(ONE_MACHINE),
            ),
            ("trimtab loops 4711", By(ONE_MACHINE)),
        ],
    ),
    (
        "docs/points.md",
        &[
            (
                "trimtab points PATTERN PID|JOB|FILE [--kind KIND,...] [--refused] [--summary] [--limit N] [--json]",
                By(ONE_MACHINE),
            ),
            ("trimtab points solve ./heat --kind entry,exit,call,loop", By(ONE_MACHINE)),
        ],
    ),
    (
        "docs/slurm.md",
        &[
            ("trimtab attach --slurm 4711", By(SITE)),
            ("trimtab attach --slurm 4711_3.0", Like("tasks_of_arrays_and_requeued_jobs_are_told_apart")),
            ("trimtab attach --slurm 4711 --wait 60", By(SITE)),
            ("trimtab attach PID", By(SITE)),
            ("trimtab run -- srun -N4 ./app", Not("the same line of docs/cluster.md is run")),
            (
                "trimtab run --follow -- srun -N4 ./app",
                Like("a_step_of_an_allocation_is_measured_from_its_first_call_on"),
            ),
            ("trimtab probe 'SCRIPT' --slurm 4711", Not("the same line of docs/cluster.md is run")),
            ("trimtab undo --slurm 4711", Not("the same line of docs/cluster.md is run")),
            (
                "packaging/trimtab-limit 4711",
                Like("a_limit_comes_from_the_99_percent_quantile_and_never_from_the_mean"),
            ),
            ("srun --trimtab=window ./app", Like("a_step_is_measured_by_the_plug_in")),
            ("srun --trimtab='window:--iterations 20 --group all' ./app", Like("a_step_is_measured_by_the_plug_in")),
            ("srun --trimtab=off ./app", Like("a_step_is_measured_by_the_plug_in")),
            (
                "gcc -shared -fPIC -O2 -o trimtab_spank.so crates/ui/spank/trimtab_spank.c",
                Like("a_step_is_measured_by_the_plug_in"),
            ),
        ],
    ),
    (
        "docs/testing.md",
        &[
            ("cargo xtask test", SUITE),
            ("cargo xtask test --quick", SUITE),
            ("cargo xtask test in_place ret", SUITE),
            ("cargo test -p trimtab-x86", SUITE),
            ("cargo xtask fuzz --seconds 30", SUITE),
            ("cargo xtask fuzz --executions 10_000_000 --json benches/results/DATE-fuzz.json", SUITE),
            ("cargo xtask fuzz --target elf --target script --seed 7", SUITE),
            ("cargo xtask fuzz replay TARGET FILE", SUITE),
            ("TRIMTAB_SIM_SEED=7 cargo test -p trimtab-sim one_seed", SUITE),
            ("cargo run --release -p trimtab-sim --example sim -- failures --failures 10000 --seed 1", SUITE),
            ("cargo run --release -p trimtab-sim --example sim -- scale --leaves 65536", SUITE),
        ],
    ),
];

/// Indented lines that nobody types: a line of a configuration, lines that programs print.
const NOT_TYPED: [&str; 4] = ["optional ", "N passed", "SKIPPED: ", "{\"version\""];

/// Where the project's files are.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

/// The commands that a file tells people to type: lines that are indented by four blanks, and behind `$ ` where what they print
/// follows. A line that ends in a backslash or within quotes goes on with the next one.
pub fn commands_of(file: &str) -> Vec<String> {
    let text = std::fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
    let (mut found, mut state): (Vec<String>, State) = (Vec::new(), State::default());
    for line in text.lines() {
        state.is_fenced ^= line.starts_with("```");
        match line.strip_prefix("    ").filter(|_| !state.is_fenced) {
            Some(line) => state.take(line, &mut found),
            None => state.has_output &= line.is_empty(),
        }
    }
    found
}

/// How the lines before this one stand.
#[derive(Default)]
struct State {
    is_fenced: bool,
    /// A command with `$ ` came, so that other lines are printed by it.
    has_output: bool,
    goes_on: bool,
    quote: Option<char>,
}

impl State {
    fn take(&mut self, line: &str, found: &mut Vec<String>) {
        if self.goes_on || self.quote.is_some() {
            let more = self.without_comment(line);
            let last = found.last_mut().expect("it began");
            *last += "\n";
            *last += &more;
            return;
        }
        let typed = line.strip_prefix("$ ");
        self.has_output |= typed.is_some();
        let is_printed = typed.is_none() && (self.has_output || line.starts_with(' '));
        if is_printed || NOT_TYPED.iter().any(|beginning| line.starts_with(beginning)) {
            return;
        }
        let command = self.without_comment(typed.unwrap_or(line));
        found.extend(Some(command).filter(|command| !command.is_empty()));
    }

    fn without_comment(&mut self, line: &str) -> String {
        let mut end = line.len();
        let mut before = ' ';
        for (at, letter) in line.char_indices() {
            match self.quote {
                Some(quote) if quote == letter => self.quote = None,
                None if letter == '#' && before == ' ' => {
                    end = at;
                    break;
                }
                None if "'\"".contains(letter) => self.quote = Some(letter),
                _ => {}
            }
            before = letter;
        }
        let command = line[..end].trim_end();
        self.goes_on = command.ends_with('\\');
        command.to_owned()
    }
}

/// The commands of one test, of which each is taken once.
pub struct Walk {
    left: Vec<(&'static str, usize, String)>,
    /// Words that stand for a name of the text, in this order.
    names: Vec<(String, String)>,
}

impl Walk {
    pub fn of(test: &'static str) -> Walk {
        let mut left = Vec::new();
        for (file, rows) in COMMANDS {
            let all = commands_of(file).into_iter().zip(rows.iter()).enumerate();
            left.extend(all.filter(|(_, (_, row))| row.1 == By(test)).map(|(at, (command, _))| (*file, at, command)));
        }
        Walk { left, names: Vec::new() }
    }

    /// From now on this stands for a name of the text.
    pub fn name(&mut self, name: &str, real: &str) {
        self.names.retain(|(known, _)| known != name);
        self.names.push((name.to_owned(), real.to_owned()));
        // The longest first: a shorter one may be a part of it.
        self.names.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
    }

    /// The next command of a file, which begins so, with the real names.
    pub fn next(&mut self, file: &str, beginning: &str) -> String {
        let at = self.left.iter().position(|(of, ..)| *of == file).unwrap_or_else(|| panic!("{file}: none is left"));
        let (_, _, command) = self.left.remove(at);
        assert!(command.starts_with(beginning), "{file}: `{beginning}` was to come, and this does: {command}");
        self.names.iter().fold(command, |command, (name, real)| command.replace(name.as_str(), real))
    }

    pub fn end(self) {
        assert!(self.left.is_empty(), "no step takes these: {:?}", self.left);
    }
}
