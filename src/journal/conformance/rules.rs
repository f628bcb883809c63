//! The rules themselves.

use super::{BEGUN, Broken, Stage, advance, begin, broken, ensure, join, sample, step};
use crate::entry::{Entry, Grade, Kept, Owner, Phase, Scope};
use crate::journal::{
    Begun, Journal, JournalErrorKind as Kind, Listing, Liveness, Query, Retention, Select,
};
use crate::machine::release;
use crate::retry::classify::Reason;
use crate::seam::BoxFuture;
use std::collections::HashSet;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

type Checked = Result<(), Broken>;

async fn list(journal: &dyn Journal, select: Select) -> Result<Listing, Broken> {
    let query = Query {
        select,
        ..Query::default()
    };
    Ok(journal.list(query).await?)
}

fn slots(entries: &[Entry]) -> Vec<u64> {
    entries.iter().map(|entry| entry.slot).collect()
}

async fn load(journal: &dyn Journal, entry: &Entry) -> Result<Option<Entry>, Broken> {
    Ok(journal.load(entry.slot, entry.key().clone()).await?)
}

/// What is begun and written comes back exactly, large bodies included.
pub async fn every_byte_comes_back(stage: &dyn Stage) -> Checked {
    let journal = stage.open().await?;
    let mut entry = sample(journal.owner(), "ann", "bytes", 0);
    if let Some(frozen) = Arc::get_mut(&mut entry.frozen) {
        let bytes: Vec<u8> = (0..300_000u32).map(|i| (i * 31 % 251) as u8).collect();
        frozen.body = Kept::Plain(bytes.into());
    }
    let mut entry = begin(&*journal, entry).await?;
    ensure(
        load(&*journal, &entry).await?.as_ref() == Some(&entry),
        "what was begun does not come back as it was",
    )?;
    advance(&*journal, &mut entry, Phase::Waiting).await?;
    advance(&*journal, &mut entry, Phase::Succeeded).await?;
    ensure(
        load(&*journal, &entry).await? == Some(entry),
        "what was recorded does not come back as it was",
    )
}

/// Of simultaneous begins of one intent, through several handles, one creates and the others are
/// told what exists.
pub async fn an_intent_begins_once(stage: &dyn Stage) -> Checked {
    let handles = [stage.open().await?, stage.open().await?];
    let begins: Vec<BoxFuture<'_, _>> = (0..24)
        .map(|i| {
            let journal = &handles[i % 2];
            journal.begin(sample(journal.owner(), "ann", "once", 0))
        })
        .collect();
    let mut created = Vec::new();
    let mut existing = Vec::new();
    for begun in join(begins).await {
        match begun? {
            Begun::Created(receipt) => created.push(receipt.key().clone()),
            Begun::Exists(entry) => existing.push(entry.key().clone()),
            other => return Err(broken(format!("a new intent gave {other:?}"))),
        }
    }
    ensure(
        created.len() == 1,
        &format!(
            "{} simultaneous begins of one intent were created",
            created.len()
        ),
    )?;
    ensure(
        existing.iter().all(|key| *key == created[0]),
        "a begin was told another key than the one that was created",
    )?;
    let listed = list(&*handles[0], Select::All).await?;
    ensure(listed.entries.len() == 1, "one intent has several entries")
}

/// A repeat is an entry of its own.
pub async fn generations_are_apart(stage: &dyn Stage) -> Checked {
    let journal = stage.open().await?;
    let first = begin(&*journal, sample(journal.owner(), "ann", "again", 0)).await?;
    let second = begin(&*journal, sample(journal.owner(), "ann", "again", 1)).await?;
    ensure(
        first.slot != second.slot,
        "a repeat has its predecessor's slot",
    )?;
    match journal
        .begin(sample(journal.owner(), "ann", "again", 1))
        .await?
    {
        Begun::Exists(entry) => ensure(
            *entry == second,
            "a repeat that exists was answered with another entry",
        ),
        other => Err(broken(format!("a repeat began twice: {other:?}"))),
    }
}

/// Two principals may use one intent, and neither sees the other's.
pub async fn scopes_are_apart(stage: &dyn Stage) -> Checked {
    let journal = stage.open().await?;
    let anns = begin(&*journal, sample(journal.owner(), "ann", "shared", 0)).await?;
    let bobs = begin(&*journal, sample(journal.owner(), "bob", "shared", 0)).await?;
    let query = Query {
        scope: Some(bobs.frozen.scope.clone()),
        ..Query::default()
    };
    let listed = journal.list(query).await?;
    ensure(
        slots(&listed.entries) == [bobs.slot] && anns.slot != bobs.slot,
        "a list for one scope does not hold exactly that scope's entries",
    )
}

