//! Agents on one machine, each with a cache folder of its own, that share what they read.

use super::*;
use std::collections::BTreeSet;
use std::path::PathBuf;
use trimtab_session::{ImageCache, Modules};
use trimtab_types::Pid;

/// The libraries of this very process, whose symbols agents need; its program's are many in a debug build.
fn is_wanted(path: &str) -> bool {
    ["libc.so", "libgcc_s", "ld-linux"].iter().any(|name| path.contains(name))
}

fn own() -> Pid {
    Pid(std::process::id() as i32)
}

struct Played {
    cache: ImageCache,
    known_files: KnownFiles,
}

/// Agents by position.
struct Table {
    folder: PathBuf,
    agents: BTreeMap<usize, Played>,
    /// They do not answer when asked for symbols.
    mute: BTreeSet<usize>,
    /// They send another file's.
    liars: BTreeSet<usize>,
    /// How often each was asked for symbols, and how many pieces went to all.
    asked: BTreeMap<usize, usize>,
    pieces: usize,
}

impl Table {
    fn new(test: &str, count: usize) -> Table {
        let folder = std::env::temp_dir().join(format!("trimtab-facts-{test}-{}", std::process::id()));
        let played = |index: usize| {
            let cache = ImageCache::in_directory(&folder.join(index.to_string()));
            (index, Played { cache, known_files: KnownFiles::default() })
        };
        let agents = (0..count).map(played).collect();
        let (mute, liars, asked) = (BTreeSet::new(), BTreeSet::new(), BTreeMap::new());
        Table { folder, agents, mute, liars, asked, pieces: 0 }
    }

    /// An insertion: reads what it needs; how many files, and how many each agent had to parse so far.
    fn insert(&self) -> (usize, Vec<u64>) {
        let read = |played: &Played| {
            let modules = Modules::read(own(), &played.cache, &is_wanted).expect("own modules");
            assert!(modules.unreadable.is_empty(), "{:?}", modules.unreadable);
            // By path: the caches map these files into this process too, which changes their order.
            let images = modules.modules.iter().map(|module| (module.path.clone(), module.loaded.image.clone()));
            images.collect::<BTreeMap<_, _>>()
        };
        let all: Vec<_> = self.agents.values().map(read).collect();
        assert!(all.iter().all(|images| images == &all[0]), "all know the same");
        (all[0].len(), self.agents.values().map(|played| played.cache.parse_count()).collect())
    }

    fn share(&mut self, piece_bytes: usize) -> usize {
        share(self, None, piece_bytes).expect("all are asked")
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        let _gone = std::fs::remove_dir_all(&self.folder);
    }
}

impl AskAll for Table {
    fn ask_all(&mut self, ask: Ask) -> Result<BTreeMap<usize, Say>, Error> {
        let mut said = BTreeMap::new();
        self.pieces += usize::from(matches!(ask, Ask::Take(_)));
        for (index, Played { cache, known_files }) in &mut self.agents {
            let say = match &ask {
                Ask::Files { .. } => Say::Files(known_files.files(cache, [(own(), is_wanted)].into_iter())),
                Ask::Symbols(of) => {
                    let names = of.get(&(*index as u32)).map(Vec::as_slice).unwrap_or_default();
                    if !names.is_empty() {
                        *self.asked.entry(*index).or_default() += 1;
                    }
                    if self.mute.contains(index) {
                        continue;
                    }
                    let mut symbols = known_files.symbols(cache, names);
                    if self.liars.contains(index) {
                        let other = symbols.iter().map(|one| one.bytes.clone()).next_back().unwrap_or_default();
                        symbols.iter_mut().for_each(|one| one.bytes = other.clone());
                        symbols.pop();
                    }
                    Say::Symbols(symbols)
                }
                Ask::Take(piece) => Say::Took(known_files.take(cache, piece.clone())),
                other => panic!("{other:?}"),
            };
            said.insert(*index, say);
        }
        Ok(said)
    }
}

