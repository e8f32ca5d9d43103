package shedlock.interop;

import com.google.gson.JsonArray;
import com.google.gson.JsonObject;
import java.time.Duration;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import net.javacrumbs.shedlock.core.ClockProvider;
import net.javacrumbs.shedlock.core.DefaultLockingTaskExecutor;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.LockProvider;
import net.javacrumbs.shedlock.core.LockingTaskExecutor.TaskResult;
import net.javacrumbs.shedlock.core.SimpleLock;

/** What the process can be told to do. */
final class Commands {
    private final LockProvider provider;
    private final Map<Long, SimpleLock> held = new ConcurrentHashMap<>();
    private final AtomicLong nextHandle = new AtomicLong();

    Commands(LockProvider provider) {
        this.provider = provider;
    }

    JsonObject carryOut(JsonObject command) throws Throwable {
        String what = command.get("do").getAsString();
        return switch (what) {
            case "lock" -> lock(command);
            case "unlock" -> unlock(command);
            case "extend" -> extend(command);
            case "run" -> run(command);
            case "schedule" -> schedule(command);
            default -> throw new IllegalArgumentException("no such command: " + what);
        };
    }

    /** Answers with a handle if the lock was taken. */
    private JsonObject lock(JsonObject command) {
        return handle(provider.lock(configuration(command)));
    }

    private JsonObject unlock(JsonObject command) {
        held.remove(command.get("handle").getAsLong()).unlock();
        return new JsonObject();
    }

    /** Answers with a new handle if the lock was extended; the old one is used up. */
    private JsonObject extend(JsonObject command) {
        SimpleLock lock = held.remove(command.get("handle").getAsLong());
        return handle(lock.extend(millis(command, "at_most"), millis(command, "at_least")));
    }

    /** A task that takes a while, through ShedLock's executor. */
    private JsonObject run(JsonObject command) throws Throwable {
        Duration takes = millis(command, "takes");
        TaskResult<Long> result = new DefaultLockingTaskExecutor(provider).executeWithLock(
                () -> {
                    Thread.sleep(takes.toMillis());
                    return takes.toMillis();
                },
                configuration(command));
        JsonObject answer = new JsonObject();
        answer.addProperty("executed", result.wasExecuted());
        return answer;
    }

    /** A method that Spring schedules, for a while; answers with when each of its runs began. */
    private JsonObject schedule(JsonObject command) throws InterruptedException {
        ScheduledJob.Settings settings = new ScheduledJob.Settings(
                command.get("name").getAsString(),
                command.get("cron").getAsString(),
                millis(command, "at_most"),
                millis(command, "at_least"),
                millis(command, "takes"));
        JsonArray runs = new JsonArray();
        for (long begun : ScheduledJob.during(millis(command, "during"), provider, settings)) {
            runs.add(begun);
        }
        JsonObject answer = new JsonObject();
        answer.add("runs", runs);
        return answer;
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
                command.get("name").getAsString(),
                millis(command, "at_most"),
                millis(command, "at_least"));
    }

    private static Duration millis(JsonObject command, String field) {
        return Duration.ofMillis(command.has(field) ? command.get(field).getAsLong() : 0);
    }
}
