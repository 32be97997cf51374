//! Random bodies: the code does what the evaluator says, and changes nothing else.
//!
//! Next: `evaluator` for what is expected, `preserved` for the state compared.

use crate::evaluator::{Evaluator, Memory};
use crate::script::{body, unit};
use crate::shown::shown;
use crate::world::{DATA, DATA_LEN, State, WATCHED, World};
use proptest::prelude::*;
use std::cell::RefCell;
use trimtab_snippet::emit::{FreeRegisters, compile};
use trimtab_snippet::ir::*;

const KINDS: [(Area, Kind); 16] = [
    (Area::Thread, Kind::Sum),
    (Area::Thread, Kind::Last),
    (Area::Process, Kind::Sum),
    (Area::Process, Kind::Last),
    (Area::Thread, Kind::SumFloat),
    (Area::Thread, Kind::LastFloat),
    (Area::Process, Kind::SumFloat),
    (Area::Process, Kind::LastFloat),
    (Area::Thread, Kind::Min),
    (Area::Thread, Kind::Max),
    (Area::Thread, Kind::MinFloat),
    (Area::Thread, Kind::MaxFloat),
    (Area::Thread, Kind::Mean),
    (Area::Thread, Kind::Histogram),
    (Area::Thread, Kind::Last),
    (Area::Thread, Kind::LastFloat),
];
/// Integer variables that may be read and set, those that are added to, and the same for floats.
const INTS: [usize; 4] = [0, 1, 2, 3];
const INT_SUMS: [usize; 2] = [0, 2];
const FLOATS: [usize; 4] = [4, 5, 6, 7];
const FLOAT_SUMS: [usize; 2] = [4, 6];
const INT_FOLDS: [usize; 5] = [8, 9, 12, 13, 14];
const FLOAT_FOLDS: [usize; 5] = [10, 11, 12, 13, 15];
/// Temporaries 0 and 1 are integers, 2 and 3 floats.
const TEMPORARIES: usize = 2;
const REGISTERS: [Register; 15] = [
    Register::Rax,
    Register::Rcx,
    Register::Rdx,
    Register::Rbx,
    Register::Rbp,
    Register::Rsi,
    Register::Rdi,
    Register::R8,
    Register::R9,
    Register::R10,
    Register::R11,
    Register::R12,
    Register::R13,
    Register::R14,
    Register::R15,
];
const WIDTHS: [Width; 4] = [Width::W8, Width::W16, Width::W32, Width::W64];
const FLOAT_WIDTHS: [Width; 2] = [Width::W32, Width::W64];
const INTEGER_OPERATORS: [Binary; 21] = [
    Binary::Add,
    Binary::Subtract,
    Binary::Multiply,
    Binary::Divide,
    Binary::DivideUnsigned,
    Binary::Remainder,
    Binary::RemainderUnsigned,
    Binary::And,
    Binary::Or,
    Binary::Xor,
    Binary::ShiftLeft,
    Binary::ShiftRight,
    Binary::ShiftRightUnsigned,
    Binary::Equal,
    Binary::NotEqual,
    Binary::Less,
    Binary::LessEqual,
    Binary::LessUnsigned,
    Binary::LessEqualUnsigned,
    Binary::Minimum,
    Binary::Maximum,
];
const FLOAT_OPERATORS: [Binary; 6] =
    [Binary::Add, Binary::Subtract, Binary::Multiply, Binary::Divide, Binary::Minimum, Binary::Maximum];
const FLOAT_COMPARISONS: [Binary; 4] = [Binary::Equal, Binary::NotEqual, Binary::Less, Binary::LessEqual];

fn one_of<T: Copy + std::fmt::Debug + 'static>(list: &'static [T]) -> impl Strategy<Value = T> {
    proptest::sample::select(list)
}

/// Numbers at which something changes, and any.
fn number() -> impl Strategy<Value = i64> {
    prop_oneof![
        -3i64..4,
        any::<i64>(),
        one_of(&[i64::MIN, i64::MAX, 1 << 31, (1 << 31) - 1, -(1 << 31), -(1 << 31) - 1, 1 << 32, 255, 256, 127, -128]),
    ]
}

fn float() -> impl Strategy<Value = f64> {
    prop_oneof![
        any::<f64>(),
        -100.0f64..100.0,
        one_of(&[0.0, -0.0, 1.0, -1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 9.3e18, -9.3e18, 1e-310]),
    ]
}

/// Addresses in the data are marked and moved there once the world is known.
const DATA_MARK: i64 = 0x7000_0000_0000_0000;

