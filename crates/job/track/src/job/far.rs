//! How did a launcher reach other machines, and which processes there are of this launch?
//!
//! `mpiexec` and `mpirun` reach other machines by `ssh HOST HELPER ...`, or whatever is set in its place; that command stays
//! as long as the job. Its words name the machine, say how to get there, and hand the helper an address of the launcher's
//! that no other launch has: by that the launch is known again over there. Intel MPI's helper over there forgets its words;
//! but all ranks of a launch have the same identifier in their environment.
//!
//! Next: whoever goes to the other machines, or has to say which ranks are not here.

use super::member::variable;
use super::tree::Tree;
use super::{Job, Search, StaticMpi};
use crate::error::Error;
use crate::launcher::is_far_helper;
use crate::procfs::Processes;
use std::collections::BTreeMap;
use trimtab_types::Pid;

/// Options of helpers behind which the launcher's own address stands: of Hydra, Open MPI's two runtimes.
const MARKS: [&str; 3] = ["--control-port", "orte_hnp_uri", "prte_hnp_uri"];

/// Ranks of Intel MPI have this in their environment, the same all over a launch. It begins with the launcher's
/// process id, lowest byte first.
const INTEL_LAUNCH: &str = "I_MPI_HYDRA_UUID";
/// Its helper on other machines.
const INTEL_HELPER: &str = "hydra_bstrap_proxy";

/// A launch that went to other machines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// The launcher's process.
    pub launcher: Pid,
    /// The launcher's short name.
    pub command: String,
    /// When the launcher started, in ticks since boot.
    pub start_time_ticks: u64,
    /// The launcher's user.
    pub uid: u32,
    /// How each of the other machines was reached.
    pub far: Vec<Far>,
    /// All helpers of this launch and no others have this among their words, or all its ranks in their environment
    /// (`I_MPI_HYDRA_UUID=...`, perhaps only its beginning); `None`: of these it is not known.
    pub mark: Option<String>,
}

/// One machine, as a launcher reached it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Far {
    /// Its name, as the launcher was told.
    pub host: String,
    /// The command that got there, up to the host: `ssh -x user@host`.
    pub words: Vec<String>,
    /// The user who runs that command.
    pub uid: u32,
}

/// How the launch of `pid`, or the only one below it, reached other machines; `None` if it did not, or there is none here.
///
/// # Errors
/// No such process, or `/proc` can't be read.
pub fn far_launch(processes: &dyn Processes, pid: Pid) -> Result<Option<Launch>, Error> {
    let pid = processes.status(pid)?.process;
    let tree = Tree::scan(processes)?;
    let of_pid = tree.launcher_at_or_above(pid).or_else(|| tree.launcher_above(pid));
    let Some(launcher) = of_pid.or_else(|| tree.only_launcher_below(pid)) else { return Ok(None) };
    let (mut far, mut mark, mut is_intel) = (Vec::new(), None, false);
    for child in tree.children(launcher) {
        let Ok(words) = processes.arguments(child) else { continue };
        let (Some(at), Ok(status)) = (host_place(&words), processes.status(child)) else { continue };
        let host = words[at].rsplit('@').next().unwrap_or_default().to_owned();
        far.push(Far { host, words: words[..=at].to_vec(), uid: status.uids[1] });
        mark = mark.or_else(|| mark_in(&words));
        is_intel |= words.iter().any(|word| word.contains(INTEL_HELPER));
    }
    if is_intel {
        mark = mark.or_else(|| Some(intel_mark(processes, &tree, launcher)));
    }
    let (command, start_time_ticks) = (tree.command(launcher).to_owned(), tree.start_time_ticks(launcher));
    let uid = processes.status(launcher)?.uids[1];
    Ok((!far.is_empty()).then_some(Launch { launcher, command, start_time_ticks, uid, far, mark }))
}

/// The ranks on this machine of the launch with this mark, which is for all to see: so only what user `uid` runs counts.
/// `is_static_mpi` as in [`find_job_in`](crate::find_job_in).
///
/// # Errors
/// See [`Error`]; [`Error::NotLaunchedHere`] if nothing here is of that launch.
pub fn find_launched_job_in(
    processes: &dyn Processes,
    (mark, uid): (&str, u32),
    is_static_mpi: StaticMpi,
) -> Result<Job, Error> {
    let search = Search::begin(processes, is_static_mpi)?;
    let is_theirs = |pid: Pid| processes.status(pid).is_ok_and(|status| status.uids[1] == uid);
    let is_marked = |pid: Pid| processes.arguments(pid).is_ok_and(|words| mark_in(&words).as_deref() == Some(mark));
    let top = match mark.strip_prefix(INTEL_LAUNCH).and_then(|rest| rest.strip_prefix('=')) {
        Some(beginning) => intel_top(processes, &search.tree, &is_theirs, beginning)?,
        None => {
            let mut launchers = search.tree.pids().filter(|pid| search.tree.is_launcher(*pid));
            // A helper that was started here, or the launcher itself, which has started helpers elsewhere.
            let is_ours = |pid: &Pid| is_theirs(*pid) && (is_marked(*pid) || search.tree.children(*pid).any(is_marked));
            launchers.find(is_ours).ok_or(Error::NotLaunchedHere)?
        }
    };
    let world = search.world_below(top)?;
    search.job(world)
}

