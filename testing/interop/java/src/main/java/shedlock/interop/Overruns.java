package shedlock.interop;

import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicInteger;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.LockProvider;
import net.javacrumbs.shedlock.core.SimpleLock;

/** Counts the locks that were given back after the end of their at-most: ShedLock guarantees nothing then. */
final class Overruns implements LockProvider {
    private final LockProvider provider;
    private final AtomicInteger count = new AtomicInteger();

    Overruns(LockProvider provider) {
        this.provider = provider;
    }

    int count() {
        return count.get();
    }

    @Override
    public Optional<SimpleLock> lock(LockConfiguration configuration) {
        long asked = System.nanoTime();
        return provider.lock(configuration).map(lock -> counted(lock, configuration.getLockAtMostFor(), asked));
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
