//! Parents, children and launchers at one moment.

use crate::error::Error;
use crate::launcher::{Role, role};
use crate::procfs::Processes;
use std::collections::{BTreeMap, BTreeSet};
use trimtab_types::Pid;

/// The processes of a machine, read once.
pub(super) struct Tree {
    nodes: BTreeMap<Pid, TreeProcess>,
    children: BTreeMap<Pid, Vec<Pid>>,
}

struct TreeProcess {
    parent: Pid,
    command: String,
    start_time_ticks: u64,
    role: Option<Role>,
}

impl Tree {
    /// Reads all processes that live.
    pub(super) fn scan(processes: &dyn Processes) -> Result<Tree, Error> {
        let mut tree = Tree { nodes: BTreeMap::new(), children: BTreeMap::new() };
        for pid in processes.pids()? {
            match processes.stat(pid) {
                Ok(stat) if stat.state.has_ended() => {}
                Ok(stat) => {
                    let role = role(processes.executable(pid).ok().as_deref(), &stat.command);
                    let (parent, start_time_ticks) = (stat.parent, stat.start_time_ticks);
                    tree.children.entry(parent).or_default().push(pid);
                    tree.nodes.insert(pid, TreeProcess { parent, command: stat.command, start_time_ticks, role });
                }
                Err(error) if error.is_gone() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(tree)
    }

    /// All processes.
    pub(super) fn pids(&self) -> impl Iterator<Item = Pid> {
        self.nodes.keys().copied()
    }

    /// The short name of a process, empty if it is not in the tree.
    pub(super) fn command(&self, pid: Pid) -> &str {
        self.nodes.get(&pid).map_or("", |node| node.command.as_str())
    }

    /// When a process started, 0 if it is not in the tree.
    pub(super) fn start_time_ticks(&self, pid: Pid) -> u64 {
        self.nodes.get(&pid).map_or(0, |node| node.start_time_ticks)
    }

    /// True if a process starts MPI programs.
    pub(super) fn is_launcher(&self, pid: Pid) -> bool {
        self.role(pid).is_some()
    }

    /// The parents of a process, nearest first. Ends even if pids were reused while the tree was read.
    pub(super) fn ancestors(&self, pid: Pid) -> impl Iterator<Item = Pid> {
        let mut seen = BTreeSet::from([pid]);
        let parent = move |pid: &Pid| self.nodes.get(pid).map(|node| node.parent);
        std::iter::successors(parent(&pid), parent).take_while(move |ancestor| ancestor.0 > 0 && seen.insert(*ancestor))
    }

    /// The processes that a process started.
    pub(super) fn children(&self, pid: Pid) -> impl Iterator<Item = Pid> {
        self.children.get(&pid).into_iter().flatten().copied()
    }

    /// Everything below a process, without itself.
    pub(super) fn descendants(&self, top: Pid) -> impl Iterator<Item = Pid> {
        let mut found = BTreeSet::new();
        let mut next = vec![top];
        while let Some(pid) = next.pop() {
            let children = self.children.get(&pid).into_iter().flatten().copied();
            next.extend(children.filter(|child| *child != top && found.insert(*child)));
        }
        found.into_iter()
    }

    /// The launcher of a process: the nearest front end above it and the front ends directly around that (a script
    /// around its program), or the topmost helper if no front end is on this machine.
    pub(super) fn launcher_above(&self, pid: Pid) -> Option<Pid> {
        let mut topmost = None;
        for ancestor in self.ancestors(pid) {
            match (self.role(ancestor), topmost.map(|pid| self.role(pid))) {
                (Some(Role::FrontEnd), _) => topmost = Some(ancestor),
                (None, Some(Some(Role::FrontEnd))) => break,
                (Some(Role::Helper), Some(Some(Role::FrontEnd))) => break,
                (Some(Role::Helper), _) => topmost = Some(ancestor),
                (None, _) => {}
            }
        }
        topmost
    }

    /// The launcher that `pid` is itself or is a part of; `None` if it is no launcher.
    pub(super) fn launcher_at_or_above(&self, pid: Pid) -> Option<Pid> {
        match self.role(pid)? {
            Role::Helper => Some(self.launcher_above(pid).unwrap_or(pid)),
            Role::FrontEnd => {
                let around = self.ancestors(pid).take_while(|ancestor| self.role(*ancestor) == Some(Role::FrontEnd));
                Some(around.last().unwrap_or(pid))
            }
        }
    }

    /// The front end below a process that is below no other one, if there is just one.
    pub(super) fn only_launcher_below(&self, pid: Pid) -> Option<Pid> {
        let is_front_end = |pid: &Pid| self.role(*pid) == Some(Role::FrontEnd);
        let is_outermost =
            |found: &Pid| !self.ancestors(*found).take_while(|above| *above != pid).any(|a| is_front_end(&a));
        let mut found = self.descendants(pid).filter(|found| is_front_end(found) && is_outermost(found));
        let first = found.next();
        if found.next().is_some() { None } else { first }
    }

    fn role(&self, pid: Pid) -> Option<Role> {
        self.nodes.get(&pid)?.role
    }
}
