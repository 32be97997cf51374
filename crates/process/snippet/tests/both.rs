//! Random scripts from text to machine code and run there, and run by the reference: both leave the same areas behind.
//!
//! Next: `emit/agree`, which compares; `emit/values`, which makes random trees that no script means; `language` for what scripts mean.

#[path = "emit/agree.rs"]
mod agree;
mod common;
#[path = "emit/world.rs"]
#[allow(dead_code, reason = "the back end's own tests use all of it")]
mod world;

use agree::{LEAVES, OPERATORS, PREFIXES, compare, state};
use common::survive::{ALL, facts};
use proptest::prelude::*;
use std::cell::RefCell;
use trimtab_snippet::compile;
use world::World;

thread_local!(static WORLD: RefCell<World> = RefCell::new(World::new()));

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn code_does_what_the_reference_does(
        statements in prop::collection::vec(statement(), 1..6),
        seeds in any::<[u64; 4]>(),
        small in -5..5_i64,
    ) {
        let script = format!("process int k; entry solve {{ {} }}", statements.join("; "));
        if let Ok(compiled) = compile(&script, facts(), ALL) {
            WORLD.with_borrow_mut(|world| compare(world, &compiled.unit, &state(world, seeds, small), &script));
        }
    }
}

fn expression() -> impl Strategy<Value = String> {
    prop::sample::select(LEAVES).prop_map(str::to_string).boxed().prop_recursive(5, 40, 3, |inner| {
        let two = (inner.clone(), inner.clone());
        prop_oneof![
            (inner.clone(), prop::sample::select(OPERATORS), inner.clone())
                .prop_map(|(a, o, b)| format!("{a} {o} {b}")),
            two.clone().prop_map(|(a, b)| format!("({a}) - {b}")),
            two.clone().prop_map(|(a, b)| format!("max({a}, {b}) + min({b}, {a})")),
            (prop::sample::select(PREFIXES), inner.clone()).prop_map(|(o, a)| format!("{o}({a})")),
            (inner.clone(), two).prop_map(|(a, (b, c))| format!("({a} ? {b} : {c})")),
            inner.prop_map(|a| format!("abs({a})")),
        ]
    })
}

fn statement() -> impl Strategy<Value = String> {
    let two = || (expression(), expression());
    prop_oneof![
        expression().prop_map(|e| format!("x = {e}")),
        expression().prop_map(|e| format!("n += {e}")),
        expression().prop_map(|e| format!("k += {e}")),
        expression().prop_map(|e| format!("h = hist({e})")),
        expression().prop_map(|e| format!("lo = min({e})")),
        expression().prop_map(|e| format!("hi = max({e})")),
        expression().prop_map(|e| format!("av = mean({e})")),
        Just("st = stack()".to_string()),
        Just("if (n > 5) stop()".to_string()),
        two().prop_map(|(a, b)| format!("if ({a}) {{ y = {b} }} else y = 1")),
        two().prop_map(|(a, b)| format!("while ({a}) limit 3 {{ z -= {b}; if (z < 4) break; }}")),
        expression().prop_map(|e| format!("repeat 2 {{ let t = {e}; w = mean(t) }}")),
        expression().prop_map(|e| format!("if ({e}) return")),
        expression().prop_map(|e| format!("eq += (char *)({e}) == \"abc\"")),
    ]
}