/// Begins at the same moment all get entries of their own.
pub async fn many_begin_at_once(stage: &dyn Stage) -> Checked {
    const MANY: usize = 200;
    let journal = stage.open().await?;
    let begins: Vec<BoxFuture<'_, _>> = (0..MANY)
        .map(|i| journal.begin(sample(journal.owner(), "ann", &format!("many/{i}"), 0)))
        .collect();
    let mut seen = HashSet::new();
    for begun in join(begins).await {
        match begun? {
            Begun::Created(receipt) => seen.insert(receipt.slot()),
            other => return Err(broken(format!("a new intent was not created: {other:?}"))),
        };
    }
    ensure(seen.len() == MANY, "two entries share a slot")?;
    let listed = list(&*journal, Select::Unfinished).await?;
    ensure(
        listed
            .entries
            .iter()
            .map(|e| e.slot)
            .collect::<HashSet<_>>()
            == seen,
        "what was begun at once is not what is listed",
    )
}

/// Whoever stops waiting for a begin leaves all of it or none of it.
pub async fn a_dropped_begin_is_whole_or_nothing(stage: &dyn Stage) -> Checked {
    let journal = stage.open().await?;
    for i in 0..20 {
        let entry = sample(journal.owner(), "ann", &format!("dropped/{i}"), 0);
        let mut waiting = journal.begin(entry.clone());
        poll_fn(|context| {
            let _ = waiting.as_mut().poll(context);
            Poll::Ready(())
        })
        .await;
        drop(waiting);
        match journal.begin(entry.clone()).await? {
            Begun::Created(_) => {}
            Begun::Exists(found) => ensure(
                found.frozen == entry.frozen
                    && (found.progress == entry.progress
                        || found.progress == release(&entry.progress, true)),
                "a begin that nobody waited for left something else behind",
            )?,
            other => return Err(broken(format!("a dropped begin left {other:?}"))),
        }
    }
    let listed = list(&*journal, Select::All).await?;
    ensure(
        listed.entries.len() == 20 && listed.damaged.is_empty(),
        "dropped begins left entries that are not whole",
    )
}

/// What a begin left behind that was dropped before it answered belongs to nobody, so that another
/// process can take it although this one lives.
pub async fn a_dropped_begin_is_let_go(stage: &dyn Stage) -> Checked {
    let journal = stage.open().await?;
    let owner = journal.owner();
    let mut unanswered = HashSet::new();
    for i in 0..20 {
        let entry = sample(owner, "ann", &format!("dropped/{i}"), 0);
        let mut waiting = journal.begin(entry.clone());
        let pending =
            poll_fn(|context| Poll::Ready(waiting.as_mut().poll(context).is_pending())).await;
        drop(waiting);
        if pending {
            unanswered.insert(entry.key().clone());
        }
    }
    // Letting go may take the store a few more steps.
    for i in 0..100 {
        begin(&*journal, sample(owner, "ann", &format!("later/{i}"), 0)).await?;
        let listed = list(&*journal, Select::All).await?;
        let mut left = listed.entries.iter();
        if !left.any(|e| unanswered.contains(e.key()) && e.progress.owner != Owner::NONE) {
            return Ok(());
        }
    }
    Err(broken(
        "a begin that nobody waited for is held by an owner who does not know of it",
    ))
}

/// Receipts name the entry, the revision that was written, and the store's grade.
pub async fn revisions_grow(stage: &dyn Stage) -> Checked {
    let journal = stage.open().await?;
    let entry = sample(journal.owner(), "ann", "revisions", 0);
    let Begun::Created(receipt) = journal.begin(entry.clone()).await? else {
        return Err(broken("a new intent was not created"));
    };
    let mut entry = Entry {
        slot: receipt.slot(),
        ..entry
    };
    let mut receipts = vec![receipt];
    for phase in [Phase::Sending, Phase::Waiting, Phase::Rejected] {
        receipts.push(advance(&*journal, &mut entry, phase).await?);
    }
    for (revision, receipt) in (1..).zip(receipts) {
        ensure(
            receipt.revision() == revision
                && receipt.key() == entry.key()
                && receipt.slot() == entry.slot
                && receipt.grade() == journal.grade(),
            &format!("the receipt of revision {revision} is wrong: {receipt:?}"),
        )?;
    }
    Ok(())
}

