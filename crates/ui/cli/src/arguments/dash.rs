//! `--json -` of commands whose `--json` takes no file: the dash says the same again, that JSON goes to standard output.
//!
//! Without this clap would take the dash for the next argument. Next: `arguments`, which says which commands these are.

use clap::{ArgAction, Command};
use std::ffi::OsString;

/// The words of a command line without dashes behind a `--json` that takes none. Words behind `--` are another program's.
pub fn without_dashes(whole: &Command, words: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let (mut command, mut kept, mut is_ours) = (whole, Vec::<OsString>::new(), true);
    for word in words {
        is_ours &= word != "--";
        let is_behind_json = kept.last().is_some_and(|before| before == "--json");
        if is_ours && word == "-" && is_behind_json && takes_no_file(command) {
            continue;
        }
        if let Some(inner) = word.to_str().filter(|_| is_ours).and_then(|name| command.find_subcommand(name)) {
            command = inner;
        }
        kept.push(word);
    }
    kept
}

fn takes_no_file(command: &Command) -> bool {
    command.get_arguments().any(|one| one.get_long() == Some("json") && matches!(one.get_action(), ArgAction::SetTrue))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::Arguments;
    use clap::{CommandFactory, Parser};

    fn kept(line: &str) -> String {
        let words = without_dashes(&Arguments::command(), line.split(' ').map(OsString::from));
        assert!(Arguments::try_parse_from(&words).is_ok(), "{line}: {words:?}");
        words.iter().map(|word| word.to_str().expect("text")).collect::<Vec<&str>>().join(" ")
    }

    #[test]
    fn every_command_takes_a_dash_behind_json() {
        for (line, expected) in [
            ("trimtab report a b c --scaling --json -", "trimtab report a b c --scaling --json"),
            ("trimtab report --json - a/1", "trimtab report --json a/1"),
            ("trimtab functions 7 --json -", "trimtab functions 7 --json"),
            ("trimtab forecast job 7 --json -", "trimtab forecast job 7 --json -"),
            ("trimtab attach 7 --json -", "trimtab attach 7 --json -"),
            ("trimtab run --json - -- report --json -", "trimtab run --json - -- report --json -"),
        ] {
            assert_eq!(kept(line), expected, "{line}");
        }
    }
}
