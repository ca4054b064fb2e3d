//! Lets other calls go on while one works on a long list.

/// Items of a long list that are worked on before other calls have their turns.
const ITEMS: usize = 64;

/// Lets other calls go on after every 64 items of a long list.
///
/// - `index`: of the next item.
pub async fn give_turn(index: usize) {
    if index > 0 && index.is_multiple_of(ITEMS) {
        tokio::task::yield_now().await;
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[tokio::test]
    async fn others_have_a_turn_before_a_long_list_is_done() {
        let done = Cell::new(0);
        let list = async {
            for index in 0..=2 * ITEMS {
                give_turn(index).await;
                done.set(index);
            }
        };
        let other = async { done.get() };
        assert_eq!(tokio::join!(list, other).1, ITEMS - 1);
    }
}