/// A write that names an old revision, another key, no entry or a jump bounces and changes nothing.
pub async fn a_stale_write_changes_nothing(stage: &dyn Stage) -> Checked {
    let journal = stage.open().await?;
    let mut entry = begin(&*journal, sample(journal.owner(), "ann", "stale", 0)).await?;
    let other = begin(&*journal, sample(journal.owner(), "ann", "other", 0)).await?;
    let late = step(&entry, Phase::Rejected);
    advance(&*journal, &mut entry, Phase::Waiting).await?;
    let mut foreign = step(&entry, Phase::Rejected);
    foreign.key = other.key().clone();
    let mut nowhere = step(&entry, Phase::Rejected);
    nowhere.slot += 1_000;
    let mut ahead = step(&entry, Phase::Rejected);
    ahead.expected.revision += 1;
    ahead.progress.revision += 1;
    let mut jump = step(&entry, Phase::Rejected);
    jump.progress.revision += 1;
    for (name, write) in [
        ("an old revision", late),
        ("another entry's key", foreign),
        ("a slot that is not there", nowhere),
        ("a revision to come", ahead),
        ("a skipped revision", jump),
    ] {
        match journal.record(write).await {
            Err(error) if error.kind() == Kind::Stale => {}
            answer => return Err(broken(format!("a write with {name} gave {answer:?}"))),
        }
    }
    ensure(
        load(&*journal, &entry).await? == Some(entry.clone())
            && load(&*journal, &other).await? == Some(other),
        "a write that bounced changed an entry",
    )
}

/// Two drivers that write the same revision: one of them is told that it is stale.
pub async fn of_two_writes_one_wins(stage: &dyn Stage) -> Checked {
    let handles = [stage.open().await?, stage.open().await?];
    let entry = begin(&*handles[0], sample(handles[0].owner(), "ann", "race", 0)).await?;
    let writes: Vec<BoxFuture<'_, _>> = (0..8)
        .map(|i| handles[i % 2].record(step(&entry, Phase::Waiting)))
        .collect();
    let (mut won, mut stale) = (0, 0);
    for answer in join(writes).await {
        match answer {
            Ok(_) => won += 1,
            Err(error) if error.kind() == Kind::Stale => stale += 1,
            Err(error) => return Err(error.into()),
        }
    }
    ensure(
        (won, stale) == (1, 7),
        &format!("of 8 writes of one revision {won} were taken"),
    )
}

/// Two drivers claim one revision. The one that lost does not know it yet and writes on: its number
/// fits, and the entry is not its own.
pub async fn a_write_over_anothers_claim_changes_nothing(stage: &dyn Stage) -> Checked {
    let handles = [stage.open().await?, stage.open().await?];
    for phase in [Phase::Ready, Phase::Attention(Reason::Exhausted)] {
        let intent = format!("claimed/{}", phase.name());
        let mut entry = begin(&*handles[0], sample(handles[0].owner(), "ann", &intent, 0)).await?;
        advance(&*handles[0], &mut entry, phase).await?;
        let claim = |owner, epoch| {
            let mut claim = step(&entry, phase);
            (claim.progress.owner, claim.progress.epoch) = (owner, epoch);
            claim
        };
        let epoch = entry.progress.epoch + 1;
        let won = claim(handles[1].owner(), epoch);
        let lost = claim(handles[0].owner(), epoch);
        let older = claim(handles[1].owner(), epoch - 1);
        handles[1].record(won.clone()).await?;
        let now = Entry {
            progress: won.progress,
            ..entry.clone()
        };
        for (name, mistaken) in [("owner", lost), ("epoch", older)] {
            let believed = Entry {
                progress: mistaken.progress,
                ..entry.clone()
            };
            match handles[0].record(step(&believed, Phase::Waiting)).await {
                Err(error) if error.kind() == Kind::Stale => {}
                answer => {
                    let what = format!("a write that expects another {name} gave {answer:?}");
                    return Err(broken(what));
                }
            }
        }
        ensure(
            load(&*handles[0], &now).await? == Some(now.clone()),
            "a write that bounced changed another's claim",
        )?;
        advance(&*handles[1], &mut now.clone(), Phase::Waiting).await?;
    }
    Ok(())
}

