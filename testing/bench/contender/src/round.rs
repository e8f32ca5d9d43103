//! Rounds of pairs.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use crate::{Answer, Contestant, Order, Worker, histogram};

/// The workers of a contender, which are reused for all rounds.
pub struct Rounds<C> {
    contestant: C,
    idle: HashMap<String, Vec<Box<dyn Worker>>>,
}

/// The result of one worker.
struct Done {
    worker: Box<dyn Worker>,
    latencies: Histogram<u64>,
    lost: u64,
}

impl<C: Contestant> Rounds<C> {
    /// No workers yet.
    pub fn new(contestant: C) -> Self {
        Self {
            contestant,
            idle: HashMap::new(),
        }
    }

    /// Runs a round.
    ///
    /// # Errors
    /// The error of the first worker that fails.
    pub async fn run(&mut self, order: &Order) -> anyhow::Result<Answer> {
        let mut ready = Vec::new();
        for number in 0..order.workers {
            let name = if order.contended {
                order.name.clone()
            } else {
                format!("{}-{number}", order.name)
            };
            let idle = self.idle.get_mut(&name).and_then(Vec::pop);
            let worker = match idle {
                Some(worker) => worker,
                None => self.contestant.worker(&name).await?,
            };
            ready.push((name, worker));
        }
        let begun = Instant::now();
        let running: Vec<_> = ready
            .into_iter()
            .map(|(name, worker)| (name, tokio::spawn(work(worker, order.clone(), begun))))
            .collect();
        let (mut latencies, mut lost) = (histogram(), 0);
        for (name, worker) in running {
            let done = worker.await??;
            latencies.add(&done.latencies)?;
            lost += done.lost;
            self.idle.entry(name).or_default().push(done.worker);
        }
        Ok(Answer {
            nanos: nanos(begun.elapsed()),
            lost,
            latencies: latencies
                .iter_recorded()
                .map(|value| (value.value_iterated_to(), value.count_at_value()))
                .collect(),
        })
    }
}

async fn work(mut worker: Box<dyn Worker>, order: Order, begun: Instant) -> anyhow::Result<Done> {
    let (mut latencies, mut lost, mut asked) = (histogram(), 0, 0);
    let until = begun + Duration::from_millis(order.millis);
    let mut last = Instant::now();
    while if order.pairs > 0 {
        asked < order.pairs
    } else {
        last < until
    } {
        asked += 1;
        let taken = worker.take().await?;
        if taken {
            worker.free().await?;
        }
        let now = Instant::now();
        if taken {
            latencies.saturating_record(nanos(now - last));
        } else {
            lost += 1;
        }
        last = now;
    }
    Ok(Done {
        worker,
        latencies,
        lost,
    })
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::BoxFuture;

    /// One lock, whatever its name.
    struct Flag(Arc<AtomicBool>);

    impl Contestant for Flag {
        fn worker<'a>(
            &'a mut self,
            _name: &'a str,
        ) -> BoxFuture<'a, anyhow::Result<Box<dyn Worker>>> {
            let worker: Box<dyn Worker> = Box::new(Self(Arc::clone(&self.0)));
            Box::pin(std::future::ready(Ok(worker)))
        }
    }

    impl Worker for Flag {
        fn take(&mut self) -> BoxFuture<'_, anyhow::Result<bool>> {
            let taken = !self.0.swap(true, Ordering::SeqCst);
            Box::pin(std::future::ready(Ok(taken)))
        }

        fn free(&mut self) -> BoxFuture<'_, anyhow::Result<()>> {
            self.0.store(false, Ordering::SeqCst);
            Box::pin(std::future::ready(Ok(())))
        }
    }

    fn order() -> Order {
        Order {
            name: "a".to_owned(),
            workers: 2,
            contended: false,
            millis: 0,
            pairs: 3,
        }
    }

    #[test]
    fn pairs_and_lost_attempts_are_counted_apart() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let lock = Arc::new(AtomicBool::new(false));
        let mut rounds = Rounds::new(Flag(Arc::clone(&lock)));
        let answer = runtime.block_on(rounds.run(&order())).unwrap();
        assert_eq!((answer.pairs(), answer.lost), (6, 0));
        lock.store(true, Ordering::SeqCst);
        let answer = runtime.block_on(rounds.run(&order())).unwrap();
        assert_eq!((answer.pairs(), answer.lost), (0, 6));
    }

    #[test]
    fn the_output_of_the_other_languages_is_parsed() {
        let answer = r#"{"nanos":7,"lost":1,"latencies":[[1000,2],[2000,3]]}"#;
        let answer: Answer = serde_json::from_str(answer).unwrap();
        assert_eq!(answer.pairs(), 5);
        let order = serde_json::to_string(&order()).unwrap();
        assert_eq!(
            order,
            r#"{"name":"a","workers":2,"contended":false,"millis":0,"pairs":3}"#
        );
    }
}
