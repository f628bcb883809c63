use super::*;
use crate::journal::sqlite::schema;
use std::ops::Range;

fn tables() -> Connection {
    let mut connection = Connection::open_in_memory().unwrap();
    schema::migrate(&mut connection, 0).unwrap();
    connection
}

fn name(number: i64) -> Name {
    let hash: [u8; 32] = Sha256::digest(number.to_le_bytes()).into();
    std::array::from_fn(|i| hash[i])
}

/// Settled entries, with their names in a run.
fn settle(connection: &Connection, slots: Range<i64>) {
    let sql = "INSERT INTO entries VALUES (?1, ?2, 1, 3, 1, 0, 0, 0, '', x'00')";
    for slot in slots.clone() {
        connection.execute(sql, (slot, name(slot))).unwrap();
    }
    add(connection, slots.map(|slot| (name(slot), slot)).collect()).unwrap();
}

fn known(connection: &Connection) -> Names {
    let mut names = Names::default();
    names.refresh(connection).unwrap();
    names
}

fn found(connection: &Connection, slots: Range<i64>) -> Vec<i64> {
    let mut names = known(connection);
    let slots = slots.filter_map(|slot| names.slot_of(connection, &name(slot)).unwrap());
    slots.collect()
}

fn merge_all(connection: &Connection) {
    while !alike(connection).unwrap().is_empty() {
        merge(connection, &|| true).unwrap();
    }
}

fn everything(range: Range<i64>) -> Vec<i64> {
    range.collect()
}

#[test]
fn every_name_is_found_and_no_other_before_and_after_merging() {
    let connection = tables();
    let mut end = 1;
    for size in (1..200).chain([400; 20]) {
        settle(&connection, end..end + size);
        end += size;
    }
    assert_eq!(found(&connection, 0..2 * end), everything(1..end));
    merge_all(&connection);
    assert_eq!(found(&connection, 0..2 * end), everything(1..end));
    assert_eq!(check(&connection).unwrap(), end as u64 - 1);
}

#[test]
fn runs_stay_few_however_many_rounds_there_are_and_no_number_is_given_out_twice() {
    let connection = tables();
    let (mut ids, mut most) = (HashSet::new(), 0);
    for round in 0..600 {
        settle(&connection, 3 * round..3 * round + 3);
        merge_all(&connection);
        let now = runs(&connection).unwrap();
        most = most.max(now.len());
        ids.extend(now.iter().copied());
    }
    assert!(most < 3 * MERGED, "{most} runs");
    let numbers: HashSet<i64> = ids.iter().map(|(id, _)| *id).collect();
    assert_eq!(numbers.len(), ids.len(), "one number, two runs");
}

/// As a writer whose clerk has merged what it knew.
#[test]
fn who_knows_only_runs_that_were_merged_since_finds_every_name() {
    let connection = tables();
    for round in 0..16 {
        settle(&connection, 5 * round..5 * round + 5);
    }
    let mut names = known(&connection);
    merge_all(&connection);
    for slot in 0..80 {
        let found = names.slot_of(&connection, &name(slot)).unwrap();
        assert_eq!(found, Some(slot));
    }
}

#[test]
fn nothing_is_merged_that_is_not_ours_any_more() {
    let connection = tables();
    (0..16).for_each(|slot| settle(&connection, slot..slot + 1));
    merge(&connection, &|| false).unwrap();
    assert_eq!(runs(&connection).unwrap().len(), 16);
    merge(&connection, &|| true).unwrap();
    assert_eq!(runs(&connection).unwrap().len(), 1);
}

#[test]
fn every_part_that_was_altered_or_is_missing_is_noticed() {
    let sound = tables();
    settle(&sound, 0..100);
    assert_eq!(check(&sound).unwrap(), 100);
    for number in 0..=parts(100) {
        for damage in [
            "UPDATE names SET bytes = CAST(substr(bytes, 1, 2) || x'55' || substr(bytes, 4) AS BLOB)",
            "UPDATE names SET bytes = substr(bytes, 1, length(bytes) - 24)",
            "UPDATE names SET bytes = (SELECT bytes FROM names WHERE part = (?1 + 1) % 5)",
            "DELETE FROM names",
        ] {
            let connection = tables();
            settle(&connection, 0..100);
            let damage = format!("{damage} WHERE part = ?1");
            assert_eq!(connection.execute(&damage, [number as i64]).unwrap(), 1);
            assert!(check(&connection).is_err(), "{damage}: {number}");
            let mut names = Names::default();
            let mut found = names.refresh(&connection);
            for slot in 0..100 {
                found = found.and_then(|()| {
                    let found = names.slot_of(&connection, &name(slot))?;
                    assert_eq!(found, Some(slot), "lost in silence: {damage}");
                    Ok(())
                });
            }
            assert!(found.is_err(), "{damage}: {number}");
        }
    }
}

