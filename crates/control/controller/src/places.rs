//! Which agents there are, and who calls whom: a balanced tree that grows.
//!
//! An agent keeps its number as long as the controller runs, so a host that comes back takes its old place. The agents
//! above another were there before it. Agents that come one after the other, as hosts do that boot together, are neighbours.
//!
//! Next: `routes`, which gives places out; `trimtab_overlay::shape` for the tree.

use std::net::SocketAddr;
use trimtab_overlay::shape;
use trimtab_reduce::RankSet;
use trimtab_site::api::Ancestor;
use trimtab_types::Rank;

/// Agents of one site.
pub const AGENT_COUNT_MAX: usize = 65_536;

/// An agent's place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentPlace {
    /// Its host, as its certificate says.
    pub host: String,
    /// Where it awaits agents below it; port 0: nowhere.
    pub address: SocketAddr,
    /// The number of its start.
    pub start: u64,
}

impl AgentPlace {
    /// True if it may be an agent at that place, connected again or started anew: then it has the port to itself.
    /// Where there is no port, an agent is known by its start.
    fn may_follow(&self, earlier: &AgentPlace) -> bool {
        self.address == earlier.address && (self.address.port() != 0 || self.start == earlier.start)
    }
}

/// All of them.
#[derive(Debug)]
pub struct Places {
    tree: u64,
    fan_out: usize,
    places: Vec<AgentPlace>,
}

impl Places {
    /// None yet; so many agents are to call one node.
    pub fn new(tree: u64, fan_out: usize) -> Self {
        Places { tree, fan_out: fan_out.max(1), places: Vec::new() }
    }

    /// The tree's number.
    pub fn tree(&self) -> u64 {
        self.tree
    }

    /// All, by their numbers.
    pub fn all(&self) -> &[AgentPlace] {
        &self.places
    }

    /// Takes an agent in, or notes where it is now; its number. None if there are too many.
    pub fn take(&mut self, place: AgentPlace) -> Option<u32> {
        let index = self.places.iter().position(|known| known.host == place.host).unwrap_or(self.places.len());
        if index >= AGENT_COUNT_MAX {
            return None;
        }
        match self.places.get_mut(index) {
            Some(known) => *known = place,
            None => self.places.push(place),
        }
        Some(index as u32)
    }

    /// Why an agent can't be taken in while another one with its identity is connected, if there is one.
    pub fn connected_beside(&self, place: &AgentPlace, connected: &RankSet) -> Option<String> {
        let index = self.places.iter().position(|known| known.host == place.host)?;
        let known = &self.places[index];
        if place.may_follow(known) || !connected.contains(Rank(index as u32)) {
            return None;
        }
        let (host, here, there) = (&place.host, place.address.ip(), known.address.ip());
        let why = if here == there {
            format!("another agent of {host} runs on {there} already; one is enough: end one of them")
        } else {
            format!(
                "an agent of {host} is connected from {there}, and this one calls from {here}: has one identity been copied \
                 to two hosts? Issue one for each (`trimtab site issue FOLDER node:HOST`)"
            )
        };
        Some(why)
    }

    /// Those above an agent, its parent first; the controller comes behind them. Agents that nobody can call are left
    /// out.
    pub fn above(&self, index: u32) -> Vec<Ancestor> {
        let ancestor = |at: usize| {
            let AgentPlace { host, address, .. } = self.places.get(at).filter(|place| place.address.port() != 0)?;
            Some(Ancestor { index: at as u32, host: host.clone(), address: *address })
        };
        shape::above(index as usize, self.fan_out).filter_map(ancestor).collect()
    }

    /// The agent of a node, by the name that a batch system or a person calls it.
    pub fn find(&self, name: &str) -> Option<u32> {
        let exact = self.places.iter().position(|place| place.host == name);
        let short = |name: &str| name.split('.').next().unwrap_or(name).to_owned();
        exact.or_else(|| self.places.iter().position(|place| short(&place.host) == short(name))).map(|at| at as u32)
    }

    /// Everybody's numbers, which are their ranks in the tree.
    pub fn ranks(&self) -> RankSet {
        match self.places.len() {
            0 => RankSet::EMPTY,
            count => RankSet::range(Rank(0), Rank(count as u32 - 1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(host: &str, last: u8, port: u16) -> AgentPlace {
        AgentPlace { host: host.to_owned(), address: SocketAddr::from(([10, 0, 0, last], port)), start: 1 }
    }

    fn places(count: u8, fan_out: usize) -> Places {
        let mut places = Places::new(7, fan_out);
        for index in 0..count {
            assert_eq!(places.take(place(&format!("n{index}.site"), index, 1)), Some(u32::from(index)));
        }
        places
    }

    #[test]
    fn one_identity_at_two_places_is_seen() {
        let mut places = places(3, 2);
        assert_eq!(places.take(place("n2.site", 2, 0)), Some(2), "nobody can call it");
        let again = |place: AgentPlace| AgentPlace { start: 2, ..place };
        let (copied, second) = (Some("copied to two hosts"), Some("end one of them"));
        for (name, place, connected, expected) in [
            ("connected from another host", place("n1.site", 7, 1), 1, copied),
            ("the other one is gone", place("n1.site", 7, 1), 2, None),
            ("started anew on its host", again(place("n1.site", 1, 1)), 1, None),
            ("a second one on its host", again(place("n1.site", 1, 9)), 1, second),
            ("a second one that nobody can call", again(place("n2.site", 2, 0)), 2, second),
            ("the same one, connected again", place("n2.site", 2, 0), 2, None),
            ("started anew, the earlier one is gone", again(place("n2.site", 2, 0)), 1, None),
            ("never seen", place("n9.site", 7, 1), 1, None),
        ] {
            let why = places.connected_beside(&place, &RankSet::one(Rank(connected)));
            assert_eq!(why.is_some(), expected.is_some(), "{name}: {why:?}");
            assert!(why.is_none_or(|why| expected.is_some_and(|words| why.contains(words))), "{name}");
        }
    }

    #[test]
    fn nobody_has_too_many_below_and_everybody_a_way_up() {
        for (count, fan_out) in [(1, 32), (33, 32), (200, 3), (9, 1)] {
            let places = places(count, fan_out);
            let mut below = vec![0; usize::from(count)];
            for index in 0..u32::from(count) {
                let above = places.above(index);
                assert!(above.iter().all(|ancestor| ancestor.index < index), "{count} {fan_out}: {index}");
                if let Some(parent) = above.first() {
                    below[parent.index as usize] += 1;
                }
            }
            assert!(below.iter().all(|below| *below <= fan_out), "{count} {fan_out}");
        }
        let indices: Vec<u32> = places(9, 1).above(3).iter().map(|ancestor| ancestor.index).collect();
        assert_eq!(indices, [2, 1, 0]);
    }

    #[test]
    fn who_comes_back_has_its_place_and_who_can_not_be_called_is_nobody_s_parent() {
        let mut places = places(4, 1);
        assert_eq!(places.take(place("n1.site", 99, 0)), Some(1));
        assert_eq!(places.all().len(), 4);
        let indices: Vec<u32> = places.above(3).iter().map(|ancestor| ancestor.index).collect();
        assert_eq!(indices, [2, 0]);
        assert_eq!((places.find("n2"), places.find("n2.site"), places.find("n9")), (Some(2), Some(2), None));
        assert_eq!(places.ranks().rank_count(), 4);
    }
}