fn address(integer: BoxedStrategy<Expression>) -> impl Strategy<Value = Box<Expression>> {
    let inside = (-8i64..DATA_LEN as i64 + 8).prop_map(|offset| Expression::Int(DATA_MARK + offset));
    let computed = ((-8i64..DATA_LEN as i64 + 8), one_of(&REGISTERS)).prop_map(|(offset, register)| {
        let low =
            Expression::Binary(Binary::And, Box::new(Expression::Register(register)), Box::new(Expression::Int(0x1f)));
        Expression::Binary(Binary::Add, Box::new(low), Box::new(Expression::Int(DATA_MARK + offset)))
    });
    prop_oneof![4 => inside, 4 => computed, 1 => integer].prop_map(Box::new)
}

fn boxed(strategy: &BoxedStrategy<Expression>) -> impl Strategy<Value = Box<Expression>> + use<> {
    strategy.clone().prop_map(Box::new)
}

fn integer_leaf() -> BoxedStrategy<Expression> {
    let words = one_of(&[process_word::RANK, process_word::RANKS, process_word::STOPPED]);
    prop_oneof![
        number().prop_map(Expression::Int),
        one_of(&REGISTERS).prop_map(Expression::Register),
        (one_of(&REGISTERS), one_of(&WIDTHS), any::<bool>()).prop_map(|(register, width, signed)| {
            Expression::Unary(Unary::Narrow(width, signed), Box::new(Expression::Register(register)))
        }),
        one_of(&INTS).prop_map(|variable| Expression::Variable { variable }),
        (0..TEMPORARIES).prop_map(|temporary| Expression::Temporary { temporary, float: false }),
        words.prop_map(Expression::ProcessWord),
        Just(Expression::ThreadWord(thread_word::UNREADABLE)),
    ]
    .boxed()
}

fn float_leaf() -> BoxedStrategy<Expression> {
    prop_oneof![
        float().prop_map(Expression::Float),
        (0u8..16).prop_map(Expression::Vector),
        (0u8..16).prop_map(Expression::VectorSingle),
        one_of(&FLOATS).prop_map(|variable| Expression::Variable { variable }),
        (0..TEMPORARIES).prop_map(|number| Expression::Temporary { temporary: TEMPORARIES + number, float: true }),
    ]
    .boxed()
}

/// Integer and float expressions up to a depth.
fn expressions(depth: u32) -> (BoxedStrategy<Expression>, BoxedStrategy<Expression>) {
    if depth == 0 {
        return (integer_leaf(), float_leaf());
    }
    let (integer, float) = expressions(depth - 1);
    (deeper_integer(&integer, &float), deeper_float(&integer, &float))
}

fn deeper_integer(integer: &BoxedStrategy<Expression>, float: &BoxedStrategy<Expression>) -> BoxedStrategy<Expression> {
    let two = || (boxed(integer), boxed(integer));
    let narrow = (one_of(&WIDTHS), any::<bool>()).prop_map(|(width, signed)| Unary::Narrow(width, signed));
    let unary = prop_oneof![Just(Unary::Negate), Just(Unary::Not), Just(Unary::IsZero), Just(Unary::Absolute), narrow];
    prop_oneof![
        2 => integer_leaf(),
        4 => (one_of(&INTEGER_OPERATORS), two()).prop_map(|(op, (l, r))| Expression::Binary(op, l, r)),
        1 => (one_of(&FLOAT_COMPARISONS), boxed(float), boxed(float)).prop_map(|(op, l, r)| Expression::Binary(op, l, r)),
        2 => (unary, boxed(integer)).prop_map(|(op, operand)| Expression::Unary(op, operand)),
        1 => boxed(float).prop_map(|operand| Expression::Unary(Unary::ToInt, operand)),
        1 => two().prop_map(|(l, r)| Expression::And(l, r)),
        1 => two().prop_map(|(l, r)| Expression::Or(l, r)),
        1 => (boxed(integer), two()).prop_map(|(c, (l, r))| Expression::Select(c, l, r)),
        2 => (address(integer.clone()), one_of(&WIDTHS), any::<bool>())
            .prop_map(|(address, width, signed)| Expression::Load { address, width, signed }),
    ]
    .boxed()
}

