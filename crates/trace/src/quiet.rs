//! Code of others that may panic on damaged input.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// What `f` returns; none if it panics, of which nothing is printed.
pub fn quietly<T>(f: impl FnOnce() -> T) -> Option<T> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |panic| {
            if !QUIET.get() {
                before(panic);
            }
        }));
    });
    let before = QUIET.replace(true);
    let result = catch_unwind(AssertUnwindSafe(f));
    QUIET.set(before);
    result.ok()
}

#[cfg(test)]
mod tests {
    use super::quietly;

    #[test]
    fn a_panic_is_none_and_the_next_one_is_told_of() {
        assert_eq!(quietly(|| 3), Some(3));
        assert_eq!(quietly(|| -> u8 { panic!("of no interest") }), None);
        assert!(!super::QUIET.get());
        assert_eq!(quietly(|| quietly(|| -> u8 { panic!("of no interest") }).is_none()), Some(true));
    }
}