#[test]
fn a_run_that_is_missing_altogether_is_noticed() {
    let connection = tables();
    (0..3).for_each(|slot| settle(&connection, slot..slot + 1));
    remove(&connection, 3).unwrap();
    assert!(Names::default().refresh(&connection).is_err());
    assert!(check(&connection).is_err());
}

#[test]
fn an_entry_whose_name_should_stand_in_a_run_and_does_not_is_noticed() {
    let connection = tables();
    settle(&connection, 0..10);
    let sql = "INSERT INTO entries VALUES (99, ?1, 1, 3, 1, 0, 0, 0, '', x'00')";
    connection.execute(sql, [name(99)]).unwrap();
    assert!(check(&connection).is_err());
}

#[test]
fn a_name_is_free_again_when_its_tombstone_is_gone_and_a_run_goes_with_its_last() {
    let connection = tables();
    settle(&connection, 0..10);
    settle(&connection, 10..20);
    let drop = |slots: &str| {
        let sql = format!("DELETE FROM entries WHERE slot {slots}");
        connection.execute(&sql, []).unwrap();
        drop_stale(&connection).unwrap();
    };
    drop("< 9");
    assert_eq!(found(&connection, 0..20), everything(9..20));
    assert_eq!(runs(&connection).unwrap().len(), 2);
    drop("= 9");
    let left = runs(&connection).unwrap();
    assert_eq!(left, [(2, 10)], "the older is gone");
    assert_eq!(found(&connection, 0..20), everything(10..20));
    assert_eq!(check(&connection).unwrap(), 10);
    // Taken again, by another entry.
    let sql = "INSERT INTO entries VALUES (30, ?1, 1, 3, 1, 0, 0, 0, '', x'00')";
    connection.execute(sql, [name(3)]).unwrap();
    add(&connection, vec![(name(3), 30)]).unwrap();
    assert_eq!(found(&connection, 3..4), [30]);
}

#[test]
fn what_stands_in_the_index_or_in_a_run_is_never_called_free() {
    let connection = tables();
    settle(&connection, 0..50);
    let sql = "INSERT INTO entries VALUES (?1, ?2, 0, 0, 1, 0, 0, 0, '', x'00')";
    connection.execute(sql, (50, name(50))).unwrap();
    let mut names = known(&connection);
    let free = |names: &mut Names, slot| names.is_surely_free(&connection, &name(slot)).unwrap();
    assert!((0..=50).all(|slot| !free(&mut names, slot)));
    assert!(free(&mut names, 51));
    // The control: who has not learnt of the runs would begin a settled action anew.
    let mut blind = known(&connection);
    assert!(!free(&mut blind, 49));
    blind.runs.clear();
    assert!(free(&mut blind, 49));
    names.indexed([name(51)].into_iter());
    assert!(!free(&mut names, 51));
    // More than are worth keeping: it is read anew.
    names.indexed((1000..9000).map(name));
    assert!(!free(&mut names, 50) && free(&mut names, 1000));
}

/// As a writer whose clerk has filed a round and was not heard yet.
#[test]
fn a_name_that_goes_from_the_index_into_a_run_behind_our_back_is_never_free() {
    for knows_the_index in [true, false] {
        let connection = tables();
        settle(&connection, 0..3);
        let sql = "INSERT INTO entries VALUES (50, ?1, 0, 3, 1, 0, 0, 0, '', x'00')";
        connection.execute(sql, [name(50)]).unwrap();
        let mut names = known(&connection);
        if knows_the_index {
            assert!(!names.is_surely_free(&connection, &name(50)).unwrap());
        }
        add(
            &connection,
            crate::journal::sqlite::rows::leave_index(&connection).unwrap(),
        )
        .unwrap();
        assert!(!names.is_surely_free(&connection, &name(50)).unwrap());
        assert_eq!(names.slot_of(&connection, &name(50)).unwrap(), Some(50));
    }
}

#[test]
fn a_filter_takes_one_in_a_thousand_for_another() {
    let names: Vec<Named> = (0..10_000).map(|slot| (name(slot), slot)).collect();
    let filter = Filter::of(&names);
    assert!(names.iter().all(|(name, _)| filter.may_hold(name)));
    let wrong = (10_000..110_000).filter(|slot| filter.may_hold(&name(*slot)));
    let wrong = wrong.count();
    assert!((20..300).contains(&wrong), "{wrong} of 100000");
}
