//! Names for what a program calls its own, as WGSL identifiers.
//!
//! A name stays as it is where it can. Dots become underscores, and what WGSL or the shader itself already uses gets a
//! number behind it. Values and locals share one namespace in WGSL, and their body has its own above the module's.

use std::collections::HashSet;

/// WGSL's keywords, its reserved words, and what it declares.
const WGSL: &str = "
alias break case const const_assert continue continuing default diagnostic discard else enable false fn for if let loop
override requires return struct switch true var while NULL Self abstract active alignas alignof as asm asm_fragment
async attribute auto await become cast catch class co_await co_return co_yield coherent column_major common compile
compile_fragment concept const_cast consteval constexpr constinit crate debugger decltype delete demote
demote_to_helper do dynamic_cast enum explicit export extends extern external fallthrough filter final finally friend
from fxgroup get goto groupshared highp impl implements import inline instanceof interface layout lowp macro
macro_rules match mediump meta mod module move mut mutable namespace new nil noexcept noinline nointerpolation
non_coherent noncoherent noperspective null nullptr of operator package packoffset partition pass patch pixelfragment
precise precision premerge priv protected pub public readonly ref regardless register reinterpret_cast require resource
restrict self set shared sizeof smooth snorm static static_assert static_cast std subroutine super target template this
thread_local throw trait try type typedef typeid typename typeof union unless unorm unsafe unsized use using varying
virtual volatile wgsl where with writeonly yield
bool i32 u32 f32 f16 vec2 vec3 vec4 vec2i vec3i vec4i vec2u vec3u vec4u vec2f vec3f vec4f vec2h vec3h vec4h array atomic
ptr read write read_write function private workgroup uniform storage bitcast all any select arrayLength abs clamp
countLeadingZeros countOneBits countTrailingZeros extractBits insertBits max min reverseBits atomicLoad atomicStore
atomicAdd atomicSub atomicMax atomicMin atomicAnd atomicOr atomicXor atomicExchange atomicCompareExchangeWeak
storageBarrier workgroupBarrier workgroupUniformLoad";

/// What WGSL declares for floats: taken where a shader computes on them.
const FLOATS: &str = "sqrt fma floor ceil trunc round";

/// What the shader calls its own variables and parameters.
const SHADER: &str = "
main input output params lookup tables launch status locks grid group launched_id workgroup_id local_id local_index lane_values staged has_stopped";

/// The names of a module, or of a body in one.
#[derive(Default)]
pub(super) struct Names {
    taken: HashSet<String>,
}

impl Names {
    /// The names that no program may have.
    pub(super) fn reserved() -> Names {
        let words = WGSL.split_whitespace().chain(SHADER.split_whitespace());
        Names { taken: words.map(str::to_owned).collect() }
    }

    /// Keeps the functions on floats for the shader.
    pub(super) fn reserve_floats(&mut self) {
        FLOATS.split_whitespace().for_each(|name| self.reserve(name));
    }

    /// Makes sure that nothing gets this name.
    pub(super) fn reserve(&mut self, name: &str) {
        self.taken.insert(name.to_owned());
    }

    /// A name like `wanted` that is free here and in `outer`, alone and with any of `endings` behind it.
    pub(super) fn claim(&mut self, outer: Option<&Names>, wanted: &str, endings: &[String]) -> String {
        let base = identifier(wanted);
        let is_free = |name: &String| {
            !self.taken.contains(name) && outer.is_none_or(|outer| !outer.taken.contains(name))
        };
        let fits = |name: &String| {
            is_free(name) && endings.iter().all(|ending| is_free(&format!("{name}_{ending}")))
        };
        let numbered = (2..).map(|number: u32| format!("{base}_{number}"));
        let name = std::iter::once(base.clone()).chain(numbered).find(fits).expect("numbers do not end");
        self.taken.extend(endings.iter().map(|ending| format!("{name}_{ending}")));
        self.taken.insert(name.clone());
        name
    }
}

/// An identifier near a name. WGSL's start with a letter here: two leading underscores are not allowed, nor one alone.
fn identifier(name: &str) -> String {
    let clean: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    match clean.starts_with(|c: char| c.is_ascii_alphabetic()) {
        true => clean,
        false => format!("v{clean}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::library::{accesses, helpers, words};
    use super::*;

    #[test]
    fn names_stay_where_they_can() {
        let outer = Names::reserved();
        let mut names = Names::default();
        let mut claim = |wanted: &str| names.claim(Some(&outer), wanted, &[]);
        assert_eq!(claim("live"), "live");
        assert_eq!(claim("live"), "live_2");
        assert_eq!(claim("x.f32"), "x_f32");
        assert_eq!(claim("x_f32"), "x_f32_2");
        assert_eq!(claim("7"), "v7");
        assert_eq!(claim("__a"), "v__a");
        assert_eq!(claim("_"), "v_");
        assert_eq!(claim("select"), "select_2");
        assert_eq!(names.claim(None, "tile", &["load".into()]), "tile");
        assert_eq!(names.claim(None, "tile_load", &[]), "tile_load_2");
    }

    #[test]
    fn nothing_that_the_library_calls_is_free() {
        let mut names = Names::reserved();
        names.reserve_floats();
        let library: Vec<_> = helpers().into_iter().chain(accesses()).collect();
        for helper in &library {
            let behind = |before: &'static str| words(before).last().filter(|word| before.ends_with(word));
            let called = helper.text.split('(').filter_map(behind);
            for word in called.filter(|word| !word.starts_with("SPACE_")) {
                let is_own = library.iter().any(|helper| helper.name == word);
                assert!(is_own || names.taken.contains(word), "{word} of {}", helper.name);
            }
        }
    }

    #[test]
    fn no_word_of_the_language_is_free() {
        let names = Names::reserved();
        for word in naga::keywords::wgsl::RESERVED {
            assert!(names.taken.contains(*word), "{word}");
        }
    }
}
