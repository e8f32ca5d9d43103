package shedlock.bench;

import com.google.gson.JsonArray;
import com.google.gson.JsonObject;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import net.javacrumbs.shedlock.core.ClockProvider;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.LockProvider;
import net.javacrumbs.shedlock.core.SimpleLock;
import org.HdrHistogram.Histogram;
import org.HdrHistogram.HistogramIterationValue;

/** Runs pairs of lock and unlock with several workers for a given time. */
final class Rounds {
    /** Long enough that no lease ends during a measurement. */
    private static final Duration AT_MOST = Duration.ofMinutes(10);

    private static final long LONGEST_NANOS = Duration.ofMinutes(1).toNanos();

    private final LockProvider provider;
    private final ExecutorService threads = Executors.newCachedThreadPool();

    /** A request; the fields have the names of the JSON. */
    static final class Order {
        /** The prefix of all lock names. */
        String name;
        int workers;
        /** Whether all workers contend for one lock. */
        boolean contended;
        long millis;
        /** The number of pairs for each worker; if 0, the time limits the round. */
        long pairs;
    }

    private static final class Counts {
        final Histogram latencies = new Histogram(100, LONGEST_NANOS, 3);
        long lost;
    }

    Rounds(LockProvider provider) {
        this.provider = provider;
    }

    void once() {
        Counts counts = new Counts();
        pair("once", counts);
        if (counts.lost > 0) {
            throw new IllegalStateException("another process holds the lock");
        }
    }

    JsonObject run(Order order) throws Exception {
        long begun = System.nanoTime();
        List<Future<Counts>> running = new ArrayList<>();
        for (int worker = 0; worker < order.workers; worker++) {
            String name = order.contended ? order.name : order.name + "-" + worker;
            running.add(threads.submit(() -> work(name, order, begun)));
        }
        Counts all = new Counts();
        for (Future<Counts> worker : running) {
            Counts counts = worker.get();
            all.latencies.add(counts.latencies);
            all.lost += counts.lost;
        }
        return answer(all, System.nanoTime() - begun);
    }

    private Counts work(String name, Order order, long begun) {
        Counts counts = new Counts();
        if (order.pairs > 0) {
            for (long pair = 0; pair < order.pairs; pair++) {
                pair(name, counts);
            }
            return counts;
        }
        long nanos = Duration.ofMillis(order.millis).toNanos();
        while (System.nanoTime() - begun < nanos) {
            pair(name, counts);
        }
        return counts;
    }

    private void pair(String name, Counts counts) {
        long begun = System.nanoTime();
        Optional<SimpleLock> lock =
                provider.lock(new LockConfiguration(ClockProvider.now(), name, AT_MOST, Duration.ZERO));
        if (lock.isEmpty()) {
            counts.lost++;
            return;
        }
        lock.get().unlock();
        counts.latencies.recordValue(Math.min(System.nanoTime() - begun, LONGEST_NANOS));
    }

    private static JsonObject answer(Counts counts, long nanos) {
        JsonArray latencies = new JsonArray();
        for (HistogramIterationValue value : counts.latencies.recordedValues()) {
            JsonArray entry = new JsonArray();
            entry.add(value.getValueIteratedTo());
            entry.add(value.getCountAtValueIteratedTo());
            latencies.add(entry);
        }
        JsonObject answer = new JsonObject();
        answer.addProperty("nanos", nanos);
        answer.addProperty("lost", counts.lost);
        answer.add("latencies", latencies);
        return answer;
    }
}
