package shedlock.spring;

import java.time.Duration;
import net.javacrumbs.shedlock.core.LockAssert;
import net.javacrumbs.shedlock.core.LockExtender;
import net.javacrumbs.shedlock.spring.annotation.LockProviderToUse;
import net.javacrumbs.shedlock.spring.annotation.SchedulerLock;
import org.springframework.scheduling.annotation.Scheduled;
import org.springframework.stereotype.Component;

/**
 * The jobs. {@code crates/cli/tests/spring/jobs.rs} lists them too. Each run prints a line: its job, its begin and its
 * end, in milliseconds since 1970.
 */
@Component
public class Jobs {
    @Scheduled(cron = "*/5 * * * * *", zone = "UTC")
    @SchedulerLock(name = "invoices", lockAtMostFor = "4500ms", lockAtLeastFor = "3s")
    public void invoices() throws InterruptedException {
        run("invoices", 100);
    }

    /** Only Spring runs it. */
    @Scheduled(cron = "*/5 * * * * *", zone = "UTC")
    @SchedulerLock(name = "#{'spring-' + 'only'}", lockAtMostFor = "PT4.5S", lockAtLeastFor = "PT3S")
    public void springOnly() throws InterruptedException {
        run("spring-only", 100);
    }

    @Scheduled(cron = "2/5 * * * * *", zone = "UTC")
    @SchedulerLock(name = "failing", lockAtMostFor = "4500ms", lockAtLeastFor = "3s")
    public void failing() throws InterruptedException {
        run("failing", 100);
        throw new IllegalStateException("the mail server is down");
    }

    /** Longer than its lock, without the extension. */
    @Scheduled(cron = "*/10 * * * * *", zone = "UTC")
    @SchedulerLock(name = "extended", lockAtMostFor = "5s", lockAtLeastFor = "4s")
    public void extended() throws InterruptedException {
        LockExtender.extendActiveLock(Duration.ofSeconds(9), Duration.ofSeconds(4));
        run("extended", 6_000);
    }

    /** Extended half-way through its lock. */
    @Scheduled(cron = "*/30 * * * * *", zone = "UTC")
    @SchedulerLock(name = "kept-alive", lockAtMostFor = "30s", lockAtLeastFor = "4s")
    @LockProviderToUse("keepAlive")
    public void keptAlive() throws InterruptedException {
        run("kept-alive", 18_000);
    }

    @Scheduled(fixedRate = 2_000)
    @SchedulerLock(name = "fixed-rate", lockAtMostFor = "5s", lockAtLeastFor = "1s")
    public void fixedRate() throws InterruptedException {
        run("fixed-rate", 100);
    }

    private static void run(String job, long millis) throws InterruptedException {
        LockAssert.assertLocked();
        long begun = System.currentTimeMillis();
        Thread.sleep(millis);
        System.out.println("ran " + job + " " + begun + " " + System.currentTimeMillis());
    }
}
