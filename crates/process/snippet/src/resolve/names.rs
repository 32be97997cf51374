//! Names: what `x`, `::x`, `$x` and `$0` mean at a place.
//!
//! Next: `crate::facts`, who is asked.

use super::body::Lowering;
use super::operand::{At, Operand, binary};
use super::parts::Lowered;
use super::places::Moment;
use super::variables::RESERVED;
use crate::error::{Code, Problem, Span};
use crate::facts::{Argument, FunctionId, Location, NoObject, Object};
use crate::ir::{Binary, Expression, Register, process_word, thread_word};
use crate::syntax::Name;
use crate::table::ARGUMENT_REGISTERS;
use crate::types::Type;

/// General registers as they are written.
const REGISTERS: &[(&str, Register)] = &[
    ("rax", Register::Rax),
    ("rcx", Register::Rcx),
    ("rdx", Register::Rdx),
    ("rbx", Register::Rbx),
    ("rsp", Register::Rsp),
    ("rbp", Register::Rbp),
    ("rsi", Register::Rsi),
    ("rdi", Register::Rdi),
    ("r8", Register::R8),
    ("r9", Register::R9),
    ("r10", Register::R10),
    ("r11", Register::R11),
    ("r12", Register::R12),
    ("r13", Register::R13),
    ("r14", Register::R14),
    ("r15", Register::R15),
    ("rip", Register::Rip),
];
/// Float arguments that go in registers.
const VECTOR_ARGUMENTS: i64 = 8;

impl Lowering<'_, '_> {
    /// The meaning of a name.
    pub fn name(&mut self, name: &Name, span: Span) -> Lowered<Operand> {
        let Name::Plain(plain) = name else { return self.global(name, span) };
        if let Some((temporary, kind)) = self.local(plain) {
            let float = matches!(kind, Type::Float(_));
            return Ok(Operand { kind, at: At::Value(Expression::Temporary { temporary, float }) });
        }
        if let Some(builtin) = self.builtin(plain, span)? {
            return Ok(Operand { kind: Type::LONG, at: At::Value(builtin) });
        }
        if let Some(variable) = self.resolver.variables.find(plain) {
            let (kind, value) = self.own_value(variable, span)?;
            return Ok(Operand { kind, at: At::Value(value) });
        }
        if let Some(site) = self.here.site {
            self.asked = true;
            if let Some(object) = self.resolver.facts.local(site, plain) {
                return self.object(object, span);
            }
        }
        self.global(name, span)
    }

    fn builtin(&mut self, name: &str, span: Span) -> Lowered<Option<Expression>> {
        Ok(Some(match name {
            "elapsed" => self.elapsed(span)?,
            "now" => Expression::Now,
            "rank" => Expression::ProcessWord(process_word::RANK),
            "ranks" => Expression::ProcessWord(process_word::RANKS),
            "thread" => Expression::ThreadWord(thread_word::THREAD),
            "cpu" => Expression::Processor,
            _ => return Ok(None),
        }))
    }

    fn global(&mut self, name: &Name, span: Span) -> Lowered<Operand> {
        let facts = self.resolver.facts;
        if let Name::Plain(_) = name
            && self.here.function.is_some()
        {
            self.asked = true;
        }
        let from = self.here.function.filter(|_| matches!(name, Name::Plain(_)));
        let (Name::Plain(spelt) | Name::Global(spelt) | Name::Static { name: spelt, .. }) = name;
        match facts.global(name, from) {
            Ok(object) => self.object(object, span),
            Err(NoObject::Unusable(reason)) => Err(Problem::new(Code::NotHere, span, reason)),
            Err(NoObject::Ambiguous(which)) => {
                let message = format!("there are several variables `{spelt}`");
                Err(Problem::new(Code::AmbiguousName, span, message)
                    .expected(which.iter().map(|one| format!("`{one}`"))))
            }
            Err(NoObject::Unknown) => match facts.enumerator(spelt).filter(|_| !matches!(name, Name::Static { .. })) {
                Some(value) => Ok(Operand { kind: Type::LONG, at: At::Value(Expression::Int(value)) }),
                None => Err(self.unknown(spelt, span)),
            },
        }
    }

    fn unknown(&self, name: &str, span: Span) -> Problem {
        let facts = self.resolver.facts;
        let mut known: Vec<String> = RESERVED.iter().map(ToString::to_string).collect();
        known.extend(self.locals.iter().flatten().map(|(name, _, _)| name.clone()));
        known.extend(self.resolver.variables.user_names().map(str::to_string));
        known.extend(self.here.site.map(|site| facts.local_names(site)).unwrap_or_default());
        known.extend(facts.global_names(name));
        let arguments = self.argument_names();
        let problem = Problem::new(Code::UnknownName, span, format!("`{name}` is not known here"));
        if arguments.iter().any(|argument| argument == name) {
            return problem.near("", [""; 0]).help(format!("arguments are written with a dollar sign: `${name}`"));
        }
        match self.missing() {
            Some(reason) => problem.near(name, known).help(reason),
            None => problem.near(name, known),
        }
    }

