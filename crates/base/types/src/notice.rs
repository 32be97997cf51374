//! Sentences of services for whoever runs them, such as a journal. Libraries say them; the program decides where they go.
//!
//! They are for people, and nothing depends on them: what a caller acts on is a value or an error.
//!
//! Next: agents and the controller, which say most of these.

use std::sync::OnceLock;

static HEARD_BY: OnceLock<fn(&str)> = OnceLock::new();

/// From now on all sentences of this program go there; only the first call counts. Before it they go nowhere.
pub fn hear_notices(heard_by: fn(&str)) {
    let _first = HEARD_BY.set(heard_by);
}

/// Says a sentence.
pub fn notice(text: &str) {
    if let Some(heard_by) = HEARD_BY.get() {
        heard_by(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    static HEARD: Mutex<Vec<String>> = Mutex::new(Vec::new());

    #[test]
    fn sentences_go_where_the_program_wants_them() {
        notice("nobody hears it");
        hear_notices(|text| HEARD.lock().expect("nobody fails").push(text.to_owned()));
        hear_notices(|_| panic!("only the first call counts"));
        notice("an agent is gone");
        assert_eq!(*HEARD.lock().expect("nobody fails"), ["an agent is gone"]);
    }
}