fn deeper_float(integer: &BoxedStrategy<Expression>, float: &BoxedStrategy<Expression>) -> BoxedStrategy<Expression> {
    let conversion = prop_oneof![Just(Unary::ToFloat), Just(Unary::UnsignedToFloat)];
    let sign = prop_oneof![Just(Unary::Negate), Just(Unary::Absolute)];
    prop_oneof![
        2 => float_leaf(),
        4 => (one_of(&FLOAT_OPERATORS), boxed(float), boxed(float)).prop_map(|(op, l, r)| Expression::Binary(op, l, r)),
        1 => (sign, boxed(float)).prop_map(|(op, operand)| Expression::Unary(op, operand)),
        2 => (conversion, boxed(integer)).prop_map(|(op, operand)| Expression::Unary(op, operand)),
        1 => (boxed(integer), boxed(float), boxed(float)).prop_map(|(c, l, r)| Expression::Select(c, l, r)),
        1 => (address(integer.clone()), one_of(&FLOAT_WIDTHS))
            .prop_map(|(address, width)| Expression::LoadFloat { address, width }),
    ]
    .boxed()
}

fn statement(depth: u32, in_loop: bool) -> BoxedStrategy<Statement> {
    let (integer, float) = expressions(2);
    let simple = prop_oneof![
        (one_of(&INTS), integer.clone()).prop_map(|(variable, value)| Statement::Set { variable, value }),
        (one_of(&FLOATS), float.clone()).prop_map(|(variable, value)| Statement::Set { variable, value }),
        (one_of(&INT_SUMS), integer.clone()).prop_map(|(variable, value)| Statement::Add { variable, value }),
        (one_of(&FLOAT_SUMS), float.clone()).prop_map(|(variable, value)| Statement::Add { variable, value }),
        (one_of(&INT_FOLDS), integer.clone()).prop_map(|(variable, value)| Statement::Fold { variable, value }),
        (one_of(&FLOAT_FOLDS), float.clone()).prop_map(|(variable, value)| Statement::Fold { variable, value }),
        (0..TEMPORARIES, integer.clone()).prop_map(|(temporary, value)| Statement::Let { temporary, value }),
        (0..TEMPORARIES, float.clone())
            .prop_map(|(number, value)| Statement::Let { temporary: TEMPORARIES + number, value }),
        (address(integer.clone()), one_of(&WIDTHS), integer.clone())
            .prop_map(|(address, width, value)| Statement::Store { address: *address, width, value }),
        (address(integer.clone()), one_of(&FLOAT_WIDTHS), float.clone())
            .prop_map(|(address, width, value)| Statement::StoreFloat { address: *address, width, value }),
        (one_of(&REGISTERS), integer.clone()).prop_map(|(register, value)| Statement::SetRegister { register, value }),
    ];
    if depth == 0 {
        let leave = if in_loop { Statement::Break } else { Statement::Return };
        return prop_oneof![12 => simple, 1 => Just(leave), 1 => Just(Statement::Return), 1 => Just(Statement::Stop)]
            .boxed();
    }
    let branch = (integer.clone(), statements(depth - 1, in_loop), statements(depth - 1, in_loop))
        .prop_map(|(condition, then, otherwise)| Statement::If { condition, then, otherwise });
    let guard = (integer.clone(), statements(depth - 1, in_loop)).prop_map(|(condition, then)| Statement::If {
        condition,
        then,
        otherwise: Vec::new(),
    });
    let repeat = (integer, 0u32..4, statements(depth - 1, true))
        .prop_map(|(condition, bound, body)| Statement::While { condition, bound, body });
    prop_oneof![6 => simple, 2 => branch, 2 => guard, 1 => repeat].boxed()
}

fn statements(depth: u32, in_loop: bool) -> BoxedStrategy<Vec<Statement>> {
    proptest::collection::vec(statement(depth, in_loop), 1..4).boxed()
}

/// Flags that programs may set, interrupts allowed and the fixed bit.
fn flags() -> impl Strategy<Value = u64> {
    any::<u64>().prop_map(|bits| bits & 0x8d5 | 0x202)
}

fn state() -> impl Strategy<Value = State> {
    let vectors = proptest::collection::vec(float().prop_map(f64::to_bits), 64);
    // Rounding, denormals and flags as programs set them; exceptions may be unmasked.
    let mxcsr = any::<u32>().prop_map(|bits| bits & 0xffc0 | 0x1f80 & bits | bits & 0x1f);
    let general = proptest::collection::vec(number(), 16);
    (general, flags(), vectors, mxcsr).prop_map(|(general, flags, vectors, mxcsr)| State {
        general: std::array::from_fn(|number| general[number] as u64),
        flags,
        vectors: std::array::from_fn(|number| std::array::from_fn(|lane| vectors[4 * number + lane])),
        // Sticky exceptions that are unmasked would trap at the next instruction: programs never have those.
        mxcsr: mxcsr & !((!mxcsr >> 7) & 0x3f),
    })
}

