//! On which other machines has a launcher started its helpers? Read from the commands it started them with.
//!
//! `mpiexec` and `mpirun` reach other machines by `ssh HOST HELPER ...`, or whatever is set in its place; that command stays
//! as long as the job. Its words are the only thing on this machine that names the others.
//!
//! Next: whoever has to say which ranks are not here.

use super::tree::Tree;
use crate::error::Error;
use crate::launcher::is_far_helper;
use crate::procfs::Processes;
use std::collections::BTreeSet;
use trimtab_types::Pid;

/// Machines on which the launcher of `pid` has started helpers; empty if it has none, or `pid` has no launcher here.
///
/// # Errors
/// No such process, or `/proc` can't be read.
pub fn far_hosts(processes: &dyn Processes, pid: Pid) -> Result<BTreeSet<String>, Error> {
    let pid = processes.status(pid)?.process;
    let tree = Tree::scan(processes)?;
    let Some(launcher) = tree.launcher_at_or_above(pid).or_else(|| tree.launcher_above(pid)) else {
        return Ok(BTreeSet::new());
    };
    let words = tree.children(launcher).filter_map(|child| processes.arguments(child).ok());
    Ok(words.filter_map(|words| host_in(&words)).collect())
}

/// The word before the one that names a helper, which is none of its own command's first two: `ssh -x n1 "orted" ...`.
fn host_in(words: &[String]) -> Option<String> {
    let names_helper = |text: &String| {
        let mut parts = text.split([' ', ';']).map(|part| part.trim_matches('"'));
        parts.any(|part| is_far_helper(part.rsplit('/').next().unwrap_or_default()))
    };
    let at = words.iter().position(names_helper).filter(|at| *at >= 2)?;
    let host = words[at - 1].rsplit('@').next()?;
    (!host.is_empty() && !host.starts_with('-')).then(|| host.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Recorded;

    #[test]
    fn hosts_are_read_from_the_launchers_commands() {
        let mut machine = Recorded { own: Pid(2), ..Recorded::default() };
        machine.add(Pid(1), Pid(0), "init");
        machine.add(Pid(10), Pid(1), "mpiexec.hydra");
        let commands = [
            ("/usr/bin/ssh|-x|n1|\"/usr/bin/hydra_pmi_proxy\"|--control-port|head:4711|--proxy-id|0", Some("n1")),
            (
                "/usr/bin/ssh|-x|u@n2|     PATH=/usr/bin:$PATH ; export PATH ;   /usr/bin/orted -mca ess \"env\"",
                Some("n2"),
            ),
            ("/bin/sh|/home/u/rsh|n3|/usr/bin/prted --prtemca x", Some("n3")),
            ("/usr/bin/hydra_pmi_proxy|--control-port|head:4711", None),
            ("nsenter|--target|7|--|/usr/bin/orted", None),
            ("/home/u/app|orted", None),
            ("", None),
        ];
        for (number, (words, _)) in commands.iter().enumerate() {
            let pid = Pid(20 + number as i32);
            machine.add(pid, Pid(10), "x").arguments = words.split('|').map(str::to_owned).collect();
        }
        let expected: BTreeSet<String> = commands.iter().filter_map(|(_, host)| host.map(str::to_owned)).collect();
        assert_eq!(far_hosts(&machine, Pid(10)).expect("it is there"), expected);
        assert_eq!(far_hosts(&machine, Pid(23)).expect("it is there"), expected, "by what the launcher started");
        assert_eq!(far_hosts(&machine, Pid(1)).expect("it is there"), BTreeSet::new());
    }
}
