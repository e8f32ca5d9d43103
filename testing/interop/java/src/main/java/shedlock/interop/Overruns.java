package shedlock.interop;

import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicInteger;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.LockProvider;
import net.javacrumbs.shedlock.core.SimpleLock;

/**
 * Shows whether the machine was too slow for what ShedLock guarantees: counts the locks that were given back after the
 * end of their at-most, and notes from when on the at-least of each lock counts. ShedLock reads the clock for that before it
 * asks for the lock.
 */
final class Overruns implements LockProvider {
    private final LockProvider provider;
    private final AtomicInteger count = new AtomicInteger();
    private final List<Long> since = new CopyOnWriteArrayList<>();

    Overruns(LockProvider provider) {
        this.provider = provider;
    }

    int count() {
        return count.get();
    }

    /** From when on the at-least of each lock counts, in milliseconds since 1970. */
    List<Long> since() {
        return since;
    }

    @Override
    public Optional<SimpleLock> lock(LockConfiguration configuration) {
        long asked = System.nanoTime();
        Optional<SimpleLock> lock = provider.lock(configuration);
        lock.ifPresent(taken -> since.add(configuration.getLockAtLeastUntil()
                .minus(configuration.getLockAtLeastFor())
                .toEpochMilli()));
        return lock.map(taken -> counted(taken, configuration.getLockAtMostFor(), asked));
    }

    private SimpleLock counted(SimpleLock lock, Duration atMost, long asked) {
        return () -> {
            lock.unlock();
            if (System.nanoTime() - asked >= atMost.toNanos()) {
                count.incrementAndGet();
            }
        };
    }
}