/// Moves marked addresses to the world's data.
fn settle(expression: &mut Expression, data: i64) {
    match expression {
        Expression::Int(value) if (DATA_MARK - 8..DATA_MARK + 0x1000).contains(value) => *value += data - DATA_MARK,
        Expression::Load { address, .. } | Expression::LoadFloat { address, .. } => settle(address, data),
        Expression::Unary(_, operand) => settle(operand, data),
        Expression::Binary(_, left, right) | Expression::And(left, right) | Expression::Or(left, right) => {
            settle(left, data);
            settle(right, data);
        }
        Expression::Select(condition, one, other) => {
            settle(condition, data);
            settle(one, data);
            settle(other, data);
        }
        _ => {}
    }
}

fn settle_all(list: &mut [Statement], data: i64) {
    for statement in list {
        match statement {
            Statement::Set { value, .. }
            | Statement::Add { value, .. }
            | Statement::Fold { value, .. }
            | Statement::Let { value, .. }
            | Statement::SetRegister { value, .. } => settle(value, data),
            Statement::Store { address, value, .. } | Statement::StoreFloat { address, value, .. } => {
                settle(address, data);
                settle(value, data);
            }
            Statement::If { condition, then, otherwise } => {
                settle(condition, data);
                settle_all(then, data);
                settle_all(otherwise, data);
            }
            Statement::While { condition, body, .. } => {
                settle(condition, data);
                settle_all(body, data);
            }
            _ => {}
        }
    }
}

fn memory(world: &World, unit: &Unit, general: [u64; 16]) -> Memory {
    let words = |from: u64, bytes: u32| (0..bytes / 8).map(|number| world.word(from + 8 * u64::from(number))).collect();
    Memory {
        thread: words(world.expected_area(), unit.thread_bytes),
        process: words(world.areas.process.0, unit.process_bytes),
        data: world.read(world.base + DATA, DATA_LEN),
        general,
    }
}

thread_local! {
    static WORLDS: RefCell<[World; 2]> = RefCell::new([World::new(), World::far()]);
}

/// Runs a body twice, so that the second run finds what the first left.
fn check(list: &[Statement], state: &State, when: When, far: bool, free: FreeRegisters) {
    WORLDS.with_borrow_mut(|worlds| {
        let world = &mut worlds[usize::from(far)];
        world.reset();
        let mut unit = unit(&KINDS);
        let mut list = list.to_vec();
        settle_all(&mut list, (world.base + DATA) as i64);
        unit.bodies.push(body(when, list));
        let mut environment = world.environment(when);
        environment.free = free;
        let code = compile(&unit, &unit.bodies[0], &environment).expect("the body compiles");
        for _ in 0..2 {
            run_once(world, &unit, &code, state, when, free);
        }
    });
}

fn run_once(
    world: &mut World,
    unit: &Unit,
    code: &trimtab_snippet::emit::Code,
    state: &State,
    when: When,
    free: FreeRegisters,
) {
    let mut state = state.clone();
    state.general[4] = world.stack_pointer();
    let before = memory(world, unit, state.general);
    let mut evaluator = Evaluator::new(unit, world, &state, before.clone());
    let recording = before.process[process_word::RECORDING as usize / 8] != 0;
    if recording {
        evaluator.run(&unit.bodies[0].statements);
    }
    let mut expected = evaluator.memory.clone();
    let after = world.run(code, &state);
    let mut got = memory(world, unit, after.general);
    // The thread's taking of its area, and where it looked last, are not compared here.
    for memory in [&mut expected, &mut got] {
        memory.thread[thread_word::OWNER as usize / 8] = 0;
        memory.thread[thread_word::LAST_RANGE as usize / 8] = 0;
        memory.process[process_word::HOT_RANGES as usize / 8..process_word::FIRST_FREE as usize / 8].fill(0);
        memory.process.iter_mut().for_each(|word| *word = without_payload(*word));
        memory.thread.iter_mut().for_each(|word| *word = without_payload(*word));
    }
    let named = unit.bodies[0].statements.iter().map(|statement| format!("{statement:?}")).collect::<String>();
    for register in REGISTERS.into_iter().filter(|_| free != FreeRegisters::default()) {
        let mentioned =
            named.contains(&format!("register: {register:?}")) || named.contains(&format!("Register({register:?})"));
        if !mentioned {
            got.general[register as usize] = expected.general[register as usize];
        }
    }
    assert_eq!(got, expected, "{}", shown(code));
    assert_eq!(after.vectors, state.vectors, "{}", shown(code));
    assert_eq!(after.mxcsr, state.mxcsr, "{}", shown(code));
    let watched = if when == When::At {
        assert_eq!(after.flags, state.flags, "{}", shown(code));
        world.stack_pattern()[WATCHED as usize - 128..].to_vec()
    } else {
        world.stack_pattern()[WATCHED as usize..].to_vec()
    };
    let stack = world.stack();
    assert_eq!(stack[stack.len() - watched.len()..], watched, "{}", shown(code));
}

