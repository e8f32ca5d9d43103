package shedlock.interop;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.atomic.AtomicLong;
import net.javacrumbs.shedlock.core.ClockProvider;
import net.javacrumbs.shedlock.core.DefaultLockingTaskExecutor;
import net.javacrumbs.shedlock.core.ExtensibleLockProvider;
import net.javacrumbs.shedlock.core.LockAssert;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.LockExtender;
import net.javacrumbs.shedlock.core.LockProvider;
import net.javacrumbs.shedlock.core.LockingTaskExecutor;
import net.javacrumbs.shedlock.core.LockingTaskExecutor.TaskResult;
import net.javacrumbs.shedlock.core.SimpleLock;
import net.javacrumbs.shedlock.support.KeepAliveLockProvider;

/** The commands of this process. */
final class Commands {
    /**
     * The names that were asked for. ShedLock remembers a name as long as its string is in use, as that of an
     * annotation is; without this, a garbage collection would decide what it remembers.
     */
    private static final Map<String, String> NAMES = new ConcurrentHashMap<>();

    private final List<LockProvider> providers = new CopyOnWriteArrayList<>();
    private final Map<Long, SimpleLock> held = new ConcurrentHashMap<>();
    private final AtomicLong nextHandle = new AtomicLong();
    private final ScheduledExecutorService keepingAlive = Executors.newScheduledThreadPool(1, task -> {
        Thread thread = new Thread(task);
        thread.setDaemon(true);
        return thread;
    });

    Commands(List<LockProvider> providers) {
        this.providers.addAll(providers);
    }

    /** Marks the answer as {@code doubtful} if ShedLock hides a possible failure of the store. */
    JsonObject carryOut(JsonObject command) throws Throwable {
        Commits.reset();
        JsonObject answer = answer(command);
        if (Commits.areDoubtful()) {
            answer.addProperty("doubtful", true);
        }
        return answer;
    }

    private JsonObject answer(JsonObject command) throws Throwable {
        String what = command.get("do").getAsString();
        return switch (what) {
            case "open" -> open(command);
            case "lock" -> lock(command);
            case "unlock" -> unlock(command);
            case "extend" -> extend(command);
            case "run" -> run(command);
            case "schedule" -> schedule(command);
            case "cron" -> SpringCron.slots(command);
            default -> throw new IllegalArgumentException("no such command: " + what);
        };
    }

    /** Opens another provider; answers with its number, which other commands refer to. */
    private JsonObject open(JsonObject command) {
        String[] args = command.getAsJsonArray("arguments").asList().stream()
                .map(JsonElement::getAsString)
                .toArray(String[]::new);
        LockProvider provider = Stores.open(args);
        JsonObject answer = new JsonObject();
        synchronized (providers) {
            answer.addProperty("provider", providers.size());
            providers.add(provider);
        }
        return answer;
    }

    /** Answers with a handle if the lock was taken. */
    private JsonObject lock(JsonObject command) {
        LockProvider provider = provider(command);
        if (command.has("keep_alive")) {
            provider = new KeepAliveLockProvider(extensible(provider), keepingAlive);
        }
        return handle(provider.lock(configuration(command)));
    }

    private JsonObject unlock(JsonObject command) {
        held.remove(command.get("handle").getAsLong()).unlock();
        return new JsonObject();
    }

    /** Answers with a new handle if the lock was extended; the old handle is no longer valid. */
    private JsonObject extend(JsonObject command) {
        long handle = command.get("handle").getAsLong();
        Optional<SimpleLock> extended =
                held.get(handle).extend(millis(command, "at_most"), millis(command, "at_least"));
        held.remove(handle);
        return handle(extended);
    }

    /**
     * Runs a task of a given length through ShedLock's executor. On request, the task first runs another
     * one under the same lock, and extends the lock. Answers with the time at which it ended, if it ran.
     */
    private JsonObject run(JsonObject command) throws Throwable {
        Duration takes = millis(command, "takes");
        LockingTaskExecutor executor = new DefaultLockingTaskExecutor(provider(command));
        LockConfiguration configuration = configuration(command);
        TaskResult<Long> result = executor.executeWithLock(
                () -> {
                    LockAssert.assertLocked();
                    if (command.has("nested")) {
                        executor.executeWithLock((Runnable) LockAssert::assertLocked, configuration);
                    }
                    if (command.has("extend")) {
                        LockExtender.extendActiveLock(millis(command, "extend"), Duration.ZERO);
                    }
                    Thread.sleep(takes.toMillis());
                    return System.currentTimeMillis();
                },
                configuration);
        JsonObject answer = new JsonObject();
        answer.addProperty("ended", result.getResult());
        return answer;
    }

    /**
     * Lets Spring schedule a method for a given time; answers with the start of each run, with the time from which the
     * at-least of each run's lock counts, and with the number of runs that outlived their lock.
     */
    private JsonObject schedule(JsonObject command) throws InterruptedException {
        ScheduledJob.Settings settings = new ScheduledJob.Settings(
                command.get("name").getAsString(),
                command.get("cron").getAsString(),
                millis(command, "at_most"),
                millis(command, "at_least"),
                millis(command, "takes"),
                command.has("scheduler_proxy"));
        JsonArray runs = new JsonArray();
        Overruns provider = new Overruns(provider(command));
        for (long begun : ScheduledJob.during(millis(command, "during"), provider, settings)) {
            runs.add(begun);
        }
        JsonArray since = new JsonArray();
        provider.since().forEach(since::add);
        JsonObject answer = new JsonObject();
        answer.add("runs", runs);
        answer.add("since", since);
        answer.addProperty("overruns", provider.count());
        return answer;
    }

    private LockProvider provider(JsonObject command) {
        return providers.get(command.has("provider") ? command.get("provider").getAsInt() : 0);
    }

    private static ExtensibleLockProvider extensible(LockProvider provider) {
        if (provider instanceof ExtensibleLockProvider extensible) {
            return extensible;
        }
        throw new UnsupportedOperationException("not extensible: " + provider.getClass());
    }

    private JsonObject handle(Optional<SimpleLock> lock) {
        JsonObject answer = new JsonObject();
        lock.ifPresent(taken -> {
            long handle = nextHandle.incrementAndGet();
            held.put(handle, taken);
            answer.addProperty("handle", handle);
        });
        return answer;
    }

    private static LockConfiguration configuration(JsonObject command) {
        return new LockConfiguration(
                ClockProvider.now(),
                NAMES.computeIfAbsent(command.get("name").getAsString(), name -> name),
                millis(command, "at_most"),
                millis(command, "at_least"));
    }

    private static Duration millis(JsonObject command, String field) {
        return Duration.ofMillis(command.has(field) ? command.get(field).getAsLong() : 0);
    }
}
