//! The command that runs a routine: words with places for sizes, and no shell.
//!
//! Next: `benchmark`, which runs it.

/// Stands for the number of a repetition, so that each may have data of its own.
const VALUE: &str = "value";
/// Characters by which a shell would do something that nobody does here.
const OF_SHELLS: &str = "|&;<>`$*?~";

/// A command with places for sizes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoutineCommand {
    words: Vec<String>,
}

/// Why a command can't be run at sizes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// There is no word.
    #[error("the command is empty")]
    Empty,
    /// A quotation mark without its other one.
    #[error("the command has no second {0}")]
    Unclosed(char),
    /// Nobody would understand it.
    #[error(
        "{found} means something to a shell, and the command is run without one: quote it, or give \"sh -c '...'\""
    )]
    OfShells {
        /// The character.
        found: char,
    },
    /// A parameter has no place in the command.
    #[error("the command has no {{{0}}}: it would be the same for all sizes of {0}")]
    NoPlace(String),
    /// A place has no parameter.
    #[error("the command has {{{0}}}, and --over names no {0}")]
    NoParameter(String),
}

impl RoutineCommand {
    /// Splits a text into words as a shell does, with quotation marks and backslashes, and looks for the place of each parameter.
    ///
    /// # Errors
    /// A text that can't be split, and places that don't fit the parameters.
    pub fn parse(text: &str, parameters: &[String]) -> Result<Self, CommandError> {
        let command = RoutineCommand { words: split(text)? };
        let places: Vec<&str> = command.words.iter().flat_map(|word| places_of(word)).collect();
        if let Some(lacking) = parameters.iter().find(|parameter| !places.contains(&parameter.as_str())) {
            return Err(CommandError::NoPlace(lacking.clone()));
        }
        let is_known = |place: &&str| *place == VALUE || parameters.iter().any(|parameter| parameter == place);
        match places.into_iter().find(|place| !is_known(place)) {
            Some(unknown) => Err(CommandError::NoParameter(unknown.to_owned())),
            None => Ok(command),
        }
    }

    /// The same from words that were parsed before.
    pub fn of_words(words: Vec<String>) -> Self {
        RoutineCommand { words }
    }

    /// A command that prepares a run: it may leave out parameters.
    ///
    /// # Errors
    /// As [`RoutineCommand::parse`].
    pub fn parse_setup(text: &str, parameters: &[String]) -> Result<Self, CommandError> {
        let words = split(text)?;
        let named: Vec<String> = words.iter().flat_map(|word| places_of(word)).map(str::to_owned).collect();
        let used: Vec<String> = parameters.iter().filter(|parameter| named.contains(parameter)).cloned().collect();
        RoutineCommand::parse(text, &used)
    }

    /// True if each repetition has a number of its own in it.
    pub fn has_value(&self) -> bool {
        self.words.iter().any(|word| places_of(word).contains(&VALUE))
    }

    /// The words with their places.
    pub fn words(&self) -> &[String] {
        &self.words
    }

    /// The words for these sizes, in the repetition of this number.
    pub fn at(&self, parameters: &[String], sizes: &[f64], value: u32) -> Vec<String> {
        let put = |word: &String| {
            let sized = parameters.iter().zip(sizes).fold(word.clone(), |word, (parameter, size)| {
                word.replace(&format!("{{{parameter}}}"), &size.to_string())
            });
            sized.replace("{value}", &value.to_string())
        };
        self.words.iter().map(put).collect()
    }
}

/// Names between braces: other braces, as of programs given with -c, are none.
fn places_of(word: &str) -> Vec<&str> {
    let is_name = |text: &str| {
        text.starts_with(|letter: char| letter.is_ascii_alphabetic())
            && text.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
    };
    let parts = word.split('{').skip(1).filter_map(|part| part.split_once('}'));
    parts.map(|(name, _)| name).filter(|name| is_name(name)).collect()
}

fn split(text: &str) -> Result<Vec<String>, CommandError> {
    let (mut words, mut word): (Vec<String>, Option<String>) = (Vec::new(), None);
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            ' ' | '\t' | '\n' => words.extend(word.take()),
            '\'' | '"' => {
                let into = word.get_or_insert_default();
                quoted(letter, &mut letters, into)?;
            }
            '\\' => word.get_or_insert_default().extend(letters.next()),
            found if OF_SHELLS.contains(found) => return Err(CommandError::OfShells { found }),
            letter => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    if words.is_empty() { Err(CommandError::Empty) } else { Ok(words) }
}

/// Takes letters up to the second quotation mark.
fn quoted(mark: char, letters: &mut std::str::Chars<'_>, into: &mut String) -> Result<(), CommandError> {
    loop {
        match letters.next().ok_or(CommandError::Unclosed(mark))? {
            letter if letter == mark => return Ok(()),
            '\\' if mark == '"' => {
                let next = letters.next().ok_or(CommandError::Unclosed(mark))?;
                // Before other letters a backslash is one.
                into.extend((!"\"\\$`".contains(next)).then_some('\\'));
                into.push(next);
            }
            letter => into.push(letter),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str, parameters: &[&str]) -> Result<RoutineCommand, CommandError> {
        RoutineCommand::parse(text, &parameters.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn words_are_split_as_a_shell_does_and_sizes_put_in() {
        for (text, words) in [
            ("a  {n} c", &["a", "7", "c"][..]),
            ("a 'b c {n}' \"d \\\" e\" ''", &["a", "b c 7", "d \" e", ""]),
            ("a{n}.txt b\\ c", &["a7.txt", "b c"]),
            ("sh -c 'x={n}; echo $x | wc > {} {1}'", &["sh", "-c", "x=7; echo $x | wc > {} {1}"]),
            ("python3 -c \"d = {}; print({n}, '\\n')\"", &["python3", "-c", "d = {}; print(7, '\\n')"]),
        ] {
            assert_eq!(parse(text, &["n"]).expect(text).at(&["n".to_owned()], &[7.0], 1), words, "{text}");
        }
        let two = parse("a {m} {n} {value}", &["n", "m"]).unwrap();
        assert!(two.has_value());
        assert_eq!(two.at(&["n".to_owned(), "m".to_owned()], &[1e6, 2.5], 3), ["a", "2.5", "1000000", "3"]);
    }

    #[test]
    fn commands_that_can_not_be_meant_are_refused() {
        for (text, parameters, said) in [
            ("a b", &["n"][..], "has no {n}"),
            ("a {n} {m}", &["n"], "names no m"),
            ("", &["n"], "is empty"),
            ("a '{n}", &["n"], "no second '"),
            ("a {n} | b", &["n"], "| means something to a shell"),
            ("a {n} > b", &["n"], "> means something to a shell"),
            ("a $X {n}", &["n"], "$ means something to a shell"),
        ] {
            assert!(parse(text, parameters).unwrap_err().to_string().contains(said), "{text}");
        }
    }
}