/// All values that are no numbers are one bit pattern: which one comes out of an operation is nobody's business.
fn without_payload(bits: u64) -> u64 {
    if f64::from_bits(bits).is_nan() { f64::NAN.to_bits() } else { bits }
}

/// Every comparison in every form, just below, at and just above the border.
#[test]
fn comparisons_are_right_at_their_borders() {
    let narrow =
        |width, signed| Expression::Unary(Unary::Narrow(width, signed), Box::new(Expression::Register(Register::Rsi)));
    let forms = [
        Expression::Register(Register::Rsi),
        Expression::Register(Register::Rax),
        narrow(Width::W8, true),
        narrow(Width::W8, false),
        narrow(Width::W16, true),
        narrow(Width::W32, true),
        narrow(Width::W32, false),
        Expression::Variable { variable: 3 },
    ];
    for border in [0, -1, 127, 1 << 31, i64::MIN, i64::MAX] {
        for value in [border - (border > i64::MIN) as i64, border, border + (border < i64::MAX) as i64] {
            let mut state = State::zero();
            state.general = [value as u64; 16];
            state.general[Register::Rdi as usize] = border as u64;
            for (form, operator) in forms.iter().flat_map(|form| COMPARISONS.map(|operator| (form, operator))) {
                for constant in [Expression::Int(border), Expression::Register(Register::Rdi)] {
                    check_border(form, operator, &constant, value, &state);
                }
            }
        }
    }
}

const COMPARISONS: [Binary; 6] =
    [Binary::Equal, Binary::NotEqual, Binary::Less, Binary::LessEqual, Binary::LessUnsigned, Binary::LessEqualUnsigned];

/// Both ways round, plain and denied, before anything is saved (the variable keeps its value from the first run).
fn check_border(form: &Expression, operator: Binary, constant: &Expression, value: i64, state: &State) {
    let compare = |left: &Expression, right: &Expression| {
        Expression::Binary(operator, Box::new(left.clone()), Box::new(right.clone()))
    };
    let count = |variable| vec![Statement::Add { variable, value: Expression::Int(1) }];
    for condition in [compare(form, constant), compare(constant, form)] {
        let denied = Expression::Unary(Unary::IsZero, Box::new(condition.clone()));
        if !matches!(form, Expression::Variable { .. }) {
            for condition in [condition.clone(), denied.clone()] {
                let list = [Statement::If { condition, then: count(0), otherwise: Vec::new() }];
                check(&list, state, When::At, false, FreeRegisters::default());
            }
        }
        let list = [
            Statement::Set { variable: 3, value: Expression::Int(value) },
            Statement::If { condition, then: count(0), otherwise: count(2) },
            Statement::If { condition: denied, then: count(0), otherwise: count(2) },
        ];
        check(&list, state, When::Entry, false, FreeRegisters::default());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 20_000, ..ProptestConfig::default() })]

    #[test]
    fn code_does_what_the_tree_says(
        list in statements(1, false),
        state in state(),
        inside in any::<bool>(),
        far in any::<bool>(),
        free in prop_oneof![Just(FreeRegisters::default()), Just(FreeRegisters::of(&REGISTERS))],
    ) {
        check(&list, &state, if inside { When::At } else { When::Entry }, far, free);
    }

    /// Conditions alone: the forms that are tested without saving anything first.
    #[test]
    fn conditions_without_saving_are_right(
        left in integer_leaf(),
        right in integer_leaf(),
        operator in one_of(&INTEGER_OPERATORS),
        state in state(),
        inside in any::<bool>(),
        far in any::<bool>(),
    ) {
        let condition = Expression::Binary(operator, Box::new(left), Box::new(right));
        let then = vec![Statement::Add { variable: 0, value: Expression::Int(1) }];
        let list = vec![Statement::If { condition, then, otherwise: Vec::new() }];
        check(&list, &state, if inside { When::At } else { When::Exit }, far, FreeRegisters::default());
    }
}