fn intel_launch(processes: &dyn Processes, pid: Pid) -> Option<String> {
    variable(&processes.environment(pid).ok()?, INTEL_LAUNCH)
}

/// The mark of a launch of Intel MPI: as a rank beside its launcher says, or else how it must begin.
fn intel_mark(processes: &dyn Processes, tree: &Tree, launcher: Pid) -> String {
    let said = tree.descendants(launcher).find_map(|pid| intel_launch(processes, pid));
    let launch = said.unwrap_or_else(|| format!("{:08x}-", launcher.0.swap_bytes()));
    format!("{INTEL_LAUNCH}={launch}")
}

/// The launcher here of the only launch that `beginning` fits.
fn intel_top(
    processes: &dyn Processes,
    tree: &Tree,
    is_theirs: &dyn Fn(Pid) -> bool,
    beginning: &str,
) -> Result<Pid, Error> {
    let mut launches = BTreeMap::new();
    for pid in tree.pids().filter(|pid| is_theirs(*pid)) {
        let launch = intel_launch(processes, pid).filter(|launch| launch.starts_with(beginning));
        if let (Some(launch), Some(top)) = (launch, tree.launcher_above(pid)) {
            launches.entry(launch).or_insert(top);
        }
    }
    if launches.len() > 1 {
        return Err(Error::SeveralLaunches { count: launches.len() });
    }
    launches.into_values().next().ok_or(Error::NotLaunchedHere)
}

/// Where in a command the host stands: before the word that names a helper, which is none of its own first two.
/// `ssh -x n1 "orted" ...`
fn host_place(words: &[String]) -> Option<usize> {
    let names_helper = |text: &String| {
        let mut parts = text.split([' ', ';']).map(|part| part.trim_matches('"'));
        parts.any(|part| is_far_helper(part.rsplit('/').next().unwrap_or_default()))
    };
    let at = words.iter().position(names_helper).filter(|at| *at >= 2)? - 1;
    let host = words[at].rsplit('@').next()?;
    (!host.is_empty() && !words[at].starts_with('-')).then_some(at)
}