/// Nothing that was begun is missing from the list, and the oldest comes first.
pub async fn what_is_begun_is_listed(stage: &dyn Stage) -> Checked {
    let journal = stage.open().await?;
    let mut begun = Vec::new();
    for i in 0..5 {
        let entry = sample(journal.owner(), "ann", &format!("listed/{i}"), 0);
        begun.push(begin(&*journal, entry).await?);
    }
    for select in [Select::All, Select::Unfinished] {
        let listed = list(&*journal, select).await?;
        ensure(
            listed.entries == begun && listed.damaged.is_empty(),
            &format!("{select:?} does not hold what was begun, oldest first"),
        )?;
    }
    let elsewhere = list(&*journal, Select::Settled).await?.entries;
    ensure(
        elsewhere.is_empty(),
        "what was only begun is listed as settled",
    )
}

/// Each phase is listed where it belongs and nowhere else.
pub async fn every_phase_is_listed_in_its_group(stage: &dyn Stage) -> Checked {
    let journal = stage.open().await?;
    let phases = [
        Phase::Ready,
        Phase::Sending,
        Phase::Waiting,
        Phase::Polling,
        Phase::Deferred,
        Phase::Succeeded,
        Phase::Rejected,
        Phase::Attention(Reason::Exhausted),
        Phase::Attention(Reason::WindowClosed),
        Phase::Abandoned,
    ];
    let mut entries = Vec::new();
    for (i, phase) in phases.into_iter().enumerate() {
        let entry = sample(journal.owner(), "ann", &format!("phase/{i}"), 0);
        let mut entry = begin(&*journal, entry).await?;
        if phase != Phase::Ready {
            advance(&*journal, &mut entry, phase).await?;
        }
        entries.push(entry);
    }
    for select in [
        Select::All,
        Select::Unfinished,
        Select::Attention,
        Select::Settled,
    ] {
        let wanted: Vec<_> = entries
            .iter()
            .filter(|entry| select.matches(entry.progress.phase))
            .cloned()
            .collect();
        ensure(
            list(&*journal, select).await?.entries == wanted,
            &format!("{select:?} does not hold exactly the entries in its phases"),
        )?;
    }
    Ok(())
}

/// Limits, pages, and the time of beginning.
pub async fn lists_are_filtered_and_paged(stage: &dyn Stage) -> Checked {
    let journal = stage.open().await?;
    let mut begun = Vec::new();
    for i in 0..7u32 {
        let mut entry = sample(journal.owner(), "ann", &format!("page/{i}"), 0);
        if let Some(frozen) = Arc::get_mut(&mut entry.frozen) {
            frozen.begun_at = BEGUN + Duration::from_secs(u64::from(i));
        }
        begun.push(begin(&*journal, entry).await?);
    }
    let (mut paged, mut after) = (Vec::new(), 0);
    loop {
        let query = Query {
            limit: 3,
            after,
            ..Query::default()
        };
        let page = journal.list(query).await?.entries;
        ensure(page.len() <= 3, "a page holds more than its limit")?;
        let Some(last) = page.last() else { break };
        after = last.slot;
        paged.extend(page);
    }
    ensure(paged == begun, "the pages do not make up the whole list")?;
    let query = Query {
        since: Some(BEGUN + Duration::from_secs(4)),
        ..Query::default()
    };
    ensure(
        journal.list(query).await?.entries == begun[4..],
        "a list since a time does not hold exactly what was begun since then",
    )
}

/// A new handle sees what an earlier one was told is written. A store of grade none may forget.
pub async fn reopening_finds_everything(stage: &dyn Stage) -> Checked {
    let journal = stage.open().await?;
    if journal.grade() == Grade::None {
        return Ok(());
    }
    let mut entries = Vec::new();
    for i in 0..3 {
        let entry = sample(journal.owner(), "ann", &format!("reopen/{i}"), 0);
        entries.push(begin(&*journal, entry).await?);
    }
    advance(&*journal, &mut entries[1], Phase::Succeeded).await?;
    advance(&*journal, &mut entries[2], Phase::Deferred).await?;
    drop(journal);
    let journal = stage.open().await?;
    ensure(
        list(&*journal, Select::All).await?.entries == entries,
        "a new handle does not see what the old one was told is written",
    )
}

