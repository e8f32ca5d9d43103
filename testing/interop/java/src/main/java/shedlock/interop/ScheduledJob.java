package shedlock.interop;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CopyOnWriteArrayList;
import net.javacrumbs.shedlock.core.LockProvider;
import net.javacrumbs.shedlock.spring.annotation.EnableSchedulerLock;
import net.javacrumbs.shedlock.spring.annotation.EnableSchedulerLock.InterceptMode;
import net.javacrumbs.shedlock.spring.annotation.SchedulerLock;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.context.annotation.Configuration;
import org.springframework.core.env.MapPropertySource;
import org.springframework.scheduling.annotation.EnableScheduling;
import org.springframework.scheduling.annotation.Scheduled;

/** A job as written with Spring: a proxy around the method or around the scheduler takes the lock. */
public class ScheduledJob {
    private final List<Long> runs = new CopyOnWriteArrayList<>();
    private final Duration takes;

    record Settings(
            String name,
            String cron,
            Duration atMost,
            Duration atLeast,
            Duration takes,
            boolean schedulerProxy) {}

    ScheduledJob(Duration takes) {
        this.takes = takes;
    }

    /** For the proxy only. */
    protected ScheduledJob() {
        this(Duration.ZERO);
    }

    @Scheduled(cron = "${job.cron}", zone = "UTC")
    @SchedulerLock(name = "${job.name}", lockAtMostFor = "${job.atMost}", lockAtLeastFor = "${job.atLeast}")
    public void run() throws InterruptedException {
        runs.add(System.currentTimeMillis());
        Thread.sleep(takes.toMillis());
    }

    /** Lets Spring schedule the job for a given time; returns the starts of its runs in milliseconds since 1970. */
    static List<Long> during(Duration while_, LockProvider provider, Settings settings) throws InterruptedException {
        ScheduledJob job = new ScheduledJob(settings.takes());
        try (AnnotationConfigApplicationContext context = new AnnotationConfigApplicationContext()) {
            context.getEnvironment().getPropertySources().addFirst(new MapPropertySource("job", Map.of(
                    "job.name", settings.name(),
                    "job.cron", settings.cron(),
                    "job.atMost", settings.atMost().toString(),
                    "job.atLeast", settings.atLeast().toString())));
            context.registerBean(LockProvider.class, () -> provider);
            context.registerBean(ScheduledJob.class, () -> job);
            context.register(settings.schedulerProxy() ? AroundScheduler.class : AroundMethod.class);
            context.refresh();
            Thread.sleep(while_.toMillis());
        }
        return List.copyOf(job.runs);
    }

    @Configuration
    @EnableScheduling
    @EnableSchedulerLock(defaultLockAtMostFor = "PT1M")
    static class AroundMethod {}

    /** The configuration of older services. */
    @Configuration
    @EnableScheduling
    @EnableSchedulerLock(defaultLockAtMostFor = "PT1M", interceptMode = InterceptMode.PROXY_SCHEDULER)
    static class AroundScheduler {}
}
