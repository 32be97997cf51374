//! The text form of a tree: `parent => child child ;`, as users of older trees know it.
//!
//! Statements may come in any order and a name may stand left of several arrows. `#` starts a comment that ends with
//! the line.
//!
//! Next: `shape`, which numbers the nodes.

use crate::bad_shape::{BadShape, NODE_COUNT_MAX};
use std::collections::BTreeMap;

/// Longest text, in bytes.
const TEXT_BYTES_MAX: usize = 256 << 20;

/// Names with the index of their parent, parents before children, else in the order in which they are named.
pub(crate) fn parse(text: &str) -> Result<Vec<(String, Option<usize>)>, BadShape> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(wrong(1, "a text of more than 256 MiB".into()));
    }
    let mut named = Named::default();
    let mut statement: Vec<(usize, &str)> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        for word in words(line) {
            match word {
                ";" => named.add(std::mem::take(&mut statement), index + 1)?,
                word => statement.push((index + 1, word)),
            }
        }
    }
    match statement.first() {
        Some((line, _)) => Err(wrong(*line, "a statement without `;` at its end".into())),
        None => named.in_order(),
    }
}

/// Words of a line; `=>` and `;` are words also without blanks around them.
fn words(line: &str) -> impl Iterator<Item = &str> {
    let line = line.split('#').next().unwrap_or_default();
    let mut rest = line.trim_start();
    std::iter::from_fn(move || {
        let end = match rest {
            "" => return None,
            _ if rest.starts_with(';') => 1,
            _ if rest.starts_with("=>") => 2,
            _ => {
                let stop = |(at, letter): (usize, char)| {
                    letter.is_whitespace() || letter == ';' || rest[at..].starts_with("=>")
                };
                rest.char_indices().find(|place| stop(*place)).map_or(rest.len(), |(at, _)| at)
            }
        };
        let (word, after) = rest.split_at(end);
        rest = after.trim_start();
        Some(word)
    })
}

#[derive(Default)]
struct Named {
    indices: BTreeMap<String, usize>,
    names: Vec<String>,
    parents: Vec<Option<usize>>,
    children: Vec<Vec<usize>>,
    last_line: usize,
}

impl Named {
    fn add(&mut self, statement: Vec<(usize, &str)>, line: usize) -> Result<(), BadShape> {
        self.last_line = line;
        let [(_, parent), (_, "=>"), children @ ..] = statement.as_slice() else {
            return Err(wrong(line, "expected a name and `=>`".into()));
        };
        if children.is_empty() {
            return Err(wrong(line, format!("`{parent}` has no child behind `=>`")));
        }
        let parent = self.index(parent);
        for (line, name) in children {
            if *name == "=>" {
                return Err(wrong(*line, "two `=>` in one statement".into()));
            }
            let child = self.index(name);
            if self.names.len() > NODE_COUNT_MAX {
                return Err(wrong(*line, format!("more than {NODE_COUNT_MAX} nodes")));
            }
            if self.parents[child].is_some() {
                return Err(wrong(*line, format!("`{name}` has two parents")));
            }
            self.parents[child] = Some(parent);
            self.children[parent].push(child);
        }
        Ok(())
    }

    fn index(&mut self, name: &str) -> usize {
        if let Some(index) = self.indices.get(name) {
            return *index;
        }
        self.indices.insert(name.to_owned(), self.names.len());
        self.names.push(name.to_owned());
        self.parents.push(None);
        self.children.push(Vec::new());
        self.names.len() - 1
    }

    /// Breadth first from the one root; what is not reached lies on a cycle.
    fn in_order(self) -> Result<Vec<(String, Option<usize>)>, BadShape> {
        let mut roots = (0..self.names.len()).filter(|index| self.parents[*index].is_none());
        let Some(root) = roots.next() else { return Err(wrong(self.last_line.max(1), "there is no root".into())) };
        if let Some(other) = roots.next() {
            let what = format!("`{}` and `{}` are both roots", self.names[root], self.names[other]);
            return Err(wrong(self.last_line, what));
        }
        let mut ordered = vec![(root, None)];
        let mut at = 0;
        while at < ordered.len() {
            let node = ordered[at].0;
            ordered.extend(self.children[node].iter().map(|child| (*child, Some(at))));
            at += 1;
        }
        if ordered.len() < self.names.len() {
            return Err(wrong(self.last_line, "some nodes are their own ancestors".into()));
        }
        Ok(ordered.into_iter().map(|(node, parent)| (self.names[node].clone(), parent)).collect())
    }
}

fn wrong(line: usize, what: String) -> BadShape {
    BadShape::Text { line, what }
}

#[cfg(test)]
mod tests {
    use crate::{NodeId, Tree};
    use proptest::prelude::*;

    #[test]
    fn a_tree_from_text() {
        let text = "# hosts\nroot:0 => a:0 b:0 ;\nb:0=>d:0;\n a:0 => c:0\n c:1 ; # end\n";
        let tree = Tree::from_text(text).unwrap();
        let names: Vec<&str> = tree.nodes().filter_map(|node| tree.name(node)).collect();
        assert_eq!(names, ["root:0", "a:0", "b:0", "c:0", "c:1", "d:0"]);
        assert_eq!(tree.ancestors(NodeId(4)), [NodeId(1), NodeId(0)]);
        let ranks: Vec<String> = tree.nodes().map(|node| tree.ranks(node).to_string()).collect();
        assert_eq!(ranks, ["none", "none", "none", "0", "1", "2"]);
    }

    #[test]
    fn what_is_wrong_and_where() {
        for (text, expected) in [
            ("", "line 1: there is no root"),
            ("a => b", "line 1: a statement without `;` at its end"),
            ("a b ;", "line 1: expected a name and `=>`"),
            ("a => b ;\nc => d ;", "line 2: `a` and `c` are both roots"),
            ("a => b ;\nc => b ;", "line 2: `b` has two parents"),
            ("a => ;", "line 1: `a` has no child behind `=>`"),
            ("a => b => c ;", "line 1: two `=>` in one statement"),
            ("r => x ; a => b ; b => a ;", "line 1: some nodes are their own ancestors"),
            ("a => a ;", "line 1: there is no root"),
        ] {
            let error = Tree::from_text(text).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{text:?}: {error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_gives_a_tree_or_an_error(text in "[ab=>; #\n]{0,40}") {
            let _ = Tree::from_text(&text);
        }
    }
}