/// A reference finds its entry, open or settled, within a scope or in all.
pub async fn a_reference_finds_its_entries(stage: &dyn Stage) -> Checked {
    let journal = stage.open().await?;
    let mut entries = Vec::new();
    for i in 0..4 {
        let entry = sample(journal.owner(), "ann", &format!("find/{i}"), 0);
        entries.push(begin(&*journal, entry).await?);
    }
    advance(&*journal, &mut entries[2], Phase::Succeeded).await?;
    for entry in &entries {
        let found = journal.find(entry.reference(), None).await?.entries;
        ensure(
            found == std::slice::from_ref(entry),
            "a reference does not find exactly its entry",
        )?;
    }
    let other = Scope::from_stored("conformance/bob");
    let found = journal.find(entries[0].reference(), Some(other)).await?;
    ensure(
        found.entries.is_empty(),
        "a reference found another scope's entry",
    )?;
    let unknown = sample(journal.owner(), "ann", "never begun", 0).reference();
    let found = journal.find(unknown, None).await?;
    ensure(
        found.entries.is_empty(),
        "an unknown reference found something",
    )
}

/// An entry that cannot be read is shown as damaged, never dropped, never begun anew; the others go
/// on. Skipped where the stage cannot damage anything.
pub async fn what_is_damaged_is_shown(stage: &dyn Stage) -> Checked {
    let journal = stage.open().await?;
    let owner = journal.owner();
    let hurt = begin(&*journal, sample(owner, "ann", "hurt", 0)).await?;
    let sound = begin(&*journal, sample(owner, "ann", "sound", 0)).await?;
    if !stage.damage(hurt.slot).await {
        return Ok(());
    }
    let listed = list(&*journal, Select::Unfinished).await?;
    ensure(
        listed.entries == [sound] && listed.damaged.iter().map(|d| d.slot).eq([hurt.slot]),
        "a damaged entry is not listed as such, or hides the others",
    )?;
    match journal.load(hurt.slot, hurt.key().clone()).await {
        Err(error) if error.kind() == Kind::Corrupt => {}
        answer => return Err(broken(format!("loading a damaged entry gave {answer:?}"))),
    }
    match journal.begin(sample(owner, "ann", "hurt", 0)).await {
        Ok(Begun::Damaged(damaged)) if damaged.slot == hurt.slot => Ok(()),
        answer => Err(broken(format!(
            "beginning a damaged intent gave {answer:?}"
        ))),
    }
}

/// What is forgotten cannot be done again by accident.
pub async fn forgetting_leaves_a_tombstone(stage: &dyn Stage) -> Checked {
    let journal = stage.open().await?;
    let mut entry = begin(&*journal, sample(journal.owner(), "ann", "forget", 0)).await?;
    advance(&*journal, &mut entry, Phase::Succeeded).await?;
    for _ in 0..2 {
        journal.forget(entry.slot, entry.key().clone()).await?;
    }
    ensure(
        load(&*journal, &entry).await?.is_none(),
        "a forgotten entry can be loaded",
    )?;
    let listed = list(&*journal, Select::All).await?.entries;
    let found = journal.find(entry.reference(), None).await?.entries;
    ensure(
        listed.is_empty() && found.is_empty(),
        "a forgotten entry is still listed",
    )?;
    match journal.record(step(&entry, Phase::Waiting)).await {
        Err(error) if error.kind() == Kind::Stale => {}
        answer => return Err(broken(format!("a write to a tombstone gave {answer:?}"))),
    }
    match journal
        .begin(sample(journal.owner(), "ann", "forget", 0))
        .await?
    {
        Begun::Tombstone(left) => ensure(
            left.key == *entry.key()
                && left.scope == entry.frozen.scope
                && left.intent == entry.frozen.intent
                && left.generation == 0
                && left.phase == Phase::Succeeded
                && left.ended_at == entry.progress.ended_at(),
            "the tombstone does not say what ended",
        ),
        other => Err(broken(format!("a forgotten intent began again: {other:?}"))),
    }
}

/// Open entries, and those that need attention, are not forgotten.
pub async fn only_the_settled_is_forgotten(stage: &dyn Stage) -> Checked {
    let journal = stage.open().await?;
    let open = begin(&*journal, sample(journal.owner(), "ann", "open", 0)).await?;
    let mut unsure = begin(&*journal, sample(journal.owner(), "ann", "unsure", 0)).await?;
    advance(
        &*journal,
        &mut unsure,
        Phase::Attention(Reason::WindowClosed),
    )
    .await?;
    for entry in [&open, &unsure] {
        match journal.forget(entry.slot, entry.key().clone()).await {
            Err(error) if error.kind() == Kind::NotSettled => {}
            answer => {
                return Err(broken(format!(
                    "forgetting what has not ended gave {answer:?}"
                )));
            }
        }
        ensure(
            load(&*journal, entry).await?.as_ref() == Some(entry),
            "what was not to be forgotten is gone",
        )?;
    }
    Ok(())
}