#[test]
fn one_of_all_agents_reads_each_file() {
    let mut table = Table::new("one", 4);
    let shared = table.share(10_000);
    let (files, parses) = table.insert();
    assert!(files >= 2 && shared == files, "{shared} of {files}");
    assert_eq!(parses, [files as u64, 0, 0, 0]);
    assert!(table.pieces > files, "{} pieces of {files} files", table.pieces);
    assert_eq!((table.share(PIECE_BYTES), table.asked.len()), (0, 1), "nobody lacks anything now");
}

#[test]
fn whoever_has_symbols_gives_them_to_those_who_came_later() {
    let mut table = Table::new("later", 3);
    // A window before this one, with the last agent only; its cache on disk is still there.
    Modules::read(own(), &table.agents[&2].cache, &is_wanted).expect("own modules");
    let kept = ImageCache::in_directory(&table.folder.join("2"));
    table.agents.insert(2, Played { cache: kept, known_files: KnownFiles::default() });
    table.share(PIECE_BYTES);
    assert_eq!(table.insert().1, [0, 0, 0]);
    assert_eq!(table.asked, BTreeMap::from([(2, 1)]));
}

#[test]
fn another_one_reads_if_the_first_is_lost() {
    let mut table = Table::new("lost", 4);
    table.mute = BTreeSet::from([0, 1]);
    let shared = table.share(PIECE_BYTES);
    let (files, parses) = table.insert();
    assert_eq!((shared, parses), (files, vec![0, 0, files as u64, 0]));
}

#[test]
fn without_an_answer_everybody_reads() {
    let mut table = Table::new("mute", 3);
    table.mute = BTreeSet::from([0, 1, 2]);
    assert_eq!(table.share(PIECE_BYTES), 0);
    let (files, parses) = table.insert();
    assert_eq!(parses, [files as u64; 3]);
}

#[test]
fn symbols_of_another_file_are_not_believed() {
    let mut table = Table::new("liar", 2);
    table.liars = BTreeSet::from([0]);
    table.share(PIECE_BYTES);
    let (files, parses) = table.insert();
    assert_eq!(parses, [files as u64; 2], "what came was of another file, so it reads all itself");
}

#[test]
fn a_single_agent_asks_nobody() {
    let mut table = Table::new("single", 1);
    assert_eq!(table.share(PIECE_BYTES), 0);
    assert_eq!((table.asked.len(), table.pieces), (0, 0));
}

#[test]
fn pieces_that_do_not_fit_are_not_taken() {
    let mut table = Table::new("pieces", 2);
    let look = |played: &mut Played| played.known_files.files(&played.cache, [(own(), is_wanted)].into_iter());
    let mut agents = table.agents.values_mut();
    let (Some(reads), Some(takes)) = (agents.next(), agents.next()) else { panic!("two agents") };
    let name = look(reads).remove(0).name;
    look(takes);
    let symbols = reads.known_files.symbols(&reads.cache, &[name]).remove(0);
    let total = symbols.bytes.len() as u64;
    let mut take = |name: &str, from: u64, total: u64, to: usize| {
        let bytes = symbols.bytes[from as usize..to].to_vec();
        takes.known_files.take(&takes.cache, SymbolsPiece { name: name.to_owned(), total, from, bytes })
    };
    let (own, end) = (&symbols.name[..], symbols.bytes.len());
    assert!(!take("nobody's", 0, total, 100), "a file that is not here");
    assert!(!take(own, 100, total, 200), "the beginning is missing");
    assert!(!take(own, 0, SYMBOLS_BYTES_MAX as u64 + 1, 100), "too long");
    assert!(!take(own, 0, 50, 100), "more than there is to be");
    assert!(take(own, 0, total, 100));
    assert!(!take(own, 200, total, end), "a gap");
    assert!(!take(own, 100, total, end), "what had begun is gone");
    assert!(take(own, 0, total, 100) && take(own, 100, total, end), "in order, all of it");
    assert!(!take(own, 0, total, end), "it is known now");
}