    /// Why arguments and variables of the function at hand have no names, if a file is missing for it.
    pub(super) fn missing(&self) -> Option<String> {
        let function = self.subject().or(self.here.function)?;
        self.resolver.facts.missing(function)
    }

    /// The meaning of `$name`, `$0`, `$ret`, `$rax`.
    pub fn dollar(&mut self, name: &str, span: Span) -> Lowered<Operand> {
        if self.here.moment == Moment::Nowhere {
            let message =
                format!("there is no `${name}` here: clocks and conditions belong to no place of the program");
            return Err(Problem::new(Code::NotHere, span, message));
        }
        if let Ok(index) = name.parse::<usize>() {
            return self.argument(index, span);
        }
        if let "ret" | "fret" = name {
            return self.returned(name, span);
        }
        if name == "unwound" {
            let value = Expression::Int(self.was_left(span)?);
            return Ok(Operand { kind: Type::LONG, at: At::Value(value) });
        }
        if let Some(object) = self.named_object(name) {
            self.asked = true;
            return self.object(object, span);
        }
        if let Some(number) = name.strip_prefix('f').and_then(|number| number.parse::<i64>().ok()) {
            return self.float_argument(number, span);
        }
        if let Some((_, register)) = REGISTERS.iter().find(|(known, _)| *known == name) {
            if self.here.moment == Moment::Left {
                let message = format!("`${name}` is long gone where a call was left; this body asks `$unwound`");
                return Err(Problem::new(Code::NotHere, span, message)
                    .help("use registers in another body: `exit f { ... $rsp ... } exit f { ... $unwound ... }`"));
            }
            return Ok(Operand { kind: Type::LONG, at: At::Register(*register) });
        }
        Err(self.unknown_dollar(name, span))
    }

    /// The function whose arguments or return value are at hand.
    fn subject(&self) -> Option<FunctionId> {
        match self.here.moment {
            Moment::Entry | Moment::Exit | Moment::Left => self.here.function,
            Moment::Before | Moment::After => self.here.callee,
            Moment::Inside | Moment::Nowhere => None,
        }
    }

    fn arguments(&mut self) -> Option<Vec<Argument>> {
        let subject = self.subject()?;
        self.asked = true;
        self.resolver.facts.signature(subject).arguments
    }

    fn argument_names(&self) -> Vec<String> {
        let arguments = self.subject().and_then(|subject| self.resolver.facts.signature(subject).arguments);
        arguments.into_iter().flatten().map(|argument| argument.name).filter(|name| !name.is_empty()).collect()
    }

    /// An argument by name, or a local variable at a site.
    fn named_object(&mut self, name: &str) -> Option<Object> {
        if let Moment::Entry | Moment::Before = self.here.moment
            && let Some(found) = self.arguments()?.into_iter().find(|argument| argument.name == name)
        {
            return Some(found.object);
        }
        let site = self.here.site?;
        self.asked = true;
        self.resolver.facts.local(site, name)
    }

    fn arguments_are_here(&self, span: Span) -> Lowered<()> {
        let (message, help) = match self.here.moment {
            Moment::Entry | Moment::Before => return Ok(()),
            Moment::Exit | Moment::After | Moment::Left => (
                "arguments are gone by the time the function returns",
                "keep it at the entry: `thread int kept; entry f { kept = $0 } exit f { ... kept ... }`",
            ),
            _ => (
                "arguments are known by number at entries of functions and before calls only",
                "write the name of a variable of the function, or a register such as `$rdi`",
            ),
        };
        Err(Problem::new(Code::NotHere, span, message).help(help))
    }

    fn argument(&mut self, index: usize, span: Span) -> Lowered<Operand> {
        self.arguments_are_here(span)?;
        let by_number = self.subject().is_some_and(|subject| self.resolver.facts.signature(subject).by_number);
        if let Some(arguments) = self.arguments() {
            match arguments.into_iter().nth(index) {
                Some(Argument { object: Object { location: Location::Gone(_), .. }, .. }) | None if by_number => {}
                Some(argument) => return self.object(argument.object, span),
                None => return Err(self.no_such_argument(index, span)),
            }
        }
        let location = match ARGUMENT_REGISTERS.get(index) {
            Some(register) => Location::Register(*register),
            None if index < 64 => Location::Stack(8 * (index - ARGUMENT_REGISTERS.len()) as i64),
            None => return Err(self.no_such_argument(index, span)),
        };
        self.object(Object { kind: Type::LONG, location }, span)
    }