/// The launcher's address among a helper's words, which ssh may carry as one.
pub(crate) fn mark_in(words: &[String]) -> Option<String> {
    let mut parts = words.iter().flat_map(|word| word.split(' ')).map(|part| part.trim_matches(['"', '\'', '\\']));
    parts.find(|part| MARKS.contains(part))?;
    parts.next().filter(|mark| !mark.is_empty()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Recorded;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const URI: &str = "2610495488.0;tcp://10.77.0.1:55113";

    /// A launcher (process 10) and what it started.
    fn machine(commands: &[&str]) -> Recorded {
        let mut machine = Recorded { own: Pid(2), ..Recorded::default() };
        machine.add(Pid(1), Pid(0), "init");
        machine.add(Pid(2), Pid(1), "trimtab");
        machine.add(Pid(10), Pid(1), "mpiexec.hydra");
        for (number, words) in commands.iter().enumerate() {
            let pid = Pid(20 + number as i32);
            machine.add(pid, Pid(10), "x").arguments = words.split('|').map(str::to_owned).collect();
        }
        machine
    }

    #[test]
    fn hosts_are_read_from_the_launchers_commands() {
        let commands = [
            ("/usr/bin/ssh|-x|n1|\"/usr/bin/hydra_pmi_proxy\"|--control-port|head:4711|--proxy-id|0", Some("n1")),
            (
                "/usr/bin/ssh|-x|u@n2|     PATH=/usr/bin:$PATH ; export PATH ;   /usr/bin/orted -mca ess \"env\"",
                Some("n2"),
            ),
            ("/bin/sh|/home/u/rsh|n3|/usr/bin/prted --prtemca x", Some("n3")),
            ("/usr/bin/hydra_pmi_proxy|--control-port|head:4711", None),
            ("nsenter|--target|7|--|/usr/bin/orted", None),
            ("/usr/bin/ssh|-oProxyCommand=x@n4|orted", None),
            ("/home/u/app|orted", None),
            ("", None),
        ];
        let machine = machine(&commands.map(|(words, _)| words));
        let expected: BTreeSet<&str> = commands.iter().filter_map(|(_, host)| *host).collect();
        for (asked, name) in [(Pid(10), "itself"), (Pid(23), "by what the launcher started")] {
            let launch = far_launch(&machine, asked).expect("it is there").expect("went elsewhere");
            assert_eq!(launch.far.iter().map(|far| &*far.host).collect::<BTreeSet<_>>(), expected, "{name}");
            assert_eq!((launch.launcher, launch.start_time_ticks), (Pid(10), 110), "{name}");
            assert_eq!(launch.mark.as_deref(), Some("head:4711"), "{name}");
            assert_eq!(launch.far[1].words, ["/usr/bin/ssh", "-x", "u@n2"], "{name}");
        }
        assert_eq!(far_launch(&machine, Pid(2)).expect("it is there"), None);
    }

    /// A script around a launcher leads to it, one around two to neither.
    #[test]
    fn the_only_launch_below_a_process_is_meant() {
        let mut machine = machine(&["ssh|n1|hydra_pmi_proxy|--control-port|head:1"]);
        let found = |machine: &Recorded, pid: i32| far_launch(machine, Pid(pid)).expect("it is there");
        assert_eq!(found(&machine, 1).map(|launch| launch.launcher), Some(Pid(10)));
        // The same launch has a launcher in it: a script of that name around the program.
        machine.add(Pid(12), Pid(10), "mpirun");
        assert_eq!(found(&machine, 1).map(|launch| launch.launcher), Some(Pid(10)));
        machine.add(Pid(11), Pid(1), "mpirun");
        assert_eq!(found(&machine, 1), None);
    }

    #[test]
    fn a_launch_is_known_by_its_launchers_address() {
        let one_word = format!("ssh|n1| /usr/bin/orted -mca ess_base_vpid 1 -mca orte_hnp_uri \"{URI}\" -mca plm rsh");
        let words = format!("ssh|-x|n1| orted|-mca|orte_hnp_uri|\"{URI}\"|-mca|orte_parent_uri|\"{URI}\"");
        for (words, expected) in [
            (&*one_word, Some(URI)),
            (&*words, Some(URI)),
            (
                "ssh|n1|prted|--prtemca|prte_hnp_uri|prterun-n0-7@0.0;tcp4://10.0.0.1:1",
                Some("prterun-n0-7@0.0;tcp4://10.0.0.1:1"),
            ),
            ("ssh|n1|orted|-mca|ess|env", None),
            ("ssh|n1|hydra_pmi_proxy|--control-port", None),
        ] {
            let launch = far_launch(&machine(&[words]), Pid(10)).expect("it is there").expect("went elsewhere");
            assert_eq!(launch.mark.as_deref(), expected, "{words}");
        }
    }

    proptest! {
        /// Anybody can start a program with any words: what is taken for a way to a host has a host, and is all of it words
        /// before the helper's.
        #[test]
        fn any_words_are_read(words in prop::collection::vec("(ssh|-x|orted|n1|u@|@|-mca|orte_hnp_uri|--control-port|.{0,12})", 0..8)) {
            if let Some(at) = host_place(&words) {
                prop_assert!(at >= 1 && at + 1 < words.len());
                prop_assert!(!words[at].starts_with('-') && !words[at].ends_with('@'));
            }
            prop_assert!(mark_in(&words).is_none_or(|mark| !mark.is_empty()));
        }
    }

    /// Intel MPI: the helper elsewhere has other words than it was started with, the ranks share an identifier.
    #[test]
    fn a_launch_of_intel_mpi_is_known_by_its_ranks() {
        let rank = |machine: &mut Recorded, pid: i32, parent: i32, (rank, launch): (u32, &str)| {
            let variables =
                [format!("PMI_RANK={rank}"), "PMI_SIZE=2".to_owned(), format!("I_MPI_HYDRA_UUID={launch}-7")];
            let variables: Vec<&str> = variables.iter().map(String::as_str).collect();
            machine.add(Pid(pid), Pid(parent), "app").mpi("/lib/libmpi.so.12", &variables);
        };
        let words = "ssh|-q|-x|n1|/opt/bin//hydra_bstrap_proxy|--upstream-host|n0|--upstream-port|4711|--pgid|0";
        let mut near = machine(&[words]);
        let mark = |machine: &Recorded| {
            let launch = far_launch(machine, Pid(10)).expect("it is there").expect("went elsewhere");
            assert_eq!(launch.far[0].host, "n1");
            launch.mark.expect("it is known by something")
        };
        assert_eq!(mark(&near), "I_MPI_HYDRA_UUID=0a000000-", "no rank is here");
        near.add(Pid(30), Pid(10), "hydra_pmi_proxy");
        rank(&mut near, 31, 30, (0, "0a000000-df1f"));
        assert_eq!(mark(&near), "I_MPI_HYDRA_UUID=0a000000-df1f-7");
        let mut far = Recorded { own: Pid(2), ..Recorded::default() };
        far.add(Pid(1), Pid(0), "init");
        far.add(Pid(2), Pid(1), "trimtab");
        for (pid, launch) in [(50, "0a000000-df1f"), (60, "0b000000-df1f"), (70, "0c000000-1"), (80, "0c000000-2")] {
            far.add(Pid(pid), Pid(1), "hydra_pmi_proxy");
            rank(&mut far, pid + 1, pid, (1, launch));
        }
        let found = |machine: &Recorded, mark: &str| {
            find_launched_job_in(machine, (&format!("I_MPI_HYDRA_UUID={mark}"), 1000), &|_| false)
        };
        let pids = |job: Job| job.ranks.iter().map(|rank| rank.pid.0).collect::<Vec<_>>();
        assert_eq!(pids(found(&near, "0a000000-df1f-7").expect("it runs here")), [31]);
        assert_eq!(pids(found(&far, "0a000000-df1f-7").expect("it runs here")), [51]);
        assert_eq!(pids(found(&far, "0b000000-").expect("it runs here")), [61]);
        assert_eq!(pids(found(&far, "0c000000-2-7").expect("it runs here")), [81]);
        assert!(matches!(found(&far, "0c000000-"), Err(Error::SeveralLaunches { count: 2 })));
        assert!(matches!(found(&far, "0d000000-"), Err(Error::NotLaunchedHere)));
    }

    /// Two launches of one program on each of two machines: what belongs to the first.
    #[test]
    fn ranks_are_found_on_both_ends() {
        let rank = |machine: &mut Recorded, pid: i32, parent: i32, rank: u32| {
            let variables = [format!("PMI_RANK={rank}"), "PMI_SIZE=2".to_owned()];
            let variables: Vec<&str> = variables.iter().map(String::as_str).collect();
            machine.add(Pid(pid), Pid(parent), "app").mpi("/usr/lib/libmpich.so.12", &variables);
        };
        let mut near = machine(&["ssh|n1|hydra_pmi_proxy|--control-port|head:1", "x"]);
        let proxy = |machine: &mut Recorded, pid: i32, parent: i32, port: u32| {
            let words = ["hydra_pmi_proxy".to_owned(), "--control-port".to_owned(), format!("head:{port}")];
            machine.add(Pid(pid), Pid(parent), "hydra_pmi_proxy").arguments = words.to_vec();
        };
        proxy(&mut near, 30, 10, 1);
        rank(&mut near, 31, 30, 0);
        near.add(Pid(11), Pid(1), "mpiexec.hydra");
        proxy(&mut near, 40, 11, 2);
        rank(&mut near, 41, 40, 0);
        let mut far = Recorded { own: Pid(2), ..Recorded::default() };
        far.add(Pid(1), Pid(0), "init");
        far.add(Pid(2), Pid(1), "trimtab");
        far.add(Pid(5), Pid(1), "sshd");
        for (port, pid) in [(2, 50), (1, 60)] {
            proxy(&mut far, pid, 5, port);
            rank(&mut far, pid + 1, pid, 1);
        }
        // Somebody else can have the same words.
        proxy(&mut far, 20, 5, 1);
        rank(&mut far, 21, 20, 1);
        far.processes.get_mut(&Pid(20)).expect("it is there").status.uids = [7; 4];
        let found = |machine: &Recorded, mark: &str| find_launched_job_in(machine, (mark, 1000), &|_| false);
        let ranks = |job: Job| job.ranks.iter().map(|rank| (rank.pid.0, rank.rank.0)).collect::<Vec<_>>();
        assert_eq!(ranks(found(&near, "head:1").expect("it runs here")), [(31, 0)]);
        assert_eq!(ranks(found(&far, "head:1").expect("it runs here")), [(61, 1)]);
        assert_eq!(ranks(found(&far, "head:2").expect("it runs here")), [(51, 1)]);
        for machine in [&near, &far] {
            assert!(matches!(found(machine, "head:3"), Err(Error::NotLaunchedHere)));
        }
    }
}
