//! Which agents there are, and who calls whom: a balanced tree that grows.
//!
//! An agent keeps its number as long as the controller runs, so a host that comes back takes its old place. With a
//! fan-out of F the first F agents call the controller, the next F the first one, and so on: whoever is above an agent
//! was there before it. Agents that come one after the other, as hosts do that boot together, are neighbours.
//!
//! Next: `routes`, which gives places out.

use std::net::SocketAddr;
use trimtab_reduce::RankSet;
use trimtab_site::api::Ancestor;
use trimtab_types::Rank;

/// Agents of one site.
pub const AGENT_COUNT_MAX: usize = 65_536;

/// An agent's place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its host, as its certificate says.
    pub host: String,
    /// Where it awaits agents below it; port 0: nowhere.
    pub address: SocketAddr,
}

/// All of them.
#[derive(Debug)]
pub struct Places {
    tree: u64,
    fan_out: usize,
    places: Vec<Place>,
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
    pub fn all(&self) -> &[Place] {
        &self.places
    }

    /// Takes an agent in, or notes where it is now; its number. None if there are too many.
    pub fn take(&mut self, host: &str, address: SocketAddr) -> Option<u32> {
        let index = self.places.iter().position(|place| place.host == host).unwrap_or(self.places.len());
        if index >= AGENT_COUNT_MAX {
            return None;
        }
        let place = Place { host: host.to_owned(), address };
        match self.places.get_mut(index) {
            Some(known) => *known = place,
            None => self.places.push(place),
        }
        Some(index as u32)
    }

    /// The other place from which an agent of this host is connected already, if there is one; an agent that is started anew
    /// calls from the same, with the same port.
    pub fn connected_elsewhere(&self, host: &str, address: SocketAddr, connected: &RankSet) -> Option<SocketAddr> {
        let index = self.places.iter().position(|place| place.host == host)?;
        let known = self.places[index].address;
        (known != address && connected.contains(Rank(index as u32))).then_some(known)
    }

    /// Those above an agent, its parent first; the controller comes behind them. Agents that nobody can call are left
    /// out.
    pub fn above(&self, index: u32) -> Vec<Ancestor> {
        let above = std::iter::successors(self.parent(index as usize), |at| self.parent(*at));
        let ancestor = |at: usize| {
            let Place { host, address } = self.places.get(at).filter(|place| place.address.port() != 0)?;
            Some(Ancestor { index: at as u32, host: host.clone(), address: *address })
        };
        above.filter_map(ancestor).collect()
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

    fn parent(&self, index: usize) -> Option<usize> {
        index.checked_sub(self.fan_out).map(|below| below / self.fan_out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8, port: u16) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, last], port))
    }

    fn places(count: u8, fan_out: usize) -> Places {
        let mut places = Places::new(7, fan_out);
        for index in 0..count {
            assert_eq!(places.take(&format!("n{index}.site"), address(index, 1)), Some(u32::from(index)));
        }
        places
    }

    #[test]
    fn one_identity_at_two_places_is_seen() {
        let places = places(3, 2);
        let elsewhere =
            |host: &str, at: SocketAddr, connected: RankSet| places.connected_elsewhere(host, at, &connected);
        assert_eq!(
            elsewhere("n1.site", address(7, 1), RankSet::one(Rank(1))),
            Some(address(1, 1)),
            "connected from another host"
        );
        assert_eq!(elsewhere("n1.site", address(7, 1), RankSet::one(Rank(2))), None, "the other one is gone");
        assert_eq!(elsewhere("n1.site", address(1, 1), RankSet::one(Rank(1))), None, "started anew on its host");
        let beside = elsewhere("n1.site", address(1, 9), RankSet::one(Rank(1)));
        assert_eq!(beside, Some(address(1, 1)), "a second one on its host");
        assert_eq!(elsewhere("n9.site", address(7, 1), RankSet::one(Rank(1))), None, "never seen");
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
        assert_eq!(places.take("n1.site", address(99, 0)), Some(1));
        assert_eq!(places.all().len(), 4);
        let indices: Vec<u32> = places.above(3).iter().map(|ancestor| ancestor.index).collect();
        assert_eq!(indices, [2, 0]);
        assert_eq!((places.find("n2"), places.find("n2.site"), places.find("n9")), (Some(2), Some(2), None));
        assert_eq!(places.ranks().rank_count(), 4);
    }
}