    fn no_such_argument(&self, index: usize, span: Span) -> Problem {
        let function = self
            .subject()
            .map_or("the function".to_string(), |subject| format!("`{}`", self.resolver.facts.function_name(subject)));
        let names = self.argument_names();
        let problem = Problem::new(Code::UnknownName, span, format!("{function} has no argument number {index}"));
        problem.expected(names.iter().zip(0..).map(|(name, index)| format!("`${index}` ({name})")))
    }

    fn float_argument(&mut self, number: i64, span: Span) -> Lowered<Operand> {
        self.arguments_are_here(span)?;
        if (0..VECTOR_ARGUMENTS).contains(&number) {
            return Ok(Operand { kind: Type::DOUBLE, at: At::Vector(number as u8) });
        }
        let problem = Problem::new(Code::UnknownName, span, format!("there is no float register for `$f{number}`"));
        Err(problem.expected(["`$f0` to `$f7`"]))
    }

    fn returned(&mut self, name: &str, span: Span) -> Lowered<Operand> {
        if !matches!(self.here.moment, Moment::Exit | Moment::After | Moment::Left) {
            let problem =
                Problem::new(Code::NotHere, span, format!("`${name}` is known at exits and after calls only"));
            return Err(problem.help("write `exit FUNCTION { ... }`"));
        }
        if self.here.moment == Moment::Left {
            return self.nothing_returned(name, span);
        }
        if name == "fret" {
            return Ok(Operand { kind: Type::DOUBLE, at: At::Vector(0) });
        }
        let known = self.subject().and_then(|subject| {
            self.asked = true;
            self.resolver.facts.signature(subject).returned
        });
        match known {
            Some(Object { kind: Type::Void, .. }) => {
                Err(Problem::new(Code::NotHere, span, "the function returns nothing (void)"))
            }
            Some(object) => self.object(object, span),
            None => Ok(Operand { kind: Type::LONG, at: At::Register(Register::Rax) }),
        }
    }

    /// The result of a call that was left without one: zero.
    fn nothing_returned(&mut self, name: &str, span: Span) -> Lowered<Operand> {
        self.asked = true;
        let signature = self.subject().map(|subject| self.resolver.facts.signature(subject));
        let known = signature.and_then(|signature| signature.returned).map(|object| object.kind);
        let kind = if name == "fret" { Type::DOUBLE } else { known.unwrap_or(Type::LONG) };
        let value = match kind {
            Type::Float(_) => Expression::Float(0.0),
            Type::Int { .. } | Type::Pointer(_) | Type::Datatype(_) => Expression::Int(0),
            _ => {
                let message = "what the function returns can't be looked at in a body that asks `$unwound`";
                return Err(Problem::new(Code::NotHere, span, message));
            }
        };
        Ok(Operand { kind, at: At::Value(value) })
    }

    fn unknown_dollar(&self, name: &str, span: Span) -> Problem {
        let arguments = self.argument_names();
        if arguments.iter().any(|argument| argument == name) {
            return self.arguments_are_here(span).err().unwrap_or_else(|| self.unknown(name, span));
        }
        let function = self.subject().map(|subject| self.resolver.facts.function_name(subject));
        let of = function.map_or(String::new(), |function| format!(" of `{function}`"));
        let problem = Problem::new(Code::UnknownName, span, format!("`${name}`{of} is not known"));
        let mut known = match self.here.moment {
            Moment::Exit | Moment::After | Moment::Left => vec!["ret".to_string(), "unwound".to_string()],
            _ => arguments,
        };
        known.extend(self.here.site.map(|site| self.resolver.facts.local_names(site)).unwrap_or_default());
        let known: Vec<String> = known.iter().map(|known| format!("${known}")).collect();
        let expected = known.iter().take(12).map(|known| format!("`{known}`"));
        let problem = problem.near(&format!("${name}"), &known).expected(expected);
        match self.missing() {
            Some(reason) => problem.help(reason),
            None => problem,
        }
    }

    fn object(&mut self, object: Object, span: Span) -> Lowered<Operand> {
        let offset = |base: Expression, offset: i64| At::Memory(binary(Binary::Add, base, Expression::Int(offset)));
        let at = match object.location {
            Location::Register(register) => At::Register(register),
            Location::Vector(number) => At::Vector(number),
            Location::Stack(behind) => {
                let return_address = if self.here.moment == Moment::Entry { 8 } else { 0 };
                offset(Expression::Register(Register::Rsp), behind + return_address)
            }
            Location::Relative(register, behind) => offset(Expression::Register(register), behind),
            Location::Address(address) => At::Memory(Expression::Int(address.0 as i64)),
            Location::Constant(value) => At::Value(Expression::Int(value)),
            Location::Gone(reason) => return Err(Problem::new(Code::NotHere, span, reason)),
        };
        Ok(Operand { kind: object.kind, at })
    }
}