fn retention(after: Duration, batch: u32) -> Retention {
    Retention {
        now: BEGUN + after,
        settled: Duration::from_secs(100),
        tombstones: Duration::from_secs(1_000),
        batch,
    }
}

/// Reaping takes what ended long enough ago, in batches, and nothing that is open or unsure.
pub async fn reaping_spares_what_is_not_over(stage: &dyn Stage) -> Checked {
    let journal = stage.open().await?;
    let mut kept = Vec::new();
    for (i, phase) in [
        Phase::Waiting,
        Phase::Deferred,
        Phase::Attention(Reason::Exhausted),
        Phase::Attention(Reason::KeyMismatch),
    ]
    .into_iter()
    .enumerate()
    {
        let entry = sample(journal.owner(), "ann", &format!("spared/{i}"), 0);
        let mut entry = begin(&*journal, entry).await?;
        advance(&*journal, &mut entry, phase).await?;
        kept.push(entry);
    }
    for i in 0..5 {
        let entry = sample(journal.owner(), "ann", &format!("over/{i}"), 0);
        let mut entry = begin(&*journal, entry).await?;
        advance(&*journal, &mut entry, Phase::Succeeded).await?;
    }
    let early = journal
        .reap(retention(Duration::from_secs(90), 100))
        .await?;
    ensure(early.entries == 0, "an entry was reaped before its time")?;
    let mut total = 0;
    for _ in 0..5 {
        let reaped = journal.reap(retention(Duration::from_secs(500), 2)).await?;
        ensure(reaped.entries <= 2, "a batch was larger than asked for")?;
        total += reaped.entries;
    }
    ensure(
        total == 5,
        &format!("{total} of 5 settled entries were reaped"),
    )?;
    ensure(
        list(&*journal, Select::All).await?.entries == kept,
        "reaping took what is open or needs attention, or left what is over",
    )
}

/// An intent is guarded as long as its tombstone stands. A store may keep its newest one longer.
pub async fn reaping_ends_with_the_tombstone(stage: &dyn Stage) -> Checked {
    let journal = stage.open().await?;
    let owner = journal.owner();
    let mut entry = begin(&*journal, sample(owner, "ann", "guarded", 0)).await?;
    advance(&*journal, &mut entry, Phase::Rejected).await?;
    begin(&*journal, sample(owner, "ann", "newer", 0)).await?;
    journal
        .reap(retention(Duration::from_secs(500), 10))
        .await?;
    match journal.begin(sample(owner, "ann", "guarded", 0)).await? {
        Begun::Tombstone(_) => {}
        other => return Err(broken(format!("a reaped intent began again: {other:?}"))),
    }
    let mut dropped = 0;
    for _ in 0..2 {
        let late = retention(Duration::from_secs(5_000), 10);
        dropped += journal.reap(late).await?.tombstones;
    }
    ensure(dropped == 1, "an old tombstone was not dropped")?;
    begin(&*journal, sample(owner, "ann", "guarded", 0)).await?;
    Ok(())
}

/// Every open is an owner of its own, alive until it is dropped.
pub async fn owners_live_and_die(stage: &dyn Stage) -> Checked {
    let first = stage.open().await?;
    let second = stage.open().await?;
    ensure(
        first.owner() != second.owner()
            && first.owner() != Owner::NONE
            && second.owner() != Owner::NONE,
        "two handles have one owner, or none",
    )?;
    for journal in [&first, &second] {
        for owner in [first.owner(), second.owner()] {
            ensure(
                journal.liveness(owner).await? == Liveness::Alive,
                "an owner that lives is not said to",
            )?;
        }
        for owner in [Owner::NONE, Owner(u128::MAX)] {
            ensure(
                journal.liveness(owner).await? == Liveness::Dead,
                "an owner that never was is said to live",
            )?;
        }
    }
    let gone = second.owner();
    drop(second);
    ensure(
        first.liveness(gone).await? == Liveness::Dead,
        "an owner that is gone is said to live",
    )?;
    let third = stage.open().await?;
    ensure(third.owner() != gone, "an owner came back from the dead")
}
