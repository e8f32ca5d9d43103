//! Pools of sqlx whose connections come back inside transactions, as after a cancelled `begin`, a `BEGIN` in plain SQL, or
//! from a hook.

/// Runs these texts.
macro_rules! run_all {
    ($connection:expr, $texts:expr) => {{
        let connection = $connection;
        for text in $texts {
            sqlx::Executor::execute(&mut *connection, sqlx::raw_sql(text)).await?;
        }
        Ok::<(), sqlx::Error>(())
    }};
}
pub(crate) use run_all;

/// A provider over a pool of two connections. It is a macro because sqlx's own trait bounds do not carry over to generic
/// code.
macro_rules! left_open {
    ($options:ident, $connect:expr, $begin:expr, $builder:expr) => {{
        use std::sync::Arc;
        use std::sync::atomic::{AtomicBool, Ordering};
        const BEGIN: [&str; 2] = $begin;
        let is_always = Arc::new(AtomicBool::new(false));
        let [new, idle] = [Arc::clone(&is_always), Arc::clone(&is_always)];
        let pool = $options::new()
            .max_connections(2)
            .after_connect(move |connection, _| {
                let begins = new.load(Ordering::SeqCst);
                Box::pin(async move {
                    $crate::left_open::run_all!(
                        connection,
                        BEGIN.iter().filter(|_| begins).copied()
                    )
                })
            })
            .before_acquire(move |connection, _| {
                let begins = idle.load(Ordering::SeqCst);
                Box::pin(async move {
                    $crate::left_open::run_all!(
                        connection,
                        BEGIN.iter().filter(|_| begins).copied()
                    )?;
                    Ok(true)
                })
            })
            .connect_with($connect)
            .await?;
        let builder = $builder;
        let provider = builder(pool.clone())?;
        let leave = move || -> shedlock_core::BoxFuture<'static, Result<(), BoxError>> {
            let pool = pool.clone();
            Box::pin(async move {
                let (mut one, mut other) = (pool.acquire().await?, pool.acquire().await?);
                for connection in [&mut *one, &mut *other] {
                    // One that came back late may still be in the transaction of before.
                    let _ =
                        sqlx::Executor::execute(&mut *connection, sqlx::raw_sql("ROLLBACK")).await;
                    $crate::left_open::run_all!(connection, BEGIN)?;
                }
                Ok(())
            })
        };
        let always = move || is_always.store(true, Ordering::SeqCst);
        Ok(shedlock_conformance::LeftOpen::new(
            Arc::new(provider),
            leave,
            always,
        ))
    }};
}
pub(crate) use left_open;

/// Options of a pool of two connections, every 40th use of which ends with a connection that comes back inside a
/// transaction. Each of those is closed, and machines have only so many ports.
macro_rules! careless {
    ($options:ident, $begin:expr) => {{
        use std::sync::Arc;
        use std::sync::atomic::{AtomicU32, Ordering};
        const BEGIN: [&str; 2] = $begin;
        let uses = Arc::new(AtomicU32::new(1));
        $options::new()
            .max_connections(2)
            .after_release(move |connection, _| {
                let begins = uses.fetch_add(1, Ordering::Relaxed) % 40 == 0;
                Box::pin(async move {
                    let texts = if begins { &BEGIN[..] } else { &["SELECT 1"] };
                    let run = async { $crate::left_open::run_all!(connection, texts.iter().copied()) };
                    // The network may be cut. An error closes the connection without waiting for the server.
                    let limit = std::time::Duration::from_secs(1);
                    let begun =
                        shedlock_core::within(&shedlock_core::SystemClock, limit, run).await;
                    begun.unwrap_or(Err(sqlx::Error::PoolTimedOut))?;
                    Ok(true)
                })
            })
    }};
}
pub(crate) use careless;
