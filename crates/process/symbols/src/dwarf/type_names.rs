//! Types in words, as their language writes them: for messages, and to compare with what people write.
//!
//! Next: `types` for what is named.

use super::types::{Qualifier, RecordKind, TypeId, TypeKind, Types};

/// Types that one name is made of at most: a type may contain itself.
const PARTS_MAX: usize = 128;
/// Types within each other in one name at most.
const NESTING_MAX: usize = 32;

impl Types {
    /// A type's name as its language writes it: `const struct foo *`, `int [10]`, `int (*)(void *)`.
    pub fn name(&self, id: TypeId) -> String {
        Namer { types: self, parts_left: PARTS_MAX }.name(id, 0)
    }
}

struct Namer<'t> {
    types: &'t Types,
    parts_left: usize,
}

impl Namer<'_> {
    fn name(&mut self, id: TypeId, nesting: usize) -> String {
        let types = self.types;
        let Some(found) = types.get(id).filter(|_| nesting < NESTING_MAX && self.parts_left > 0) else {
            return "...".to_string();
        };
        self.parts_left -= 1;
        let own = || found.name.clone().unwrap_or_else(|| "(anonymous)".to_string());
        match &found.kind {
            TypeKind::Void => "void".to_string(),
            TypeKind::Pointer(target) => self.pointer(*target, nesting),
            TypeKind::Reference { target, is_rvalue } => {
                format!("{} {}", self.name(*target, nesting + 1), if *is_rvalue { "&&" } else { "&" })
            }
            TypeKind::MemberPointer(target) => format!("{} ::*", self.name(*target, nesting + 1)),
            TypeKind::Record { kind, .. } => format!("{} {}", word(*kind), own()),
            TypeKind::Enumeration { .. } => format!("enum {}", own()),
            TypeKind::Array { element, dimensions, .. } => {
                let counts = dimensions.iter().map(|dimension| match dimension.count.constant() {
                    Some(count) => format!("[{count}]"),
                    None => "[]".to_string(),
                });
                format!("{} {}", self.name(*element, nesting + 1), counts.collect::<String>())
            }
            TypeKind::Qualified(qualifier, target) => self.qualified(*qualifier, *target, nesting),
            TypeKind::Function { result, parameters, .. } => self.code("", *result, parameters, nesting),
            TypeKind::Base(_) | TypeKind::Typedef(_) | TypeKind::Text { .. } | TypeKind::Other(_) => own(),
        }
    }

    fn pointer(&mut self, target: TypeId, nesting: usize) -> String {
        match self.types.get(target).map(|target| &target.kind) {
            Some(TypeKind::Function { result, parameters, .. }) => self.code("(*)", *result, parameters, nesting),
            Some(TypeKind::Pointer(_)) => format!("{}*", self.name(target, nesting + 1)),
            _ => format!("{} *", self.name(target, nesting + 1)),
        }
    }

    fn qualified(&mut self, qualifier: Qualifier, target: TypeId, nesting: usize) -> String {
        let word = match qualifier {
            Qualifier::Const => "const",
            Qualifier::Volatile => "volatile",
            Qualifier::Restrict => "restrict",
            Qualifier::Atomic => "_Atomic",
        };
        let inner = self.name(target, nesting + 1);
        match self.types.get(target).map(|target| &target.kind) {
            Some(TypeKind::Pointer(_)) => format!("{inner} {word}"),
            _ => format!("{word} {inner}"),
        }
    }

    fn code(&mut self, middle: &str, result: TypeId, parameters: &[TypeId], nesting: usize) -> String {
        let result = self.name(result, nesting + 1);
        let parameters: Vec<String> =
            parameters.iter().take(self.parts_left + 1).map(|id| self.name(*id, nesting + 1)).collect();
        format!("{result} {middle}({})", parameters.join(", "))
    }
}

fn word(kind: RecordKind) -> &'static str {
    match kind {
        RecordKind::Struct => "struct",
        RecordKind::Class => "class",
        RecordKind::Union => "union",
    }
}
